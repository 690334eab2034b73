"""The last digits of M-SVM^2: its optimality conditions as linear equations.

The loss is smooth, so a small gap still leaves the scores loose: their error is the square root of
the gap.  Once descent knows which variables are positive, the rest is one linear system::

    (H~ alpha)_ik - b_k = 1/(Q - 1)  for alpha_ik > 0 ,   equal column sums ,   sum_k b_k = 0

(without b and column sums where the intercept is not free).  Variables that come out negative
leave, constraints that are violated join, and it is solved again.
"""

from __future__ import annotations

import numpy as np

from polymargin.problem.problem import Problem

__all__ = ["polished", "polishing_pays"]

_LARGEST_SYSTEM = 1200


def polishing_pays(problem: Problem, tol: float) -> bool:
    """Whether the machine is smooth, the tolerance fine and the system small."""
    small = problem.n_patterns * (problem.n_prototypes - 1) <= _LARGEST_SYSTEM
    return problem.machine.p == 2 and not problem.is_hard and tol <= 1e-6 and small


def polished(problem: Problem, signed: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
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
    for _ in range(20):
        alpha, b = _solve(K, positive & rival, target, problem.has_free_bias)
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


def _solve(
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
