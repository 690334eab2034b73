"""Probabilities and prediction sets: calibration beside scikit-learn's, coverage of the sets.

On each of ten sets a linear Crammer-Singer machine gives probabilities by its own temperature, and
by ``CalibratedClassifierCV(method="temperature", ensemble=False)`` around the same machine; log
loss and expected calibration error (15 bins) are those of rows that took no part.  Sets of labels
are calibrated on a held-out part and by five folds; their coverage is the mean over many random
splits.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedShuffleSplit

from benchmarks.charts import beside
from benchmarks.data import find, thin
from benchmarks.options import Options
from benchmarks.report import Column, Report
from benchmarks.timing import processor_seconds
from polymargin import MulticlassSVC
from polymargin.estimators.temperature import expected_calibration_error, log_loss_of

__all__ = ["MOST_ROWS", "SETS", "C", "run", "splits", "standardised"]

SETS = (
    "iris",
    "wine",
    "glass",
    "ecoli",
    "vehicle",
    "segment",
    "satimage",
    "optdigits",
    "raetsch_german",
    "waveform3",
)
MOST_ROWS = 2000
CALIBRATION_SPLITS = 10
COVERAGES = (0.8, 0.9, 0.95)
COVERAGE_SPLITS = 200
_COVERAGE_SETS = ("glass", "vehicle", "waveform3")  # sets with enough errors to fill a set
C = 0.1

COLUMNS = (
    Column("title", "set"),
    Column("n", "n", "d"),
    Column("loss", "log loss", ".4f"),
    Column("other_loss", "log loss, scikit-learn", ".4f"),
    Column("calibration", "calibration error [%]", ".2f"),
    Column("other_calibration", "the same, scikit-learn [%]", ".2f"),
    Column("seconds", "fit [s]", ".2g"),
    Column("other_seconds", "fit, scikit-learn [s]", ".2g"),
    *(
        Column(f"{kind}_{int(100 * c)}", f"{word} {c:g} [%]", ".1f")
        for kind, word in (("held", "held-out"), ("folds", "folds"))
        for c in COVERAGES
    ),
    Column("size", "labels in a held-out set at 0.9", ".2f"),
)


def run(options: Options) -> Report:
    """All sets that are present."""
    n_splits = 2 if options.quick else CALIBRATION_SPLITS
    n_coverage = 4 if options.quick else COVERAGE_SPLITS
    report = Report(
        "probabilities",
        "Probabilities and prediction sets",
        f"Linear Crammer-Singer, C = {C:g}, features standardised, at most {MOST_ROWS} rows. "
        f"Means over {n_splits} splits (half for training) of log loss, calibration error and "
        f"processor seconds beside `CalibratedClassifierCV(method='temperature', ensemble=False)`. "
        f"Coverage: share of rows whose set holds their label, mean over {n_coverage} splits (half "
        "training, a quarter calibration, a quarter test), for sets that aim at 0.8, 0.9, 0.95.",
        COLUMNS,
    )
    for name in report.present(SETS):
        X, y = standardised(name)
        if not report.rows:
            _mean([_calibration(*part) for part in splits(X, y, 1)])  # compiled code is loaded
        row: dict[str, Any] = {"title": name, "n": len(y)}
        row |= _mean([_calibration(*part) for part in splits(X, y, n_splits)])
        if name in _COVERAGE_SETS:
            row |= _mean([_coverage(*part) for part in splits(X, y, n_coverage)])
        report.rows.append({column.key: row.get(column.key) for column in COLUMNS})
        print(name, {key: value for key, value in row.items() if key != "title"}, flush=True)
    report.panels = [
        beside(
            report.rows,
            ("log loss on rows that took no part", "data set", "log loss"),
            lambda row: str(row["title"]),
            {"polymargin": "loss", "CalibratedClassifierCV": "other_loss"},
        )
    ]
    return report


def standardised(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Standardised features and class numbers; classes of fewer than eight rows are left out."""
    with np.load(find(name)) as z:
        if "X" in z.files:
            X = np.asarray(z["X"], dtype=np.float64)
        else:
            X = sp.csr_matrix((z["data"], z["indices"], z["indptr"]), tuple(z["shape"])).toarray()
        y = np.unique(z["y"], return_inverse=True)[1]
    keep = thin(len(y), MOST_ROWS)
    X, y = X[keep], y[keep]
    common = np.bincount(y)[y] >= 8
    X, y = X[common], np.unique(y[common], return_inverse=True)[1]
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0), y


def splits(X: np.ndarray, y: np.ndarray, n: int) -> Any:
    for train, rest in StratifiedShuffleSplit(n, test_size=0.5, random_state=0).split(X, y):
        yield X[train], y[train], X[rest], y[rest]


def _mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def _calibration(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> dict[str, float]:
    plain = MulticlassSVC(C=C, random_state=0)
    own = MulticlassSVC(C=C, random_state=0, probabilities="temperature")
    other = CalibratedClassifierCV(plain, method="temperature", ensemble=False)
    found: dict[str, float] = {}
    for prefix, model in (("", own), ("other_", other)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seconds, _ = processor_seconds(model.fit, X, y)
        P = model.predict_proba(X_test)
        is_right = P.argmax(axis=1) == y_test
        found[f"{prefix}loss"] = log_loss_of(P, y_test)
        found[f"{prefix}calibration"] = 100.0 * expected_calibration_error(P, is_right)
        found[f"{prefix}seconds"] = seconds
    return found


def _coverage(X: np.ndarray, y: np.ndarray, rest: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    half = len(truth) // 2
    order = np.random.default_rng(int(1e6 * abs(rest[0, 0]))).permutation(len(truth))
    held, new = order[:half], order[half:]
    model = MulticlassSVC(C=C, random_state=0, calibration_folds=5).fit(X, y)
    rows = np.arange(len(new))
    found: dict[str, Any] = {}
    for c in COVERAGES:
        sets = model.predict_set(rest[new], c)
        found[f"folds_{int(100 * c)}"] = 100.0 * sets[rows, truth[new]].mean()
    model.calibrate(rest[held], truth[held])
    for c in COVERAGES:
        sets = model.predict_set(rest[new], c)
        found[f"held_{int(100 * c)}"] = 100.0 * sets[rows, truth[new]].mean()
        if c == 0.9:
            found["size"] = float(sets.sum(axis=1).mean())
    return found
