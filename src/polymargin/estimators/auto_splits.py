"""Which rows train and which validate, stage by stage.

A stage is a size of the training part and a few splits.  Large tables go through stages of growing
size, so that poor machines are dropped where fits are cheap; small ones have one size and repeated
folds, because there the noise of validation limits the choice.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold

__all__ = [
    "SMALL",
    "Split",
    "Stage",
    "plan_stages",
    "search_rows",
    "stratified_sample",
    "usual_folds",
]

SEARCH_ROWS = 10_000
"""Rows that take part in the choice.  A validation part of 2,000 rows distinguishes errors that
differ by a point; more rows make the choice slower, not better.  The final fit sees all rows."""

SMALL = 800  # rows up to which every candidate is trained on whole folds
_MIDDLE = 2_500  # rows up to which the candidates left after a first stage are
_FIRST_ROWS, _SECOND_ROWS = 500, 2_000  # training rows of the first stages of larger tables
_FEW_CLASSES = 10  # with more, rows and candidates kept fall with the square root
_MOST_VALIDATION = 2_000  # validation rows while candidates are many
_FOLDS = 5


@dataclass(frozen=True)
class Split:
    """Row numbers that train and that validate."""

    train: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class Stage:
    """Splits of one size, how many candidates it keeps, and whether it adds neighbours.

    ``is_first`` says that losses of earlier stages, of smaller training parts, do not count.
    """

    splits: tuple[Split, ...]
    keep: int
    explores: bool
    is_first: bool


def stratified_sample(y: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """About ``count`` row numbers in growing order, classes in proportion, none without a row."""
    if count >= len(y):
        return np.arange(len(y))
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    sizes = np.bincount(y)
    sizes = sizes[sizes > 0]
    taken = np.maximum(1, np.round(sizes * (count / len(y)))).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    chosen = [order[a : a + k] for a, k in zip(starts, taken, strict=True)]
    return np.sort(np.concatenate(chosen))


def search_rows(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The rows that take part in the choice."""
    return stratified_sample(y, SEARCH_ROWS, rng)


def plan_stages(
    y: np.ndarray, groups: Any, cv: Any, seed: int, is_text: bool = False
) -> list[Stage]:
    """All stages; an empty list where no split has two classes to train on.

    Texts begin with the second size: linear fits of a few hundred are as slow as those of a few
    thousand, and do not show which C is best.
    """
    rng = np.random.default_rng([seed, 1])
    n = len(y)
    folds = list(_folds(y, groups, cv, seed))
    if not folds:
        return []
    if n <= SMALL:
        return _small_plan(y, groups, cv, seed, folds)

    def part(fold: Split, rows: int) -> Split:
        train = fold.train[stratified_sample(y[fold.train], rows, rng)]
        return Split(train, fold.test[stratified_sample(y[fold.test], _MOST_VALIDATION, rng)])

    cost = max(1.0, (y.max() + 1) / _FEW_CLASSES) ** 0.5

    def keep(count: int) -> int:
        return max(2, round(count / cost))

    if is_text:
        return _text_plan(n, folds, part, keep)
    first = Stage((part(folds[0], _FIRST_ROWS),), keep(10), False, True)
    if n <= _MIDDLE:
        second = Stage(tuple(folds[:2]), keep(5), True, True)
        return _without_empty([first, second, Stage(tuple(folds[2:]), 1, False, False)])
    rows = max(2 * _FIRST_ROWS, round(_SECOND_ROWS / cost))
    second = Stage(tuple(part(fold, rows) for fold in folds[:2]), keep(4), True, True)
    return [first, second, Stage(tuple(folds[:3]), 1, False, True)]


def _text_plan(
    n: int, folds: list[Split], part: Callable[..., Split], keep: Callable[[int], int]
) -> list[Stage]:
    first = [Stage((part(folds[0], _SECOND_ROWS),), keep(6), False, True)] if n > _MIDDLE else []
    second = Stage(tuple(folds[:2]), keep(4), True, True)
    return _without_empty([*first, second, Stage(tuple(folds[2:3]), 1, False, False)])


def usual_folds(y: np.ndarray, groups: Any, seed: int) -> list[Split]:
    """Stratified folds of the usual number, by whole groups where there are some."""
    return list(_folds(y, groups, _FOLDS, seed))


def _small_plan(y: np.ndarray, groups: Any, cv: Any, seed: int, folds: list[Split]) -> list[Stage]:
    stages = [Stage(tuple(folds[:2]), 16, False, True), Stage(tuple(folds[2:]), 8, True, False)]
    repeats = 1 if not isinstance(cv, int | np.integer) else 2 if len(y) > 400 else 4
    for k in range(1, repeats):
        stages.append(Stage(tuple(_folds(y, groups, cv, seed + k)), 4, False, False))
    return _without_empty(stages)


def _without_empty(stages: list[Stage]) -> list[Stage]:
    return [stage for stage in stages if stage.splits]


def _folds(y: np.ndarray, groups: Any, cv: Any, seed: int) -> Iterator[Split]:
    """Folds whose training part has two classes, and whose validation part has a known one."""
    splitter = _splitter(y, groups, cv, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes smaller than the number of folds are expected
        found = [] if splitter is None else list(splitter.split(np.zeros(len(y)), y, groups))
    for train, test in found:
        known = np.unique(y[train])
        if len(known) > 1 and np.isin(y[test], known).any():
            yield Split(np.asarray(train), np.asarray(test))


def _splitter(y: np.ndarray, groups: Any, cv: Any, seed: int) -> Any:
    if not isinstance(cv, int | np.integer):
        return cv
    folds = int(cv)
    if groups is not None:
        n_groups = len(np.unique(groups))
        return StratifiedGroupKFold(min(folds, n_groups), shuffle=True, random_state=seed)
    largest = int(np.bincount(y).max())
    if largest < 2:
        return None
    if len(y) < 2 * folds:
        return KFold(min(len(y), 2 * folds), shuffle=True, random_state=seed)
    return StratifiedKFold(min(folds, largest), shuffle=True, random_state=seed)
