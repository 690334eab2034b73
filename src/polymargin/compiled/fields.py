"""Fields: where the scores live, behind six compiled verbs that every solver body is written in.

==============  =========================================================================
verb            meaning
==============  =========================================================================
``read``        scores f_r(x_i) of pattern i for the listed prototypes
``difference``  f_r(x_i) - f_s(x_i), the one number a pair of variables needs
``push``        the coefficient of pattern i in prototype r changed by an amount
``push_pair``   r gained what s lost
``push_list``   all listed prototypes gained what is their own
``is_ready``    whether pattern i can be pushed now (its kernel row is at hand)
==============  =========================================================================

Linear data keep the prototypes and pay at ``read``; kernel data keep all scores and pay at
``push``.  Dense prototypes are stored class by class (an active class is one contiguous row);
beside sparse rows they are stored feature by feature (one feature touches one cache line).
A penalised intercept is a constant feature ``scale`` that lives inside the verbs: no column is
appended to X, which would copy it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload, register_jitable

from polymargin.compiled.jit import FASTMATH, jit
from polymargin.compiled.simd import add_to_rows, sum_rows

__all__ = [
    "BiasedKernelField",
    "DenseField",
    "KernelField",
    "PackedField",
    "SparseField",
    "difference",
    "is_ready",
    "pack_rows",
    "push",
    "push_list",
    "push_pair",
    "read",
    "register_field",
]


_COLUMNS_PER_PROTOTYPE = 16
"""Sparse rows: so many columns of whole rows of V cost as much as one listed prototype."""


class DenseField(NamedTuple):
    """Dense rows X (n, d) with prototypes W (R, d) and the weights of the constant feature."""

    X: np.ndarray
    W: np.ndarray
    constant: np.ndarray
    scale: float


class PackedField(NamedTuple):
    """The rows of a DenseField that are in play: row i is ``X[slot[i]]``.

    Rows and prototypes are float32: half the memory to wait for, and sums in float32 too.
    """

    X: np.ndarray
    slot: np.ndarray
    W: np.ndarray
    constant: np.ndarray
    scale: float


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

    ``width`` patterns are in play; rows and scores may be wider.  ``used`` and ``tick`` keep the
    time of the last use of every row, so that the least recently used one can make room.
    """

    rows: np.ndarray
    slot: np.ndarray
    F: np.ndarray
    width: int
    used: np.ndarray
    tick: np.ndarray


class BiasedKernelField(NamedTuple):
    """A KernelField whose scores have a constant feature beside the kernel rows.

    The constant belongs to an unpenalised intercept: its weight changes while the rows stay.
    """

    rows: np.ndarray
    slot: np.ndarray
    F: np.ndarray
    width: int
    used: np.ndarray
    tick: np.ndarray
    constant: np.ndarray
    scale: float


def _read_dense(field: Any, i: Any, active: Any, count: Any, out: Any) -> None:
    for q in range(count):
        r = np.intp(active[i, q])
        score = 0.0
        for t in range(field.X.shape[1]):
            score += field.W[r, t] * field.X[i, t]
        out[q] = score + field.constant[r] * field.scale


def _difference_dense(field: Any, i: Any, r: Any, s: Any) -> float:
    score = 0.0
    for t in range(field.X.shape[1]):
        score += (field.W[r, t] - field.W[s, t]) * field.X[i, t]
    return score + (field.constant[r] - field.constant[s]) * field.scale


def _push_dense(field: Any, i: Any, r: Any, amount: Any) -> None:
    for t in range(field.X.shape[1]):
        field.W[r, t] += amount * field.X[i, t]
    field.constant[r] += amount * field.scale


def _push_pair_dense(field: Any, i: Any, r: Any, s: Any, amount: Any) -> None:
    for t in range(field.X.shape[1]):
        change = amount * field.X[i, t]
        field.W[r, t] += change
        field.W[s, t] -= change
    field.constant[r] += amount * field.scale
    field.constant[s] -= amount * field.scale


def _read_packed(field: Any, i: Any, active: Any, count: Any, out: Any) -> None:
    k = field.slot[i]
    for q in range(count):
        r = np.intp(active[i, q])
        score = np.float32(0)
        for t in range(field.X.shape[1]):
            score += field.W[r, t] * field.X[k, t]
        out[q] = score + field.constant[r] * field.scale


