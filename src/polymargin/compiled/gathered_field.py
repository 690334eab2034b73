"""A kernel field whose pushes are gathered and made together, for scores beyond the second cache.

A push adds a kernel row to the scores of some prototypes.  Where the scores of all prototypes do
not fit into the second cache, every push reads and writes them from further away.  Here a push
only notes its pattern and amounts; ``read`` adds what the noted ones would have changed, a sum over
a few kernel values, so that a loop sees the scores it would have seen.  When the notes are full
they are written into the scores together, tile by tile, several kernel rows at a time.

The loops are those of every field.  Who calls one calls ``flush`` before the scores or the kernel
rows are used otherwise, and not where the clock decides: what is added together decides the bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from polymargin.compiled.fields import VERBS, KernelField, Verbs
from polymargin.compiled.jit import inlined, jit
from polymargin.compiled.simd import MULTIPLE, sum_rows

__all__ = ["GatheredField", "flush", "gathered", "is_worth_gathering"]

_NOTES = 64  # patterns that wait at most; 32 and 128 are no faster
_TILE = 1024  # columns: four kernel rows of a tile lie in the first cache, its scores in the second
_LARGE = 1 << 20  # bytes


class GatheredField(NamedTuple):
    """A KernelField and the pushes that wait.

    Attributes
    ----------
    field : KernelField
    waiting : (1,) how many patterns wait.
    pattern : (k,) these patterns, in the order of their pushes.
    amounts : (k, R rounded up to a multiple of the SIMD lanes) what each adds to the prototypes.
    near : (k,) room for the kernel values between the pattern that is read and those that wait.
    place : (k,) 0, 1, 2, ...
    note : (m,) place of every pattern among those that wait, -1 for the others.
    total : room for one row of ``amounts``.
    """

    field: Any
    waiting: np.ndarray
    pattern: np.ndarray
    amounts: np.ndarray
    near: np.ndarray
    place: np.ndarray
    note: np.ndarray
    total: np.ndarray


def is_worth_gathering(field: KernelField, relative: bool) -> bool:
    """Whether scores exceed the second cache of most processors and steps change many of them.

    Relative margins: near the optimum most steps change two prototypes, and reading costs more
    than pushing together saves.
    """
    return bool(field.F.nbytes > _LARGE and not relative)


def gathered(field: KernelField, notes: int = _NOTES) -> GatheredField:
    """The field with no pushes waiting; ``notes``, a multiple of 4, patterns may wait."""
    width = -(-len(field.F) // MULTIPLE) * MULTIPLE
    return GatheredField(
        field,
        np.zeros(1, dtype=np.int64),
        np.zeros(notes, dtype=np.int64),
        np.zeros((notes, width), dtype=field.F.dtype),
        np.zeros(notes, dtype=field.F.dtype),
        np.arange(notes),
        np.full(field.width, -1, dtype=np.int32),
        np.zeros(width, dtype=field.F.dtype),
    )


@inlined
def _look(field: Any, i: Any) -> Any:
    """Kernel values between pattern i and those that wait; how many there are."""
    count, kernel = field.waiting[0], field.field
    row = kernel.slot[i]
    if row >= 0:
        for b in range(count):
            field.near[b] = kernel.rows[row, field.pattern[b]] * kernel.unit
    else:
        for b in range(count):
            field.near[b] = kernel.rows[kernel.slot[field.pattern[b]], i] * kernel.unit
    return count


def _read_gathered(field: Any, i: Any, active: Any, count: Any, out: Any) -> None:
    kernel, total = field.field, field.total
    waiting = _look(field, i)
    sum_rows(field.near, field.place, 0, waiting, field.amounts, total)
    for q in range(count):
        r = np.intp(active[i, q])
        out[q] = (kernel.F[r, i] + total[r]) + kernel.constant[r] * kernel.scale


def _difference_gathered(field: Any, i: Any, r: Any, s: Any) -> float:
    kernel = field.field
    waiting = _look(field, i)
    score = np.float64(kernel.F[r, i]) - np.float64(kernel.F[s, i])
    for b in range(waiting):
        score += field.near[b] * (field.amounts[b, r] - field.amounts[b, s])
    return score + (kernel.constant[r] - kernel.constant[s]) * kernel.scale


@inlined
def _note(field: Any, i: Any) -> Any:
    """The place of pattern i among those that wait."""
    at = np.intp(field.note[i])
    if at < 0:
        if field.waiting[0] == len(field.pattern):
            flush(field)
        at = field.waiting[0]
        field.waiting[0] = at + 1
        field.pattern[at] = i
        field.note[i] = at
        field.amounts[at, :] = 0.0
        kernel = field.field
        kernel.tick[0] += 1
        kernel.used[kernel.slot[i]] = kernel.tick[0]
    return at


def _push_gathered(field: Any, i: Any, r: Any, amount: Any) -> None:
    at = _note(field, i)
    field.amounts[at, r] += field.amounts.dtype.type(amount)
    field.field.constant[r] += amount * field.field.scale


def _push_pair_gathered(field: Any, i: Any, r: Any, s: Any, amount: Any) -> None:
    at = _note(field, i)
    change = field.amounts.dtype.type(amount)
    field.amounts[at, r] += change
    field.amounts[at, s] -= change
    field.field.constant[r] += amount * field.field.scale
    field.field.constant[s] -= amount * field.field.scale


def _is_ready_gathered(field: Any, i: Any) -> bool:
    return bool(field.field.slot[i] >= 0)


@jit
def flush(field: Any) -> None:
    """Write all pushes that wait into the scores."""
    kernel, amounts, count = field.field, field.amounts, field.waiting[0]
    real = amounts.dtype.type
    for b in range(count):
        field.note[field.pattern[b]] = -1
        for r in range(amounts.shape[1]):
            amounts[b, r] *= real(kernel.unit)
    while count % 4:  # rows of zeros fill the last group
        amounts[count, :] = 0.0
        field.pattern[count] = field.pattern[0]
        count += 1
    for begin in range(0, kernel.width, _TILE):
        end = min(begin + _TILE, kernel.width)
        for b in range(0, count, 4):
            one = kernel.rows[kernel.slot[field.pattern[b]], begin:end]
            two = kernel.rows[kernel.slot[field.pattern[b + 1]], begin:end]
            three = kernel.rows[kernel.slot[field.pattern[b + 2]], begin:end]
            four = kernel.rows[kernel.slot[field.pattern[b + 3]], begin:end]
            for r in range(0, len(kernel.F), 2):
                w, x, y, z = amounts[b, r], amounts[b + 1, r], amounts[b + 2, r], amounts[b + 3, r]
                scores = kernel.F[r, begin:end]
                if r + 1 == len(kernel.F):
                    for j in range(len(scores)):
                        scores[j] += (w * real(one[j]) + x * real(two[j])) + (
                            y * real(three[j]) + z * real(four[j])
                        )
                    break
                # two prototypes at a time: numbers of the rows are loaded once for both
                s = r + 1
                w2, x2, y2, z2 = (
                    amounts[b, s], amounts[b + 1, s], amounts[b + 2, s], amounts[b + 3, s]
                )  # fmt: skip
                others = kernel.F[s, begin:end]
                for j in range(len(scores)):
                    k1, k2, k3, k4 = real(one[j]), real(two[j]), real(three[j]), real(four[j])
                    scores[j] += (w * k1 + x * k2) + (y * k3 + z * k4)
                    others[j] += (w2 * k1 + x2 * k2) + (y2 * k3 + z2 * k4)
    field.waiting[0] = 0


VERBS[GatheredField] = Verbs(
    _read_gathered,
    _difference_gathered,
    _push_gathered,
    _push_pair_gathered,
    is_ready=_is_ready_gathered,
)
