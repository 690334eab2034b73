"""Fields of linear machines: prototypes beside the rows of X, or beside copies of a few of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.compiled.csr import columns_for, score_rows
from polymargin.compiled.fields import DenseField, SparseField, dense_field
from polymargin.problem.problem import Problem, as_read_only, row_blocks

__all__ = ["FEW", "make_field", "packed_rows", "set_prototypes", "sparse_scores", "unpack"]

# Rows are packed from this length on, while they are at most this share of all, and while rounding
# (relative to ||M|| ||x||) stays far below a margin.
_LONG_ROW, FEW, _LARGEST_SCORE = 64, 0.15, 1e3

_FITS_CACHE = 1 << 20
_PACKED_TOGETHER = 256  # rows that are copied twice, once as they are: these stay in the cache


def packed_rows(
    field: Any,
    patterns: np.ndarray,
    slot: np.ndarray,
    norm2: Callable[[], float],
    problem: Problem,
    few: float = FEW,
) -> DenseField | None:
    """The field with the rows in play as float32 side by side, where they are long and few.

    Passes wait for memory: half of it, and in one piece, is 1.5 times faster.  ``slot`` (n,)
    receives the places; ``norm2`` tells ||M||^2, and is asked only where all else is well.
    """
    if not isinstance(field, DenseField):
        return None
    n, width = field.X.shape
    if width < _LONG_ROW or len(patterns) > few * n:
        return None
    if norm2() * float(problem.diagonal.max()) > _LARGEST_SCORE**2:
        return None
    rows = np.empty((len(patterns), width), dtype=np.float32)
    slot[patterns] = np.arange(len(patterns))
    for part in row_blocks(len(patterns), _PACKED_TOGETHER):
        rows[part] = field.X[patterns[part]]
    return field._replace(packed=rows, slot=slot, packed_W=field.W.astype(np.float32))


def unpack(field: Any, packed: DenseField | None) -> None:
    """The prototypes of the packed field are those of the field again."""
    if packed is not None:
        field.W[:] = packed.packed_W


def set_prototypes(field: Any, place: np.ndarray | None, W: np.ndarray) -> None:
    """The prototypes of a field become W (R, d)."""
    if isinstance(field, SparseField):
        field.V[place, : len(W)] = W.T
    else:
        field.W[:] = W


def sparse_scores(field: SparseField, patterns: np.ndarray, R: int) -> np.ndarray:
    """(R, k) scores of patterns by the first R prototypes, without the constant feature."""
    out = np.empty((R, len(patterns)), dtype=field.V.dtype)
    score_rows(field.data, field.indices, field.indptr, patterns, field.V, out)
    return out


def make_field(
    problem: Problem, single: bool, R: int, scale: float
) -> tuple[DenseField | SparseField, np.ndarray | None]:
    """R prototypes at zero beside the rows of X; for sparse rows also the place of each feature.

    ``scale`` is the constant feature.
    Beside sparse rows the memory of the prototypes is what the runner waits for: they are float32
    where that will do, and where they do not fit into the cache the most frequent features lie
    together.
    """
    X = problem.rows
    width, constant = X.shape[1], np.zeros(R)
    if not sp.issparse(X):
        return dense_field(as_read_only(X), np.zeros((R, width)), constant, scale), None
    V = columns_for(width, R, np.float32 if single else np.float64)
    place, indices = np.arange(width, dtype=X.indices.dtype), X.indices
    if V.nbytes > _FITS_CACHE:
        frequency = np.bincount(indices, minlength=width)
        place[np.argsort(-frequency, kind="stable")] = np.arange(width, dtype=place.dtype)
        indices = place[indices]
    data, indices, indptr = map(as_read_only, (X.data, indices, X.indptr))
    total = np.empty(V.shape[1], dtype=V.dtype)
    return SparseField(data, indices, indptr, V, constant, scale, total), place
