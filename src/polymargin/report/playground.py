"""What a page needs to be played with: a few examples, the exported model, both as small numbers.

The script of the page runs the model on rows that readers change.  Numbers travel as float32, zlib
and base64.  Rows whose label float32 would change are left out, so that the script gives every row
in the page the label that Python gave it.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from polymargin.estimators.inspection import (
    Labelled,
    Parts,
    feature_names,
    model_space,
    rows_of,
)
from polymargin.export.model_record import ExportModel
from polymargin.plots.confusion_display import ConfusionDisplay
from polymargin.report.facts import short
from polymargin.report.table_inputs import table_inputs

__all__ = ["play_data"]

# What a page may weigh: a hundred MNIST prototypes fit, and the whole stays below 1 MB.
_MODEL_BYTES = 420_000
_ROW_BYTES = 180_000
_MOST_ROWS = 400
_MOST_FEATURES = 3000
_MOST_NAMED = 3000
_PER_ERROR, _PER_CLASS, _PER_PROTOTYPE = 8, 6, 6
_MOST_SLIDERS = 24
_RANGE_ROWS = 5000
_TIE = 1e-9  # leads below this share of the scores depend on the order of summation


def play_data(
    model: Any,
    parts: Parts,
    examples: Labelled,
    names: list[str],
    shape: tuple[int, int] | None,
    confusion: ConfusionDisplay,
    winner: np.ndarray | None,
) -> dict[str, Any]:
    """Examples by cell and prototype, and the model that scores them.

    Parameters
    ----------
    model, parts, examples, names
        The model, taken apart; the measured examples; the names of their columns.
    shape : (rows, columns) of images, or None
    confusion : ConfusionDisplay
        Its labels are the classes, then labels that the model does not know.
    winner : (n,) number of the prototype that wins each example, or None
    """
    place = {label: k for k, label in enumerate(confusion.labels.tolist())}
    own = np.array([place[label] for label in examples.y.tolist()])
    predicted = np.array([place[label] for label in examples.predicted.tolist()])
    chosen = _choose(examples, own, predicted, winner)
    record, space, reason = _exported(model, parts)
    rows = None
    if examples.X.shape[1] <= _MOST_FEATURES:
        rows = _rows(parts, examples.X, chosen, space)
    if record is not None and (rows is None or _weight(record) > _MODEL_BYTES):
        record, reason = None, "The model is too large to run inside this page."
    if record is not None and rows is not None:
        record = _single(record)
        clear = _clear(record.scores(rows), predicted[chosen])
        chosen, rows = chosen[clear], rows[clear]
    if rows is not None:
        while len(rows) > 1 and len(packed(rows)["data"]) > _ROW_BYTES:
            chosen, rows = chosen[: len(chosen) // 2], rows[: len(rows) // 2]
    if space == "model" and rows is not None:
        names, shape = feature_names(parts, names, rows.shape[1]), None
    index = getattr(examples.X, "index", None)
    return {
        "labels": [short(str(label), 40) for label in confusion.labels.tolist()],
        "shape": shape,
        "reason": reason,
        "space": space,
        "model": None if record is None else _model(record),
        "support": None if record is None else _support_rows(record, parts.last),
        "examples": {
            "name": [str(i if index is None else index[i]) for i in chosen.tolist()],
            "true": own[chosen].tolist(),
            "predicted": predicted[chosen].tolist(),
            "winner": None if winner is None else winner[chosen].tolist(),
            "rows": None if rows is None else packed(rows),
        },
        "features": None if rows is None else _features(record, parts, examples, names, space),
    }


def packed(values: Any) -> dict[str, Any]:
    """An array as float32 (least significant byte first), zlib, base64."""
    array = np.asarray(values, dtype="<f4")
    text = base64.b64encode(zlib.compress(array.tobytes(), 9)).decode("ascii")
    return {"shape": array.shape, "data": text}


# -- examples ----------------------------------------------------------------------------------


def _choose(
    examples: Labelled, own: np.ndarray, predicted: np.ndarray, winner: np.ndarray | None
) -> np.ndarray:
    """Rows to show: the hardest of every kind of error, then of every class and prototype."""
    margin = examples.margins if examples.margins is not None else np.zeros(len(own))
    hard = np.argsort(margin, kind="stable")
    wrong = own != predicted
    width = int(max(own.max(), predicted.max())) + 1
    groups = [_first(hard[wrong[hard]], (own * width + predicted), _PER_ERROR)]
    easy = hard[~wrong[hard]][::-1]  # what a class or a prototype looks like
    groups.append(_first(hard[~wrong[hard]], own, _PER_CLASS // 2))
    groups.append(_first(easy, own, _PER_CLASS // 2))
    if winner is not None:
        groups.append(_first(easy, winner, _PER_PROTOTYPE))
    order = dict.fromkeys(int(i) for group in groups for i in group)
    return np.array(list(order)[:_MOST_ROWS], dtype=np.intp)


def _first(rows: np.ndarray, key: np.ndarray, most: int) -> Iterable[int]:
    """The first rows of every key, in turns: each key's first, then each key's second, ..."""
    turns: list[list[int]] = [[] for _ in range(most)]
    seen: dict[int, int] = {}
    for i in rows.tolist():
        turn = seen.get(int(key[i]), 0)
        if turn < most:
            turns[turn].append(i)
            seen[int(key[i])] = turn + 1
    return [i for turn in turns for i in turn]


def _rows(parts: Parts, X: Any, chosen: np.ndarray, space: str) -> np.ndarray | None:
    """Rows as the embedded model reads them, in the precision of the page."""
    try:
        if space == "input":
            rows = rows_of(X, chosen)
        else:
            rows = rows_of(model_space(parts, _safe_indexing(X, chosen)), slice(None))
    except (TypeError, ValueError):
        return None  # words among the features
    rows = rows.astype(np.float32).astype(np.float64)
    return rows if np.isfinite(rows).all() and rows.shape[1] <= _MOST_FEATURES else None


# -- model -------------------------------------------------------------------------------------


def _exported(model: Any, parts: Parts) -> tuple[ExportModel | None, str, str]:
    """The record of the whole, or of the classifier behind steps that a row of numbers skips."""
    reason = ""
    try:
        record = ExportModel.from_estimator(model)
        record.refuse_sum("a page")
        if record.encoding is None and record.normalizer is None:
            return record, "input", ""
    except ValueError as error:
        reason = str(error)
    if parts.steps:
        try:
            record = ExportModel.from_estimator(parts.last)
            record.refuse_sum("a page")
            return record, "model", ""
        except ValueError as error:
            reason = str(error)
    return None, "input", reason.removeprefix("model: ")


def _weight(record: ExportModel) -> int:
    numbers = record.vectors.size
    numbers += 0 if record.coefficients is None else record.coefficients.size
    return 5 * numbers  # float32 and base64, a little compressed


def _clear(scores: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Whether the label wins by more than the order of summation can change."""
    top = np.sort(scores, axis=1)[:, -2:]
    lead = top[:, 1] - top[:, 0]
    return (scores.argmax(axis=1) == label) & (lead > _TIE * (1.0 + np.abs(top).max(axis=1)))


