"""Mean cost on unbalanced sets: plain training, balanced class weights, and ``cost_matrix``.

Three kinds of costs.  "published": German credit, where a bad loan that is called good costs 5 and
a good one that is called bad costs 1.  "by class": a mistake costs n / (Q n_i) for an example of
class i, whatever is said, so that a rare class counts as much as a frequent one.  "by pair": every
pair of true and said class has its own cost, drawn once between 0.3 and 10 (logarithmically
uniform).  C is chosen for each way by the mean cost of five folds of the training half.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from benchmarks.charts import beside
from benchmarks.options import Options
from benchmarks.probabilities import MOST_ROWS, standardised
from benchmarks.report import Column, Report
from polymargin import MulticlassSVC

__all__ = ["run"]

SETS = (
    ("raetsch_german", "published"),
    ("raetsch_thyroid", "by class"),
    ("ecoli", "by class"),
    ("glass", "by class"),
    ("shuttle", "by class"),
    ("ecoli", "by pair"),
    ("glass", "by pair"),
    ("vehicle", "by pair"),
    ("satimage", "by pair"),
)
SPLITS = 10
CS = (0.003, 0.03, 0.3, 3.0)
WAYS = {
    "plain": "no costs",
    "balanced": "class_weight='balanced'",
    "cost": "cost_matrix",
}

COLUMNS = (
    Column("title", "set"),
    Column("kind", "costs"),
    Column("n", "n", "d"),
    Column("classes", "classes", "d"),
    Column("rarest", "rarest class [%]", ".1f"),
    *(Column(f"{key}_cost", f"mean cost, {word}", ".3f") for key, word in WAYS.items()),
    *(Column(f"{key}_spread", f"its spread, {word}", ".3f") for key, word in WAYS.items()),
    *(Column(f"{key}_error", f"error [%], {word}", ".1f") for key, word in WAYS.items()),
)


def run(options: Options) -> Report:
    """All sets that are present."""
    n_splits = 1 if options.quick else SPLITS
    report = Report(
        "costs",
        "Costs of mistakes",
        f"Linear Crammer-Singer, features standardised, at most {MOST_ROWS} rows; means over "
        f"{n_splits} splits, half for training; C out of {CS} by the mean cost of five folds of "
        "the training half. Spread: standard deviation over the splits.",
        COLUMNS,
    )
    here = set(report.present(dict(SETS)))
    for name, kind in SETS:
        if name not in here:
            continue
        X, y = standardised(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of rare classes
            row = _row(X, y, costs_of(kind, y), n_splits)
        row |= {"title": name, "kind": kind}
        report.rows.append({column.key: row.get(column.key) for column in COLUMNS})
        print(row, flush=True)
    report.panels = [
        beside(
            report.rows,
            ("mean cost on rows that took no part", "data set", "mean cost"),
            lambda row: f"{row['title']}, {row['kind']}",
            {word: f"{key}_cost" for key, word in WAYS.items()},
        )
    ]
    return report


def costs_of(kind: str, y: np.ndarray) -> np.ndarray:
    """(Q, Q) costs of one kind for labels 0, 1, ..., Q - 1."""
    counts = np.bincount(y)
    Q = len(counts)
    if kind == "published":
        bad = int(counts.argmin())  # 300 of 1000 loans
        costs = np.ones((2, 2))
        costs[bad, 1 - bad] = 5.0
    elif kind == "by class":
        costs = np.repeat((len(y) / (Q * counts))[:, None], Q, axis=1)
    else:
        costs = np.exp(np.random.default_rng(0).uniform(np.log(0.3), np.log(10.0), (Q, Q)))
    return np.asarray(costs * (1.0 - np.eye(Q)))


def _row(X: np.ndarray, y: np.ndarray, costs: np.ndarray, n: int) -> dict[str, Any]:
    found: dict[str, list[float]] = {f"{key}_{what}": [] for key in WAYS for what in ("c", "e")}
    for train, test in StratifiedShuffleSplit(n, test_size=0.5, random_state=0).split(X, y):
        for key in WAYS:
            said = _chosen(key, X[train], y[train], costs).predict(X[test])
            found[f"{key}_c"].append(float(costs[y[test], said].mean()))
            found[f"{key}_e"].append(100.0 * float((said != y[test]).mean()))
    row: dict[str, Any] = {"n": len(y), "classes": len(costs)}
    row["rarest"] = 100.0 * float(np.bincount(y).min()) / len(y)
    for key in WAYS:
        row[f"{key}_cost"] = float(np.mean(found[f"{key}_c"]))
        row[f"{key}_spread"] = float(np.std(found[f"{key}_c"]))
        row[f"{key}_error"] = float(np.mean(found[f"{key}_e"]))
    return row


def _chosen(key: str, X: np.ndarray, y: np.ndarray, costs: np.ndarray) -> MulticlassSVC:
    """The model of the C with the least mean cost of five folds."""
    means = []
    for C in CS:
        total = 0.0
        for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
            said = _fitted(key, C, X[train], y[train], costs).predict(X[test])
            total += float(costs[y[test], said].sum())
        means.append(total)
    return _fitted(key, CS[int(np.argmin(means))], X, y, costs)


def _fitted(key: str, C: float, X: np.ndarray, y: np.ndarray, costs: np.ndarray) -> MulticlassSVC:
    model = MulticlassSVC(C=C, random_state=0)
    if key == "balanced":
        model.set_params(class_weight="balanced")
    elif key == "cost":
        present = np.unique(y)
        model.set_params(cost_matrix=costs[np.ix_(present, present)])
    return model.fit(X, y)
