"""``polymargin train``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from polymargin.cli.application import INTERRUPTED
from polymargin.cli.classes import check_classes, warn_of_scales
from polymargin.cli.early_imports import begin_imports
from polymargin.cli.files import check_writable, read
from polymargin.cli.machine_setup import MachineSetup, take_machine_setup
from polymargin.cli.messages import emit, say, say_end
from polymargin.cli.options import (
    LARGE_NAMES,
    data_argument,
    large_data_options,
    machine_options,
    output_options,
    take_data_options,
    training_options,
)
from polymargin.cli.outcome import name_features, summary, summary_text, write
from polymargin.cli.size_target import check_target, take_size, write_target

if TYPE_CHECKING:
    from polymargin.cli.time_plan import Timer

__all__ = ["pick", "train"]

_STAGES = {
    "final": "final fit",
    "race": "choosing stage",
    "linear": "first stage, a linear one,",
}


@click.command()
@data_argument
@click.option("-o", "--output", metavar="MODEL", help="Model file to write.")
@click.option("-v", "--folds", type=click.IntRange(2), help="Also report the error of so many "
              "folds of cross-validation; without -o that is all.")  # fmt: skip
@click.option("--probabilities", is_flag=True, help="The model also gives probabilities, "
              "calibrated on out-of-fold scores.")  # fmt: skip
@click.option("--calibration-folds", type=click.IntRange(2), help="Keep so many fold models, from "
              "which predict --coverage makes sets of labels.")  # fmt: skip
@click.option("--fit-into", metavar="SIZE", help="The best multi-prototype model of at most so "
              "many bytes on a device: 8kB (1000), 8kiB (1024); everything is chosen.")  # fmt: skip
@click.option("--target", type=click.Choice(["c"]), help="Also write the model as a C header, "
              "beside the file of -o.")  # fmt: skip
@click.option("--cost", metavar="FILE", help="MP, CS, WW: CSV matrix of what it costs to say one "
              "class (column) when another (row) is true.")  # fmt: skip
@machine_options()
@training_options
@large_data_options
@output_options
def train(data: str, output: str | None, folds: int | None, as_json: bool, **options: Any) -> None:
    """Train a model on DATA and write it to the file given by -o.

    Without options the machine (linear, multi-prototype or RBF) and its parameters are chosen by
    cross-validation, and the table of what was tried is printed.  With -m or with parameters of a
    machine, that machine is trained, and C is picked on a validation part unless -c gives it.

    Columns that are not numbers are encoded by a plan that is printed and becomes part of the
    model: predict and evaluate take the same raw table again.

    With --memory or --cluster a linear machine (CS unless -m names another) is trained on all rows,
    however many there are.

    Ctrl-C keeps the best model so far: it is written if -o was given, and the exit code is 130.
    """
    large = {name: options.pop(name) for name in LARGE_NAMES}
    if any(large.values()):
        from polymargin.cli.large_training import train_large

        train_large(data, output, folds, as_json, large, options)
        return
    calibration = _take_calibration(options)
    target, size = options.pop("target"), options.pop("fit_into")
    check_target(target, output)
    setup = take_machine_setup(options)
    settings = calibration | take_size(size, setup, calibration)
    reading = take_data_options(options)
    if reading["group"] is not None and folds is None and not setup.validates:
        raise click.UsageError(
            f"--group {reading['group']}: -m {setup.machine} with all parameters given validates "
            "nothing; add -v FOLDS, or leave the column out with --ignore."
        )
    check_writable(output)
    from polymargin.cli.time_plan import Timer

    timer = Timer(setup.max_time)
    loading = None if setup.max_time is None else begin_imports(output is not None)
    with timer.paused():
        found = read(data, reading)
    if loading is not None:
        loading.join()
        timer.discount_loading()
    setup.plan = found.plan
    check_classes(found)
    if setup.cost is not None:
        import numpy as np

        from polymargin.cli.cost_file import read_costs

        setup.costs = read_costs(setup.cost, np.unique(found.y))
    warn_of_scales(found, setup.scale)
    record: dict[str, Any] = {"command": "train", "data": data}
    if target is not None:
        record["target"] = target
    if folds is not None:
        from polymargin.cli.cross_validation import cross_validate, folds_text

        record["cross_validation"] = cross_validate(setup, found, folds)
        if output is None:
            emit(record, as_json, lambda: folds_text(record["cross_validation"]))
            return
    if output is not None:
        timer.reserve(found.X.shape[1] * len(found.labels))
    try:
        if setup.is_auto:
            record |= _train_auto(setup, found, output, calibration, timer)
        else:
            from polymargin.cli.compile_ahead import compile_machine
            from polymargin.cli.final_fit import finish_training

            compile_machine(setup, found, timer)
            chosen, choice, picked = pick(setup, found.X, found.y, found.codes, found.groups)
            chosen |= settings
            record |= finish_training(setup, found, chosen, picked, timer, output, choice)
    except KeyboardInterrupt:
        say("polymargin: interrupted before there was a model: nothing was written")
        raise click.exceptions.Exit(INTERRUPTED) from None
    say_end(record["interrupted"], output)
    write_target(record)
    emit(record, as_json, lambda: summary_text(record))
    if record["interrupted"]:
        raise click.exceptions.Exit(INTERRUPTED)


def _take_calibration(options: dict[str, Any]) -> dict[str, Any]:
    """Calibration parameters, which only the final fit gets."""
    wanted = options.pop("probabilities")
    folds = options.pop("calibration_folds")
    found: dict[str, Any] = {"probabilities": "temperature"} if wanted else {}
    return found | ({} if folds is None else {"calibration_folds": folds})


def _calibrate(fitted: Any, X: Any, y: Any, calibration: dict[str, Any]) -> None:
    """Calibrate the model that AutoSVC chose, on the rows that it was trained on."""
    model = fitted.estimator
    if not calibration or fitted.interrupted or not hasattr(model, "_finish_calibration"):
        return  # with the objective log_loss AutoSVC itself has probabilities
    model.set_params(**calibration)
    X = fitted.scaler.transform(X) if fitted.X is None else fitted.X
    model._finish_calibration(model._begin_calibration(), X, y, None)


def _train_auto(
    setup: MachineSetup, found: Any, output: str | None, calibration: dict[str, Any], timer: Timer
) -> dict[str, Any]:
    """Let AutoSVC choose and write its model; returns the record."""
    from polymargin.cli.automatic import fit_auto, tried_record
    from polymargin.cli.data_parts import thin
    from polymargin.cli.single_fit import slim

    thin(setup, found)
    y = found.y
    fitted, auto = fit_auto(setup, found.X, y, found.groups, timer=timer)
    _calibrate(fitted, found.X, y, calibration)
    slim(fitted.estimator)
    name_features(fitted, found)
    record = summary(fitted, found, None, fitted.seconds, fitted.X, y, timer.left)
    record |= tried_record(auto) | {"interrupted": fitted.interrupted}
    if output is not None:
        size = write(fitted.model, output, found, int(auto.n_rows_))
        record |= {"model": output, "model_bytes": size}
    if setup.max_time is not None and auto.n_rows_ < len(y):
        say(
            f"the model of the {_STAGES[auto.stage_]} is kept, trained on {auto.n_rows_} of "
            f"{len(y)} rows: nothing better ended within --max-time"
        )
    return record


def pick(
    setup: MachineSetup, X: Any, y: Any, codes: Any, groups: Any = None
) -> tuple[dict[str, Any], dict[str, Any] | None, Any]:
    """Settings for the final fit, how they were picked, and the search that did."""
    if not setup.has_choice:
        return {}, None, None
    from polymargin.cli.settings_search import choose

    name = "eta" if setup.is_hull else "C"
    outcome = choose(setup, X, y, codes, groups)
    if outcome is None:
        say(f"{name} = 1: too few rows to pick it by validation (give it with -c)")
        return {name: 1.0}, None, None
    if outcome.interrupted:
        return {}, None, outcome
    best = outcome.best
    value = best.settings[name]
    choice = {
        "parameter": name,
        "value": value,
        "validation_error" if setup.costs is None else "validation_cost": best.error,
        "tried": [cell.settings[name] for cell in outcome.cells],
        "errors" if setup.costs is None else "costs": [
            cell.errors[0] if cell.errors else None for cell in outcome.cells
        ],
        "n_train": outcome.n_train,
        "n_validation": outcome.n_validation,
    }
    parts = outcome.n_train + outcome.n_validation
    whole = "" if parts == X.shape[0] else f" (from {parts} of {X.shape[0]} rows)"
    tried = sum(bool(cell.errors) for cell in outcome.cells)
    scale = "relative " if best.settings.get("eta_scale") == "relative" else ""
    measure = "error" if setup.costs is None else "cost"
    say(
        f"{scale}{name} = {value:.4g}, picked from {tried} values by the {measure} on a "
        f"validation part of {outcome.n_validation} rows: {setup.loss_words(best.error)}{whole}"
    )
    return dict(best.settings), choice, outcome
