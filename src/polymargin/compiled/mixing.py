"""Margins and labels of a mixture of two solved points, in one pass over their scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.compiled.jit import jit

__all__ = ["mixed_margins"]


@jit
def mixed_margins(
    first: Any,
    second: Any,
    a: float,
    c: float,
    shift: Any,
    own: Any,
    label: Any,
    prototype_class: Any,
    margins: Any,
    wrong: Any,
) -> None:
    """f_own - max over the other classes, and whether the label is wrong.

    The scores are ``a * first + c * second + shift``, (n, R); the lowest index wins among equals.
    """
    n, R = first.shape
    for i in range(n):
        highest = -np.inf
        winner = 0
        rival = -np.inf
        own_score = 0.0
        for r in range(R):
            score = a * first[i, r] + c * second[i, r] + shift[r]
            if score > highest:
                highest = score
                winner = r
            if r == own[i]:
                own_score = score
            if prototype_class[r] != label[i] and score > rival:
                rival = score
        margins[i] = own_score - rival
        wrong[i] = prototype_class[winner] != label[i]
