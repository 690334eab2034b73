"""Block descent for every machine of the table: one compiled loop per kind of pattern step.

=============  ==============================  =======================================
margins        slacks                          loop
=============  ==============================  =======================================
relative       one per constraint              ``_relative_boxes`` (Weston-Watkins)
relative       one per pattern                 ``_relative_simplices`` (Crammer-Singer)
absolute       one per constraint              ``_absolute_boxes`` (Lee-Lin-Wahba, M-SVM^2)
absolute       one per pattern                 ``_absolute_simplices``
either         one per constraint, xi'M xi     ``form_descent.descend_forms``
=============  ==============================  =======================================

A loop visits the patterns of a queue, solves each pattern's block over its listed variables and
pushes the change.  A fit compiles only the loop that it runs.  Crammer-Singer without a free
intercept has a faster loop of its own (``pattern_descent``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.compiled.block_moves import (
    drop_pattern,
    gain_of,
    move,
    relax,
    release,
    solve_boxes,
)
from polymargin.compiled.block_steps import simplex_step
from polymargin.compiled.block_variables import Blocks
from polymargin.compiled.fields import difference, is_ready, push_pair, read
from polymargin.compiled.form_descent import descend_forms
from polymargin.compiled.jit import jit
from polymargin.compiled.pattern_step import crammer_singer_step
from polymargin.compiled.totals import GAIN, GAP, STEPS, VISITS

__all__ = ["descend_blocks"]


def descend_blocks(
    field: Any,
    blocks: Blocks,
    queue: np.ndarray,
    begin: int,
    end: int,
    threshold: float,
    relaxation: float,
    hard_cap: float,
    budget: int,
    totals: np.ndarray,
) -> tuple[int, int]:
    """Visit ``queue[begin:end]`` once; what cannot move leaves its list.

    Parameters and results are those of ``pattern_descent.descend``: GAP is the sum of the terms of
    (4.9) as they were found, ``position < end`` means out of budget or a missing kernel row.
    """
    loop = _LOOPS[blocks.relative, blocks.has_shared_slack]
    if len(blocks.inverse):
        loop = descend_forms
    # one allocation with wide rows: see ``pattern_descent``
    scratch = np.empty((7, max(blocks.V.shape[1] + 1, 128)))
    begin, end = loop(
        field, blocks, queue, begin, end, threshold, relaxation, hard_cap, budget, scratch, totals
    )
    return begin, end


@jit
def _relative_boxes(
    field: Any,
    blocks: Any,
    queue: Any,
    begin: int,
    end: int,
    threshold: float,
    relaxation: float,
    hard_cap: float,
    budget: int,
    scratch: Any,
    totals: Any,
) -> tuple[int, int]:
    """Rivals only, each v in [-cap, 0]; the own class has minus their sum."""
    F, G, v, z = scratch[0], scratch[1], scratch[2], scratch[3]
    low, high, new = scratch[4], scratch[5], scratch[6]
    visits, steps = np.intp(0), np.intp(0)
    gap_sum, gain_sum = totals[GAP], totals[GAIN]
    j = begin
    while j < end and visits < budget:
        p = queue[j]
        count = np.intp(blocks.n_active[p])
        cap = blocks.rival_cap[p]
        limit = cap if cap < np.inf else hard_cap
        A = blocks.curvature[p]
        if count == 2:
            # one rival, the common case near the optimum: v += t gains -d t - A t^2
            own = blocks.own[p]
            r = np.intp(blocks.active[p, 1])
            old = blocks.V[p, r]
            d = difference(field, p, r, own) + blocks.rival_target
            t = -old
            if A > 0.0:
                t = min(max(-0.5 * d / A, -cap - old), -old)
            elif d > 0.0 and cap < np.inf:
                t = -cap - old
            gain = -(d + A * t) * t
            if gain > threshold:
                if not is_ready(field, p):
                    break
                relaxed = old + relaxation * t
                if relaxed >= -cap and relaxed <= 0.0:
                    t = relaxed - old
                elif t == -cap - old:
                    relaxed = -cap  # bounds are met exactly
                else:
                    relaxed = 0.0 if t == -old else old + t
                blocks.V[p, r] = relaxed
                blocks.total[p] += t
                push_pair(field, p, r, own, t)
                steps += 1
            else:
                t, relaxed = 0.0, old
            visits += 2
            gap_sum += d * max(limit + old, 0.0) if d > 0.0 else d * old
            gain_sum += max(gain, 0.0)
            after = d + 2.0 * A * t
            if (relaxed >= 0.0 and after < 0.0) or (relaxed <= -cap and after > 0.0):
                blocks.n_active[p] = 1
                end = drop_pattern(queue, j, end)
            else:
                j += 1
            continue

        read(field, p, blocks.active, count, F)
        lift = blocks.rival_target - F[0]
        gap = 0.0
        for q in range(1, count):
            old = blocks.V[p, np.intp(blocks.active[p, q])]
            g = F[q] + lift
            v[q], G[q] = old, g
            low[q], high[q] = -cap, 0.0
            gap += max(limit + old, 0.0) * g if g > 0.0 else old * g
        solve_boxes(G, v, z, low, high, count, A, 1.0, blocks.total[p], new)
        gain = gain_of(G, v, new, count, A, 1.0)
        if gain > threshold:
            if not is_ready(field, p):
                break
            relax(v, new, low, high, count, relaxation)
            move(field, blocks, p, count, v, new, -1.0)
            steps += 1
        else:
            for q in range(1, count):
                new[q] = v[q]
        visits += count
        gap_sum += gap
        gain_sum += gain
        count = release(blocks.active[p], G, v, new, low, high, count, A, 1.0)
        blocks.n_active[p] = count
        if count > 1:
            j += 1
        else:
            end = drop_pattern(queue, j, end)
    totals[GAP], totals[GAIN] = gap_sum, gain_sum
    totals[STEPS] += steps
    totals[VISITS] += visits
    return j, end


@jit
def _absolute_boxes(
    field: Any,
    blocks: Any,
    queue: Any,
    begin: int,
    end: int,
    threshold: float,
    relaxation: float,
    hard_cap: float,
    budget: int,
    scratch: Any,
    totals: Any,
) -> tuple[int, int]:
    """Rivals in [-cap, 0] and the own class in [0, cap], a ridge where the loss is quadratic."""
    Q = blocks.V.shape[1]
    kappa = -1.0 / Q
    F, G, v, z = scratch[0], scratch[1], scratch[2], scratch[3]
    low, high, new = scratch[4], scratch[5], scratch[6]
    visits, steps = np.intp(0), np.intp(0)
    gap_sum, gain_sum = totals[GAP], totals[GAIN]
    j = begin
    while j < end and visits < budget:
        p = queue[j]
        count = np.intp(blocks.n_active[p])
        own = blocks.own[p]
        A = blocks.curvature[p]
        ridge = blocks.ridge[p]
        total = blocks.total[p]
        read(field, p, blocks.active, count, F)
        gap = 0.0
        for q in range(1, count):
            k = np.intp(blocks.active[p, q])
            old = blocks.V[p, k]
            g = F[q] + kappa * F[0] + ridge * (old + kappa * total)
            if k == own:
                cap = blocks.own_cap[p]
                g -= blocks.own_target
                low[q], high[q] = 0.0, cap
                pressure = g
            else:
                cap = blocks.rival_cap[p]
                g += blocks.rival_target
                low[q], high[q] = -cap, 0.0
                pressure = -g
            v[q], G[q] = old, g
            if pressure < 0.0:
                gap -= max((cap if cap < np.inf else hard_cap) - abs(old), 0.0) * pressure
            else:
                gap += abs(old) * pressure
        if count == 2 and A > 0.0:
            free = v[1] - G[1] / (A * (1.0 + kappa))
            new[1] = min(max(free, low[1]), high[1])
        else:
            solve_boxes(G, v, z, low, high, count, A, kappa, total, new)
        gain = gain_of(G, v, new, count, A, kappa)
        if gain > threshold:
            if not is_ready(field, p):
                break
            relax(v, new, low, high, count, relaxation)
            move(field, blocks, p, count, v, new, 1.0)
            steps += 1
        else:
            for q in range(1, count):
                new[q] = v[q]
        visits += count
        gap_sum += gap
        gain_sum += gain
        count = release(blocks.active[p], G, v, new, low, high, count, A, kappa)
        blocks.n_active[p] = count
        if count > 1:
            j += 1
        else:
            end = drop_pattern(queue, j, end)
    totals[GAP], totals[GAIN] = gap_sum, gain_sum
    totals[STEPS] += steps
    totals[VISITS] += visits
    return j, end


@jit
def _relative_simplices(
    field: Any,
    blocks: Any,
    queue: Any,
    begin: int,
    end: int,
    threshold: float,
    relaxation: float,
    hard_cap: float,
    budget: int,
    scratch: Any,
    totals: Any,
) -> tuple[int, int]:
    """Crammer-Singer: tau = v <= 0 for rivals and minus their sum, at most cap, for the own class.

    Steps are exact (no relaxation) and nothing leaves a list before ``enlist`` writes it anew.
    """
    F, G, v, z, new = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    visits, steps = np.intp(0), np.intp(0)
    gap_sum, gain_sum = totals[GAP], totals[GAIN]
    j = begin
    while j < end and visits < budget:
        p = queue[j]
        count = np.intp(blocks.n_active[p])
        cap = blocks.rival_cap[p]
        A = blocks.curvature[p]
        read(field, p, blocks.active, count, F)
        F[0] -= blocks.rival_target
        v[0] = -blocks.total[p]
        highest = F[0]
        gap = 0.0
        for q in range(1, count):
            v[q] = blocks.V[p, np.intp(blocks.active[p, q])]
            G[q] = F[q] - F[0]
            highest = max(highest, F[q])
            gap += v[q] * G[q]
        gap += (cap if cap < np.inf else hard_cap) * (highest - F[0])
        crammer_singer_step(F, v, count, np.intp(0), cap, A, z, new)
        gain = gain_of(G, v, new, count, A, 1.0)
        if gain > threshold:
            if not is_ready(field, p):
                break
            move(field, blocks, p, count, v, new, -1.0)
            steps += 1
        visits += count
        gap_sum += gap
        gain_sum += gain
        j += 1
    totals[GAP], totals[GAIN] = gap_sum, gain_sum
    totals[STEPS] += steps
    totals[VISITS] += visits
    return j, end


@jit
def _absolute_simplices(
    field: Any,
    blocks: Any,
    queue: Any,
    begin: int,
    end: int,
    threshold: float,
    relaxation: float,
    hard_cap: float,
    budget: int,
    scratch: Any,
    totals: Any,
) -> tuple[int, int]:
    """Absolute margins with one slack: sum_k |v_k| <= cap, signs given.

    Steps are exact (no relaxation) and nothing leaves a list before ``enlist`` writes it anew.
    """
    Q = blocks.V.shape[1]
    kappa = -1.0 / Q
    F, G, v, sign, new = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    visits, steps = np.intp(0), np.intp(0)
    gap_sum, gain_sum = totals[GAP], totals[GAIN]
    j = begin
    while j < end and visits < budget:
        p = queue[j]
        count = np.intp(blocks.n_active[p])
        own = blocks.own[p]
        cap = max(blocks.rival_cap[p], blocks.own_cap[p])
        A = blocks.curvature[p]
        read(field, p, blocks.active, count, F)
        best = 0.0
        gap = 0.0
        for q in range(1, count):
            k = np.intp(blocks.active[p, q])
            v[q] = blocks.V[p, k]
            G[q] = F[q] + kappa * F[0]
            G[q] += -blocks.own_target if k == own else blocks.rival_target
            sign[q] = 1.0 if k == own else -1.0
            best = max(best, -sign[q] * G[q])
            gap += v[q] * G[q]
        gap += best * (cap if cap < np.inf else hard_cap)
        simplex_step(G, v, sign, 1, count, cap, A, kappa, new)
        gain = gain_of(G, v, new, count, A, kappa)
        if gain > threshold:
            if not is_ready(field, p):
                break
            move(field, blocks, p, count, v, new, 1.0)
            steps += 1
        visits += count
        gap_sum += gap
        gain_sum += gain
        j += 1
    totals[GAP], totals[GAIN] = gap_sum, gain_sum
    totals[STEPS] += steps
    totals[VISITS] += visits
    return j, end


_LOOPS = {
    (True, False): _relative_boxes,
    (True, True): _relative_simplices,
    (False, False): _absolute_boxes,
    (False, True): _absolute_simplices,
}
