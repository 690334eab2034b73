"""When a measured figure agrees with a printed one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student

from polymargin.reproduce.experiment import Row

__all__ = ["binomial_noise", "interval", "judge_row", "verdict"]

_CONFIDENCE = 0.95
_FEWEST = 3  # runs from which a spread is judged


def binomial_noise(error: float | None, n_test: int, percent: bool = True) -> float:
    """Standard deviation of an error measured on ``n_test`` random examples."""
    if error is None or n_test < 1:
        return 0.0
    unit = 100.0 if percent else 1.0
    share = min(max(error / unit, 0.5 / n_test), 1.0 - 0.5 / n_test)
    return unit * math.sqrt(share * (1.0 - share) / n_test)


def interval(values: Sequence[float], noise: float = 0.0, printed_runs: int = 1) -> float:
    """Half width of the interval in which the printed figure lies with probability .95.

    The printed figure is the mean of p further runs of the same procedure: with n values of
    standard deviation s it lies within ``t_{n-1} sqrt(s^2 (1/p + 1/n) + noise^2)`` of their mean.
    A single value has no spread of its own, so that only ``noise`` counts (normal quantile).
    """
    n = len(values)
    if n < 2:
        return float(student.ppf(0.5 + _CONFIDENCE / 2, 1e6)) * noise
    spread = float(np.std(values, ddof=1))
    quantile = float(student.ppf(0.5 + _CONFIDENCE / 2, n - 1))
    return quantile * math.sqrt(spread**2 * (1.0 / printed_runs + 1.0 / n) + noise**2)


def verdict(row: Row, values: Sequence[float]) -> str:
    """The word "matched", "better" or "worse", or "not comparable" and why."""
    if row.judged:
        return row.judged
    if row.why_not:
        return f"not comparable: {row.why_not}"
    if row.published is None:
        return "not comparable: nothing printed"
    if not len(values):
        return "not comparable: not run"
    if len(values) < _FEWEST and not row.noise:
        return f"not comparable: fewer than {_FEWEST} runs are finished"
    difference = float(np.mean(values)) - row.published
    rounding = 0.5 * 10.0**-row.digits
    if abs(difference) <= interval(values, row.noise, row.printed_runs) + rounding + 1e-12:
        return "matched"
    return "better" if (difference < 0) == row.lower_is_better else "worse"


def judge_row(row: Row) -> tuple[str, str]:
    """Verdicts of the published procedure and of our default; empty where only the other is run."""
    if row.judged:
        return row.judged, ""
    sides = row.procedure, row.default
    has_any = any(len(values) for values in sides)
    found = ["" if has_any and not len(values) else verdict(row, values) for values in sides]
    return found[0], found[1]
