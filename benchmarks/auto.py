"""The automatic choice beside scikit-learn's classifiers with their defaults, on many tables.

Five random splits of every set, 70 % for training, classes in proportion; every classifier gets the
same rows, standardised by the training part (words of texts as they are), but ``AutoSVC``, which
scales by itself, gets them raw.  Seconds are those of the processor, because a choice under a time
limit would otherwise depend on what else the machine does.

Rows that are finished are kept in ``auto-rows.json`` beside the results until all are there, so
that an interrupted run goes on where it ended.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from benchmarks.auto_further import FURTHER, FURTHER_PUBLIC, GROUPED
from benchmarks.auto_sets import MOST_ROWS, SETS, TableSet, load_set, public
from benchmarks.charts import Lines, Panel
from benchmarks.data import DataMissingError
from benchmarks.options import Options
from benchmarks.report import Column, Report, Verdict
from polymargin import AutoSVC

__all__ = ["FURTHER_SETS", "RIVALS", "measure", "run", "run_further"]

RIVALS = ("LogisticRegression", "LinearSVC", "SVC", "KNeighbors")
BOOSTING = "HistGradientBoosting"
TEST_SHARE = 0.3
ALLOWED_RATIO = 1.1
TIMES_SVC, SECONDS = 20.0, 10.0
BOOSTING_SPLITS = 2  # it is here for orientation and takes longer than all others together

_FURTHER_ROWS = 2000
_MANY_CLASSES = 30  # from here on boosting, which has a tree per class, takes minutes
_QUICK_ROWS = 200
_QUICK_SETS = ("iris", "wine", "rings", "survey", "circles")

FURTHER_SETS = (
    *(TableSet(name, "generated", make, _FURTHER_ROWS) for name, make in FURTHER.items()),
    *(TableSet(name, "public", public(name)) for name in FURTHER_PUBLIC),
)

COLUMNS = (
    Column("set", "set"),
    Column("shape", "training rows x features, classes"),
    Column("AutoSVC", "AutoSVC %", ".2f"),
    *(Column(name, f"{name} %", ".2f") for name in RIVALS),
    Column(BOOSTING, f"{BOOSTING} %", ".2f"),
    Column("limit", "limit %", ".2f"),
    Column("good", "within"),
    Column("seconds", "AutoSVC [s]", ".2f"),
    Column("svc_seconds", "SVC [s]", ".2f"),
    Column("choice", "choice"),
)


def run(options: Options) -> Report:
    """All sets that are present."""
    return compare(options, SETS, "auto", "AutoSVC beside scikit-learn's defaults")


def run_further(options: Options) -> Report:
    """Sets that were made after the rules of the choice."""
    title = "AutoSVC beside scikit-learn's defaults, on further tables"
    return compare(options, FURTHER_SETS, "auto_further", title)


def compare(options: Options, sets: Sequence[TableSet], name: str, title: str) -> Report:
    """The classifiers on sets."""
    report = Report(
        name,
        title,
        "Test errors, means of five splits (70 % for training, at most "
        f"{MOST_ROWS} rows in all, more of some sets). Limit: {ALLOWED_RATIO} times the best of "
        f"{', '.join(RIVALS)} plus one standard error of the test part. Seconds of the processor, "
        f"training; one thread. {BOOSTING}: two splits only.",
        COLUMNS,
    )
    chosen = [one for one in sets if not options.quick or one.name in _QUICK_SETS]
    kept = options.output / f"{'quick-' * options.quick}{name}-rows.json"
    done = json.loads(kept.read_text()) if kept.is_file() else {}
    for one in chosen:
        try:
            row = done.get(one.name) or measure(one, options)
        except DataMissingError as reason:
            report.skip(one.name, reason)
            continue
        done[one.name] = row
        _keep(kept, done)
        report.rows.append(row)
        print(
            f"{one.name}: AutoSVC {row['AutoSVC']:.2f} %, best rival {row['best']:.2f} %, "
            f"{row['seconds']:.1f} s, {row['choice']}",
            flush=True,
        )
    kept.unlink(missing_ok=True)
    report.verdicts = verdicts(report.rows, options.quick)
    report.panels = charts(report.rows) if report.rows else []
    return report


def _keep(path: Path, rows: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows), encoding="utf-8")


def measure(one: TableSet, options: Options) -> dict[str, Any]:
    """Mean errors and seconds of all classifiers on a set."""
    X, y = load_set(one, _QUICK_ROWS if options.quick else None)
    splits = 1 if options.quick else 5
    groups = GROUPED.get(one.name)
    runs = [measure_split(X, y, split, groups) for split in range(splits)]
    names = ("AutoSVC", *RIVALS, BOOSTING)
    errors = {
        name: float(np.mean([run[name]["error"] for run in runs if name in run])) for name in names
    }
    best = min(errors[name] for name in RIVALS)
    n_test = runs[0]["n_test"]
    limit = ALLOWED_RATIO * best + 100.0 * np.sqrt(best / 100.0 * (1.0 - best / 100.0) / n_test)
    return {
        "set": one.name,
        "source": one.source,
        "shape": f"{len(y) - n_test} x {X.shape[1]}, {y.max() + 1}",
        **errors,
        "best": best,
        "limit": float(limit),
        "good": "yes" if errors["AutoSVC"] <= limit else "no",
        "seconds": float(np.mean([run["AutoSVC"]["seconds"] for run in runs])),
        "svc_seconds": float(np.mean([run["SVC"]["seconds"] for run in runs])),
        "choice": _most_frequent([run["AutoSVC"]["choice"] for run in runs]),
        "runs": runs,
    }


def parts(y: np.ndarray, split: int, groups: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Rows that train and rows that test; where there are groups, a third of these tests."""
    if groups is None:
        rows = np.arange(len(y))
        train, test = train_test_split(rows, test_size=TEST_SHARE, random_state=split, stratify=y)
        return train, test
    folds = StratifiedGroupKFold(3, shuffle=True, random_state=split)
    return next(iter(folds.split(np.zeros(len(y)), y, groups)))


