"""Compiled survey of all patterns (values, certificate) and the visits of the selected ones.

Scores F are kept class by class, (R, n) float64, so that the push of one kernel row runs along
memory.  A pattern p takes part with its own prototype and those of other classes, A_p.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.compiled.jit import allocating, inlined
from polymargin.compiled.smo_steps import best_pair, exact_step, optimise_pattern
from polymargin.compiled.totals import GAIN, GAP, HITS, LOSS, MARGIN, NORM, OWN, STEPS, VISITS

__all__ = ["AMG", "BMG", "KKT", "NOTHING", "VALUES", "survey", "visit"]

NOTHING, KKT, AMG, BMG = range(4)
VALUES = {"kkt": KKT, "amg": AMG, "bmg": BMG, "core": KKT}
_SUPPORT = 1e-12  # of C: weight below this is rounding, not support


@inlined
def _gather(F: Any, duals: Any, p: int, at: Any, f: Any, alpha: Any) -> int:
    """A_p with the own prototype first, its scores and variables; their number."""
    own = duals.own[p]
    label = duals.label[p]
    at[0] = own
    f[0] = F[own, p]
    alpha[0] = duals.tau[p, own]
    count = 1
    for r in range(F.shape[0]):
        if duals.prototype_class[r] != label:
            at[count] = r
            f[count] = F[r, p]
            alpha[count] = -duals.tau[p, r]
            count += 1
    return count


@allocating
def survey(F: Any, duals: Any, code: int, hard_cap: float, values: Any, sums: Any) -> None:
    """Values V_p (A8) of all patterns, and the sums of the certificate.

    Parameters
    ----------
    code : int
        KKT, AMG, BMG, or NOTHING for the sums alone.
    hard_cap : float
        What stands for an infinite cap in the sums.
    values : (n,) array
        Receives the values.
    sums : array of totals
        GAP (1.9), LOSS sum_i C_i xi_i, OWN sum_i tau_{i,a_i} and NORM ||M||^2 are added to, MARGIN
        is lowered.
    """
    R, n = F.shape
    scratch = np.empty((6, max(R, 128)))
    at = np.empty(R, dtype=np.int64)
    f, alpha, work = scratch[0], scratch[1], scratch[2:]
    for p in range(n):
        count = _gather(F, duals, p, at, f, alpha)
        cap = duals.cap[p]
        gap_cap = cap if cap < np.inf else hard_cap
        rival = f[1]
        for q in range(2, count):
            rival = f[q] if f[q] > rival else rival
        lead = f[0] - rival
        highest = max(f[0] - 1.0, rival)
        least = _SUPPORT * (cap if cap < np.inf else alpha[0])
        lowest = f[0] - 1.0 if cap - alpha[0] > least else np.inf
        gap = max(gap_cap - alpha[0], 0.0) * (highest - (f[0] - 1.0))
        norm = alpha[0] * f[0]
        for q in range(1, count):
            if alpha[q] > 0.0:
                gap += alpha[q] * (highest - f[q])
                norm -= alpha[q] * f[q]
                if alpha[q] > least and f[q] < lowest:
                    lowest = f[q]
        sums[MARGIN] = min(sums[MARGIN], lead)
        sums[LOSS] += gap_cap * max(0.0, 1.0 - lead)
        sums[OWN] += alpha[0]
        sums[NORM] += norm
        sums[GAP] += gap
        if code == NOTHING:
            continue
        violation = highest - lowest if highest > lowest else 0.0  # (1.8)
        if code == KKT or violation == 0.0:
            values[p] = violation
        elif code == AMG:
            values[p] = best_pair(f, alpha, count, cap, duals.diagonal[p])[0]
        else:
            gain = exact_step(f, alpha, count, cap, duals.diagonal[p], work)
            values[p] = max(2.0 * gain, 0.0)


@allocating
def visit(
    F: Any,
    duals: Any,
    rows: Any,
    slot: Any,
    used: Any,
    tick: Any,
    fetched: int,
    queue: Any,
    begin: int,
    end: int,
    code: int,
    phi: float,
    least_gain: float,
    most_visits: int,
    most_steps: int,
    counters: Any,
) -> tuple[int, bool]:
    """Optimise the patterns ``queue[begin:end]`` one after the other and propagate (A10 step 5).

    Parameters
    ----------
    rows, slot, used, tick : the row cache; ``fetched`` is the pattern whose row was just computed
        for it, which is no hit (-1: none).
    code, phi : the pattern optimiser and its tolerance.
    least_gain : float
        A step whose gain in D is not above this is not made.
    most_visits, most_steps : int
        Return after so many visits (Python looks at the clock) or steps (a check is due).
    counters : array
        GAIN (all gains found), STEPS, VISITS and HITS are added to.

    Returns
    -------
    position : int
        Where to go on.
    is_missing : bool
        Whether the row of that pattern is missing; otherwise a limit was reached, or the end.
    """
    R, n = F.shape
    scratch = np.empty((7, max(R, 128)))
    at = np.empty(R, dtype=np.int64)
    f, alpha, before, work = scratch[0], scratch[1], scratch[2], scratch[3:]
    # sums go on where an earlier call stopped: their rounding must not know where that was
    gain_sum = counters[GAIN]
    steps = 0
    visits = 0
    is_missing = False
    j = begin
    while j < end and steps < most_steps and visits < most_visits:
        p = queue[j]
        count = _gather(F, duals, p, at, f, alpha)
        for q in range(count):
            before[q] = alpha[q]
        gain = optimise_pattern(code, f, alpha, count, duals.cap[p], duals.diagonal[p], phi, work)
        if not gain > least_gain:
            gain_sum += max(gain, 0.0)
            visits += 1
            j += 1
            continue
        place = slot[p]
        if place < 0:
            is_missing = True
            break
        if p != fetched:
            counters[HITS] += 1.0
        fetched = -1
        tick[0] += 1
        used[place] = tick[0]
        for q in range(count):
            change = alpha[q] - before[q] if q == 0 else before[q] - alpha[q]
            if change != 0.0:
                r = at[q]
                duals.tau[p, r] = alpha[q] if q == 0 else -alpha[q]
                for i in range(n):
                    F[r, i] += change * rows[place, i]
        gain_sum += gain
        visits += 1
        steps += 1
        j += 1
    counters[GAIN] = gain_sum
    counters[STEPS] += steps
    counters[VISITS] += visits
    return j, is_missing
