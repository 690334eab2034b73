"""Aiolli & Sperduti 2005, Table 3: two-class sets of Rätsch, beside LIBSVM, SVM and RVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.svm import SVC

from polymargin.reproduce.benchmark_data import BenchmarkSplit, draw_rows, load_split
from polymargin.reproduce.experiment import Cell, Experiment, Measured, Row, Scale, values_of
from polymargin.reproduce.prototype_runs import COSTS, best_by_folds, measure, prototypes

__all__ = ["EXPERIMENT", "chosen_errors"]

NUMBERS = (1, 3, 5, 10)
PUBLISHED = {
    "banana": (46.0, 12.8, 11.0, 11.0),
    "breast_cancer": (28.2, 26.9, 27.5, 27.0),
    "german": (23.6, 23.8, 23.5, 23.7),
    "image": (15.0, 3.2, 2.7, 2.5),
    "titanic": (22.5, 22.2, 22.2, 22.2),
    "waveform": (13.3, 10.8, 10.0, 10.2),
}
# printed beside them: error of SVM and RVM, their vectors, and the q that validation chose
OTHERS = {
    "banana": (10.9, 10.8, 135.2, 11.4, 5),
    "breast_cancer": (26.9, 29.9, 116.7, 6.3, 10),
    "german": (22.6, 22.2, 411.2, 12.5, 1),
    "image": (3.0, 3.9, 166.6, 34.6, 10),
    "titanic": (22.1, 23.0, 93.7, 65.3, 1),
    "waveform": (10.3, 10.9, 146.4, 14.6, 10),
}
_TINY = "breast_cancer_wisconsin"
FOLDS = 5


def cells(scale: Scale) -> list[Cell]:
    """Every set and split with every number of prototypes, and LIBSVM."""
    splits = {"full": 10, "quick": 2, "tiny": 2}[scale]
    size = {"full": None, "quick": 150, "tiny": 80}[scale]
    numbers = {"full": NUMBERS, "quick": (1, 3), "tiny": (1, 2)}[scale]
    sets = [_TINY] if scale == "tiny" else [f"raetsch_{name}" for name in PUBLISHED]
    return [
        {"data": data, "split": split, "rows": size, "method": method, "q": q}
        for data in sets
        for split in range(splits)
        for method, q in (
            *((method, q) for method in ("paper", "default") for q in numbers),
            ("svc", 0),
        )
    ]


def _svc(choice: tuple[float, float]) -> SVC:
    return SVC(C=choice[0], gamma=choice[1])


def _load(cell: Cell) -> BenchmarkSplit:
    data = load_split(cell["data"], cell["split"])
    if cell["data"] == _TINY:
        data = data.scaled("standard")
    return draw_rows(data, cell["rows"], None if cell["rows"] is None else 500, cell["split"])


def run(cell: Cell) -> dict[str, Any]:
    """C (and gamma) by five folds of the training part, then the test part of the split."""
    data, seed = _load(cell), cell["split"]
    if cell["method"] == "svc":
        unit = 1.0 / data.X_train.shape[1]
        choices = [(C, g * unit) for C in (0.1, 1.0, 10.0, 100.0) for g in (0.1, 0.3, 1.0, 3.0)]
        choice, error = best_by_folds(_svc, choices, data, FOLDS, seed)
        found = measure(_svc(choice), data)
    else:
        method, q = cell["method"], cell["q"]
        costs = COSTS if cell["rows"] is None else COSTS[::2]
        choice, error = best_by_folds(
            lambda C: prototypes(method, q, C, seed), costs, data, FOLDS, seed
        )
        found = measure(prototypes(method, q, choice, seed), data)
    return found | {"choice": choice, "validation_error": error}


def chosen_errors(measured: Sequence[Measured], data: str, method: str) -> list[float]:
    """Test errors with the q of least validation error, split by split; the smallest of equals.

    Splits for which some q is not finished are left out.
    """
    errors = []
    some = [one for one in measured if one.cell["data"] == data and one.cell["method"] == method]
    numbers = {one.cell["q"] for one in some}
    for split in sorted({one.cell["split"] for one in some}):
        there = [one for one in some if one.cell["split"] == split]
        if len(there) == len(numbers):
            best = min(there, key=lambda one: (one.result["validation_error"], one.cell["q"]))
            errors.append(float(best.result["error"]))
    return errors


def rows(measured: Sequence[Measured]) -> list[Row]:
    """Per set: every q, the choice by validation, LIBSVM; printed SVM and RVM beside them."""
    found = []
    for data in dict.fromkeys(one.cell["data"] for one in measured):
        some = [one for one in measured if one.cell["data"] == data]
        name = data.removeprefix("raetsch_")
        reduced = any(one.cell["rows"] is not None for one in some)
        why_not = "a small part of the data" if reduced else ""
        printed = dict(zip(NUMBERS, PUBLISHED.get(name, ()), strict=False))
        others = OTHERS.get(name)
        for q in sorted({one.cell["q"] for one in some} - {0}):
            found.append(
                Row(
                    (name, f"q = {q}"),
                    "test error %",
                    printed.get(q),
                    values_of(some, "error", method="paper", q=q),
                    values_of(some, "error", method="default", q=q),
                    printed_runs=10,
                    digits=1,
                    why_not=why_not,
                    extra={"vectors": 2 * q},
                )
            )
        known = printed.get(others[4]) if others else None
        found.append(
            Row(
                (name, "q by validation"),
                "test error %",
                known,
                chosen_errors(some, data, "paper"),
                chosen_errors(some, data, "default"),
                printed_runs=10,
                digits=1,
                why_not=why_not,
                extra={"vectors": f"printed q = {others[4]}" if others else None},
            )
        )
        vectors = values_of(some, "vectors", method="svc")
        found.append(
            Row(
                (name, "RBF SVM"),
                "test error %",
                others[0] if others else None,
                values_of(some, "error", method="svc"),
                printed_runs=10,
                digits=1,
                why_not=why_not,
                extra={
                    "vectors": f"{np.mean(vectors):.1f}" if vectors else None,
                    "printed": f"SVM {others[2]}; RVM error {others[1]}, {others[3]} vectors"
                    if others
                    else None,
                },
            )
        )
    return found


EXPERIMENT = Experiment(
    name="mprot-binary",
    title="Multi-prototype machine on two-class sets (MP, Table 3)",
    about=(
        "The first ten splits of Rätsch's sets (the printed figures are means over ten splits; "
        "which ones is not said). C in 10^k, k = -2 .. 2, by five folds of the training part; "
        "'q by validation' takes the number of prototypes of least validation error in every "
        "split. RBF SVM is LIBSVM with C and gamma by the same folds."
    ),
    labels=("data", "machine"),
    cells=cells,
    run=run,
    rows=rows,
)
