"""AutoSVC under a time limit: before the race, a linear machine on all rows.

A race that is cut short has models of a few hundred rows.  A linear Crammer-Singer machine on all
rows takes about as long as reading them, and is useful even if it is ended early: on MNIST it makes
7.3 % errors after a second, 7.9 % after 0.3 s, and RBF machines of 500 rows make 13 %.  It does
without the validation rows of the first split, on which it, the leader of the race and the final
fit are compared.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from polymargin.estimators.auto_candidates import Candidate, Table
from polymargin.estimators.auto_data import Ready, scaled
from polymargin.estimators.auto_losses import class_scores_of, example_losses, mean_and_error
from polymargin.estimators.auto_race import Entry, Race
from polymargin.estimators.auto_splits import Stage, stratified_sample
from polymargin.estimators.model_size import classifier_size
from polymargin.solvers.run import Clock

__all__ = ["fit_linear_first", "held_out_rows", "linear_first", "validate"]

_SCALING_SHARE, _FIT_SHARE = 0.45, 0.25
"""Of the time that is left, at most: most of it belongs to the race and to the final fit."""

_USEFUL, _USEFUL_SHARE = 1.0, 0.6
"""Seconds that the fit gets in any case, and the share of the time that they may be: where the time
is short, this machine is what will be kept."""

_ROWS_PER_NUMBER, _LEAST_ROWS = 100, 20_000
"""Rows beyond which a linear machine hardly gets better, for every number of it: what estimation
adds to its error is of the order of their ratio."""

_ROWS_WITHOUT_TIME = 5_000  # taken even if no time is left: a useful machine in a quarter second
_TOL = 1e-2  # as in the race: labels hardly change below it
_SHORTEST = 0.2  # seconds that the fit always gets


def held_out_rows(stages: list[Stage], rows: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Rows that validate in the first split of every size, with all rows of their groups.

    ``rows`` are those of the race in the whole table, ``groups`` those of all rows.
    """
    if not stages:
        return np.zeros(0, dtype=np.intp)
    first = [stage.splits[0].test for stage in stages if stage.is_first]
    held_out = rows[np.unique(np.concatenate(first))]
    if groups is None:
        return held_out
    return np.flatnonzero(np.isin(groups, groups[held_out]))


def linear_first(class_weight: Any) -> Candidate:
    """Crammer-Singer, whose first pass over the rows already gives a good machine."""
    return Candidate("linear", "cs", 1.0, class_weight=class_weight)


def fit_linear_first(
    ready: Ready,
    held_out: np.ndarray,
    candidate: Candidate,
    table: Table,
    clock: Clock,
    scaling_seconds: float,
    settings: dict[str, Any],
) -> Entry | None:
    """The machine on all rows but ``held_out``, or on as many as can be scaled in time.

    None where the other rows have a single class.  Ctrl-C leaves the model so far in an Entry, and
    is noted by the clock.
    """
    rest = np.setdiff1d(np.arange(len(ready.label)), held_out)
    left = _left(clock)
    enough = max(_LEAST_ROWS, _ROWS_PER_NUMBER * (table.n_features + 1) * table.n_classes)
    in_time = max(_SCALING_SHARE * left / max(scaling_seconds, 1e-12), _ROWS_WITHOUT_TIME)
    most = int(min(len(rest), enough, in_time))
    rng = np.random.default_rng([settings["random_state"], 4])
    rows = rest[stratified_sample(ready.label[rest], most, rng)]
    if len(np.unique(ready.label[rows])) < 2:
        return None
    part = scaled(ready, rows)
    left = _left(clock)
    limit = max(_FIT_SHARE * left, min(_USEFUL, _USEFUL_SHARE * left), _SHORTEST)
    model = candidate.build(table, tol=_TOL, max_time=limit, **settings)
    began = clock.seconds
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is not done; AutoSVC says which model it kept
            model.fit(part.X, part.y, part.weight)
    except KeyboardInterrupt:
        if not hasattr(model, "certificate_"):
            raise
        clock.interrupted = True
    return Entry(candidate, seconds=[clock.seconds - began], train_rows=len(rows), model=model)


def _left(clock: Clock) -> float:
    assert clock.max_time is not None
    return max(clock.max_time - clock.seconds, 0.0)


def validate(entry: Entry, race: Race) -> None:
    """Losses on the first split of the race's present size, which the machine has not seen."""
    test = race.splits[0].test
    label, weight = race.label[test], race.loss_weight[test]
    scores = class_scores_of(entry.model, race.X[test], race.classes)
    entry.losses = [example_losses(race.rules.objective, scores, label, weight)]
    entry.scores = [scores.astype(np.float32)]
    entry.mean, entry.error = mean_and_error(entry.losses[0], weight)
    entry.n_splits = 1
    entry.model_bytes, entry.operations = classifier_size(entry.model)
