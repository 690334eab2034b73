"""The last digits of a nearly optimal dual point: its optimality conditions as linear equations.

Once it is known which variables lie between their bounds, the rest is one linear system.

``refine`` (all machines but M-SVM^2).  Where kernel values are large, a dual point of nearly
optimal value can still have loose scores: the primal value C sum xi sees every error of alpha K_ii
times over.  With the vectors a_ik of the interior point (see ``interior_point``)::

    a_ik . (h(x_i) + b) + xi_i = target_ik     for every variable alpha_ik between its bounds
    sum_k alpha_ik = C_i                       where a shared slack xi_i is positive
    sum_ik alpha_ik a_ik = 0                   with a free intercept b

(xi_i only where slacks are shared and positive).  The system is solved for the correction of
alpha, so that each round adds the digits that the last one lost; variables that leave their bounds
are set to them.

``refine_quadratic`` (M-SVM^2).  The loss is smooth, so a small gap still leaves the scores loose:
their error is the square root of the gap.  With the positive variables::

    (H~ alpha)_ik - b_k = 1/(Q - 1)  for alpha_ik > 0 ,   equal column sums ,   sum_k b_k = 0

(without b and column sums where the intercept is not free).  Variables that come out negative
leave, constraints that are violated join, and it is solved again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polymargin.problem.problem import Problem

__all__ = ["CUTS", "may_refine_quadratic", "refine", "refine_quadratic"]

_LARGEST_SYSTEM = 800  # equations: least squares of that size take half a second
_LARGEST_SUPPORT = 3000  # patterns whose Gram matrix is computed: 72 MB
_ROUNDS = 6  # corrections: each one adds digits or sets variables to their bounds
_LARGEST_QUADRATIC = 1200  # variables of M-SVM^2
_QUADRATIC_TOL = 1e-6  # tolerance from which on the scores of M-SVM^2 are worth the system
_QUADRATIC_ROUNDS = 20  # changes of the set of positive variables

CUTS = (1e-15, 1e-10)
"""Parts of the largest singular value below which others count as zero: what is worth trying.
The first keeps all digits of well-posed systems, the second survives duplicates among the rows."""


def refine(
    problem: Problem,
    alpha: np.ndarray,
    is_free: np.ndarray,
    is_full: np.ndarray,
    b: np.ndarray,
    cap: np.ndarray,
    cut: float,
) -> np.ndarray | None:
    """Variables (n, Q) that meet the conditions, or None where the system is too large.

    Parameters
    ----------
    problem : Problem
    alpha : (n, Q) variables, those at a bound exactly there.
    is_free : (n, Q) whether a variable lies between its bounds.
    is_full : (n,) whether a pattern's shared slack is positive: its variables sum to its cap.
    b : (Q,) the unpenalised intercept (zeros where there is none).
    cap : (n, Q) or (n, 1), the latter where slacks are shared; inf without bounds.
    cut : float
        Singular values below this part of the largest are taken for zero.
    """
    is_free = is_free & (~is_full[:, None] | (is_free.sum(axis=1) > 1)[:, None])
    is_full = is_full & is_free.any(axis=1)
    support = np.flatnonzero(alpha.any(axis=1))
    size = int(is_free.sum()) + int(is_full.sum())
    if not 0 < size <= _LARGEST_SYSTEM or len(support) > _LARGEST_SUPPORT:
        return None
    refined = np.zeros_like(alpha)
    with np.errstate(all="ignore"):  # beyond the range of float64 there are no digits to gain
        found = _iterate(
            problem.gram(support, support).astype(np.float64),
            _State(alpha[support], np.zeros(len(support)), b),
            is_free[support],
            _Conditions(
                is_full[support],
                *_constraints(problem, support),
                cap[support],
                problem.has_free_bias,
                cut,
            ),
        )
    if found is None:
        return None
    refined[support] = found
    return refined


def _constraints(problem: Problem, support: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The vectors a_ik (s, Q, Q) of some patterns, one row per constraint, and targets (s, Q)."""
    machine, own, Q = problem.machine, problem.own[support], problem.n_prototypes
    eye = np.eye(Q)
    is_own = np.arange(Q) == own[:, None]
    target = np.where(is_own, machine.target_of_own(Q), machine.rival_target(Q))
    target = problem.raised(target, support)
    if machine.K1:
        return eye[own][:, None, :] - eye[None], target
    return np.where(is_own, 1.0, -1.0)[:, :, None] * (eye - 1.0 / Q)[None], target


class _State(NamedTuple):
    """Variables (s, Q), shared slacks (s,) and the intercept (Q,)."""

    alpha: np.ndarray
    xi: np.ndarray
    b: np.ndarray


class _Conditions(NamedTuple):
    """What is known of the patterns with weight; see ``refine``."""

    is_full: np.ndarray
    vectors: np.ndarray
    target: np.ndarray
    cap: np.ndarray
    has_free_bias: bool
    cut: float


def _iterate(
    K: np.ndarray, state: _State, is_free: np.ndarray, known: _Conditions
) -> np.ndarray | None:
    """alpha after a few corrections; variables that leave their bounds are set to them."""
    for _ in range(_ROUNDS):
        step = _correction(K, state, is_free, known)
        if step is None or not np.isfinite(step.alpha).all():
            return None
        alpha, xi, b = (old + new for old, new in zip(state, step, strict=True))
        outside = is_free & ((alpha < 0.0) | (alpha > known.cap))
        if not outside.any() and np.abs(step.alpha).max() <= 1e-15 * alpha.max():
            return _within_caps(alpha, known.cap)
        state = _State(np.clip(alpha, 0.0, known.cap), xi, b)
        is_free = is_free & ~outside
        if not is_free.any():
            break
    return _within_caps(state.alpha, known.cap)


