"""Fields: where the scores live, behind six compiled verbs that every solver body is written in.

================================================  =============================================
verb                                              meaning
================================================  =============================================
``read(field, i, active, count, out)``            scores f_r(x_i) of the prototypes
                                                  ``active[i, :count]`` into ``out[:count]``
``difference(field, i, r, s)``                    f_r(x_i) - f_s(x_i)
``push(field, i, r, amount)``                     prototype r gains ``amount`` times phi(x_i)
``push_pair(field, i, r, s, amount)``             prototype r gains what s loses
``push_list(field, i, active, count, change)``    every listed prototype gains ``change[q]`` times
                                                  phi(x_i)
``is_ready(field, i)``                            whether pattern i can be pushed now (its kernel
                                                  row is at hand)
================================================  =============================================

Linear data keep the prototypes and pay at ``read``; kernel data keep all scores and pay at
``push``.  Dense prototypes are stored class by class (an active class is one contiguous row);
beside sparse rows they are stored feature by feature (one feature touches one cache line).
A penalised intercept is a constant feature ``scale`` that lives inside the verbs: no column is
appended to X, which would copy it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from polymargin.compiled.jit import INLINED, inlined
from polymargin.compiled.simd import add_to_rows, sum_rows

__all__ = [
    "VERBS",
    "DenseField",
    "KernelField",
    "SparseField",
    "Verbs",
    "dense_field",
    "difference",
    "is_ready",
    "push",
    "push_list",
    "push_pair",
    "read",
]


_COLUMNS_PER_PROTOTYPE = 16
"""Sparse rows: so many columns of whole rows of V cost as much as one listed prototype."""


class DenseField(NamedTuple):
    """Dense rows X (n, d) with prototypes W (R, d) and the weights of the constant feature.

    While rows are packed (``len(packed)`` is not 0), row i is ``packed[slot[i]]`` and prototypes
    are ``packed_W``, both float32: half the memory to wait for.  X and W are then not looked at.
    Both kinds of rows are one type because the loops are compiled once for every type of field.
    """

    X: np.ndarray
    W: np.ndarray
    constant: np.ndarray
    scale: float
    packed: np.ndarray
    slot: np.ndarray
    packed_W: np.ndarray


class SparseField(NamedTuple):
    """CSR rows with prototypes stored feature by feature: V (d, R rounded up to eights).

    ``total`` is room for one row of V.
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    V: np.ndarray
    constant: np.ndarray
    scale: float
    total: np.ndarray


class KernelField(NamedTuple):
    """Kernel rows at hand (``slot[i]`` is the place of row i, -1 if absent) and scores F (R, m).

    Rows are multiples of ``unit``: numbers as they are, or whole numbers of 16 bits, half as much
    memory to wait for.  ``width`` patterns are in play; rows and scores may be wider.  ``used`` and
    ``tick`` keep the time of the last use of every row, so that the least recently used one can
    make room.  The constant feature belongs to an unpenalised intercept, whose weight changes while
    the rows stay; ``scale`` is 0 where there is none.
    """

    rows: np.ndarray
    slot: np.ndarray
    F: np.ndarray
    width: int
    used: np.ndarray
    tick: np.ndarray
    constant: np.ndarray
    scale: float
    unit: float = 1.0


def dense_field(X: np.ndarray, W: np.ndarray, constant: np.ndarray, scale: float) -> DenseField:
    """A DenseField of which no rows are packed."""
    nothing = np.empty((0, 0), dtype=np.float32)
    return DenseField(X, W, constant, scale, nothing, np.empty(0, dtype=np.int64), nothing)


def _read_dense(field: Any, i: Any, active: Any, count: Any, out: Any) -> None:
    if len(field.packed) > 0:
        k = field.slot[i]
        for q in range(count):
            r = np.intp(active[i, q])
            single = np.float32(0)
            for t in range(field.packed.shape[1]):
                single += field.packed_W[r, t] * field.packed[k, t]
            out[q] = single + field.constant[r] * field.scale
        return
    for q in range(count):
        r = np.intp(active[i, q])
        score = 0.0
        for t in range(field.X.shape[1]):
            score += field.W[r, t] * field.X[i, t]
        out[q] = score + field.constant[r] * field.scale


