"""Radius-margin tuning of M-SVM² against cross-validation on a grid, same machine, RBF kernel.

Seconds are those of the process (everything runs on one thread), so that other work on the machine
does not count.  Features are standardised by the training part.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.charts import Bars, Panel
from benchmarks.competitors import folds_error, percent_wrong
from benchmarks.data import DataMissingError, find
from benchmarks.options import Options
from benchmarks.report import Column, Report, Verdict, judged
from benchmarks.timing import processor_seconds
from polymargin import MulticlassSVC, tune_radius_margin

__all__ = ["SETS", "measure", "run", "summarise"]

SETS = ("wine", "glass", "vehicle", "segment", "satimage")
SPLITS = 5
LARGEST_TRAIN = 1500
FOLDS = 5
C_GRID = tuple(2.0**power for power in range(-7, 8, 2))
GAMMA_GRID = tuple(2.0**power for power in range(-8, 7, 2))  # divided by the number of features
SPEED_TARGET = 10.0
ERROR_TARGET = 1.0

COLUMNS = (
    Column("set", "set"),
    Column("shape", "n x d"),
    Column("splits", "splits", "d"),
    Column("grid_seconds", "grid [s]", ".4g"),
    Column("grid_error", "error [%]", ".2f"),
    Column("refined_seconds", "default [s]", ".3g"),
    Column("refined_error", "error [%]", ".2f"),
    Column("refined_ratio", "ratio", ".1f"),
    Column("tuned_seconds", "criterion [s]", ".3g"),
    Column("tuned_error", "error [%]", ".2f"),
    Column("tuned_ratio", "ratio", ".1f"),
)


def run(options: Options) -> Report:
    """Every set with every split."""
    rows: list[dict[str, Any]] = []
    missing = []
    splits = 1 if options.quick else SPLITS
    for name in SETS:
        try:
            find(name)
        except DataMissingError as reason:
            missing.append((name, reason))
            continue
        for split in range(splits):
            rows.append(measure(name, split, options.quick))
    report = summarise(rows, options.quick)
    for name, reason in missing:
        report.skip(name, reason)
    return report


def measure(name: str, split: int, quick: bool = False) -> dict[str, Any]:
    """One split of one set: grid search, default tuning, criterion alone."""
    X, y, X_test, y_test = parts_of(name, split, quick)
    powers = slice(2, 6, 2) if quick else slice(None)
    few = thin_rows(y)
    MulticlassSVC("msvm2", kernel="rbf", random_state=0).fit(X[few], y[few])
    tune_radius_margin(X[few], y[few], refine=2)  # compiled code is loaded before the clock starts
    row: dict[str, Any] = {"set": name, "split": split, "n": len(y), "d": X.shape[1]}
    found = processor_seconds(lambda: grid_search(X, y, powers))
    row["grid_seconds"], (model, row["grid_choice"]) = found
    row["grid_error"] = percent_wrong(model, X_test, y_test)
    for key, options in (("refined", {}), ("tuned", {"refine": 0})):
        row[f"{key}_seconds"], tuning = processor_seconds(
            lambda options=options: tune_radius_margin(X, y, **options)
        )
        row[f"{key}_error"] = percent_wrong(tuning.machine, X_test, y_test)
        row[f"{key}_choice"] = [tuning.C, tuning.gamma * X.shape[1]]
        row[f"{key}_value"], row["plateau"] = tuning.value, tuning.plateau
    print(
        f"{name} {split}: grid {row['grid_seconds']:.3g} s, {row['grid_error']:.2f} %; criterion "
        f"{row['tuned_seconds']:.3g} s, {row['tuned_error']:.2f} %; default "
        f"{row['refined_seconds']:.3g} s, {row['refined_error']:.2f} %",
        flush=True,
    )
    return row


def parts_of(name: str, split: int, quick: bool) -> tuple[np.ndarray, ...]:
    """Two thirds of the examples, at most 1500, and the rest; standardised by the former."""
    with np.load(find(name)) as z:
        X = z["X"].astype(np.float64)
        y = np.unique(z["y"], return_inverse=True)[1]
    size = 90 if quick else min(LARGEST_TRAIN, round(2 * len(y) / 3))
    X, X_test, y, y_test = train_test_split(X, y, train_size=size, stratify=y, random_state=split)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0.0] = 1.0
    return (X - mean) / deviation, y, (X_test - mean) / deviation, y_test


def thin_rows(y: np.ndarray) -> np.ndarray:
    """Some rows of every class."""
    return np.concatenate([np.flatnonzero(y == k)[:15] for k in np.unique(y)])


def grid_search(X: np.ndarray, y: np.ndarray, powers: slice) -> tuple[MulticlassSVC, list[float]]:
    """The machine of the least error over five folds, fitted to all; the first among equals."""
    cells = [(C, gamma) for gamma in GAMMA_GRID[powers] for C in C_GRID[powers]]
    models = [
        MulticlassSVC("msvm2", C=C, kernel="rbf", gamma=gamma / X.shape[1], random_state=0)
        for C, gamma in cells
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # corners of the grid collapse, or do not converge
        best = int(np.argmin([folds_error(model, X, y, FOLDS) for model in models]))
        return models[best].fit(X, y), list(cells[best])


def summarise(splits: list[dict[str, Any]], quick: bool = False) -> Report:
    """Means over the splits of every set, verdicts and chart."""
    report = Report(
        "radius",
        "M-SVM² with an RBF kernel: radius-margin tuning and cross-validation",
        "Seconds of the process and test errors, means over random splits (two thirds of the "
        "examples for training, at most 1500). Grid: 5-fold cross-validation of "
        '`MulticlassSVC("msvm2", kernel="rbf")` on 8 x 8 values, C = 2^-7, 2^-5, ..., 2^7 and '
        "gamma = 2^-8, ..., 2^6 over the number of features, and the last fit. Criterion: "
        "`tune_radius_margin(X, y, refine=0)`, its minimum as it is. Default: "
        "`tune_radius_margin(X, y)`, which compares up to eight settings around the minimum by "
        "3-fold cross-validation where the machine there is wrong about a training example. "
        "Ratio: seconds of the grid over seconds of the tuning.",
        COLUMNS,
    )
    keys = [
        f"{kind}_{what}" for kind in ("grid", "tuned", "refined") for what in ("seconds", "error")
    ]
    for name in SETS:
        own = [row for row in splits if row["set"] == name]
        if not own:
            continue
        row: dict[str, Any] = {key: float(np.mean([one[key] for one in own])) for key in keys}
        row |= {"set": name, "shape": f"{own[0]['n']} x {own[0]['d']}", "splits": len(own)}
        for kind in ("tuned", "refined"):
            row[f"{kind}_ratio"] = row["grid_seconds"] / row[f"{kind}_seconds"]
        row["runs"] = own
        report.rows.append(row)
    report.verdicts = verdicts(report.rows, quick)
    report.panels = charts(report.rows)
    return report


def verdicts(rows: list[dict[str, Any]], quick: bool) -> list[Verdict]:
    """Time ratio and difference of errors, the worst set each."""
    found = []
    for kind, words in (("refined", "default"), ("tuned", "criterion alone")):
        ratios = [row[f"{kind}_ratio"] for row in rows]
        worse = [row[f"{kind}_error"] - row["grid_error"] for row in rows]
        found.append(
            judged(f"grid / {words}, smallest ratio", ratios, min, SPEED_TARGET, len(SETS), quick)
        )
        title = f"{words}: error above the grid's, largest [points]"
        found.append(judged(title, worse, max, ERROR_TARGET, len(SETS), quick, at_most=True))
    return found


def charts(rows: list[dict[str, Any]]) -> list[Panel]:
    """Errors and seconds side by side."""
    names = [row["set"] for row in rows]
    kinds = {"5-fold grid": "grid", "default": "refined", "criterion alone": "tuned"}
    errors = {word: [row[f"{kind}_error"] for row in rows] for word, kind in kinds.items()}
    seconds = {word: [row[f"{kind}_seconds"] for row in rows] for word, kind in kinds.items()}
    return [
        Bars("test error", "data set", "percent", names, errors),
        Bars("time to tune and fit", "data set", "seconds", names, seconds),
    ]
