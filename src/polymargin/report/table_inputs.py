"""Inputs of a page for the columns of a raw table: sliders for numbers, choices for categories.

The page runs the classifier on encoded features.  An input says which features its column was made
into, and how a value of the column becomes their values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from polymargin.estimators.inspection import Parts
from polymargin.export.table_encoding import EncodedFeature, TableEncoding, encoding_of
from polymargin.report.facts import short

__all__ = ["table_inputs"]

_MOST_INPUTS = 40  # columns that get an input
_WHOLE = 1e-4  # how far single precision may leave whole numbers from being so


def table_inputs(parts: Parts, rows: np.ndarray) -> dict[str, Any] | None:
    """What the page needs for inputs by column; None where the model takes no raw table.

    Parameters
    ----------
    parts : Parts
    rows : (n, d) rows as the classifier sees them; ranges of numbers are theirs.
    """
    encoding = _encoding(parts)
    if encoding is None or len(encoding.features) != rows.shape[1]:
        return None
    names = [name for name, _, _ in encoding.columns]
    origin = [names.index(feature.column) for feature in encoding.features]
    inputs = [
        _input(name, kind, k, encoding, origin, rows)
        for k, (name, kind, _) in enumerate(encoding.columns[:_MOST_INPUTS])
        if kind != "text"
    ]
    return {
        "names": [short(name, 40) for name in names],
        "origin": origin,
        "inputs": inputs,
        "left": len(names) - len(inputs),
    }


def _encoding(parts: Parts) -> TableEncoding | None:
    """The encoding of a Pipeline of ours: columns, encoder, and nothing else."""
    if len(parts.steps) != 1 or not isinstance(parts.steps[0], Pipeline):
        return None
    steps = parts.steps[0].steps
    if len(steps) != 2 or not isinstance(steps[1][1], ColumnTransformer):
        return None
    try:
        return encoding_of(steps)
    except (AttributeError, ValueError):
        return None  # made by hand, with other encoders


def _input(
    name: str,
    kind: str,
    column: int,
    encoding: TableEncoding,
    origin: list[int],
    rows: np.ndarray,
) -> dict[str, Any]:
    mine = [(j, encoding.features[j]) for j, k in enumerate(origin) if k == column]
    found: dict[str, Any] = {"name": short(name, 40), "kind": kind}
    if kind == "category":
        return found | {
            "features": [j for j, _ in mine],
            "values": [_value(feature) for _, feature in mine],
        }
    j = next(j for j, feature in mine if feature.rule == "number")
    gap = next((j for j, feature in mine if feature.rule == "missing"), None)
    shift, scale = float(encoding.scaling.shift[j]), float(encoding.scaling.scale[j])
    values = rows[:, j] / scale + shift
    near = np.abs(values - np.round(values)) <= _WHOLE * (1.0 + np.abs(values))
    found |= {
        "feature": j,
        "shift": shift,
        "scale": scale,
        "low": float(values.min()),
        "high": float(values.max()),
        "whole": bool(near.all()),
        "gap": None,
    }
    if gap is not None:
        low, high = encoding.scaling.shift[gap], encoding.scaling.scale[gap]
        found["gap"] = {"feature": gap, "no": float(-low * high), "yes": float((1.0 - low) * high)}
    return found


def _value(feature: EncodedFeature) -> str:
    if feature.rule == "rare":
        return "(rare)"
    return short(feature.value, 40) or "(missing)"
