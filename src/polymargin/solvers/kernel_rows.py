"""Kernel rows between the patterns of a working set, in a pool of bounded memory.

While all rows fit they are all kept (a Gram matrix of the working set); beyond that the least
recently used rows make room for the ones that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.compiled.memory import Pages
from polymargin.compiled.mirror import mirror
from polymargin.problem.kernel_columns import Columns, in_units
from polymargin.problem.kernels import scaled
from polymargin.problem.problem import Problem, row_blocks, run_blocks

__all__ = ["KernelRows", "WorkingData", "largest_growth"]

_BLOCK = 256
_PREPARED_ROWS = 1024
_LONG_ROW = 64  # numbers from which on a kernel value costs more than a transposed copy of it


def largest_growth(m: int) -> int:
    """How many patterns join a set of m patterns at most."""
    return max(2 * m // 3, 1000)


class KernelRows:
    """Rows K[ids[i], ids] for positions i of a working set.

    Attributes
    ----------
    ids : (m,) pattern numbers in play, in position order.
    rows : (capacity, width) the pool.
    slot : (width,) place of the row of each position, -1 if it is not there.
    unit : float
        Rows are multiples of this.
    misses : int
        Rows computed because they were asked for and not there.
    """

    def __init__(
        self,
        problem: Problem,
        dtype: Any,
        cache_mb: float,
        why_stop: Callable[[], str | None] | None = None,
        unit: float | None = None,
    ) -> None:
        self.problem = problem
        self.why_stop = why_stop
        self.dtype = np.dtype(dtype)
        self.unit = 1.0 if unit is None else unit
        self.stored = self.dtype if unit is None else np.dtype(np.uint16)
        self.cells = max(int(cache_mb * 1e6 / self.stored.itemsize), 64)
        self.ids = np.empty(0, dtype=np.int64)
        self.data = WorkingData(problem, self.dtype)
        self.widest = min(problem.n_patterns, max(int(np.sqrt(self.cells)), 16))
        self._allocate(0)
        self.misses = 0
        self.mirrored_from = 0

    def _allocate(self, width: int) -> None:
        capacity = min(width, max(self.cells // max(width, 1), 2))
        self.pages = Pages((capacity, width), self.stored)
        self.rows = self.pages.array
        self.slot = np.full(width, -1, dtype=np.int64)
        self.owner = np.full(capacity, -1, dtype=np.int64)
        self.used = np.zeros(capacity, dtype=np.int64)
        self.tick = np.zeros(1, dtype=np.int64)

    @property
    def capacity(self) -> int:
        return len(self.rows)

    def open(self, ids: np.ndarray) -> None:
        """These patterns are in play; no row is computed before it is fetched."""
        self._allocate(len(ids))
        self.ids = ids
        self.data.grow(ids)

    def grow(self, new: np.ndarray) -> None:
        """The patterns ``new`` join: rows at hand get their columns, new rows while they fit."""
        m, wanted, problem = len(self.ids), len(self.ids) + len(new), self.problem
        if wanted > self.rows.shape[1]:
            self._widen(self._width_for(wanted))
        self.ids = np.concatenate([self.ids, new])
        self.data.grow(new)
        if wanted <= self.capacity and not m and self._copy_given(new):
            return
        if wanted <= self.capacity:
            # the whole matrix fits: new rows in blocks, their columns by symmetry
            self.mirrored_from = m
            is_long = self.data.length >= _LONG_ROW
            self.slot[m:wanted] = np.arange(m, wanted)
            self.owner[m:wanted] = np.arange(m, wanted)
            self._fill(m, wanted, is_long)
            run_blocks(self._mirror, m, _BLOCK, problem.n_jobs, self.why_stop)
            if is_long:
                run_blocks(self._mirror_new, wanted - m, _BLOCK, problem.n_jobs, self.why_stop)
            return
        kept = np.flatnonzero(self.owner >= 0)
        for start in range(0, len(kept), _BLOCK):
            places = kept[start : start + _BLOCK]
            new_columns = self.data.block(self.owner[places], slice(m, wanted))
            self.rows[places, m:wanted] = in_units(new_columns, self.stored, self.unit)

    def _width_for(self, wanted: int) -> int:
        """Room for so many patterns and those of the next round: copies take fresh memory."""
        width = wanted + largest_growth(wanted)
        if wanted <= self.widest:
            width = min(width, self.widest)  # all rows fit
        return min(self.problem.n_patterns, width)

    def cells_after(self, n_new: int) -> int:
        """How many numbers the pool will hold when so many patterns have joined."""
        wanted = len(self.ids) + n_new
        width = self.rows.shape[1] if wanted <= self.rows.shape[1] else self._width_for(wanted)
        return width * min(width, max(self.cells // max(width, 1), 2))

    def _copy_given(self, new: np.ndarray) -> bool:
        """All patterns of a given matrix join: a copy of it, if that is all there is to do."""
        problem = self.problem
        n = problem.n_patterns
        if problem.kernel.name != "precomputed" or problem.kernel.offset or len(new) != n:
            return False
        if self.rows.shape != (n, n) or not np.array_equal(new, np.arange(n)):
            return False
        self.rows[:] = problem.X
        self.slot[:] = self.owner[:] = new
        return True

    def _mirror(self, block: slice) -> None:
        """Columns of the newest rows into older rows, by symmetry."""
        m, end = self.mirrored_from, len(self.ids)
        mirror(self.rows, block.start, block.stop, m, end)

    def _mirror_new(self, block: slice) -> None:
        """What ``_fill`` left out of a block of new rows, beyond its diagonal."""
        first, end = self.mirrored_from, len(self.ids)
        last = first + block.stop
        mirror(self.rows, first + block.start, last, last, end)

    def _widen(self, width: int) -> None:
        old, owners = self.rows, self.owner
        m = len(self.ids)
        self._allocate(width)
        places = np.flatnonzero(owners >= 0)[: self.capacity]
        in_order = np.array_equal(places, np.arange(len(places)))

        def work(block: slice) -> None:
            self.pages.take(block.start, block.stop)
            self.rows[block, :m] = old[block if in_order else places[block], :m]

        run_blocks(work, len(places), _BLOCK, self.problem.n_jobs)
        self.owner[: len(places)] = owners[places]
        self.slot[owners[places]] = np.arange(len(places))

    def _fill(self, first: int, end: int, is_half: bool) -> None:
        """Compute rows into their own places, or each block up to and with its diagonal."""
        data = self.data
        everyone = Columns(data.kernel, *data.columns(slice(0, end)))

        def work(block: slice) -> None:
            rows = slice(first + block.start, first + block.stop)
            self.pages.take(rows.start, rows.stop)
            columns = slice(0, rows.stop if is_half else end)
            everyone.write(*data.operand(rows), columns, self.rows, (rows.start, 0), self.unit)

        run_blocks(work, end - first, _BLOCK, self.problem.n_jobs, self.why_stop)

    def hold(self, positions: np.ndarray) -> None:
        """Have the rows of these positions, at most ``capacity``, all at hand.

        They may be many: OutOfTimeError if the fit has to end meanwhile.
        """
        places = self.slot[positions]
        self.tick += 1
        self.used[places[places >= 0]] = self.tick[0]  # these must not leave for the others
        self._bring(positions[places < 0], self.why_stop)

    def fetch(self, positions: np.ndarray) -> None:
        """Bring in missing rows, at most half of the pool; the least recently used ones leave."""
        self._bring(positions[self.slot[positions] < 0][: max(self.capacity // 2, 1)])

    def _bring(
        self, positions: np.ndarray, why_stop: Callable[[], str | None] | None = None
    ) -> None:
        if not len(positions):
            return
        self.misses += len(positions)
        free = np.flatnonzero(self.owner < 0)
        if len(free) < len(positions):
            taken = np.flatnonzero(self.owner >= 0)
            oldest = taken[np.argsort(self.used[taken], kind="stable")]
            leaving = oldest[: len(positions) - len(free)]
            self.slot[self.owner[leaving]] = -1
            free = np.concatenate([free, leaving])
        places = free[: len(positions)]
        m = len(self.ids)

        def work(some: slice) -> None:
            found = self.data.block(positions[some], slice(0, m))
            self.rows[places[some], :m] = in_units(found, self.stored, self.unit)

        run_blocks(work, len(positions), _BLOCK, self.problem.n_jobs, why_stop)
        self.owner[places] = positions
        self.slot[positions] = places
        self.tick += 1
        self.used[places] = self.tick[0]

    def keep(self, positions: np.ndarray) -> None:
        """Only these positions (ascending) stay in the working set."""
        m = len(positions)
        renumber = np.full(len(self.slot), -1, dtype=np.int64)
        renumber[positions] = np.arange(m)
        before = len(self.ids)
        whole = before <= self.capacity and bool((self.slot[:before] == np.arange(before)).all())
        for place in positions if whole else np.flatnonzero(self.owner >= 0):
            owner = renumber[place] if whole else renumber[self.owner[place]]
            target = owner if whole else place
            if owner >= 0:
                self.rows[target, :m] = self.rows[place, :before][positions]
            if not whole:
                self.owner[place] = owner
        if whole:
            self.owner[:] = -1
            self.owner[:m] = np.arange(m)
        self.slot[:] = -1
        places = np.flatnonzero(self.owner >= 0)
        self.slot[self.owner[places]] = places
        self.ids = self.ids[positions]
        self.data.keep(positions)


class WorkingData:
    """The rows of X in play, gathered once, in the dtype of the kernel rows."""

    def __init__(self, problem: Problem, dtype: np.dtype) -> None:
        self.problem = problem
        self.dtype = dtype
        self.shift = _centre(problem, dtype)
        self.kernel, self.factor = problem.kernel.folded()
        self.ids = np.empty(0, dtype=np.int64)
        self.X = self.prepare(self.ids)
        self.norms = self.norms_of(self.X)

    def prepare(self, ids: Any) -> Any:
        """Rows of X in the working dtype, scaled by the width and centred where that helps."""
        if self.kernel.name == "precomputed":
            return None
        if self.kernel.function is not None or sp.issparse(self.problem.X):
            return self._scaled(self.problem.X[ids])
        prepared = np.empty((len(ids), self.problem.X.shape[1]), dtype=self.dtype)
        for block in row_blocks(len(ids), _PREPARED_ROWS):  # float64 copies stay small
            prepared[block] = self._scaled(self.problem.X[ids[block]])
        return prepared

    def _scaled(self, X: Any) -> Any:
        if self.kernel.function is not None:
            return X
        if self.shift is not None:
            X = X - self.shift
        if np.any(self.factor != 1.0):
            # in float64 first: the product must not be rounded to the dtype of X
            X = scaled(X, self.factor)
        return X.astype(self.dtype, copy=False)

    def norms_of(self, X: Any) -> np.ndarray | None:
        if self.problem.norms is None:
            return None
        if sp.issparse(X):
            return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
        return np.einsum("ij,ij->i", X, X, dtype=np.float64)

    def grow(self, new: np.ndarray) -> None:
        self.ids = np.concatenate([self.ids, new])
        if self.X is None:
            return
        added = self.prepare(new)
        if not self.X.shape[0]:
            self.X = added
        elif sp.issparse(added):
            self.X = sp.vstack([self.X, added], format="csr")
        else:
            self.X = np.concatenate([self.X, added])
        if self.norms is not None:
            self.norms = np.concatenate([self.norms, self.norms_of(added)])

    def keep(self, positions: np.ndarray) -> None:
        self.ids = self.ids[positions]
        if self.X is not None:
            self.X = self.X[positions]
        if self.norms is not None:
            self.norms = self.norms[positions]

    def operand(self, positions: Any) -> tuple[Any, np.ndarray | None]:
        """Some positions as the rows of kernel values, with their norms."""
        if self.X is None:
            return self.problem.X[self.ids[positions]], None
        return self.X[positions], None if self.norms is None else self.norms[positions]

    def columns(self, positions: Any) -> tuple[Any, np.ndarray | None]:
        """Some positions as the columns of kernel values, with their norms."""
        return (self.ids[positions], None) if self.X is None else self.operand(positions)

    def block(self, positions: Any, columns: Any) -> np.ndarray:
        """Kernel values between positions, each given by a slice or by numbers."""
        A, a = self.operand(positions)
        B, b = self.columns(columns)
        return self.kernel.block(A, B, a, b)

    @property
    def length(self) -> float:
        """Numbers that go into a kernel value: 0 for given matrices, many for callables."""
        X, n = self.problem.X, max(self.problem.n_patterns, 1)
        if self.kernel.name == "precomputed":
            return 0.0
        if self.kernel.function is not None:
            return float("inf")
        return float(X.nnz / n if sp.issparse(X) else X.shape[1])

    @property
    def cells_of_all(self) -> int:
        """Numbers in a copy of X (of a sparse one the stored numbers and their places)."""
        X = self.problem.X
        if self.kernel.function is not None:
            return 0
        return 2 * int(X.nnz) if sp.issparse(X) else int(X.size)

    def writer_of_all(self) -> Callable[[np.ndarray, slice, np.ndarray, int], None]:
        """A function that writes the kernel values of patterns with some patterns of X."""
        whole = self.prepare(np.arange(self.problem.n_patterns))
        norms = self.norms_of(whole)
        everyone = Columns(self.kernel, whole, norms)

        def write(patterns: np.ndarray, columns: slice, out: np.ndarray, first: int) -> None:
            a = None if norms is None else norms[patterns]
            everyone.write(whole[patterns], a, columns, out, (first, columns.start))

        return write

    def row(self, position: int) -> np.ndarray:
        """Kernel values of everyone in play against one of them."""
        kernel, one = self.kernel, slice(position, position + 1)
        if self.X is None:
            p = self.ids[position]
            return kernel.block(self.problem.X[p : p + 1], self.ids, None, None)[0]
        a = b = None
        if self.norms is not None:
            a, b = self.norms, self.norms[one]
        return kernel.block(self.X, self.X[one], a, b)[:, 0]

    def scores(
        self,
        patterns: np.ndarray,
        positions: np.ndarray,
        tau: np.ndarray,
        why_stop: Callable[[], str | None] | None = None,
    ) -> np.ndarray:
        """(k, R) scores of any patterns by some positions of the set and their coefficients."""
        problem = self.problem
        is_given = self.X is None
        others = self.ids[positions] if is_given else self.X[positions]
        b = None if self.norms is None else self.norms[positions]
        columns = Columns(self.kernel, others, b, len(patterns))
        out = np.zeros((len(patterns), tau.shape[1]), dtype=tau.dtype)
        if not len(positions):
            return out

        def work(block: slice) -> None:
            X = problem.X[patterns[block]] if is_given else self.prepare(patterns[block])
            a = None if self.norms is None else self.norms_of(X)
            out[block] = columns.sums(X, a, tau)

        run_blocks(work, len(patterns), columns.rows_at_once, problem.n_jobs, why_stop)
        return out


def _centre(problem: Problem, dtype: np.dtype) -> np.ndarray | None:
    """RBF values do not see a shift of the data; near the origin float32 loses less."""
    if problem.kernel.name != "rbf" or sp.issparse(problem.X) or dtype == np.float64:
        return None
    return problem.X.mean(axis=0, dtype=np.float64)
