"""Pair steps on the weights of an enclosing sphere, compiled: the inner loop of ``sphere``."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.compiled.jit import jit

__all__ = ["descend_weights"]


@jit
def descend_weights(
    K: Any, beta: Any, slope: Any, target: float, max_steps: int
) -> tuple[Any, Any]:
    """Pair steps on (8.1) until R_up^2 - R_lo^2 of (8.3) is at most ``target``.

    Parameters
    ----------
    K : (m, m) kernel matrix of the points in play.
    beta : (m,) weights, changed in place; their sum stays.
    slope : (m,) K_ii - 2 (K beta)_i, changed with them.
    target : float
    max_steps : int

    Returns
    -------
    steps, gap

    The point of the largest slope receives; the giver is the one of the largest gain, clips left
    aside: with the smallest slope alone, as in the literature, steps are many times more.
    """
    m = len(beta)
    gap = np.inf
    for steps in range(max_steps):
        i, mean = 0, 0.0
        for p in range(m):
            mean += beta[p] * slope[p]
            i = p if slope[p] > slope[i] else i
        gap = slope[i] - mean
        if not gap > target:
            return steps, gap
        row = K[i]
        best, j = -1.0, -1
        floor = 1e-15 * abs(row[i])
        for p in range(m):
            if beta[p] > 0.0 and slope[p] < slope[i]:
                fall = slope[i] - slope[p]
                bend = max(row[i] + K[p, p] - 2.0 * row[p], floor)
                if fall * fall > best * bend:
                    best = fall * fall / bend if bend > 0.0 else np.inf
                    j = p
        if j < 0:
            return steps, gap
        other = K[j]
        bend = row[i] + other[j] - 2.0 * row[j]
        step = (slope[i] - slope[j]) / (2.0 * bend) if bend > 0.0 else np.inf
        if step >= beta[j]:
            step = beta[j]
            beta[j] = 0.0
        else:
            beta[j] -= step
        beta[i] += step
        twice = 2.0 * step
        for p in range(m):
            slope[p] -= twice * (row[p] - other[p])
    return max_steps, gap