def _single(record: ExportModel) -> ExportModel:
    """The record with the numbers that the page will have."""

    def single(values: Any) -> Any:
        return None if values is None else np.asarray(values, np.float32).astype(np.float64)

    scaling = record.scaling
    if scaling is not None:
        numbers = (scaling.shift, scaling.scale, scaling.low, scaling.high)
        scaling = type(scaling)(*map(single, numbers))
    return replace(
        record,
        scaling=scaling,
        vectors=single(record.vectors),
        intercepts=np.array([float(f"{b:.9g}") for b in record.intercepts]),  # written as text
        coefficients=single(record.coefficients),
    )


def _model(record: ExportModel) -> dict[str, Any]:
    """The fields of the JSON export that scores need, their tables packed."""
    scaling, tau = record.scaling, record.coefficients
    scaler = None
    if scaling is not None:
        scaler = {
            name: None if getattr(scaling, name) is None else packed(getattr(scaling, name))
            for name in ("shift", "scale", "low", "high")
        }
    return {
        "n_classes": record.n_classes,
        "kernel": record.kernel,
        "gamma": record.gamma,
        "degree": record.degree,
        "coef0": record.coef0,
        "temperature": record.temperature,
        "scaler": scaler,
        "vectors": packed(record.vectors),
        "coefficients": None if tau is None else packed(tau),
        "intercepts": record.intercepts.tolist(),
        "prototype_class": record.prototype_class.tolist(),
    }


def _support_rows(record: ExportModel, last: Any) -> list[int] | None:
    """Numbers of the training rows that are support vectors, as ``explain`` calls them."""
    rows = getattr(last, "support_", None)
    if record.is_linear or rows is None or len(rows) != len(record.vectors):
        return None
    return np.asarray(rows).tolist()


def _features(
    record: ExportModel | None, parts: Parts, examples: Labelled, names: list[str], space: str
) -> dict[str, Any] | None:
    """Names and ranges of the features, and which of them get a slider."""
    some = np.linspace(0, examples.X.shape[0] - 1, min(examples.X.shape[0], _RANGE_ROWS))
    rows = _rows(parts, examples.X, np.unique(some.astype(np.intp)), space)
    if rows is None:
        return None
    low, high = rows.min(axis=0), rows.max(axis=0)
    d = rows.shape[1]
    sliders = np.arange(d)
    if d > _MOST_SLIDERS:
        spread = rows.std(axis=0)
        if record is not None and record.is_linear:
            scale = 1.0 if record.scaling is None else record.scaling.scale
            W = np.vstack([record.vectors, 0.0 * record.vectors[:1]])
            spread = spread * scale * np.ptp(W, axis=0)
        sliders = np.sort(np.argsort(-spread, kind="stable")[:_MOST_SLIDERS])
    return {
        "name": [short(name, 40) for name in names] if d <= _MOST_NAMED else None,
        "low": packed(low),
        "high": packed(high),
        "whole": (rows == np.round(rows)).all(axis=0).astype(int).tolist(),
        "sliders": sliders.tolist(),
        "table": table_inputs(parts, rows) if space == "model" else None,
    }
