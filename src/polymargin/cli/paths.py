"""``polymargin path``, and ``tune --method radius-margin``."""

from __future__ import annotations

from typing import Any

import click

from polymargin.cli.common import (
    INTERRUPTED,
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

__all__ = ["path", "tune_by_radius_margin"]


@click.command(short_help="One machine for many values of C.")
@click.argument("data")
@click.option("-o", "--output", metavar="MODEL", help="Model file to write: the value of C with "
              "the lowest validation error, trained on all rows.")  # fmt: skip
@click.option("--csv", "csv_file", metavar="FILE", help="Also write the table as CSV.")
@click.option("--points", type=click.IntRange(2), default=50, show_default=True, help="Number of "
              "values of C, where -c does not list them.")  # fmt: skip
@click.option("--wide", is_flag=True, help="All values of C between those that hardly matter, not "
              "only the last two decades.")  # fmt: skip
@recipe_options(lists=True, machine="CS")
@training_options
@output_options
def path(
    data: str,
    output: str | None,
    csv_file: str | None,
    points: int,
    wide: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Solve a machine on DATA for many values of C, every one with a certificate.

    A quarter of the rows is held out for the validation error.  -m MP solves the static problem of
    its first assignment of examples to prototypes.
    """
    from polymargin.cli.searching import thin
    from polymargin.cli.training import check_classes

    recipe = take_recipe(options)
    if recipe.is_hull:
        raise click.UsageError("-m HULL has no C, so there is no path.")
    Cs: Any = "wide" if wide else "auto"
    if not recipe.leaves_C_open:
        if wide:
            raise click.UsageError("--wide finds values of C; leave out -c.")
        Cs = recipe.C
    for name, values in (("-p", recipe.prototypes), ("-g", recipe.gamma)):
        if isinstance(values, list) and len(values) > 1:
            raise click.UsageError(f"{name} takes one value here.")
    reading = take_data_options(options)
    for target in (output, csv_file):
        check_writable(target)
    found = read(data, reading)
    recipe.plan = found.plan
    check_classes(found)
    thin(recipe, found)
    record = {"command": "path", "data": data} | _walk(recipe, found, Cs, points)
    if csv_file is not None:
        _write_table(record, csv_file)
    if output is not None and not record["interrupted"]:
        record |= _train_best(recipe, found, record["best"]["C"], output)
    emit(record, as_json, lambda: _path_text(record))
    if record["interrupted"]:
        raise click.exceptions.Exit(INTERRUPTED)


_COLUMNS = (
    "C",
    "primal",
    "dual",
    "relative_gap",
    "training_error",
    "validation_error",
    "n_support",
)


def _walk(recipe: Recipe, found: Any, Cs: Any, points: int) -> dict[str, Any]:
    from polymargin.cli.fitting import fit_scaler, holdout, new_scaler, scale_in_place
    from polymargin.selection.path import regularization_path

    y = found.y
    train, test = holdout(found.codes, recipe.seed, len(found.codes))
    X, X_test = found.X[train], found.X[test]
    scaler = new_scaler(recipe, X)
    if scaler is not None:
        fit_scaler(scaler, X)
        X, X_test = (scale_in_place(scaler, part) for part in (X, X_test))
    say(f"path: {recipe.words()}, {len(train)} rows, {len(test)} to validate on")
    changes = {"assignment": "static"} if recipe.is_prototypes else {}
    has_test = len(test) > 0
    with progress("path"):
        walked = regularization_path(
            X,
            y[train],
            Cs=Cs,
            n_points=points,
            estimator=recipe.estimator(**changes),
            X_val=X_test if has_test else None,
            y_val=y[test] if has_test else None,
            tol=1e-3 if recipe.tol is None else recipe.tol,
            max_time=recipe.max_time,
            cache_mb=recipe.cache_mb,
            n_jobs=recipe.jobs,
            random_state=recipe.seed,
        )
    errors = walked.training_error
    if walked.validation_error is not None:
        errors = walked.validation_error
    best = int(errors.argmin())
    rows = {
        "C": walked.Cs,
        "primal": walked.primal,
        "dual": walked.dual,
        "relative_gap": walked.relative_gap,
        "training_error": walked.training_error,
        "validation_error": walked.validation_error if has_test else [None] * len(walked),
        "n_support": walked.n_support,
    }
    return {
        "machine": recipe.machine,
        "rows": len(train),
        "validation_rows": len(test),
        "status": walked.status,
        "seconds": float(walked.total_seconds),
        "n_solves": int(walked.n_solves),
        "path": {name: _plain(values) for name, values in rows.items()},
        "best": {"C": float(walked.Cs[best]), "error": float(errors[best])},
        "interrupted": walked.status == "interrupted",
    }


def _plain(values: Any) -> list[Any]:
    return list(values.tolist()) if hasattr(values, "tolist") else list(values)


def _table_rows(record: dict[str, Any]) -> list[list[Any]]:
    columns = [record["path"][name] for name in _COLUMNS]
    return [list(row) for row in zip(*columns, strict=True)]


def _write_table(record: dict[str, Any], target: str) -> None:
    import csv
    import io

    from polymargin.storage.atomic import atomic_file

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(_table_rows(record))
    with writing(target), atomic_file(target) as file:
        file.write(buffer.getvalue().encode())


def _train_best(recipe: Recipe, found: Any, C: float, output: str) -> dict[str, Any]:
    """The machine of the best point on all rows, written."""
    from polymargin.cli.fitting import scaled_fit
    from polymargin.cli.training import name_features, summary, write

    fitted = scaled_fit(recipe, {"C": C}, found.X, found.y)
    name_features(fitted, found)
    final = summary(fitted, found, None, fitted.seconds, fitted.X, found.y)
    size = write(fitted.model, output, found)
    return {"final": final, "model": output, "model_bytes": size, "interrupted": fitted.interrupted}


def _path_text(record: dict[str, Any]) -> str:
    rows = [["C", "objective", "gap", "training %", "validation %", "support"]]
    for C, primal, _, gap, training, validation, support in _table_rows(record):
        mark = " *" if record["best"]["C"] == C else ""
        shown = "-" if validation is None else f"{100 * validation:.2f}"
        rows.append(
            [f"{C:.4g}", f"{primal:.6g}", f"{gap:.1e}", f"{100 * training:.2f}", shown + mark,
             str(support)]
        )  # fmt: skip
    text = table(rows, [True] * 4 + [False, True])
    text += f"\n\n{record['n_solves']} solves in {record['seconds']:.1f} s ({record['status']})"
    if "model" in record:
        text += f"; C = {record['best']['C']:.4g} on all rows: {record['model']}"
    return text


# -- radius-margin -----------------------------------------------------------------------------


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
    from polymargin.cli.searching import thin
    from polymargin.cli.training import check_classes

    by_hand = click.core.ParameterSource.COMMANDLINE
    if ctx.get_parameter_source("machine") != by_hand:
        options["machine"] = "MSVM2"
    if ctx.get_parameter_source("kernel") != by_hand:
        options["kernel"] = "rbf"
    recipe = take_recipe(options)
    if recipe.machine != "MSVM2" or recipe.kernel == "sigmoid":
        raise click.UsageError("--method radius-margin is for -m MSVM2 with linear, rbf or poly.")
    for name, values in (("-c", recipe.C), ("-g", recipe.gamma)):
        if isinstance(values, list) and len(values) > 1:
            raise click.UsageError(
                f"{name}: the radius-margin search takes one value to begin with."
            )
    reading = take_data_options(options)
    check_writable(output)
    found = read(data, reading)
    recipe.plan = found.plan
    check_classes(found)
    thin(recipe, found)
    record = {"command": "tune", "method": "radius-margin", "data": data}
    record |= _descend(recipe, found, folds, refine, output)
    emit(record, as_json, lambda: _radius_text(record))
    if record["interrupted"]:
        raise click.exceptions.Exit(INTERRUPTED)


def _descend(
    recipe: Recipe, found: Any, folds: int | None, refine: int | None, output: str | None
) -> dict[str, Any]:
    from polymargin.cli.fitting import Fitted, fit_scaler, new_scaler, scale_in_place
    from polymargin.cli.training import name_features, summary, write
    from polymargin.radius_margin.choice import N_FOLDS
    from polymargin.selection.tune_radius_margin import tune_radius_margin

    X, y = found.X, found.y
    scaler = new_scaler(recipe, X)
    if scaler is not None:
        fit_scaler(scaler, X)
        X = scale_in_place(scaler, X)
    base = recipe.estimator()
    has_width = recipe.kernel != "linear"
    with progress("tuning"):
        tuned = tune_radius_margin(
            X,
            y,
            kernel=recipe.kernel,
            parameters=("C", "gamma") if has_width else ("C",),
            C=None if recipe.leaves_C_open else base.C,
            gamma=base.gamma,
            degree=recipe.degree,
            coef0=recipe.coef0,
            class_weight=recipe.class_weight,
            refine="auto" if refine is None else refine,
            n_folds=folds or N_FOLDS,
            max_time=recipe.max_time,
            cache_mb=recipe.cache_mb,
            n_jobs=recipe.jobs,
            random_state=recipe.seed,
        )
    best = {"C": float(tuned.C)} | ({"gamma": float(tuned.gamma)} if has_width else {})
    fitted = Fitted(tuned.machine, scaler, float(tuned.seconds), plan=recipe.plan)
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
