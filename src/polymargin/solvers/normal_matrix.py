"""The matrix of the normal equations of an interior point, assembled from all patterns.

Eliminating everything but the weights leaves sum_i Theta_i (x) x_i x_i' with
Theta_i = N_i' E_i^-1 N_i, where the rows of N_i are the vectors of the constraints of pattern i and
E_i = diag(e) + c 11' is its curvature.  E_i is inverted by the formula of Sherman and Morrison:
with f = 1/e and g = c / (1 + c sum f),  E_i^-1 = diag(f) - g f f'.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polymargin.problem.problem import row_blocks

__all__ = ["InverseCurvatures", "NormalMatrix"]

_BLOCK_CELLS = 250_000  # numbers of a block of products: it stays in the cache of the processor


class InverseCurvatures(NamedTuple):
    """E_i^-1 = diag(f) - g f f' of all patterns, with k = 1 - g sum f = 1 / (1 + c sum f).

    At a full cap c is huge and k tiny: formulas in k keep the digits that 1 - g sum f would lose.
    """

    f: np.ndarray
    g: np.ndarray
    k: np.ndarray

    @classmethod
    def of(cls, f: np.ndarray, c: np.ndarray) -> InverseCurvatures:
        k = 1.0 / (1.0 + c * f.sum(axis=1, keepdims=True))
        return cls(f, c * k, k)

    def times(self, x: np.ndarray) -> np.ndarray:
        """E^-1 x, by differences to the entry of the largest f, which would drown the others."""
        base = x[np.arange(len(x)), self.f.argmax(axis=1)][:, None]
        apart = x - base
        mean = self.g * (self.f * apart).sum(axis=1, keepdims=True)
        return np.asarray(self.f * (apart - mean + self.k * base))


class NormalMatrix:
    """sum_i Theta_i (x) x_i x_i' for the constraints of a machine.

    Parameters
    ----------
    X : (n, d) rows of the feature map, with the constant of a free intercept.
    own : (n,) prototype of every pattern.
    sign : (n, R) 1 for the own prototype, -1 for all others.
    is_relative : bool
        Whether constraints are e_own - e_k (relative margins) or e_k - 1/R up to sign (absolute).
    """

    def __init__(self, X: np.ndarray, own: np.ndarray, sign: np.ndarray, is_relative: bool) -> None:
        self.X, self.own, self.sign, self.is_relative = X, own, sign, is_relative
        self.is_own = sign > 0.0

    def assembled(self, E: InverseCurvatures) -> np.ndarray:
        """(R, d, R, d) sum_i Theta_i (x) x_i x_i'.

        Theta_i is a diagonal, one row and column, and a matrix of rank one: all but the last are
        R products of order d, and the last is one product of order R d.
        """
        R, d = self.sign.shape[1], self.X.shape[1]
        A = np.zeros((R, d, R, d))
        diagonal = np.zeros((R, d, d))
        add = self._add_relative if self.is_relative else self._add_absolute
        for rows in row_blocks(len(self.X), max(64, _BLOCK_CELLS // max(R * d, 1))):
            add(rows, E, A.reshape(R * d, R * d), diagonal)
        if self.is_relative:
            self._add_own(E, A.reshape(R * d, R * d))
            every = np.arange(R)
            A[every, :, every, :] = diagonal
            return A
        # t_q = e_q - 1/R for every constraint: the mean of the classes is taken out on both sides
        for q in range(R):
            A[q, :, q, :] += diagonal[q]
            A[q] -= diagonal[q][:, None, :] / R
            A[:, :, q, :] -= diagonal[q] / R
        A += diagonal.sum(axis=0)[None, :, None, :] / R**2
        return A

    def _add_relative(
        self, rows: slice, E: InverseCurvatures, A: np.ndarray, diagonal: np.ndarray
    ) -> None:
        """Theta_i[q, r] = -g f_q f_r for rivals, -k f_r in the row of the own class.

        The diagonal, f_q (k + g sum of the other f) and k sum f, is summed apart: as a difference
        of these numbers it would lose its digits.
        """
        X, f, g, k = self.X[rows], E.f[rows], E.g[rows], E.k[rows]
        is_own = self.is_own[rows]
        if g.any():
            Y = _products(np.sqrt(g) * f, X)
            A -= Y.T @ Y
        on_diagonal = np.where(
            is_own, k * f.sum(axis=1, keepdims=True), f * (k + g * _sums_of_others(f))
        )
        for q in range(f.shape[1]):
            diagonal[q] += (X * on_diagonal[:, q, None]).T @ X

    def _add_own(self, E: InverseCurvatures, A: np.ndarray) -> None:
        """The row and the column of the own class, class by class."""
        d = self.X.shape[1]
        for q in range(self.sign.shape[1]):
            mine = np.flatnonzero(self.own == q)
            for some in row_blocks(len(mine), max(64, _BLOCK_CELLS // max(len(A), 1))):
                at = mine[some]
                block = self.X[at].T @ _products(E.k[at] * E.f[at], self.X[at])
                A[q * d : (q + 1) * d] -= block
                A[:, q * d : (q + 1) * d] -= block.T

    def _add_absolute(
        self, rows: slice, E: InverseCurvatures, A: np.ndarray, diagonal: np.ndarray
    ) -> None:
        """Theta_i = T (diag(f) - g f f') T with T = 1 - 11'/R, signs cancelling in the diagonal."""
        X, f, g = self.X[rows], E.f[rows], E.g[rows]
        if g.any():
            t = f * self.sign[rows]
            t = _products(t - t.mean(axis=1, keepdims=True), X)
            A -= t.T @ (np.repeat(g, t.shape[1], axis=1) * t)
        for q in range(f.shape[1]):
            diagonal[q] += (X * f[:, q, None]).T @ X


def _sums_of_others(f: np.ndarray) -> np.ndarray:
    """Of every entry, the sum of the others in its row; no subtraction, so no digits are lost."""
    found = np.zeros_like(f)
    found[:, 1:] = np.cumsum(f, axis=1)[:, :-1]
    found[:, :-1] += np.cumsum(f[:, ::-1], axis=1)[:, ::-1][:, 1:]
    return found


def _products(t: np.ndarray, X: np.ndarray) -> np.ndarray:
    """(n, R d) rows t_i (x) x_i."""
    return np.asarray((t[:, :, None] * X[:, None, :]).reshape(len(X), t.shape[1] * X.shape[1]))
