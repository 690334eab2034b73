"""Large arrays whose memory is taken in long stretches instead of page by page.

The first write to a page of fresh memory stops the program until the system has found one; in
virtual machines that takes microseconds, more than most of what is done with the page.  Blocks
below 32 MB are used again by the C library; larger ones are given back and fresh every time.
"""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

__all__ = ["Pages", "aligned", "fresh", "rows_of"]

_LARGE = 1 << 25
_CACHE_LINE = 64
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE of Linux 5.14, which ``mmap`` does not name


def zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """``np.zeros``; tests replace it by one that fails, to see what a fit without memory leaves."""
    return np.zeros(shape, dtype)


class Pages:
    """An array of zeros whose memory can be taken ahead of its first use.

    Attributes
    ----------
    array : ndarray
        Zeros, C-ordered.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        dtype = np.dtype(dtype)
        size = prod(shape) * dtype.itemsize
        self._map: mmap.mmap | None = None
        if size >= _LARGE and sys.platform == "linux":
            with suppress(OSError):  # the usual way will say what is wrong
                self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if self._map is None:
            self.array = zeros(shape, dtype)
        else:
            self.array = np.frombuffer(self._map, dtype).reshape(shape)

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
    pages.take(0, shape[0])
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
