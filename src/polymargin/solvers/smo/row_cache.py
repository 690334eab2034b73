"""The row cache of the SMO-like family: whole kernel rows, the least recently used one leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.problem.problem import Problem
from polymargin.solvers.kernel_rows import WorkingData

__all__ = ["RowCache", "row_capacity"]

_ITEM = 8  # bytes of a cached value
_FEWEST = 2


def row_capacity(n: int, cache_mb: float, cache_rows: int | None = None) -> int:
    """Rows that the cache holds (A11): the number given, or what fits into the memory given."""
    if cache_rows is not None:
        return min(n, int(cache_rows))
    return min(n, max(int(cache_mb * 1e6 // (_ITEM * n)), _FEWEST))


class RowCache:
    """Rows K[p, :] in float64, evaluated one at a time in the dtype given.

    Attributes
    ----------
    rows : (capacity, n) the pool.
    slot : (n,) place of the row of each pattern, -1 if it is not there.
    used, tick : when each place was last asked for.
    misses : int
        Rows asked for and not there, each computed then.
    computed : int
        Kernel rows computed: the misses, and the rows behind whole sets of scores.
    """

    def __init__(self, problem: Problem, dtype: Any, capacity: int) -> None:
        n = problem.n_patterns
        self.problem = problem
        self.misses = 0
        self.computed = 0
        self.rows = np.empty((capacity, n))
        self.slot = np.full(n, -1, dtype=np.int64)
        self.owner = np.full(capacity, -1, dtype=np.int64)
        self.used = np.zeros(capacity, dtype=np.int64)
        self.tick = np.zeros(1, dtype=np.int64)
        self.evaluate_in(dtype)

    @property
    def capacity(self) -> int:
        return len(self.rows)

    def evaluate_in(self, dtype: Any) -> None:
        """Kernel values in this dtype from now on; rows at hand are forgotten."""
        self.dtype = np.dtype(dtype)
        self.data = WorkingData(self.problem, self.dtype)
        self.data.grow(np.arange(self.problem.n_patterns))
        self.slot[:] = -1
        self.owner[:] = -1
        self.used[:] = 0

    def fetch(self, p: int) -> None:
        """Compute the row of pattern p into the place of the least recently used one."""
        place = int(self.used.argmin())  # a free place was never used
        if self.owner[place] >= 0:
            self.slot[self.owner[place]] = -1
        self.rows[place] = self.data.row(p)
        self.rows[place, p] = self.problem.diagonal[p]
        self.owner[place] = p
        self.slot[p] = place
        self.misses += 1
        self.computed += 1

    def scores(self, tau: np.ndarray, why_stop: Any) -> np.ndarray:
        """(R, n) scores K tau of all patterns, block by block, past the cache."""
        n, support = len(tau), np.flatnonzero(tau.any(axis=1))
        self.computed += len(support)
        scores = self.data.scores(np.arange(n), support, tau[support], why_stop)
        return np.ascontiguousarray(scores.T)
