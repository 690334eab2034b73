"""The five data sets, random splits, and the transformation to zero mean and unit covariance."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.waveform import waveform

__all__ = ["DATA_VARIABLE", "FILES", "DataMissingError", "Split", "load", "split"]

DATA_VARIABLE = "POLYMARGIN_DATA_DIR"
FILES = {
    "iris": "iris",
    "wine": "wine",
    "soybean": "soybean_small",
    "waveform": "waveform3",
    "ecoli": "ecoli",
}
_SMALLEST_CLASS = {"ecoli": 10}
TEST_SHARE = 0.2


class DataMissingError(Exception):
    """A data set is not on this machine."""


@dataclass(frozen=True)
class Split:
    """Training and test part, whitened by the training part."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def load(name: str, examples: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Features and class numbers, at most ``examples`` of them (drawn with seed 0).

    Waveform is generated where its file is absent.
    """
    folder = os.environ.get(DATA_VARIABLE, "")
    path = Path(folder) / f"{FILES[name]}.npz"
    if folder and path.is_file():
        with np.load(path) as z:
            X, y = z["X"].astype(np.float64), z["y"]
    elif name == "waveform":
        X, y = waveform(5000)
    else:
        raise DataMissingError(f"{DATA_VARIABLE} has no {path.name}")
    classes, label, counts = np.unique(y, return_inverse=True, return_counts=True)
    keep = counts[label] >= _SMALLEST_CLASS.get(name, 1)
    X, y = X[keep], classes[label[keep]]
    if examples is not None and examples < len(y):
        rows = np.random.default_rng(0).permutation(len(y))[:examples]
        X, y = X[rows], y[rows]
    return X, np.unique(y, return_inverse=True)[1]


def split(X: np.ndarray, y: np.ndarray, seed: int) -> Split:
    """A random fifth for testing, classes in proportion."""
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=TEST_SHARE, random_state=seed, stratify=y
    )
    mean, directions = _whitening(X_train)
    return Split((X_train - mean) @ directions, y_train, (X_test - mean) @ directions, y_test)


def _whitening(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and the map to unit covariance; directions without variance are dropped."""
    mean = X.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(X - mean, rowvar=False))
    kept = values > 1e-10 * values[-1]
    return mean, vectors[:, kept] / np.sqrt(values[kept])
