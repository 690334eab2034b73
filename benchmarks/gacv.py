"""GACV beside cross-validation and leave-one-out: which parameters they choose, at what cost.

The Lee-Lin-Wahba machine with a Gaussian kernel is trained on a grid of C and gamma, on the sets
and splits of the radius-margin benchmark.  GACV (one fit per cell), 5-fold cross-validation and, on
small sets, exact leave-one-out each choose a cell, whose error on the rest of the examples is
reported beside the best one on the grid.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.charts import beside
from benchmarks.competitors import folds_error, percent_wrong
from benchmarks.options import Options
from benchmarks.radius import FOLDS, SETS, parts_of
from benchmarks.report import Column, Report
from benchmarks.timing import processor_seconds
from polymargin import MulticlassSVC, gacv, leave_one_out

__all__ = ["run"]

CS = (0.1, 1.0, 10.0)
WIDTHS = (0.1, 0.5, 2.0)  # times 1 / number of features
SPLITS = 2
MOST_LEFT_OUT = 130  # examples up to which every one is left out

COLUMNS = (
    Column("title", "set"),
    Column("n", "n", "d"),
    Column("gacv_error", "by GACV [%]", ".1f"),
    Column("folds_error", "by 5 folds [%]", ".1f"),
    Column("left_out_error", "by leave-one-out [%]", ".1f"),
    Column("best_error", "best cell [%]", ".1f"),
    Column("agreement", "rank correlation", ".2f"),
    Column("gacv_seconds", "GACV [s]", ".2g"),
    Column("folds_seconds", "5 folds [s]", ".2g"),
    Column("left_out_seconds", "leave-one-out [s]", ".2g"),
)


def run(options: Options) -> Report:
    """All sets that are present."""
    report = Report(
        "gacv",
        "GACV beside cross-validation and leave-one-out",
        f"Machine `llw`, Gaussian kernel, 3 x 3 grid, means over {SPLITS} splits; training parts "
        "and sets are those of the radius-margin benchmark. Errors are those on the examples that "
        "took no part. 'rank correlation' is Spearman's, between GACV and the cross-validated "
        f"error over the grid. Leave-one-out up to {MOST_LEFT_OUT} examples.",
        COLUMNS,
    )
    for name in report.present(SETS):
        n_splits = 1 if options.quick else SPLITS
        splits = [_one_split(name, seed, options.quick) for seed in range(n_splits)]
        row = {key: float(np.mean([one[key] for one in splits])) for key in splits[0]}
        shown = {key: None if np.isnan(value) else value for key, value in row.items()}
        report.rows.append(shown | {"title": name, "n": int(row["n"])})
        print(f"{name}: {row['gacv_error']:.1f} %, {row['folds_error']:.1f} %", flush=True)
    title = "rank correlation of the criteria above the bars"
    report.panels = [
        beside(
            report.rows,
            (title, "data set", "processor seconds of the grid"),
            lambda row: str(row["title"]),
            {"GACV": "gacv_seconds", "5 folds": "folds_seconds"},
            lambda row: f"{row['agreement']:.2f}",
        )
    ]
    return report


def _one_split(name: str, split: int, quick: bool) -> dict[str, float]:
    X, y, X_test, y_test = parts_of(name, split, quick)
    cells = []
    for C in CS:
        for width in WIDTHS:
            model = MulticlassSVC(
                machine="llw", C=C, kernel="rbf", gamma=width / X.shape[1], random_state=0
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # corners of the grid collapse
                cells.append(_cell(model, X, y, X_test, y_test))
    column = {key: np.array([cell[key] for cell in cells]) for key in cells[0]}
    ranks = np.argsort(np.argsort([column["gacv"], column["folds"]], axis=1), axis=1)
    error = column["error"]
    return {
        "n": float(len(y)),
        "gacv_error": error[column["gacv"].argmin()],
        "folds_error": error[column["folds"].argmin()],
        "left_out_error": _chosen_by(column["left_out"], error),
        "best_error": error.min(),
        "agreement": float(np.corrcoef(ranks)[0, 1]),
        "gacv_seconds": column["gacv_seconds"].sum(),
        "folds_seconds": column["folds_seconds"].sum(),
        "left_out_seconds": column["left_out_seconds"].sum(),
    }


def _chosen_by(criterion: np.ndarray, error: np.ndarray) -> float:
    return float("nan") if np.isnan(criterion).any() else float(error[criterion.argmin()])


def _cell(
    model: MulticlassSVC, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> dict[str, Any]:
    def criterion() -> float:
        return gacv(model.fit(X, y), X, y).value

    cell: dict[str, Any] = {}
    cell["gacv_seconds"], cell["gacv"] = processor_seconds(criterion)
    cell["folds_seconds"], cell["folds"] = processor_seconds(folds_error, model, X, y, FOLDS)
    cell["left_out_seconds"] = cell["left_out"] = float("nan")
    if len(y) <= MOST_LEFT_OUT:
        cell["left_out_seconds"], found = processor_seconds(leave_one_out, model, X, y)
        cell["left_out"] = found.error_rate
    cell["error"] = percent_wrong(model, X_test, y_test)
    return cell
