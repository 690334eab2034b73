"""Reassignment of examples to prototypes at a temperature, and what follows for the dual point.

``reassign`` reads finished scores, sums the energy and draws; ``restore`` makes the dual variables
feasible for the new assignment.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.compiled.fields import is_ready, push, push_pair
from polymargin.compiled.jit import allocating, jit
from polymargin.compiled.totals import BEST_LOSS, DRAWN_LOSS, MOVED, OWN_LOSS, OWN_WEIGHT

__all__ = ["pulls", "pulls_of_weights", "reassign", "restore"]

_LEAST_SHARE = 0.05  # of an even share: what an empty prototype counts as, on top of its examples


def pulls(own: np.ndarray, cap: np.ndarray, first: np.ndarray, balance: float) -> np.ndarray:
    """Factors of the prototypes in a draw: the weight of their examples to the power -balance.

    Weights are counted in even shares of the class, so that neither C nor copies of examples
    matter.

    Parameters
    ----------
    own, cap : (n,) assignment and C_i.
    first : (n_classes + 1,) as in ``reassign``.
    """
    return pulls_of_weights(np.bincount(own, weights=cap, minlength=first[-1]), first, balance)


def pulls_of_weights(weight: np.ndarray, first: np.ndarray, balance: float) -> np.ndarray:
    """The same from the weight (R,) of the examples of every prototype."""
    if balance == 0.0:
        return np.ones(len(weight))
    even = np.add.reduceat(weight, first[:-1]) / np.diff(first)
    # a class without weight has nothing to draw
    share = weight / np.repeat(np.where(even > 0.0, even, 1.0), np.diff(first))
    return (share + _LEAST_SHARE) ** -balance


@allocating
def reassign(
    S: Any,
    shift: Any,
    patterns: Any,
    duals: Any,
    first: Any,
    temperature: float,
    pull: Any,
    tolerance: float,
    random: Any,
    winner: Any,
    moved: Any,
    end: int,
    totals: Any,
) -> int:
    """Draw by (3.5) times the pull, or at temperature 0 take the smallest slack (A12).

    Parameters
    ----------
    S, shift : (R, k) and (R,)
        ``S[r] + shift[r]`` are the scores of the ``patterns`` for prototype r.
    first : (n_classes + 1,)
        The prototypes of class c are ``first[c]`` to ``first[c + 1] - 1``.
    temperature : float
        In units of slack; below 0 nothing is reassigned.
    pull : (R,)
        Factor of each prototype in the draw, from ``pulls``.
    tolerance : float
        At temperature 0 a slack must fall by more than this.
    random : state of the generator.
    winner : (n,) receives the prototype of the smallest slack (the present one among equals).
    moved, end : from ``end`` on pairs (pattern, prototype it left) are written for patterns that
        have dual weight.
    totals : BEST_LOSS (sum of C_i min_r xi_i^r), OWN_LOSS (of C_i xi_i^{a_i} for the assignment
        before), DRAWN_LOSS (for the one after), OWN_WEIGHT (of tau_{i,a_i} before) and MOVED are
        added to.

    Returns
    -------
    end : int
        The new end of ``moved``.
    """
    R, size = S.shape
    label = np.empty(size, dtype=np.int32)
    rivals = np.empty(size, dtype=S.dtype)
    slack = np.empty(R)
    chance = np.empty(R)
    x = random[0]
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
        low, high = first[label[k]], first[label[k] + 1]
        least = np.inf
        best = own
        for r in range(low, high):
            xi = max(0.0, 1.0 + rivals[k] - (S[r, k] + shift[r]))  # (2.1)
            slack[r] = xi
            if xi < least:
                least = xi
                best = r
        own_slack = slack[own]
        if own_slack <= least:
            best = own
        winner[p] = best
        weight = duals.tau[p, own]
        totals[BEST_LOSS] += duals.cap[p] * least
        totals[OWN_LOSS] += duals.cap[p] * own_slack
        totals[OWN_WEIGHT] += weight
        if temperature < 0.0 or high - low == 1:
            totals[DRAWN_LOSS] += duals.cap[p] * own_slack
            continue
        new = own
        new_slack = own_slack
        if temperature < 1e-12:
            if own_slack > least + tolerance:
                new = best
                new_slack = least
        else:
            total = 0.0
            for r in range(low, high):
                chance[r] = pull[r] * np.exp((least - slack[r]) / temperature)
                total += chance[r]
            x ^= x << np.uint64(13)
            x ^= x >> np.uint64(7)
            x ^= x << np.uint64(17)
            left = np.float64(x >> np.uint64(11)) * (1.0 / 9007199254740992.0) * total
            new = high - 1
            for r in range(low, high):
                left -= chance[r]
                if left < 0.0:
                    new = r
                    break
            new_slack = slack[new]
        totals[DRAWN_LOSS] += duals.cap[p] * new_slack
        if new != own:
            totals[MOVED] += 1.0
            duals.own[p] = new
            if weight > 0.0:
                moved[end, 0] = p
                moved[end, 1] = own
                end += 1
    random[0] = x
    return end


@jit
def restore(field: Any, duals: Any, moved: Any, begin: int, end: int, zeroing: bool) -> int:
    """Make the dual variables of ``moved[begin:end]`` feasible for their new prototypes (A13).

    Returns
    -------
    position : int
        Where to go on: below ``end`` if a kernel row is missing.
    """
    R = duals.tau.shape[1]
    for j in range(begin, end):
        p = moved[j, 0]
        old = moved[j, 1]
        if not is_ready(field, p):
            return j
        if zeroing:
            for r in range(R):
                if duals.tau[p, r] != 0.0:
                    push(field, p, r, -duals.tau[p, r])
                    duals.tau[p, r] = 0.0
            duals.n_active[p] = 0
        else:
            new = duals.own[p]
            weight = duals.tau[p, old]
            duals.tau[p, old] = 0.0
            duals.tau[p, new] = weight
            push_pair(field, p, new, old, weight)
            if duals.n_active[p] > 0 and duals.active[p, 0] == old:
                duals.active[p, 0] = new
    return end
