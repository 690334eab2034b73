"""Data sets of the experiments: where they lie, their splits, and scaling by the training part.

A set is looked for as ``NAME.npz`` in the folder POLYMARGIN_DATA_DIR, then among the copies that
come with scikit-learn, then in the folder that ``polymargin data get NAME`` fills.  An archive
holds ``X`` and ``y``, official splits as row numbers ``train_idx`` and ``test_idx``, several splits
as ``train_splits`` and ``test_splits``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

__all__ = [
    "DATA_VARIABLE", "BenchmarkSplit", "MissingDataError", "download_folder", "draw_rows",
    "load_rows", "load_split", "locate", "scaled_by", "whitened_by",
]  # fmt: skip

DATA_VARIABLE = "POLYMARGIN_DATA_DIR"


class MissingDataError(ValueError):
    """A data set is not on this machine; the message says what to put where."""


@dataclass(frozen=True)
class BenchmarkSplit:
    """Training and test part with class numbers as labels."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def scaled(self, scaling: str) -> BenchmarkSplit:
        """The same, scaled by the training part."""
        return BenchmarkSplit(
            *_interleaved(scaled_by(scaling, self.X_train, self.X_test), self.y_train, self.y_test)
        )


def _interleaved(
    parts: tuple[np.ndarray, np.ndarray], y_train: np.ndarray, y_test: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return parts[0], y_train, parts[1], y_test


def _of_sklearn(name: str) -> tuple[np.ndarray, np.ndarray]:
    import sklearn.datasets

    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    return np.asarray(X, dtype=np.float64), np.asarray(y)


_SKLEARN: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "iris": lambda: _of_sklearn("iris"),
    "wine": lambda: _of_sklearn("wine"),
    "digits": lambda: _of_sklearn("digits"),
    "breast_cancer_wisconsin": lambda: _of_sklearn("breast_cancer"),
}


def download_folder() -> Path:
    """Where ``polymargin data get`` writes: beside the downloads of scikit-learn."""
    from sklearn.datasets import get_data_home

    return Path(get_data_home()) / "polymargin"


def locate(name: str) -> Path | None:
    """The file of a data set, None for a copy of scikit-learn; MissingDataError where neither is.

    Parameters
    ----------
    name : str
    """
    folder = os.environ.get(DATA_VARIABLE)
    places = [Path(folder)] if folder else []
    for place in places:
        if (place / f"{name}.npz").is_file():
            return place / f"{name}.npz"
    if name in _SKLEARN:
        return None
    fetched = download_folder() / f"{name}.npz"
    if fetched.is_file():
        return fetched
    known = (
        f"{DATA_VARIABLE}={folder} has no {name}.npz" if folder else f"{DATA_VARIABLE} is not set"
    )
    from polymargin.reproduce.data_downloads import SOURCES

    advice = f", or try 'polymargin data get {name}'" if name in SOURCES else ""
    raise MissingDataError(
        f"data set {name!r} is missing ({known}): put {name}.npz with X and y there{advice}"
    )


def read_archive(name: str) -> dict[str, np.ndarray]:
    """All arrays of a data set; labels as class numbers in ``y``."""
    path = locate(name)
    if path is None:
        X, y = _SKLEARN[name]()
        found: dict[str, np.ndarray] = {"X": X, "y": y}
    else:
        try:
            with np.load(path) as archive:
                found = {key: archive[key] for key in archive.files}
            if not {"X", "y"} <= set(found):
                raise KeyError("no X or no y")
        except (OSError, ValueError, KeyError) as error:
            raise MissingDataError(
                f"data set {name!r}: {path} is not an archive with X and y "
                f"({' '.join(str(error).split())})"
            ) from error
    found["X"] = found["X"].astype(np.float64)
    found["y"] = np.unique(found["y"], return_inverse=True)[1]
    return found


def load_rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    """All rows and class numbers of a data set."""
    found = read_archive(name)
    return found["X"], found["y"]


def load_split(name: str, split: int = 0, test_share: float = 0.3) -> BenchmarkSplit:
    """One split of a data set, not scaled.

    Parameters
    ----------
    name : str
    split : int, default=0
        Which of several official splits; the seed of a stratified random one where there is no
        official split.
    test_share : float, default=0.3
        Of random splits.
    """
    found = read_archive(name)
    X, y = found["X"], found["y"]
    if "train_splits" in found and split < len(found["train_splits"]):
        train, test = found["train_splits"][split], found["test_splits"][split]
    elif "train_idx" in found:
        train, test = found["train_idx"], found["test_idx"]
    else:
        train, test = train_test_split(
            np.arange(len(y)), test_size=test_share, random_state=split, stratify=y
        )
    return BenchmarkSplit(X[train], y[train], X[test], y[test])


def draw_rows(
    data: BenchmarkSplit, n_train: int | None, n_test: int | None, seed: int
) -> BenchmarkSplit:
    """At most so many random rows of each part, classes in proportion."""
    X, y = _drawn(data.X_train, data.y_train, n_train, seed)
    Xt, yt = _drawn(data.X_test, data.y_test, n_test, seed + 1)
    return BenchmarkSplit(X, y, Xt, yt)


def _drawn(X: Any, y: np.ndarray, count: int | None, seed: int) -> tuple[Any, np.ndarray]:
    if count is None or count >= len(y):
        return X, y
    rare = np.bincount(y).min() < 2
    rows, _ = train_test_split(
        np.arange(len(y)), train_size=count, random_state=seed, stratify=None if rare else y
    )
    return X[rows], y[rows]


# -- scalings: (training part, test part) -> the same, scaled ------------------------------------


def _as_given(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return train, test


def _min_max(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """To [-1, 1]; a constant feature becomes -1."""
    low = train.min(axis=0)
    width = train.max(axis=0) - low
    width[width == 0.0] = 1.0
    return 2.0 * (train - low) / width - 1.0, 2.0 * (test - low) / width - 1.0


def _standard(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    deviation[deviation == 0.0] = 1.0
    return (train - mean) / deviation, (test - mean) / deviation


def _unit_range(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Divided by the largest absolute value of the training part: pixels to [0, 1]."""
    largest = float(np.abs(train).max()) or 1.0
    return train / largest, test / largest


def whitened_by(reference: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The map to zero mean and unit covariance of ``reference``; flat directions are dropped."""
    mean = reference.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(reference - mean, rowvar=False))
    kept = values > 1e-10 * values[-1]
    directions = vectors[:, kept] / np.sqrt(values[kept])
    return lambda X: np.asarray((X - mean) @ directions)


def _whitened(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    to_white = whitened_by(train)
    return to_white(train), to_white(test)


_SCALINGS: dict[str, Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "none": _as_given,
    "minmax": _min_max,
    "standard": _standard,
    "range": _unit_range,
    "whiten": _whitened,
}


def scaled_by(scaling: str, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both parts, scaled by the training part.

    Parameters
    ----------
    scaling : {"none", "minmax", "standard", "range", "whiten"}
    train, test : arrays
    """
    return _SCALINGS[scaling](train, test)