def _difference_dense(field: Any, i: Any, r: Any, s: Any) -> float:
    constant = (field.constant[r] - field.constant[s]) * field.scale
    if len(field.packed) > 0:
        k, single = field.slot[i], np.float32(0)
        for t in range(field.packed.shape[1]):
            single += (field.packed_W[r, t] - field.packed_W[s, t]) * field.packed[k, t]
        return single + constant
    score = 0.0
    for t in range(field.X.shape[1]):
        score += (field.W[r, t] - field.W[s, t]) * field.X[i, t]
    return score + constant


def _push_dense(field: Any, i: Any, r: Any, amount: Any) -> None:
    if len(field.packed) > 0:
        k, change = field.slot[i], np.float32(amount)
        for t in range(field.packed.shape[1]):
            field.packed_W[r, t] += change * field.packed[k, t]
    else:
        for t in range(field.X.shape[1]):
            field.W[r, t] += amount * field.X[i, t]
    field.constant[r] += amount * field.scale


def _push_pair_dense(field: Any, i: Any, r: Any, s: Any, amount: Any) -> None:
    if len(field.packed) > 0:
        k, single = field.slot[i], np.float32(amount)
        for t in range(field.packed.shape[1]):
            step = single * field.packed[k, t]
            field.packed_W[r, t] += step
            field.packed_W[s, t] -= step
    else:
        for t in range(field.X.shape[1]):
            change = amount * field.X[i, t]
            field.W[r, t] += change
            field.W[s, t] -= change
    field.constant[r] += amount * field.scale
    field.constant[s] -= amount * field.scale


def _read_sparse(field: Any, i: Any, active: Any, count: Any, out: Any) -> None:
    begin, end = field.indptr[i], field.indptr[i + 1]
    if _COLUMNS_PER_PROTOTYPE * count <= field.V.shape[1]:
        # few prototypes: a sum in a register each
        for q in range(count):
            r = np.intp(active[i, q])
            score = 0.0
            for k in range(begin, end):
                score += field.data[k] * field.V[field.indices[k], r]
            out[q] = score + field.constant[r] * field.scale
        return
    sum_rows(field.data, field.indices, begin, end, field.V, field.total)
    for q in range(count):
        r = np.intp(active[i, q])
        out[q] = field.total[r] + field.constant[r] * field.scale


def _difference_sparse(field: Any, i: Any, r: Any, s: Any) -> float:
    if field.V.shape[1] <= _COLUMNS_PER_PROTOTYPE:
        begin, end = field.indptr[i], field.indptr[i + 1]
        sum_rows(field.data, field.indices, begin, end, field.V, field.total)
        apart = np.float64(field.total[r]) - np.float64(field.total[s])
        return apart + (field.constant[r] - field.constant[s]) * field.scale
    score = 0.0
    for k in range(field.indptr[i], field.indptr[i + 1]):
        t = field.indices[k]
        score += field.data[k] * (field.V[t, r] - field.V[t, s])
    return score + (field.constant[r] - field.constant[s]) * field.scale


def _push_sparse(field: Any, i: Any, r: Any, amount: Any) -> None:
    for k in range(field.indptr[i], field.indptr[i + 1]):
        field.V[field.indices[k], r] += amount * field.data[k]
    field.constant[r] += amount * field.scale


def _push_pair_sparse(field: Any, i: Any, r: Any, s: Any, amount: Any) -> None:
    if field.V.shape[1] <= _COLUMNS_PER_PROTOTYPE:
        field.total[:] = 0.0
        field.total[r] = amount
        field.total[s] = -amount
        begin, end = field.indptr[i], field.indptr[i + 1]
        add_to_rows(field.data, field.indices, begin, end, field.total, field.V)
        field.constant[r] += amount * field.scale
        field.constant[s] -= amount * field.scale
        return
    for k in range(field.indptr[i], field.indptr[i + 1]):
        t = field.indices[k]
        change = amount * field.data[k]
        field.V[t, r] += change
        field.V[t, s] -= change
    field.constant[r] += amount * field.scale
    field.constant[s] -= amount * field.scale


