"""One side of many blocks of kernel values, laid out for them once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from polymargin.compiled.tiles import gaussian_sums, gaussian_tiles, pack, panel_width
from polymargin.problem.kernels import Kernel, is_gaussian

__all__ = ["Columns", "in_units"]

_TILE_BYTES, _TILE_ROWS, _TILE_COLUMNS = 4_000_000, 256, 2048
_FEWEST_ROWS = 8
"""Fewer rows than these would leave most of a tile empty."""


def in_units(values: np.ndarray, dtype: Any, unit: float) -> np.ndarray:
    """Values as multiples of ``unit``, rounded where the type holds whole numbers only."""
    if np.dtype(dtype).kind != "u":
        return values
    return np.rint(values / values.dtype.type(unit)).astype(dtype)


class Columns:
    """Rows B that are met by many blocks of rows A.

    Gaussian values of dense rows are made tile by tile from panels of B (``compiled.tiles``), and
    sums over them never leave the cache; all other kernels take their values from BLAS.

    Parameters
    ----------
    kernel : Kernel
    B : array or sparse matrix
        For "precomputed" the numbers of columns.
    b : (n,) array or None
        Squared norms of the rows of B, if the kernel asks for them.
    n_rows : int, optional
        How many rows A there will be in all: for a few tiles are not worth it.
    """

    def __init__(
        self, kernel: Kernel, B: Any, b: np.ndarray | None, n_rows: int = _FEWEST_ROWS
    ) -> None:
        self.kernel, self.B, self.b = kernel, B, b
        self.has_tiles = is_gaussian(kernel, B) and n_rows >= _FEWEST_ROWS
        if self.has_tiles:
            self.B = np.ascontiguousarray(B)

    @cached_property
    def panels(self) -> np.ndarray:
        """The columns as tiles of values see them."""
        return pack(self.B, panel_width(self.B.dtype))

    def __len__(self) -> int:
        return int(self.B.shape[0])

    @property
    def rows_at_once(self) -> int:
        """Rows A of a block, so that what it works on stays in the cache.

        Fewer rows would read B too often: with 784 features and double numbers blocks of 45 rows
        take half as long again (measured).
        """
        if self.has_tiles:
            return 4 * _TILE_ROWS
        width, fewest = max(len(self), 1), 16
        if self._has_tiles():
            width, fewest = min(width, _TILE_COLUMNS), _TILE_ROWS
        itemsize = getattr(self.B, "dtype", np.dtype(np.float64)).itemsize
        return max(fewest, _TILE_BYTES // (max(itemsize, 4) * width))

    def _has_tiles(self) -> bool:
        return isinstance(self.B, np.ndarray) and self.B.ndim == 2

    def _tiled(self, A: Any) -> bool:
        return self.has_tiles and is_gaussian(self.kernel, A) and bool(A.dtype == self.B.dtype)

    def write(
        self,
        A: Any,
        a: np.ndarray | None,
        columns: slice,
        out: np.ndarray,
        corner: tuple[int, int],
        unit: float = 1.0,
    ) -> None:
        """Write kernel values of the rows of A with a slice of the columns into ``out``.

        Parameters
        ----------
        A, a : rows and their squared norms
        columns : slice
            It begins with a multiple of 64.
        out : array, C-ordered
            Whole numbers are values in the ``unit`` given, rounded.
        corner : (int, int)
            Row and column of ``out`` of the first value.
        unit : float
        """
        r, c = corner
        if self._tiled(A) and out.dtype in (A.dtype, np.uint16):
            assert a is not None
            assert self.b is not None
            gamma = self.kernel.gamma
            first, count = columns.start // self.panels.shape[2], columns.stop - columns.start
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # callers look
                gaussian_tiles(
                    np.ascontiguousarray(A),
                    self.panels,
                    2.0 * gamma,
                    gamma * a,
                    gamma * self.b,
                    first,
                    count,
                    out,
                    corner,
                    self.kernel.offset,
                    unit,
                )
            return
        b = None if self.b is None else self.b[columns]
        found = in_units(self.kernel.block(A, self.B[columns], a, b), out.dtype, unit)
        out[r : r + found.shape[0], c : c + found.shape[1]] = found

    def sums(self, A: Any, a: np.ndarray | None, tau: np.ndarray) -> np.ndarray:
        """(rows of A, R) kernel values times ``tau`` (n, R).

        Blocks of A should have ``rows_at_once`` rows.
        """
        if self._tiled(A) and tau.dtype == A.dtype:
            assert a is not None
            assert self.b is not None
            gamma = self.kernel.gamma
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # callers look
                found = gaussian_sums(self.B, gamma * self.b, tau, 2.0 * gamma, A, gamma * a)
                if self.kernel.offset:
                    found += found.dtype.type(self.kernel.offset) * tau.sum(axis=0)
            return found
        if not self._has_tiles() or len(self) <= _TILE_COLUMNS:
            return np.asarray(self.kernel.block(A, self.B, a, self.b) @ tau)
        total: Any = 0.0
        for start in range(0, len(self), _TILE_COLUMNS):
            tile = slice(start, start + _TILE_COLUMNS)
            b = None if self.b is None else self.b[tile]
            total = total + self.kernel.block(A, self.B[tile], a, b) @ tau[tile]
        return np.asarray(total)
