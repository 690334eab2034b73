"""Labels and scores of a model, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from polymargin.cli.application import ToolError
from polymargin.cli.messages import progress

__all__ = ["outputs", "rows_for", "score_names"]


_BLOCK = 1 << 14  # rows predicted together


def rows_for(model: Any, X: Any, rows: slice) -> Any:
    """Some rows; dense where the model's scaler centres them."""
    from polymargin.cli.model_description import parts_of

    part = X[rows]
    first = parts_of(model)[1]
    centres = getattr(first, "with_mean", False) or type(first).__name__ == "MinMaxScaler"
    return part.toarray() if hasattr(part, "nnz") and centres else part


def outputs(model: Any, X: Any, scores: bool) -> Iterator[tuple[Any, Any]]:
    """Labels and scores of blocks of rows."""
    from polymargin.cli.preprocessing import blocks

    n = X.shape[0]
    score = getattr(model, score_method(model)) if scores else None
    with progress("predicting") as line:
        for rows in blocks(n, _BLOCK):
            part = rows_for(model, X, rows)
            yield model.predict(part), score(part) if score is not None else None
            line.set(rows.stop, n)


def score_method(model: Any) -> str:
    """The decision function, or the probabilities of a calibrated model, which has none."""
    for name in ("decision_function", "predict_proba"):
        if hasattr(model, name):
            return name
    raise ToolError("--scores: the model has neither scores nor probabilities")


def score_names(model: Any) -> list[str]:
    """Headings of the scores, or of the probabilities that a calibrated model has instead."""
    classes = model.classes_.tolist()
    if score_method(model) == "predict_proba":
        return [f"probability_{label}" for label in classes]
    return [f"score_{classes[1]}"] if len(classes) == 2 else [f"score_{label}" for label in classes]
