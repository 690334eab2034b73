"""Patterns that are no vectors: strings, graphs, any objects that a callable kernel compares.

They travel as an (n, 1) array of objects, so that everything that picks rows by number works as
with vectors; only the kernel looks inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["ObjectKernel", "as_object_rows", "holds_objects"]


@dataclass(frozen=True)
class ObjectKernel:
    """The function of a user, who gets two lists of objects instead of two arrays of rows."""

    function: Callable[[list[Any], list[Any]], Any]

    def __call__(self, A: np.ndarray, B: np.ndarray) -> Any:
        return self.function(list(A[:, 0]), list(B[:, 0]))


def holds_objects(X: Any) -> bool:
    """Whether X is a sequence of patterns that are no vectors.

    A list or tuple whose first element is no number and no list, tuple or array; or an array (or
    column of a table) of one dimension that holds no numbers.
    """
    if sp.issparse(X):
        return False
    if isinstance(X, list | tuple):
        return bool(X) and _is_object(X[0])
    kind, shape = getattr(getattr(X, "dtype", None), "kind", None), np.shape(X)
    if len(shape) == 1:
        return kind is None or kind in "OSU"
    is_column = len(shape) == 2 and shape[1] == 1 and shape[0] > 0 and kind == "O"
    return is_column and isinstance(X, np.ndarray) and not _is_number(X[0, 0])


def _is_object(one: Any) -> bool:
    return not _is_number(one) and not isinstance(one, list | tuple) and np.ndim(one) == 0


def _is_number(one: Any) -> bool:
    return isinstance(one, int | float | complex | np.number | np.bool_)


def as_object_rows(X: Any) -> np.ndarray:
    """The patterns as an (n, 1) array; one that is already is returned as it is."""
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == 1 and X.dtype == object:
        return X
    patterns = list(X)
    rows = np.empty((len(patterns), 1), dtype=object)
    for i, pattern in enumerate(patterns):  # an assignment of all would take sequences apart
        rows[i, 0] = pattern
    return rows
