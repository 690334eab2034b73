"""What rounding costs: prototypes in int16, int8 and int4, trained as ``fit_into`` does.

C and the jitter of the finish are chosen on a validation part of the training rows; machines of
several seeds are then trained on all training rows, rounded, refitted and judged on the test part.
All formats of a seed begin with the same margin machine.

Cells are kept in ``rounding.cells.jsonl`` beside the results, as those of ``tiny`` are.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.data import DataMissingError, find, thin
from benchmarks.kept_cells import KeptCells
from benchmarks.options import Options
from benchmarks.report import Column, Report, Verdict, judged
from benchmarks.timing import processor_seconds
from polymargin import MultiPrototypeSVC
from polymargin.estimators.number_formats import CompactModel
from polymargin.estimators.size_limit import FeatureScale, SizeSearch, split_rows
from polymargin.estimators.size_plans import SizeBudget, SizePlan
from polymargin.solvers.smooth_finish import FinishSettings

__all__ = ["run"]

SETS = ("satimage", "pendigits", "letter", "usps", "mnist")
FORMATS = ("int16", "int8", "int4")
_PER_CLASS = 5
_SEEDS = (0, 1, 2, 3, 4)
_JITTERS = (0.0, 0.1, 0.2)
_MOST_ROWS = 15_000  # of training rows; only MNIST has more
_SHARPNESS, _RATE = 8.0, 0.05
_MOST_LOST = {"int8": 0.1, "int4": 0.5}  # points, wanted

COLUMNS = (
    Column("set", "set"),
    Column("seeds", "seeds", "d"),
    Column("int16", "int16, error [%]", ".2f"),
    Column("int8", "int8: more [points]", "+.2f"),
    Column("int8_spread", "standard error", ".2f"),
    Column("int4", "int4: more [points]", "+.2f"),
    Column("int4_spread", "standard error", ".2f"),
    Column("seconds", "one seed [CPU s]", ".0f"),
)

Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def run(options: Options) -> Report:
    """One row per set; a run that was stopped writes what it has and goes on next time."""
    report = Report(
        "rounding",
        "What rounding costs",
        f"{_PER_CLASS} prototypes per class, test errors, means over seeds; int8 and int4 as "
        "differences to int16 of the same seed. C and jitter: a validation part of the "
        f"training rows (evenly spaced, at most {_MOST_ROWS:,}).",
        COLUMNS,
    )
    path = None if options.quick else options.output / "rounding.cells.jsonl"
    cells = KeptCells(path, {"rows": _MOST_ROWS, "per_class": _PER_CLASS})
    for name in SETS:
        try:
            row = _row(name, cells, options.quick)
        except DataMissingError as error:
            report.skip(name, error)
            continue
        except KeyboardInterrupt:
            report.missing.append(f"{name} and what comes after it: stopped")
            break
        report.rows.append(row)
        print(" ".join(f"{c.title} {c.show(row)}" for c in COLUMNS), flush=True)
    report.verdicts = _verdicts(report.rows, options.quick)
    return report


def _row(name: str, cells: KeptCells, is_quick: bool) -> dict[str, Any]:
    parts = _load(name, is_quick)
    found: list[dict[str, Any]] = []
    for seed in _SEEDS[:1] if is_quick else _SEEDS:
        try:
            found.append(cells.get(f"{name} {seed}", lambda seed=seed: _measure(parts, seed)))
        except KeyboardInterrupt:
            if not found:
                raise
            break
        print(f"{name} {seed}: {found[-1]}", flush=True)
    row: dict[str, Any] = {"set": name, "seeds": len(found), "runs": found}
    row["int16"] = float(np.mean([one["int16"] for one in found]))
    row["seconds"] = float(np.mean([one["seconds"] for one in found]))
    for key in FORMATS[1:]:
        more = np.array([one[key] - one["int16"] for one in found])
        row[key] = float(more.mean())
        spread = more.std(ddof=1) / np.sqrt(len(more)) if len(more) > 1 else None
        row[f"{key}_spread"] = None if spread is None else float(spread)
    return row


def _verdicts(rows: list[dict[str, Any]], is_quick: bool) -> list[Verdict]:
    return [
        judged(
            f"{key}, points lost, largest",
            [row[key] for row in rows],
            max,
            limit,
            len(SETS),
            is_quick,
            at_most=True,
        )
        for key, limit in _MOST_LOST.items()
    ]


def _load(name: str, is_quick: bool) -> Parts:
    with np.load(find(name)) as z:
        X, y = z["X"].astype(np.float64), np.unique(z["y"], return_inverse=True)[1]
        train, test = z["train_idx"], z["test_idx"]
    train = train[thin(len(train), 300 if is_quick else _MOST_ROWS)]
    return X[train], y[train], X[test], y[test]


def _measure(parts: Parts, seed: int) -> dict[str, Any]:
    """Errors of all formats with one seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds, found = processor_seconds(_errors, parts, seed)
    return found | {"seconds": seconds}


def _errors(parts: Parts, seed: int) -> dict[str, Any]:
    X, y, X_test, y_test = parts
    search = _search(X, y, seed)
    train, test = split_rows(y, seed)
    search.choose_C(train, test)
    counts = np.full(len(search.classes), _PER_CLASS)
    R, d = int(counts.sum()), X.shape[1]
    part = search.base(counts, train, search.C)
    fine = SizePlan("int16", R, d)
    settings = [FinishSettings(_SHARPNESS, jitter, rate=_RATE) for jitter in _JITTERS]

    def validated(finish: FinishSettings) -> float:
        return search.error(search.rounded(fine, part, train, finish), test)

    chosen = min(settings, key=validated)
    everything = np.arange(len(y))
    whole = search.base(counts, everything, search.C, 0.0)
    found: dict[str, Any] = {"jitter": chosen.jitter}
    for plan in (fine, SizePlan("int8", R, d), SizePlan("int4", R, d)):
        model = search.rounded(plan, whole, everything, chosen)
        found[plan.number_format] = 100.0 * _test_error(model, X_test, y_test)
    return found


def _search(X: np.ndarray, y: np.ndarray, seed: int) -> SizeSearch:
    scale, classes = FeatureScale.of(X), np.unique(y)
    rarest = int(np.bincount(y).min())
    budget = SizeBudget(10**6, X.shape[1], len(classes), scale.per_feature, len(classes), rarest)
    estimator = MultiPrototypeSVC(random_state=seed)
    Z = scale.apply(X)
    return SizeSearch(estimator, Z, y, None, classes, scale, budget, seed, np.inf)


def _test_error(model: CompactModel, X: np.ndarray, y: np.ndarray) -> float:
    W, b = model.on_features()
    return float((model.prototype_class[(X @ W.T + b).argmax(axis=1)] != y).mean())
