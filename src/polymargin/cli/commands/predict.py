"""``polymargin predict``."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from typing import Any

import click

from polymargin.cli.files import check_writable, load_model, read, wanted_by, writing
from polymargin.cli.messages import say
from polymargin.cli.options import data_argument, data_options, output_options, take_data_options
from polymargin.cli.predictions import outputs, score_method, score_names

__all__ = ["predict"]


@click.command(short_help="Labels of the rows of DATA.")
@click.argument("model")
@data_argument
@click.option("-o", "--output", metavar="FILE", help="Where the labels go.  Default: standard "
              "output.")  # fmt: skip
@click.option("--scores", is_flag=True, help="Also the score of every class, as CSV with a header "
              "(two classes: one score, of the second minus the first; calibrated models: "
              "probabilities).")  # fmt: skip
@data_options
@output_options
def predict(
    model: str, data: str, output: str | None, scores: bool, as_json: bool, **options: Any
) -> None:
    """Predict the labels of the rows of DATA with the model file MODEL.

    One label per line.  Columns are matched by name where the model and DATA have names; otherwise
    by place, where one column more than the model knows is taken for the label and left out.
    """
    check_writable(output)
    fitted, header = load_model(model)
    found = read(data, take_data_options(options), wanted_by(fitted, header), need_label=False)
    lines = _json_lines if as_json else _text_lines
    if output is None:
        for text in lines(fitted, found.X, scores):
            sys.stdout.write(text)
        return
    from polymargin.storage.atomic import atomic_file

    with writing(output), atomic_file(output) as file:
        for text in lines(fitted, found.X, scores):
            file.write(text.encode())
    say(f"{found.X.shape[0]} labels written to {output}")


def _text_lines(model: Any, X: Any, scores: bool) -> Iterator[str]:
    import csv

    if not scores:
        for labels, _ in outputs(model, X, False):
            yield "".join(f"{label}\n" for label in labels.tolist())
        return
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["label", *score_names(model)])
    for labels, values in outputs(model, X, True):
        for label, row in zip(labels.tolist(), values.reshape(len(labels), -1), strict=True):
            writer.writerow([label, *(repr(v) for v in row.tolist())])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def _json_lines(model: Any, X: Any, scores: bool) -> Iterator[str]:

    labels: list[Any] = []
    values: list[Any] = []
    for some, more in outputs(model, X, scores):
        labels += some.tolist()
        if more is not None:
            values += more.tolist()
    record: dict[str, Any] = {"command": "predict", "classes": model.classes_.tolist()}
    record["labels"] = labels
    if scores:
        is_probability = score_method(model) == "predict_proba"
        record["probabilities" if is_probability else "scores"] = values
    yield json.dumps(record, ensure_ascii=False) + "\n"
