"""Training with ``-m auto``: AutoSVC chooses the machine, and the model that it found is kept."""

from __future__ import annotations

from typing import Any

from polymargin.cli.machine_setup import MachineSetup
from polymargin.cli.messages import progress, say
from polymargin.cli.preprocessing import fit_scaler, new_scaler, scale_in_place
from polymargin.cli.single_fit import SHORTEST_FIT, Fitted, predict_scaled
from polymargin.cli.time_plan import Timer

__all__ = ["auto_error", "fit_auto", "tried_record"]

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


def fit_auto(
    setup: MachineSetup,
    X: Any,
    y: Any,
    groups: Any = None,
    title: str = "choosing",
    timer: Timer | None = None,
) -> tuple[Fitted, Any]:
    """The model behind its scaler or encoder, and the AutoSVC that chose it."""
    timer = Timer(setup.max_time) if timer is None else timer
    scaler = None
    if setup.plan is not None or setup.scale not in ("auto", "none"):
        scaler = new_scaler(setup, X)
        fit_scaler(scaler, X)
        X = scale_in_place(scaler, X)
    auto = _estimator(setup, scaler is not None, timer.left)
    interrupted = False
    with progress(title):
        try:
            auto.fit(X, y, groups=groups)
        except KeyboardInterrupt:
            if not hasattr(auto, "best_estimator_"):
                raise
            interrupted = True
    seconds = timer.seconds
    auto.max_time = setup.max_time
    if setup.objective == "log_loss":  # its probabilities belong to AutoSVC itself
        return Fitted(auto, scaler, seconds, interrupted, plan=setup.plan, X=X), auto
    model = auto.best_estimator_
    if hasattr(model, "steps"):
        scaler, model = model.steps[0][1], model.steps[-1][1]
        X = scaler.transform(X) if timer.has_ease else None  # for the training error
    return Fitted(model, scaler, seconds, interrupted, plan=setup.plan, X=X), auto


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
    """What was tried, said as a table, and as a record."""
    if len(auto.tried_["machine"]):
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
