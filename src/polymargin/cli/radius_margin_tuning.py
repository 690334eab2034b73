"""``polymargin tune --method radius-margin``."""

from __future__ import annotations

from typing import Any

import click

from polymargin.cli.application import INTERRUPTED
from polymargin.cli.files import check_writable, read_for
from polymargin.cli.machine_setup import MachineSetup, take_machine_setup
from polymargin.cli.messages import emit, progress, size_text, table
from polymargin.cli.options import take_data_options

__all__ = ["tune_by_radius_margin"]


def tune_by_radius_margin(
    ctx: click.Context,
    data: str,
    output: str | None,
    folds: int | None,
    refine: int | None,
    as_json: bool,
    options: dict[str, Any],
) -> None:
    """C and gamma of M-SVM² by the radius-margin criterion; no validation part is needed."""
    by_hand = click.core.ParameterSource.COMMANDLINE
    if ctx.get_parameter_source("machine") != by_hand:
        options["machine"] = "MSVM2"
    if ctx.get_parameter_source("kernel") != by_hand:
        options["kernel"] = "rbf"
    setup = take_machine_setup(options)
    if setup.machine != "MSVM2" or setup.kernel == "sigmoid":
        raise click.UsageError("--method radius-margin is for -m MSVM2 with linear, rbf or poly.")
    for name, values in (("-c", setup.C), ("-g", setup.gamma)):
        if isinstance(values, list) and len(values) > 1:
            raise click.UsageError(
                f"{name}: the radius-margin search takes one value to begin with."
            )
    reading = take_data_options(options)
    if reading["group"] is not None:
        raise click.UsageError("--group is for --method grid; radius-margin splits no rows.")
    check_writable(output)
    found = read_for(setup, data, reading)
    record = {"command": "tune", "method": "radius-margin", "data": data}
    record |= _descend(setup, found, folds, refine, output)
    emit(record, as_json, lambda: _radius_text(record))
    if record["interrupted"]:
        raise click.exceptions.Exit(INTERRUPTED)


def _descend(
    setup: MachineSetup, found: Any, folds: int | None, refine: int | None, output: str | None
) -> dict[str, Any]:
    from polymargin.cli.outcome import name_features, summary, write
    from polymargin.cli.preprocessing import fit_scaler, new_scaler, scale_in_place
    from polymargin.cli.single_fit import Fitted
    from polymargin.radius_margin.choice import N_FOLDS
    from polymargin.selection.tune_radius_margin import tune_radius_margin

    X, y = found.X, found.y
    scaler = new_scaler(setup, X)
    if scaler is not None:
        fit_scaler(scaler, X)
        X = scale_in_place(scaler, X)
    base = setup.estimator()
    has_width = setup.kernel != "linear"
    with progress("tuning"):
        tuned = tune_radius_margin(
            X,
            y,
            kernel=setup.kernel,
            parameters=("C", "gamma") if has_width else ("C",),
            C=None if setup.leaves_C_open else base.C,
            gamma=base.gamma,
            degree=setup.degree,
            coef0=setup.coef0,
            class_weight=setup.class_weight,
            refine="auto" if refine is None else refine,
            n_folds=folds or N_FOLDS,
            max_time=setup.max_time,
            cache_mb=setup.cache_mb,
            n_jobs=setup.jobs,
            random_state=setup.seed,
        )
    best = {"C": float(tuned.C)} | ({"gamma": float(tuned.gamma)} if has_width else {})
    fitted = Fitted(tuned.machine, scaler, float(tuned.seconds), plan=setup.plan)
    name_features(fitted, found)
    record: dict[str, Any] = {
        "best": best,
        "bound": float(tuned.value),
        "minimum": {name: tuned.minimum[name] for name in (*best, "value")},
        "plateau": float(tuned.plateau),
        "status": tuned.status,
        "n_evaluations": int(tuned.n_evaluations),
        "seconds": float(tuned.seconds),
        "refinement": tuned.refinement,
        "interrupted": tuned.status == "interrupted",
        "final": summary(fitted, found, None, float(tuned.seconds), X, y),
    }
    if output is not None:
        record |= {"model": output, "model_bytes": write(fitted.model, output, found)}
    return record


def _radius_text(record: dict[str, Any]) -> str:
    rows = [[name, f"{value:.4g}"] for name, value in record["best"].items()]
    rows += [
        ["bound", f"{record['bound']:.4g} (far out: {record['plateau']:.4g})"],
        ["training error", f"{100 * record['final']['training_error']:.2f} %"],
        ["evaluations", f"{record['n_evaluations']} in {record['seconds']:.1f} s"],
        ["cross-validated", f"{len(record['refinement']['C'])} settings around the minimum"],
        ["status", record["status"]],
    ]
    if "model" in record:
        rows.append(["file", f"{record['model']}, {size_text(record['model_bytes'])}"])
    return table(rows)
