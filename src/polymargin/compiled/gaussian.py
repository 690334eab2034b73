"""exp(-gamma ||x - z||^2) from inner products, in one pass over a block of numbers.

With NumPy the same takes five passes (a factor, minus two norms, at most 0, exponential), and where
rows are short these passes, not the product of matrices, are what a Gaussian kernel costs.  The
exponential is spelled out so that the loop becomes vector instructions:

    exp(x) = 2^k exp(r),    k = round(x / log 2),    r = x - k log 2,    |r| <= log(2) / 2,

with exp(r) by its series, up to a term below the rounding of the type, and 2^k written straight
into the bits of the exponent.  A number so large that its neighbours are 1 apart is added first:
the sum is rounded to a whole number, which then stands in its last bits.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from polymargin.compiled.jit import exact
from polymargin.compiled.simd import HAS_VECTORS

__all__ = ["gaussian_in_place", "write_gaussian"]


class _Numbers(NamedTuple):
    """What the loop has to know of a type of numbers.

    Attributes
    ----------
    rounding : 3/2 of the power of two whose neighbours are 1 apart.
    per_log2 : 1 / log 2.
    high, low : log 2 in two parts, the first so short that k times it is exact.
    lowest : exp of less is below the normal numbers of the type: 0.
    """

    rounding: Any
    per_log2: Any
    high: Any
    low: Any
    lowest: Any


def _numbers(real: Any, fraction: int, parts: int) -> _Numbers:
    high = round(math.log(2.0) * parts) / parts
    return _Numbers(
        real(1.5 * 2.0**fraction),
        real(1.0 / math.log(2.0)),
        real(high),
        real(_LOG2_BEYOND_DOUBLE + (math.log(2.0) - high)),
        real(-87.0 if real is np.float32 else -708.0),
    )


_LOG2_BEYOND_DOUBLE = 2.3190468138462996e-17  # log 2 minus the double next to it
_FLOAT32 = _numbers(np.float32, 23, 2**9)
_FLOAT64 = _numbers(np.float64, 52, 2**30)
_SERIES32 = tuple(np.float32(1.0 / math.factorial(k)) for k in range(7, -1, -1))
_SERIES64 = tuple(np.float64(1.0 / math.factorial(k)) for k in range(13, -1, -1))


@intrinsic
def _two_to(typing: Any, shifted: Any) -> Any:
    """2^k from k plus ``rounding``: the last bits, which are k, become the exponent."""
    is_single = shifted == types.float32
    width, fraction, bias = (32, 23, 127) if is_single else (64, 52, 1023)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        integer = ir.IntType(width)
        bits = builder.shl(builder.bitcast(args[0], integer), integer(fraction))
        bits = builder.add(bits, integer(bias << fraction))
        return builder.bitcast(bits, ir.FloatType() if is_single else ir.DoubleType())

    return shifted(shifted), code


@exact
def _gaussian(G: Any, factor: Any, a: Any, b: Any, numbers: Any, series: Any) -> None:
    zero = factor - factor
    for i in range(G.shape[0]):
        for j in range(G.shape[1]):
            x = factor * G[i, j] - (a[i] + b[j])  # equal bits both ways
            x = zero if x > zero else x
            safe = x if x > numbers.lowest else numbers.lowest  # NaN too: bits need a number
            shifted = safe * numbers.per_log2 + numbers.rounding
            k = shifted - numbers.rounding
            r = (safe - k * numbers.high) - k * numbers.low
            p = series[0]
            for q in range(1, len(series)):
                p = p * r + series[q]
            p *= _two_to(shifted)
            p = zero if x < numbers.lowest else p
            G[i, j] = p if x == x else x


def write_gaussian(builder: Any, product: Any, factor: Any, sums: Any) -> Any:
    """Write code for exp(min(0, factor product - sums)), all of them vectors of one type.

    The same steps as above, one instruction each.
    """
    vector = product.type
    is_single = isinstance(vector.element, ir.FloatType)
    numbers, series = (_FLOAT32, _SERIES32) if is_single else (_FLOAT64, _SERIES64)
    width, fraction, bias = (32, 23, 127) if is_single else (64, 52, 1023)
    integers = ir.VectorType(ir.IntType(width), vector.count)

    def all_lanes(number: Any, kind: Any = vector) -> Any:
        return ir.Constant(kind, [number] * vector.count)

    def times_plus(a: Any, b: Any, c: Any, plus: Any = builder.fadd) -> Any:
        return plus(builder.fmul(a, b, flags=("contract",)), c, flags=("contract",))

    zero, lowest = all_lanes(0.0), all_lanes(float(numbers.lowest))
    x = times_plus(factor, product, sums, builder.fsub)
    x = builder.select(builder.fcmp_ordered(">", x, zero), zero, x)
    safe = builder.select(builder.fcmp_ordered(">", x, lowest), x, lowest)
    rounding = all_lanes(float(numbers.rounding))
    shifted = times_plus(safe, all_lanes(float(numbers.per_log2)), rounding)
    k = builder.fsub(shifted, rounding)
    rest = times_plus(k, all_lanes(-float(numbers.high)), safe)
    rest = times_plus(k, all_lanes(-float(numbers.low)), rest)
    p = all_lanes(float(series[0]))
    for term in series[1:]:
        p = times_plus(p, rest, all_lanes(float(term)))
    bits = builder.shl(builder.bitcast(shifted, integers), all_lanes(fraction, integers))
    bits = builder.add(bits, all_lanes(bias << fraction, integers))
    p = builder.fmul(p, builder.bitcast(bits, vector))
    p = builder.select(builder.fcmp_ordered("<", x, lowest), zero, p)
    return builder.select(builder.fcmp_unordered("uno", x, x), x, p)


def gaussian_in_place(G: np.ndarray, factor: float, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """exp(min(0, factor G_ij - a_i - b_j)) in the place of G, C-ordered; NaN stays NaN."""
    real = G.dtype.type
    a, b = a.astype(real), b.astype(real)
    if not HAS_VECTORS:  # bits are read and written by compiled code only
        G *= real(factor)
        G -= a[:, None] + b[None, :]
        return np.asarray(np.exp(np.minimum(G, 0.0, out=G), out=G))
    if real is np.float32:
        _gaussian(G, real(factor), a, b, _FLOAT32, _SERIES32)
    else:
        _gaussian(G, real(factor), a, b, _FLOAT64, _SERIES64)
    return G