def measure_split(
    X: Any, y: np.ndarray, split: int, groups: np.ndarray | None = None
) -> dict[str, Any]:
    """All classifiers on one split."""
    train, test = parts(y, split, groups)
    X_train, X_test, y_train, y_test = X[train], X[test], y[train], y[test]
    found: dict[str, Any] = {"n_test": len(y_test)}
    for name, model in classifiers(sp.issparse(X), int(y.max()) >= _MANY_CLASSES).items():
        if name == BOOSTING and split >= BOOSTING_SPLITS:
            continue
        began = time.process_time()
        with warnings.catch_warnings(), processor_clock():
            warnings.simplefilter("ignore")
            told = {"groups": groups[train]} if groups is not None and name == "AutoSVC" else {}
            model.fit(X_train.toarray() if _needs_dense(name, X) else X_train, y_train, **told)
        seconds = time.process_time() - began
        rows = X_test.toarray() if _needs_dense(name, X) else X_test
        wrong = float(100.0 * np.mean(model.predict(rows) != y_test))
        found[name] = {"error": wrong, "seconds": seconds}
        if name == "AutoSVC":
            found[name]["choice"] = model.tried_["machine"][0]
            found[name]["was_cut_short"] = bool(model.was_cut_short_)
    return found


def _needs_dense(name: str, X: Any) -> bool:
    return name == BOOSTING and sp.issparse(X)


def classifiers(is_sparse: bool, are_many: bool = False) -> dict[str, ClassifierMixin]:
    """New ones, not fitted; those of scikit-learn behind a scaler where X is dense."""
    rivals = {
        "LogisticRegression": LogisticRegression(),
        "LinearSVC": LinearSVC(random_state=0),
        "SVC": SVC(),
        "KNeighbors": KNeighborsClassifier(),
    }
    if not is_sparse:
        rivals = {name: make_pipeline(StandardScaler(), one) for name, one in rivals.items()}
    boosting = HistGradientBoostingClassifier(
        random_state=0, max_iter=20 if is_sparse or are_many else 100
    )
    auto = AutoSVC(random_state=0)
    return {"AutoSVC": auto, **rivals, BOOSTING: boosting}


@contextmanager
def processor_clock() -> Iterator[None]:
    """Let time limits count seconds of the processor, so that a busy machine tries as much."""
    usual, time.perf_counter = time.perf_counter, time.process_time
    try:
        yield
    finally:
        time.perf_counter = usual


def _most_frequent(names: list[str]) -> str:
    return max(sorted(set(names)), key=names.count)


def mean_ranks(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Mean rank of AutoSVC and its rivals over the sets, equal errors sharing their ranks."""
    from scipy.stats import rankdata

    names = ("AutoSVC", *RIVALS)
    ranks = np.array([rankdata([round(row[name], 9) for name in names]) for row in rows])
    return dict(zip(names, ranks.mean(axis=0).tolist(), strict=True))


def verdicts(rows: list[dict[str, Any]], quick: bool) -> list[Verdict]:
    """Sets within the limit, mean ranks, cost, and where boosting is better."""
    if not rows:
        return []
    reason = "quick run" if quick else ""
    bad = [row["set"] for row in rows if row["good"] == "no"]
    ranks = mean_ranks(rows)
    rival = min((ranks[name], name) for name in RIVALS)
    cost = max(row["seconds"] / max(TIMES_SVC * row["svc_seconds"], SECONDS) for row in rows)
    lost = [row["set"] for row in rows if row[BOOSTING] < row["AutoSVC"]]
    return [
        Verdict(
            f"sets beyond the limit ({', '.join(bad) or 'none'}), of {len(rows)}",
            float(len(bad)),
            "at most 0",
            None if quick else not bad,
            reason,
        ),
        Verdict(
            "mean rank of AutoSVC among the five",
            ranks["AutoSVC"],
            f"below {rival[0]:.2f} ({rival[1]})",
            None if quick else ranks["AutoSVC"] < rival[0],
            reason,
        ),
        Verdict(
            "largest cost, in units of 20 fits of SVC or 10 s",
            cost,
            "at most 1",
            None if quick else cost <= 1.0,
            reason,
        ),
        Verdict(
            f"sets where {BOOSTING} is better ({', '.join(lost) or 'none'})",
            float(len(lost)),
            "none set",
            None,
            reason or "for information",
        ),
    ]


def charts(rows: list[dict[str, Any]]) -> list[Panel]:
    """Every set is a point: the errors of AutoSVC and of boosting beside the best rival."""
    ordered = sorted(rows, key=lambda row: row["best"])
    best = [max(row["best"], 0.1) for row in ordered]
    series = {
        name: [row[name] / unit for row, unit in zip(ordered, best, strict=True)]
        for name in ("AutoSVC", BOOSTING)
    }
    return [
        Lines(
            "One point per set",
            "error of the best of the four rivals, %",
            "error / that of the best rival",
            best,
            series,
            limits={f"{ALLOWED_RATIO} times the best": [ALLOWED_RATIO] * len(best)},
            joined=False,
        )
    ]
