"""Block descent for a loss xi'M xi with a matrix M of one's own (``problem.quadratic_forms``).

Problem card.  For pattern p with curvature A = K_pp, all others fixed, over the signed variables
v <= 0 of its rivals, with r = 1 / (2 C_p) and W = M^-1 without the own class::

    min over v <= 0   A/2 (||v||^2 + kappa (sum_k v_k)^2) + r/2 v'W v + B . v

kappa is 1 for relative margins and -1/Q for absolute ones.  The block has no structure but W, so
coordinates are optimised in turn; a block that is not yet exact is visited again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.compiled.block_moves import drop_pattern, move
from polymargin.compiled.fields import is_ready, read
from polymargin.compiled.jit import inlined, jit
from polymargin.compiled.totals import GAIN, GAP, STEPS, VISITS

__all__ = ["descend_forms"]

_SWEEPS = 50
_SMALL = 1e-6  # of what a visit gained so far: a sweep that gains less is the last


@inlined
def _coordinates(
    z: Any, new: Any, active: Any, count: Any, W: Any, A: float, kappa: float, r: float
) -> float:
    """Optimise the listed variables in turn; z is their gradient, and what D gained comes back."""
    total = 0.0
    for _ in range(_SWEEPS):
        gain = 0.0
        for q in range(1, count):
            k = np.intp(active[q])
            bend = A * (1.0 + kappa) + r * W[k, k]
            if bend <= 0.0:
                continue
            after = min(new[q] - z[q] / bend, 0.0)
            t = after - new[q]
            if t == 0.0:
                continue
            gain -= (z[q] + 0.5 * bend * t) * t
            new[q] = after
            for s in range(1, count):
                z[s] += (A * kappa + r * W[np.intp(active[s]), k]) * t
            z[q] += A * t
        total += gain
        if gain <= _SMALL * total:
            break
    return max(total, 0.0)


@inlined
def _relax(v: Any, new: Any, G: Any, z: Any, count: Any, relaxation: float) -> None:
    """Make the step longer by a factor, if all variables stay below 0; z follows."""
    if relaxation == 1.0:
        return
    for q in range(1, count):
        if v[q] + relaxation * (new[q] - v[q]) > 0.0:
            return
    for q in range(1, count):
        new[q] = v[q] + relaxation * (new[q] - v[q])
        z[q] = G[q] + relaxation * (z[q] - G[q])


@jit
def descend_forms(
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
    """Visit ``queue[begin:end]`` once, as the loops of ``block_descent`` do."""
    Q = blocks.V.shape[1]
    kappa = 1.0 if blocks.relative else -1.0 / Q
    anchor = -1.0 if blocks.relative else 1.0
    F, G, v, z, new = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    visits, steps = np.intp(0), np.intp(0)
    gap_sum, gain_sum = totals[GAP], totals[GAIN]
    j = begin
    while j < end and visits < budget:
        p = queue[j]
        count = np.intp(blocks.n_active[p])
        active = blocks.active[p]
        A, r = blocks.curvature[p], blocks.ridge[p]
        W = blocks.inverse[blocks.own[p] if blocks.inverse.shape[0] > 1 else 0]
        read(field, p, blocks.active, count, F)
        lift = blocks.rival_target + (-F[0] if blocks.relative else kappa * F[0])
        gap = 0.0
        for q in range(1, count):
            k = np.intp(active[q])
            smooth = 0.0
            for m in range(Q):
                smooth += W[k, m] * blocks.V[p, m]
            g = F[q] + lift + r * smooth
            old = blocks.V[p, k]
            v[q], new[q], G[q], z[q] = old, old, g, g
            gap += max(hard_cap + old, 0.0) * g if g > 0.0 else old * g
        gain = _coordinates(z, new, active, count, W, A, kappa, r)
        if gain > threshold:
            if not is_ready(field, p):
                break
            _relax(v, new, G, z, count, relaxation)
            move(field, blocks, p, count, v, new, anchor)
            steps += 1
        else:
            for q in range(1, count):
                new[q], z[q] = v[q], G[q]
        visits += count
        gap_sum += gap
        gain_sum += gain
        q = 1
        while q < count:
            if new[q] >= 0.0 and z[q] < 0.0:  # at its bound, pressed against it
                count -= 1
                active[q], active[count] = active[count], active[q]
                new[q], z[q] = new[count], z[count]
            else:
                q += 1
        blocks.n_active[p] = count
        if count > 1:
            j += 1
        else:
            end = drop_pattern(queue, j, end)
    totals[GAP], totals[GAIN] = gap_sum, gain_sum
    totals[STEPS] += steps
    totals[VISITS] += visits
    return j, end
