"""``polymargin path``."""

from __future__ import annotations

import io
from typing import Any

import click

from polymargin.cli.files import check_writable, read_for, writing
from polymargin.cli.machine_setup import MachineSetup, take_machine_setup
from polymargin.cli.messages import emit, progress, say, table
from polymargin.cli.options import (
    data_argument,
    machine_options,
    output_options,
    take_data_options,
    training_options,
)

__all__ = ["path"]


@click.command()
@data_argument
@click.option("-o", "--output", metavar="MODEL", help="Model file to write: the value of C with "
              "the lowest validation error, trained on all rows.")  # fmt: skip
@click.option("--csv", "csv_file", metavar="FILE", help="Also write the table as CSV.")
@click.option("--points", type=click.IntRange(2), default=50, show_default=True, help="Number of "
              "values of C, where -c does not list them.")  # fmt: skip
@click.option("--wide", is_flag=True, help="All values of C between those that hardly matter, not "
              "only the last two decades.")  # fmt: skip
@machine_options(lists=True, machine="CS")
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
    setup = take_machine_setup(options)
    if setup.is_hull:
        raise click.UsageError("-m HULL has no C, so there is no path.")
    Cs: Any = "wide" if wide else "auto"
    if not setup.leaves_C_open:
        if wide:
            raise click.UsageError("--wide finds values of C; leave out -c.")
        Cs = setup.C
    for name, values in (("-p", setup.prototypes), ("-g", setup.gamma)):
        if isinstance(values, list) and len(values) > 1:
            raise click.UsageError(f"{name} takes one value here.")
    reading = take_data_options(options)
    for target in (output, csv_file):
        check_writable(target)
    found = read_for(setup, data, reading)
    record = {"command": "path", "data": data} | _walk(setup, found, Cs, points)
    if csv_file is not None:
        _write_table(record, csv_file)
    if output is not None and not record["interrupted"]:
        record |= _train_best(setup, found, record["best"]["C"], output)
    emit(record, as_json, lambda: _path_text(record))
    if record["interrupted"]:
        raise KeyboardInterrupt


_COLUMNS = (
    "C",
    "primal",
    "dual",
    "relative_gap",
    "training_error",
    "validation_error",
    "n_support",
)


def _walk(setup: MachineSetup, found: Any, Cs: Any, points: int) -> dict[str, Any]:
    from polymargin.cli.data_parts import holdout
    from polymargin.cli.preprocessing import fit_scaler, new_scaler, scale_in_place
    from polymargin.selection.path import regularization_path

    y = found.y
    train, test = holdout(found.codes, setup.seed, len(found.codes), found.groups)
    X, X_test = found.X[train], found.X[test]
    scaler = new_scaler(setup, X)
    if scaler is not None:
        fit_scaler(scaler, X)
        X, X_test = (scale_in_place(scaler, part) for part in (X, X_test))
    say(f"path: {setup.words()}, {len(train)} rows, {len(test)} to validate on")
    changes = {"assignment": "static"} if setup.is_prototypes else {}
    has_test = len(test) > 0
    with progress("path"):
        walked = regularization_path(
            X,
            y[train],
            Cs=Cs,
            n_points=points,
            estimator=setup.estimator(**changes),
            X_val=X_test if has_test else None,
            y_val=y[test] if has_test else None,
            tol=1e-3 if setup.tol is None else setup.tol,
            max_time=setup.max_time,
            cache_mb=setup.cache_mb,
            n_jobs=setup.jobs,
            random_state=setup.seed,
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
        "machine": setup.machine,
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

    from polymargin.storage.atomic import atomic_file

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(_table_rows(record))
    with writing(target), atomic_file(target) as file:
        file.write(buffer.getvalue().encode())


def _train_best(setup: MachineSetup, found: Any, C: float, output: str) -> dict[str, Any]:
    """The machine of the best point on all rows, written."""
    from polymargin.cli.outcome import name_features, summary, write
    from polymargin.cli.single_fit import scaled_fit

    fitted = scaled_fit(setup, {"C": C}, found.X, found.y)
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
