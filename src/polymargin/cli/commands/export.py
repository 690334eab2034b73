"""``polymargin export``."""

from __future__ import annotations

from typing import Any

import click

from polymargin.cli.application import ToolError
from polymargin.cli.files import check_writable, load_model, writing
from polymargin.cli.messages import emit, progress, say, size_text
from polymargin.cli.options import (
    output_options,
)

__all__ = ["export"]


_ENDINGS = {"onnx": ".onnx", "c": ".h", "json": ".json"}


@click.command()
@click.argument("model")
@click.option("--to", type=click.Choice(["onnx", "c", "json"]), required=True, help="Format.")
@click.option("-o", "--output", metavar="FILE", help="File to write.  Default: MODEL with the "
              "ending of the format.")  # fmt: skip
@click.option("--dtype", type=click.Choice(["float32", "int16", "int8", "int4"]), help="C: numbers "
              "of the model.  Default: what train --fit-into chose, else float32.")  # fmt: skip
@click.option("--name", help="C: prefix of the names in the header file.")
@output_options
def export(
    model: str, to: str, output: str | None, dtype: str | None, name: str | None, as_json: bool
) -> None:
    """Write the model file MODEL for use elsewhere: ONNX, a C99 header, or JSON."""
    if to != "c" and (dtype is not None or name is not None):
        raise click.UsageError("--dtype and --name are for --to c.")
    if output is None:
        from pathlib import Path

        output = str(Path(model).with_suffix(_ENDINGS[to]))
    check_writable(output)
    fitted, _ = load_model(model)
    from polymargin.export import export_model

    options = {k: v for k, v in (("dtype", dtype), ("name", name)) if v is not None}
    try:
        with progress("exporting"), writing(output):
            done = export_model(fitted, output, to=to, **options)
    except ImportError as error:
        raise ToolError(" ".join(str(error).split())) from error
    record: dict[str, Any] = {
        "command": "export",
        "model": model,
        "to": to,
        "output": str(done.path),
    }
    record |= {"bytes": done.bytes, "notes": list(done.notes)}
    for note in done.notes:
        say(note)
    emit(record, as_json, lambda: f"{record['output']}  {size_text(done.bytes)}")
