"""Copies across the diagonal of a square matrix, tile by tile.

A transposed copy reads along rows and writes along columns: done line by line, every number costs
a cache miss of its own.  Both sides of a small tile stay in the first cache.
"""

from __future__ import annotations

from typing import Any

from polymargin.compiled.jit import jit

__all__ = ["mirror"]

_TILE = 32  # two lines of 16-bit numbers; 16 and 64 take as long (measured)


@jit
def mirror(K: Any, row: int, last_row: int, column: int, last_column: int) -> None:
    """``K[row:last_row, column:last_column] = K[column:last_column, row:last_row].T``.

    The two blocks must not overlap.
    """
    for i in range(row, last_row, _TILE):
        i_end = min(i + _TILE, last_row)
        for j in range(column, last_column, _TILE):
            j_end = min(j + _TILE, last_column)
            for a in range(i, i_end):
                for b in range(j, j_end):
                    K[a, b] = K[b, a]
