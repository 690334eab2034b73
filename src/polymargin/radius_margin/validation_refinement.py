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

from polymargin.problem.problem import Problem, row_blocks
from polymargin.radius_margin.criterion import Sample, Setting, WarmStart, solve_at
from polymargin.radius_margin.plan import kernel_scale
from polymargin.solvers.driver import Solution
from polymargin.solvers.run import Run

__all__ = ["CrossValidation", "fold_of_each", "refine"]

_TOL = 1e-2  # labels hardly change with the last digits of the machine
_PASSES = 150
_LEAST_POWER = 0.4
_LARGEST_C = 60.0
"""In units of one over the spread of the examples in feature space: beyond it, fits are slow."""
_FIRST_STEP = {"C": 8.0, "gamma": 0.25}
_CLEAR = 1.0  # deviations of the number of errors
_MOVES = ({"C": 1}, {"C": 1, "gamma": 1}, {"gamma": 1}, {"C": -1}, {"gamma": -1})
"""Factors and their powers, in the order tried: the criterion errs towards small C, large gamma."""


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


class CrossValidation:
    """The cross-validated error of settings, always on the same folds.

    The machine of a fold begins with its dual variables of the last setting.
    """

    def __init__(self, sample: Sample, n_folds: int, run: Run) -> None:
        self.sample = sample
        self.run = run
        self.fold = fold_of_each(sample.label, n_folds, sample.seed)
        self.parts = [sample.part(np.flatnonzero(self.fold != number)) for number in range(n_folds)]
        self.last: list[WarmStart | None] = [None] * n_folds

    def error(self, setting: Setting, limit: float = np.inf) -> float:
        """Weighted share of wrong labels; infinite once it will hardly stay below ``limit``."""
        sample, total = self.sample, float(self.sample.weight.sum())
        seen = 0.0
        whole = sample.problem(setting)
        wrong = 0.0
        for number, part in enumerate(self.parts):
            train = np.flatnonzero(self.fold != number)
            solution = solve_at(
                part.problem(setting), part, _TOL, self.run, self.last[number], _PASSES
            )
            if self.run.why_end() is not None:
                return np.inf
            wrong += self._wrong(whole, number, train, solution)
            self.last[number] = _as_start(solution)
            seen += float(sample.weight[self.fold == number].sum())
            if wrong >= limit * total or _is_hopeless(wrong / seen, limit, seen):
                return np.inf
        return wrong / total

    def _wrong(self, whole: Problem, number: int, train: np.ndarray, solution: Solution) -> float:
        label, known = self.sample.label, np.unique(self.sample.label[train])
        held = np.flatnonzero(self.fold == number)
        landmarks = train[solution.support]
        wrong = 0.0
        for rows in row_blocks(len(held), 2048):
            some = held[rows]
            scores = (
                whole.gram(some, landmarks) @ solution.coefficients + solution.judgement.intercept
            )
            wrong += float(self.sample.weight[some] @ (known[scores.argmax(axis=1)] != label[some]))
        return wrong


def _is_hopeless(rate: float, limit: float, seen: float) -> bool:
    """Whether an error rate on some folds is above ``limit`` by more than its deviation."""
    return bool(rate - np.sqrt(max(rate * (1.0 - rate), 0.0) / seen) > limit)


def _as_start(solution: Solution) -> WarmStart:
    alpha = -solution.point.dense(solution.problem)
    return WarmStart(alpha, solution.judgement.intercept, np.ones(1))


def refine(
    sample: Sample,
    start: Setting,
    box: dict[str, tuple[float, float]],
    n_settings: int,
    n_folds: int,
    run: Run,
    tell: Callable[[Setting, float], None] | None = None,
) -> tuple[Setting, list[tuple[Setting, float]]]:
    """The setting of the least cross-validated error among ``n_settings``, by compass search.

    ``box`` names the parameters that move ("C", "gamma", or both).  Widths of features move
    together.  A smaller step is tried once no neighbour is better.  ``start`` stays where nothing
    is better than it by more than chance.  Settings that were given up after some folds, because
    they would hardly be better, have the error infinity.
    """
    validation = CrossValidation(sample, n_folds, run)
    seen: list[tuple[Setting, float]] = []
    lowest = np.inf

    def error_at(setting: Setting) -> float:
        error = validation.error(setting, lowest)
        if run.why_end() is None:
            seen.append((setting, error))
            if tell is not None:
                tell(setting, error)
        return error

    moves = [move for move in _MOVES if set(move) <= set(box)]
    best, lowest = start, error_at(start)
    power, at, failed = 1.0, 0, 0
    while moves and lowest > 0.0 and len(seen) < n_settings and run.why_end() is None:
        there = _moved(best, moves[at % len(moves)], power, box)
        if there is not None and there.C * kernel_scale(sample, there) > _LARGEST_C:
            there = None
        error = np.inf
        if there is not None and all(not _is_same(there, other) for other, _ in seen):
            error = error_at(there)
        if there is not None and error < lowest:
            best, lowest, failed = there, error, 0  # go on in this direction
        else:
            at, failed = at + 1, failed + 1
        if failed >= len(moves):
            power, at, failed = 0.5 * power, 0, 0
            if power < _LEAST_POWER:
                break
    if best is not start and not _is_clear(seen[0][1] - lowest, seen[0][1], sample.weight):
        best = start
    return best, seen


def _is_clear(gain: float, error: float, weight: np.ndarray) -> bool:
    """Whether so many errors less are more than chance: a deviation of their number."""
    total = float(weight.sum())
    return gain * total >= _CLEAR * np.sqrt(error * total)


def _moved(
    setting: Setting, move: dict[str, int], power: float, box: dict[str, tuple[float, float]]
) -> Setting | None:
    for name, sign in move.items():
        value: Any = getattr(setting, name) * _FIRST_STEP[name] ** (sign * power)
        if np.min(value) < box[name][0] or np.max(value) > box[name][1]:
            return None
        setting = replace(setting, **{name: value})
    return setting


def _is_same(a: Setting, b: Setting) -> bool:
    return bool(np.allclose(a.C, b.C, rtol=1e-6) and np.allclose(a.gamma, b.gamma, rtol=1e-6))
