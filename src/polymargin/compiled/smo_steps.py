"""Compiled pattern optimisers of the SMO-like family: A3 to A7.

Problem card.  One pattern, all others fixed: f are its scores, alpha >= 0 its variables, both in
list order with the own prototype first, alpha_0 = sum of the others <= cap, A = K_pp.  The block's
part of the dual is a concave quadratic; a step v along the canonical pair (a, b), b not the own
prototype, does alpha_b += v, and alpha_0 += v if a is the own one, alpha_a -= v otherwise:

    v = (d - f_a + f_b) / (2 A) clipped,  gain in 2D  V = 2 v (d - f_a + f_b - v A)        (3.1)

with d = 1 if a is the own prototype, else 0.  Every optimiser changes alpha and f in place (the
scores of this pattern alone) and returns its gain in D; the caller propagates the change of alpha
to all patterns with one kernel row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.compiled.jit import inlined, jit
from polymargin.compiled.pattern_step import crammer_singer_step

__all__ = ["ALL_PAIRS", "BASIC", "CODES", "EXACT", "FIXED_POINT", "OPT_KKT", "optimise_pattern"]

BASIC, ALL_PAIRS, OPT_KKT, FIXED_POINT, EXACT = range(5)
CODES = {
    "basic": BASIC,
    "all-pairs": ALL_PAIRS,
    "opt-kkt": OPT_KKT,
    "fixed-point": FIXED_POINT,
    "exact": EXACT,
}
_MOST_SWEEPS = 1000  # over the pairs of one pattern
_MOST_PAIRS = 10_000
_MOST_ITERATIONS = 100_000  # of the fixed point
_NEARLY_ALL = 1.0 - 1e-12


@inlined
def pair_step(f: Any, alpha: Any, a: int, b: int, cap: float, A: float) -> float:
    """A1: the clipped step along the pair (a, b)."""
    wanted = f[b] - f[a]
    high = alpha[a]
    if a == 0:
        wanted += 1.0
        high = max(cap - alpha[0], 0.0)
    low = -alpha[b]
    if A > 0.0:
        v = 0.5 * wanted / A
    elif wanted > 0.0:
        v = high
    else:
        v = low if wanted < 0.0 else 0.0
    return min(max(v, low), high)


@inlined
def pair_gain(f: Any, a: int, b: int, v: float, A: float) -> float:
    """(3.1), in 2D."""
    wanted = f[b] - f[a]
    if a == 0:
        wanted += 1.0
    return 2.0 * v * (wanted - v * A)


@inlined
def pair_update(f: Any, alpha: Any, a: int, b: int, v: float, cap: float, A: float) -> None:
    """A2 on the pattern's own scores; a clipped variable is put on its bound exactly."""
    alpha[b] = 0.0 if v == -alpha[b] else alpha[b] + v
    if a == 0:
        alpha[0] = cap if v == cap - alpha[0] else max(alpha[0] + v, 0.0)
    else:
        alpha[a] = 0.0 if v == alpha[a] else alpha[a] - v
    f[a] += v * A
    f[b] -= v * A


@inlined
def best_pair(f: Any, alpha: Any, count: int, cap: float, A: float) -> tuple[float, int, int]:
    """The canonical pair of the largest clipped gain, and the gain in 2D.

    Two rivals without weight cannot move against each other: they are left out.
    """
    best = 0.0
    best_a = 0
    best_b = 1
    for a in range(count):
        for b in range(a + 1, count):
            if a > 0 and alpha[a] == 0.0 and alpha[b] == 0.0:
                continue
            V = pair_gain(f, a, b, pair_step(f, alpha, a, b, cap, A), A)
            if best < V:
                best = V
                best_a = a
                best_b = b
    return best, best_a, best_b


@inlined
def basic(f: Any, alpha: Any, count: int, cap: float, A: float) -> float:
    """A3: one step of the best pair."""
    V, a, b = best_pair(f, alpha, count, cap, A)
    if V > 0.0:
        pair_update(f, alpha, a, b, pair_step(f, alpha, a, b, cap, A), cap, A)
    return 0.5 * V


@inlined
def all_pairs(f: Any, alpha: Any, count: int, cap: float, A: float, phi: float) -> float:
    """A4: every pair in turn until a sweep gains no more than ``phi`` in 2D."""
    total = 0.0
    for _ in range(_MOST_SWEEPS):
        V = 0.0
        for a in range(count):
            for b in range(a + 1, count):
                if a > 0 and alpha[a] == 0.0 and alpha[b] == 0.0:
                    continue
                v = pair_step(f, alpha, a, b, cap, A)
                gain = pair_gain(f, a, b, v, A)
                if gain > 0.0:
                    V += gain
                    pair_update(f, alpha, a, b, v, cap, A)
        total += V
        if phi >= V:
            break
    return 0.5 * total


