"""``explain`` beside shap's linear explainer; radius and counterfactual against brute force.

Speed: processor seconds per row of ``explain`` and of ``shap.LinearExplainer`` (its background the
mean row) for the same linear Crammer-Singer model, and how far contributions are from adding up to
the lead of the winner.  With the mean row as reference both give the same numbers: "apart" is the
largest difference.

Brute force: random models (linear, prototypes, hulls; two to four classes; with and without
scalers; norms 1, 2, infinity), and as many RBF models.  No sampled row inside the certified radius
may have another label; at the distance of the counterfactual of the nearest class there is one, so
that a radius which is never violated and reached by it is exact.  No sampled row of a target may be
nearer than the counterfactual to that target.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from benchmarks.charts import Bars
from benchmarks.data import DataMissingError, load
from benchmarks.options import Options
from benchmarks.report import Column, Report
from benchmarks.timing import median, processor_seconds
from polymargin import (
    ConvexHullSVC,
    MulticlassSVC,
    MultiPrototypeSVC,
    certified_radius,
    counterfactual,
    explain,
)

__all__ = ["run"]

SETS = ("satimage", "usps", "letter")
ROWS = 2000
MODELS = 100
PER_MODEL = 4
SAMPLES = 1000
NORMS: tuple[Any, ...] = (1, 2, "inf")

COLUMNS = (
    Column("title", "what"),
    Column("n", "rows or models", "d"),
    Column("ours", "explain [us per row]", ".2f"),
    Column("shap", "shap.LinearExplainer [us per row]", ".2f"),
    Column("miss", "sum of contributions - lead", ".1e"),
    Column("shap_miss", "the same, shap", ".1e"),
    Column("apart", "contributions apart", ".1e"),
    Column("samples", "samples", "d"),
    Column("violations", "radius violated", "d"),
    Column("above", "change / radius - 1, largest", ".1e"),
    Column("share", "radius / true distance, median", ".2f"),
    Column("reached", "targets reached [%]", ".1f"),
    Column("nearer", "nearer rows of the target", "d"),
)


def run(options: Options) -> Report:
    """Speed on the sets that are present, then the two rows of brute force."""
    report = Report(
        "explanations",
        "Explanations: speed and exactness",
        f"Processor seconds, one thread, {ROWS} rows at once, median of {options.repeat} runs. "
        f"Brute force: {PER_MODEL} rows of each model, {SAMPLES} samples each and norm.",
        COLUMNS,
    )
    for name in SETS:
        try:
            report.rows.append(_speed(name, options))
        except (DataMissingError, ImportError) as reason:
            report.skip(name, reason)
            continue
        print(report.rows[-1], flush=True)
    n = 4 if options.quick else MODELS
    for row in (_brute_force(n), _brute_force_rbf(n)):
        report.rows.append(row)
        print(row, flush=True)
    timed = [row for row in report.rows if row.get("ours") is not None]
    report.rows = [{column.key: row.get(column.key) for column in COLUMNS} for row in report.rows]
    report.panels = [
        Bars(
            "processor time per row",
            "data set",
            "microseconds",
            [row["title"] for row in timed],
            {
                "polymargin.explain": [row["ours"] for row in timed],
                "shap.LinearExplainer": [row["shap"] for row in timed],
            },
        )
    ]
    return report


# -- beside shap -----------------------------------------------------------------------------------


def _speed(name: str, options: Options) -> dict[str, Any]:
    import shap

    data = load(name, options.quick)
    X = np.asarray(data.X_train, dtype=np.float64)
    rows = np.asarray(data.X_test, dtype=np.float64)[:ROWS]
    model = MulticlassSVC(C=0.1, random_state=0).fit(X, data.y_train)
    mean = X.mean(axis=0)
    explainer = shap.LinearExplainer((model.coef_, model.intercept_), mean[None, :])
    explain(model, rows[:10], mean)
    explainer.shap_values(rows[:10])
    ours, theirs = [], []
    for _ in range(options.repeat):
        seconds, found = processor_seconds(explain, model, rows, mean)
        ours.append(1e6 * seconds / len(rows))
        seconds, values = processor_seconds(explainer.shap_values, rows)
        theirs.append(1e6 * seconds / len(rows))
    values = np.asarray(values)  # (rows, features, classes)
    at = np.arange(len(rows))
    apart = values[at, :, found.prototype] - values[at, :, found.rival]
    base = explainer.expected_value
    constant = base[found.prototype] - base[found.rival]
    return {
        "title": f"{name}, {rows.shape[1]} features, {len(model.classes_)} classes",
        "n": len(rows),
        "ours": median(ours),
        "shap": median(theirs),
        "miss": _largest(found.contributions.sum(axis=1) + found.constant - found.lead),
        "shap_miss": _largest(apart.sum(axis=1) + constant - found.lead),
        "apart": _largest(apart - found.contributions),
    }


def _largest(values: np.ndarray) -> float:
    return float(np.abs(values).max())


# -- brute force -----------------------------------------------------------------------------------


def random_model(seed: int, kernel: str) -> tuple[Any, np.ndarray]:
    """A model of random points in four dimensions, and some of the points."""
    rng = np.random.default_rng(seed)
    n_classes, d = 2 + seed % 3, 4
    y = np.arange(48) % n_classes
    X = 1.5 * rng.standard_normal((n_classes, d))[y] + rng.standard_normal((48, d))
    X = X * np.exp(rng.standard_normal(d)) + 5.0 * rng.standard_normal(d)
    kinds: tuple[Any, ...] = (
        MulticlassSVC(kernel=kernel, C=0.5, random_state=seed),
        MultiPrototypeSVC(n_prototypes=3, kernel=kernel, C=0.5, random_state=seed),
        MulticlassSVC("ww", kernel=kernel, C=0.5, random_state=seed),
        ConvexHullSVC(eta=0.2, kernel=kernel),
    )
    scalers = (None, StandardScaler(), MinMaxScaler())
    scaler, last = scalers[seed % 3], kinds[seed % 4]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = (last if scaler is None else make_pipeline(scaler, last)).fit(X, y)
    return model, rng.permutation(X)[:PER_MODEL]


def steps(rng: np.random.Generator, n: int, d: int, norm: Any) -> np.ndarray:
    """Steps of length one in the norm, many of them towards corners and axes."""
    found = rng.standard_normal((n, d)) * np.exp(2.0 * rng.standard_normal((n, d)))
    if norm == "inf":
        found[: n // 2] = np.sign(found[: n // 2])
    return found / lengths(found, norm)[:, None]


def lengths(rows: np.ndarray, norm: Any) -> np.ndarray:
    """Norms of rows."""
    return np.asarray(np.linalg.norm(rows, np.inf if norm == "inf" else norm, axis=1))


def _brute_force(n: int) -> dict[str, Any]:
    """Linear, prototype and hull models: exact radius and counterfactual."""
    violations = nearer = samples = reached = wanted = 0
    above = 0.0
    for seed in range(n):
        model, rows = random_model(seed, "linear")
        rng = np.random.default_rng(10_000 + seed)
        for norm in NORMS:
            found = certified_radius(model, rows, norm)
            least = counterfactual(model, rows, norm=norm)
            target = int(model.classes_[seed % len(model.classes_)])
            goal = counterfactual(model, rows, target, norm=norm)
            reached += sum(_reaches(model, one) for one in (least, goal))
            wanted += 2
            violations += _inside(model, rows, found.radius, norm, rng)
            nearer += _inside(model, rows, goal.distance, norm, rng, target)
            samples += 2 * SAMPLES * len(rows)
            known = np.isfinite(found.radius) & (found.radius > 0.0)
            ratio = least.distance[known] / found.radius[known]
            above = max(above, float((ratio - 1.0).max(initial=0.0)))
    return {
        "title": "brute force: linear, prototypes, hulls",
        "n": n,
        "samples": samples,
        "violations": violations,
        "above": above,
        "reached": 100.0 * reached / wanted,
        "nearer": nearer,
    }


def _reaches(model: Any, found: Any) -> bool:
    """Whether every row that exists is predicted as its target."""
    there = ~np.isnan(found.rows).any(axis=1)
    said = model.predict(found.rows[there]) if there.any() else found.target[there]
    return bool((said == np.asarray(found.target)[there]).all())


def _inside(
    model: Any,
    rows: np.ndarray,
    radius: np.ndarray,
    norm: Any,
    rng: np.random.Generator,
    target: Any = None,
) -> int:
    """Samples inside a radius with another label than the row; or of the target, if given."""
    count = 0
    labels = model.predict(rows)
    for x, label, r in zip(rows, labels, radius, strict=True):
        if not np.isfinite(r) or (target is not None and label == target):
            continue
        near = r * (1.0 - 1e-9) * rng.random((SAMPLES, 1)) ** 0.1  # most of them at the border
        said = model.predict(x + near * steps(rng, SAMPLES, len(x), norm))
        count += int((said != label).sum() if target is None else (said == target).sum())
    return count


def _brute_force_rbf(n: int) -> dict[str, Any]:
    """RBF models: the radius is a lower bound; the true distance by bisection along samples."""
    violations = samples = 0
    shares: list[float] = []
    for seed in range(n):
        model, rows = random_model(seed, "rbf")
        rng = np.random.default_rng(20_000 + seed)
        found = certified_radius(model, rows)
        violations += _inside(model, rows, found.radius, 2, rng)
        samples += SAMPLES * len(rows)
        for x, label, r in zip(rows, model.predict(rows), found.radius, strict=True):
            far = _distance(model, x, label, rng)
            if np.isfinite(far) and far > 0.0 and np.isfinite(r):
                shares.append(float(r / far))
                violations += int(r > far)
    return {
        "title": "brute force: RBF",
        "n": n,
        "samples": samples,
        "violations": violations,
        "share": float(np.median(shares)),
    }


def _distance(model: Any, x: np.ndarray, label: Any, rng: np.random.Generator) -> float:
    """The shortest of many distances to a row of another label: above the true distance."""
    ways = steps(rng, SAMPLES, len(x), 2)
    low, high = np.zeros(SAMPLES), np.full(SAMPLES, 8.0 * float(np.abs(x).max() + 1.0))
    changed = model.predict(x + high[:, None] * ways) != label
    ways, low, high = ways[changed], low[changed], high[changed]
    if not len(ways):
        return float("inf")
    for _ in range(30):
        middle = 0.5 * (low + high)
        is_other = model.predict(x + middle[:, None] * ways) != label
        low, high = np.where(is_other, low, middle), np.where(is_other, middle, high)
    return float(high.min())
