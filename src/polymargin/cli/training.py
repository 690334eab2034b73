"""``polymargin train``."""

from __future__ import annotations

import math
from typing import Any

import click

from polymargin.cli.common import (
    INTERRUPTED,
    ToolError,
    check_writable,
    emit,
    output_options,
    progress,
    read,
    say,
    size_text,
    table,
    take_data_options,
    training_options,
    writing,
)
from polymargin.cli.machine_options import Recipe, recipe_options, take_recipe

__all__ = ["train"]

_FEW_ROWS = 20  # tables below may be toys with one example of each class; they are trained


@click.command(short_help="Train a model on DATA.")
@click.argument("data")
@click.option("-o", "--output", metavar="MODEL", help="Model file to write.")
@click.option("-v", "--folds", type=click.IntRange(2), help="Also report the error of so many "
              "folds of cross-validation; without -o that is all.")  # fmt: skip
@recipe_options()
@training_options
@output_options
def train(data: str, output: str | None, folds: int | None, as_json: bool, **options: Any) -> None:
    """Train a model on DATA and write it to the file given by -o.

    Without options: the multi-prototype machine with 5 prototypes per class, features standardised,
    C picked on a validation part of the training data.

    Ctrl-C keeps the best model so far: it is written if -o was given, and the exit code is 130.
    """
    recipe = take_recipe(options)
    reading = take_data_options(options)
    check_writable(output)
    found = read(data, reading)
    recipe.plan = found.plan
    check_classes(found)
    record: dict[str, Any] = {"command": "train", "data": data}
    if folds is not None:
        from polymargin.cli.searching import cross_validate, folds_text

        record["cross_validation"] = cross_validate(recipe, found, folds)
        if output is None:
            emit(record, as_json, lambda: folds_text(record["cross_validation"]))
            return
    train_model(recipe, found, data, output, record, as_json)


def check_classes(found: Any) -> None:
    """Labels that name classes: at least two, no continuous number, no identifier of the rows."""
    n, Q = found.X.shape[0], len(found.labels)
    if Q < 2:
        raise ToolError(
            f"training needs at least two classes; all {n} rows have the label {found.labels[0]!r}"
        )
    column = "the label column" + (f" {found.label_name!r}" if found.label_name else "")
    if (fraction := fractional_label(found.labels)) is not None:
        raise ToolError(
            f"{column} holds continuous numbers ({Q} different ones in {n} rows, such as "
            f"{fraction}), not classes; name another column with --label, or round or bin the "
            "numbers first (a letter in front makes each of them a class)"
        )
    if n == Q and n >= _FEW_ROWS:
        raise ToolError(
            f"{column} has a different value in each of the {n} rows: it looks like an identifier, "
            "not a class; name another column with --label"
        )
    if n < 2 * Q:
        say(
            f"warning: {column} has {Q} different values in {n} rows: it may be an identifier or "
            "a number to round or bin; name another column with --label"
        )


def fractional_label(labels: list[str]) -> str | None:
    """The first label with a fraction where all labels are finite numbers, else None.

    That is the rule of scikit-learn's ``check_classification_targets``, by which ``fit`` refuses
    continuous targets; labels of a file are text, which it would let pass.
    """
    try:
        values = [float(text) for text in labels]
    except ValueError:
        return None
    if not all(map(math.isfinite, values)):
        return None
    return next((t for t, v in zip(labels, values, strict=True) if not v.is_integer()), None)


def train_model(
    recipe: Recipe, found: Any, data: str, output: str | None, record: dict[str, Any], as_json: bool
) -> None:
    """Pick what is left open, train on all rows, write the better model, report.

    ``cli/time_plan.py`` has the rule for trainings that are cut short.
    """
    from polymargin.cli.fitting import sample, scaled_fit, slim
    from polymargin.cli.time_plan import Timer, choose_model, final_rows

    timer = Timer(recipe.max_time)
    X, y, n = found.X, found.y, found.X.shape[0]
    try:
        settings, choice, picked = _pick(recipe, X, y, found.codes)
        final, n_final, is_fair = None, 0, False
        if picked is None or not (picked.interrupted or timer.is_over):
            rows = sample(recipe, found.codes)
            rows, is_fair = final_rows(picked, rows, n, timer.left)
            n_final = n if rows is None else len(rows)
            final = scaled_fit(recipe, settings, X, y, rows, lambda: timer.left)
    except KeyboardInterrupt:
        say("polymargin: interrupted before there was a model: nothing was written")
        raise click.exceptions.Exit(INTERRUPTED) from None
    scaled = None if final is None else final.X
    kept = choose_model(picked, final, scaled, y, n_final, is_fair)
    fitted, seconds = kept.fitted, timer.seconds
    interrupted = (picked is not None and picked.interrupted) or (
        final is not None and final.interrupted
    )
    fitted.estimator.max_time = recipe.max_time
    slim(fitted.estimator)
    name_features(fitted, found)
    # the training error of a whole table takes time, and X is scaled for the final fit alone
    shown = scaled if fitted is final and not timer.is_over else None
    record |= summary(fitted, found, choice, seconds, shown, y)
    record |= {"trained_rows": kept.rows, "stage": kept.stage, "interrupted": interrupted}
    if output is not None:
        record |= {"model": output, "model_bytes": write(fitted.model, output, found)}
    if interrupted:
        where = f"kept in {output}" if output else "not kept: no -o was given"
        say(f"interrupted: the best model so far is {where}")
    elif output is None:
        say("no model file was written; name one with -o")
    if kept.why:
        say(kept.words(n))
    emit(record, as_json, lambda: summary_text(record))
    if interrupted:
        raise click.exceptions.Exit(INTERRUPTED)


