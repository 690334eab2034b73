"""``polymargin evaluate``."""

from __future__ import annotations

from typing import Any

import click

from polymargin.cli.application import ToolError
from polymargin.cli.decisions import Asked
from polymargin.cli.files import load_model, read, wanted_by
from polymargin.cli.messages import emit, say, table
from polymargin.cli.options import data_argument, data_options, output_options, take_data_options
from polymargin.cli.predictions import outputs

__all__ = ["evaluate"]


@click.command()
@click.argument("model")
@data_argument
@click.option(
    "--cost",
    metavar="FILE",
    help="Also print the mean cost: CSV matrix of what it costs to say one class (column) when "
    "another (row) is true.",
)
@data_options
@output_options
def evaluate(model: str, data: str, cost: str | None, as_json: bool, **options: Any) -> None:
    """Compare the labels of DATA with those that the model file MODEL predicts."""
    from polymargin.cli.cost_file import read_costs

    fitted, header = load_model(model)
    found = read(data, take_data_options(options), wanted_by(fitted, header))
    try:
        truth = found.labels_among(fitted.classes_)
    except ValueError as error:
        raise ToolError(f"{data}: {error}") from error
    record: dict[str, Any] = {"command": "evaluate", "model": model, "data": data}
    costs = None if cost is None else read_costs(cost, fitted.classes_)
    record |= evaluation(fitted, found.X, truth)
    if costs is not None:
        record["mean_cost"] = mean_cost(costs.matrix, record["confusion_matrix"])
    _warn(record)
    emit(record, as_json, lambda: evaluation_text(record))


def evaluation(model: Any, X: Any, truth: Any) -> dict[str, Any]:
    """Error, balanced accuracy, figures per class and the confusion matrix."""
    import numpy as np

    asked = Asked(probabilities=hasattr(model, "predict_proba"))
    found = list(outputs(model, X, asked))
    classes = model.classes_
    labels = np.concatenate([np.asarray(one["labels"], dtype=classes.dtype) for one in found])
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
        **(_probability_figures(found, guess, truth) if asked.probabilities else {}),
    }


def _probability_figures(found: list[dict[str, Any]], guess: Any, truth: Any) -> dict[str, float]:
    """Log loss and expected calibration error of the probabilities."""
    import numpy as np

    from polymargin.estimators.temperature import expected_calibration_error, log_loss_of

    P = np.concatenate([np.asarray(one["probabilities"]) for one in found])
    return {
        "log_loss": log_loss_of(P, truth),
        "calibration_error": expected_calibration_error(P, guess == truth),
    }


def mean_cost(costs: Any, confusion: Any) -> float:
    """Mean cost of an example, from counts [true, predicted]."""
    import numpy as np

    counts = np.asarray(confusion, dtype=np.float64)
    return float((counts * costs).sum() / counts.sum())


def _warn(record: dict[str, Any]) -> None:
    """Classes that are never predicted although rows have them."""
    claimed = [sum(column) for column in zip(*record["confusion_matrix"], strict=True)]
    each = zip(record["per_class"], claimed, strict=True)
    never = [str(one["label"]) for one, count in each if not count and one["support"]]
    if never:
        shown = ", ".join(never[:8]) + (", ..." if len(never) > 8 else "")
        say(f"warning: never predicted although rows have it: {shown}")


def evaluation_text(record: dict[str, Any]) -> str:
    """The evaluation as text."""
    rows = [
        ["error", f"{100 * record['error']:.2f} %  ({record['errors']} of {record['rows']})"],
        ["balanced accuracy", f"{100 * record['balanced_accuracy']:.2f} %"],
        ["macro F1", f"{record['macro_f1']:.4f}"],
    ]
    if "mean_cost" in record:
        rows.append(["mean cost", f"{record['mean_cost']:.4g}"])
    if "log_loss" in record:
        rows.append(["log loss", f"{record['log_loss']:.4f}"])
        rows.append(["calibration error", f"{100 * record['calibration_error']:.2f} %"])
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
