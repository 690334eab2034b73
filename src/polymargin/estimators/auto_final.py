"""AutoSVC's final fit under a time limit: on which rows, and which model is kept afterwards.

Seconds of a fit are predicted from those of the race, by a power of the number of rows.  A final
fit that ends in time is trained on all rows if its machine did best on the validation rows of the
first split.  Otherwise these rows are left out of it, and the model with the fewest errors on them
is kept: that of the final fit, that of the race, or the linear machine that was trained before the
race.  A fit that is done sooner than predicted is followed by another one on more rows.  A fit that
could hardly see more rows than the one before is not begun.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple

import numpy as np

from polymargin.estimators.auto_losses import mean_and_error
from polymargin.estimators.auto_race import Entry, Race, predicted_seconds
from polymargin.estimators.auto_splits import stratified_sample

__all__ = ["KERNEL_ROWS", "FinalRows", "best_on_first_split", "final_rows", "is_good"]

KERNEL_ROWS = 20_000
"""Rows of the final fit of a kernel machine: its time grows with the square of the rows, its
prediction with the support vectors.  Larger tables are sampled, classes in proportion."""

_GOOD_GAP = 0.05  # largest relative gap with which an unfinished final fit on all rows is kept
_TIGHTER = 1.4  # seconds of a final fit over those of a race fit on as many rows
_WORTH = 1.3  # least ratio of rows to the fit before for a fit that may not end in time
_LINEAR_SLACK = 4.0  # an unfinished linear fit is useful: it may need this multiple of the time
_ROWS_SHARE = 0.3  # largest part of the time left for work per row outside the fit


class FinalRows(NamedTuple):
    """Rows of the final fit, and whether they leave the validation rows out.

    ``scoring_seconds`` are set aside for the comparison on these.
    """

    rows: np.ndarray
    is_fair: bool
    scoring_seconds: float = 0.0


def final_rows(
    label: np.ndarray,
    chosen: Entry,
    held_out: np.ndarray,
    left: float | None,
    row_seconds: float,
    rng: np.random.Generator,
    leads: bool = True,
) -> FinalRows | None:
    """What the final fit is trained on; None if it is not worth its time.

    Parameters
    ----------
    label : ndarray of class numbers of all rows
    chosen : Entry
        The machine to train, with its record in the race.
    held_out : ndarray
        Rows that only validate.
    left : float or None
        Seconds; None without a limit.
    row_seconds : float
        What every row costs outside the fit.
    rng : Generator
        Draws the rows where not all are taken.
    leads : bool
        Whether no other model did better on the validation rows.
    """
    is_kernel = chosen.candidate.kind == "rbf"
    n = min(len(label), KERNEL_ROWS) if is_kernel else len(label)
    if left is None or not chosen.seconds:
        return FinalRows(stratified_sample(label, n, rng), False)
    is_enough = _TIGHTER * predicted_seconds(chosen, n) + row_seconds * n <= left
    if is_enough and leads:
        return FinalRows(stratified_sample(label, n, rng), False)
    rest = np.setdiff1d(np.arange(len(label)), held_out)
    n = min(n, len(rest))
    if is_enough and n <= chosen.train_rows:
        return None
    if not is_enough:
        n = int(min(n, _ROWS_SHARE * left / max(row_seconds, 1e-12)))
        slack = _LINEAR_SLACK if chosen.candidate.kind == "linear" else 1.0
        n = _rows_in(slack * left / _TIGHTER, chosen, n)
        if n < _WORTH * chosen.train_rows:
            return None
    scoring = chosen.scoring_seconds * n / chosen.train_rows if is_kernel else 0.0
    return FinalRows(rest[stratified_sample(label[rest], n, rng)], True, scoring)


def _rows_in(seconds: float, entry: Entry, most: int) -> int:
    """The largest number of rows up to ``most`` on which a fit should end in time."""
    return bisect_left(range(most), seconds, key=lambda rows: predicted_seconds(entry, rows + 1))


def best_on_first_split(entries: list[Entry | None], race: Race) -> Entry | None:
    """The entry of least loss on the first split of the present size; earlier ones win ties."""
    known = [entry for entry in entries if entry is not None and entry.losses]
    return min(known, key=lambda entry: _first_mean(entry, race), default=None)


def _first_mean(entry: Entry, race: Race) -> float:
    weight = race.loss_weight[race.splits[0].test]
    return round(mean_and_error(entry.losses[0], weight)[0], 12)


def is_good(model: Any) -> bool:
    """Whether a fit on all rows, which leaves none to validate with, converged or nearly so."""
    is_finished = getattr(model, "status_", "") not in ("", "max_time", "interrupted")
    return is_finished or bool(model.certificate_.relative_gap <= _GOOD_GAP)
