"""Accuracy at a size in bytes: ``fit_into`` beside other small models and published points.

Every model is chosen on training rows.  Sizes count weights, steps, tables and labels, not code.
Rivals get the room that each needs at its best: a nearest-neighbour rule on k-means centres of
each class (int8), one hidden layer of scikit-learn's MLP with weights rounded to int8, and a random
forest of ten trees with eight bytes per node (emlearn's).  LIBSVM's RBF machine is listed with
the bytes of its support vectors in float32.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from benchmarks.data import DataMissingError, find, thin
from benchmarks.options import Options
from benchmarks.report import Column, Report, Table
from benchmarks.timing import processor_seconds
from polymargin import MultiPrototypeSVC

__all__ = ["run"]

SETS = ("usps", "letter", "mnist", "satimage", "pendigits", "optdigits")
SIZES = (1, 2, 4, 8, 16, 32, 64)  # kB
_QUICK_SIZES = (1, 4)
_MOST_ROWS = 20_000  # of training rows; only MNIST has more
_TREES, _NODE_BYTES = 10, 8
_MOST_CENTRES = 100  # per class

PUBLISHED = (
    ("ProtoNN", "usps", 63.8, 5.08),
    ("ProtoNN", "letter", 63.4, 2.90),
    ("ProtoNN", "mnist", 63.4, 4.12),
    ("Bonsai", "usps", 31.7, 5.6),
    ("Bonsai", "mnist", 84.0, 3.0),
    ("FastGRNN", "usps", 7.5, 6.4),
    ("int8 net", "mnist", 6.5, 5.01),
    ("BitNetMCU", "mnist", 12.3, 0.98),
)

COLUMNS = (
    Column("set", "set"),
    Column("size", "kB", "d"),
    Column("error", "fit_into, error [%]", ".2f"),
    Column("bytes", "bytes", "d"),
    Column("words", "chosen"),
    Column("centres", "k-means centres, int8 [%]", ".2f"),
    Column("net", "MLP, int8 [%]", ".2f"),
    Column("forest", "random forest [%]", ".2f"),
    Column("seconds", "fit_into [CPU s]", ".0f"),
)
_POINTS = (
    Column("model", "model"),
    Column("set", "set"),
    Column("size", "kB", ".1f"),
    Column("error", "error [%]", ".2f"),
)


def run(options: Options) -> Report:
    """All sets and sizes."""
    report = Report(
        "tiny",
        "Accuracy at a size",
        "Errors on the test part; everything is chosen on the training part (at most 20,000 rows).",
        COLUMNS,
    )
    points = Table(
        "Single points", "RBF machines (LIBSVM, measured) and published models.", _POINTS
    )
    points.rows = [
        {"model": model, "set": name, "size": size, "error": error}
        for model, name, size, error in PUBLISHED
    ]
    for name in SETS:
        try:
            parts = _load(name, options.quick)
        except DataMissingError as error:
            report.missing.append(f"{name}: {error}")
            continue
        points.rows.append({"model": "LIBSVM, RBF", "set": name} | _kernel_machine(*parts))
        for size in _QUICK_SIZES if options.quick else SIZES:
            row = {"set": name, "size": size} | _row(parts, 1000 * size)
            report.rows.append(row)
            print(" ".join(f"{c.title} {c.show(row)}" for c in COLUMNS), flush=True)
    report.tables.append(points)
    return report


Sample = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _load(name: str, quick: bool) -> Sample:
    with np.load(find(name)) as z:
        X, y = z["X"].astype(np.float64), np.unique(z["y"], return_inverse=True)[1]
        train, test = z["train_idx"], z["test_idx"]
    train = train[thin(len(train), 300 if quick else _MOST_ROWS)]
    test = test[thin(len(test), 100)] if quick else test
    return X[train], y[train], X[test], y[test]


def _row(parts: Sample, n_bytes: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    X, y, X_test, y_test = parts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = MultiPrototypeSVC(fit_into=n_bytes, random_state=0)
            found["seconds"], _ = processor_seconds(model.fit, X, y)
            found["error"] = 100.0 * float((model.predict(X_test) != y_test).mean())
            found["bytes"] = model.model_bytes_
            best = int(np.argmin(model.tried_["error"]))
            found["words"] = model.tried_["plan"][best]
        except ValueError:
            pass  # too small for the set: the row says so by its gaps
        for name, rival in (("centres", _centres), ("net", _net), ("forest", _forest)):
            wrong = rival(parts, n_bytes)
            found[name] = None if wrong is None else 100.0 * wrong
    return found


def _centres(parts: Sample, n_bytes: int) -> float | None:
    """One nearest neighbour among k-means centres of each class, one byte per number."""
    X, y, X_test, y_test = parts
    Q = int(y.max()) + 1
    per_class = min((n_bytes - Q) // ((X.shape[1] + 1) * Q), _MOST_CENTRES, np.bincount(y).min())
    if per_class < 1:
        return None
    centres = np.vstack(
        [
            KMeans(per_class, n_init=1, max_iter=30, random_state=0).fit(X[y == c]).cluster_centers_
            for c in range(Q)
        ]
    )
    low, step = X.min(), (np.ptp(X) or 1.0) / 255.0
    centres = low + step * np.rint((centres - low) / step)
    far = (centres**2).sum(axis=1) - 2.0 * X_test @ centres.T
    return float((far.argmin(axis=1) // per_class != y_test).mean())


def _net(parts: Sample, n_bytes: int) -> float | None:
    """One hidden layer, weights rounded to int8, biases float32."""
    X, y, X_test, y_test = parts
    Q, d = int(y.max()) + 1, X.shape[1]
    hidden = (n_bytes - 5 * Q - 8) // (d + Q + 4)
    if hidden < 1:
        return None
    mean, spread = X.mean(axis=0), float(np.sqrt(X.var(axis=0).mean()))
    net = MLPClassifier(int(min(hidden, 400)), max_iter=40, random_state=0, early_stopping=True)
    net.fit((X - mean) / spread, y)
    for W in net.coefs_:
        step = np.abs(W).max() / 127.0 or 1.0
        W[:] = step * np.rint(W / step)
    return float((net.predict((X_test - mean) / spread) != y_test).mean())


def _forest(parts: Sample, n_bytes: int) -> float | None:
    """Ten trees; every node takes eight bytes, inner nodes and leaves alike."""
    X, y, X_test, y_test = parts
    leaves = n_bytes // (_TREES * 2 * _NODE_BYTES)
    if leaves < 2:
        return None
    forest = RandomForestClassifier(_TREES, max_leaf_nodes=int(leaves), random_state=0).fit(X, y)
    return float((forest.predict(X_test) != y_test).mean())


def _kernel_machine(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> dict[str, Any]:
    model = SVC(C=10.0, gamma="scale").fit(X, y)
    size = model.support_vectors_.size * 4 + model.dual_coef_.size * 4
    return {"size": size / 1000.0, "error": 100.0 * float((model.predict(X_test) != y_test).mean())}
