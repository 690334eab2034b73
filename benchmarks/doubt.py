"""How much to doubt training labels when a temperature is fitted: nested folds of training halves.

``fit_temperature`` believes each of n examples to have another label with probability
doubt / (n + 2).  For training halves of the `probabilities` benchmark and each of five outer folds,
the temperature is fitted on out-of-fold scores of the other four and judged by the log loss of the
fold.  The test halves, on which `probabilities` reports, take no part.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from benchmarks.charts import Bars
from benchmarks.options import Options
from benchmarks.probabilities import SETS, C, splits, standardised
from benchmarks.report import Column, Report
from polymargin import MulticlassSVC
from polymargin.estimators.temperature import fit_temperature, log_softmax

__all__ = ["run"]

DOUBTS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)
SPLITS = 3
FOLDS = 5
_LEAST = np.log(np.finfo(np.float64).tiny)  # what the logarithm of a probability of 0 counts as

COLUMNS = (
    Column("title", "set"),
    *(Column(f"doubt_{doubt:g}", f"log loss, doubt {doubt:g}", ".4f") for doubt in DOUBTS),
)


def run(options: Options) -> Report:
    """All sets that are present; the last row is their mean."""
    n_splits = 1 if options.quick else SPLITS
    report = Report(
        "doubt",
        "The doubt of a temperature",
        f"Log loss of held-out folds inside the training halves: {n_splits} splits, {FOLDS} folds. "
        "The constant in `estimators/temperature.py` is the doubt of the least mean.",
        COLUMNS,
    )
    for name in report.present(SETS):
        X, y = standardised(name)
        losses = np.mean([_losses(X, y) for X, y, _, _ in splits(X, y, n_splits)], axis=0)
        report.rows.append(_row(name, losses))
        print(report.rows[-1], flush=True)
    if report.rows:
        keys = [column.key for column in COLUMNS[1:]]
        report.rows.append(
            _row("mean", np.mean([[row[key] for key in keys] for row in report.rows], axis=0))
        )
        mean = report.rows[-1]
        report.panels = [
            Bars(
                "mean log loss of held-out folds",
                "doubt",
                "log loss",
                [f"{doubt:g}" for doubt in DOUBTS],
                {"mean of the sets": [mean[key] for key in keys]},
            )
        ]
    return report


def _row(title: str, losses: Any) -> dict[str, Any]:
    found = {f"doubt_{doubt:g}": float(x) for doubt, x in zip(DOUBTS, losses, strict=True)}
    return {"title": title} | found


def _losses(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Mean log loss of the outer folds for every doubt."""
    total = np.zeros(len(DOUBTS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rare classes
        for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y):
            known = np.isin(y[test], y[train])
            total += _fold(X[train], y[train], X[test][known], y[test][known])
    return total / FOLDS


def _fold(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> np.ndarray:
    model = MulticlassSVC(C=C, random_state=0, calibration_folds=5).fit(X, y)
    label = np.searchsorted(model.classes_, y)
    inner = model.out_of_fold_scores_
    known = np.isfinite(inner).all(axis=1)
    scores = model.decision_function(X_test)
    if scores.ndim == 1:
        scores = np.column_stack([-0.5 * scores, 0.5 * scores])
    rows, truth = np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)
    losses = []
    for doubt in DOUBTS:
        temperature = fit_temperature(inner[known], label[known], doubt=doubt)
        own = log_softmax(scores, temperature)[rows, truth]
        losses.append(-float(np.maximum(own, _LEAST).mean()))
    return np.array(losses)