@inlined
def opt_kkt(f: Any, alpha: Any, count: int, cap: float, A: float, phi: float) -> float:
    """A5: the best of the (up to three) pairs that violate the KKT conditions most."""
    total = 0.0
    for _ in range(_MOST_PAIRS):
        highest = 1
        top = 0  # of the rivals with weight; 0: there is none
        low = 0
        for r in range(1, count):
            highest = r if f[r] > f[highest] else highest
            if alpha[r] > 0.0:
                top = r if top == 0 or f[r] > f[top] else top
                low = r if low == 0 or f[r] < f[low] else low
        a = 0
        b = highest
        v = pair_step(f, alpha, a, b, cap, A)
        V = pair_gain(f, a, b, v, A)
        if top > 0:
            step = pair_step(f, alpha, 0, top, cap, A)
            gain = pair_gain(f, 0, top, step, A)
            if gain > V:
                V, v, b = gain, step, top
            if highest != low:
                step = pair_step(f, alpha, highest, low, cap, A)
                gain = pair_gain(f, highest, low, step, A)
                if gain > V:
                    V, v, a, b = gain, step, highest, low
        if not V > 0.0:
            break
        pair_update(f, alpha, a, b, v, cap, A)
        total += V
        if phi >= V:
            break
    return 0.5 * total


@inlined
def block_gain(F: Any, alpha: Any, new: Any, count: int, A: float) -> float:
    """Gain in D of going from tau to ``new`` (A7 step 4).

    F and new are those of ``crammer_singer_step``; tau_0 = alpha_0, tau_r = -alpha_r.
    """
    highest = F[0]
    for q in range(1, count):
        highest = F[q] if F[q] > highest else highest
    gain = 0.0
    for q in range(count):
        change = new[q] - (alpha[0] if q == 0 else -alpha[q])
        # the changes sum to zero, so a shift of F is free and saves digits
        gain -= (F[q] - highest + 0.5 * A * change) * change
    return gain


@inlined
def exact_step(f: Any, alpha: Any, count: int, cap: float, A: float, work: Any) -> float:
    """A7 into ``work[2]`` (as tau); the gain in D."""
    F, tau, new, B = work[0], work[1], work[2], work[3]
    for q in range(count):
        F[q] = f[q]
        tau[q] = -alpha[q]
    F[0] -= 1.0
    tau[0] = alpha[0]
    crammer_singer_step(F, tau, count, 0, cap, A, B, new)
    return block_gain(F, alpha, new, count, A)


@inlined
def fixed_point_step(
    f: Any, alpha: Any, count: int, cap: float, A: float, phi: float, work: Any
) -> float:
    """A6 into ``work[2]`` (as tau) by the iteration (3.3) from above; the gain in D."""
    if A * cap < 1e-290:
        return exact_step(f, alpha, count, cap, A, work)
    F, z, new = work[0], work[1], work[2]
    highest = -np.inf
    for q in range(count):
        F[q] = f[q]
        z[q] = f[q] / A + alpha[q]
    F[0] -= 1.0
    z[0] = (f[0] - 1.0) / A - alpha[0] + cap
    for q in range(count):
        highest = max(highest, z[q])
    for q in range(count):
        z[q] -= highest  # a shift of theta: small caps must not drown in large scores
    theta = 0.0
    for _ in range(_MOST_ITERATIONS):
        total = 0.0
        for q in range(count):
            total += max(theta, z[q])
        lower = (total - cap) / count
        change = theta - lower
        theta = min(lower, theta)  # rounding must not lift it
        if not change > phi * max(1.0, abs(theta + highest)):
            break
    total = 0.0
    for q in range(1, count):
        new[q] = min(0.0, theta - z[q])
        total -= new[q]
    if total > cap * _NEARLY_ALL:
        # theta stops a hair above the root: what that misses would drown the gain
        for q in range(1, count):
            new[q] *= cap / total
        total = cap
    new[0] = total
    return block_gain(F, alpha, new, count, A)


@inlined
def _settle(alpha: Any, count: int, cap: float) -> None:
    """The own variable is the sum of the others, or the cap where that is missed by rounding.

    A room of 1e-15 C below the cap would be a violation of psi = 1 for nothing.
    """
    total = 0.0
    top = 1
    for q in range(1, count):
        total += alpha[q]
        top = q if alpha[q] > alpha[top] else top
    if total >= cap * _NEARLY_ALL:
        alpha[top] += cap - total
        total = cap
    alpha[0] = total


@jit
def optimise_pattern(
    code: int, f: Any, alpha: Any, count: int, cap: float, A: float, phi: float, work: Any
) -> float:
    """Optimise one pattern; the gain in D comes back.

    Parameters
    ----------
    code : int
        BASIC, ALL_PAIRS, OPT_KKT, FIXED_POINT or EXACT.
    f, alpha : arrays
        Scores and variables in list order, the own prototype first; alpha is changed in place (and
        f, for the pair optimisers).
    count : int
        |A_p|, the prototypes that take part.
    cap, A : float
        C_p (infinite for the hard margin, not with FIXED_POINT) and K_pp.
    phi : float
        ``pattern_tol``.
    work : (4, >= count) array
        Scratch.
    """
    if code in (EXACT, FIXED_POINT):
        if code == EXACT:
            gain = exact_step(f, alpha, count, cap, A, work)
        else:
            gain = fixed_point_step(f, alpha, count, cap, A, phi, work)
        if gain > 0.0:
            for q in range(1, count):
                alpha[q] = -work[2][q]
    elif code == BASIC:
        gain = basic(f, alpha, count, cap, A)
    elif code == ALL_PAIRS:
        gain = all_pairs(f, alpha, count, cap, A, phi)
    else:
        gain = opt_kkt(f, alpha, count, cap, A, phi)
    if gain > 0.0:
        _settle(alpha, count, cap)
    return gain
