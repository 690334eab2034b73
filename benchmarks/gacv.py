"""GACV and leave-one-out beside each other: which parameters they choose, and what that costs.

Half of each small UCI set trains the Lee-Lin-Wahba machine with a Gaussian kernel on a grid of C
and gamma; GACV (one fit per cell) and exact leave-one-out each choose a cell, whose error on the
other half is reported beside the best one on the grid.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks.charts import Bars
from benchmarks.data import DataMissingError, find
from benchmarks.options import Options
from benchmarks.report import Column, Report
from polymargin import MulticlassSVC, gacv, leave_one_out

__all__ = ["run"]

SETS = ("soybean_small", "iris", "wine")
CS = (0.1, 1.0, 10.0)
WIDTHS = (0.1, 0.5, 2.0)  # times 1 / number of features

COLUMNS = (
    Column("title", "set"),
    Column("n", "n", "d"),
    Column("gacv_error", "by GACV [%]", ".1f"),
    Column("left_out_error", "by leave-one-out [%]", ".1f"),
    Column("best_error", "best cell [%]", ".1f"),
    Column("agreement", "rank correlation", ".2f"),
    Column("gacv_seconds", "GACV [s]", ".2g"),
    Column("left_out_seconds", "leave-one-out [s]", ".2g"),
)


def run(options: Options) -> Report:
    """All sets that are present, as many splits as repetitions."""
    report = Report(
        "gacv",
        "GACV beside leave-one-out",
        "Machine `llw`, Gaussian kernel, 3 x 3 grid; means over splits in halves. Errors are those "
        "on the half that took no part. 'rank correlation' is Spearman's, between GACV and the "
        "mean left-out loss over the grid.",
        COLUMNS,
    )
    for name in SETS:
        try:
            with np.load(find(name)) as z:
                X, y = z["X"].astype(np.float64), z["y"]
        except DataMissingError as reason:
            report.skip(name, reason)
            continue
        splits = [_one_split(X, y, seed) for seed in range(options.repeat)]
        row = {key: float(np.mean([one[key] for one in splits])) for key in splits[0]}
        row |= {"title": name, "n": int(len(y) // 2)}
        report.rows.append(row)
        print(f"{name}: {row['gacv_error']:.1f} %, {row['left_out_error']:.1f} %", flush=True)
    report.panels = [
        Bars(
            "rank correlation of the criteria above the bars",
            "data set",
            "processor seconds of the grid",
            [row["title"] for row in report.rows],
            {
                "GACV": [row["gacv_seconds"] for row in report.rows],
                "leave-one-out": [row["left_out_seconds"] for row in report.rows],
            },
            [f"{row['agreement']:.2f}" for row in report.rows],
        )
    ]
    return report


def _one_split(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, float]:
    classes, label = np.unique(y, return_inverse=True)
    common = np.flatnonzero(np.bincount(label)[label] >= 6)  # both halves need some of each class
    train, test = train_test_split(common, test_size=0.5, stratify=label[common], random_state=seed)
    scaler = StandardScaler().fit(X[train])
    X = scaler.transform(X)
    cells: list[dict[str, Any]] = []
    for C in CS:
        for width in WIDTHS:
            model = MulticlassSVC(
                machine="llw", C=C, kernel="rbf", gamma=width / X.shape[1], random_state=0
            )
            cells.append(_cell(model, X[train], classes[label[train]], X[test], y[test]))
    column = {key: np.array([cell[key] for cell in cells]) for key in cells[0]}
    rank = [np.argsort(np.argsort(column[key])) for key in ("gacv", "loss")]
    return {
        "gacv_error": column["error"][column["gacv"].argmin()],
        "left_out_error": column["error"][column["left_out"].argmin()],
        "best_error": column["error"].min(),
        "agreement": float(np.corrcoef(*rank)[0, 1]),
        "gacv_seconds": column["gacv_seconds"].sum(),
        "left_out_seconds": column["left_out_seconds"].sum(),
    }


def _cell(
    model: MulticlassSVC, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.process_time()
        model.fit(X, y)
        criterion = gacv(model, X, y).value
        middle = time.process_time()
        found = leave_one_out(model, X, y)
        ended = time.process_time()
    label = np.searchsorted(model.classes_, y)
    h = found.scores
    target = 1.0 / (h.shape[1] - 1)
    lack = np.maximum(h + target, 0.0)
    lack[np.arange(len(label)), label] = 0.0
    return {
        "gacv": criterion,
        "left_out": found.error_rate,
        "loss": float(lack.sum(axis=1).mean()),
        "error": 100.0 * float((model.predict(X_test) != y_test).mean()),
        "gacv_seconds": middle - started,
        "left_out_seconds": ended - middle,
    }
