"""Accuracy at a size in bytes: ``fit_into`` beside other small models and published points.

Every model is chosen on training rows.  Sizes count weights, steps, tables and labels, not code.
Rivals get the room that each needs at its best: a nearest-neighbour rule on k-means centres of
each class (int8), one hidden layer of scikit-learn's MLP with weights rounded to int8, and a random
forest of 5, 10 or 20 trees (chosen by validation) with eight bytes per node (emlearn's).  LIBSVM's
RBF machine is listed with the bytes of its support vectors in float32.

Cells are kept in ``tiny.cells.jsonl`` beside the results: a run that was stopped (Ctrl-C) writes
what it has, and the next one goes on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from benchmarks.charts import Lines
from benchmarks.data import DataMissingError, find, thin
from benchmarks.kept_cells import KeptCells
from benchmarks.options import Options
from benchmarks.report import Column, Report, Table
from benchmarks.timing import processor_seconds
from polymargin import MultiPrototypeSVC

__all__ = ["panel", "run"]

SETS = ("usps", "letter", "satimage", "pendigits", "optdigits", "mnist")
SIZES = (1, 2, 4, 8, 16, 32, 64)  # kB
_IN_TURN = ("satimage", "pendigits", "optdigits", "letter", "usps")  # short fits first
_ROUNDS = ((2, 8, 32), (4, 16), (1, 64))  # all sets at a few sizes before the others
_QUICK_ROUNDS = ((1, 4),)
_MOST_ROWS = 16_000  # of training rows; only MNIST has more
_TREES, _NODE_BYTES = (5, 10, 20), 8
_MOST_CENTRES = 100  # per class
_MOST_HIDDEN = 400
_SEED = 0  # of everything: one run per cell

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

RIVALS = {"centres": "k-means centres, int8", "net": "MLP, int8", "forest": "random forest"}

COLUMNS = (
    Column("set", "set"),
    Column("size", "kB", "d"),
    Column("error", "fit_into, error [%]", ".2f"),
    Column("bytes", "bytes", "d"),
    Column("words", "chosen"),
    *(Column(key, f"{title} [%]", ".2f") for key, title in RIVALS.items()),
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
        "Errors on the official test part; everything is chosen on the training part (evenly "
        f"spaced rows, at most {_MOST_ROWS:,}). One run with seed {_SEED} per cell: differences "
        "below about 0.3 points may be chance.",
        COLUMNS,
    )
    points = Table(
        "Single points", "RBF machines (LIBSVM, measured) and published models.", _POINTS
    )
    points.rows = [
        {"model": model, "set": name, "size": size, "error": error}
        for model, name, size, error in PUBLISHED
    ]
    path = None if options.quick else options.output / "tiny.cells.jsonl"
    cells = KeptCells(path, {"rows": _MOST_ROWS, "seed": _SEED})
    try:
        for names in (_IN_TURN, ("mnist",)):  # MNIST, whose fits are long, after all others
            for sizes in _QUICK_ROUNDS if options.quick else _ROUNDS:
                for name in names:
                    _measure_set(name, sizes, options.quick, cells, report)
        _add_kernel_machines(options.quick, cells, points)
    except KeyboardInterrupt:
        done = {(row["set"], row["size"]) for row in report.rows}
        missing = [
            f"{name} {size} kB" for name in SETS for size in SIZES if (name, size) not in done
        ]
        report.missing.append("stopped before " + ", ".join([*missing, "some RBF machines"]))
    report.rows.sort(key=lambda row: (SETS.index(row["set"]), row["size"]))
    if report.rows:
        report.tables.append(points)
    report.panels = [panel(name, report.rows) for name in SETS if _has(report.rows, name)]
    return report


def _has(rows: list[dict[str, Any]], name: str) -> bool:
    return sum(row["set"] == name for row in rows) > 1


def _measure_set(
    name: str, sizes: tuple[int, ...], is_quick: bool, cells: KeptCells, report: Report
) -> None:
    try:
        parts = _load(name, is_quick)
    except DataMissingError as error:
        if f"{name}: {error}" not in report.missing:
            report.missing.append(f"{name}: {error}")
        return
    for size in sizes:
        row = {"set": name, "size": size} | _row(parts, size, name, cells)
        report.rows.append(row)
        print(" ".join(f"{c.title} {c.show(row)}" for c in COLUMNS), flush=True)


def _add_kernel_machines(is_quick: bool, cells: KeptCells, points: Table) -> None:
    for name in SETS:
        try:
            parts = _load(name, is_quick)
        except DataMissingError:
            continue
        found = cells.get(f"{name} LIBSVM", lambda parts=parts: _kernel_machine(*parts))
        points.rows.append({"model": "LIBSVM, RBF", "set": name} | found)


def panel(name: str, rows: list[dict[str, Any]]) -> Lines:
    """Error over size of one set, with the published points that lie within the sizes."""
    mine = [row for row in rows if row["set"] == name]
    titles = {"error": "fit_into"} | RIVALS

    def values(key: str) -> list[float]:
        return [np.nan if row.get(key) is None else row[key] for row in mine]

    return Lines(
        name,
        "kB",
        "test error [%]",
        [row["size"] for row in mine],
        {title: values(key) for key, title in titles.items()},
        y_axis="log",
        points={m: (size, e) for m, of, size, e in PUBLISHED if of == name and size <= SIZES[-1]},
    )


Sample = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _load(name: str, quick: bool) -> Sample:
    with np.load(find(name)) as z:
        X, y = z["X"].astype(np.float64), np.unique(z["y"], return_inverse=True)[1]
        train, test = z["train_idx"], z["test_idx"]
    train = train[thin(len(train), 300 if quick else _MOST_ROWS)]
    test = test[thin(len(test), 100)] if quick else test
    return X[train], y[train], X[test], y[test]


def _row(parts: Sample, size: int, name: str, cells: KeptCells) -> dict[str, Any]:
    """All models of one size."""

    def measured(rival: Callable[[Sample, int], float | None]) -> float | None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrong = rival(parts, 1000 * size)
        return None if wrong is None else 100.0 * wrong

    found: dict[str, Any] = dict(
        cells.get(f"{name} {size} kB fit_into", lambda: _own(parts, 1000 * size))
    )
    rivals: Mapping[str, Callable[[Sample, int], float | None]] = {
        "centres": _centres,
        "net": _net,
        "forest": _forest,
    }
    for key, rival in rivals.items():
        found[key] = cells.get(f"{name} {size} kB {key}", lambda rival=rival: measured(rival))
    return found


def _own(parts: Sample, n_bytes: int) -> dict[str, Any]:
    """``fit_into``; empty where the set needs more bytes."""
    X, y, X_test, y_test = parts
    model = MultiPrototypeSVC(fit_into=n_bytes, random_state=_SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            seconds, _ = processor_seconds(model.fit, X, y)
        except ValueError:
            return {}
    best = model.tried_["chosen"].index(True)
    return {
        "seconds": seconds,
        "error": 100.0 * float((model.predict(X_test) != y_test).mean()),
        "bytes": model.model_bytes_,
        "words": model.tried_["plan"][best],
    }


def _centres(parts: Sample, n_bytes: int) -> float | None:
    """One nearest neighbour among k-means centres of each class, one byte per number."""
    X, y, X_test, y_test = parts
    Q = int(y.max()) + 1
    per_class = min((n_bytes - Q) // ((X.shape[1] + 1) * Q), _MOST_CENTRES, np.bincount(y).min())
    if per_class < 1:
        return None
    centres = np.vstack(
        [
            KMeans(per_class, n_init=1, max_iter=30, random_state=_SEED)
            .fit(X[y == c])
            .cluster_centers_
            for c in range(Q)
        ]
    )
    low, step = X.min(), (np.ptp(X) or 1.0) / 255.0
    centres = low + step * np.rint((centres - low) / step)
    far = (centres**2).sum(axis=1) - 2.0 * X_test @ centres.T
    return float((far.argmin(axis=1) // per_class != y_test).mean())


def _net(parts: Sample, n_bytes: int) -> float | None:
    """One hidden layer, weights rounded to int8, biases float32; stopped early by validation."""
    X, y, X_test, y_test = parts
    Q, d = int(y.max()) + 1, X.shape[1]
    hidden = (n_bytes - 5 * Q - 8) // (d + Q + 4)
    if hidden < 1:
        return None
    mean, spread = X.mean(axis=0), float(np.sqrt(X.var(axis=0).mean()))
    hidden = int(min(hidden, _MOST_HIDDEN))
    net = MLPClassifier(hidden, max_iter=100, random_state=_SEED, early_stopping=True)
    net.fit((X - mean) / spread, y)
    for W in net.coefs_:
        step = np.abs(W).max() / 127.0 or 1.0
        W[:] = step * np.rint(W / step)
    return float((net.predict((X_test - mean) / spread) != y_test).mean())


def _forest(parts: Sample, n_bytes: int) -> float | None:
    """Every node takes eight bytes, inner nodes and leaves alike; trees chosen by validation."""
    X, y, X_test, y_test = parts

    def forest(n_trees: int) -> RandomForestClassifier:
        leaves = n_bytes // (n_trees * 2 * _NODE_BYTES)
        return RandomForestClassifier(n_trees, max_leaf_nodes=int(leaves), random_state=_SEED)

    possible = [n for n in _TREES if n_bytes >= 2 * n * 2 * _NODE_BYTES]
    if not possible:
        return None
    X_fit, X_val, y_fit, y_val = train_test_split(X, y, test_size=0.25, random_state=_SEED)
    errors = [float((forest(n).fit(X_fit, y_fit).predict(X_val) != y_val).mean()) for n in possible]
    chosen = forest(possible[int(np.argmin(errors))]).fit(X, y)
    return float((chosen.predict(X_test) != y_test).mean())


def _kernel_machine(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> dict[str, Any]:
    model = SVC(C=10.0, gamma="scale").fit(X, y)
    size = model.support_vectors_.size * 4 + model.dual_coef_.size * 4
    return {"size": size / 1000.0, "error": 100.0 * float((model.predict(X_test) != y_test).mean())}
