"""Lemma 1 of Guermeur & Monfrini: which examples can be leave-one-out errors at all.

If example p is a leave-one-out error of the hard-margin Lee-Lin-Wahba machine (M-SVM^2 is one with
kappa + delta / (2 C)), then ``max_k alpha_pk >= Q / ((Q-1)^3 D^2)``, D the diameter of the smallest
enclosing sphere.  The proof allows the larger threshold ``1 / ((Q-1) B)`` with B of (9.7).  The
number of examples at or above a threshold bounds the number of leave-one-out errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["LemmaCounts", "dual_error", "lemma_counts"]


@dataclass(frozen=True)
class LemmaCounts:
    """Examples that may be leave-one-out errors: by Lemma 1, and by the sharper constant."""

    count: int
    sharper_count: int


def dual_error(gap: float, smallest_eigenvalue: float, n_classes: int) -> float:
    """How far any dual variable of a point with that gap is from its optimal value, at most.

    The dual is strongly concave: on alpha with alpha_{i y_i} = 0 its Hessian is at least
    lambda_min(K~) / Q, so that ||alpha - alpha*||^2 <= 2 Q gap / lambda_min(K~).
    """
    if gap <= 0.0:
        return 0.0
    if smallest_eigenvalue <= 0.0:
        return float("inf")
    return float(np.sqrt(2.0 * n_classes * gap / smallest_eigenvalue))


def lemma_counts(alpha: np.ndarray, radius2: float, B: float, error: float) -> LemmaCounts:
    """Counts of examples whose largest dual variable reaches the thresholds, less its error.

    Parameters
    ----------
    alpha : (n, Q) dual variables.
    radius2 : float
        Upper bound of the squared radius of the enclosing sphere.
    B : float
        Constant of (9.7).
    error : float
        Of every dual variable.
    """
    Q = alpha.shape[1]
    largest = alpha.max(axis=1)
    thresholds = (Q / ((Q - 1.0) ** 3 * 4.0 * radius2), 1.0 / ((Q - 1.0) * B))
    counts = [int((largest >= threshold - error).sum()) for threshold in thresholds]
    return LemmaCounts(counts[0], min(counts))
