"""Landmarks: a few training rows whose kernel functions span the space of a machine.

With landmarks S, K_SS = L L' and features phi(x) = L^-1 kappa(S, x), the machine whose prototypes
lie in the span of kappa(s, .), s in S, is a linear machine on phi: norms and scores are those of
the exact kernel.  Its fitted prototypes W are kernel expansions over the landmarks, f(x) =
kappa(x, S) L^-T W' + intercept, so size and prediction cost depend on the number of landmarks only.

Rows become landmarks by randomly pivoted Cholesky: each with a probability proportional to the
part of kappa(x, x) that the span does not hold yet, as k-means++ chooses centres by the squared
distance that is left.  The factor that this leaves behind is the matrix of features itself, so the
choice costs nothing beside them.  Proposals are made in blocks and accepted one by one, which
gives the same distribution as one at a time, at the speed of matrix products.

After a quarter of the landmarks a guide may say which rows matter: rows with dual weight in the
machine of the first ones.  On MNIST (60,000 rows, 1000 landmarks, C = 10) that lowered P by 13 %
and the test error from 2.29 to 2.09 %.

References
----------
Chen, Epperly, Tropp & Webber, Comm. Pure Appl. Math. 78 (2025) 995-1041; Epperly, Tropp & Webber,
arXiv:2410.03969 (blocks with rejection).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from polymargin.compiled.memory import Pages
from polymargin.problem.kernels import Kernel
from polymargin.problem.problem import OutOfTimeError, Problem, run_blocks
from polymargin.solvers.kernel_rows import WorkingData

__all__ = ["Landmarks", "choose_landmarks", "in_span"]

_PROPOSALS = 256
"""Rows proposed together: products of this width run at full speed, and near the end of a
spectrum few proposals are refused."""
_ROWS = 4096
"""Rows of a block of features: its products stay below half a second between looks at the clock."""
_REST = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-12}
"""Part of the largest kappa(x, x) below which what is left of a row is rounding: ten times the
rounding of its own sum of squares.  When all rows are below, the span holds the whole kernel."""

_FIRST = 0.25
"""Part of the landmarks that is chosen before a guide is asked: enough to tell what matters."""

Progress = Callable[[int], None]
Guide = Callable[[np.ndarray], np.ndarray | None]
"""From the features (n, k) so far to factors (n,) of the probabilities of the rows, or None."""


@dataclass(frozen=True)
class Landmarks:
    """Chosen rows and the features of all rows.

    Attributes
    ----------
    indices : (m,) patterns, in the order in which they were chosen.
    factor : (m, m) lower triangular L with K_SS = L L', float64.
    features : (n, m) phi, float32 or float64.
    rest : (n,) kappa(x_i, x_i) - ||phi_i||^2 >= 0, what the span does not hold.
    """

    indices: np.ndarray
    factor: np.ndarray
    features: np.ndarray
    rest: np.ndarray

    def expansion(self, W: np.ndarray) -> np.ndarray:
        """(m, R) coefficients L^-T W' of prototypes (R, m) as sums of kappa(s, .)."""
        return np.asarray(solve_triangular(self.factor, W.T, trans="T", lower=True))


def in_span(problem: Problem, landmarks: Landmarks) -> Problem:
    """The machine with its prototypes in the span: linear on the features."""
    kernel = Kernel("linear", offset=problem.kernel.offset)
    return problem.changed(X=landmarks.features, kernel=kernel, kernel_psd=True)


def choose_landmarks(
    problem: Problem,
    count: int,
    dtype: Any,
    seed: Any,
    why_stop: Callable[[], str | None] | None = None,
    progress: Progress | None = None,
    guide: Guide | None = None,
) -> Landmarks:
    """Choose at most ``count`` landmarks and compute the features of all rows.

    Fewer come back where the kernel matrix has no further rank in ``dtype``, or where ``why_stop``
    gives a reason (at least one block is always made).  A ``guide`` is asked once, after a quarter
    of them: rows near the border between classes matter more than others.
    """
    plain = problem.changed(kernel=replace(problem.kernel, offset=0.0))
    search = _PivotedCholesky(plain, count, np.dtype(dtype), np.random.default_rng(seed))
    while search.has_more():
        if guide is not None and search.count >= _FIRST * count:
            factor = guide(np.ascontiguousarray(search.F[:, : search.count]))
            search.factor, guide = factor, None
        try:
            search.add(search.propose(), why_stop)
        except OutOfTimeError:
            break
        if progress is not None:
            progress(search.count)
        if why_stop is not None and why_stop():
            break
    return search.found()


