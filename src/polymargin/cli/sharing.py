"""``polymargin export``, ``report``, ``demo`` and ``completion``."""

from __future__ import annotations

from typing import Any

import click

from polymargin.cli.common import (
    ToolError,
    check_writable,
    data_options,
    emit,
    load_model,
    output_options,
    progress,
    read,
    say,
    size_text,
    take_data_options,
    wanted_by,
    writing,
)

__all__ = ["completion", "demo", "export", "report"]

_ENDINGS = {"onnx": ".onnx", "c": ".h", "json": ".json"}


@click.command(short_help="A model as ONNX, C or JSON.")
@click.argument("model")
@click.option("--to", type=click.Choice(["onnx", "c", "json"]), required=True, help="Format.")
@click.option("-o", "--output", metavar="FILE", help="File to write.  Default: MODEL with the "
              "ending of the format.")  # fmt: skip
@click.option("--dtype", type=click.Choice(["float32", "int16", "int8"]), help="C: numbers of the "
              "model.  Default: float32.")  # fmt: skip
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


@click.command(short_help="A page about a model on DATA.")
@click.argument("model")
@click.argument("data")
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
    from polymargin.cli.using import rows_for

    X = rows_for(fitted, found.X, slice(None))
    from polymargin.report.page import write_report

    with progress("writing the report"), writing(output):
        write_report(fitted, X, y, output, title=title, feature_names=found.feature_names)
    from pathlib import Path

    size = Path(output).stat().st_size
    record = {"command": "report", "model": model, "data": data, "output": output, "bytes": size}
    emit(record, as_json, lambda: f"{output}  {size_text(size)}")


@click.command(short_help="A first tour on embedded data.")
@click.option("-o", "--output", metavar="FILE", default="polymargin-demo.html", show_default=True,
              help="HTML page to write.")  # fmt: skip
@output_options
def demo(output: str, as_json: bool) -> None:
    """Train a multi-prototype model and baselines on embedded handwritten digits.

    Prints error, model size and time per prediction of each, and writes a page about the
    multi-prototype model.
    """
    check_writable(output)
    from polymargin.cli.demo import run

    with writing(output):
        record = run(output, say, not as_json)
    if as_json:
        emit({"command": "demo"} | record, True, str)


_SHELLS = {
    "bash": 'eval "$(_POLYMARGIN_COMPLETE=bash_source polymargin)"',
    "zsh": 'eval "$(_POLYMARGIN_COMPLETE=zsh_source polymargin)"',
    "fish": "_POLYMARGIN_COMPLETE=fish_source polymargin | source",
}


@click.command(short_help="Completion for your shell.")
@click.argument("shell", type=click.Choice(list(_SHELLS)))
def completion(shell: str) -> None:
    """Print the line that turns on completion; add it to the start-up file of your shell."""
    click.echo(_SHELLS[shell])
