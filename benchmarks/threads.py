"""Two threads (``n_jobs=2``) beside one, by the clock on the wall: use an idle machine.

Fits alternate, so that whatever slows the machine down slows both.  Passes stand beside the
seconds, because a fit on two threads may need other steps to the same certified gap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.data import DataMissingError, DataSet, load, load_covtype, thin
from benchmarks.options import Options
from benchmarks.rbf import CASES as RBF_CASES
from benchmarks.report import Column, Report, Verdict, judged
from benchmarks.timing import geometric_mean, median, timed
from polymargin import MulticlassSVC, MultiPrototypeSVC

__all__ = ["CASES", "Case", "run"]

TARGETS = {"linear": 1.6, "RBF": 1.5, "prototypes": 1.5}
MOST_ENERGY = 1.01  # of the energy of one thread, mean over the seeds
TOL = 1e-3
_WARM_ROWS, _QUICK_ROWS = 2000, 2000

COLUMNS = (
    Column("kind", "machine"),
    Column("data", "set"),
    Column("shape", "n x d"),
    Column("one_seconds", "one thread [s]", ".3g"),
    Column("two_seconds", "two [s]", ".3g"),
    Column("ratio", "ratio", ".2f"),
    Column("one_passes", "passes: one", ".0f"),
    Column("two_passes", "two", ".0f"),
    Column("one_gap", "gap: one", ".1e"),
    Column("two_gap", "two", ".1e"),
    Column("energy_ratio", "energy, two / one", ".4f"),
)


@dataclass(frozen=True)
class Case:
    """One row: the kind of machine, its data, and the estimator for ``n_jobs`` and a seed."""

    kind: str
    data: str
    make: Callable[[int | None, int], Any]


def _linear(C: float) -> Callable[[int | None, int], Any]:
    return lambda n_jobs, seed: MulticlassSVC(C=C, tol=TOL, n_jobs=n_jobs, random_state=seed)


def _gaussian(C: float, gamma: float) -> Callable[[int | None, int], Any]:
    return lambda n_jobs, seed: MulticlassSVC(
        C=C, kernel="rbf", gamma=gamma, tol=TOL, n_jobs=n_jobs, random_state=seed
    )


def _prototypes(q: int, C: float) -> Callable[[int | None, int], Any]:
    return lambda n_jobs, seed: MultiPrototypeSVC(q, C=C, tol=TOL, n_jobs=n_jobs, random_state=seed)


CASES = (
    Case("linear", "mnist", _linear(0.01)),
    Case("linear", "covtype", _linear(1e-4)),
    Case("linear", "news20_bydate", _linear(1.0)),
    *(Case("RBF", one.data, _gaussian(one.C, one.gamma)) for one in RBF_CASES),
    Case("prototypes", "letter", _prototypes(10, 10.0)),
    Case("prototypes", "mnist", _prototypes(10, 0.01)),
)


def run(options: Options) -> Report:
    """All rows whose data are present."""
    report = Report(
        "threads",
        "threads: n_jobs=2 beside n_jobs=None",
        f"Whole `fit` calls at tol={TOL:g}, warm, by the clock on the wall; medians over seeds, "
        "one thread and two in turns. BLAS has one thread in both. Energy: mean over the seeds.",
        COLUMNS,
    )
    for case in CASES:
        try:
            X, y = _rows(case, options.quick)
        except DataMissingError as reason:
            report.skip(f"{case.kind} {case.data}", reason)
            continue
        row = measure(case, X, y, options.repeat)
        report.rows.append(row)
        print(
            f"{case.kind} {case.data}: {row['one_seconds']:.3g} s, two threads "
            f"{row['two_seconds']:.3g} s ({row['ratio']:.2f} times)",
            flush=True,
        )
    report.verdicts = verdicts(report.rows, options.quick)
    return report


def _rows(case: Case, quick: bool) -> tuple[Any, np.ndarray]:
    if case.data == "covtype":
        return load_covtype(_QUICK_ROWS if quick else 581_012)
    data: DataSet = load(case.data, quick)
    return data.X_train, data.y_train


def measure(case: Case, X: Any, y: np.ndarray, repeat: int) -> dict[str, Any]:
    """One row of the table."""
    warm = thin(len(y), _WARM_ROWS if case.kind == "prototypes" else len(y))
    fits: dict[str, list[tuple[float, Any]]] = {"one": [], "two": []}
    for seed in range(-1, repeat):
        for name, n_jobs in (("one", None), ("two", 2)):
            model = case.make(n_jobs, max(seed, 0))
            if seed < 0:
                model.fit(X[warm], y[warm])  # on all rows: few of them take other ways
                continue
            fits[name].append((timed(model.fit, X, y)[0], model))
    row: dict[str, Any] = {
        "kind": case.kind,
        "data": case.data,
        "shape": f"{len(y)} x {X.shape[1]}",
    }
    for name, found in fits.items():
        row[f"{name}_runs"] = [seconds for seconds, _ in found]
        row[f"{name}_seconds"] = median(seconds for seconds, _ in found)
        row[f"{name}_passes"] = median(float(model.n_iter_) for _, model in found)
        row[f"{name}_gap"] = max(float(model.certificate_.relative_gap) for _, model in found)
    row["ratio"] = row["one_seconds"] / row["two_seconds"]
    if case.kind == "prototypes":
        one, two = (np.mean([model.energy_ for _, model in fits[name]]) for name in ("one", "two"))
        row["energy_ratio"] = float(two / one)
    return row


def verdicts(rows: Sequence[dict[str, Any]], quick: bool) -> list[Verdict]:
    """The geometric mean of every kind beside its target; the largest ratio of energies."""
    found = []
    for kind, target in TARGETS.items():
        ratios = [row["ratio"] for row in rows if row["kind"] == kind]
        expected = sum(case.kind == kind for case in CASES)
        found.append(
            judged(f"{kind}, geometric mean", ratios, geometric_mean, target, expected, quick)
        )
    energies = [row["energy_ratio"] for row in rows if "energy_ratio" in row]
    found.append(judged("energy, largest", energies, max, MOST_ENERGY, 2, quick, at_most=True))
    return found
