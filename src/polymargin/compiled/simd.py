"""Sums of short rows weighted by sparse numbers, in vector registers.

Beside sparse rows the prototypes are stored feature by feature, V (d, R): the scores of a pattern
are the sum over its numbers of ``value * V[index]``.  As a loop over SIMD lanes this sum lives
in memory, where every addition waits for the one before it to be stored; in registers, four sums
side by side, it is four times faster.  Numba has no vectors of its own, so their code is spelled
out here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from polymargin.compiled.jit import jit

__all__ = ["HAS_VECTORS", "MULTIPLE", "Writer", "add_to_rows", "loop", "sum_rows"]

MULTIPLE = 8
"""Rows of V are best padded to a multiple of so many SIMD lanes: the rest goes one by one."""

HAS_VECTORS: bool = not numba.config.DISABLE_JIT
"""Whether code runs compiled: vectors exist there only."""

_WIDE, _NARROW = 2 * MULTIPLE, MULTIPLE
if not HAS_VECTORS:
    _WIDE = _NARROW = sys.maxsize
_SUMS = 4
_Int64 = ir.IntType(64)


class Writer:
    """Writes code for vectors of ``lanes`` numbers of the type that V has."""

    def __init__(self, context: Any, builder: Any, V: Any, lanes: int) -> None:
        self.context, self.builder, self.number = context, builder, V.dtype
        self.vector = ir.VectorType(context.get_data_type(V.dtype), lanes)

    def zero(self) -> Any:
        return ir.Constant(self.vector, [0.0] * self.vector.count)

    def element(self, kind: Any, array: Any, k: Any, wanted: Any) -> Any:
        """``array[k]`` as a number of the wanted type."""
        data = self.context.make_array(kind)(self.context, self.builder, array).data
        found = self.builder.load(self.builder.gep(data, [k]))
        return self.context.cast(self.builder, found, kind.dtype, wanted)

    def spread(self, number: Any) -> Any:
        """A vector that has the number in all its lanes."""
        builder, nothing = self.builder, ir.Constant(self.vector, ir.Undefined)
        places = ir.Constant(ir.VectorType(ir.IntType(32), self.vector.count), None)
        one = builder.insert_element(nothing, number, ir.IntType(32)(0))
        return builder.shuffle_vector(one, nothing, places)

    def place(self, kind: Any, array: Any, offset: Any) -> Any:
        """Where the vector begins that lies at this offset of an array."""
        data = self.context.make_array(kind)(self.context, self.builder, array).data
        return self.builder.bitcast(self.builder.gep(data, [offset]), self.vector.as_pointer())

    def load(self, place: Any) -> Any:
        return self.builder.load(place, align=self.number.bitwidth // 8)

    def store(self, vector: Any, place: Any) -> None:
        self.builder.store(vector, place, align=self.number.bitwidth // 8)

    def add_product(self, total: Any, a: Any, b: Any) -> Any:
        product = self.builder.fmul(a, b, flags=("contract",))
        return self.builder.fadd(total, product, flags=("contract",))


def loop(builder: Any, begin: Any, end: Any, step: int) -> Any:
    """A context in which the body of a loop is written; it gives the counter first."""
    return cgutils.for_range_slice(builder, begin, end, _Int64(step), intp=_Int64)


def _in_rows(lanes: int, write: Callable[..., None]) -> Any:
    """A compiled verb ``(values, indices, begin, end, V, column, other)`` whose loop is written.

    ``write(writer, piece, begin, end, other)`` is given ``piece(k)``: the k-th number in all lanes,
    and where the vector of V begins that belongs to it.
    """

    @intrinsic
    def verb(
        typing: Any,
        values: Any,
        indices: Any,
        begin: Any,
        end: Any,
        V: Any,
        column: Any,
        other: Any,
    ) -> Any:
        if any(array.layout != "C" for array in (values, indices, V, other)):
            raise numba.TypingError("arrays of SIMD lanes must be C-ordered")

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            writer = Writer(context, builder, V, lanes)
            first, last, shift = (
                context.cast(builder, args[k], signature.args[k], types.int64) for k in (2, 3, 5)
            )
            n_columns = builder.extract_value(
                context.make_array(V)(context, builder, args[4]).shape, 1
            )

            def piece(k: Any) -> tuple[Any, Any]:
                number = writer.element(values, args[0], k, V.dtype)
                index = writer.element(indices, args[1], k, types.int64)
                offset = builder.add(builder.mul(index, n_columns), shift)
                return writer.spread(number), writer.place(V, args[4], offset)

            write(writer, piece, first, last, writer.place(other, args[6], shift))
            return context.get_dummy_value()

        return types.void(values, indices, begin, end, V, column, other), code

    return verb


def _write_sum(writer: Writer, piece: Callable[..., Any], begin: Any, end: Any, out: Any) -> None:
    builder = writer.builder
    sums = [cgutils.alloca_once_value(builder, writer.zero()) for _ in range(_SUMS)]

    def add(k: Any, place: Any) -> None:
        number, row = piece(k)
        total = writer.add_product(builder.load(place), number, writer.load(row))
        builder.store(total, place)

    whole = builder.and_(builder.sub(end, begin), _Int64(-_SUMS))
    middle = builder.add(begin, whole)
    with loop(builder, begin, middle, _SUMS) as (k, _):
        for shift, place in enumerate(sums):
            add(builder.add(k, _Int64(shift)), place)
    with loop(builder, middle, end, 1) as (k, _):
        add(k, sums[0])
    a, b, c, d = (builder.load(place) for place in sums)
    writer.store(builder.fadd(builder.fadd(a, b), builder.fadd(c, d)), out)


def _write_addition(
    writer: Writer, piece: Callable[..., Any], begin: Any, end: Any, change: Any
) -> None:
    step = writer.load(change)
    with loop(writer.builder, begin, end, 1) as (k, _):
        number, row = piece(k)
        writer.store(writer.add_product(writer.load(row), number, step), row)


_sum_wide, _sum_narrow = (_in_rows(k * MULTIPLE, _write_sum) for k in (2, 1))
_add_wide, _add_narrow = (_in_rows(k * MULTIPLE, _write_addition) for k in (2, 1))


@partial(jit, forceinline=True)
def sum_rows(values: Any, indices: Any, begin: Any, end: Any, V: Any, out: Any) -> None:
    """``out = sum_k values[k] V[indices[k]]`` over begin <= k < end.

    All arrays are C-ordered; ``out`` has the length of a row of V, and its type.
    """
    column, width = 0, V.shape[1]
    while column + _WIDE <= width:
        _sum_wide(values, indices, begin, end, V, column, out)
        column += _WIDE
    while column + _NARROW <= width:
        _sum_narrow(values, indices, begin, end, V, column, out)
        column += _NARROW
    for r in range(column, width):
        out[r] = 0.0
        for k in range(begin, end):
            out[r] += V.dtype.type(values[k]) * V[indices[k], r]


@partial(jit, forceinline=True)
def add_to_rows(values: Any, indices: Any, begin: Any, end: Any, change: Any, V: Any) -> None:
    """``V[indices[k]] += values[k] change`` for begin <= k < end; the arrays as in ``sum_rows``."""
    column, width = 0, V.shape[1]
    while column + _WIDE <= width:
        _add_wide(values, indices, begin, end, V, column, change)
        column += _WIDE
    while column + _NARROW <= width:
        _add_narrow(values, indices, begin, end, V, column, change)
        column += _NARROW
    for r in range(column, width):
        for k in range(begin, end):
            V[indices[k], r] += V.dtype.type(values[k]) * change[r]