def _difference_packed(field: Any, i: Any, r: Any, s: Any) -> float:
    k = field.slot[i]
    score = np.float32(0)
    for t in range(field.X.shape[1]):
        score += (field.W[r, t] - field.W[s, t]) * field.X[k, t]
    return score + (field.constant[r] - field.constant[s]) * field.scale


def _push_packed(field: Any, i: Any, r: Any, amount: Any) -> None:
    k, change = field.slot[i], np.float32(amount)
    for t in range(field.X.shape[1]):
        field.W[r, t] += change * field.X[k, t]
    field.constant[r] += amount * field.scale


def _push_pair_packed(field: Any, i: Any, r: Any, s: Any, amount: Any) -> None:
    k, step = field.slot[i], np.float32(amount)
    for t in range(field.X.shape[1]):
        change = step * field.X[k, t]
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


@register_jitable
def _push_each(field: Any, i: Any, active: Any, count: Any, change: Any) -> None:
    for q in range(count):
        if change[q] != 0.0:
            push(field, i, np.intp(active[i, q]), change[q])


def _always_ready(field: Any, i: Any) -> bool:
    return True


def _read_kernel(field: Any, i: Any, active: Any, count: Any, out: Any) -> None:
    for q in range(count):
        out[q] = field.F[np.intp(active[i, q]), i]


def _difference_kernel(field: Any, i: Any, r: Any, s: Any) -> float:
    return np.float64(field.F[r, i]) - np.float64(field.F[s, i])


def _push_kernel(field: Any, i: Any, r: Any, amount: Any) -> None:
    row = field.slot[i]
    field.tick[0] += 1
    field.used[row] = field.tick[0]
    # in the dtype of the scores: a float64 amount would turn every product into float64
    change = field.F.dtype.type(amount)
    for j in range(field.width):
        field.F[r, j] += change * field.rows[row, j]


def _push_pair_kernel(field: Any, i: Any, r: Any, s: Any, amount: Any) -> None:
    row = field.slot[i]
    field.tick[0] += 1
    field.used[row] = field.tick[0]
    change = field.F.dtype.type(amount)
    for j in range(field.width):
        step = change * field.rows[row, j]
        field.F[r, j] += step
        field.F[s, j] -= step


def _read_biased(field: Any, i: Any, active: Any, count: Any, out: Any) -> None:
    for q in range(count):
        r = np.intp(active[i, q])
        out[q] = field.F[r, i] + field.constant[r] * field.scale


def _push_biased(field: Any, i: Any, r: Any, amount: Any) -> None:
    row = field.slot[i]
    field.tick[0] += 1
    field.used[row] = field.tick[0]
    change = field.F.dtype.type(amount)
    for j in range(field.width):
        field.F[r, j] += change * field.rows[row, j]
    field.constant[r] += amount * field.scale


def _difference_biased(field: Any, i: Any, r: Any, s: Any) -> float:
    score = np.float64(field.F[r, i]) - np.float64(field.F[s, i])
    return score + (field.constant[r] - field.constant[s]) * field.scale


def _push_pair_biased(field: Any, i: Any, r: Any, s: Any, amount: Any) -> None:
    row = field.slot[i]
    field.tick[0] += 1
    field.used[row] = field.tick[0]
    change = field.F.dtype.type(amount)
    for j in range(field.width):
        step = change * field.rows[row, j]
        field.F[r, j] += step
        field.F[s, j] -= step
    field.constant[r] += amount * field.scale
    field.constant[s] -= amount * field.scale


def _row_is_ready(field: Any, i: Any) -> bool:
    return bool(field.slot[i] >= 0)


