"""``polymargin gacv``: generalised approximate cross-validation of a Lee-Lin-Wahba machine."""

from __future__ import annotations

from typing import Any

import click

from polymargin.cli.files import load_model, read, wanted_by
from polymargin.cli.messages import emit, table
from polymargin.cli.options import data_argument, data_options, output_options, take_data_options
from polymargin.cli.trained_machine import trained_machine

__all__ = ["gacv"]


@click.command()
@click.argument("model")
@data_argument
@data_options
@output_options
def gacv(model: str, data: str, as_json: bool, **options: Any) -> None:
    """GACV of the model file MODEL (-m LLW) on the rows of DATA that it was trained on."""
    from polymargin.selection.gacv import gacv as criterion

    fitted, header = load_model(model)
    found = read(data, take_data_options(options), wanted_by(fitted, header))
    one = trained_machine(fitted, found, data)
    result = criterion(one.machine, one.X, one.y)
    record = {
        "command": "gacv",
        "model": model,
        "data": data,
        "value": result.value,
        "observed": result.observed,
        "correction": result.correction,
        "form": result.form,
        "reference": result.reference,
    }
    names = ("value", "observed", "correction")
    emit(record, as_json, lambda: table([[name, f"{record[name]:.6g}"] for name in names]))
