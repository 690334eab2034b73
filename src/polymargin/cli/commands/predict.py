"""``polymargin predict``."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from typing import Any

import click

from polymargin.cli.decisions import Asked
from polymargin.cli.files import check_writable, load_model, read, wanted_by, writing
from polymargin.cli.messages import say
from polymargin.cli.options import data_argument, data_options, output_options, take_data_options
from polymargin.cli.predictions import outputs

__all__ = ["predict"]


@click.command()
@click.argument("model")
@data_argument
@click.option("-o", "--output", metavar="FILE", help="Where the labels go.  Default: standard "
              "output.")  # fmt: skip
@click.option("--scores", is_flag=True, help="Also the score of every class, as CSV with a header "
              "(two classes: one score, of the second minus the first; calibrated models: "
              "probabilities).")  # fmt: skip
@click.option("--probabilities", is_flag=True, help="Also the probability of every class, of a "
              "model trained with --probabilities.")  # fmt: skip
@click.option("--coverage", type=click.FloatRange(0, 1, min_open=True, max_open=True), help="Also "
              "the set of labels that holds the true one with that probability, of a model trained "
              "with --calibration-folds.")  # fmt: skip
@click.option("--reject-margin", type=click.FloatRange(0), help="Reject rows whose best class "
              "leads the second by no more than this.")  # fmt: skip
@click.option("--reject-label", default="reject", show_default=True, help="Printed for rejected "
              "rows.")  # fmt: skip
@data_options
@output_options
def predict(model: str, data: str, output: str | None, as_json: bool, **options: Any) -> None:
    """Predict the labels of the rows of DATA with the model file MODEL.

    One label per line.  Columns are matched by name where the model and DATA have names; otherwise
    by place, where one column more than the model knows is taken for the label and left out.
    """
    check_writable(output)
    fitted, header = load_model(model)
    reading = take_data_options(options)
    asked = Asked(**options)
    asked.check(fitted)
    found = read(data, reading, wanted_by(fitted, header), need_label=False)
    promise = asked.promise(fitted)
    if promise:
        say(promise)
    lines = _json_lines if as_json else _text_lines
    if output is None:
        for text in lines(fitted, found.X, asked):
            sys.stdout.write(text)
        return
    from polymargin.storage.atomic import atomic_file

    with writing(output), atomic_file(output) as file:
        for text in lines(fitted, found.X, asked):
            file.write(text.encode())
    say(f"{found.X.shape[0]} labels written to {output}")


def _text_lines(model: Any, X: Any, asked: Asked) -> Iterator[str]:
    import csv

    if not asked.has_columns:
        for found in outputs(model, X, asked):
            yield "".join(f"{label}\n" for label in found["labels"])
        return
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["label", *asked.headings(model)])
    for found in outputs(model, X, asked):
        writer.writerows(asked.cells(found))
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def _json_lines(model: Any, X: Any, asked: Asked) -> Iterator[str]:
    record: dict[str, Any] = {"command": "predict", "classes": model.classes_.tolist()}
    for found in outputs(model, X, asked):
        for name, values in found.items():
            record.setdefault(name, []).extend(values)
    yield json.dumps(record, ensure_ascii=False) + "\n"
