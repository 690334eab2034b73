"""Models for elsewhere: ONNX, a C99 header and JSON, all written from one record."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polymargin.exceptions import shown
from polymargin.export.c_writer import header_and_notes, to_c
from polymargin.export.json_writer import to_json
from polymargin.export.model_record import ExportModel
from polymargin.export.onnx_writer import to_onnx
from polymargin.export.skl2onnx_converter import register_skl2onnx
from polymargin.export.suffixes import write_whole

__all__ = [
    "ExportModel",
    "Exported",
    "export_model",
    "register_skl2onnx",
    "to_c",
    "to_json",
    "to_onnx",
]

_WRITERS: dict[str, Callable[..., Any]] = {"onnx": to_onnx, "c": to_c, "json": to_json}
_SUFFIXES = {".onnx": "onnx", ".h": "c", ".c": "c", ".json": "json"}


@dataclass(frozen=True)
class Exported:
    """What ``export_model`` wrote.

    Attributes
    ----------
    path : Path
    to : {"onnx", "c", "json"}
    bytes : int
        Size of the file.
    notes : tuple of str
        What a user should know: sizes, types of labels, libraries.
    """

    path: Path
    to: str
    bytes: int
    notes: tuple[str, ...]


def export_model(
    model: Any, path: str | os.PathLike[str], to: str | None = None, **options: Any
) -> Exported:
    """Write a model for use elsewhere; the file is whole or not there.

    Parameters
    ----------
    model : estimator, Pipeline of scalers and estimator, search, or ExportModel
    path : str or path-like
    to : {"onnx", "c", "json"}, optional
        By default what the ending of ``path`` says (.onnx, .h, .json).
    **options
        Of ``to_onnx``, ``to_c`` or ``to_json``.

    Returns
    -------
    Exported
        Path, bytes and notes.

    See Also
    --------
    to_c : C99 as text.
    to_onnx : An ONNX model in memory.
    to_json : JSON as text.
    save : Model files for Python.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, export_model
    >>> model = MulticlassSVC().fit(*load_iris(return_X_y=True))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_model(model, f"{folder}/iris.h").to
    'c'
    """
    target = Path(path)
    if to is None:
        to = _SUFFIXES.get(target.suffix.lower())
        if to is None:
            raise ValueError(
                f"path: cannot infer a format from the suffix {target.suffix!r}; use .onnx, .h or "
                ".json, or give to='onnx', 'c' or 'json'."
            )
    if to not in _WRITERS:
        raise ValueError(f"to must be one of {tuple(_WRITERS)}, got {shown(to)}.")
    record = ExportModel.from_estimator(model)
    notes: list[str] = []
    if to == "c":
        if record.encoding is not None:
            record.encoding.check_words("C")
        text, notes = header_and_notes(record, **options)
        write_whole(target, text.encode("ascii"))
    else:
        _WRITERS[to](record, target, **options)
    return Exported(target, to, target.stat().st_size, (*notes, *_notes(record, to)))


def _notes(record: ExportModel, to: str) -> list[str]:
    notes = []
    if record.encoding is not None and to != "onnx":
        notes.append(
            f"{len(record.encoding.columns)} columns of a table become {record.n_features} "
            "features: numbers as they are (scaling is folded in; gaps are replaced by the "
            "value that the JSON export names), one 0/1 feature for each value of a category"
            + (", a weight for each word of a text" if record.encoding.has_words else "")
        )
    if to == "onnx" and record.label_type in ("bool", "float"):
        notes.append(f"labels of type {record.label_type} are written as int64")
    if record.n_classes == 2 and to != "json":
        notes.append("two classes: scores are 0 and decision_function")
    return notes
