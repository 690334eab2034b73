"""Exact optimisation of one pattern's block: the steps of the machine table.

Problem card (Crammer-Singer, equation (3.2)).  For pattern p with A = K_pp and scores F
(F_r = f_r(x_p), minus 1 at the own prototype a), all other patterns fixed::

    min over tau   1/2 A ||tau||^2 + B . tau ,   B_r = F_r - A tau_r (old tau)
    s.t.  tau_r <= 0 (r != a),  tau_a <= cap,  sum_r tau_r = 0

The optimum is tau_r = min(0, (theta - B_r)/A) with theta the root of one decreasing, convex,
piecewise linear function, so Newton's method started left of the root ends after a few exact
steps without sorting.  With the cap inactive (always so for the hard margin, 19.2)
theta = (B_a + sum_{B_r > theta} B_r) / (1 + #{B_r > theta}); with the cap active
theta = (sum_{B_r > theta} B_r - A cap) / #{B_r > theta}, which is the projection (3.4).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.compiled.jit import inlined

__all__ = ["crammer_singer_step"]


@inlined
def crammer_singer_step(
    F: Any, tau: Any, count: Any, own_at: Any, cap: float, A: float, B: Any, new: Any
) -> None:
    """Solve the block over the listed variables; ``new[:count]`` receives the optimal tau.

    Parameters
    ----------
    F, tau : arrays
        Scores (minus 1 at the own prototype) and current variables in list order.
    count : int
        Length of the list.
    own_at : int
        0 if the list begins with the own prototype, -1 if that is held at its cap.
    cap : float
        Upper bound of the own variable (infinite for the hard margin).
    A : float
        K_pp >= 0.
    B, new : arrays
        Scratch and result.
    """
    first = own_at + 1
    top = first
    total = 0.0
    for q in range(count):
        B[q] = F[q] - A * tau[q]
    for q in range(first, count):
        total -= tau[q]
        top = q if B[q] > B[top] else top
    mass = cap if own_at == 0 else total
    if A * mass < 1e-290:
        # a zero vector under the kernel: the block is linear, its optimum a vertex
        violated = own_at < 0 or F[top] > F[0]
        for q in range(count):
            new[q] = 0.0
        if violated and mass < 1e300:
            new[top] = -mass
            if own_at == 0:
                new[0] = mass
        return
    # theta is the root of sum (B_r - theta)_+ = min(A cap, theta - B_a): left minus right is convex
    # and falling, and Newton's method from the left never passes its root
    peak = B[top]
    limit = A * mass
    base = B[0] if own_at == 0 else -np.inf
    theta = max(base, peak - limit)
    capped = False
    members = count + 1  # the set can only shrink; rounding must not make it cycle
    while True:
        meets_cap = capped or theta - base >= limit
        s = 0.0
        k = 0
        for q in range(first, count):
            above = B[q] > theta or B[q] == peak
            s += B[q] if above else 0.0
            k += 1 if above else 0
        if k >= members and meets_cap == capped:
            break
        members = k
        capped = meets_cap
        theta = (s - limit) / k if capped else (s + base) / (k + 1)
    total = 0.0
    inverse = 1.0 / A
    for q in range(first, count):
        new[q] = min(0.0, (theta - B[q]) * inverse)
        total -= new[q]
    if (capped and total < 0.9999999999999 * mass) or total > 1.0000000000001 * mass:
        # rows of next to no length: theta - B has lost its digits; weights must sum up to the cap
        if total > 0.0:
            for q in range(first, count):
                new[q] *= mass / total
        else:
            new[top] = -mass
        total = mass
    if own_at == 0:
        new[0] = mass if capped else min(total, mass)
