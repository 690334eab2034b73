"""Rows of which few numbers are not zero: compressed copies of dense ones, and their products."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.compiled.jit import allocating, jit
from polymargin.compiled.memory import aligned, fresh
from polymargin.compiled.simd import MULTIPLE, add_to_rows, sum_rows

__all__ = ["by_feature", "columns_for", "compress", "row_scores", "score_rows", "weighted_sum"]

# Measured on digits of MNIST and noisy or thinned copies of them: below, compressing does not pay.
_FEWEST_NUMBERS, _SHORTEST_ROW, _LARGEST_SHARE = 1_000_000, 64, 0.25
_MOST_BYTES = 1 << 30  # a copy may be so large
_SAMPLE = 512  # rows
_STRETCH = 8  # numbers


def compress(X: np.ndarray, most_bytes: int = _MOST_BYTES) -> sp.csr_array | None:
    """Dense rows without their zeros, where these are so many that products become cheaper.

    The values stay what they are.  A sample tells how much room is needed; None if that was wrong.
    """
    n, width = X.shape
    if X.size < _FEWEST_NUMBERS or width < _SHORTEST_ROW or not X.flags.c_contiguous:
        return None
    sample = X[:: max(1, n // _SAMPLE)]
    share = np.count_nonzero(sample) / sample.size
    room = int(1.1 * share * X.size) + width
    if share > _LARGEST_SHARE or room * (X.itemsize + 4) > most_bytes:
        return None
    values, indices = fresh((room,), X.dtype), fresh((room,), np.int32)
    ends = np.zeros(n + 1, dtype=np.int32)
    if not _compress(X, values, indices, ends):
        return None
    found = slice(0, ends[-1])
    return sp.csr_array((values[found], indices[found], ends), shape=X.shape)


@jit
def _compress(X: Any, values: Any, indices: Any, ends: Any) -> bool:
    """False if there is no room for all numbers."""
    k = 0
    width = X.shape[1]
    whole = width - width % _STRETCH
    for i in range(len(X)):
        if k + width > len(values):
            return False
        for begin in range(0, whole, _STRETCH):
            size = 0.0
            for u in range(_STRETCH):
                size += abs(X[i, begin + u])
            if size != 0.0:  # zeros come in long stretches as a rule
                for t in range(begin, begin + _STRETCH):
                    values[k] = X[i, t]
                    indices[k] = t
                    k += 1 if X[i, t] != 0.0 else 0
        for t in range(whole, width):
            values[k] = X[i, t]
            indices[k] = t
            k += 1 if X[i, t] != 0.0 else 0
        ends[i + 1] = k
    return True


def columns_for(d: int, R: int, dtype: Any = np.float64) -> np.ndarray:
    """Room for R prototypes feature by feature: (d, R rounded up) zeros, every row on its lines."""
    return aligned((d, -(-R // MULTIPLE) * MULTIPLE), dtype)


def by_feature(W: np.ndarray) -> np.ndarray:
    """Prototypes (R, d) as columns that ``row_scores`` takes, padded with zeros."""
    V = columns_for(W.shape[1], len(W))
    V[:, : len(W)] = W.T
    return V


def row_scores(X: Any, rows: slice, V: np.ndarray, R: int) -> np.ndarray:
    """Inner products (R, k) of CSR rows with the first R columns of V, in float64."""
    out = np.empty((R, rows.stop - rows.start))
    score_rows(X.data, X.indices, X.indptr, np.arange(rows.start, rows.stop), V, out)
    return out


@allocating
def score_rows(values: Any, indices: Any, ends: Any, rows: Any, V: Any, out: Any) -> None:
    """Scores (R, k) of the listed CSR rows, all prototypes of a feature at once."""
    total = np.empty(V.shape[1], dtype=V.dtype)
    for j in range(len(rows)):
        i = rows[j]
        sum_rows(values, indices, ends[i], ends[i + 1], V, total)
        for r in range(out.shape[0]):
            out[r, j] = total[r]


def weighted_sum(X: Any, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``weights.T @ X[rows]`` (R, d) of CSR rows in float64."""
    R = weights.shape[1]
    V = columns_for(X.shape[1], R)
    _add_rows(X.data, X.indices, X.indptr, rows, weights, V)
    return np.ascontiguousarray(V[:, :R].T)


@allocating
def _add_rows(values: Any, indices: Any, ends: Any, rows: Any, weights: Any, V: Any) -> None:
    change = np.zeros(V.shape[1], dtype=V.dtype)
    for j in range(len(rows)):
        i = rows[j]
        for r in range(weights.shape[1]):
            change[r] = weights[j, r]
        add_to_rows(values, indices, ends[i], ends[i + 1], change, V)