class _PivotedCholesky:
    """K ~ F F' with one column of F for every landmark; F is grown in blocks of columns."""

    def __init__(
        self, problem: Problem, most: int, dtype: np.dtype, rng: np.random.Generator
    ) -> None:
        self.problem, self.rng = problem, rng
        n = problem.n_patterns
        self.data = WorkingData(problem, dtype)
        self.data.grow(np.arange(n))
        self.pages = Pages((n, most), dtype)
        self.F = self.pages.array
        self.rest = problem.diagonal.astype(np.float64).copy()
        self.least = _REST[dtype] * float(self.rest.max(initial=0.0))
        self.pivots = np.empty(0, dtype=np.int64)
        self.factor: np.ndarray | None = None

    @property
    def count(self) -> int:
        return len(self.pivots)

    def has_more(self) -> bool:
        """Whether there is room for a landmark, and a row that is not in the span."""
        return self.count < self.F.shape[1] and bool((self.rest > self.least).any())

    def propose(self) -> np.ndarray:
        """New pivots: proposals by what is left of the rows, accepted as if drawn one by one."""
        room = self.F.shape[1] - self.count
        weight = np.where(self.rest > self.least, self.rest, 0.0)
        if self.factor is not None:
            weight *= self.factor
        total = np.cumsum(weight)
        most = min(_PROPOSALS, max(self.F.shape[1] // 8, 16))  # a guide is asked in time
        drawn = self.rng.random(min(most, max(room, 16))) * total[-1]
        rows = np.minimum(np.searchsorted(total, drawn, side="right"), len(total) - 1)
        luck = self.rng.random(len(rows)) * self.rest[rows]
        H = self._left(rows, rows).astype(np.float64)
        accepted: list[int] = []
        for j in range(len(rows)):
            if len(accepted) == room:
                break
            own = H[j, j]
            if own > max(luck[j], self.least):
                accepted.append(j)
                column = H[:, j] / np.sqrt(own)
                H -= np.outer(column, column)
        if not accepted:  # rounding refused all of them: take the row that is left most
            return np.array([int(np.argmax(self.rest))])
        return rows[accepted]

    def _left(self, rows: Any, columns: np.ndarray) -> np.ndarray:
        """K - F F' between rows and some single patterns."""
        known = self.F[:, : self.count]
        block = self.data.block(rows, columns)
        return np.asarray(block - known[rows] @ known[columns].T, dtype=self.F.dtype)

    def add(self, new: np.ndarray, why_stop: Callable[[], str | None] | None) -> None:
        """Columns of F for new pivots, block of rows by block of rows."""
        k, last = self.count, self.count + len(new)
        own = self._left(new, new).astype(np.float64)
        lower = _factor(0.5 * (own + own.T), self.least)
        inverse = np.linalg.inv(lower).T
        if np.abs(inverse).max() < np.finfo(self.F.dtype).max:
            inverse = inverse.astype(self.F.dtype)

        def work(rows: slice) -> None:
            if not k:
                self.pages.take(rows.start, rows.stop)
            columns = self._left(rows, new) @ inverse
            self.F[rows, k:last] = columns
            left = self.rest[rows] - np.einsum("ij,ij->i", columns, columns, dtype=np.float64)
            self.rest[rows] = np.maximum(left, 0.0)

        asked = why_stop if k else None  # the first block is always made
        rest = self.rest.copy()
        n, n_jobs = self.problem.n_patterns, self.problem.n_jobs
        try:
            run_blocks(work, n, _ROWS, n_jobs, asked)
        except OutOfTimeError:
            self.rest = rest
            raise
        self.rest[new] = 0.0
        self.pivots = np.concatenate([self.pivots, new])

    def found(self) -> Landmarks:
        own = self.data.block(self.pivots, self.pivots).astype(np.float64)
        if self.problem.kernel.name != "precomputed":
            own = _exact_gram(self.problem, self.pivots)
        factor = _factor(0.5 * (own + own.T), self.least)
        return Landmarks(self.pivots, factor, _narrowed(self.F, self.count), self.rest)


def _exact_gram(problem: Problem, rows: np.ndarray) -> np.ndarray:
    """K between some patterns in float64, whatever the dtype of X."""
    X = problem.X[rows]
    if problem.kernel.function is None:
        X = X.astype(np.float64)
    norms = None if problem.norms is None else problem.norms[rows]
    return np.asarray(problem.kernel.block(X, X, norms, norms), dtype=np.float64)


def _factor(A: np.ndarray, least: float) -> np.ndarray:
    """Cholesky factor of A, its diagonal raised as far as rounding makes that necessary."""
    added = 0.0
    while True:
        try:
            return np.asarray(cholesky(A + added * np.eye(len(A)), lower=True))
        except np.linalg.LinAlgError:
            added = max(10.0 * added, 1e-3 * least, 1e-300)


def _narrowed(F: np.ndarray, count: int) -> np.ndarray:
    """The first columns of F as a C-ordered array in the memory of F."""
    n, width = F.shape
    if count == width:
        return F
    flat = F.reshape(-1)
    for start in range(0, n, _ROWS):
        stop = min(start + _ROWS, n)
        flat[start * count : stop * count] = F[start:stop, :count].copy().reshape(-1)
    return flat[: n * count].reshape(n, count)
