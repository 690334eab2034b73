"""The end of a training: the picked settings on all rows, and which model is kept of it."""

from __future__ import annotations

from typing import Any

from polymargin.cli.data_parts import sample
from polymargin.cli.machine_setup import MachineSetup
from polymargin.cli.messages import say
from polymargin.cli.outcome import name_features, summary, write
from polymargin.cli.single_fit import Fitted, predict_scaled, scaled_fit, slim
from polymargin.cli.time_plan import Kept, Timer, choose_model, final_rows

__all__ = ["finish_training"]


def finish_training(
    setup: MachineSetup,
    found: Any,
    settings: dict[str, Any],
    picked: Any,
    timer: Timer,
    output: str | None,
    choice: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Train on all rows in the time that is left, keep the better model, write and describe it.

    ``picked`` is the search before, None if nothing was left to pick; ``cli/time_plan.py`` has the
    rule for trainings that are cut short.
    """
    kept, final = _fit(setup, found, settings, picked, timer)
    fitted, seconds = kept.fitted, timer.seconds
    interrupted = (picked is not None and picked.interrupted) or (
        final is not None and final.interrupted
    )
    fitted.estimator.max_time = setup.max_time
    slim(fitted.estimator)
    name_features(fitted, found)
    shown = fitted.X if fitted is final else None  # X is scaled for the final fit alone
    record = summary(fitted, found, choice, seconds, shown, found.y, timer.left)
    if setup.costs is not None and "training_error" in record:
        record["training_cost"] = setup.loss(predict_scaled(fitted.estimator, shown), found.y)
    record |= {"trained_rows": kept.rows, "stage": kept.stage, "interrupted": interrupted}
    if output is not None:
        record |= {"model": output, "model_bytes": write(fitted.model, output, found, kept.rows)}
    if kept.why:
        say(kept.words(found.X.shape[0]))
    return record


def _fit(
    setup: MachineSetup, found: Any, settings: dict[str, Any], picked: Any, timer: Timer
) -> tuple[Kept, Fitted | None]:
    """The model to keep, and the final fit where there was time for one."""
    X, y, n = found.X, found.y, found.X.shape[0]
    if picked is not None and (picked.interrupted or timer.is_over):
        return choose_model(setup, picked, None, None, y, 0), None
    rows = sample(setup, found.codes)
    rows, is_fair = final_rows(picked, rows, n, timer.left)
    final = scaled_fit(setup, settings, X, y, rows, lambda: timer.left)
    n_final = n if rows is None else len(rows)
    return choose_model(setup, picked, final, final.X, y, n_final, is_fair), final
