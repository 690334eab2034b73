"""Scores of the training examples by a dual point, block by block, in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.compiled.csr import by_feature, row_scores, weighted_sum
from polymargin.compiled.memory import Pages
from polymargin.problem.kernel_columns import Columns
from polymargin.problem.kernels import IN_PLACE, KERNELS, dense_scores
from polymargin.problem.problem import Problem, computed_ahead, row_blocks, run_blocks

__all__ = ["KnownRows", "TrainingScores", "prototypes"]

_BLOCK_BYTES = 4_000_000  # a block of rows stays in the cache of the processor
_FEWEST_ROWS = 32
_COLUMNS = 2048  # of a tile of kernel values
_MANY = 4  # support patterns are at least one in so many: symmetry saves an eighth or more


def _block_rows(width: int) -> int:
    return max(16, _BLOCK_BYTES // (8 * max(1, width)))


def _as_float64(block: Any) -> Any:
    return block if block.dtype in (np.float64, object) else block.astype(np.float64)


def prototypes(problem: Problem, support: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """W_r = sum_i tau_ir x_i (1.3)."""
    X = problem.rows
    if sp.issparse(X):
        return weighted_sum(X, support, tau)
    W = np.zeros((tau.shape[1], X.shape[1]))
    size = _block_rows(X.shape[1])
    unpacked = IN_PLACE // max(W.size, 1)
    if unpacked >= _FEWEST_ROWS:
        size = min(size, unpacked)  # small pieces also stay in the cache
    if 2 * len(support) >= len(X) and X.shape[1] > tau.shape[1]:
        # most rows take part and rows are long: slices of X are cheaper than gathered rows
        full = np.zeros((len(X), tau.shape[1]))
        full[support] = tau
        for rows in row_blocks(len(X), size):
            W += full[rows].T @ _as_float64(X[rows])
        return W
    for rows in row_blocks(len(support), size):
        W += tau[rows].T @ _as_float64(X[support[rows]])
    return W


class TrainingScores:
    """Scores (R, k) of blocks of training examples by a dual point, in float64.

    Linear: ``W`` are the prototypes (the centre included), ``norm2`` is ||M - M_0||^2 and ``cross``
    is ⟨M - M_0, M_0⟩, both without the centre ||M||^2 and 0.
    """

    def __init__(
        self,
        problem: Problem,
        support: np.ndarray,
        tau: np.ndarray,
        known_rows: KnownRows | None = None,
    ) -> None:
        self.problem = problem
        self.tau = tau
        self.W: np.ndarray | None = None
        self.norm2 = self.cross = 0.0
        u = np.sqrt(problem.kernel.offset)
        constant = u * tau.sum(axis=0)
        self.intercept = u * constant
        width = 1
        if problem.kernel.is_linear:
            W = prototypes(problem, support, tau)
            self.norm2 = float((W * W).sum() + (constant * constant).sum())
            if problem.centre is not None:
                W0, constant0 = problem.centre
                self.cross = float((W * W0).sum() + (constant * constant0).sum())
                W, constant = W + W0, constant + constant0
            self.W, self.intercept = W, u * constant
            width = W.shape[1]
            if sp.issparse(problem.rows):
                self.columns, width = by_feature(W), 1
        elif known_rows is None:
            self.landmarks = _Landmarks(problem, support)
        X = problem.X
        self.block_size = min(_block_rows(width), _block_rows(tau.shape[1]))
        if self.W is None and known_rows is None:
            self.block_size = self.landmarks.block_size
        self.known: np.ndarray | None = None
        if known_rows is not None:
            self.known = known_rows.scores(support, tau)
        elif _has_symmetry(problem) and _MANY * len(support) >= problem.n_patterns:
            self.known = self.landmarks.scores_of_all(tau)
        self.full: np.ndarray | None = None
        kernel = problem.kernel
        if kernel.name == "precomputed" and not kernel.offset and 6 * len(support) >= len(X):
            # most columns take part: products with whole slices are cheaper than gathered columns
            self.full = np.zeros((tau.shape[1], len(X)))
            self.full[:, support] = tau.T
            self.block_size = 1024

    def block(self, rows: slice) -> np.ndarray:
        if self.known is not None:
            return self.known[:, rows].copy()
        if self.full is not None:
            # the matrix is symmetric: columns are rows, and these products read memory in order
            return np.asarray(self.full @ _as_float64(self.problem.X[:, rows]))
        if self.W is None:
            return self.landmarks.scores(rows, self.tau).T.copy()
        X = self.problem.rows
        if sp.issparse(X):
            scores = row_scores(X, rows, self.columns, len(self.W))
        else:
            scores = dense_scores(self.W, _as_float64(X[rows]))
        scores += self.intercept[:, None]
        return scores


def _has_symmetry(problem: Problem) -> bool:
    """Whether kernel values are computed, and those of a pair of rows are one number."""
    return problem.kernel.name in KERNELS and not problem.kernel.is_linear


class _Landmarks:
    """Kernel values against the support patterns in float64, block by block."""

    def __init__(self, problem: Problem, support: np.ndarray) -> None:
        self.problem = problem
        self.support = support
        is_given = problem.kernel.name == "precomputed"
        self.rows = support if is_given else _as_float64(problem.X[support])
        self.norms = None if problem.norms is None else problem.norms[support]
        self.columns = Columns(problem.kernel, self.rows, self.norms)
        self.block_size = self.columns.rows_at_once

    def values(self, rows: slice, columns: slice) -> np.ndarray:
        """Between two slices of the support patterns."""
        a, b = (None, None) if self.norms is None else (self.norms[rows], self.norms[columns])
        return self.problem.kernel.block(self.rows[rows], self.rows[columns], a, b)

    def scores(self, rows: Any, tau: np.ndarray) -> np.ndarray:
        """(k, R) scores of some patterns, ``block_size`` at most."""
        problem = self.problem
        a = None if problem.norms is None else problem.norms[rows]
        X = (
            problem.X[rows]
            if problem.kernel.name == "precomputed"
            else _as_float64(problem.X[rows])
        )
        return self.columns.sums(X, a, tau)

    def scores_of_all(self, tau: np.ndarray) -> np.ndarray:
        """(R, n) scores of all patterns; a value between two support patterns counts for both."""
        problem, support = self.problem, self.support
        n, k = problem.n_patterns, len(support)
        out = np.zeros((n, tau.shape[1]))
        others = np.setdiff1d(np.arange(n), support, assume_unique=True)

        def work(block: slice) -> None:
            out[others[block]] = self.scores(others[block], tau)

        run_blocks(work, len(others), self.block_size, problem.n_jobs)
        inside = np.zeros((k, tau.shape[1]))

        def of_block(rows: slice) -> tuple[np.ndarray, np.ndarray]:
            own = self.values(rows, rows) @ tau[rows]
            later = np.empty((k - rows.stop, tau.shape[1]))
            for part in row_blocks(len(later), _COLUMNS):
                columns = slice(rows.stop + part.start, rows.stop + part.stop)
                K = self.values(rows, columns)
                own += K @ tau[columns]
                later[part] = K.T @ tau[rows]
            return own, later

        blocks = list(row_blocks(k, self.block_size))
        # added one after another: sums keep their order
        for rows, (own, later) in zip(
            blocks, computed_ahead(of_block, blocks, problem.n_jobs), strict=True
        ):
            inside[rows] += own
            inside[rows.stop :] += later
        out[support] = inside
        return np.ascontiguousarray(out.T)


class KnownRows:
    """Kernel rows of all patterns that ever had weight, computed once.

    They lie together in the order in which they were first needed, so that scores are one product
    with the first of them, and with a few of the others.

    Parameters
    ----------
    write : callable
        ``write(patterns, columns, out, first)``: kernel values between these patterns and a slice
        of all of them, into the same columns of ``out``, from row ``first`` on.
    n : int
        Number of patterns.
    dtype : dtype
    capacity : int
        Rows that fit into the memory.
    n_jobs : int
    """

    _ROWS = 256  # of a tile
    _GATHERED = 3.0  # what a gathered row costs beside one that is read in order (measured)

    def __init__(
        self,
        write: Callable[..., None],
        n: int,
        dtype: Any = np.float64,
        capacity: int | None = None,
        n_jobs: int = 1,
    ) -> None:
        self.write, self.n_jobs = write, n_jobs
        self.place = np.full(n, -1)
        self.pages = Pages((n if capacity is None else min(capacity, n), n), dtype)
        self.rows = self.pages.array
        self.count = 0

    @classmethod
    def exact(cls, problem: Problem) -> KnownRows:
        """Rows in float64, for the judge."""
        X = problem.X if problem.kernel.function is not None else problem.X.astype(np.float64)
        n, norms = problem.n_patterns, problem.norms
        is_given = problem.kernel.name == "precomputed"
        everyone = Columns(problem.kernel, np.arange(n) if is_given else X, norms)

        def write(patterns: np.ndarray, columns: slice, out: np.ndarray, first: int) -> None:
            a = None if norms is None else norms[patterns]
            everyone.write(X[patterns], a, columns, out, (first, columns.start))

        return cls(write, n, n_jobs=problem.n_jobs)

    def missing(self, support: np.ndarray) -> np.ndarray:
        """The patterns among these whose rows are not there yet."""
        return np.asarray(support[self.place[support] < 0])

    def learn(self, new: np.ndarray, why_stop: Callable[[], str | None] | None = None) -> None:
        """Compute the rows of new patterns."""
        for block in row_blocks(len(new), self._ROWS):
            patterns = new[block]
            target = slice(self.count, self.count + len(patterns))
            self.pages.take(target.start, target.stop)

            write = partial(self.write, patterns, out=self.rows, first=target.start)
            run_blocks(write, len(self.place), _COLUMNS, self.n_jobs, why_stop)
            self.place[patterns] = np.arange(target.start, target.stop)
            self.count = target.stop

    def forget(self, count: int) -> None:
        """Give the memory of all rows but the first ``count`` back."""
        if count < self.count:
            self.place[self.place >= count] = -1
            self.pages.give_back(count, self.count)
            self.count = count

    def scores(self, support: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """(R, n) scores of all patterns by the coefficients of the support."""
        self.learn(self.missing(support))
        places = self.place[support]
        length = self._prefix(places)
        early = places < length
        full = np.zeros((tau.shape[1], length), dtype=self.rows.dtype)
        full[:, places[early]] = tau[early].T
        scores = np.empty((tau.shape[1], len(self.place)), dtype=self.rows.dtype)

        def work(columns: slice) -> None:
            np.matmul(full, self.rows[:length, columns], out=scores[:, columns])

        run_blocks(work, len(self.place), _COLUMNS, self.n_jobs)
        late = np.flatnonzero(~early)
        for block in row_blocks(len(late), self._ROWS):
            scores += tau[late[block]].T.astype(scores.dtype) @ self.rows[places[late[block]]]
        return scores

    def _prefix(self, places: np.ndarray) -> int:
        """How many rows to read in order; the rows of the support beyond them are gathered."""
        if not len(places):
            return 0
        ends = np.concatenate([[0], np.sort(places) + 1])
        gathered = np.arange(len(places), -1, -1)
        return int(ends[np.argmin(ends + self._GATHERED * gathered)])
