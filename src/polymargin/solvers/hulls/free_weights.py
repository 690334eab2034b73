"""The exact minimum on the face of the free weights, for hulls on which pairs creep.

Pairs find out which weights are free; how they share is a small linear system, which is solved as
such where the pairs would need very many steps (nearly parallel examples, tiny f).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

__all__ = ["FACE_LIMIT", "descend_on_face"]

FACE_LIMIT = 1000
_EIGEN_LIMIT = 300
_WORK = 5e8  # cubes of sizes, all systems of one visit together


def descend_on_face(
    H: np.ndarray, g: np.ndarray, u: np.ndarray, cap: np.ndarray, label: np.ndarray
) -> np.ndarray:
    """New weights in [0, cap] with the same class sums, at most as high as ``u`` in f.

    Parameters
    ----------
    H : (m, m) second derivatives 2 Kbar of the free weights.
    g : (m,) gradient.
    u, cap : (m,) weights and their bounds.
    label : (m,) classes.

    Newton steps with exact solution; a weight that meets its bound is fixed and the rest goes on.
    """
    u, g = u.copy(), g.copy()
    alive = np.arange(len(u))
    work = 0.0
    while len(alive) > 1 and work < _WORK:
        work += float(len(alive)) ** 3
        d = _newton(H[np.ix_(alive, alive)], g[alive], label[alive])
        slope = float(g[alive] @ d)
        curvature = float(d @ (H[np.ix_(alive, alive)] @ d))
        if not slope < 0.0:
            break
        room = np.where(d > 0.0, cap[alive] - u[alive], u[alive])
        with np.errstate(divide="ignore", invalid="ignore"):
            limits = np.where(d != 0.0, room / np.abs(d), np.inf)
        best = -slope / curvature if curvature > 0.0 else np.inf
        step = min(best, float(limits.min()))
        if not 0.0 <= step < np.inf:
            break
        u[alive] = np.clip(u[alive] + step * d, 0.0, cap[alive])
        g += H[:, alive] @ (step * d)
        hit = limits <= step
        if not hit.any():
            break
        u[alive[hit]] = np.where(d[hit] > 0.0, cap[alive[hit]], 0.0)
        alive = alive[~hit]
    return u


def _newton(H: np.ndarray, g: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Minimises d'Hd / 2 + g'd over directions whose class sums are zero."""
    E = (label[:, None] == np.unique(label)[None, :]).astype(np.float64)
    E /= np.sqrt(E.sum(axis=0))  # orthonormal: projecting is subtracting E E'
    H = H - E @ (E.T @ H)
    H = H - (H @ E) @ E.T
    g = g - E @ (E.T @ g)
    if len(g) <= _EIGEN_LIMIT:
        values, vectors = np.linalg.eigh(0.5 * (H + H.T))
        keep = values > 1e-14 * len(g) * values[-1]
        d = -vectors[:, keep] @ ((vectors[:, keep].T @ g) / values[keep])
    else:
        level = float(np.trace(H)) / len(g)
        H += level * (E @ E.T)
        H[np.diag_indices_from(H)] += 1e-12 * level
        try:
            d = -scipy.linalg.cho_solve(scipy.linalg.cho_factor(H, check_finite=False), g)
        except np.linalg.LinAlgError:  # an indefinite kernel
            d = -g
    return d - E @ (E.T @ d)
