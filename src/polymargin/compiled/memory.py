"""Large arrays whose memory is taken in long stretches instead of page by page, and used again.

The first write to a page of fresh memory stops the program until the system has found one; in
virtual machines, which must ask their host, that takes microseconds, more than most of what is done
with the page.  So the memory of arrays that are gone serves the next ones.  The system knows that
it holds nothing of value (MADV_FREE) and takes it back where memory becomes scarce.
"""

from __future__ import annotations

import mmap
import sys
import threading
import weakref
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

__all__ = ["Pages", "aligned", "fresh", "rows_of"]

_LARGE = 1 << 22
_MOST_KEPT = 1 << 29
"""Bytes that wait for their next use at most."""
_CACHE_LINE = 64
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE of Linux 5.14, which ``mmap`` does not name


def zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """``np.zeros``; tests replace it by one that fails, to see what a fit without memory leaves."""
    return np.zeros(shape, dtype)


class _Store:
    """Memory of arrays that are gone."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # garbage is collected in the middle of anything
        self.blocks: list[mmap.mmap] = []

    def take(self, size: int) -> tuple[mmap.mmap, bool]:
        """Memory of at least this size, and whether it was used before; OSError: there is none."""
        with self.lock:
            fitting = [block for block in self.blocks if size <= len(block) <= 2 * size]
            if fitting:
                best = min(fitting, key=len)
                self.blocks.remove(best)
                return best, True
        # a few sizes only, so that a block fits the next array of about this size
        step = 1 << max(size.bit_length() - 3, 0)
        wanted = -(-size // step) * step
        try:
            return mmap.mmap(-1, wanted, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), False
        except OSError:
            with self.lock:
                self.blocks.clear()
            return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), False

    def keep(self, block: mmap.mmap) -> None:
        """The array in this memory is gone."""
        if len(block) > _MOST_KEPT:
            return
        with suppress(OSError, AttributeError):
            block.madvise(mmap.MADV_FREE)
        with self.lock:
            self.blocks.append(block)
            while sum(map(len, self.blocks)) > _MOST_KEPT:
                self.blocks.pop(0)


_store = _Store()


class Pages:
    """An array whose memory can be taken ahead of its first use.

    Attributes
    ----------
    array : ndarray
        C-ordered; its numbers are to be written before they are read.
    is_zero : bool
        Whether they are zeros.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        dtype = np.dtype(dtype)
        count = prod(shape)
        self._map: mmap.mmap | None = None
        self.is_zero = True
        if count * dtype.itemsize >= _LARGE and sys.platform == "linux":
            with suppress(OSError):  # the usual way will say what is wrong
                self._map, was_used = _store.take(count * dtype.itemsize)
                self.is_zero = not was_used
        if self._map is None:
            self.array = zeros(shape, dtype)
        else:
            numbers = np.frombuffer(self._map, dtype, count)
            weakref.finalize(numbers, _store.keep, self._map).atexit = False
            self.array = numbers.reshape(shape)

    def take(self, begin: int, end: int) -> None:
        """Take the memory of the rows from ``begin`` to ``end`` now."""
        if self._map is None or end <= begin:
            return
        row = self.array.strides[0]
        first = begin * row // mmap.PAGESIZE * mmap.PAGESIZE
        with suppress(OSError):  # an older system: pages come as they are written
            self._map.madvise(_POPULATE_WRITE, first, end * row - first)

    def give_back(self, begin: int, end: int) -> None:
        """The rows from ``begin`` to ``end`` are not needed any more."""
        row = self.array.strides[0]
        first = -(-begin * row // mmap.PAGESIZE) * mmap.PAGESIZE
        last = end * row // mmap.PAGESIZE * mmap.PAGESIZE
        if self._map is not None and first < last:
            with suppress(OSError, AttributeError):  # it goes with the rest, later
                self._map.madvise(mmap.MADV_DONTNEED, first, last - first)


def fresh(shape: tuple[int, ...], dtype: Any = np.float64) -> np.ndarray:
    """Zeros that will all be written to."""
    pages = Pages(shape, dtype)
    if pages.is_zero:
        pages.take(0, shape[0])
    else:
        pages.array[...] = 0
    return pages.array


def aligned(shape: tuple[int, ...], dtype: Any = np.float64) -> np.ndarray:
    """Zeros that begin with a cache line, for vectors that should not lie across two of them."""
    size = prod(shape) * np.dtype(dtype).itemsize
    raw = zeros((size + _CACHE_LINE,), np.uint8)
    begin = -raw.ctypes.data % _CACHE_LINE
    return raw[begin : begin + size].view(dtype).reshape(shape)


def rows_of(X: Any, rows: np.ndarray) -> Any:
    """A copy of some rows of an array or a sparse matrix."""
    if not isinstance(X, np.ndarray):
        return X[rows]
    if len(rows) * X.shape[1] * X.itemsize < _LARGE:
        return np.asarray(X).take(rows, axis=0)
    # "clip" writes straight into the result; the rows are known to exist
    return np.take(X, rows, axis=0, out=fresh((len(rows), X.shape[1]), X.dtype), mode="clip")
