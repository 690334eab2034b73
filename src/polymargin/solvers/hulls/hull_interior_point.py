"""Interior point for small hull problems that are badly conditioned: many steps of any other kind.

Smooth kernels on overlapping classes make hulls that almost meet; f is then tiny and the matrix of
the problem nearly singular.  A few dozen factorisations find the neighbourhood of the solution.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.linalg

__all__ = ["INTERIOR_LIMIT", "interior_point"]

INTERIOR_LIMIT = 2000
_MAX_ITERATIONS = 80
_NEAR = 1e-7  # of the largest weight of the class: a bound this near is meant
_BACK = 0.995  # of the way to the nearest bound


def interior_point(
    H: np.ndarray,
    cap: np.ndarray,
    label: np.ndarray,
    n_classes: int,
    goal: Callable[[float], float],
    why_stop: Callable[[], str | None],
) -> np.ndarray | None:
    """Weights near the minimum of u'Hu / 2 with class sums 1 and 0 <= u <= cap, or None.

    Problem card: (7.1) with H = 2 Kbar.  Predictor and corrector steps on the optimality conditions
    Hu - y_class - z + w = 0, uz = (cap - u) w = mu -> 0.  None where there is no interior, no
    time, or no feasible rounding.

    Parameters
    ----------
    H : (n, n) second derivatives.
    goal : callable
        The gap wanted at a value of f.
    """
    mass = np.bincount(label, cap, n_classes)
    if mass.min() <= 1.0 + 1e-6:
        return None
    E = np.zeros((len(label), n_classes))
    E[np.arange(len(label)), label] = 1.0
    state = _State(H, cap, E, cap / mass[label])
    for _ in range(_MAX_ITERATIONS):
        if why_stop():
            return None
        value = 0.5 * float(state.u @ state.Hu)
        if state.gap <= 0.1 * goal(value) or not state.step():
            break
    return _rounded(state.u, cap, label, n_classes)


def _rounded(
    u: np.ndarray, cap: np.ndarray, label: np.ndarray, n_classes: int
) -> np.ndarray | None:
    """Weights next to a bound go there; the others share what that takes from the class sums."""
    largest = np.zeros(n_classes)
    np.maximum.at(largest, label, u)
    near = _NEAR * largest[label]
    full = u > cap - near
    free = np.where(full | (u < near), 0.0, u)
    fixed = np.bincount(label[full], cap[full], n_classes)
    total = np.bincount(label, free, n_classes)
    factor = np.divide(1.0 - fixed, total, out=np.ones(n_classes), where=total > 0.0)
    u = np.clip(np.where(full, cap, free * factor[label]), 0.0, cap)
    sums = np.bincount(label, u, n_classes)
    return u if np.abs(sums - 1.0).max() <= 1e-12 else None


class _State:
    """The point (u, y, z, w) with slack s = cap - u."""

    def __init__(self, H: np.ndarray, cap: np.ndarray, E: np.ndarray, u: np.ndarray) -> None:
        self.H, self.cap, self.E, self.u = H, cap, E, u
        self.diagonal = H.diagonal().copy()
        self.Hu = H @ u
        level = max(float(np.abs(self.Hu).max()), 1e-12 * float(self.diagonal.max()))
        self.z = np.full(len(u), level)
        self.w = np.full(len(u), level)
        self.y = np.zeros(E.shape[1])

    @property
    def slack(self) -> np.ndarray:
        return self.cap - self.u

    @property
    def gap(self) -> float:
        return float(self.u @ self.z + self.slack @ self.w)

    def step(self) -> bool:
        """One predictor-corrector step; False where it leads nowhere."""
        u, z, w, s = self.u, self.z, self.w, self.slack
        if s.min() <= 0.0 or u.min() <= 0.0:
            return False
        solve = self._factor(z / u + w / s)
        if solve is None:
            return False
        try:
            return self._advance(solve)
        except np.linalg.LinAlgError:  # the arithmetic cannot tell the class sums apart
            return False

    def _advance(self, solve: Callable[[np.ndarray], np.ndarray]) -> bool:
        u, z, w, s = self.u, self.z, self.w, self.slack
        mu = self.gap / (2 * len(u))
        zero = np.zeros(len(u))
        du, dz, dw, _ = self._direction(solve, zero, zero)
        a, b = _room(u, du, s, -du), _room(z, dz, w, dw)
        after = float((u + a * du) @ (z + b * dz) + (s - a * du) @ (w + b * dw)) / (2 * len(u))
        centre = (after / mu) ** 3 * mu
        du, dz, dw, dy = self._direction(solve, centre - du * dz, centre + du * dw)
        a = _BACK * _room(u, du, s, -du)
        b = _BACK * _room(z, dz, w, dw)
        if not (np.isfinite(du).all() and max(a, b) > 1e-10):
            return False
        self.u = u + a * du
        self.z, self.w, self.y = z + b * dz, w + b * dw, self.y + b * dy
        self.Hu = self.H @ self.u
        return True

    def _factor(self, D: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
        """Solver of (H + D + ridge) x = r; the ridge grows until the factor exists."""
        for ridge in (1e-15, 1e-13, 1e-11):
            A = self.H.copy()
            A[np.diag_indices_from(A)] += D + ridge * self.diagonal.max()
            try:
                factor = scipy.linalg.cho_factor(A, overwrite_a=True, check_finite=False)
            except np.linalg.LinAlgError:
                continue
            return partial(scipy.linalg.cho_solve, factor, check_finite=False)
        return None

    def _direction(
        self, solve: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Newton direction towards uz = low-corrected, sw = high-corrected complementarity."""
        u, z, w, s, E = self.u, self.z, self.w, self.slack, self.E
        dual = self.Hu - E @ self.y - z + w
        right = -dual + (low / u - z) - (high / s - w)
        columns = solve(np.column_stack([right, E]))
        free, shift = columns[:, 0], columns[:, 1:]
        missing = 1.0 - E.T @ u
        dy = np.linalg.solve(E.T @ shift, missing - E.T @ free)
        du = free + shift @ dy
        dz = low / u - z - z / u * du
        dw = high / s - w + w / s * du
        return du, dz, dw, dy


def _room(a: np.ndarray, da: np.ndarray, b: np.ndarray, db: np.ndarray) -> float:
    """The largest step in [0, 1] that keeps a and b non-negative."""
    limit = 1.0
    for x, dx in ((a, da), (b, db)):
        down = dx < 0.0
        if down.any():
            limit = min(limit, float((x[down] / -dx[down]).min()))
    return limit