def _pick(
    recipe: Recipe, X: Any, y: Any, codes: Any
) -> tuple[dict[str, Any], dict[str, Any] | None, Any]:
    """Settings for the final fit, how they were picked, and the search that did."""
    if not recipe.has_choice:
        return {}, None, None
    from polymargin.cli.grid import choose

    name = "eta" if recipe.is_hull else "C"
    outcome = choose(recipe, X, y, codes)
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
        "validation_error": best.error,
        "tried": [cell.settings[name] for cell in outcome.cells],
        "errors": [cell.errors[0] if cell.errors else None for cell in outcome.cells],
        "n_train": outcome.n_train,
        "n_validation": outcome.n_validation,
    }
    parts = outcome.n_train + outcome.n_validation
    whole = "" if parts == X.shape[0] else f" (from {parts} of {X.shape[0]} rows)"
    tried = sum(bool(cell.errors) for cell in outcome.cells)
    scale = "relative " if best.settings.get("eta_scale") == "relative" else ""
    say(
        f"{scale}{name} = {value:.4g}, picked from {tried} values by the error on a "
        f"validation part of {outcome.n_validation} rows: {100 * best.error:.2f} %{whole}"
    )
    return dict(best.settings), choice, outcome


def name_features(fitted: Any, found: Any) -> None:
    """Names of columns become those of the model's features."""
    if found.feature_names is None or fitted.plan is not None:
        return
    import numpy as np

    first = fitted.estimator if fitted.scaler is None else fitted.scaler
    first.feature_names_in_ = np.array(found.feature_names, dtype=object)


def write(model: Any, output: str, found: Any) -> int:
    """Write the model file; its size comes back."""
    from polymargin.storage.model_file import write_model

    extra = {"label_name": found.label_name, "zero_based": found.zero_based}
    with progress(f"writing {output}"), writing(output):
        return write_model(model, output, extra)


def summary(
    fitted: Any, found: Any, choice: dict[str, Any] | None, seconds: float, X: Any, y: Any
) -> dict[str, Any]:
    """What there is to say of a training."""
    from polymargin.cli.describe import model_record
    from polymargin.cli.fitting import predict_scaled

    record = model_record(fitted.model)
    record |= {
        "rows": found.X.shape[0],
        "C": record["parameters"].get("C"),
        "picked": choice,
        "seconds": seconds,
    }
    if X is not None:  # scaled by now
        with progress("training error"):
            record["training_error"] = float((predict_scaled(fitted.estimator, X) != y).mean())
    return record


def summary_text(record: dict[str, Any]) -> str:
    """The same for people."""
    from polymargin.cli.describe import certificate_words, eta_words, title_of

    rows = [["model", title_of(record)]]
    if record.get("C") is not None:
        rows.append(["C", f"{record['C']:.4g}"])
    elif "eta" in record:
        rows.append(["eta", eta_words(record)])
    if record.get("picked") is not None:
        rows.append(["validation error", f"{100 * record['picked']['validation_error']:.2f} %"])
    if "training_error" in record:
        rows.append(["training error", f"{100 * record['training_error']:.2f} %"])
    if "cross_validation" in record:
        rows.append(["cross-validation", f"{100 * record['cross_validation']['error']:.2f} %"])
    rows.append(["certificate", certificate_words(record)])
    if "prediction_bytes" in record:
        rows.append(["for prediction", size_text(record["prediction_bytes"])])
    rows.append(["time", f"{record['seconds']:.1f} s"])
    if "model" in record:
        rows.append(["file", f"{record['model']}, {size_text(record['model_bytes'])}"])
    return table(rows)
