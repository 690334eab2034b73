"""The one compiled body of block descent, and the screening that feeds it.

``descend`` visits the patterns of a queue, solves each pattern's block over its active variables
exactly and pushes the change into the field; ``screen`` reads finished score blocks, sums the
certificate's terms and writes the lists of active variables.  Both run on every field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polymargin.compiled.fields import difference, is_ready, push_list, push_pair, read
from polymargin.compiled.jit import jit
from polymargin.compiled.pattern_step import crammer_singer_step
from polymargin.compiled.totals import (
    BEFORE,
    GAIN,
    GAP,
    LOSS,
    MADE,
    MARGIN,
    OWN,
    STEPS,
    VISITS,
    empty_totals,
)

if TYPE_CHECKING:
    from polymargin.problem.problem import Problem

__all__ = [
    "Duals",
    "descend",
    "descend_until",
    "make_duals",
    "screen",
    "shuffle",
    "wanted",
]


class Duals(NamedTuple):
    """The dual variables of the patterns in play and what bounds them.

    Attributes
    ----------
    own : (n,) prototype a_i to which pattern i is assigned.
    label : (n,) class of pattern i.
    prototype_class : (R,) class of prototype r; prototypes of the own class other than a_i do not
        take part in pattern i.
    cap : (n,) C_i, infinite for the hard margin.
    diagonal, inverse : (n,) K_ii and 1 / K_ii (1e300 for a zero vector).
    tau : (n, R) the variables.
    active : (n, R) int16, the first ``n_active[i]`` entries of row i are in play; the own
        prototype, if it is among them, comes first.
    n_active : (n,) int32.
    """

    own: np.ndarray
    label: np.ndarray
    prototype_class: np.ndarray
    cap: np.ndarray
    diagonal: np.ndarray
    inverse: np.ndarray
    tau: np.ndarray
    active: np.ndarray
    n_active: np.ndarray


def make_duals(problem: Problem, patterns: np.ndarray | slice, tau: np.ndarray) -> Duals:
    """The variables of some patterns, with empty lists.

    A zero vector cannot be separated by any margin: the hard machine leaves it out (its cap is 0)
    and says so in the end.
    """
    diagonal = problem.diagonal[patterns]
    cap = problem.cap[patterns]
    return Duals(
        own=problem.own[patterns],
        label=problem.label[patterns],
        prototype_class=problem.prototype_class,
        cap=np.where((diagonal <= 0.0) & np.isinf(cap), 0.0, cap),
        diagonal=diagonal,
        inverse=1.0 / np.maximum(diagonal, 1e-300),
        tau=tau,
        active=np.empty(tau.shape, dtype=np.int16),
        n_active=np.zeros(len(tau), dtype=np.int32),
    )


@jit
def shuffle(queue: Any, end: int, state: Any) -> None:
    """Random order of ``queue[:end]`` by a xorshift generator whose state is ``state[0]``."""
    x = state[0]
    for j in range(end - 1, 0, -1):
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        k = np.intp(x % np.uint64(j + 1))
        queue[j], queue[k] = queue[k], queue[j]
    state[0] = x


@jit
def _passes(
    field: Any,
    duals: Any,
    queue: Any,
    begin: int,
    end: int,
    target: float,
    most: int,
    random: Any,
    threshold: float,
    relaxation: float,
    hard_cap: float,
    budget: int,
    scratch: Any,
    totals: Any,
) -> tuple[int, int, int]:
    """The loop of ``descend`` and ``descend_until``, which explain the parameters.

    Both are one compiled function because a compiled caller would be optimised together with all
    that it calls, once more: that was a fifth of the time of the first fit.
    """
    all_own = duals.own
    all_cap = duals.cap
    all_diagonal = duals.diagonal
    all_inverse = duals.inverse
    all_tau = duals.tau
    all_active = duals.active
    all_n_active = duals.n_active
    F, slack, tau, B, new = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    visits = 0
    passes = 0
    steps = totals[STEPS]
    gap_sum = totals[GAP]
    gain_sum = totals[GAIN]
    made = totals[MADE]
    before = totals[BEFORE]
    j = begin
    while True:
        if made < 0.0:
            if visits >= budget:
                break
            shuffle(queue, end, random)
            gap_sum = 0.0
            made = steps
        while j < end:
            if visits >= budget:
                break
            p = queue[j]
            count = all_n_active[p]
            own = all_own[p]
            cap = all_cap[p]
            gap_cap = cap if cap < np.inf else hard_cap
            A = all_diagonal[p]
            visits += count
            if count == 2:
                # two variables r and s with a fixed sum: tau_r += t, tau_s -= t gains -d t - A t^2
                r = np.intp(all_active[p, 0])
                s = np.intp(all_active[p, 1])
                d = difference(field, p, r, s)
                has_own = r == own
                d -= 1.0 if has_own else 0.0
                top = cap if has_own else 0.0
                tau_r = all_tau[p, r]
                tau_s = all_tau[p, s]
                room = top - tau_r
                t = min(max(-0.5 * d * all_inverse[p], tau_s), room)
                if t == 0.0:
                    if d != 0.0:
                        # that variable is at its bound: drop it; one is left, so drop the pattern
                        if d < 0.0:
                            all_active[p, 0] = s
                            all_active[p, 1] = r
                        all_n_active[p] = 1
                        end -= 1
                        queue[j] = queue[end]
                        queue[end] = p
                    else:
                        j += 1
                    continue
                gap_room = (gap_cap if has_own else 0.0) - tau_r
                gap_sum += -tau_s * d if d > 0.0 else -max(gap_room, 0.0) * d
                gain = (-d - A * t) * t
                gain_sum += gain
                if gain <= threshold:
                    j += 1
                    continue
                if not is_ready(field, p):
                    break
                t = min(max(relaxation * t, tau_s), room)
                # bounds are met exactly, and the sum of the two is kept to the last bit
                new_r = top if t == room else tau_r + t
                new_s = 0.0 if t == tau_s else tau_s - t
                if has_own:
                    if new_s == 0.0:
                        new_r = 0.0
                    new_s = -new_r
                all_tau[p, r] = new_r
                all_tau[p, s] = new_s
                push_pair(field, p, r, s, t)
                steps += 1
                j += 1
                continue

            read(field, p, all_active, count, F)
            own_at = 0 if all_active[p, 0] == own else -1
            highest = -np.inf
            lowest = np.inf
            if own_at == 0:
                F[0] -= 1.0
            for q in range(count):
                t_q = all_tau[p, np.intp(all_active[p, q])]
                tau[q] = t_q
                room = -t_q
                if q == own_at:
                    room += cap
                slack[q] = room
                highest = F[q] if F[q] > highest else highest
                held = F[q] if room > 0.0 else np.inf
                lowest = held if held < lowest else lowest
            gap = 0.0
            kept = np.intp(0)  # a literal 0 would compile the step a second time
            for q in range(count):
                # (1.8): no room to lose weight, and not wanted: out of the list
                stays = slack[q] > 0.0 or F[q] >= lowest
                room = slack[q]
                if q == own_at:
                    room = max(gap_cap - tau[q], 0.0)
                    if not stays:
                        own_at = -1
                gap += room * (highest - F[q])
                all_active[p, kept] = all_active[p, q]
                F[kept] = F[q]
                tau[kept] = tau[q]
                kept += 1 if stays else 0
            count = kept
            all_n_active[p] = count
            gap_sum += gap
            if count <= 1:
                end -= 1
                queue[j] = queue[end]
                queue[end] = p
                continue
            if not highest > lowest:
                j += 1
                continue
            crammer_singer_step(F, tau, count, own_at, cap, A, B, new)
            gain = 0.0
            stays_feasible = relaxation != 1.0
            for q in range(count):
                change = new[q] - tau[q]
                # the changes sum to zero, so a shift of F is free and saves digits
                gain -= (F[q] - highest + 0.5 * A * change) * change
                relaxed = tau[q] + relaxation * change
                if relaxed > (cap if q == own_at else 0.0):
                    stays_feasible = False
            if gain <= threshold:
                gain_sum += max(gain, 0.0)
                j += 1
                continue
            if not is_ready(field, p):
                break
            gain_sum += gain
            if stays_feasible:
                weight = 0.0
                for q in range(count):
                    new[q] = tau[q] + relaxation * (new[q] - tau[q])
                    if q != own_at:
                        weight -= new[q]
                if own_at >= 0:
                    new[own_at] = min(weight, cap)
            for q in range(count):
                B[q] = new[q] - tau[q]
                all_tau[p, np.intp(all_active[p, q])] = new[q]
            push_list(field, p, all_active, count, B)
            steps += 1
            j += 1
        if j < end:
            break
        passes += 1
        # gaps were summed as they were found: at the end of the pass they are smaller by its rate
        expected = gap_sum * min(1.0, gap_sum / before)
        before = max(gap_sum, 1e-300)
        stands_still = steps == made
        made = -1.0
        if expected <= target or end == 0 or stands_still or passes >= most:
            j = end
            break
        j = 0
    totals[VISITS] += visits
    totals[STEPS] = steps
    totals[GAP] = gap_sum
    totals[GAIN] = gain_sum
    totals[MADE] = made
    totals[BEFORE] = before
    return j, end, passes


def _scratch(duals: Duals) -> np.ndarray:
    """Room for the variables of one pattern.

    One allocation with wide rows: vectorised loops test how far apart their arrays lie, and
    separate small ones would lie differently in every process, with other bits in the sums.
    """
    return np.empty((5, max(duals.tau.shape[1], 128)))


def descend(
    field: Any,
    duals: Duals,
    queue: np.ndarray,
    begin: int,
    end: int,
    threshold: float,
    relaxation: float,
    hard_cap: float,
    budget: int,
    totals: np.ndarray,
) -> tuple[int, int]:
    """Visit ``queue[begin:end]`` once; variables and patterns that cannot move leave their lists.

    Parameters
    ----------
    threshold : float
        A step whose gain in D is not above this is not made (its push would cost more).
    relaxation : float
        Factor in (0, 2) on the exact step where the result stays feasible.
    hard_cap : float
        What stands for an infinite cap in the estimate of the gap.
    budget : int
        Return after about this many variables were visited, so that Python can look at the clock.
    totals : array
        GAP (sum of (1.9) at visiting time), GAIN, STEPS and VISITS are added to.

    Returns
    -------
    position, end : int
        Where to go on (``position < end``: out of budget, or a kernel row is missing), and the new
        end of the queue.
    """
    totals[MADE] = totals[STEPS]  # the pass has begun: no new order, sums go on
    position, end, _ = _passes(
        field,
        duals,
        queue,
        begin,
        end,
        -np.inf,
        1,
        _NO_RANDOM,
        threshold,
        relaxation,
        hard_cap,
        budget,
        _scratch(duals),
        totals,
    )
    return position, end


_NO_RANDOM = np.ones(1, dtype=np.uint64)  # state of a generator that is not asked


def wanted(
    field: Any,
    duals: Duals,
    queue: np.ndarray,
    begin: int,
    end: int,
    threshold: float,
    hard_cap: float,
    found: np.ndarray,
) -> tuple[int, int, int]:
    """The next patterns of a queue that would move now, as many as ``found`` holds.

    ``field`` has no row at hand (``is_ready`` is false for every pattern), so ``descend`` stops at
    each of them.  Returns where to go on, the new end of the queue, and how many were found.
    """
    count = 0
    totals = empty_totals()
    while begin < end and count < len(found):
        begin, end = descend(
            field, duals, queue, begin, end, threshold, 1.0, hard_cap, 1 << 60, totals
        )
        if begin < end:
            found[count] = queue[begin]
            count += 1
            begin += 1
    return begin, end, count


def descend_until(
    field: Any,
    duals: Duals,
    queue: np.ndarray,
    begin: int,
    end: int,
    target: float,
    max_passes: int,
    random: np.ndarray,
    relaxation: float,
    hard_cap: float,
    budget: int,
    totals: np.ndarray,
) -> tuple[int, int, int]:
    """Passes over the queue in random order until the gap estimated by one is below ``target``.

    A pass that ran out of budget is gone on with at ``begin``.  A pass that moved nothing is the
    last one.  Of the totals, GAP is that of the last pass; MADE and BEFORE carry the steps at its
    begin and the gap of the pass before over a break, so that breaks (which depend on the clock)
    change nothing; the others are summed.

    Returns
    -------
    position, end, passes : int
        ``position < end``: the budget is spent; the passes that were finished.
    """
    position, end, passes = _passes(
        field,
        duals,
        queue,
        begin,
        end,
        target,
        max_passes,
        random,
        0.0,
        relaxation,
        hard_cap,
        budget,
        _scratch(duals),
        totals,
    )
    return position, end, passes


def screen(
    S: np.ndarray,
    shift: np.ndarray,
    patterns: np.ndarray,
    duals: Duals,
    queue: np.ndarray,
    end: int,
    hard_cap: float,
    totals: np.ndarray,
) -> int:
    """Sum the certificate over finished scores and queue the patterns that violate it.

    Parameters
    ----------
    S, shift : (R, k) and (R,)
        ``S[r] + shift[r]`` are the scores of the ``patterns`` for prototype r.
    queue, end : the violating patterns are appended from ``end`` on.
    totals : GAP, LOSS (sum of C_i xi_i), OWN (sum of tau_{i,a_i}) are added to, MARGIN
        (smallest f_a - 1 - max f of the other classes) is lowered.

    Returns
    -------
    end : int
        The new end of the queue.
    """
    label, rivals = np.empty(S.shape[1], dtype=np.int32), np.empty(S.shape[1], dtype=S.dtype)
    end = _screen(S, shift, patterns, duals, queue, end, hard_cap, totals, label, rivals)
    return int(end)


@jit
def _screen(
    S: Any,
    shift: Any,
    patterns: Any,
    duals: Any,
    queue: Any,
    end: int,
    hard_cap: float,
    totals: Any,
    label: Any,
    rivals: Any,
) -> int:
    """The loops of ``screen``; ``label`` and ``rivals`` are scratch for one number per pattern."""
    R, size = S.shape
    margin = totals[MARGIN]
    gap_sum = 0.0
    loss_sum = 0.0
    own_sum = 0.0
    for k in range(size):
        label[k] = duals.label[patterns[k]]
        rivals[k] = -np.inf
    for r in range(R):
        c = np.int32(duals.prototype_class[r])
        add = shift[r]
        for k in range(size):
            score = S[r, k] + add
            rivals[k] = score if score > rivals[k] and label[k] != c else rivals[k]
    for k in range(size):
        p = patterns[k]
        own = duals.own[p]
        own_tau = duals.tau[p, own]
        own_F = S[own, k] + shift[own] - 1.0
        highest = rivals[k]
        lead = own_F - highest
        margin = lead if lead < margin else margin
        if own_tau == 0.0 and lead >= 0.0:
            continue
        cap = duals.cap[p]
        gap_cap = cap if cap < np.inf else hard_cap
        if own_tau == 0.0:
            loss_sum -= gap_cap * lead
            gap_sum -= gap_cap * lead
            duals.active[p, 0] = own
            count = 1
            for r in range(R):
                if S[r, k] + shift[r] > own_F and duals.prototype_class[r] != label[k]:
                    duals.active[p, count] = r
                    count += 1
        else:
            highest = max(highest, own_F)
            loss_sum += gap_cap * (highest - own_F)
            own_sum += own_tau
            lowest = np.inf
            gap = max(gap_cap - own_tau, 0.0) * (highest - own_F)
            if cap > own_tau:
                lowest = own_F
            # all variables with weight are in the list that the pattern has from earlier
            listed = duals.n_active[p]
            for q in range(listed if listed > 0 else R):
                s = np.intp(duals.active[p, q]) if listed > 0 else np.intp(q)
                if duals.tau[p, s] < 0.0:
                    score = S[s, k] + shift[s]
                    lowest = score if score < lowest else lowest
                    gap -= duals.tau[p, s] * (highest - score)
            gap_sum += gap
            if not highest > lowest:
                continue
            count = 0
            if cap > own_tau or own_F >= lowest:
                duals.active[p, 0] = own
                count = 1
            for r in range(R):
                # wanted at least as much as the least wanted one that has weight: (1.8)
                if S[r, k] + shift[r] >= lowest and duals.prototype_class[r] != label[k]:
                    duals.active[p, count] = r
                    count += 1
        duals.n_active[p] = count
        if count > 1:
            queue[end] = p
            end += 1
    totals[MARGIN] = margin
    totals[GAP] += gap_sum
    totals[LOSS] += loss_sum
    totals[OWN] += own_sum
    return end
