"""Warnings and file errors; other errors are plain ``ValueError`` with the argument named."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

__all__ = [
    "ClusterError",
    "CollapsedModelWarning",
    "DataFileError",
    "IndefiniteKernelWarning",
    "ModelFileError",
    "NotSeparableWarning",
    "shown",
    "warn_user",
]


class NotSeparableWarning(UserWarning):
    """The hard-margin problem has no solution: the classes cannot be separated.

    See Also
    --------
    MulticlassSVC : A finite C always has a solution.

    Examples
    --------
    >>> import warnings
    >>> from polymargin import MulticlassSVC, NotSeparableWarning
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     model = MulticlassSVC(C=float("inf")).fit([[1.0], [1.0]], [0, 1])
    >>> said[0].category is NotSeparableWarning, model.status_
    (True, 'not_separable')
    """


class CollapsedModelWarning(UserWarning):
    """The optimal model is (nearly) zero, so that every class gets the same score.

    See Also
    --------
    MulticlassSVC : ``class_weight`` and another ``machine`` help.
    ConvexHullSVC : A smaller ``eta`` helps.

    Examples
    --------
    >>> import warnings
    >>> from polymargin import CollapsedModelWarning, MulticlassSVC
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     model = MulticlassSVC().fit([[1.0], [1.0], [1.0]], [0, 1, 2])
    >>> said[0].category is CollapsedModelWarning
    True
    """


class IndefiniteKernelWarning(UserWarning):
    """The kernel is not positive semi-definite: a small duality gap proves nothing.

    See Also
    --------
    Certificate : ``kernel_psd`` says the same.

    Examples
    --------
    >>> import warnings
    >>> from polymargin import IndefiniteKernelWarning, MulticlassSVC
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     model = MulticlassSVC(kernel="sigmoid", gamma=2.0).fit([[0.1], [0.5], [0.9]], [0, 1, 0])
    >>> any(item.category is IndefiniteKernelWarning for item in said)
    True
    """


def in_one_line(text: str) -> str:
    """The text with line breaks and whatever else cannot be shown written as escapes.

    Names of files may hold any character, and bytes that are no text.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class NoScoresError(ValueError):
    """Rows for which a sound model has no finite scores; not a fault of the model."""


def shown(value: Any, most: int = 160) -> str:
    """The repr of a value that was refused, in one line and no longer than ``most``."""
    try:
        text = " ".join(repr(value).split())
    except Exception as error:  # a repr is anybody's code
        text = f"a {type(value).__name__} without a repr ({type(error).__name__})"
    text = in_one_line(text)
    return text if len(text) <= most else f"{text[: most - 4]} ..."


class _FileError(ValueError):
    """An error whose message is one line whatever the names in it are."""

    def __init__(self, message: str = "") -> None:
        super().__init__(in_one_line(message))


class ModelFileError(_FileError):
    """A model file that cannot be written or is refused; the message is one line.

    See Also
    --------
    load : Raises it.
    save : Raises it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from polymargin import ModelFileError, load
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.pm")
    >>> _ = path.write_text("no model")
    >>> try:
    ...     load(path)
    ... except ModelFileError:
    ...     print("refused")
    refused
    """


class DataFileError(_FileError):
    """A data file that cannot be understood; the message is one line with the place.

    See Also
    --------
    open_rows : Raises it.
    datasets.read_data : Raises it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from polymargin import DataFileError
    >>> from polymargin.datasets import read_data
    >>> path = pathlib.Path(tempfile.mkdtemp(), "rows.svm")
    >>> _ = path.write_text("1 1:2 1:x")
    >>> try:
    ...     read_data(path)
    ... except DataFileError:
    ...     print("refused")
    refused
    """


class ClusterError(RuntimeError):
    """A cluster that cannot go on: no workers, no scheduler, no memory; the message is one line.

    See Also
    --------
    dask.DaskMulticlassSVC : Raises it.
    dask.DaskMultiPrototypeSVC : Raises it.

    Examples
    --------
    >>> from polymargin import ClusterError
    >>> try:
    ...     raise ClusterError("all workers are gone")  # what a fit on a cluster does
    ... except RuntimeError as error:
    ...     print(error)
    all workers are gone
    """


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's own code, however many frames of ours are in between."""
    ours = (str(Path(__file__).parent), str(Path("sklearn") / "callback"))
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and any(part in frame.f_code.co_filename for part in ours):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
