"""The shortest step into a polyhedron, in the norms 1, 2 and infinity.

    minimise ||d||  subject to  G d >= h,  low <= d <= high

Norm 2 is a least-distance problem, solved exactly by non-negative least squares (Lawson & Hanson,
Solving Least Squares Problems, 1974, chapter 23) after a reduction to the rows of G; norms 1 and
infinity are linear programmes.  A step that meets its most demanding constraint alone has a closed
form; where that satisfies all others it is the answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog, nnls

from polymargin.explanation.model_view import dual_norm

__all__ = ["nearest_step", "step_length"]

# Constraints are divided by their norms and by the distance to the farthest one, so that steps
# are of order one; a violation of this size is rounding, not a wrong answer.
_FEASIBLE = 1e-9
_NO_POINT = 1e-11  # a residual below says that no point exists: the step would exceed 1e5 units
_LP_OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def step_length(step: np.ndarray, norm: Any) -> float:
    """The norm of a step; squares of its numbers may overflow."""
    unit = float(np.abs(step).max(initial=0.0))
    if unit == 0.0 or not np.isfinite(unit):
        return unit
    return unit * float(np.linalg.norm(step / unit, np.inf if norm == "inf" else norm))


def nearest_step(
    G: np.ndarray,
    h: np.ndarray,
    norm: Any = 2,
    low: np.ndarray | None = None,
    high: np.ndarray | None = None,
) -> np.ndarray | None:
    """The shortest d with G d >= h and low <= d <= high; None where there is none.

    Parameters
    ----------
    G : ndarray of shape (m, k)
    h : ndarray of shape (m,)
    norm : {1, 2, "inf"}
    low, high : ndarray of shape (k,) or None
        May be infinite.
    """
    k = G.shape[1]
    low = np.full(k, -np.inf) if low is None else low
    high = np.full(k, np.inf) if high is None else high
    if (low > high).any():
        return None
    size = dual_norm(G, norm)
    flat = size <= 0.0
    if (h[flat] > 0.0).any():
        return None
    G, h, size = G[~flat], h[~flat], size[~flat]
    forced = np.clip(np.zeros(k), low, high)  # not zero where the row lies outside its bounds
    need = h / size if len(h) else np.zeros(0)
    scale = max(float(need.max(initial=0.0)), step_length(forced, norm))
    if scale <= 0.0:
        return np.zeros(k)
    G, h = G / size[:, None], need / scale
    low, high = low / scale, high / scale
    step = _single_constraint(G, h, norm, low, high)
    if step is None:
        solve = _least_distance if norm == 2 else _linear_programme
        step = solve(G, h, norm, low, high)
    return None if step is None else np.asarray(scale * step)


def _satisfies(d: np.ndarray, G: np.ndarray, h: np.ndarray, low: Any, high: Any) -> bool:
    slack = _FEASIBLE * max(1.0, float(np.abs(d).max(initial=0.0)))
    inside = bool((d >= low - slack).all() and (d <= high + slack).all())
    return inside and bool((G @ d >= h - slack).all())


def _single_constraint(
    G: np.ndarray, h: np.ndarray, norm: Any, low: np.ndarray, high: np.ndarray
) -> np.ndarray | None:
    """The closed form for the most demanding constraint, if it satisfies the others."""
    if not len(h) or h.max() <= 0.0:
        return None
    worst = int(np.argmax(h))
    g, need = G[worst], h[worst]
    if norm == 2:
        d = need * g / (g @ g)
    elif norm == 1:
        j = int(np.argmax(np.abs(g)))
        d = np.zeros(len(g))
        d[j] = need / g[j]
    else:
        d = need * np.sign(g) / np.abs(g).sum()
    return d if _satisfies(d, G, h, low, high) else None


# -- norm 2 ------------------------------------------------------------------------------------


def _least_distance(
    G: np.ndarray, h: np.ndarray, norm: Any, low: np.ndarray, high: np.ndarray
) -> np.ndarray | None:
    """Norm 2; bounds enter as constraints once a solution without them violates them."""
    bounds: list[tuple[int, bool]] = []
    rows, need = G, h
    while True:
        step = _project(rows, need)
        if step is None:
            step = _far_point(rows, need, low, high)
            if step is None:
                return None
        slack = _FEASIBLE * max(1.0, float(np.abs(step).max(initial=0.0)))
        under = [(int(j), True) for j in np.flatnonzero(step < low - slack)]
        over = [(int(j), False) for j in np.flatnonzero(step > high + slack)]
        new = [one for one in under + over if one not in set(bounds)]
        if not new:
            return np.clip(step, low, high)
        bounds += new
        extra = np.zeros((len(bounds), G.shape[1]))
        at = np.array([j for j, _ in bounds])
        is_low = np.array([lower for _, lower in bounds])
        extra[np.arange(len(bounds)), at] = np.where(is_low, 1.0, -1.0)
        rows = np.vstack([G, extra])
        need = np.concatenate([h, np.where(is_low, low[at], -high[at])])


def _project(G: np.ndarray, h: np.ndarray) -> np.ndarray | None:
    """The shortest d with G d >= h; None where no point was found within 1e5 units.

    min ||E u - e||, u >= 0, with E = [R; h'], e = (0, ..., 0, 1) and G' = Q R: for the residual
    v = E u - e, d = -Q v[:-1] / v[-1].
    """
    if not len(h):
        return np.zeros(G.shape[1])
    Q, R = np.linalg.qr(G.T)
    E = np.vstack([R, h[None, :]])
    e = np.zeros(len(E))
    e[-1] = 1.0
    try:
        u, distance = nnls(E, e, maxiter=30 * len(h))
    except RuntimeError:  # cycling on degenerate constraints: the caller takes another way
        return None
    v = E @ u - e
    if distance**2 <= _NO_POINT or abs(v[-1]) <= _NO_POINT:
        return None
    step = np.asarray(Q @ (-v[:-1] / v[-1]))
    return _polished(step, G, h, np.flatnonzero(u > 0.0))


def _polished(step: np.ndarray, G: np.ndarray, h: np.ndarray, active: np.ndarray) -> np.ndarray:
    """The step again, from its active constraints as equations: all digits."""
    if not len(active):
        return step
    exact = np.linalg.lstsq(G[active], h[active], rcond=None)[0]
    better = (h - G @ exact).max() <= max((h - G @ step).max(), 1e-12 * np.abs(h).max())
    close = np.abs(exact - step).max() <= 1e-4 * max(1.0, np.abs(step).max())
    return exact if better and close else step


def _far_point(
    G: np.ndarray, h: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray | None:
    """Projection again in units of a point that a linear programme found, None if it found none."""
    found = _linear_programme(G, h, 1, low, high)
    if found is None:
        return None
    scale = max(step_length(found, 2), 1.0)
    step = _project(G, h / scale)
    return found if step is None else scale * step


# -- norms 1 and infinity ----------------------------------------------------------------------


def _linear_programme(
    G: np.ndarray, h: np.ndarray, norm: Any, low: np.ndarray, high: np.ndarray
) -> np.ndarray | None:
    """Norm 1: d = p - n with least sum; infinity: the least t with -t <= d <= t."""
    k = G.shape[1]
    if norm == 1:
        positive = np.column_stack([np.maximum(low, 0.0), np.maximum(high, 0.0)])
        negative = np.column_stack([np.maximum(-high, 0.0), np.maximum(-low, 0.0)])
        cost, A, b = np.ones(2 * k), np.hstack([-G, G]), -h
        limits = np.vstack([positive, negative])
    else:
        eye, ones = sp.eye_array(k), sp.csr_array(np.full((k, 1), -1.0))
        rows = [
            sp.hstack([sp.csr_array(-G), sp.csr_array((len(h), 1))]),
            sp.hstack([eye, ones]),
            sp.hstack([-eye, ones]),
        ]
        cost, A = np.append(np.zeros(k), 1.0), sp.vstack(rows).tocsr()
        b = np.concatenate([-h, np.zeros(2 * k)])
        limits = np.vstack([np.column_stack([low, high]), [0.0, np.inf]])
    found = linprog(cost, A_ub=A, b_ub=b, bounds=limits, method="highs", options=_LP_OPTIONS)
    if not found.success:
        return None
    return np.asarray(found.x[:k] - found.x[k:] if norm == 1 else found.x[:k])
