"""``polymargin loo``: exact leave-one-out errors of the machine of a model file."""

from __future__ import annotations

from typing import Any

import click

from polymargin.cli.application import INTERRUPTED
from polymargin.cli.files import load_model, read, wanted_by
from polymargin.cli.messages import emit, say, table
from polymargin.cli.options import data_argument, data_options, output_options, take_data_options
from polymargin.cli.trained_machine import TrainedMachine, trained_machine

__all__ = ["loo"]


@click.command()
@click.argument("model")
@data_argument
@click.option("--max-time", type=click.FloatRange(0, min_open=True), help="Seconds; what is known "
              "by then is printed.")  # fmt: skip
@data_options
@output_options
def loo(model: str, data: str, max_time: float | None, as_json: bool, **options: Any) -> None:
    """Train the machine of the model file MODEL once without every row of DATA.

    DATA are the rows that MODEL was trained on.  Rows without dual weight need no training; a
    count that bounds the errors without any training is printed first.  Scaling stays as it was
    trained with all rows.
    """
    fitted, header = load_model(model)
    found = read(data, take_data_options(options), wanted_by(fitted, header))
    one = trained_machine(fitted, found, data)
    record: dict[str, Any] = {"command": "loo", "model": model, "data": data}
    record |= _count(one) | _exact(one, max_time)
    emit(record, as_json, lambda: _text(record))
    if record["status"] == "interrupted":
        say(f"polymargin: interrupted: the errors are those of {record['rows']} rows")
        raise click.exceptions.Exit(INTERRUPTED)


def _count(one: TrainedMachine) -> dict[str, Any]:
    """The bound by counting, where the model was trained on as many rows."""
    from polymargin.selection.counts import leave_one_out_count

    try:
        count = leave_one_out_count(one.machine, one.X, one.y)
    except ValueError as error:
        say(f"no count: {error}")
        return {}
    say(str(count))
    return {"count": count.count, "count_method": count.method, "caveats": list(count.caveats)}


def _exact(one: TrainedMachine, max_time: float | None) -> dict[str, Any]:
    from sklearn.base import clone

    from polymargin.selection.leave_one_out import leave_one_out

    result = leave_one_out(clone(one.machine), one.X, one.y, max_time=max_time)
    return {
        "errors": result.errors,
        "error_rate": result.error_rate,
        "ties": int(result.ties.sum()),
        "rows": int(result.known.sum()),
        "refits": result.refits,
        "skipped": result.skipped,
        "status": result.status,
        "seconds": result.seconds,
        "wrong": [int(i) for i in result.wrong.nonzero()[0]],
    }


def _text(record: dict[str, Any]) -> str:
    rows = [
        ["leave-one-out error", f"{100 * record['error_rate']:.2f} %  ({record['errors']} of "
         f"{record['rows']}, {record['ties']} ties)"],
        ["models trained", f"{record['refits']}  ({record['skipped']} rows needed none)"],
        ["status", f"{record['status']} in {record['seconds']:.1f} s"],
    ]  # fmt: skip
    if "count" in record:
        rows.insert(
            1, ["bound by counting", f"{record['count']} errors ({record['count_method']})"]
        )
    return table(rows)
