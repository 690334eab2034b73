"""What a machine sees of the rows of a set, and the candidates for C that go with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.data import DataSet

__all__ = ["Rows", "as_given", "unit_length", "unit_norm"]


def as_given(X: np.ndarray) -> np.ndarray:
    """The rows themselves."""
    return X


def unit_length(X: np.ndarray) -> np.ndarray:
    """Pixels from -1 (no ink) to 1 as rows of ink, each of length one."""
    ink = X + 1.0
    return ink / np.sqrt(np.einsum("ij,ij->i", ink, ink))[:, None]


def unit_norm(X: np.ndarray) -> np.ndarray:
    """Pixels from 0 (no ink) on, each row of length one."""
    return X / np.sqrt(np.einsum("ij,ij->i", X, X))[:, None]


@dataclass(frozen=True)
class Rows:
    """A name, the function of rows, candidates for C, and the one to begin with."""

    name: str
    of: Callable[[np.ndarray], np.ndarray]
    candidates: tuple[float, ...]
    first: float

    def data(self, data: DataSet) -> DataSet:
        """The set with such rows."""
        return replace(data, X_train=self.of(data.X_train), X_test=self.of(data.X_test))
