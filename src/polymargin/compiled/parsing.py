"""Compiled reading of sparse rows: decimal numbers to the nearest double, indices, labels.

Numbers are rounded correctly: exact products where both factors are exact, and otherwise a 128-bit
approximation of w 10^q whose error is known to be too small to matter.  Whatever is unusual (more
than 19 digits, subnormals, words, labels not seen before) is handed back to
Python row by row, where it is read slowly or refused with its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.compiled.jit import jit

__all__ = ["find_label", "parse_sparse_rows", "read_number"]

_SMALLEST, _LARGEST = -342, 308


def _powers_of_five() -> np.ndarray:
    """The leading 128 bits of 5^q as two words, rounded up for negative q."""
    table = np.zeros((_LARGEST - _SMALLEST + 1, 2), dtype=np.uint64)
    for q in range(_SMALLEST, _LARGEST + 1):
        power = 5 ** abs(q)
        if q >= 0:
            shift = 128 - power.bit_length()
            word = power << shift if shift >= 0 else power >> -shift
        else:
            word = (1 << (2 * power.bit_length() + 128)) // power + 1
            word >>= word.bit_length() - 128
        table[q - _SMALLEST] = word >> 64, word & (2**64 - 1)
    return table


_FIVES = _powers_of_five()
_TENS = np.array([float(10**k) for k in range(23)])

_U0, _U1 = np.uint64(0), np.uint64(1)
_U3, _U9, _U10 = np.uint64(3), np.uint64(9), np.uint64(10)
_U32, _U52, _U63 = np.uint64(32), np.uint64(52), np.uint64(63)
_LOW = np.uint64(0xFFFFFFFF)
_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_UNSURE = np.uint64(0x1FF)
_EXACT = np.uint64(2**53)
_HIDDEN = np.uint64(2**52)
_FNV, _FNV_PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)


@jit
def _product(a: Any, b: Any) -> Any:
    """High and low word of a * b."""
    a0, a1, b0, b1 = a & _LOW, a >> _U32, b & _LOW, b >> _U32
    low, cross, other = a0 * b0, a1 * b0, a0 * b1
    middle = (low >> _U32) + (cross & _LOW) + (other & _LOW)
    high = a1 * b1 + (cross >> _U32) + (other >> _U32) + (middle >> _U32)
    return high, (middle << _U32) | (low & _LOW)


@jit
def _leading_zeros(w: Any) -> Any:
    n = 0
    for shift in (32, 16, 8, 4, 2, 1):
        if (w >> np.uint64(64 - shift)) == _U0:
            n += shift
            w = w << np.uint64(shift)
    return n


@jit
def _nearest_bits(w: Any, q: Any) -> Any:
    """Bits of the double nearest to w * 10^q, w > 0; False where that is not certain."""
    zeros = _leading_zeros(w)
    w = w << np.uint64(zeros)
    place = q - _SMALLEST
    high, low = _product(w, _FIVES[place, 0])
    if (high & _UNSURE) == _UNSURE:
        more, _ = _product(w, _FIVES[place, 1])
        low = low + more
        if low < more:
            high = high + _U1
    if low == _ONES and (q < -27 or q > 55):
        return _U0, False
    top = high >> _U63
    mantissa = high >> (top + _U9)
    exponent = ((217706 * q) >> 16) + 63 + np.int64(top) - zeros + 1023
    if exponent <= 0:
        return _U0, False
    is_tie = low <= _U1 and -4 <= q <= 23 and (mantissa & _U3) == _U1
    if is_tie and (mantissa << (top + _U9)) == high:
        mantissa = mantissa & ~_U1
    mantissa = (mantissa + (mantissa & _U1)) >> _U1
    if mantissa >= (_HIDDEN << _U1):
        mantissa = _HIDDEN
        exponent += 1
    if exponent >= 2047:
        return _U0, False
    return (mantissa & ~_HIDDEN) | (np.uint64(exponent) << _U52), True


@jit
def read_number(text: Any, a: Any, b: Any, values: Any, bits: Any, k: Any) -> Any:
    """Write the number text[a:b] to ``values[k]`` (``bits`` is the same memory); whether it is one.

    Plain decimal numbers only; anything else is for Python.
    """
    while a < b and (text[a] == 32 or text[a] == 9):
        a += 1
    while b > a and (text[b - 1] == 32 or text[b - 1] == 9):
        b -= 1
    negative = False
    if a < b and (text[a] == 45 or text[a] == 43):
        negative = text[a] == 45
        a += 1
    w, digits, q, any_digit, after_point = _U0, 0, 0, False, False
    while a < b:
        byte = text[a]
        if 48 <= byte <= 57:
            any_digit = True
            if digits > 0 or byte != 48:
                digits += 1
                w = w * _U10 + np.uint64(byte - 48)
            if after_point:
                q -= 1
        elif byte == 46 and not after_point:
            after_point = True
        else:
            break
        a += 1
    if not any_digit or digits > 19:
        return False
    if a < b:
        if text[a] != 101 and text[a] != 69:
            return False
        a += 1
        sign = 1
        if a < b and (text[a] == 45 or text[a] == 43):
            sign = -1 if text[a] == 45 else 1
            a += 1
        if a == b or b - a > 4:
            return False
        power = 0
        while a < b:
            if not 48 <= text[a] <= 57:
                return False
            power = 10 * power + int(text[a] - 48)
            a += 1
        q += sign * power
    if w == _U0:
        values[k] = -0.0 if negative else 0.0
        return True
    if w <= _EXACT and 0 <= q <= 22:  # a quotient would not do: divisions may become products
        value = np.float64(w) * _TENS[q]
        values[k] = -value if negative else value
        return True
    if q < _SMALLEST or q > _LARGEST:
        return False
    found, certain = _nearest_bits(w, q)
    if certain:
        bits[k] = found | (_U1 << _U63) if negative else found
    return certain


@jit
def label_hash(text: Any, a: Any, b: Any) -> Any:
    """FNV-1a."""
    h = _FNV
    for k in range(a, b):
        h = (h ^ np.uint64(text[k])) * _FNV_PRIME
    return h


@jit
def find_label(text: Any, a: Any, b: Any, slots: Any, starts: Any, arena: Any) -> Any:
    """Number of the label text[a:b] in the table, -1 if it is not there."""
    mask = np.uint64(len(slots) - 1)
    slot = label_hash(text, a, b) & mask
    while slots[slot] >= 0:
        code = slots[slot]
        start = starts[code]
        if starts[code + 1] - start == b - a:
            same = True
            for k in range(b - a):
                if arena[start + k] != text[a + k]:
                    same = False
                    break
            if same:
                return code
        slot = (slot + _U1) & mask
    return -1


@jit
def _trimmed(text: Any, a: Any, b: Any) -> Any:
    while a < b and (text[a] == 32 or text[a] == 9):
        a += 1
    while b > a and (text[b - 1] == 32 or text[b - 1] == 9):
        b -= 1
    return a, b


@jit
def parse_sparse_rows(
    text: Any,
    p: Any,
    end: Any,
    slots: Any,
    starts: Any,
    arena: Any,
    values: Any,
    bits: Any,
    indices: Any,
    ends: Any,
    codes: Any,
) -> Any:
    """Rows ``label index:value ...`` from p on; stops before a line that is not plain.

    ``ends[r]`` is where row r ends in ``values`` and ``indices``.  Returns rows, entries, lines,
    where the next line starts, and whether that line is plain; also stops, plainly, where the
    buffers might not hold another line.
    """
    rows, entries, lines = 0, 0, 0
    while p < end and rows < len(codes):
        line, first = p, entries
        q = p
        while text[q] != 10:
            q += 1
        if entries + (q - p) // 3 + 1 > len(values):
            break
        a, b = _trimmed(text, p, q - 1 if q > p and text[q - 1] == 13 else q)
        if a < b:
            k = a
            while k < b and text[k] != 32 and text[k] != 9:
                k += 1
            code = find_label(text, a, k, slots, starts, arena)
            if code < 0:
                return rows, first, lines, line, False
            codes[rows] = code
            last = -1
            while k < b:
                while k < b and (text[k] == 32 or text[k] == 9):
                    k += 1
                if k == b:
                    break
                index, at = 0, k
                while k < b and 48 <= text[k] <= 57 and k - at < 10:
                    index = 10 * index + int(text[k] - 48)
                    k += 1
                if k == at or k >= b or text[k] != 58 or index <= last or index > 2147483647:
                    return rows, first, lines, line, False
                k += 1
                at = k
                while k < b and text[k] != 32 and text[k] != 9:
                    k += 1
                if not read_number(text, at, k, values, bits, entries):
                    return rows, first, lines, line, False
                indices[entries] = index
                last = index
                entries += 1
            ends[rows] = entries
            rows += 1
        p = q + 1
        lines += 1
    return rows, entries, lines, p, True
