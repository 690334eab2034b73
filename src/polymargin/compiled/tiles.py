"""Gaussian kernel values and their weighted sums, tile by tile in vector registers.

A kernel value is an inner product and an exponential.  A library computes all inner products of a
block first, which then travel through memory twice: with 16 features that, not the arithmetic, is
what a value costs.  Here eight rows meet one panel of columns at a time; their inner products are
summed in registers and become exponentials, and parts of the scores, while they lie in the first
cache.  The columns are laid out for that once, in panels (see ``pack``).

Every inner product is summed in the order of the features, whichever rows and columns share its
tile: a value between two rows has the same bits in every block.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from polymargin.compiled.gaussian import write_gaussian
from polymargin.compiled.jit import INLINED, exact
from polymargin.compiled.memory import aligned
from polymargin.compiled.simd import HAS_VECTORS, Writer, loop

__all__ = ["gaussian_sums", "gaussian_tiles", "pack", "panel_width"]

ROWS = 8  # of a tile: with two vectors of columns 16 sums, which hide the time of an addition
_VECTORS = 2
_SPARSE = 0.17
"""Share of weights that are not zero below which the others are left out: one weight costs as much
as six that are added eight at a time (measured)."""
_COLUMNS = 512  # of a strip of values at most: eight rows of doubles fit into the first cache
_TILE_BYTES = 384 * 1024  # panels of one strip, which stay in the second cache
_Int64 = ir.IntType(64)


@cache
def _vector_bytes() -> int:
    """Of a vector register that holds numbers; wider vectors are split, narrower waste half."""
    if not HAS_VECTORS:
        return 32
    has_long = binding.get_host_cpu_features().get("avx512f", False)
    return 64 if has_long else 32


def panel_width(dtype: Any, vectors: int = _VECTORS) -> int:
    """Columns of a panel of this many vectors."""
    return vectors * _vector_bytes() // np.dtype(dtype).itemsize


def pack(B: np.ndarray, width: int) -> np.ndarray:
    """(panels, d, width) from rows (n, d): number k of ``width`` rows side by side, then zeros."""
    n, d = B.shape
    whole, count = n // width, -(-n // width)
    panels = aligned((count, d, width), B.dtype)
    panels[:whole] = B[: whole * width].reshape(whole, width, d).transpose(0, 2, 1)
    if whole < count:
        panels[whole] = 0.0
        panels[whole, :, : n - whole * width] = B[whole * width :].T
    return panels


def _tile(rows: int, vectors: int) -> Any:
    """A compiled verb for the kernel values of a few rows with one panel.

    ``verb(A, i, panels, p, factor, a, b, strip, k, j)``: row ``k + q`` of the strip gets, from
    column j on, exp(min(0, factor <A[i + q], .> - a[i + q] - b[.])) with the columns of
    ``panels[p]``, to which ``b[p width:]`` belongs.
    """

    @intrinsic
    def verb(
        typing: Any,
        A: Any,
        i: Any,
        panels: Any,
        p: Any,
        factor: Any,
        a: Any,
        b: Any,
        strip: Any,
        k: Any,
        j: Any,
    ) -> Any:
        if any(array.layout != "C" for array in (A, panels, a, b, strip)):
            raise numba.TypingError("arrays of tiles must be C-ordered")

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            lanes = panel_width(f"f{A.dtype.bitwidth // 8}", 1)
            writer, width = Writer(context, builder, strip, lanes), lanes * vectors
            at_i, at_p, at_k, at_j = (
                context.cast(builder, args[q], signature.args[q], types.int64) for q in (1, 3, 8, 9)
            )

            def shape(kind: Any, array: Any, axis: int) -> Any:
                return builder.extract_value(
                    context.make_array(kind)(context, builder, array).shape, axis
                )

            length, n_columns = shape(A, args[0], 1), shape(strip, args[7], 1)
            row = [builder.mul(builder.add(at_i, _Int64(q)), length) for q in range(rows)]
            panel = builder.mul(builder.mul(at_p, length), _Int64(width))
            sums = [
                [cgutils.alloca_once_value(builder, writer.zero()) for _ in range(vectors)]
                for _ in range(rows)
            ]
            with cgutils.for_range(builder, length, intp=_Int64) as each:
                base = builder.add(panel, builder.mul(each.index, _Int64(width)))
                columns = [
                    writer.load(writer.place(panels, args[2], builder.add(base, _Int64(v * lanes))))
                    for v in range(vectors)
                ]
                for begin, of_row in zip(row, sums, strict=True):
                    at = builder.add(begin, each.index)
                    one = writer.spread(writer.element(A, args[0], at, strip.dtype))
                    for column, total in zip(columns, of_row, strict=True):
                        builder.store(writer.add_product(builder.load(total), one, column), total)
            scale = writer.spread(context.cast(builder, args[4], factor, strip.dtype))
            first = builder.mul(at_p, _Int64(width))
            of_columns = [
                writer.load(writer.place(b, args[6], builder.add(first, _Int64(v * lanes))))
                for v in range(vectors)
            ]
            for q, of_row in enumerate(sums):
                at = builder.add(at_i, _Int64(q))
                own = writer.spread(writer.element(a, args[5], at, strip.dtype))
                begin = builder.add(builder.mul(builder.add(at_k, _Int64(q)), n_columns), at_j)
                for v, (total, other) in enumerate(zip(of_row, of_columns, strict=True)):
                    both = builder.fadd(own, other)
                    value = write_gaussian(builder, builder.load(total), scale, both)
                    place = writer.place(strip, args[7], builder.add(begin, _Int64(v * lanes)))
                    writer.store(value, place)
            return context.get_dummy_value()

        return types.void(A, i, panels, p, factor, a, b, strip, k, j), code

    return verb


_eight, _one = (_tile(rows, _VECTORS) for rows in (ROWS, 1))


def _addition(rows: int) -> Any:
    """A compiled verb that adds a few rows of a strip, each with its weight, to a row of sums.

    ``verb(strip, k, count, weights, e, out, r, j)``: ``out[r, j : j + count]`` is increased by
    ``weights.flat[e : e + rows] @ strip[k : k + rows, :count]``; ``count`` is that of whole panels.
    """

    @intrinsic
    def verb(
        typing: Any, strip: Any, k: Any, count: Any, weights: Any, e: Any, out: Any, r: Any, j: Any
    ) -> Any:
        if any(array.layout != "C" for array in (strip, weights, out)):
            raise numba.TypingError("arrays of tiles must be C-ordered")

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            writer = Writer(
                context, builder, strip, panel_width(f"f{strip.dtype.bitwidth // 8}", 1)
            )
            at_k, n_columns, at_e, at_r, at_j = (
                context.cast(builder, args[k], signature.args[k], types.int64)
                for k in (1, 2, 4, 6, 7)
            )

            def begin(kind: Any, array: Any, row: Any, column: Any) -> Any:
                width = builder.extract_value(
                    context.make_array(kind)(context, builder, array).shape, 1
                )
                return builder.add(builder.mul(row, width), column)

            terms = [
                (
                    writer.spread(
                        writer.element(weights, args[3], builder.add(at_e, _Int64(q)), strip.dtype)
                    ),
                    begin(strip, args[0], builder.add(at_k, _Int64(q)), _Int64(0)),
                )
                for q in range(rows)
            ]
            first = begin(out, args[5], at_r, at_j)
            with loop(builder, _Int64(0), n_columns, writer.vector.count) as (c, _):
                target = writer.place(out, args[5], builder.add(first, c))
                total = writer.load(target)
                for weight, line in terms:
                    values = writer.load(writer.place(strip, args[0], builder.add(line, c)))
                    total = writer.add_product(total, weight, values)
                writer.store(total, target)
            return context.get_dummy_value()

        return types.void(strip, k, count, weights, e, out, r, j), code

    return verb


_add_one, _add_eight = (_addition(rows) for rows in (1, ROWS))


@exact
def _strip(
    A: Any,
    i: int,
    rows: int,
    panels: Any,
    begin: int,
    end: int,
    factor: Any,
    a: Any,
    b: Any,
    strip: Any,
) -> None:
    """Values of rows i to i + rows (at most eight) and panels ``begin`` to ``end`` in ``strip``."""
    width = panels.shape[2]
    for p in range(begin, end):
        column = (p - begin) * width
        if rows == ROWS:
            _eight(A, i, panels, p, factor, a, b, strip, 0, column)
        else:
            for k in range(rows):
                _one(A, i + k, panels, p, factor, a, b, strip, k, column)


def _kept(out: Any, value: Any) -> Any:
    """A value as ``out`` keeps it.  By way of 32 bits: vectors know no other way to 16."""
    return value


@overload(_kept, jit_options=INLINED, strict=False)
def _kept_compiled(out: Any, value: Any) -> Any:
    if isinstance(out.dtype, types.Integer):
        return lambda out, value: np.int32(value)
    return lambda out, value: value


@exact
def _gaussian_tiles(
    A: Any,
    panels: Any,
    first: int,
    factor: Any,
    a: Any,
    b: Any,
    at_once: int,
    strip: Any,
    out: Any,
    r: int,
    c: int,
    n_columns: int,
    per_unit: Any,
    shift: Any,
) -> None:
    width = panels.shape[2]
    last = first + (n_columns + width - 1) // width
    for begin in range(first, last, at_once):
        end = min(begin + at_once, last)
        column = (begin - first) * width
        count = min((end - begin) * width, n_columns - column)
        target = np.uintp(c + column)  # without a sign: Numba writes vectors only then
        for i in range(0, A.shape[0], ROWS):
            rows = min(ROWS, A.shape[0] - i)
            _strip(A, i, rows, panels, begin, end, factor, a, b, strip)
            for k in range(rows):
                for j in range(count):
                    out[r + i + k, target + np.uintp(j)] = _kept(
                        out, strip[k, j] * per_unit + shift
                    )


@exact
def _gaussian_sums(
    B: Any,
    panels: Any,
    factor: Any,
    b: Any,
    a: Any,
    at_once: int,
    tau: Any,
    starts: Any,
    places: Any,
    weights: Any,
    strip: Any,
    out: Any,
) -> None:
    width = panels.shape[2]
    for begin in range(0, panels.shape[0], at_once):
        end = min(begin + at_once, panels.shape[0])
        column, count = begin * width, (end - begin) * width
        for i in range(0, B.shape[0], ROWS):
            rows = min(ROWS, B.shape[0] - i)
            _strip(B, i, rows, panels, begin, end, factor, b, a, strip)
            if len(weights) > 0:
                for e in range(starts[i // ROWS], starts[i // ROWS + 1]):
                    _add_one(strip, places[e, 0], count, weights, e, out, places[e, 1], column)
            else:
                for r in range(out.shape[0]):
                    _add_eight(strip, 0, count, tau, r * tau.shape[1] + i, out, r, column)


def _at_once(panels: np.ndarray) -> int:
    """Panels of a strip."""
    _, d, width = panels.shape
    wanted = _TILE_BYTES // max(1, d * width * panels.itemsize)
    return int(max(1, min(wanted, _COLUMNS // width)))


def _arguments(
    A: np.ndarray, panels: np.ndarray, a: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    real = panels.dtype.type
    padded = np.zeros(len(panels) * panels.shape[2], dtype=real)
    padded[: len(b)] = b
    return a.astype(real), padded


def gaussian_tiles(
    A: np.ndarray,
    panels: np.ndarray,
    factor: float,
    a: np.ndarray,
    b: np.ndarray,
    first: int,
    count: int,
    out: np.ndarray,
    corner: tuple[int, int] = (0, 0),
    offset: float = 0.0,
    unit: float = 1.0,
) -> None:
    """Write offset + exp(min(0, factor A_i . B_j - a_i - b_j)) for some of the rows B_j.

    Parameters
    ----------
    A : (m, d) array, C-ordered
    panels : (panels, d, width) array
        ``pack`` of all rows B.
    factor : float
    a, b : arrays
        One number per row of A and of B.
    first, count : int
        The panel that the columns begin with, and how many they are.
    out : array, C-ordered
        Of the type of A and the panels, or uint16.
    corner : (int, int)
        Row and column of ``out`` of the first value.
    offset : float
    unit : float
        Whole numbers are values in this unit, rounded.
    """
    a, b = _arguments(A, panels, a, b)
    at_once = _at_once(panels)
    strip = aligned((ROWS, at_once * panels.shape[2]), A.dtype)
    known = A.dtype.type(factor), a, b
    real, half = A.dtype.type, 0.5 if out.dtype.kind == "u" else 0.0
    r, c = corner
    per_unit, shift = real(1.0 / unit), real(offset / unit + half)
    _gaussian_tiles(A, panels, first, *known, at_once, strip, out, r, c, count, per_unit, shift)


def _entries(tau: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the weights of every group of eight rows begin; their row in it and class; they.

    Nothing where most of them are not zero: then all are used.
    """
    starts = np.zeros(tau.shape[1] // ROWS + 1, dtype=np.int64)
    if np.count_nonzero(tau) > _SPARSE * tau.size:
        return starts, np.empty((0, 2), dtype=np.int32), np.empty(0, dtype=tau.dtype)
    rows, classes = np.nonzero(tau.T)
    np.cumsum(np.bincount(rows // ROWS, minlength=len(starts) - 1), out=starts[1:])
    places = np.stack([rows % ROWS, classes], axis=1).astype(np.int32)
    return starts, places, tau[classes, rows]


def gaussian_sums(
    B: np.ndarray,
    b: np.ndarray,
    tau: np.ndarray,
    factor: float,
    A: np.ndarray,
    a: np.ndarray,
) -> np.ndarray:
    """(rows of A, R) sums over the rows B_j of their values with A, as above, times ``tau[j]``.

    Here the rows of A are the columns of tiles, so that what a row B_j adds is a vector: most of
    its R weights are zero where machines compare classes, and those are left out.
    """
    panels = pack(A, panel_width(A.dtype))
    b, a = _arguments(B, panels, b, a)
    at_once = _at_once(panels)
    strip = aligned((ROWS, at_once * panels.shape[2]), A.dtype)
    padded = np.zeros((tau.shape[1], -(-len(B) // ROWS) * ROWS), dtype=A.dtype)
    padded[:, : len(B)] = tau.T
    out = aligned((tau.shape[1], len(a)), A.dtype)
    known = A.dtype.type(factor), b, a
    _gaussian_sums(B, panels, *known, at_once, padded, *_entries(padded), strip, out)
    return out[:, : len(A)].T
