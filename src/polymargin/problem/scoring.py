"""Scores of fitted models: plain NumPy and BLAS in blocks of bounded memory, nothing compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.exceptions import NoScoresError
from polymargin.problem.kernel_columns import Columns
from polymargin.problem.kernels import Kernel, scaled, squared_norms
from polymargin.problem.problem import row_blocks, run_blocks

__all__ = [
    "KernelModel",
    "PrototypeModel",
    "check_finite",
    "class_maxima",
    "linear_scores",
    "two_columns",
]

_BLOCK_BYTES = 4_000_000


_silent = np.errstate(over="ignore", under="ignore", invalid="ignore")
"""Of functions whose callers look for what overflowed; float64 decides where float32 did."""


@_silent
def linear_scores(X: Any, coef: np.ndarray, intercept: np.ndarray, n_jobs: int = 1) -> np.ndarray:
    """X coef' + intercept in float64, without a float64 copy of X."""
    if sp.issparse(X):
        return np.asarray(X @ np.ascontiguousarray(coef.T)) + intercept
    if X.dtype == np.float64:
        return X @ coef.T + intercept
    out = np.empty((X.shape[0], coef.shape[0]))

    @_silent
    def work(rows: slice) -> None:
        out[rows] = X[rows].astype(np.float64) @ coef.T

    run_blocks(work, X.shape[0], max(64, _BLOCK_BYTES // (8 * X.shape[1])), n_jobs)
    out += intercept
    return out


def check_finite(scores: np.ndarray) -> np.ndarray:
    """The scores; refused where one overflowed, since no label follows from such a row."""
    if not np.isfinite(scores).all():
        row = int(np.flatnonzero(~np.isfinite(scores).all(axis=1))[0])
        raise NoScoresError(f"X: the scores of row {row} overflow; scale the features of X down.")
    return scores


def two_columns(values: np.ndarray) -> np.ndarray:
    """(n, Q) scores; the one column of two classes becomes minus and plus its half."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim == 1:
        values = values[:, None]
    if values.shape[1] == 1:
        return np.concatenate([-0.5 * values, 0.5 * values], axis=1)
    return values


def class_maxima(scores: np.ndarray, prototype_class: np.ndarray) -> np.ndarray:
    """(n, n_classes) best score of each class; prototypes lie class by class."""
    n_classes = int(prototype_class[-1]) + 1
    first = np.searchsorted(prototype_class, np.arange(n_classes + 1))
    out = np.empty((len(scores), n_classes))
    for c in range(n_classes):
        scores[:, first[c] : first[c + 1]].max(axis=1, out=out[:, c])
    return out


class PrototypeModel:
    """The winning prototype of linear scores, at the speed of one float32 product.

    A float32 score is off by at most (d + 4) units of rounding times ||M_r|| ||x||; where the two
    best are closer than that, float64 decides, so the winner is that of the float64 scores.
    """

    def __init__(self, prototypes: np.ndarray, intercept: np.ndarray) -> None:
        self.prototypes = prototypes
        self.intercept = intercept

    def argmax(self, X: Any) -> np.ndarray:
        if sp.issparse(X) or len(self.prototypes) < 2:
            scores = linear_scores(X, self.prototypes, self.intercept)
            return check_finite(scores).argmax(axis=1)
        return self._quick_argmax(X)

    @_silent
    def _quick_argmax(self, X: np.ndarray) -> np.ndarray:
        columns = np.ascontiguousarray(self.prototypes.T, dtype=np.float32)
        shift = self.intercept.astype(np.float32)
        norm = float(np.sqrt((self.prototypes**2).sum(axis=1).max()))
        largest = float(np.abs(self.intercept).max())
        unit = float(np.finfo(np.float32).eps)
        best = np.empty(X.shape[0], dtype=np.intp)
        width = max(X.shape[1], len(self.prototypes))
        for rows in row_blocks(X.shape[0], max(64, _BLOCK_BYTES // (4 * width))):
            block = X[rows].astype(np.float32, copy=False)
            S = block @ columns
            S += shift
            at = np.arange(len(S))
            winner = S.argmax(axis=1)
            top = S[at, winner]
            S[at, winner] = -np.inf
            lead = top - S.max(axis=1)
            length = np.sqrt(np.einsum("ij,ij->i", block, block))
            error = unit * ((X.shape[1] + 4) * norm * length + 2.0 * largest)
            close = np.flatnonzero(~(lead > 2.0 * error))
            if len(close):
                exact = X[rows][close].astype(np.float64) @ self.prototypes.T + self.intercept
                winner[close] = check_finite(exact).argmax(axis=1)
            best[rows] = winner
        return best


class KernelModel:
    """f_r(x) = sum_i tau_ir kappa(x_i, x) + intercept_r over the support vectors.

    ``landmarks`` are the support vectors, or for "precomputed" their column numbers.
    """

    def __init__(
        self, kernel: Kernel, landmarks: Any, tau: np.ndarray, intercept: np.ndarray
    ) -> None:
        self.kernel, self.factor = kernel.folded()
        self.landmarks = landmarks
        self.tau = tau
        self.intercept = intercept
        self.norms = None
        if kernel.name != "precomputed" and kernel.function is None:
            # in float64: the product must not be rounded to the dtype of the data
            self.landmarks = scaled(landmarks, self.factor)
            self.norms = squared_norms(self.landmarks)

    @_silent
    def scores(self, X: Any, dtype: Any = np.float64, n_jobs: int = 1) -> np.ndarray:
        """(n, R) scores computed in the given dtype."""
        out = np.empty((X.shape[0], self.tau.shape[1]), dtype=dtype)
        tau = self.tau.astype(dtype)
        landmarks = self.landmarks
        if self.norms is not None:
            landmarks = landmarks.astype(dtype, copy=False)
        columns = Columns(self.kernel, landmarks, self.norms, X.shape[0])

        @_silent
        def work(rows: slice) -> None:
            block = X[rows]
            a = None
            if self.norms is not None:
                block = scaled(block, self.factor).astype(dtype, copy=False)
                a = squared_norms(block)
            out[rows] = columns.sums(block, a, tau)

        run_blocks(work, X.shape[0], columns.rows_at_once, n_jobs)
        out += self.intercept.astype(dtype)
        return out

    def argmax(self, X: Any, n_jobs: int = 1) -> np.ndarray:
        """Best class of each row: float32 scores, near-ties decided by float64 ones.

        The bound on the float32 error counts the rounding of the exponent or inner product of
        every kernel value, weighted by |tau|: labels equal those of the float64 scores.
        """
        if self.norms is None or self.kernel.name != "rbf" or self.tau.shape[1] < 2:
            return check_finite(self.scores(X, np.float64, n_jobs)).argmax(axis=1)
        return self._quick_argmax(X, n_jobs)

    @_silent
    def _quick_argmax(self, X: Any, n_jobs: int) -> np.ndarray:
        S = self.scores(X, np.float32, n_jobs)
        best = S.argmax(axis=1)
        rows = np.arange(len(best))
        top = S[rows, best].copy()
        S[rows, best] = -np.inf
        lead = top - S.max(axis=1)
        assert self.norms is not None
        largest = float(self.norms.max(initial=0.0))
        widest = float(np.max(self.factor))
        exponent = widest**2 * squared_norms(X) + largest
        unit = float(np.finfo(np.float32).eps)
        weight = float(np.abs(self.tau).sum(axis=0).max(initial=0.0))
        # sqrt of the number of terms would do on average; 8 covers products, sums and exp
        error = unit * weight * (8.0 + 4.0 * exponent)
        close = np.flatnonzero(~(lead > 2.0 * error))
        if len(close):
            best[close] = check_finite(self.scores(X[close], np.float64, n_jobs)).argmax(axis=1)
        return best
