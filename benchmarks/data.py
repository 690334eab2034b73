"""Data sets from the directory named by POLYMARGIN_DATA_DIR, scaled and encoded for the benchmarks.

Every file is a NumPy archive ``<name>.npz`` with ``X``, ``y``, ``train_idx`` and ``test_idx``, or,
for text, raw counts in CSR form (``data``, ``indices``, ``indptr``, ``shape``) instead of ``X``.

Features are float64 (the only precision that liblinear and LIBSVM know; only covtype is float32)
and labels are class numbers, so that no conversion is timed that one competitor would need and
another would not.  Scaling uses the training part only.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

from benchmarks.timing import has_memory_watch

__all__ = [
    "DATA_VARIABLE",
    "DataMissingError",
    "DataSet",
    "find",
    "load",
    "load_covtype",
    "thin",
    "why_not_watched",
]

DATA_VARIABLE = "POLYMARGIN_DATA_DIR"

_BLOCK = 16384
_QUICK_TRAIN = 300
_QUICK_TEST = 100


class DataMissingError(Exception):
    """A data set is not on this machine; the message says why."""


@dataclass(frozen=True)
class DataSet:
    """Training and test part, scaled, with class numbers as labels."""

    name: str
    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray

    @property
    def shape(self) -> str:
        """n x d of the training part, for people."""
        return f"{self.X_train.shape[0]} x {self.X_train.shape[1]}"


def find(name: str) -> Path:
    """Path of a data set's file; DataMissingError if there is none."""
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        raise DataMissingError(f"{DATA_VARIABLE} is not set")
    path = Path(folder) / f"{name}.npz"
    if not path.is_file():
        raise DataMissingError(f"{DATA_VARIABLE} has no {path.name}")
    return path


def why_not_watched(name: str) -> str:
    """Why memory cannot be watched on a set here; empty if it can."""
    try:
        find(name)
    except DataMissingError as error:
        return str(error)
    return "" if has_memory_watch() else "needs /proc to read the resident memory"


def thin(n: int, count: int) -> np.ndarray:
    """At most ``count`` of n row numbers, evenly spaced, so that sorted classes all take part."""
    return np.unique(np.linspace(0, n - 1, min(n, count)).astype(np.int64))


def load(name: str, quick: bool = False) -> DataSet:
    """Read, split, scale; with ``quick`` only a few hundred rows of each part."""
    with np.load(find(name)) as z:
        X = _matrix(z)
        y = np.unique(z["y"], return_inverse=True)[1]
        train, test = z["train_idx"], z["test_idx"]
    if quick:
        train = train[thin(len(train), _QUICK_TRAIN)]
        test = test[thin(len(test), _QUICK_TEST)]
    X_train, X_test = _SCALINGS[name](X[train], X[test])
    return DataSet(name, X_train, y[train], X_test, y[test])


def _matrix(z: Any) -> Any:
    if "X" in z.files:
        return z["X"]
    counts = (z["data"].astype(np.float64), z["indices"], z["indptr"])
    return sp.csr_matrix(counts, shape=tuple(z["shape"]))


# -- scalings: (training part, test part) -> the same, scaled -----------------------------------


def _as_given(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return train.astype(np.float64), test.astype(np.float64)


def _min_max(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """To [-1, 1]; a constant feature becomes -1."""
    train, test = _as_given(train, test)
    low = train.min(axis=0)
    width = train.max(axis=0) - low
    width[width == 0.0] = 1.0
    return 2.0 * (train - low) / width - 1.0, 2.0 * (test - low) / width - 1.0


def _pixels(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return train / 255.0, test / 255.0


def _tfidf(train: Any, test: Any) -> tuple[Any, Any]:
    transformer = TfidfTransformer(sublinear_tf=True).fit(train)
    return transformer.transform(train), transformer.transform(test)


_SCALINGS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "usps": _as_given,
    "letter": _min_max,
    "satimage": _min_max,
    "pendigits": _min_max,
    "mnist": _pixels,
    "news20_bydate": _tfidf,
}


# -- covtype: float32, without a lasting float64 copy --------------------------------------------


def load_covtype(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Random rows (seed 0; smaller choices are part of larger ones), standardised, in float32.

    Mean and deviation are those of the whole set, so that every size has the same features.
    """
    with np.load(find("covtype")) as z:
        X = z["X"]
        y = np.unique(z["y"], return_inverse=True)[1]
    mean, deviation = _moments(X)
    rows = np.random.default_rng(0).permutation(len(y))[:n_rows]
    scaled = np.empty((len(rows), X.shape[1]), dtype=np.float32)
    for start in range(0, len(rows), _BLOCK):
        block = slice(start, start + _BLOCK)
        scaled[block] = (X[rows[block]] - mean) / deviation
    return scaled, y[rows]


def _moments(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the columns, block by block; 1 for constant columns."""
    blocks = [slice(start, start + _BLOCK) for start in range(0, len(X), _BLOCK)]
    mean = sum(X[block].sum(axis=0, dtype=np.float64) for block in blocks) / len(X)
    variance = sum(((X[block] - mean) ** 2).sum(axis=0) for block in blocks) / len(X)
    return mean, np.sqrt(np.where(variance > 0.0, variance, 1.0))
