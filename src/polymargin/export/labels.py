"""Labels as the formats know them: whole numbers, floats, booleans or text."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Label", "fits_int64", "labels_of"]

Label = int | float | bool | str

_KINDS: dict[str, tuple[type, ...]] = {
    "bool": (bool, np.bool_),
    "int": (int, np.integer),
    "float": (float, np.floating),
    "str": (str,),
}
_PYTHON: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}


def labels_of(classes: Any) -> tuple[str, tuple[Label, ...]]:
    """The kind of the labels ("int", "float", "bool" or "str") and the labels as plain Python.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        ``classes_`` of a fitted model.
    """
    values = list(classes)
    for kind, types in _KINDS.items():
        if all(isinstance(value, types) for value in values):
            labels = tuple(_PYTHON[kind](value) for value in values)
            if kind == "str":
                _check_text(labels)
            return kind, labels
    names = sorted({type(value).__name__ for value in values})
    raise ValueError(
        f"classes: labels of type {', '.join(names)} cannot be exported; train with integers, "
        "floats, booleans or text (y.astype(str), say)."
    )


def _check_text(labels: tuple[Any, ...]) -> None:
    for label in labels:
        try:
            label.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"classes: the label {label!r} is no valid Unicode text and cannot be written as "
                "UTF-8; rename it."
            ) from error


def fits_int64(labels: tuple[Label, ...]) -> bool:
    """Whether every label is a whole number that 64 bits can hold."""
    limit = np.iinfo(np.int64)
    return all(
        not isinstance(label, str)
        and np.isfinite(label)
        and float(label).is_integer()
        and limit.min <= int(label) <= limit.max
        for label in labels
    )
