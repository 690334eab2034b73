"""Features that hold one number, after they were standardised."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["settle_constants"]

_ROUNDING = 1e-14
"""Deviation of equal numbers from their mean, which is rounded, in units of the number: at most."""


def settle_constants(step: Any) -> None:
    """Have a fitted ``StandardScaler``, also within others, make zeros of features of one number.

    It divides what varies by hardly more than rounding errors by 1: a column of 1e20 would become
    1e4 in every row, and nanoseconds since 1970 on one day of a large table would stay as they
    are.  Here a single number is divided by itself, anything else by its deviation.
    """
    inner = [part for _, part, _ in getattr(step, "transformers_", ())]
    for part in [*inner, *(part for _, part in getattr(step, "steps", ()))]:
        settle_constants(part)
    from sklearn.preprocessing import StandardScaler

    if type(step) is StandardScaler and step.scale_ is not None and step.with_mean:
        size, deviation = np.abs(step.mean_), np.sqrt(step.var_)
        is_single = deviation <= _ROUNDING * size
        step.scale_ = np.where(is_single, np.maximum(size, 1.0), deviation)
