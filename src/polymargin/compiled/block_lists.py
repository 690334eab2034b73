"""Lists of the variables that could move, and the queue of the patterns that have some."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.compiled.block_variables import Blocks
from polymargin.compiled.jit import jit

__all__ = ["enlist", "examine_sums"]


def enlist(G: np.ndarray, blocks: Blocks, queue: np.ndarray) -> int:
    """Write the lists of variables that could move and the queue of patterns that have some.

    ``G`` (n, Q) is the gradient in the signed variables.  A variable at a bound that the gradient
    presses against is left out; the number of queued patterns comes back.
    """
    write = _enlist_simplices if blocks.has_shared_slack else _enlist_boxes
    return int(write(G, blocks, queue))


@jit
def _enlist_boxes(G: Any, blocks: Any, queue: Any) -> int:
    """Every variable has bounds of its own."""
    n, Q = blocks.V.shape
    end = 0
    for p in range(n):
        own = blocks.own[p]
        blocks.active[p, 0] = own if blocks.relative else Q
        count = 1
        for k in range(Q):
            g = G[p, k]
            v = blocks.V[p, k]
            if k == own:
                cap = blocks.own_cap[p]
                is_stuck = (v <= 0.0 and g >= 0.0) or (v >= cap and g <= 0.0)
            else:
                cap = blocks.rival_cap[p]
                is_stuck = (v >= 0.0 and g <= 0.0) or (v <= -cap and g >= 0.0)
            if cap > 0.0 and not is_stuck:
                blocks.active[p, count] = k
                count += 1
        blocks.n_active[p] = count
        if count > 1:
            queue[end] = p
            end += 1
    return end


@jit
def _enlist_simplices(G: Any, blocks: Any, queue: Any) -> int:
    """One slack for all: what matters is the best constraint against those that have weight."""
    n, Q = blocks.V.shape
    end = 0
    for p in range(n):
        own = blocks.own[p]
        blocks.active[p, 0] = own if blocks.relative else Q
        count = 1
        held = 0.0
        for k in range(Q):
            held += abs(blocks.V[p, k])
        room = max(blocks.rival_cap[p], blocks.own_cap[p]) - held
        lowest = 0.0 if room > 0.0 else np.inf
        highest = -np.inf
        for k in range(Q):
            cap = blocks.own_cap[p] if k == own else blocks.rival_cap[p]
            if cap <= 0.0:
                continue
            deficit = -G[p, k] if k == own else G[p, k]
            highest = max(highest, deficit)
            if blocks.V[p, k] != 0.0:
                lowest = min(lowest, deficit)
        if highest > lowest or lowest < 0.0:
            for k in range(Q):
                cap = blocks.own_cap[p] if k == own else blocks.rival_cap[p]
                deficit = -G[p, k] if k == own else G[p, k]
                if cap > 0.0 and (deficit >= min(lowest, 0.0) or blocks.V[p, k] != 0.0):
                    blocks.active[p, count] = k
                    count += 1
        blocks.n_active[p] = count
        if count > 1:
            queue[end] = p
            end += 1
    return end


@jit
def examine_sums(scores: Any, blocks: Any, queue: Any, found: Any) -> int:
    """``enlist`` from class scores, with the sums of a check: relative margins, summed slacks.

    ``found`` receives sum_i C_i xi_i and the linear term of D; one pass over the scores instead of
    a dozen, which is what checks of many cheap patterns cost.
    """
    n, Q = blocks.V.shape
    loss, reward = 0.0, 0.0
    end = 0
    for p in range(n):
        own = blocks.own[p]
        cap = blocks.rival_cap[p]
        lift = blocks.rival_target - scores[p, own]
        blocks.active[p, 0] = own
        count = 1
        total, slack = 0.0, 0.0
        for k in range(Q):
            if k == own:
                continue
            g = scores[p, k] + lift
            v = blocks.V[p, k]
            total += v
            if g > 0.0:
                slack += g
                is_stuck = v <= -cap
            else:
                is_stuck = v >= 0.0
            if not is_stuck:
                blocks.active[p, count] = k
                count += 1
        blocks.total[p] = total
        loss += cap * slack
        reward -= blocks.rival_target * total
        blocks.n_active[p] = count
        if count > 1 and cap > 0.0:
            queue[end] = p
            end += 1
    found[0] = loss
    found[1] = reward
    return end
