"""Training with ``-m auto``: AutoSVC chooses the machine, and the model that it found is kept."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from polymargin.cli.machine_setup import MachineSetup
from polymargin.cli.messages import progress, say
from polymargin.cli.preprocessing import fit_scaler, new_scaler, scale_in_place
from polymargin.cli.single_fit import SHORTEST_FIT, Fitted, predict_scaled
from polymargin.cli.time_plan import Timer
from polymargin.exceptions import warn_user

__all__ = ["auto_error", "fit_auto", "tried_record"]

_PROBED = 1000  # rows whose scaling is timed to predict the time of all
_SCALINGS = {
    "clipped": "values far from the median are cut off at 5 deviations, measured by the quartiles",
    "common": "one unit for all columns, since those that vary more tell more",
}
_SHOWN = 12  # lines of the table of what was tried


def _estimator(setup: MachineSetup, is_scaled: bool, left: float | None) -> Any:
    from polymargin.estimators.auto import AutoSVC

    return AutoSVC(
        objective=setup.objective,
        prefer=setup.prefer,
        scale="none" if is_scaled or setup.scale == "none" else "auto",
        budget="auto" if setup.budget is None else setup.budget,
        max_time=None if left is None else max(left, SHORTEST_FIT),
        class_weight=setup.class_weight,
        tol=1e-3 if setup.tol is None else setup.tol,
        n_jobs=setup.jobs,
        random_state=setup.seed,
    )


@contextmanager
def _as_options() -> Iterator[None]:
    """Translate warnings of AutoSVC into options; the one on the model kept is printed later."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            texts = [str(one.message) for one in found if issubclass(one.category, UserWarning)]
    for text in texts:
        if not re.match("max_time=.*: the model kept", text):
            text = text.removeprefix("y: ").replace("groups: rows", "--group: rows")
            text = re.sub("^max_time=[^:]*:", "--max-time:", text)
            warn_user(
                text.replace("objective='balanced_accuracy'", "--objective balanced_accuracy")
            )


def fit_auto(
    setup: MachineSetup,
    X: Any,
    y: Any,
    groups: Any = None,
    title: str = "choosing",
    timer: Timer | None = None,
) -> tuple[Fitted, Any]:
    """The model behind its scaler or encoder, and the AutoSVC that chose it."""
    from polymargin.estimators.auto_limits import EncodedTable

    timer = Timer(setup.max_time) if timer is None else timer
    scaler = table = None
    if setup.plan is not None or setup.scale not in ("auto", "none"):
        scaler = new_scaler(setup, X)
        fit_scaler(scaler, X)
        if setup.plan is not None and setup.scale == "auto":
            table = EncodedTable(scaler, X)
        X = scale_in_place(scaler, X)
    auto = _estimator(setup, scaler is not None, timer.left)
    interrupted = False
    with progress(title):
        try:
            with _as_options():
                auto._fit(X, y, None, groups, table)
        except KeyboardInterrupt:
            if not hasattr(auto, "best_estimator_"):
                raise
            interrupted = True
    seconds = timer.seconds
    auto.max_time = setup.max_time
    if auto.scaling_ in _SCALINGS:
        say(f"scaling, by validation: {_SCALINGS[auto.scaling_]} (--scale standard: as usual)")
    if table is not None and auto.scaling_ == "clipped":
        scaler = table.limited
        X = _scaled_in_time(scaler, table.table, timer)
    if setup.objective == "log_loss":  # the temperature belongs to AutoSVC itself
        return Fitted(auto, scaler, seconds, interrupted, plan=setup.plan, X=X), auto
    model = auto.best_estimator_
    if hasattr(model, "steps"):
        scaler, model = model.steps[0][1], model.steps[-1][1]
        X = _scaled_in_time(scaler, X, timer)
    return Fitted(model, scaler, seconds, interrupted, plan=setup.plan, X=X), auto


def _scaled_in_time(scaler: Any, X: Any, timer: Timer) -> Any:
    """All rows, scaled or encoded; None where time is short."""
    if not _has_time_to_scale(scaler, X, timer):
        return None
    found = scaler.transform(X)
    return found.tocsr() if hasattr(found, "tocsr") else found


def _has_time_to_scale(scaler: Any, X: Any, timer: Timer) -> bool:
    """Whether all rows can be scaled in the time left, by the time of the first rows."""
    if timer.left is None:
        return True
    began = timer.seconds
    scaler.transform(X[:_PROBED])
    needed = (timer.seconds - began) * X.shape[0] / min(_PROBED, X.shape[0])
    return timer.has_ease and 3.0 * needed < timer.left


def auto_error(
    setup: MachineSetup, found: Any, y: Any, train: Any, test: Any, title: str
) -> float | None:
    """Error on ``test`` of the machine chosen on ``train``; None if interrupted."""
    groups = None if found.groups is None else found.groups[train]
    fitted, _ = fit_auto(setup, found.X[train], y[train], groups, title)
    if fitted.interrupted:
        return None
    X = found.X[test]
    if fitted.scaler is not None:
        X = fitted.scaler.transform(X)
    return float((predict_scaled(fitted.estimator, X) != y[test]).mean())


def tried_record(auto: Any) -> dict[str, Any]:
    """Print the table of what was tried, and return it as a record."""
    if not any(auto.tried_["n_splits"]):
        say("too few rows to validate anything: the first machine of the list was trained")
    else:
        say(auto.table(rows=_SHOWN))
        hidden = len(auto.tried_["machine"]) - _SHOWN
        if hidden > 0:
            say(f"... and {hidden} more (--json has all)")
    error = None if auto.best_score_ != auto.best_score_ else 1.0 - auto.best_score_
    shown = None if auto.objective == "log_loss" else error
    return {
        "tried": auto.tried_,
        "objective": auto.objective,
        "validation_error": shown,
        "validation_standard_error": None if shown is None else auto.best_error_,
        "stage": auto.stage_,
        "trained_rows": auto.n_rows_,
    }
