"""What a sum of kernels brings: linear alone, Gaussian alone, and both with a weight.

The Crammer-Singer machine on the splits of the radius-margin benchmark.  C, the width and the
weight of the linear part are chosen by 3-fold cross-validation of the training part, for each kind
of kernel on its own grid; the error is that on the examples that took no part.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks.competitors import folds_error, percent_wrong
from benchmarks.options import Options
from benchmarks.radius import SPLITS, parts_of
from benchmarks.report import Column, Report
from polymargin import MulticlassSVC

__all__ = ["run"]

SETS = ("wine", "glass", "vehicle")
CS = (0.1, 1.0, 10.0, 100.0)
WIDTHS = (0.25, 1.0, 4.0)  # divided by the number of features
WEIGHTS = (0.1, 0.5, 0.9)  # of the linear part, whose diagonal is brought to 1 first
FOLDS = 3
TOL = 1e-2  # labels do not depend on further digits

COLUMNS = (
    Column("title", "set"),
    Column("n", "n", "d"),
    Column("linear", "linear [%]", ".1f"),
    Column("rbf", "rbf [%]", ".1f"),
    Column("sum", "sum [%]", ".1f"),
    Column("difference", "sum - best of both, by validation", "+.1f"),
    Column("spread", "its standard error", ".1f"),
)


def run(options: Options) -> Report:
    """All sets that are present."""
    report = Report(
        "kernel_sums",
        "Sums of kernels beside their terms",
        f"Machine `cs`, errors on the examples that took no part, means over {SPLITS} splits; C "
        f"({len(CS)} values), gamma ({len(WIDTHS)}) and the weight of the linear part "
        f"({len(WEIGHTS)}) by {FOLDS}-fold cross-validation of the training part. The last columns "
        "compare the sum with the single kernel that the same cross-validation prefers.",
        COLUMNS,
    )
    for name in report.present(SETS):
        n_splits = 1 if options.quick else SPLITS
        rows = [_one_split(name, split, options.quick) for split in range(n_splits)]
        row = {key: float(np.mean([one[key] for one in rows])) for key in rows[0]}
        spread = np.std([one["difference"] for one in rows], ddof=1) if n_splits > 1 else np.nan
        shown = None if np.isnan(spread) else float(spread / np.sqrt(n_splits))
        report.rows.append(row | {"title": name, "n": int(row["n"]), "spread": shown})
        print(f"{name}: {row}", flush=True)
    return report


def _one_split(name: str, split: int, quick: bool) -> dict[str, float]:
    X, y, X_test, y_test = parts_of(name, split, quick)
    scale = np.sqrt((X**2).sum(axis=1).mean())  # mean kappa(x, x) = 1, as that of the Gaussian
    X, X_test = X / scale, X_test / scale
    gammas = [width / X.shape[1] * scale**2 for width in WIDTHS]
    kinds: dict[str, list[dict[str, Any]]] = {
        "linear": [{"kernel": "linear"}],
        "rbf": [{"kernel": "rbf", "gamma": gamma} for gamma in gammas],
        "sum": [
            {"kernel": {"linear": beta, "rbf": 1.0 - beta}, "gamma": gamma}
            for gamma, beta in itertools.product(gammas, WEIGHTS)
        ],
    }
    found, validated = {"n": float(len(y))}, {}
    for kind, settings in kinds.items():
        cells = [one | {"C": C} for one in settings for C in (CS[1:3] if quick else CS)]
        models = [MulticlassSVC(tol=TOL, random_state=0, **cell) for cell in cells]
        scores = [folds_error(model, X, y, FOLDS) for model in models]
        validated[kind] = min(scores)
        best = models[int(np.argmin(scores))].fit(X, y)
        found[kind] = percent_wrong(best, X_test, y_test)
    single = min(("linear", "rbf"), key=validated.__getitem__)
    return found | {"difference": found["sum"] - found[single]}
