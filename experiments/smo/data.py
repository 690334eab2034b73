"""Handwritten digits: MNIST drawn as the papers drew NIST-3, or the digits of scikit-learn."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["DATA_VARIABLE", "Digits", "load"]

DATA_VARIABLE = "POLYMARGIN_DATA_DIR"
_DRAWN, _TRAIN = 10_705, 5_000  # of NIST-3, as printed
_SMALL_TRAIN = 1_000


@dataclass(frozen=True)
class Digits:
    """Training and test part, pixels in [0, 1]."""

    name: str
    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def load(small: bool = False, examples: int | None = None, seed: int = 0) -> Digits:
    """10705 random images of MNIST, 5000 of them for training; 1797 and 1000 without MNIST.

    ``small`` asks for scikit-learn's digits, ``examples`` for that many training examples.
    """
    path = Path(os.environ.get(DATA_VARIABLE, "")) / "mnist.npz"
    if not small and os.environ.get(DATA_VARIABLE) and path.is_file():
        with np.load(path) as z:
            X, y = z["X"], z["y"]
        name, drawn, train, scale = "MNIST", _DRAWN, _TRAIN, 255.0
    else:
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        name, drawn, train, scale = "digits of scikit-learn", len(y), _SMALL_TRAIN, 16.0
    rows = np.random.default_rng(seed).permutation(len(y))[:drawn]
    X, y = X[rows] / scale, np.asarray(y[rows], dtype=np.int64)
    used = train if examples is None else min(examples, train)
    return Digits(name, X[:used], y[:used], X[train:], y[train:])