def _push_list_sparse(field: Any, i: Any, active: Any, count: Any, change: Any) -> None:
    if _COLUMNS_PER_PROTOTYPE * count <= field.V.shape[1]:
        _push_each(field, i, active, count, change)
        return
    field.total[:] = 0.0
    for q in range(count):
        r = np.intp(active[i, q])
        field.total[r] = change[q]
        field.constant[r] += change[q] * field.scale
    begin, end = field.indptr[i], field.indptr[i + 1]
    add_to_rows(field.data, field.indices, begin, end, field.total, field.V)


@inlined
def _push_each(field: Any, i: Any, active: Any, count: Any, change: Any) -> None:
    for q in range(count):
        if change[q] != 0.0:
            push(field, i, np.intp(active[i, q]), change[q])


def _always_ready(field: Any, i: Any) -> bool:
    return True


def _read_kernel(field: Any, i: Any, active: Any, count: Any, out: Any) -> None:
    for q in range(count):
        r = np.intp(active[i, q])
        out[q] = field.F[r, i] + field.constant[r] * field.scale


def _difference_kernel(field: Any, i: Any, r: Any, s: Any) -> float:
    score = np.float64(field.F[r, i]) - np.float64(field.F[s, i])
    return score + (field.constant[r] - field.constant[s]) * field.scale


@inlined
def _used_row(field: Any, i: Any) -> Any:
    row = field.slot[i]
    field.tick[0] += 1
    field.used[row] = field.tick[0]
    return row


def _push_kernel(field: Any, i: Any, r: Any, amount: Any) -> None:
    row = _used_row(field, i)
    # in the dtype of the scores: a float64 amount would turn every product into float64
    change = field.F.dtype.type(amount * field.unit)
    for j in range(field.width):
        field.F[r, j] += change * field.F.dtype.type(field.rows[row, j])
    field.constant[r] += amount * field.scale


def _push_pair_kernel(field: Any, i: Any, r: Any, s: Any, amount: Any) -> None:
    row = _used_row(field, i)
    change = field.F.dtype.type(amount * field.unit)
    for j in range(field.width):
        step = change * field.F.dtype.type(field.rows[row, j])
        field.F[r, j] += step
        field.F[s, j] -= step
    field.constant[r] += amount * field.scale
    field.constant[s] -= amount * field.scale


def _row_is_ready(field: Any, i: Any) -> bool:
    return bool(field.slot[i] >= 0)


class Verbs(NamedTuple):
    """What the verbs do on one kind of field."""

    read: Any
    difference: Any
    push: Any
    push_pair: Any
    push_list: Any = _push_each
    is_ready: Any = _always_ready


VERBS = {
    DenseField: Verbs(_read_dense, _difference_dense, _push_dense, _push_pair_dense),
    SparseField: Verbs(
        _read_sparse, _difference_sparse, _push_sparse, _push_pair_sparse, _push_list_sparse
    ),
    KernelField: Verbs(
        _read_kernel, _difference_kernel, _push_kernel, _push_pair_kernel, is_ready=_row_is_ready
    ),
}
"""The verbs of every kind of field; another kind adds its own row."""


def _verb(name: str) -> Callable[..., Any]:
    """A function of Python and of compiled code that does what the kind of its field says."""

    def call(field: Any, *arguments: Any) -> Any:
        return getattr(VERBS[type(field)], name)(field, *arguments)

    def compiled(field: Any, *arguments: Any) -> Any:
        if isinstance(field, types.NamedTuple) and field.instance_class in VERBS:
            return getattr(VERBS[field.instance_class], name)
        return None

    overload(call, jit_options=INLINED, strict=False)(compiled)
    return call


read, difference, push, push_pair, push_list, is_ready = map(_verb, Verbs._fields)
