"""Pair steps on convex-hull weights, compiled: the inner loop of ``solvers.hulls``.

Positions lie class by class.  ``active`` lists the positions in play, those of class k from
``first[k]`` to ``first[k + 1]``; rows of kernel values are found through ``slot`` (-1: not there).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from polymargin.compiled.jit import inlined, jit

__all__ = ["BUDGET", "DONE", "MISSING", "descend_pairs", "list_active"]

DONE, BUDGET, MISSING = 0, 1, 2


@partial(jit, forceinline=True)
def most_violating(g: Any, u: Any, cap: Any, active: Any, first: Any) -> tuple[Any, Any, Any]:
    """The class of the largest g_j - g_i over u_i < cap, u_j > 0 (7.6): its violation, k and i."""
    worst, where, receiver = 0.0, -1, -1
    for k in range(len(first) - 1):
        lowest, highest, at = np.inf, -np.inf, -1
        for a in range(first[k], first[k + 1]):
            p = active[a]
            if u[p] < cap[p] and g[p] < lowest:
                lowest, at = g[p], p
            if u[p] > 0.0 and g[p] > highest:
                highest = g[p]
        if highest - lowest > worst:
            worst, where, receiver = highest - lowest, k, at
    return worst, where, receiver


@inlined
def best_partner(
    row: Any, i: Any, diagonal: Any, g: Any, u: Any, active: Any, begin: Any, end: Any
) -> Any:
    """The giver j of the largest gain (g_j - g_i)^2 / ||phi_i - phi_j||^2, clips left aside."""
    best, partner = -1.0, -1
    floor = 1e-14 * diagonal[i]
    for a in range(begin, end):
        p = active[a]
        slope = g[p] - g[i]
        if u[p] > 0.0 and slope > 0.0:
            curvature = max(diagonal[i] + diagonal[p] - 2.0 * row[p], floor)
            gain = slope * slope
            # multiplied out: no division unless it wins
            if gain > best * curvature:
                best = gain / curvature if curvature > 0.0 else np.inf
                partner = p
    return partner


@inlined
def move(i: Any, j: Any, step: Any, u: Any, cap: Any) -> Any:
    """Weight from j to i, at most what j has and i may get; bounds are met exactly."""
    if step >= u[j] and u[j] <= cap[i] - u[i]:
        step = u[j]
        u[i] = min(u[i] + step, cap[i])
        u[j] = 0.0
    elif step >= cap[i] - u[i]:
        step = cap[i] - u[i]
        u[i] = cap[i]
        u[j] -= step
    else:
        u[i] += step
        u[j] -= step
    return step


@jit
def descend_pairs(
    rows: Any,
    slot: Any,
    used: Any,
    tick: Any,
    diagonal: Any,
    u: Any,
    cap: Any,
    g: Any,
    active: Any,
    first: Any,
    target: Any,
    max_steps: Any,
) -> tuple[Any, Any, Any, Any, Any]:
    """Pair steps until the largest violation is at most ``target``.

    Returns
    -------
    state, steps, worst, i, j : DONE, BUDGET (``max_steps`` made) or MISSING (the row of i, or with
        j >= 0 the row of j, has to be fetched first); the violation; the pair.
    """
    Q = len(first) - 1
    for steps in range(max_steps):
        worst, k, i = most_violating(g, u, cap, active, first)
        if not worst > target:
            return DONE, steps, worst, -1, -1
        if slot[i] < 0:
            return MISSING, steps, worst, i, -1
        row_i = rows[slot[i]]
        tick[0] += 1
        used[slot[i]] = tick[0]
        j = best_partner(row_i, i, diagonal, g, u, active, first[k], first[k + 1])
        if slot[j] < 0:
            return MISSING, steps, worst, i, j
        row_j = rows[slot[j]]
        used[slot[j]] = tick[0]
        # curvature of f / 2 along the pair: Kbar_ii + Kbar_jj - 2 Kbar_ij
        curvature = 2.0 * (Q - 1) * (diagonal[i] + diagonal[j] - 2.0 * row_i[j])
        step = (g[j] - g[i]) / curvature if curvature > 0.0 else np.inf
        step = move(i, j, step, u, cap)
        others, own = 2.0 * step, 2.0 * (Q - 1) * step
        for a in range(first[k]):
            p = active[a]
            g[p] -= others * (row_i[p] - row_j[p])
        for a in range(first[k], first[k + 1]):
            p = active[a]
            g[p] += own * (row_i[p] - row_j[p])
        for a in range(first[k + 1], len(active)):
            p = active[a]
            g[p] -= others * (row_i[p] - row_j[p])
    worst, k, i = most_violating(g, u, cap, active, first)
    return (BUDGET if worst > target else DONE), max_steps, worst, -1, -1


@jit
def list_active(g: Any, u: Any, cap: Any, first: Any, slack: Any, active: Any, ends: Any) -> Any:
    """Write the positions that could still move: at no bound, or not beyond it by ``slack``."""
    count = 0
    for k in range(len(first) - 1):
        lowest, highest = np.inf, -np.inf
        for p in range(first[k], first[k + 1]):
            if u[p] < cap[p]:
                lowest = min(lowest, g[p])
            if u[p] > 0.0:
                highest = max(highest, g[p])
        for p in range(first[k], first[k + 1]):
            may_gain = u[p] < cap[p] and g[p] <= highest + slack
            may_lose = u[p] > 0.0 and g[p] >= lowest - slack
            if may_gain or may_lose:
                active[count] = p
                count += 1
        ends[k + 1] = count
    return count
