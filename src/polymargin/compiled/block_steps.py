"""Exact optimisation of one pattern's block for the machines with a slack per constraint.

Problem card (box plus a rank-one term).  For pattern p with curvature A, all others fixed, over the
listed signed variables v (the sum of the others is u)::

    min over v   A/2 (||v||^2 + kappa t^2) + B . v ,   t = u + sum_q v_q ,   low <= v <= high

kappa is 1 for relative margins and -1/Q for absolute ones.  The optimum is
v_q = clip(z_q - kappa t, low_q, high_q) with z = -B / A, where t is the root of an increasing,
piecewise linear function of one variable: (4.13).  Newton's method inside a bracket ends exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.compiled.jit import inlined

__all__ = ["box_step", "simplex_step"]


@inlined
def box_step(
    z: Any, low: Any, high: Any, first: int, count: Any, kappa: float, u: float, t: float, new: Any
) -> float:
    """Solve the block; ``new[first:count]`` receives the variables, and t comes back.

    Parameters
    ----------
    z, low, high : arrays
        -B / A and the bounds, in list order.
    first, count : int
        The variables are at ``first <= q < count``.
    kappa, u : float
        Weight of the rank-one term, sum of the variables that are not listed.
    t : float
        The present sum, where Newton's method starts.
    """
    left = -np.inf
    right = np.inf
    for _ in range(200):
        value = t - u
        slope = 1.0
        for q in range(first, count):
            v = z[q] - kappa * t
            if v <= low[q]:
                v = low[q]
            elif v >= high[q]:
                v = high[q]
            else:
                slope += kappa
            value -= v
        if value > 0.0:
            right = t
        elif value < 0.0:
            left = t
        else:
            break
        # on a flat piece of the increasing function: look beyond it
        step = t - value / slope if slope > 1e-9 else t - 2.0 * value
        if not (step > left and step < right):
            if left == -np.inf or right == np.inf:
                break
            step = 0.5 * (left + right)
            if step <= left or step >= right:
                break
        if step == t:
            break
        t = step
    total = u
    for q in range(first, count):
        v = z[q] - kappa * t
        new[q] = low[q] if v <= low[q] else (high[q] if v >= high[q] else v)
        total += new[q]
    return total


@inlined
def simplex_step(
    G: Any, v: Any, sign: Any, first: int, count: Any, cap: float, A: float, kappa: float, new: Any
) -> None:
    """Coordinates and pairs in turn for the generic block sum_q |v_q| <= cap (one shared slack).

    ``G`` is the gradient at ``v``, ``sign`` the sign that each variable may have.  Every move is
    the exact optimum along its direction, so the objective never rises; the loop ends when no
    direction offers a gain that matters.
    """
    total = 0.0
    held = 0.0
    for q in range(first, count):
        new[q] = v[q]
        held += abs(v[q])
    own = A * (1.0 + kappa)
    for _ in range(400):
        best = 0.0
        one = -1
        two = -1
        # gradients in alpha = sign v; room is what the cap leaves
        room = max(cap - held, 0.0)
        for q in range(first, count):
            g = sign[q] * (G[q] + A * (new[q] - v[q] + kappa * total))
            a = abs(new[q])
            step = min(max(-g / own, -a), room) if own > 1e-300 else (room if g < 0.0 else -a)
            if step == np.inf:
                step = 0.0
            gain = -g * step - 0.5 * own * step * step
            if gain > best:
                best = gain
                one = q
                two = -1
        for q in range(first, count):
            a = abs(new[q])
            if a <= 0.0:
                continue
            gq = sign[q] * (G[q] + A * (new[q] - v[q] + kappa * total))
            for r in range(first, count):
                if r == q:
                    continue
                # from q to r: alpha_r rises, alpha_q falls
                g = sign[r] * (G[r] + A * (new[r] - v[r] + kappa * total)) - gq
                drift = sign[r] - sign[q]
                bend = A * (2.0 + kappa * drift * drift)
                step = min(max(-g / bend, 0.0), a) if bend > 1e-300 else (a if g < 0.0 else 0.0)
                gain = -g * step - 0.5 * bend * step * step
                if gain > best:
                    best = gain
                    one = r
                    two = q
        if one < 0 or best <= 1e-18 * (1.0 + abs(held)):
            break
        if two < 0:
            g = sign[one] * (G[one] + A * (new[one] - v[one] + kappa * total))
            a = abs(new[one])
            step = min(max(-g / own, -a), room) if own > 1e-300 else (room if g < 0.0 else -a)
            after = 0.0 if step == -a else a + step
            held += after - a
            total += sign[one] * after - new[one]
            new[one] = sign[one] * after
        else:
            gq = sign[two] * (G[two] + A * (new[two] - v[two] + kappa * total))
            g = sign[one] * (G[one] + A * (new[one] - v[one] + kappa * total)) - gq
            drift = sign[one] - sign[two]
            bend = A * (2.0 + kappa * drift * drift)
            a = abs(new[two])
            step = min(max(-g / bend, 0.0), a) if bend > 1e-300 else a
            after = 0.0 if step == a else a - step
            total += sign[two] * after - new[two]
            new[two] = sign[two] * after
            after = abs(new[one]) + step
            total += sign[one] * after - new[one]
            new[one] = sign[one] * after
    held = 0.0
    for q in range(first, count):
        held += abs(new[q])
    if held > cap:
        for q in range(first, count):
            new[q] *= cap / held
