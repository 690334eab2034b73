"""Multi-prototype machines of the experiments: the published algorithm and ours, measured alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, train_test_split

from polymargin.estimators.multi_prototype import MultiPrototypeSVC
from polymargin.problem.annealing import PRESETS, Annealing
from polymargin.reproduce.benchmark_data import BenchmarkSplit

__all__ = ["COSTS", "best_by_folds", "best_by_hold_out", "measure", "percent_wrong", "prototypes"]

COSTS = tuple(10.0**k for k in range(-2, 3))  # as printed: C = 10^k, k = -2 .. 2


def prototypes(
    method: str, q: int, C: float, seed: int, cooling: float | None = None
) -> MultiPrototypeSVC:
    """A machine with q prototypes per class.

    Parameters
    ----------
    method : {"paper", "default"}
        "paper": random first assignment, T0 = 10, cooling .05, zeroing; "default": ours.
    q : int
    C : float
    seed : int
    cooling : float or None
        Another cooling than that of the method.
    """
    annealing = PRESETS[method]
    if cooling is not None:
        annealing = Annealing(**(annealing.get_params() | {"cooling": cooling}))
    init = "random" if method == "paper" else "auto"
    return MultiPrototypeSVC(q, C=C, annealing=annealing, init=init, random_state=seed)


def percent_wrong(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Share of wrong labels in per cent."""
    return 100.0 * float(np.mean(model.predict(X) != y))


def measure(model: Any, data: BenchmarkSplit) -> dict[str, Any]:
    """Fit and predict: error, processor seconds of the fit, microseconds of one prediction."""
    started = time.process_time()
    model.fit(data.X_train, data.y_train)
    fitted = time.process_time()
    error = percent_wrong(model, data.X_test, data.y_test)
    predicted = time.process_time()
    found: dict[str, Any] = {
        "error": error,
        "fit_seconds": fitted - started,
        "prediction_us": 1e6 * (predicted - fitted) / len(data.y_test),
        "n_test": len(data.y_test),
    }
    if isinstance(model, MultiPrototypeSVC):
        found["energy"] = float(model.energy_)
        found["alive"] = int(model.alive_.sum())
        found["vectors"] = len(model.alive_)
        found["compression"] = len(model.alive_) / len(data.y_train)
    elif hasattr(model, "support_"):
        found["vectors"] = len(model.support_)
    return found


def best_by_hold_out(
    make: Callable[[Any], Any], candidates: Sequence[Any], data: BenchmarkSplit, seed: int
) -> tuple[Any, float]:
    """The candidate with the lowest error on a random fifth of the training part, first of equals.

    Returns
    -------
    candidate, error in per cent
    """
    parts = train_test_split(
        data.X_train, data.y_train, test_size=0.2, random_state=seed, stratify=data.y_train
    )
    X, held, y, held_y = parts
    errors = [percent_wrong(make(one).fit(X, y), held, held_y) for one in candidates]
    best = int(np.argmin(errors))
    return candidates[best], errors[best]


def best_by_folds(
    make: Callable[[Any], Any],
    candidates: Sequence[Any],
    data: BenchmarkSplit,
    folds: int,
    seed: int,
) -> tuple[Any, float]:
    """The candidate with the lowest mean error over stratified folds, first of equals.

    Returns
    -------
    candidate, error in per cent
    """
    smallest = int(np.bincount(data.y_train).min())
    cutter = StratifiedKFold(max(2, min(folds, smallest)), shuffle=True, random_state=seed)
    parts = list(cutter.split(data.X_train, data.y_train))
    errors = []
    for one in candidates:
        wrong = [
            percent_wrong(
                make(one).fit(data.X_train[train], data.y_train[train]),
                data.X_train[rest],
                data.y_train[rest],
            )
            for train, rest in parts
        ]
        errors.append(float(np.mean(wrong)))
    best = int(np.argmin(errors))
    return candidates[best], errors[best]
