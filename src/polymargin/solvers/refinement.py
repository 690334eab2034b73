"""The last digits of a nearly optimal dual point: its optimality conditions as linear equations.

Where kernel values are large, a dual point of nearly optimal value can still have loose scores:
the primal value C sum xi sees every error of alpha K_ii times over.  Once it is known which
variables lie between their bounds, the rest is one linear system.  With the arrows a_ik of the
interior point (see ``barrier``)::

    a_ik . (h(x_i) + b) + xi_i = target_ik     for every variable alpha_ik between its bounds
    sum_k alpha_ik = C_i                       where a shared slack xi_i is positive
    sum_ik alpha_ik a_ik = 0                   with a free intercept b

(xi_i only where slacks are shared and positive).  The system is solved for the correction of
alpha, so that each round adds the digits that the last one lost; variables that leave their bounds
are set to them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polymargin.problem.problem import Problem

__all__ = ["CUTS", "refine"]

_LARGEST_SYSTEM = 800
_LARGEST_SUPPORT = 3000
_ROUNDS = 6

CUTS = (1e-15, 1e-10)
"""Where singular values count as zero: what is worth trying."""


def refine(
    problem: Problem,
    alpha: np.ndarray,
    is_free: np.ndarray,
    is_full: np.ndarray,
    b: np.ndarray,
    arrows: np.ndarray,
    target: np.ndarray,
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
    arrows : (n, Q, Q) a_ik.
    target : (n, Q)
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
                arrows[support],
                target[support],
                cap[support],
                problem.has_free_bias,
                cut,
            ),
        )
    if found is None:
        return None
    refined[support] = found
    return refined


class _State(NamedTuple):
    """Variables (s, Q), shared slacks (s,) and the intercept (Q,)."""

    alpha: np.ndarray
    xi: np.ndarray
    b: np.ndarray


class _Conditions(NamedTuple):
    """What is known of the patterns with weight; see ``refine``."""

    is_full: np.ndarray
    arrows: np.ndarray
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
    a = known.arrows[i, k]
    T = np.einsum("ik,ikq->iq", alpha, known.arrows)
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
