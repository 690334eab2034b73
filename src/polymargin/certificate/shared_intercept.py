"""The best unpenalised intercept of Crammer-Singer: one slack per example, a linear programme in b.

Problem card.  min over b of sum_i C_i max(0, max_{r != y_i} (b_r - b_{y_i} - g_ir)), where g_ir is
the lead of the own class over r, less the margin asked for (19.3).  Near a good b nearly every
example keeps its largest term, so only few examples need a slack variable of their own: the
programme is solved in a box around b that grows until the answer lies inside it.  By complementary
slackness the set of all optimal b is one of differences b_c - b_a <= upper_ac, of which the element
of minimum norm is taken (19.9).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from polymargin.certificate.intercepts import Bias, minimum_norm_potential

__all__ = ["shared_bias"]

_FEW = 400  # examples with a slack variable in the first programme
_WIDER = 8.0
_ROUNDS = 40


class _Box(NamedTuple):
    """The programme around b: change of b, duals alpha (n, Q), and whether the box held it back."""

    step: np.ndarray
    alpha: np.ndarray
    is_held: bool


def shared_bias(
    cost: np.ndarray, own: np.ndarray, cap: np.ndarray, start: np.ndarray | None = None
) -> Bias:
    """The b of least norm among the best ones.

    Parameters
    ----------
    cost : (n, Q) g_ir; the own column is ignored.
    own : (n,) y_i.
    cap : (n,) finite C_i > 0.
    start : (Q,) or None
        Where to begin; returned as it is should the programme fail.
    """
    Q = cost.shape[1]
    b = np.zeros(Q) if start is None else start - start.mean()
    terms = _terms(cost, own, b)
    radius = _first_radius(terms)
    for _ in range(_ROUNDS):
        found = _solve_in_box(terms, own, cap, radius)
        if found is None:
            return Bias(b, 0.0)
        b = b + found.step
        if not found.is_held:
            return minimum_norm_potential(_optimal_set(cost, own, cap, found.alpha), b)
        terms = _terms(cost, own, b)
        radius *= _WIDER
    return Bias(b, 0.0)


def _terms(cost: np.ndarray, own: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The terms whose maximum is an example's slack; the own column is the zero among them."""
    terms = b - b[own][:, None] - cost
    terms[np.arange(len(own)), own] = 0.0
    return terms


def _first_radius(terms: np.ndarray) -> float:
    """A box in which about ``_FEW`` examples may change their largest term."""
    two = np.partition(terms, terms.shape[1] - 2, axis=1)[:, -2:]
    lead = np.sort(two.max(axis=1) - two.min(axis=1))
    scale = 1e-6 * (1.0 + float(np.abs(terms).max()))
    return max(0.5 * float(lead[min(_FEW, len(lead)) - 1]), scale)


def _solve_in_box(
    terms: np.ndarray, own: np.ndarray, cap: np.ndarray, radius: float
) -> _Box | None:
    """The best change of b within ``radius``; differences of b change by twice that."""
    n, Q = terms.shape
    top = terms.max(axis=1)
    near = terms >= top[:, None] - 2.0 * radius * (1.0 + 1e-9)
    is_whole = bool(near.all())  # no term was left out: the box is not needed
    several = np.flatnonzero(near.sum(axis=1) > 1)
    alpha = np.zeros((n, Q))
    alone = np.ones(n, dtype=bool)
    alone[several] = False
    alpha[alone, terms[alone].argmax(axis=1)] = cap[alone]
    alpha[np.arange(n), own] = 0.0
    pull = alpha.sum(axis=0)
    np.subtract.at(pull, own, alpha.sum(axis=1))
    rows, rivals = np.nonzero(near[several])
    rivals_only = rivals != own[several[rows]]
    rows, rivals = rows[rivals_only], rivals[rivals_only]
    m, count = len(several), len(rows)
    at = np.arange(count)
    # step_r - step_y - xi <= -term, with xi >= 0 the slack
    A = sp.csr_matrix(
        (
            np.concatenate([np.ones(count), -np.ones(count), -np.ones(count)]),
            (np.tile(at, 3), np.concatenate([rivals, own[several[rows]], Q + rows])),
        ),
        shape=(count, Q + m),
    )
    found = linprog(
        np.concatenate([pull, cap[several]]) / cap.max(),
        A_ub=A if count else None,
        b_ub=-terms[several[rows], rivals] if count else None,
        A_eq=sp.csr_matrix(np.concatenate([np.ones(Q), np.zeros(m)])[None, :]),
        b_eq=[0.0],
        bounds=[(None, None) if is_whole else (-radius, radius)] * Q + [(0.0, None)] * m,
        method="highs",
    )
    if found.status != 0:
        return None
    if count:
        alpha[several[rows], rivals] = -found.ineqlin.marginals * cap.max()
    step = found.x[:Q]
    is_held = not is_whole and bool(np.abs(step).max() >= radius * (1.0 - 1e-7))
    return _Box(step - step.mean(), alpha, is_held)


def _optimal_set(
    cost: np.ndarray, own: np.ndarray, cap: np.ndarray, alpha: np.ndarray
) -> np.ndarray:
    """upper (Q, Q): the best b are those with b_c - b_a <= upper[a, c] for all a, c.

    A term with weight is the largest of its example and not below zero; an example whose weights
    stay below C_i has no slack.
    """
    Q = cost.shape[1]
    upper = np.full((Q, Q), np.inf)
    idle = np.flatnonzero(alpha.sum(axis=1) < cap * (1.0 - 1e-7))
    np.minimum.at(upper, own[idle], cost[idle])
    rows, r = np.nonzero(alpha > 1e-7 * cap[:, None])
    others = cost[rows] - cost[rows, r][:, None]
    others[np.arange(len(rows)), own[rows]] = -cost[rows, r]
    np.minimum.at(upper, r, others)
    np.fill_diagonal(upper, 0.0)
    return upper
