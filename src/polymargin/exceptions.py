"""Warnings and file errors; other errors are plain ``ValueError`` with the argument named."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

__all__ = [
    "ClusterError",
    "CollapsedModelWarning",
    "DataFileError",
    "IndefiniteKernelWarning",
    "ModelFileError",
    "NotSeparableWarning",
    "warn_user",
]


class NotSeparableWarning(UserWarning):
    """The hard-margin problem has no solution: the classes cannot be separated."""


class CollapsedModelWarning(UserWarning):
    """The optimal model is (nearly) zero, so that every class gets the same score."""


class IndefiniteKernelWarning(UserWarning):
    """The kernel is not positive semi-definite: a small duality gap proves nothing."""


class ModelFileError(ValueError):
    """A model file that cannot be written or is refused; the message is one line."""


class DataFileError(ValueError):
    """A data file that cannot be understood; the message is one line with the place."""


class ClusterError(RuntimeError):
    """A cluster that cannot go on: no workers, no scheduler, no memory; the message is one line."""


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's own code, however many frames of ours are in between."""
    ours = (str(Path(__file__).parent), str(Path("sklearn") / "callback"))
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and any(part in frame.f_code.co_filename for part in ours):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
