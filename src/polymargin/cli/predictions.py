"""Labels, scores, probabilities and sets of a model, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from polymargin.cli.decisions import Asked
from polymargin.cli.messages import progress

__all__ = ["outputs", "rows_for"]


_BLOCK = 1 << 14  # rows predicted together


def rows_for(model: Any, X: Any, rows: slice) -> Any:
    """Some rows; dense where the model's scaler centres them."""
    from polymargin.cli.model_description import parts_of

    part = X[rows]
    first = parts_of(model)[1]
    centres = getattr(first, "with_mean", False) or type(first).__name__ == "MinMaxScaler"
    return part.toarray() if hasattr(part, "nnz") and centres else part


def outputs(model: Any, X: Any, asked: Asked | None = None) -> Iterator[dict[str, Any]]:
    """Labels, and what else was asked for, of blocks of rows."""
    from polymargin.cli.preprocessing import blocks

    asked = Asked() if asked is None else asked
    n = X.shape[0]
    with progress("predicting") as line:
        for rows in blocks(n, _BLOCK):
            yield asked.decide(model, rows_for(model, X, rows))
            line.set(rows.stop, n)
