"""What the loops of block descent share: the gain of a step, its push, and leaving the lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.compiled.block_steps import box_step
from polymargin.compiled.fields import push
from polymargin.compiled.jit import inlined

__all__ = ["drop_pattern", "gain_of", "move", "relax", "release", "solve_boxes"]


@inlined
def gain_of(G: Any, v: Any, new: Any, count: Any, A: float, kappa: float) -> float:
    """What D gains if the listed variables go from v to new; never below 0."""
    total = 0.0
    gain = 0.0
    for q in range(1, count):
        change = new[q] - v[q]
        total += change
        gain -= (G[q] + 0.5 * A * change) * change
    gain -= 0.5 * A * kappa * total * total
    return gain if gain > 0.0 else 0.0


@inlined
def move(field: Any, blocks: Any, p: int, count: Any, v: Any, new: Any, anchor: float) -> None:
    """Write the new variables of pattern p and push their changes.

    The anchor, first in the list, gets ``anchor`` times the sum of the changes: -1 for relative
    margins, where it is the own class, and 1 for absolute ones, where it collects the sum.
    """
    pushed = 0.0
    for q in range(1, count):
        change = new[q] - v[q]
        if change != 0.0:
            k = np.intp(blocks.active[p, q])
            blocks.V[p, k] = new[q]
            push(field, p, k, change)
            pushed += change
    if pushed != 0.0:
        push(field, p, np.intp(blocks.active[p, 0]), anchor * pushed)
    blocks.total[p] += pushed


@inlined
def drop_pattern(queue: Any, j: int, end: int) -> int:
    """The pattern at place j leaves the queue; its new end comes back."""
    end -= 1
    p = queue[j]
    queue[j] = queue[end]
    queue[end] = p
    return end


# -- a box for every variable ----------------------------------------------------------------------


@inlined
def solve_boxes(
    G: Any, v: Any, z: Any, low: Any, high: Any, count: Any, A: float, kappa: float, total: float,
    new: Any,
) -> None:  # fmt: skip
    """The best variables between their bounds; ``total`` is the sum of all of the pattern."""
    if A > 0.0:
        others = total
        for q in range(1, count):
            others -= v[q]
            z[q] = v[q] + kappa * total - G[q] / A
        box_step(z, low, high, 1, count, kappa, others, total, new)
        return
    # a zero vector under the kernel: the block is linear, its optimum a vertex
    for q in range(1, count):
        new[q] = high[q] if G[q] < 0.0 else low[q]
        if abs(new[q]) == np.inf:
            new[q] = 0.0


@inlined
def relax(v: Any, new: Any, low: Any, high: Any, count: Any, relaxation: float) -> None:
    """Make the step longer or shorter by a factor, if all variables stay between their bounds."""
    if relaxation == 1.0:
        return  # bounds that were met exactly stay met
    for q in range(1, count):
        relaxed = v[q] + relaxation * (new[q] - v[q])
        if relaxed < low[q] or relaxed > high[q]:
            return
    for q in range(1, count):
        new[q] = v[q] + relaxation * (new[q] - v[q])


@inlined
def release(
    active: Any, G: Any, v: Any, new: Any, low: Any, high: Any, count: Any, A: float, kappa: float
) -> Any:
    """Variables at a bound that their new gradient presses against leave the list ``active``.

    The gradient ``G`` was that at ``v``.  The new length of the list comes back.
    """
    moved = 0.0
    for q in range(1, count):
        moved += new[q] - v[q]
    q = 1
    while q < count:
        after = G[q] + A * (new[q] - v[q] + kappa * moved)
        if (new[q] >= high[q] and after < 0.0) or (new[q] <= low[q] and after > 0.0):
            count -= 1
            active[q], active[count] = active[count], active[q]
            G[q], new[q], v[q] = G[count], new[count], v[count]
            low[q], high[q] = low[count], high[count]
        else:
            q += 1
    return count
