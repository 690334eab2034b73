"""The best unpenalised intercept b of given scores, machine by machine.

Every b with sum zero gives a valid primal value; these give the least one.  Where the best b is not
a single point the one of minimum norm is returned: permuting or weighting the data must not change
predictions (19.9).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from polymargin.compiled.circulation import cheapest_circulation
from polymargin.problem.machines import Machine, quadratic_slacks

__all__ = [
    "Bias",
    "best_bias",
    "column_bias",
    "column_flow",
    "flow_bias",
    "minimum_cycle_mean",
    "minimum_norm_potential",
    "pair_margins",
    "quadratic_bias",
]


class Bias(NamedTuple):
    """An intercept of sum zero, and how far the best ones lie apart (0: it is unique)."""

    b: np.ndarray
    width: float


def best_bias(
    machine: Machine,
    scores: np.ndarray,
    own: np.ndarray,
    cap: np.ndarray,
    start: np.ndarray | None = None,
) -> Bias:
    """The best b of scores (n, Q) without intercept under a soft margin."""
    if machine.p == 2:
        return quadratic_bias(machine.deficits(scores, own), own, cap, start)
    if machine.K1 == 0:
        return column_bias(-machine.deficits(scores, own), own, cap)
    return flow_bias(-machine.deficits(scores, own), own, cap, start)


def flow_bias(
    cost: np.ndarray, own: np.ndarray, cap: np.ndarray, start: np.ndarray | None = None
) -> Bias:
    """Weston-Watkins: potentials of the cheapest circulation (4.10)."""
    found = cheapest_circulation(cost, own, cap, start)
    upper = np.minimum(found.high, -found.low.T)
    return minimum_norm_potential(upper, found.bias)


def minimum_norm_potential(upper: np.ndarray, fallback: np.ndarray) -> Bias:
    """The b of least norm with b_c - b_a <= upper[a, c], and the width of the set of such b.

    ``fallback`` is one of them, kept where rounding leaves none.
    """
    Q = len(upper)
    closed = upper.copy()
    np.fill_diagonal(closed, 0.0)
    for v in range(Q):
        closed = np.minimum(closed, closed[:, [v]] + closed[[v], :])
    width = float((closed + closed.T).max())
    scale = 1.0 + float(np.abs(fallback).max())
    if width <= 1e-12 * scale:
        return Bias(fallback - fallback.mean(), 0.0)
    b = _least_distance(closed)
    lack = float((b[None, :] - b[:, None] - closed).max()) if b is not None else np.inf
    if b is None or not lack <= 1e-9 * scale:
        b = fallback - fallback.mean()
    return Bias(b, width)


def _least_distance(upper: np.ndarray) -> np.ndarray | None:
    """min ||b|| s.t. b_c - b_a <= upper[a, c], as non-negative least squares."""
    Q = len(upper)
    a, c = np.nonzero(np.isfinite(upper) & ~np.eye(Q, dtype=bool))
    if (upper[a, c] >= 0.0).all():
        return np.zeros(Q)
    E = np.zeros((Q + 1, len(a)))
    E[a, np.arange(len(a))] = 1.0
    E[c, np.arange(len(a))] = -1.0
    E[Q] = -upper[a, c]
    f = np.zeros(Q + 1)
    f[Q] = 1.0
    try:
        x, _ = nnls(E, f)
    except RuntimeError:
        return None
    residual = E @ x - f
    if not -residual[Q] > 1e-14:
        return None
    b = -residual[:Q] / residual[Q]
    return b - b.mean()


def column_bias(cost: np.ndarray, own: np.ndarray, cap: np.ndarray) -> Bias:
    """Lee-Lin-Wahba: fill all columns, sorted by cost, to one common height (A23, A24, 19.1).

    The layer at height s costs S(s) = sum_k g_k(s), which never falls; heights with S < 0 are
    filled, and b lies between the costs just below and just above.
    """
    Q = cost.shape[1]
    columns = []
    for k in range(Q):
        rivals = np.flatnonzero(own != k)
        rivals = rivals[np.argsort(cost[rivals, k], kind="stable")]
        columns.append((cost[rivals, k], np.cumsum(cap[rivals])))
    height = _filled_height(columns)
    low, high = np.full(Q, -np.inf), np.full(Q, np.inf)
    for k, (g, top) in enumerate(columns):
        near = 1e-12 * max(height, top[0])
        below = np.searchsorted(top, height - near)  # the entry just below the height
        above = np.searchsorted(top, height + near, side="right")
        if height > near:
            low[k] = g[min(below, len(g) - 1)]
        if above < len(g):
            high[k] = g[above]
    return _least_norm_in_box(low, high)


def column_flow(cost: np.ndarray, own: np.ndarray, cap: np.ndarray) -> np.ndarray:
    """gamma (n, Q): the cheapest point of the box with equal column sums (A23, 19.1)."""
    Q = cost.shape[1]
    members, columns = [], []
    for k in range(Q):
        rivals = np.flatnonzero(own != k)
        rivals = rivals[np.argsort(cost[rivals, k], kind="stable")]
        members.append(rivals)
        columns.append((cost[rivals, k], np.cumsum(cap[rivals])))
    height = _filled_height(columns)
    flow = np.zeros(cost.shape)
    for k, rivals in enumerate(members):
        before = columns[k][1] - cap[rivals]
        flow[rivals, k] = np.clip(height - before, 0.0, cap[rivals])
    return flow


def _filled_height(columns: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """sup of the heights s with S(s) < 0."""
    limit = min(float(top[-1]) for _, top in columns)
    heights = np.unique(np.concatenate([[0.0], *(top for _, top in columns)]))
    heights = heights[heights < limit * (1.0 - 1e-12)]
    layer = np.zeros(len(heights))
    for g, top in columns:
        # the entry that is being filled just above each height
        near = 1e-12 * np.maximum(heights, top[0])
        at = np.searchsorted(top, heights + near, side="right")
        layer += g[np.minimum(at, len(g) - 1)]
    above = np.flatnonzero(layer >= 0.0)
    return float(heights[above[0]]) if len(above) else limit


def _least_norm_in_box(low: np.ndarray, high: np.ndarray) -> Bias:
    """b_k = clip(level, low_k, high_k) with sum zero: the point of the box nearest to 0."""
    low = np.minimum(low, high)
    ends = np.unique(np.concatenate([low[np.isfinite(low)], high[np.isfinite(high)], [0.0]]))
    sums = np.clip(ends[:, None], low, high).sum(axis=1)
    at = int(np.searchsorted(sums, 0.0))
    if at == 0:
        level = ends[0] - sums[0] / max(int((~np.isfinite(low)).sum()), 1)
    elif at == len(ends):
        level = ends[-1] - sums[-1] / max(int((~np.isfinite(high)).sum()), 1)
    else:
        rise = sums[at] - sums[at - 1]
        level = ends[at] - sums[at] * (ends[at] - ends[at - 1]) / rise if rise > 0 else ends[at]
    b = np.clip(level, low, high)
    room = np.minimum(high - low, np.minimum(high.sum() * np.ones_like(b), -low.sum()))
    wide = np.sort(room)
    # one coordinate alone cannot move: the sum is fixed
    width = float(max(wide[-2], 0.0)) if len(wide) > 1 else 0.0
    return Bias(b - b.mean(), width)


def quadratic_bias(
    lack: np.ndarray, own: np.ndarray, cap: np.ndarray, start: np.ndarray | None = None
) -> Bias:
    """M-SVM^2: Newton's method on the convex, piecewise quadratic value of b (A29); unique."""
    Q = lack.shape[1]
    b = np.zeros(Q) if start is None else start - start.mean()
    value, gradient, hessian = _quadratic_model(lack, own, cap, b)
    ones = np.ones((Q, Q)) / Q
    for _ in range(100):
        gradient -= gradient.mean()
        size = float(np.abs(gradient).max())
        if size <= 1e-14 * (float(cap.sum()) + value):
            break
        level = float(np.trace(hessian)) / Q
        # the matrix of ones fills the direction that the sum forbids
        step = -np.linalg.lstsq(hessian + level * ones, gradient, rcond=1e-13)[0]
        step -= step.mean()
        length, fall = 1.0, float(gradient @ step)
        if -fall <= 1e-13 * value:
            b = b + step  # the value is flat here; the last step is exact on its quadratic piece
            break
        while length > 1e-10:
            found = _quadratic_model(lack, own, cap, b + length * step)
            if found[0] <= value + 1e-4 * length * fall:
                break
            length *= 0.5
        else:
            break
        b = b + length * step
        value, gradient, hessian = found
    return Bias(b - b.mean(), 0.0)


