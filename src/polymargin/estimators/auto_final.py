"""AutoSVC's final fit under a time limit: on which rows, and which model is kept afterwards.

Seconds are foretold from the race: linear and multi-prototype machines take time in proportion to
the rows, kernel machines to their square.  Where the final fit cannot end in time, the validation
rows of the last split are left out of it, so that their errors may decide between its model and
that of the race; where it could hardly see more rows than the race did, it is not begun.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from polymargin.estimators.auto_losses import class_scores_of, example_losses, mean_and_error
from polymargin.estimators.auto_race import Entry, Race
from polymargin.estimators.auto_splits import stratified_sample

__all__ = ["KERNEL_ROWS", "FinalRows", "final_rows", "is_better"]

KERNEL_ROWS = 20_000
"""Rows of the final fit of a kernel machine: its time grows with the square of the rows, its
prediction with the support vectors.  Larger tables are sampled, classes in proportion."""

_TIGHTER = 2.0  # a final fit takes so many times longer than one of the race on the same rows
_WORTH = 1.2  # times the rows of the race below which a final fit that may not end is not begun
_SCALING_SHARE = 0.3  # of the time that is left, for the scaling of the rows


class FinalRows(NamedTuple):
    """Rows of the final fit, and the validation rows of the race that are none of them."""

    rows: np.ndarray
    held_out: np.ndarray


def final_rows(
    label: np.ndarray,
    chosen: Entry | None,
    kind: str,
    validation: np.ndarray,
    left: float | None,
    row_seconds: float,
    rng: np.random.Generator,
) -> FinalRows | None:
    """What the final fit is trained on; None if the model of the race should stay.

    Parameters
    ----------
    label : ndarray of class numbers of all rows
    chosen : Entry or None
        The choice of the race.
    kind : str
        Of its machine.
    validation : ndarray
        Rows of the last split that did not train.
    left : float or None
        Seconds; None without a limit.
    row_seconds : float
        What scaling takes per row.
    rng : Generator
        Draws the rows where not all are taken.
    """
    n = len(label) if kind != "rbf" else min(len(label), KERNEL_ROWS)
    nothing = np.zeros(0, dtype=np.intp)
    if left is None or chosen is None or not chosen.seconds:
        return FinalRows(stratified_sample(label, n, rng), nothing)
    power = 2.0 if kind == "rbf" else 1.0
    usual = _TIGHTER * chosen.seconds[-1]
    if usual * (n / chosen.train_rows) ** power + row_seconds * n <= left:
        return FinalRows(stratified_sample(label, n, rng), nothing)
    most = _SCALING_SHARE * left / max(row_seconds, 1e-12)
    if kind == "rbf":
        most = min(most, chosen.train_rows * np.sqrt(left / usual))
    rest = np.setdiff1d(np.arange(len(label)), validation)
    n = int(min(n, most, len(rest)))
    if n < _WORTH * chosen.train_rows:
        return None
    return FinalRows(rest[stratified_sample(label[rest], n, rng)], validation)


def is_better(model: Any, chosen: Entry, race: Race, X: Any, good_gap: float) -> bool:
    """Whether an unfinished final model is to be kept rather than that of the race.

    ``X`` are the validation rows of the last split if it has not seen them, else None; then its
    relative duality gap decides.
    """
    if X is None:
        return bool(model.certificate_.relative_gap <= good_gap)
    test = race.splits[-1].test
    label, weight = race.label[test], race.loss_weight[test]
    scores = class_scores_of(model, X, race.classes)
    losses = example_losses(race.rules.objective, scores, label, weight)
    before = mean_and_error(chosen.losses[-1], weight)[0]
    return mean_and_error(losses, weight)[0] <= before
