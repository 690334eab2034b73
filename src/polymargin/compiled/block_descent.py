"""The compiled body of block descent for every machine of the table, on every field.

``descend_blocks`` visits the patterns of a queue, solves each pattern's block over its listed
variables and pushes the change; ``enlist`` writes the lists from the gradient of all variables.
Crammer-Singer without a free intercept has a body of its own (``solvers.body``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polymargin.compiled.block_steps import box_step, simplex_step
from polymargin.compiled.fields import difference, is_ready, push, push_pair, read
from polymargin.compiled.jit import jit
from polymargin.compiled.pattern_step import crammer_singer_step

if TYPE_CHECKING:
    from polymargin.problem.problem import Problem

__all__ = ["Blocks", "descend_blocks", "enlist", "examine_sums", "make_blocks"]

# places in the array of totals
GAP, GAIN, STEPS, VISITS = range(4)


class Blocks(NamedTuple):
    """The signed variables of the patterns in play and the facts of the machine.

    A pattern's list begins with its *anchor*: the own class for relative margins; for absolute ones
    the extra prototype number Q, which collects the sum of all others, so that a centred score is
    f_k - f_Q / Q.

    Attributes
    ----------
    own : (n,) class of each pattern.
    rival_cap, own_cap : (n,) bounds of |v| (0: no such constraint; infinite for the hard margin).
    ridge : (n,) 1 / (2 C_i) of the quadratic loss, 0 otherwise.
    curvature : (n,) K_ii, the ridge and the constant feature of a free intercept.
    V : (n, Q) signed variables.
    total : (n,) their row sums.
    active : (n, Q + 1) int16 lists.
    n_active : (n,) int32, the anchor counted.
    step : int
        Code of the pattern step: 0 Crammer-Singer, 1 box, 2 generic simplex.
    relative : bool
    rival_target, own_target : float
    """

    own: np.ndarray
    rival_cap: np.ndarray
    own_cap: np.ndarray
    ridge: np.ndarray
    curvature: np.ndarray
    V: np.ndarray
    total: np.ndarray
    active: np.ndarray
    n_active: np.ndarray
    step: int
    relative: bool
    rival_target: float
    own_target: float


def make_blocks(
    problem: Problem, patterns: np.ndarray | slice, V: np.ndarray, extra: float
) -> Blocks:
    """The variables of some patterns; ``extra`` is the square of the constant feature."""
    machine, Q = problem.machine, problem.n_prototypes
    diagonal = problem.diagonal[patterns] + extra
    cap = problem.cap[patterns]
    own = problem.own[patterns]
    ridge = np.zeros(len(V))
    if machine.p == 2:
        ridge = 0.5 / cap
        cap = np.full(len(V), np.inf)
    # a zero vector cannot be separated by any margin: the hard machine leaves it out
    cap = np.where((diagonal + ridge <= 0.0) & np.isinf(cap), 0.0, cap)
    rival, mine = machine.shares
    return Blocks(
        own=own,
        rival_cap=cap * rival if rival else np.zeros(len(V)),
        own_cap=cap * mine if mine else np.zeros(len(V)),
        ridge=ridge,
        curvature=diagonal + ridge,
        V=V,
        total=V.sum(axis=1),
        active=np.empty((len(V), Q + 1), dtype=np.int16),
        n_active=np.zeros(len(V), dtype=np.int32),
        step=machine.step,
        relative=bool(machine.K1),
        rival_target=machine.rival_target(Q),
        own_target=machine.target_of_own(Q),
    )


@jit
def enlist(G: Any, blocks: Any, queue: Any) -> int:
    """Write the lists of variables that could move and the queue of patterns that have some.

    ``G`` (n, Q) is the gradient in the signed variables.  A variable at a bound that the gradient
    presses against is left out; the number of queued patterns comes back.
    """
    n, Q = blocks.V.shape
    end = 0
    for p in range(n):
        own = blocks.own[p]
        blocks.active[p, 0] = own if blocks.relative else Q
        count = 1
        room = 1.0
        if blocks.step != 1:
            # one shared slack: what matters is the best constraint against what has weight
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
                want = -G[p, k] if k == own else G[p, k]
                highest = max(highest, want)
                if blocks.V[p, k] != 0.0:
                    lowest = min(lowest, want)
            if highest > lowest or lowest < 0.0:
                for k in range(Q):
                    cap = blocks.own_cap[p] if k == own else blocks.rival_cap[p]
                    want = -G[p, k] if k == own else G[p, k]
                    if cap > 0.0 and (want >= min(lowest, 0.0) or blocks.V[p, k] != 0.0):
                        blocks.active[p, count] = k
                        count += 1
        else:
            for k in range(Q):
                g = G[p, k]
                v = blocks.V[p, k]
                if k == own:
                    cap = blocks.own_cap[p]
                    stuck = (v <= 0.0 and g >= 0.0) or (v >= cap and g <= 0.0)
                else:
                    cap = blocks.rival_cap[p]
                    stuck = (v >= 0.0 and g <= 0.0) or (v <= -cap and g >= 0.0)
                if cap > 0.0 and not stuck:
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


@jit
def descend_blocks(
    field: Any,
    blocks: Any,
    queue: Any,
    begin: int,
    end: int,
    threshold: float,
    relaxation: float,
    hard_cap: float,
    budget: int,
    totals: Any,
) -> tuple[int, int]:
    """Visit ``queue[begin:end]`` once; what cannot move leaves its list.

    Parameters and results are those of ``body.descend``: GAP is the sum of the terms of (4.9) as
    they were found, ``position < end`` means out of budget or a missing kernel row.
    """
    Q = blocks.V.shape[1]
    share = 1.0 if blocks.relative else 1.0 / Q
    kappa = 1.0 if blocks.relative else -1.0 / Q
    # one allocation with wide rows: see ``body.descend``
    scratch = np.empty((8, max(Q + 1, 128)))
    F, G, v, z = scratch[0], scratch[1], scratch[2], scratch[3]
    low, high, sign, new = scratch[4], scratch[5], scratch[6], scratch[7]
    visits = 0
    steps = 0
    # sums go on where an earlier call stopped: their rounding must not know where that was
    gap_sum = totals[GAP]
    gain_sum = totals[GAIN]
    j = begin
    while j < end:
        if visits >= budget:
            break
        p = queue[j]
        count = blocks.n_active[p]
        own = blocks.own[p]
        A = blocks.curvature[p]
        ridge = blocks.ridge[p]
        total = blocks.total[p]
        visits += count
        if count == 2 and blocks.relative and blocks.step == 1:
            # one rival: the common case near the optimum
            r = np.intp(blocks.active[p, 1])
            cap = blocks.rival_cap[p]
            v_r = blocks.V[p, r]
            d = difference(field, p, r, own) + blocks.rival_target
            t = -v_r
            if A > 0.0:
                t = min(max(-0.5 * d / A, -cap - v_r), -v_r)
            elif d > 0.0 and cap < np.inf:
                t = -cap - v_r
            room = (cap if cap < np.inf else hard_cap) + v_r
            gap_sum += d * max(room, 0.0) if d > 0.0 else d * v_r
            gain = -(d + A * t) * t
            if gain > threshold:
                if not is_ready(field, p):
                    break
                gain_sum += gain
                relaxed = v_r + relaxation * t
                if relaxed >= -cap and relaxed <= 0.0:
                    t = relaxed - v_r
                    after_v = relaxed
                else:
                    after_v = v_r + t
                    after_v = -cap if t == -cap - v_r else (0.0 if t == -v_r else after_v)
                blocks.V[p, r] = after_v
                blocks.total[p] = total + t
                push_pair(field, p, r, own, t)
                steps += 1
            else:
                gain_sum += max(gain, 0.0)
                t = 0.0
                after_v = v_r
            after = d + 2.0 * A * t
            if (after_v >= 0.0 and after < 0.0) or (after_v <= -cap and after > 0.0):
                blocks.n_active[p] = 1
                end -= 1
                queue[j] = queue[end]
                queue[end] = p
                continue
            j += 1
            continue
        read(field, p, blocks.active, count, F)
        gap = 0.0
        u = total
        if blocks.relative and blocks.step == 1:
            # rivals only, all in the box [-cap, 0]
            cap = blocks.rival_cap[p]
            limit = cap if cap < np.inf else hard_cap
            lift = blocks.rival_target - F[0]
            for q in range(1, count):
                v_q = blocks.V[p, np.intp(blocks.active[p, q])]
                g = F[q] + lift
                v[q] = v_q
                G[q] = g
                low[q] = -cap
                high[q] = 0.0
                u -= v_q
                gap += max(limit + v_q, 0.0) * g if g > 0.0 else v_q * g
        else:
            for q in range(1, count):
                k = np.intp(blocks.active[p, q])
                v[q] = blocks.V[p, k]
                u -= v[q]
                sign[q] = 1.0 if k == own else -1.0
                target = blocks.own_target if k == own else blocks.rival_target
                cap = blocks.own_cap[p] if k == own else blocks.rival_cap[p]
                G[q] = F[q] - share * F[0] - sign[q] * target + ridge * (v[q] + kappa * total)
                low[q] = 0.0 if k == own else -cap
                high[q] = cap if k == own else 0.0
                g = sign[q] * G[q]
                if g < 0.0:
                    gap -= max((cap if cap < np.inf else hard_cap) - abs(v[q]), 0.0) * g
                else:
                    gap += abs(v[q]) * g
        if count == 2 and blocks.step == 1:
            if A > 0.0:
                wanted = v[1] - G[1] / (A * (1.0 + kappa))
                new[1] = min(max(wanted, low[1]), high[1])
            elif high[1] - low[1] < np.inf:
                new[1] = high[1] if G[1] < 0.0 else low[1]
            else:
                new[1] = 0.0
        elif blocks.step == 1:
            if A > 0.0:
                for q in range(1, count):
                    z[q] = v[q] + kappa * total - G[q] / A
                box_step(z, low, high, 1, count, kappa, u, total, new)
            else:
                for q in range(1, count):
                    new[q] = high[q] if G[q] < 0.0 else low[q]
                    if abs(new[q]) == np.inf:
                        new[q] = 0.0
        elif blocks.step == 0:
            # Crammer-Singer: tau = v for rivals and minus their sum for the own class
            cap = blocks.rival_cap[p]
            F[0] -= blocks.rival_target
            v[0] = -total
            crammer_singer_step(F, v, count, 0, cap, A, z, new)
            gap = 0.0
            highest = F[0]
            for q in range(1, count):
                highest = max(highest, F[q])
            gap = (cap if cap < np.inf else hard_cap) * (highest - F[0])
            for q in range(1, count):
                gap -= v[q] * (F[0] - F[q])
        else:
            cap = max(blocks.rival_cap[p], blocks.own_cap[p])
            simplex_step(G, v, sign, 1, count, cap, A, kappa, new)
            best = 0.0
            gap = 0.0
            for q in range(1, count):
                best = max(best, -sign[q] * G[q])
                gap += abs(v[q]) * sign[q] * G[q]
            gap += best * (cap if cap < np.inf else hard_cap)
        gap_sum += gap
        change_sum = 0.0
        gain = 0.0
        fits = relaxation != 1.0 and blocks.step == 1
        for q in range(1, count):
            change = new[q] - v[q]
            change_sum += change
            gain -= (G[q] + 0.5 * A * change) * change
            relaxed = v[q] + relaxation * change
            if relaxed < low[q] or relaxed > high[q]:
                fits = False
        gain -= 0.5 * A * kappa * change_sum * change_sum
        if not gain > 0.0:
            gain = 0.0
        gain_sum += gain
        if gain > threshold:
            if not is_ready(field, p):
                gain_sum -= gain
                gap_sum -= gap
                break
            if fits:
                for q in range(1, count):
                    new[q] = v[q] + relaxation * (new[q] - v[q])
                change_sum *= relaxation
            pushed = 0.0
            for q in range(1, count):
                change = new[q] - v[q]
                if change != 0.0:
                    k = np.intp(blocks.active[p, q])
                    blocks.V[p, k] = new[q]
                    push(field, p, k, change)
                    pushed += change
            if pushed != 0.0:
                anchor = np.intp(blocks.active[p, 0])
                push(field, p, anchor, -pushed if blocks.relative else pushed)
            blocks.total[p] = total + pushed
            steps += 1
        else:
            change_sum = 0.0
            for q in range(1, count):
                new[q] = v[q]
        if blocks.step == 1:
            # variables at a bound that their new gradient presses against leave the list
            q = 1
            while q < count:
                after = G[q] + A * (new[q] - v[q] + kappa * change_sum)
                if (new[q] >= high[q] and after < 0.0) or (new[q] <= low[q] and after > 0.0):
                    count -= 1
                    gone = blocks.active[p, q]
                    blocks.active[p, q] = blocks.active[p, count]
                    blocks.active[p, count] = gone
                    G[q] = G[count]
                    new[q] = new[count]
                    v[q] = v[count]
                    low[q] = low[count]
                    high[q] = high[count]
                else:
                    q += 1
            blocks.n_active[p] = count
        if count <= 1:
            end -= 1
            queue[j] = queue[end]
            queue[end] = p
            continue
        j += 1
    totals[VISITS] += visits
    totals[STEPS] += steps
    totals[GAP] = gap_sum
    totals[GAIN] = gain_sum
    return j, end
