"""Whether the labels of a table name classes."""

from __future__ import annotations

import math
from typing import Any

from polymargin.cli.application import ToolError
from polymargin.cli.messages import say

__all__ = ["check_classes", "warn_of_scales"]


_SCALE_RATIO = 1000.0  # between deviations of features from which the small ones are lost
_FEW_ROWS = 20  # tables below may be toys with one example of each class; they are trained


def check_classes(found: Any) -> None:
    """Labels that name classes: at least two, no continuous number, no identifier of the rows."""
    n, Q = found.X.shape[0], len(found.labels)
    if Q < 2:
        raise ToolError(
            f"training needs at least two classes; all {n} rows have the label {found.labels[0]!r}"
        )
    column = "the label column" + (f" {found.label_name!r}" if found.label_name else "")
    if (fraction := fractional_label(found.labels)) is not None:
        raise ToolError(
            f"{column} holds continuous numbers ({Q} different ones in {n} rows, such as "
            f"{fraction}), not classes; name another column with --label, or round or bin the "
            "numbers first (a letter in front makes each of them a class)"
        )
    if n == Q and n >= _FEW_ROWS:
        raise ToolError(
            f"{column} has a different value in each of the {n} rows: it looks like an identifier, "
            "not a class; name another column with --label"
        )
    if n < 2 * Q:
        say(
            f"warning: {column} has {Q} different values in {n} rows: it may be an identifier or "
            "a number to round or bin; name another column with --label"
        )


def warn_of_scales(found: Any, scale: str) -> None:
    """Say that features differ much in size where they are not scaled."""
    if scale != "none" or hasattr(found.X, "nnz") or found.X.dtype == object:
        return
    spread = found.X.std(axis=0)
    spread = spread[spread > 0]
    if len(spread) > 1 and spread.max() > _SCALE_RATIO * spread.min():
        say(
            f"warning: features differ {spread.max() / spread.min():.2g}-fold in size and --scale "
            "none leaves them so: the small ones hardly count (--scale standard)"
        )


def fractional_label(labels: list[str]) -> str | None:
    """The first label with a fraction where all labels are finite numbers, else None.

    That is the rule of scikit-learn's ``check_classification_targets``, by which ``fit`` refuses
    continuous targets; labels of a file are text, which it would let pass.
    """
    try:
        values = [float(text) for text in labels]
    except ValueError:
        return None
    if not all(map(math.isfinite, values)):
        return None
    return next((t for t, v in zip(labels, values, strict=True) if not v.is_integer()), None)