_VERBS: dict[str, dict[type, Any]] = {
    "read": {
        DenseField: _read_dense,
        PackedField: _read_packed,
        SparseField: _read_sparse,
        KernelField: _read_kernel,
        BiasedKernelField: _read_biased,
    },
    "difference": {
        DenseField: _difference_dense,
        PackedField: _difference_packed,
        SparseField: _difference_sparse,
        KernelField: _difference_kernel,
        BiasedKernelField: _difference_biased,
    },
    "push": {
        DenseField: _push_dense,
        PackedField: _push_packed,
        SparseField: _push_sparse,
        KernelField: _push_kernel,
        BiasedKernelField: _push_biased,
    },
    "push_pair": {
        DenseField: _push_pair_dense,
        PackedField: _push_pair_packed,
        SparseField: _push_pair_sparse,
        KernelField: _push_pair_kernel,
        BiasedKernelField: _push_pair_biased,
    },
    "push_list": {
        DenseField: _push_each,
        PackedField: _push_each,
        SparseField: _push_list_sparse,
        KernelField: _push_each,
        BiasedKernelField: _push_each,
    },
    "is_ready": {
        DenseField: _always_ready,
        PackedField: _always_ready,
        SparseField: _always_ready,
        KernelField: _row_is_ready,
        BiasedKernelField: _row_is_ready,
    },
}


def register_field(kind: type, verbs: dict[str, Any]) -> None:
    """Add a kind of field with its own verbs."""
    for name, verb in verbs.items():
        _VERBS[name][kind] = verb


def read(field: Any, i: Any, active: Any, count: Any, out: Any) -> None:
    """Scores of pattern i for the prototypes ``active[i, :count]`` into ``out[:count]``."""
    _VERBS["read"][type(field)](field, i, active, count, out)


def difference(field: Any, i: Any, r: Any, s: Any) -> float:
    """f_r(x_i) - f_s(x_i)."""
    return float(_VERBS["difference"][type(field)](field, i, r, s))


def push(field: Any, i: Any, r: Any, amount: Any) -> None:
    """Add ``amount`` times phi(x_i) to prototype r."""
    _VERBS["push"][type(field)](field, i, r, amount)


def push_pair(field: Any, i: Any, r: Any, s: Any, amount: Any) -> None:
    """Add ``amount`` times phi(x_i) to prototype r and take it from prototype s."""
    _VERBS["push_pair"][type(field)](field, i, r, s, amount)


def push_list(field: Any, i: Any, active: Any, count: Any, change: Any) -> None:
    """Add ``change[q]`` times phi(x_i) to every listed prototype ``active[i, q]``."""
    _VERBS["push_list"][type(field)](field, i, active, count, change)


def is_ready(field: Any, i: Any) -> bool:
    """Whether pattern i can be pushed without fetching a kernel row first."""
    return bool(_VERBS["is_ready"][type(field)](field, i))


# see ``inlined``: a verb that stays a call costs more than what it does
_OPTIONS = {"fastmath": set(FASTMATH), "forceinline": True, "no_cfunc_wrapper": True}


def _compiled(verb: str, field: Any) -> Any:
    if isinstance(field, types.NamedTuple):
        return _VERBS[verb].get(field.instance_class)
    return None


@overload(read, jit_options=_OPTIONS, strict=False)
def _overload_read(field: Any, i: Any, active: Any, count: Any, out: Any) -> Any:
    return _compiled("read", field)


@overload(difference, jit_options=_OPTIONS, strict=False)
def _overload_difference(field: Any, i: Any, r: Any, s: Any) -> Any:
    return _compiled("difference", field)


@overload(push, jit_options=_OPTIONS, strict=False)
def _overload_push(field: Any, i: Any, r: Any, amount: Any) -> Any:
    return _compiled("push", field)


@overload(push_pair, jit_options=_OPTIONS, strict=False)
def _overload_push_pair(field: Any, i: Any, r: Any, s: Any, amount: Any) -> Any:
    return _compiled("push_pair", field)


@overload(push_list, jit_options=_OPTIONS, strict=False)
def _overload_push_list(field: Any, i: Any, active: Any, count: Any, change: Any) -> Any:
    return _compiled("push_list", field)


@overload(is_ready, jit_options=_OPTIONS, strict=False)
def _overload_is_ready(field: Any, i: Any) -> Any:
    return _compiled("is_ready", field)


@jit
def pack_rows(X: Any, patterns: Any, rows: Any, slot: Any) -> None:
    """Copy rows of X into ``rows`` and note their places in ``slot``."""
    for k in range(len(patterns)):
        i = patterns[k]
        slot[i] = k
        for t in range(X.shape[1]):
            rows[k, t] = X[i, t]
