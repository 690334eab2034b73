"""A few steps of cross-validation around the minimum of the criterion.

The criterion tends to a C that is too small where classes overlap: its bound charges every slack as
if it were an error.  A compass search over (log C, log gamma) with the cross-validated error of
M-SVM^2 itself, started at the minimum, repairs that for the price of some tens of fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from polymargin.criterion import Sample, Setting, solve_at
from polymargin.problem import row_blocks
from polymargin.solvers.base import Deadline

__all__ = ["cross_validated_error", "fold_of_each", "refine"]

_TOL = 1e-3
_FIRST_STEP = {"C": 8.0, "gamma": 0.25}
"""Factors; the criterion errs towards small C and large gamma, so the other way is tried first."""


def fold_of_each(label: np.ndarray, n_folds: int, seed: int) -> np.ndarray:
    """A fold number for every example, every class spread over the folds evenly."""
    rng = np.random.default_rng(seed)
    fold = np.empty(len(label), dtype=np.int64)
    first = 0
    for k in range(int(label.max()) + 1):
        members = rng.permutation(np.flatnonzero(label == k))
        fold[members] = (first + np.arange(len(members))) % n_folds
        first += len(members)
    return fold


def cross_validated_error(
    sample: Sample, setting: Setting, fold: np.ndarray, deadline: Deadline
) -> float:
    """Weighted share of examples that the machine of the other folds gets wrong."""
    whole = sample.problem(setting)
    wrong = 0.0
    for number in range(int(fold.max()) + 1):
        train, held = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        part = sample.part(train)
        solution = solve_at(part.problem(setting), part, _TOL, deadline, None)
        if deadline.why_end() is not None:
            return np.inf
        known = np.unique(sample.label[train])
        landmarks = train[solution.support]
        for rows in row_blocks(len(held), 2048):
            some = held[rows]
            scores = whole.gram(some, landmarks) @ solution.tau + solution.judgement.intercept
            missed = known[scores.argmax(axis=1)] != sample.label[some]
            wrong += float(sample.weight[some] @ missed)
    return wrong / float(sample.weight.sum())


def refine(
    sample: Sample,
    start: Setting,
    box: dict[str, tuple[float, float]],
    n_settings: int,
    n_folds: int,
    deadline: Deadline,
    tell: Callable[[Setting, float], None] | None = None,
) -> tuple[Setting, list[tuple[Setting, float]]]:
    """The setting of the least cross-validated error among ``n_settings``, by compass search.

    ``box`` names the parameters that move ("C", "gamma", or both).  Widths of features move
    together.  A smaller step is tried once no neighbour is better.
    """
    fold = fold_of_each(sample.label, n_folds, sample.seed)
    seen: list[tuple[Setting, float]] = []

    def error_at(setting: Setting) -> float:
        error = cross_validated_error(sample, setting, fold, deadline)
        if np.isfinite(error):
            seen.append((setting, error))
            if tell is not None:
                tell(setting, error)
        return error

    steps = {name: factor for name, factor in _FIRST_STEP.items() if name in box}
    best, lowest = start, error_at(start)
    moves = [(name, sign) for sign in (1.0, -1.0) for name in steps]
    power, at, failed = 1.0, 0, 0
    while steps and len(seen) < n_settings and deadline.why_end() is None:
        name, sign = moves[at % len(moves)]
        there = _moved(best, name, steps[name] ** (sign * power), box[name])
        error = np.inf
        if there is not None and all(not _is_same(there, other) for other, _ in seen):
            error = error_at(there)
        if there is not None and error < lowest:
            best, lowest, failed = there, error, 0  # go on in this direction
        else:
            at, failed = at + 1, failed + 1
        if failed >= len(moves):
            power, failed = 0.5 * power, 0
            if power < 0.25:
                break
    return best, seen


def _moved(setting: Setting, name: str, factor: float, box: tuple[float, float]) -> Setting | None:
    value: Any = getattr(setting, name) * factor
    if np.min(value) < box[0] or np.max(value) > box[1]:
        return None
    return replace(setting, **{name: value})


def _is_same(a: Setting, b: Setting) -> bool:
    return bool(np.allclose(a.C, b.C, rtol=1e-6) and np.allclose(a.gamma, b.gamma, rtol=1e-6))
