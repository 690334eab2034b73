"""One split: sigma and eta by cross-validation on the training part, then the test part."""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier

from experiments.hulls.data import Split
from polymargin import ConvexHullSVC

__all__ = ["MACHINES", "Grid", "Outcome", "run_split"]

MACHINES = ("AD-SVM", "one-vs-rest", "one-vs-one")
TIE = -1


@dataclass(frozen=True)
class Grid:
    """What is searched: widths sigma (gamma = 1 / sigma^2), caps eta, and the number of folds."""

    sigmas: tuple[float, ...] = tuple(10.0 ** np.arange(-4, 5))
    etas: tuple[float, ...] = tuple(10.0 ** np.arange(-3, 0.5, 0.5))
    folds: int = 10


@dataclass(frozen=True)
class Outcome:
    """Test accuracy with the chosen parameters, and the seconds of the search."""

    machine: str
    margin: str
    accuracy: float
    sigma: float
    eta: float
    validation_accuracy: float
    seconds: float


def make(machine: str, eta: float) -> Any:
    """The machine; the two combinations use the same hulls for two classes at a time."""
    hulls = ConvexHullSVC(eta, kernel="precomputed", tol=1e-4, max_iter=30_000)
    if machine == "one-vs-rest":
        return OneVsRestClassifier(hulls)
    return OneVsOneClassifier(hulls) if machine == "one-vs-one" else hulls


def accuracy(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Share of right labels; ties of AD-SVM are errors."""
    if isinstance(model, ConvexHullSVC):
        return float((model.predict_or_reject(X, reject_label=TIE) == y).mean())
    return float((model.predict(X) == y).mean())


def run_split(split: Split, machine: str, grid: Grid, seed: int) -> list[dict[str, Any]]:
    """Hard (eta = 1) and soft (eta chosen) outcome of one machine on one split."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores, seconds = search(split.X_train, split.y_train, machine, grid, seed)
        found = []
        for margin, columns in (("hard", [len(grid.etas) - 1]), ("soft", range(len(grid.etas)))):
            sigma, eta, best = choose(scores, list(columns), grid)
            gamma = 1.0 / sigma**2
            model = make(machine, eta).fit(rbf_kernel(split.X_train, gamma=gamma), split.y_train)
            K = rbf_kernel(split.X_test, split.X_train, gamma)
            test = accuracy(model, K, split.y_test)
            spent = float(seconds[:, list(columns)].sum())
            found.append(asdict(Outcome(machine, margin, test, sigma, eta, best, spent)))
    return found


def search(
    X: np.ndarray, y: np.ndarray, machine: str, grid: Grid, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean validation accuracy of every sigma and eta (NaN where infeasible), and seconds.

    A kernel matrix serves all folds and all eta of its sigma, for every machine alike.
    """
    folds = StratifiedKFold(grid.folds, shuffle=True, random_state=seed)
    parts = list(folds.split(X, y))
    scores = np.full((len(grid.sigmas), len(grid.etas)), np.nan)
    seconds = np.zeros_like(scores)
    smallest = min(int(np.bincount(y[train]).min()) for train, _ in parts)
    feasible = [b for b, eta in enumerate(grid.etas) if eta * smallest >= 1.0]
    for a, sigma in enumerate(grid.sigmas):
        started = time.perf_counter()
        K = rbf_kernel(X, gamma=1.0 / sigma**2)
        seconds[a, feasible] += (time.perf_counter() - started) / max(len(feasible), 1)
        right = np.zeros((len(feasible), len(parts)))
        for f, (train, test) in enumerate(parts):
            inside, outside = K[np.ix_(train, train)], K[np.ix_(test, train)]
            for place, b in enumerate(feasible):
                started = time.perf_counter()
                model = make(machine, grid.etas[b]).fit(inside, y[train])
                right[place, f] = accuracy(model, outside, y[test])
                seconds[a, b] += time.perf_counter() - started
        scores[a, feasible] = right.mean(axis=1)
    return scores, seconds


def choose(scores: np.ndarray, columns: list[int], grid: Grid) -> tuple[float, float, float]:
    """The best of the columns; the largest sigma, then the largest eta, among equals."""
    part = scores[:, columns]
    best = float(np.nanmax(part))
    a, b = max((int(a), columns[int(b)]) for a, b in np.argwhere(part == best))
    return grid.sigmas[a], grid.etas[b], best
