"""Labels as users have them, as an array that scikit-learn takes without changing a label.

pandas' nullable integers and truth values would become floats on the way, in which whole numbers
above 2**53 are no longer told apart; hidden values of masked arrays would become labels.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["plain_labels", "refuse_masked"]


def refuse_masked(name: str, values: Any) -> None:
    """Refuse a masked array that hides values: what is below the mask would be used."""
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        row = int(np.argwhere(np.ma.getmaskarray(values))[0][0])
        raise ValueError(
            f"{name}: a value of row {row} is masked, that is missing; fill it "
            f"({name}.filled(...)) or drop the row."
        )


def plain_labels(y: Any) -> Any:
    """``y``, or the same labels without pandas' types; missing and mixed ones are refused."""
    refuse_masked("y", y)
    kind = getattr(getattr(y, "dtype", None), "kind", None)
    if hasattr(y, "to_numpy") and not isinstance(getattr(y, "dtype", None), np.dtype):
        if kind in ("i", "u", "b") and not _count_missing(y):
            return y.to_numpy(dtype={"i": np.int64, "u": np.uint64, "b": np.bool_}[kind])
        y = y.to_numpy()
    kind = getattr(getattr(y, "dtype", None), "kind", None)
    if kind == "T":  # texts of any length
        y, kind = y.astype(object), "O"
    if kind == "O" and getattr(y, "ndim", 0) == 1:
        y = _plain_objects(np.asarray(y, dtype=object))
    elif isinstance(y, list | tuple) and len(set(map(type, y))) > 1:
        _refuse_missing(y)  # beside texts NumPy would make the text "nan" of it
    if isinstance(y, list | tuple) and y and not isinstance(y[0], _PLAIN) and np.ndim(y[0]) == 0:
        y = _plain_objects(np.fromiter(y, dtype=object, count=len(y)))
    return y


_PLAIN = (str, bytes, int, float, complex, np.generic)


def _plain_objects(y: np.ndarray) -> np.ndarray:
    """Numbers and truth values in an array of objects as such; texts as they are."""
    _check_objects(y)
    if not len(y) or isinstance(y[0], str | bytes):
        return y
    if all(isinstance(label, bool | int | float | np.number | np.bool_) for label in y):
        values = np.array(y.tolist())
        if values.dtype.kind in "biuf":
            return values
    raise ValueError(
        f"y: labels of type {type(y[0]).__name__} are neither text, numbers of 64 bits nor "
        "truth values; make them text: [str(label) for label in y]."
    )


def _count_missing(y: Any) -> int:
    return int(y.isna().sum()) if hasattr(y, "isna") else 0


def _refuse_missing(y: Iterable[Any]) -> None:
    for row, label in enumerate(y):
        is_missing = label is None or type(label).__name__ in ("NAType", "NaTType")
        if is_missing or (isinstance(label, float) and label != label):
            raise ValueError(f"y: the label of row {row} is missing; fill it in or drop the row.")


def _check_objects(y: np.ndarray) -> None:
    _refuse_missing(y)
    kinds: dict[str, int] = {}
    for row, label in enumerate(y):
        kinds.setdefault("str" if isinstance(label, str) else type(label).__name__, row)
    if len(kinds) > 1 and "str" in kinds:
        shown = ", ".join(f"{kind} in row {row}" for kind, row in list(kinds.items())[:3])
        raise ValueError(
            f"y: labels are of several types ({shown}); make them all text: "
            "[str(label) for label in y]."
        )