def _quadratic_model(
    lack: np.ndarray, own: np.ndarray, cap: np.ndarray, b: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Value, gradient and generalised Hessian in b of sum_i C_i min over xi (6.7)."""
    Q = lack.shape[1]
    shifted = lack + b
    slack, total = quadratic_slacks(shifted, own)
    rows = np.arange(len(own))
    rival = np.ones(lack.shape, dtype=bool)
    rival[rows, own] = False
    value = float(cap @ ((slack**2).sum(axis=1) + total**2))
    pull = np.where(rival, slack + total[:, None], 0.0)
    gradient = 2.0 * (cap @ pull)
    tight = (rival & (shifted > -total[:, None])).astype(np.float64)
    weight = 2.0 * cap / (Q - tight.sum(axis=1))
    hessian = np.diag(2.0 * (cap @ tight)) + (tight * weight[:, None]).T @ tight
    return value, gradient, hessian


# -- hard margins ------------------------------------------------------------------------------


def pair_margins(scores: np.ndarray, own: np.ndarray) -> np.ndarray:
    """d_ac = min over examples of class a of h_a - h_c (inf on the diagonal)."""
    Q = scores.shape[1]
    lead = scores[np.arange(len(own)), own][:, None] - scores
    d = np.full((Q, Q), np.inf)
    np.minimum.at(d, own, lead)
    np.fill_diagonal(d, np.inf)
    return d


def minimum_cycle_mean(weight: np.ndarray) -> float:
    """Karp: the least mean weight of a cycle of the complete digraph."""
    Q = len(weight)
    walks = np.full((Q + 1, Q), np.inf)
    walks[0, :] = 0.0
    for length in range(1, Q + 1):
        walks[length] = (walks[length - 1][:, None] + weight).min(axis=0)
    spans = Q - np.arange(Q)
    with np.errstate(invalid="ignore"):
        means = (walks[Q] - walks[:Q]) / spans[:, None]
    means[np.isnan(means)] = -np.inf
    return float(means.max(axis=0).min())
