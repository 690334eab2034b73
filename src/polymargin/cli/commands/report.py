"""``polymargin report``."""

from __future__ import annotations

from typing import Any

import click

from polymargin.cli.application import ToolError
from polymargin.cli.files import check_writable, load_model, read, wanted_by, writing
from polymargin.cli.messages import emit, progress, size_text
from polymargin.cli.options import data_argument, data_options, output_options, take_data_options
from polymargin.cli.predictions import rows_for

__all__ = ["report"]


@click.command()
@click.argument("model")
@data_argument
@click.option("-o", "--output", metavar="FILE", help="HTML file to write.  Default: MODEL with the "
              "ending .html.")  # fmt: skip
@click.option("--title", help="Heading of the page.")
@data_options
@output_options
def report(
    model: str, data: str, output: str | None, title: str | None, as_json: bool, **options: Any
) -> None:
    """Write one HTML page about the model file MODEL and how it does on DATA."""
    if output is None:
        from pathlib import Path

        output = str(Path(model).with_suffix(".html"))
    check_writable(output)
    fitted, header = load_model(model)
    found = read(data, take_data_options(options), wanted_by(fitted, header))
    try:
        y = fitted.classes_[found.labels_among(fitted.classes_)]
    except ValueError as error:
        raise ToolError(f"{data}: {error}") from error

    X = rows_for(fitted, found.X, slice(None))
    from polymargin.report.page import write_report

    with progress("writing the report"), writing(output):
        write_report(fitted, X, y, output, title=title, feature_names=found.feature_names)
    from pathlib import Path

    size = Path(output).stat().st_size
    record = {"command": "report", "model": model, "data": data, "output": output, "bytes": size}
    emit(record, as_json, lambda: f"{output}  {size_text(size)}")
