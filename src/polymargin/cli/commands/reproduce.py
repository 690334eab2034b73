"""``polymargin reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from polymargin.cli.application import INTERRUPTED, ToolError
from polymargin.cli.messages import emit, say
from polymargin.cli.options import output_options

__all__ = ["reproduce"]


@click.command()
@click.argument("name", required=False)
@click.option("--quick", is_flag=True, help="A small part of the data: minutes instead of hours.")
@click.option("-j", "--jobs", type=click.IntRange(min=-1), default=1, show_default=True,
              help="Processes; -1: one per core.  Times are measured best with 1.")  # fmt: skip
@click.option("-o", "--out", metavar="DIR", default="reproduction", show_default=True,
              help="Folder of results; finished cells in it are not run again.")  # fmt: skip
@output_options
def reproduce(name: str | None, quick: bool, jobs: int, out: str, as_json: bool) -> None:
    """Run the published experiment NAME; without NAME list the experiments.

    Prints published figures, the published procedure run here and our default side by side, with
    a verdict per row; writes CSV, Markdown and figures into DIR.  A run that was cut short goes on
    where it stopped.  Data sets are read from POLYMARGIN_DATA_DIR, from scikit-learn, or from what
    'polymargin data get' has fetched.
    """
    from polymargin.reproduce.catalogue import EXPERIMENTS, find_experiment

    if name is None:
        found = {known: title for known, (_, title) in EXPERIMENTS.items()}
        emit(found, as_json, lambda: "\n".join(f"{k:<18} {v}" for k, v in found.items()))
        return
    if jobs == 0:
        raise click.UsageError("--jobs must be -1 or at least 1.")
    try:
        experiment = find_experiment(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    outcome = _run(experiment, Path(out), "quick" if quick else "full", jobs)
    from polymargin.reproduce.experiment_tables import as_text

    if outcome.rows:
        emit(_record(outcome), as_json, lambda: as_text(experiment, outcome.rows))
    for path in outcome.files:
        say(f"written: {path}")
    done = f"{len(outcome.measured)} of {outcome.n_cells} cells"
    if outcome.interrupted:
        say(f"interrupted with {done}; the same command goes on from here")
        raise click.exceptions.Exit(INTERRUPTED)
    if outcome.failures:
        raise ToolError(f"{len(outcome.failures)} cells failed, first {outcome.failures[0]}")
    if not outcome.is_complete:
        say(f"{done} are finished; the others lack their data")


def _run(experiment: Any, out: Path, scale: Any, jobs: int) -> Any:
    """The run; a folder that cannot be written is told in one line."""
    from polymargin.reproduce.experiment_runner import run_experiment

    try:
        return run_experiment(experiment, out, scale, jobs, say)
    except OSError as error:
        where = error.filename or out
        raise ToolError(f"cannot write {where}: {error.strerror or error}") from error


def _record(outcome: Any) -> dict[str, Any]:
    from polymargin.reproduce.verdicts import judge_row

    rows = []
    for row in outcome.rows:
        said = judge_row(row)
        rows.append(
            {
                "label": row.label,
                "quantity": row.quantity,
                "published": row.published,
                "procedure": list(row.procedure),
                "default": list(row.default),
                "verdict": said[0],
                "default_verdict": said[1],
            }
            | dict(row.extra)
        )
    return {"command": "reproduce", "experiment": outcome.experiment.name, "rows": rows}
