"""AutoSVC: warnings about its choice."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.estimators.auto_course import Course
from polymargin.estimators.auto_race import Entry, Race
from polymargin.estimators.auto_splits import Split, stratified_sample, usual_folds
from polymargin.exceptions import warn_user

__all__ = ["warn_of_choice"]

_FAR_BETTER = 2.5
"""Standard errors by which the loss on new groups must exceed that on known groups for a warning;
at this level chance alone warns of fewer than one choice in a hundred."""

_PLAIN_FITS = 2  # fits that the comparison of groups takes


def warn_of_choice(estimator: Any, course: Course, has_groups: bool) -> None:
    """Warn of fits without time, of classes never predicted, and where new groups do worse."""
    assert course.kept is not None
    _warn_of_time(estimator, course)
    race, chosen = course.race, course.kept.entry
    never = race.never_predicted(chosen)
    if len(never):
        names = ", ".join(repr(c) for c in race.classes[never].tolist()[:5])
        more = "" if len(never) <= 5 else f" and {len(never) - 5} more"
        warn_user(
            f"y: in validation the chosen machine never predicted {names}{more}; use "
            "objective='balanced_accuracy' if these classes matter."
        )
    is_quick = course.left is None or course.left > 2.0 * _PLAIN_FITS * max(
        chosen.seconds, default=0
    )
    if has_groups and chosen.losses and is_quick and not race.was_cut_short:
        _warn_of_groups(race, chosen)


def _warn_of_time(estimator: Any, course: Course) -> None:
    """Warn which model a time limit left, and how much of it compiling took."""
    limit, rows = estimator.max_time, estimator.n_rows_
    if estimator.stage_ == "race":
        warn_user(
            f"max_time={limit:g}: the model kept is one of the race, trained on {rows} rows; the "
            "final fit could not be finished. Increase max_time."
        )
    elif estimator.stage_ == "linear":
        warn_user(
            f"max_time={limit:g}: the model kept is the linear machine that was trained on {rows} "
            "rows before the race; what came after it was not better in time. Increase max_time."
        )
    seconds, n_skipped, late = course.warmup
    if limit is not None and seconds:
        ends = f", and this fit ends {late:.1f} s late because of it" if late else ""
        warn_user(
            f"code was compiled for the first time, which took {seconds:.1f} s of the time limit"
            f"{ends}. It is kept: the next fit has all the time for training."
        )
    if n_skipped:
        warn_user(
            f"max_time={limit:g}: some kinds of machines were left out, because their code is not "
            "compiled yet and that takes longer. One fit without a limit compiles it for good."
        )


def _warn_of_groups(race: Race, chosen: Entry) -> None:
    """Compare validation by whole groups with validation that mixes them."""
    rows = len(race.splits[0].train)
    rng = np.random.default_rng([race.rules.seed, 3])
    splits = [
        Split(fold.train[stratified_sample(race.label[fold.train], rows, rng)], fold.test)
        for fold in usual_folds(race.label, None, race.rules.seed)[:_PLAIN_FITS]
    ]
    mean, error = race.other_mean(chosen.candidate, splits)
    noise = float(np.hypot(error, chosen.error))
    if not chosen.mean - mean > _FAR_BETTER * noise:
        return
    values = f"{chosen.mean:.3g} against {mean:.3g}"
    if race.rules.objective != "log_loss":
        values = f"error {100 * chosen.mean:.1f} % against {100 * mean:.1f} %"
    warn_user(
        f"groups: rows of new groups are classified far worse than rows of groups that training "
        f"has seen ({values}). Expect the former from new groups; more groups help more than "
        "more rows of the same ones."
    )
