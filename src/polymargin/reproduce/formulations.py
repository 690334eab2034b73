"""Eight formulations of the multi-class SVM on ten sets at one tolerance, with ranks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier

from polymargin.estimators.convex_hull import ConvexHullSVC
from polymargin.estimators.model_size import classifier_size, vectors_needed
from polymargin.estimators.multi_prototype import MultiPrototypeSVC
from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.reproduce.benchmark_data import draw_rows
from polymargin.reproduce.experiment import Cell, Experiment, Measured, Row, Scale, values_of
from polymargin.reproduce.experiment_figures import critical_difference, draw_ranks, mean_ranks
from polymargin.reproduce.msvm_tables import MOST_ROWS, SETS, load_set
from polymargin.reproduce.prototype_runs import best_by_folds, percent_wrong

__all__ = ["EXPERIMENT", "error_table"]

MACHINES = (
    "one-vs-rest", "one-vs-one", "cs", "ww", "llw", "msvm2", "multi-prototype", "ad-svm",
)  # fmt: skip
KERNELS = ("linear", "rbf")
GAP = 1e-3  # relative duality gap of every machine
_COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)
_FACTORS = (0.25, 1.0, 4.0)
_CAPS = (0.2, 0.4, 0.6, 0.8, 1.0)  # eta of AD-SVM on its relative scale
_PROTOTYPES = 5
_ROWS_OF_FOLDS = 1000
"""Most training rows on which parameters are chosen: kernel machines of all 3000 take ten times as
long, 75 fits a cell."""


def cells(scale: Scale) -> list[Cell]:
    """Every set, kernel, machine and split."""
    sets = {"full": SETS, "quick": ("wine", "glass", "vehicle"), "tiny": ("iris", "wine")}[scale]
    rows = {"full": MOST_ROWS, "quick": 120, "tiny": 60}[scale]
    kernels = KERNELS if scale != "tiny" else KERNELS[:1]
    return [
        {
            "data": data,
            "kernel": kernel,
            "machine": machine,
            "split": split,
            "n_train": rows,
            "grid": "full" if scale == "full" else "small",
        }
        for data in sets
        for kernel in kernels
        for machine in MACHINES
        for split in range(3 if scale == "full" else 1)
    ]


def _make(cell: Cell, choice: tuple[float, float]) -> Any:
    """A machine with C (or eta) and gamma."""
    C, gamma = choice
    name, kernel = cell["machine"], cell["kernel"]
    shared = {"kernel": kernel, "gamma": gamma, "tol": GAP}
    if name == "ad-svm":
        return ConvexHullSVC(C, eta_scale="relative", **shared)
    if name == "multi-prototype":
        return MultiPrototypeSVC(_PROTOTYPES, C=C, random_state=0, **shared)
    if name in ("one-vs-rest", "one-vs-one"):
        binary = MulticlassSVC("cs", C=C, random_state=0, **shared)
        return (OneVsRestClassifier if name == "one-vs-rest" else OneVsOneClassifier)(binary)
    return MulticlassSVC(name, C=C, random_state=0, **shared)


def run(cell: Cell) -> dict[str, Any]:
    """Parameters by five folds (at most 1000 rows); error, times, size on all training rows."""
    data = load_set(cell["data"], cell["n_train"], cell["split"])
    unit = 1.0 / (data.X_train.shape[1] * float(data.X_train.var()))
    factors: Sequence[float] = _FACTORS if cell["kernel"] == "rbf" else (1.0,)
    strengths: Sequence[float] = _CAPS if cell["machine"] == "ad-svm" else _COSTS
    if cell["grid"] == "small":
        factors, strengths = factors[:2], strengths[1:5:2]
    choices = [(C, factor * unit) for C in strengths for factor in factors]
    few = draw_rows(data, _ROWS_OF_FOLDS, None, 0)
    choice, error = best_by_folds(
        lambda one: _make(cell, one), choices, few, 5 if cell["grid"] == "full" else 3, 0
    )
    started = time.process_time()
    model = _make(cell, choice).fit(data.X_train, data.y_train)
    fitted = time.process_time()
    wrong = percent_wrong(model, data.X_test, data.y_test)
    predicted = time.process_time()
    return {
        "error": wrong,
        "validation_error": error,
        "choice": list(choice),
        "fit_seconds": fitted - started,
        "prediction_us": 1e6 * (predicted - fitted) / len(data.y_test),
        "numbers": _numbers(model, data.X_train.shape[1]),
        "n_test": len(data.y_test),
    }


def _numbers(model: Any, width: int) -> int:
    """How many numbers the model keeps: coefficients, or support vectors with their weights."""
    if hasattr(model, "estimators_"):
        return sum(_numbers(one, width) for one in model.estimators_)
    if hasattr(model, "prototypes_") or hasattr(model, "coef_"):
        return classifier_size(model)[0] // 4
    return int(len(model.support_) * (width + vectors_needed(model)))


def error_table(measured: Sequence[Measured], kernel: str) -> tuple[list[str], np.ndarray]:
    """Sets and the mean errors (sets, machines) of those that every machine has finished."""
    sets, table = [], []
    for data in dict.fromkeys(one.cell["data"] for one in measured):
        errors = [
            values_of(measured, "error", data=data, kernel=kernel, machine=machine)
            for machine in MACHINES
        ]
        if all(errors):
            sets.append(data)
            table.append([float(np.mean(values)) for values in errors])
    return sets, np.array(table).reshape(len(table), len(MACHINES))


def rows(measured: Sequence[Measured]) -> list[Row]:
    """Mean ranks first, then every set and machine."""
    found = []
    for kernel in dict.fromkeys(one.cell["kernel"] for one in measured):
        sets, errors = error_table(measured, kernel)
        if not sets:
            continue
        ranks = mean_ranks(errors)
        cd = critical_difference(len(MACHINES), len(sets))
        found += [
            Row(
                (f"{len(sets)} sets", kernel, machine),
                "mean rank",
                None,
                [],
                [float(rank)],
                extra={"critical difference": cd},
            )
            for machine, rank in zip(MACHINES, ranks, strict=True)
        ]
    keys = dict.fromkeys(
        (one.cell["data"], one.cell["kernel"], one.cell["machine"]) for one in measured
    )
    for data, kernel, machine in keys:
        wanted = {"data": data, "kernel": kernel, "machine": machine}
        found.append(
            Row(
                (data, kernel, machine),
                "test error %",
                None,
                [],
                values_of(measured, "error", **wanted),
                extra={
                    name: float(np.mean(values_of(measured, name, **wanted)))
                    for name in ("fit_seconds", "prediction_us", "numbers")
                },
            )
        )
    return found


def draw(measured: Sequence[Measured], folder: Path) -> list[Path]:
    """A critical-difference picture per kernel, from two finished sets on."""
    paths = []
    for kernel in dict.fromkeys(one.cell["kernel"] for one in measured):
        sets, errors = error_table(measured, kernel)
        if len(sets) >= 2:
            path = folder / f"{EXPERIMENT.name}-{kernel}.png"
            draw_ranks(path, f"{kernel} kernel", MACHINES, errors)
            paths.append(path)
    return paths


EXPERIMENT = Experiment(
    name="formulations",
    title="Formulations of the multi-class SVM at one tolerance",
    about=(
        "One-vs-rest, one-vs-one (of the same two-class machine), Crammer-Singer, Weston-Watkins, "
        "Lee-Lin-Wahba, M-SVM², multi-prototype (5 per class) and AD-SVM, every fit to a relative "
        "duality gap of 1e-3; C (AD-SVM: eta on its relative scale) and gamma by five folds of the "
        "training part (a random 1000 of larger ones); three splits or draws of at most 3000 "
        "training rows. Nothing like it is printed: ranks, with Nemenyi's "
        "critical difference, answer scikit-learn issue 13556."
    ),
    labels=("data", "kernel", "machine"),
    cells=cells,
    run=run,
    rows=rows,
    draw=draw,
)
