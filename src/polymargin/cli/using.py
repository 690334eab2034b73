"""``polymargin predict``, ``evaluate`` and ``info``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
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
    table,
    take_data_options,
    wanted_by,
    writing,
)

__all__ = ["evaluate", "info", "predict"]

_BLOCK = 1 << 14


def rows_for(model: Any, X: Any, rows: slice) -> Any:
    """Some rows; dense where the model's scaler centres them."""
    from polymargin.cli.describe import parts_of

    part = X[rows]
    first = parts_of(model)[1]
    centres = getattr(first, "with_mean", False) or type(first).__name__ == "MinMaxScaler"
    return part.toarray() if hasattr(part, "nnz") and centres else part


def outputs(model: Any, X: Any, scores: bool) -> Iterator[tuple[Any, Any]]:
    """Labels and scores of blocks of rows."""
    from polymargin.cli.fitting import blocks

    n = X.shape[0]
    score = getattr(model, _score_method(model)) if scores else None
    with progress("predicting") as line:
        for rows in blocks(n, _BLOCK):
            part = rows_for(model, X, rows)
            yield model.predict(part), score(part) if score is not None else None
            line.set(rows.stop, n)


def _score_method(model: Any) -> str:
    """The decision function, or the probabilities of a calibrated model, which has none."""
    for name in ("decision_function", "predict_proba"):
        if hasattr(model, name):
            return name
    raise ToolError("--scores: the model has neither scores nor probabilities")


@click.command(short_help="Labels of the rows of DATA.")
@click.argument("model")
@click.argument("data")
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
    import io

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


def score_names(model: Any) -> list[str]:
    """Headings of the scores, or of the probabilities that a calibrated model has instead."""
    classes = model.classes_.tolist()
    if _score_method(model) == "predict_proba":
        return [f"probability_{label}" for label in classes]
    return [f"score_{classes[1]}"] if len(classes) == 2 else [f"score_{label}" for label in classes]


def _json_lines(model: Any, X: Any, scores: bool) -> Iterator[str]:
    import json

    labels: list[Any] = []
    values: list[Any] = []
    for some, more in outputs(model, X, scores):
        labels += some.tolist()
        if more is not None:
            values += more.tolist()
    record: dict[str, Any] = {"command": "predict", "classes": model.classes_.tolist()}
    record["labels"] = labels
    if scores:
        is_probability = _score_method(model) == "predict_proba"
        record["probabilities" if is_probability else "scores"] = values
    yield json.dumps(record, ensure_ascii=False) + "\n"


# -- evaluate ----------------------------------------------------------------------------------


@click.command(short_help="Error of a model on DATA.")
@click.argument("model")
@click.argument("data")
@data_options
@output_options
def evaluate(model: str, data: str, as_json: bool, **options: Any) -> None:
    """Compare the labels of DATA with those that the model file MODEL predicts."""
    fitted, header = load_model(model)
    found = read(data, take_data_options(options), wanted_by(fitted, header))
    try:
        truth = found.labels_among(fitted.classes_)
    except ValueError as error:
        raise ToolError(f"{data}: {error}") from error
    record = {"command": "evaluate", "model": model, "data": data}
    record |= evaluation(fitted, found.X, truth)
    emit(record, as_json, lambda: evaluation_text(record))


def evaluation(model: Any, X: Any, truth: Any) -> dict[str, Any]:
    """Error, balanced accuracy, figures per class and the confusion matrix."""
    import numpy as np

    labels = np.concatenate([some for some, _ in outputs(model, X, False)])
    classes = model.classes_
    guess = np.searchsorted(classes, labels)
    Q = len(classes)
    confusion = np.bincount(Q * truth + guess, minlength=Q * Q).reshape(Q, Q)
    hits, support, claimed = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    nan = np.full(Q, np.nan)
    recall = np.divide(hits, support, out=nan.copy(), where=support > 0)
    precision = np.divide(hits, claimed, out=nan.copy(), where=claimed > 0)
    both = support + claimed
    f1 = np.divide(2.0 * hits, both, out=nan.copy(), where=both > 0)
    rows = len(truth)
    error = 1.0 - float(hits.sum()) / rows
    return {
        "rows": rows,
        "error": error,
        "errors": int(rows - hits.sum()),
        "accuracy": 1.0 - error,
        "balanced_accuracy": float(np.nanmean(recall)),
        "macro_f1": float(np.mean(f1[both > 0])),
        "classes": classes.tolist(),
        "per_class": [
            {
                "label": label,
                "precision": float(precision[k]),
                "recall": float(recall[k]),
                "f1": float(f1[k]),
                "support": int(support[k]),
            }
            for k, label in enumerate(classes.tolist())
        ],
        "confusion_matrix": confusion.tolist(),
    }


def evaluation_text(record: dict[str, Any]) -> str:
    """The same for people."""
    rows = [
        ["error", f"{100 * record['error']:.2f} %  ({record['errors']} of {record['rows']})"],
        ["balanced accuracy", f"{100 * record['balanced_accuracy']:.2f} %"],
        ["macro F1", f"{record['macro_f1']:.4f}"],
    ]
    text = [table(rows), ""]
    each = [["class", "precision", "recall", "F1", "rows"]]
    for one in record["per_class"]:
        figures = [_share(one[name]) for name in ("precision", "recall", "f1")]
        each.append([str(one["label"]), *figures, str(one["support"])])
    text += [table(each, [False, True, True, True, True]), ""]
    labels = [str(label) for label in record["classes"]]
    if len(labels) <= 30:
        matrix = [["true \\ predicted", *labels]]
        for label, counts in zip(labels, record["confusion_matrix"], strict=True):
            matrix.append([label, *(str(count) if count else "." for count in counts)])
        text.append(table(matrix, [False] + [True] * len(labels)))
    else:
        text.append(_worst_pairs(labels, record["confusion_matrix"]))
    return "\n".join(text)


def _share(value: float) -> str:
    return "-" if value != value else f"{value:.4f}"


def _worst_pairs(labels: list[str], confusion: list[list[int]]) -> str:
    """The most frequent confusions, where the matrix would not fit on a screen."""
    pairs = [
        (count, labels[k], labels[l])
        for k, row in enumerate(confusion)
        for l, count in enumerate(row)
        if k != l and count
    ]
    pairs.sort(key=lambda pair: -pair[0])
    rows = [["true", "predicted", "rows"]]
    rows += [[a, b, str(count)] for count, a, b in pairs[:20]]
    return table(rows, [False, False, True]) + "\n(the whole matrix: --json)"


# -- info --------------------------------------------------------------------------------------


@click.command(short_help="What a model file holds.")
@click.argument("model")
@output_options
def info(model: str, as_json: bool) -> None:
    """Print what the model file MODEL holds: machine, classes, features, certificate, sizes."""
    from polymargin.cli.describe import model_record, model_text

    fitted, header = load_model(model)
    record = {"command": "info", "model": model} | model_record(fitted)
    facts = ("format", "library", "libraries", "file_bytes", "checksum", "feature_names")
    record |= {name: header.get(name) for name in (*facts, "label_name")}
    emit(record, as_json, lambda: model_text(record, header))
