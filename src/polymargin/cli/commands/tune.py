"""``polymargin tune``."""

from __future__ import annotations

from typing import Any

import click

from polymargin.cli.application import INTERRUPTED
from polymargin.cli.files import check_writable, read_for
from polymargin.cli.machine_setup import MachineSetup, take_machine_setup
from polymargin.cli.messages import emit, say_end, size_text, table
from polymargin.cli.options import (
    data_argument,
    machine_options,
    output_options,
    take_data_options,
    training_options,
)

__all__ = ["tune"]


@click.command()
@data_argument
@click.option("-o", "--output", metavar="MODEL", help="Model file to write: the best settings, "
              "trained on all rows.")  # fmt: skip
@click.option("-v", "--folds", type=click.IntRange(2), help="Folds of cross-validation.  Default: "
              "one validation part, a quarter of the rows.")  # fmt: skip
@click.option("--method", type=click.Choice(["grid", "radius-margin"]), default="grid",
              show_default=True, help="radius-margin: descend a bound on the leave-one-out errors "
              "of M-SVM² over C and gamma.")  # fmt: skip
@click.option("--refine", type=click.IntRange(0), help="radius-margin: compare so many settings "
              "around its minimum by cross-validation.  Default: 8 where the machine at the "
              "minimum is wrong about training rows.")  # fmt: skip
@machine_options(lists=True, machine="MP")
@training_options
@output_options
@click.pass_context
def tune(
    ctx: click.Context,
    /,
    data: str,
    output: str | None,
    folds: int | None,
    method: str,
    refine: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Try all combinations of C, gamma and numbers of prototypes on DATA.

    Lists are given with commas: -c 0.1,1,10 -p 1,3,5,10.  Without -p the multi-prototype machine
    tries 1, 3, 5, 10 and 20 prototypes per class.

    --method radius-margin needs no validation part; it tunes -m MSVM2 (implied) with -k rbf (unless
    another kernel is named).
    """
    if method == "radius-margin":
        from polymargin.cli.radius_margin_tuning import tune_by_radius_margin

        tune_by_radius_margin(ctx, data, output, folds, refine, as_json, options)
        return
    if refine is not None:
        raise click.UsageError("--refine is for --method radius-margin.")
    if options["prototypes"] is None and options["machine"].upper() == "MP":
        options["prototypes"] = [1, 3, 5, 10, 20]
    setup = take_machine_setup(options)
    reading = take_data_options(options)
    check_writable(output)
    found = read_for(setup, data, reading)
    from polymargin.cli.final_fit import finish_training
    from polymargin.cli.time_plan import Timer

    timer = Timer(setup.max_time)
    outcome, how = _search(setup, found, folds, output is not None)
    record = {"command": "tune", "data": data} | _record(outcome, how)
    if output is not None:
        final = finish_training(setup, found, dict(outcome.best.settings), outcome, timer, output)
        kept = ("model", "model_bytes", "interrupted", "stage", "trained_rows")
        record |= {"final": final} | {name: final[name] for name in kept}
        say_end(record["interrupted"], output)
    emit(record, as_json, lambda: _tune_text(record))
    if record["interrupted"]:
        raise click.exceptions.Exit(INTERRUPTED)


def _search(
    setup: MachineSetup, found: Any, n_folds: int | None, has_final: bool
) -> tuple[Any, str]:
    """Try all settings; with a final fit to come in a share of the time limit."""
    from polymargin.cli.data_parts import folds, holdout
    from polymargin.cli.settings_search import SEARCH_SHARE, search

    codes, groups = found.codes, found.groups
    if n_folds is None:
        splits = [holdout(codes, setup.seed, len(codes), groups)]
        how = f"a validation part of {len(splits[0][1])} rows"
    else:
        splits = folds(codes, n_folds, setup.seed, groups)
        how = f"{n_folds} folds"
    limit = setup.max_time
    if limit is not None and has_final:
        limit *= SEARCH_SHARE
    outcome = search(setup, found.X, found.y, splits, "tuning", limit)
    if not outcome.best.errors:  # Ctrl-C before the first setting was tried to its end
        raise KeyboardInterrupt
    return outcome, how


def _record(outcome: Any, how: str) -> dict[str, Any]:
    best = outcome.best
    return {
        "validation": how,
        "results": [
            {
                **cell.settings,
                "error": cell.error if cell.errors else None,
                "spread": cell.spread if cell.errors else None,
                "seconds": sum(cell.seconds) / max(len(cell.seconds), 1),
                "model_bytes": cell.model_bytes,
            }
            for cell in outcome.cells
        ],
        "best": best.settings,
        "error": best.error,
        "interrupted": outcome.interrupted,
    }


def _tune_text(record: dict[str, Any]) -> str:
    names = [name for name in record["best"] if name != "eta_scale"]
    is_relative = record["best"].get("eta_scale") == "relative"
    titles = ["relative eta" if name == "eta" and is_relative else name for name in names]
    rows = [[*titles, "error %", "seconds", "size"]]
    for cell in record["results"]:
        error = "-" if cell["error"] is None else f"{100 * cell['error']:.2f}"
        is_best = all(cell[name] == record["best"][name] for name in names)
        mark = "  *" if is_best else ""
        values = [
            f"{cell[name]:.4g}" if isinstance(cell[name], float) else str(cell[name])
            for name in names
        ]
        rows.append(
            [*values, error, f"{cell['seconds']:.2f}", size_text(cell["model_bytes"]) + mark]
        )
    text = table(rows) + f"\n\n* lowest error on {record['validation']}"
    if "model" in record:
        where = "all rows" if record["stage"] == "final" else f"{record['trained_rows']} rows"
        text += f"; trained on {where}: {record['model']}, {size_text(record['model_bytes'])}"
    return text
