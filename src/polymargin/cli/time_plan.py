"""Which model ``polymargin train`` keeps where the clock or Ctrl-C cuts the work short.

With a time limit, picking C (or eta) may take a share of it and the final fit on all rows the rest.
Both leave a model.  The rule, in this order:

1.  No final fit was made (Ctrl-C while picking, or no time left after it): the model that did best
    on the validation rows while picking.
2.  The final fit ended by itself: it has more rows, so it is kept.
3.  It was cut short without the validation rows: the model with fewer errors on them.  They are
    left out where the time that picking took per row says that the final fit cannot end in time.
4.  It was cut short after training on the validation rows: it is kept only if it makes no more
    errors on them than the model of the picking stage and its relative duality gap is at most
    ``GOOD_GAP``.  Errors on rows that it has seen favour it, so they alone do not decide.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.cli.machine_setup import MachineSetup
from polymargin.cli.single_fit import Fitted, predict_scaled

__all__ = ["GOOD_GAP", "Kept", "Timer", "choose_model", "final_rows"]

GOOD_GAP = 0.1
"""Largest relative gap of a final fit that was cut short for it to be kept.  It has more rows than
the picked model, but its errors on rows that it has seen do not show whether it is trained; an
objective within a tenth of the optimum does."""

_EASE = 0.1  # share of the limit
_WRITING = 1.0  # most seconds set aside to write a model: a kernel model of about 60 MB
_PACKING = 1e-7  # seconds per byte to compress a linear model
_MOST_PACKING = 0.5  # share of the limit
_LOADING = 0.1  # share of the limit that loading libraries may take
_TRAINING = 1.0  # seconds that remain after compiling
_LEAVING = 0.4  # seconds that the process takes to end


class Timer:
    """The time of one command that trains; reading the data is not part of it."""

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.started = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def left(self) -> float | None:
        """Seconds until the limit, None where there is none."""
        return None if self.limit is None else self.limit - self.seconds

    @property
    def has_ease(self) -> bool:
        """Whether there is no limit, or more than a tenth of it is left."""
        left = self.left
        return left is None or self.limit is None or left > _EASE * self.limit

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time that does not count."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.started += time.perf_counter() - began

    def discount_loading(self) -> None:
        """Count at most a share of the limit as loading: a slow start must leave time to train."""
        if self.limit is not None:
            self.started += max(0.0, self.seconds - _LOADING * self.limit)

    def keep_training(self, compiling: float) -> float:
        """After ``compiling`` seconds a second remains for training, or half of the limit if less.

        Returns the seconds that are not counted to that end, by which the training ends late.
        """
        if self.limit is None:
            return 0.0
        late = self.seconds - max(self.limit - _TRAINING, 0.5 * self.limit)
        late = min(compiling, max(0.0, late))
        self.started += late
        return late

    def reserve(self, n_numbers: int) -> None:
        """Set time aside to write the model and to end the process after the training.

        ``n_numbers`` are those of a linear model: features times classes.
        """
        if self.limit is not None:
            packing = min(_PACKING * 8.0 * n_numbers, _MOST_PACKING * self.limit)
            writing = max(packing, min(_WRITING, _EASE * self.limit))
            self.limit -= writing + min(_LEAVING, _EASE * self.limit)

    @property
    def is_over(self) -> bool:
        left = self.left
        return left is not None and left <= 0.0


@dataclass
class Kept:
    """The model to save, the stage that it comes from, its rows, and the reason in words."""

    fitted: Fitted
    stage: str  # "picking" or "final"
    rows: int
    why: str = ""

    def words(self, n_rows: int) -> str:
        """A sentence that says what is kept and why; empty for an undisturbed training."""
        if not self.why:
            return ""
        stage = "picking stage" if self.stage == "picking" else "final fit"
        return f"the model of the {stage} is kept, trained on {self.rows} of {n_rows} rows: " + (
            self.why
        )


def final_rows(
    picked: Any, rows: np.ndarray | None, n: int, left: float | None
) -> tuple[np.ndarray | None, bool]:
    """Rows of the final fit, and whether the validation rows are left out of them.

    They are left out where the final fit would not end within ``left`` seconds at the speed of the
    best fit of the picking stage; time grows at least in proportion to the rows.
    """
    if picked is None or left is None:
        return rows, False
    count = n if rows is None else len(rows)
    if picked.fitted.seconds * count / picked.n_train <= left:
        return rows, False
    everyone = np.arange(n) if rows is None else rows
    return np.setdiff1d(everyone, picked.validation), True


def choose_model(
    setup: MachineSetup,
    picked: Any,
    final: Fitted | None,
    X: Any,
    y: Any,
    n_final: int,
    is_fair: bool = False,
) -> Kept:
    """Apply the rule; with costs the mean cost takes the place of the share of errors.

    Parameters
    ----------
    setup : MachineSetup
    picked : Search or None
        The picking stage, None if nothing was left to pick.
    final : Fitted or None
        The fit on all rows, None if it was not made.
    X, y : all rows
        X as scaled for the final fit.
    n_final : int
        Rows of the final fit.
    is_fair : bool
        Whether the final fit has not seen the validation rows.
    """
    early: Any = None if picked is None else picked.fitted

    def errors(value: float) -> str:
        what = "" if setup.costs is not None else " errors"
        return f"{setup.loss_words(value)}{what} on {picked.n_validation} validation rows"

    if final is None:
        why = "interrupted while picking" if picked.interrupted else "no time left for a final fit"
        return Kept(early, "picking", picked.n_train, f"{why} ({errors(early.error)})")
    cut = getattr(final.estimator, "status_", "")
    if cut not in ("max_time", "interrupted"):
        return Kept(final, "final", n_final)
    cut = "by --max-time" if cut == "max_time" else "by Ctrl-C"
    gap = float(final.estimator.certificate_.relative_gap)
    state = f"cut short {cut} at a relative duality gap of {gap:.2g}"
    if early is None:
        return Kept(final, "final", n_final, f"it was {state}")
    rows = picked.validation
    error = setup.loss(predict_scaled(final.estimator, X[rows]), y[rows])
    if error <= early.error and (is_fair or gap <= GOOD_GAP):
        return Kept(final, "final", n_final, f"it was {state} ({errors(error)})")
    why = f"{errors(early.error)}; the final fit, {state}, makes {setup.loss_words(error)}"
    return Kept(early, "picking", picked.n_train, why)
