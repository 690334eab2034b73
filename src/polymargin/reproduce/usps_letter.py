"""Aiolli & Sperduti 2005, Table 2: test error over the number of prototypes on USPS and LETTER."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.reproduce.benchmark_data import BenchmarkSplit, draw_rows, load_split
from polymargin.reproduce.experiment import Cell, Experiment, Measured, Row, Scale, values_of
from polymargin.reproduce.experiment_figures import draw_lines
from polymargin.reproduce.prototype_runs import COSTS, best_by_hold_out, measure, prototypes
from polymargin.reproduce.verdicts import binomial_noise

__all__ = ["EXPERIMENT"]

NUMBERS = (1, 3, 5, 10, 15, 20)
PUBLISHED = {
    "usps": dict(zip(NUMBERS, (8.12, 6.13, 5.83, 5.48, 5.23, 5.00), strict=True)),
    "letter": dict(zip(NUMBERS, (21.36, 9.64, 6.42, 4.84, 3.16, 2.94), strict=True)),
}
BASELINES = {
    ("usps", "1-nn"): 5.63,
    ("usps", "cs-cubic"): 4.63,
    ("letter", "1-nn"): 4.34,
    ("letter", "cs-rbf"): 1.95,
}
_SCALING = {"letter": "minmax", "digits": "range"}
_GAMMAS = (0.25, 1.0, 4.0)  # in units of 1 / (number of features * variance)
_SIZES: dict[str, tuple[int | None, int | None]] = {
    "full": (None, None),
    "quick": (500, 400),
    "tiny": (120, 80),
}


def cells(scale: Scale) -> list[Cell]:
    """Every set, number of prototypes, method and seed; baselines once."""
    numbers = {"full": NUMBERS, "quick": (1, 3), "tiny": (1, 2)}[scale]
    seeds = {"full": 5, "quick": 2, "tiny": 1}[scale]
    n_train, n_test = _SIZES[scale]
    found: list[Cell] = []
    for data in ("digits",) if scale == "tiny" else ("usps", "letter"):
        size = {"data": data, "n_train": n_train, "n_test": n_test}
        found += [
            size | {"method": method, "q": q, "seed": seed}
            for q in numbers
            for method in ("paper", "default")
            for seed in range(seeds)
        ]
        found += [
            size | {"method": method, "q": 0, "seed": 0}
            for method in ("1-nn", "cs-cubic", "cs-rbf", "svc-rbf")
        ]
    return found


def _make(method: str, q: int, seed: int, choice: Any) -> Any:
    """A classifier of a method with C, or C and a factor of gamma, chosen."""
    if method == "1-nn":
        return KNeighborsClassifier(1, algorithm="brute")
    if method == "cs-cubic":
        return MulticlassSVC("cs", C=choice, kernel="poly", degree=3, coef0=1.0, random_state=seed)
    if method in ("cs-rbf", "svc-rbf"):
        C, gamma = choice
        if method == "svc-rbf":
            return SVC(C=C, gamma=gamma, cache_size=1000)
        return MulticlassSVC("cs", C=C, kernel="rbf", gamma=gamma, random_state=seed)
    return prototypes(method, q, choice, seed)


def run(cell: Cell) -> dict[str, Any]:
    """Fit the whole training part with the C of ``_chosen``, measure on the test part."""
    data = _rows(cell["data"], cell["n_train"], cell["n_test"], cell["seed"])
    method, q, seed = cell["method"], cell["q"], cell["seed"]
    if method == "1-nn":
        return measure(_make(method, q, seed, None), data)
    choice, error = _chosen(cell["data"], cell["n_train"], cell["n_test"], method, q)
    found = measure(_make(method, q, seed, choice), data)
    return found | {"choice": choice, "validation_error": error}


def _rows(name: str, n_train: int | None, n_test: int | None, seed: int) -> BenchmarkSplit:
    data = load_split(name).scaled(_SCALING.get(name, "none"))
    return draw_rows(data, n_train, n_test, seed)


@cache
def _chosen(
    name: str, n_train: int | None, n_test: int | None, method: str, q: int
) -> tuple[Any, float]:
    """C, or C and gamma, with the least error on a fifth of the training part, and this error.

    One choice for all seeds: five fits for each of them would be most of the work.
    """
    data = _rows(name, n_train, n_test, 0)
    choices: Sequence[Any] = COSTS if n_train is None else COSTS[::2]
    if method in ("cs-rbf", "svc-rbf"):
        unit = 1.0 / (data.X_train.shape[1] * float(data.X_train.var()))
        choices = [(C, factor * unit) for C in (1.0, 10.0, 100.0) for factor in _GAMMAS]
    return best_by_hold_out(lambda one: _make(method, q, 0, one), choices, data, 0)


def rows(measured: Sequence[Measured]) -> list[Row]:
    """One row per set and number of prototypes, one per baseline."""
    found = []
    for data in dict.fromkeys(one.cell["data"] for one in measured):
        some = [one for one in measured if one.cell["data"] == data]
        reduced = any(one.cell["n_train"] is not None for one in some)
        why_not = "a small part of the data" if reduced else ""
        for q in sorted({one.cell["q"] for one in some} - {0}):
            paper, ours = ({"method": m, "q": q} for m in ("paper", "default"))
            found.append(
                Row(
                    (data, f"q = {q}"),
                    "test error %",
                    PUBLISHED.get(data, {}).get(q),
                    values_of(some, "error", **paper),
                    values_of(some, "error", **ours),
                    why_not=why_not,
                    extra={
                        "energy, procedure": _mean(values_of(some, "energy", **paper)),
                        "energy, default": _mean(values_of(some, "energy", **ours)),
                        "fit s, procedure": _mean(values_of(some, "fit_seconds", **paper)),
                        "fit s, default": _mean(values_of(some, "fit_seconds", **ours)),
                        "prediction us": _mean(values_of(some, "prediction_us", **ours)),
                        "beta (MP-16)": _mean(values_of(some, "compression", **ours)),
                    },
                )
            )
        for method in dict.fromkeys(one.cell["method"] for one in some if one.cell["q"] == 0):
            errors = values_of(some, "error", method=method)
            n_test = int(values_of(some, "n_test", method=method)[0])
            found.append(
                Row(
                    (data, method),
                    "test error %",
                    BASELINES.get((data, method)),
                    errors,
                    noise=binomial_noise(errors[0], n_test),
                    why_not=why_not,
                    extra={
                        "fit s, procedure": _mean(values_of(some, "fit_seconds", method=method)),
                        "prediction us": _mean(values_of(some, "prediction_us", method=method)),
                    },
                )
            )
    return found


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def draw(measured: Sequence[Measured], folder: Path) -> list[Path]:
    """Test error over the number of prototypes, one figure per set."""
    paths = []
    for data in dict.fromkeys(one.cell["data"] for one in measured):
        some = [one for one in measured if one.cell["data"] == data and one.cell["q"]]
        numbers = sorted({one.cell["q"] for one in some})
        curves = {
            name: [values_of(some, "error", method=method, q=q) for q in numbers]
            for method, name in (("paper", "published procedure"), ("default", "our default"))
        }
        if all(q in PUBLISHED.get(data, {}) for q in numbers):
            curves["printed"] = [[PUBLISHED[data][q]] for q in numbers]
        path = folder / f"{EXPERIMENT.name}-{data}.png"
        draw_lines(path, data.upper(), "prototypes per class", "test error in %", numbers, curves)
        paths.append(path)
    return paths


EXPERIMENT = Experiment(
    name="mprot-usps-letter",
    title="Multi-prototype machine on USPS and LETTER (MP, Table 2)",
    about=(
        "Official splits, C in 10^k, k = -2 .. 2, by the error on a random fifth of the training "
        "part (seed 0), then all of it with five seeds. Procedure: random first assignment, T0 = "
        "10, cooling .05, zeroing. Default: `MultiPrototypeSVC` as it comes. USPS as given, "
        "LETTER scaled to [-1, 1]. beta is the number of prototypes per training example (the "
        "printed ones of LETTER are wrong, erratum MP-16). 1-nn of LETTER depends on how ties are"
        " broken. Seconds are processor time of one thread."
    ),
    labels=("data", "machine"),
    cells=cells,
    run=run,
    rows=rows,
    draw=draw,
)