def _correction(
    K: np.ndarray, state: _State, is_free: np.ndarray, known: _Conditions
) -> _State | None:
    """Changes of alpha, xi and b that make the conditions hold, by least squares."""
    alpha, xi, b = state
    n, Q = alpha.shape
    i, k = np.nonzero(is_free)
    full = np.flatnonzero(known.is_full)
    m, f, q = len(i), len(full), Q if known.has_free_bias else 0
    a = known.vectors[i, k]
    T = np.einsum("ik,ikq->iq", alpha, known.vectors)
    scores = K @ T + b
    # a constraint is scaled by its own curvature, or large kernel values hide the small ones
    size = np.sqrt(np.maximum(K[i, i] * (a * a).sum(axis=1), 1e-300))
    A = np.zeros((m + f + q, m + f + q))
    right = np.zeros(len(A))
    A[:m, :m] = K[np.ix_(i, i)] * (a @ a.T) / size[:, None] / size
    right[:m] = known.target[i, k] - (a * scores[i]).sum(axis=1) - xi[i] * known.is_full[i]
    right[:m] /= size
    if f:
        place = np.full(n, -1)
        place[full] = np.arange(f)
        inside = np.flatnonzero(known.is_full[i])
        A[inside, m + place[i[inside]]] = 1.0 / size[inside]
        A[m + place[i[inside]], inside] = 1.0 / size[inside]
        right[m : m + f] = known.cap[full, 0] - alpha[full].sum(axis=1)
    if q:
        A[:m, m + f :] = a / size[:, None]
        A[m + f :, :m] = (a / size[:, None]).T
        right[m + f :] = -T.sum(axis=0)
    try:
        x = np.linalg.lstsq(A, right, rcond=known.cut)[0]
    except np.linalg.LinAlgError:
        return None
    d_alpha, d_xi = np.zeros((n, Q)), np.zeros(n)
    d_alpha[i, k] = x[:m] / size
    d_xi[full] = x[m : m + f]
    return _State(d_alpha, d_xi, x[m + f :] if q else np.zeros(Q))


def _within_caps(alpha: np.ndarray, cap: np.ndarray) -> np.ndarray:
    """Rounding must not leave a variable below zero or a sum above its cap."""
    alpha = np.clip(alpha, 0.0, cap)
    if cap.shape[1] == 1:
        total = alpha.sum(axis=1, keepdims=True)
        alpha *= np.minimum(1.0, cap / np.where(total > 0.0, total, 1.0))
    return alpha


# -- M-SVM^2 ---------------------------------------------------------------------------------------


def may_refine_quadratic(problem: Problem, tol: float) -> bool:
    """Whether the machine is smooth, the tolerance fine and the system small."""
    small = problem.n_patterns * (problem.n_prototypes - 1) <= _LARGEST_QUADRATIC
    machine = problem.machine
    is_smooth = machine.p == 2 and machine.loss_matrix is None
    return is_smooth and not problem.is_hard and tol <= _QUADRATIC_TOL and small


def refine_quadratic(problem: Problem, signed: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Signed variables (n, Q) and b that solve the conditions, or None if no set of them does."""
    n, Q = signed.shape
    target = problem.machine.rival_target(Q)
    everyone = np.arange(n)
    K = problem.gram(everyone, everyone).astype(np.float64)
    K[everyone, everyone] += 0.5 / problem.cap
    alpha = -signed
    positive = alpha > 1e-9 * max(float(alpha.max()), 1e-300)
    rival = np.ones((n, Q), dtype=bool)
    rival[everyone, problem.own] = False
    for _ in range(_QUADRATIC_ROUNDS):
        try:
            alpha, b = _solve_quadratic(K, positive & rival, target, problem.has_free_bias)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(alpha).all():
            return None
        slope = K @ (alpha - alpha.mean(axis=1, keepdims=True)) - target - b
        scale = max(float(np.abs(alpha).max()), 1e-300)
        negative = alpha < 0.0
        missing = rival & ~positive & (slope < -1e-13)
        if not negative.any() and not missing.any():
            return -alpha, b
        if not missing.any() and float(alpha.min()) > -1e-14 * scale:
            return -np.maximum(alpha, 0.0), b
        positive = (positive & ~negative) | missing
    return None


def _solve_quadratic(
    K: np.ndarray, positive: np.ndarray, target: float, free: bool
) -> tuple[np.ndarray, np.ndarray]:
    """alpha on the chosen places, zero elsewhere, and b."""
    n, Q = positive.shape
    i, k = np.nonzero(positive)
    m = len(i)
    size = m + (Q if free else 0)
    A = np.zeros((size + (1 if free else 0), size))
    right = np.zeros(len(A))
    A[:m, :m] = K[np.ix_(i, i)] * ((k[:, None] == k[None, :]) - 1.0 / Q)
    right[:m] = target
    if free:
        column = (k[:, None] == np.arange(Q)).astype(np.float64)
        A[:m, m:] = -column
        A[m : m + Q, :m] = (column - 1.0 / Q).T
        A[m + Q, m:] = 1.0
    x = np.linalg.lstsq(A, right, rcond=None)[0]
    alpha = np.zeros((n, Q))
    alpha[i, k] = x[:m]
    return alpha, x[m:] if free else np.zeros(Q)
