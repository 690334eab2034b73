"""AutoSVC: its parameters, checked."""

from __future__ import annotations

import numbers
from typing import Any

from sklearn.utils import check_random_state

from polymargin.estimators.auto_losses import OBJECTIVES
from polymargin.exceptions import shown
from polymargin.problem.validation import check_number

__all__ = ["KINDS", "check_parameters", "seed_of"]

KINDS = ("linear", "prototypes", "rbf")
PREFERENCES = ("accurate", "small", "fast")


def check_parameters(estimator: Any) -> tuple[str, ...]:
    """Refuse impossible values; returns the kinds of machines to try."""
    for name, known in (
        ("objective", OBJECTIVES),
        ("prefer", PREFERENCES),
        ("scale", ("auto", "none")),
    ):
        value = getattr(estimator, name)
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"{name} must be one of {list(known)}, got {shown(value)}.")
    if estimator.probabilities not in (None, "temperature"):
        raise ValueError(
            f"probabilities must be None or 'temperature', got {shown(estimator.probabilities)}."
        )
    cv = estimator.cv
    if isinstance(cv, numbers.Integral) and cv < 2:
        raise ValueError(f"cv must be at least 2 folds, got {shown(cv)}.")
    if isinstance(cv, str | float) or cv is None:
        raise ValueError(f"cv must be a number of folds or a splitter, got {shown(cv)}.")
    if estimator.budget != "auto":
        check_number("budget", estimator.budget, above=0.0)
    if estimator.max_time is not None:
        check_number("max_time", estimator.max_time, above=0.0)
    check_number("tol", estimator.tol, above=0.0)
    count = estimator.n_candidates
    if count is not None and (not isinstance(count, numbers.Integral) or count < 1):
        raise ValueError(f"n_candidates must be an integer >= 1 or None, got {shown(count)}.")
    return _kinds(estimator.machines)


def _kinds(machines: Any) -> tuple[str, ...]:
    if isinstance(machines, str) and machines == "all":
        return KINDS
    given = (machines,) if isinstance(machines, str) else tuple(machines)
    if "precomputed" in given:
        raise ValueError(
            "machines: a precomputed kernel leaves nothing to choose but C; use "
            "MulticlassSVC(kernel='precomputed') with GridSearchCV."
        )
    unknown = [kind for kind in given if kind not in KINDS]
    if unknown or not given:
        raise ValueError(f"machines must be 'all' or some of {list(KINDS)}, got {shown(given)}.")
    return given


def seed_of(random_state: Any) -> int:
    """A seed for everything random of one fit."""
    seed = random_state
    if not isinstance(seed, numbers.Integral) or seed < 0:
        seed = check_random_state(seed).randint(2**31 - 1)
    return int(seed) % (2**31)
