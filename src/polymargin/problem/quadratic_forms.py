"""Quadratic losses xi'M xi with any positive definite M.

Problem card.  The constraints of example i and of its rivals k != y_i are those of a machine with
one slack each; the slacks xi_i, whose signs are free, cost C_i xi_i'M_i xi_i, where M_i is M
without the row and the column of the own class.  For lacks r_i the cheapest slacks are::

    min over xi >= r of xi'M xi  =  max over alpha >= 0 of alpha'r - alpha'M^-1 alpha / 4 ,
    xi = M^-1 alpha / 2

so that the machine's dual has -alpha_i'M_i^-1 alpha_i / (4 C_i) in place of caps: (6.1), (6.2) and
(6.3) with another M.  M = I + 11' is M-SVM^2, whose slacks have a closed form (6.7); M = I is the
plain 2-norm machine, whose slacks are never negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from polymargin.exceptions import shown

__all__ = [
    "IDENTITY",
    "QuadraticForm",
    "as_tuples",
    "quadratic_form",
    "quadratic_slacks",
    "why_no_form",
]

IDENTITY = "identity"
_SWEEPS = 500  # of coordinate descent; any slacks above the lacks give a valid primal value
_CLOSE = 1e-14  # of the largest variable: a sweep that changes less ends the search


def as_tuples(loss_matrix: Any) -> Any:
    """A matrix as nested tuples, which can be compared, hashed and stored; words as they are."""
    if loss_matrix is None or isinstance(loss_matrix, str):
        return loss_matrix
    return tuple(tuple(float(x) for x in row) for row in np.atleast_2d(np.asarray(loss_matrix)))


def why_no_form(loss_matrix: Any) -> str | None:
    """The reason why this is no matrix M, if there is one."""
    if loss_matrix is None or (isinstance(loss_matrix, str) and loss_matrix == IDENTITY):
        return None
    try:
        M = np.asarray(loss_matrix, dtype=np.float64)
    except (TypeError, ValueError):
        M = np.empty(0)
    if M.ndim != 2 or M.shape[0] != M.shape[1] or len(M) < 2:
        return (
            "loss_matrix must be 'identity' or a matrix with a row and a column for every class, "
            f"got {shown(loss_matrix)}."
        )
    if not np.isfinite(M).all() or not np.array_equal(M, M.T):
        return "loss_matrix must be symmetric and finite."
    if np.linalg.eigvalsh(M)[0] <= 1e-12 * np.abs(M).max():
        return "loss_matrix must be positive definite."
    return None


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    """M and its inverse for the examples of every class.

    Attributes
    ----------
    matrices, inverses : ndarray of shape (g, Q, Q)
        M_i and M_i^-1 by own class, zero in its row and column; g = 1 where all classes share them.
    """

    matrices: np.ndarray
    inverses: np.ndarray

    def cost(self, slack: np.ndarray, own: np.ndarray) -> np.ndarray:
        """(n,) xi_i'M_i xi_i."""
        return np.asarray((slack * _products(self.matrices, slack, own)).sum(axis=1))

    def smoothed(self, variables: np.ndarray, own: np.ndarray) -> np.ndarray:
        """(n, Q) M_i^-1 v_i."""
        return _products(self.inverses, variables, own)

    def slacks(self, lack: np.ndarray, own: np.ndarray) -> np.ndarray:
        """The cheapest slacks above the lacks (n, Q), 0 for the own class."""
        rows = np.arange(len(own))
        lack = lack.copy()
        lack[rows, own] = -np.inf
        if len(self.inverses) == 1:  # the identity
            return np.maximum(lack, 0.0)
        slack = np.zeros(lack.shape)
        for c in range(lack.shape[1]):
            mine = np.flatnonzero(own == c)
            rivals = np.delete(np.arange(lack.shape[1]), c)
            if len(mine):
                inverse = self.inverses[c][np.ix_(rivals, rivals)]
                slack[np.ix_(mine, rivals)] = _cheapest(lack[np.ix_(mine, rivals)], inverse)
        return slack


def _products(matrices: np.ndarray, variables: np.ndarray, own: np.ndarray) -> np.ndarray:
    if len(matrices) == 1:
        found = variables @ matrices[0]
        found[np.arange(len(own)), own] = 0.0
        return np.asarray(found)
    found = np.empty(variables.shape)
    for c in range(len(matrices)):
        mine = own == c
        found[mine] = variables[mine] @ matrices[c]
    return found


def _cheapest(lack: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    """Slacks (m, Q - 1) of some examples by coordinate descent on alpha, lifted to the lacks."""
    half = np.zeros(lack.shape)  # alpha / 2
    slack = np.zeros(lack.shape)
    for _ in range(_SWEEPS):
        change = 0.0
        for k in range(lack.shape[1]):
            new = np.maximum(half[:, k] + (lack[:, k] - slack[:, k]) / inverse[k, k], 0.0)
            step = new - half[:, k]
            half[:, k] = new
            slack += step[:, None] * inverse[k]
            change = max(change, float(np.abs(step).max()))
        if change <= _CLOSE * float(half.max(initial=0.0)):
            break
    return np.maximum(slack, lack)


@lru_cache(maxsize=32)
def quadratic_form(loss_matrix: Any, n_classes: int) -> QuadraticForm:
    """The form of a machine for a number of classes.

    Parameters
    ----------
    loss_matrix : "identity" or nested tuples
    n_classes : int
    """
    if isinstance(loss_matrix, str):
        one = np.eye(n_classes)[None]
        return QuadraticForm(one, one)
    M = np.array(loss_matrix)
    if len(M) != n_classes:
        raise ValueError(
            f"machine: its loss_matrix is for {len(M)} classes, but y has {n_classes}; give a "
            "matrix with a row and a column for every class."
        )
    matrices, inverses = np.zeros((2, n_classes, n_classes, n_classes))
    for c in range(n_classes):
        rivals = np.delete(np.arange(n_classes), c)
        at = np.ix_(rivals, rivals)
        matrices[c][at] = M[at]
        inverses[c][at] = np.linalg.inv(M[at])
        inverses[c] = 0.5 * (inverses[c] + inverses[c].T)
    return QuadraticForm(matrices, inverses)


def quadratic_slacks(lack: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cheapest slacks of M-SVM^2 above the deficits, and their sums t: (6.7), by sorting.

    xi_k = max(lack_k, -t) with t = sum_k xi_k; they may be negative.  ``lack`` is (n, Q), its own
    column is ignored and its slack is 0.
    """
    n, Q = lack.shape
    rows = np.arange(n)
    masked = lack.copy()
    masked[rows, own] = -np.inf
    u = -np.sort(-masked, axis=1)[:, : Q - 1]
    sums = np.concatenate([np.zeros((n, 1)), np.cumsum(u, axis=1)], axis=1)
    t = sums / (Q - np.arange(Q))
    # the first j whose next largest deficit does not exceed -t_j
    following = np.concatenate([u, np.full((n, 1), -np.inf)], axis=1)
    at = (following <= -t).argmax(axis=1)
    total = t[rows, at]
    slack = np.maximum(masked, -total[:, None])
    slack[rows, own] = 0.0
    return slack, total
