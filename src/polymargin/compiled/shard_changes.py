"""What a shard reports of its variables, in one pass over them: no copies of (n, R) on the way.

In virtual machines the first write to a page of fresh memory costs more than what is written, and
a round of millions of rows would take several such copies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.compiled.jit import jit

__all__ = ["add_change", "changed_since", "mix"]


@jit
def add_change(
    X: Any, variables: Any, held: Any, rows: Any, own: Any, factor: float, W: Any, constant: Any
) -> float:
    """Add sum_i d_i x_i to W (R, d) and sum_i d_i to ``constant``.

    d_i is ``factor`` times the change of the variables of row i since ``held`` (an empty ``held``
    means zero).  Returns the sum of the changes of the own variables.
    """
    R = variables.shape[1]
    width = X.shape[1]
    gain = 0.0
    for j in range(len(rows)):
        p = rows[j]
        for r in range(R):
            change = variables[p, r]
            if len(held):
                change -= held[j, r]
            if change != 0.0:
                change *= factor
                constant[r] += change
                if r == own[p]:
                    gain += change
                for t in range(width):
                    W[r, t] += change * X[p, t]
    return gain


@jit
def mix(variables: Any, held: Any, rows: Any, theta: float, n_active: Any) -> None:
    """V <- held + theta (V - held) in some rows, whose lists are forgotten."""
    for j in range(len(rows)):
        p = rows[j]
        n_active[p] = 0
        for r in range(variables.shape[1]):
            old = held[j, r] if len(held) else 0.0
            variables[p, r] = old + theta * (variables[p, r] - old)


@jit
def changed_since(variables: Any, sigma: float, past: Any, rows: Any) -> Any:
    """Write the rows where V / sigma is not ``past`` into ``rows``; how many there are."""
    count = np.intp(0)
    for p in range(len(variables)):
        for r in range(variables.shape[1]):
            if variables[p, r] / sigma != past[p, r]:
                rows[count] = p
                count += 1
                break
    return count
