"""Twenty prototypes per class at their best: what the smooth finish adds to C, rows and metric.

C, rows and metric are those that five folds of the training part chose in ``prototypes`` (MNIST,
ten per class: 50,000 training rows, judged by the 10,000 others).  Whether to finish, and how, is
chosen once by ``finish="auto"`` (seed 100) on folds of the training rows; on MNIST those 10,000
rows have said that no finish helps (NOTES.md).  Machines are then trained on all training rows with
other seeds and judged on the test part before and after the finish.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.data import DataMissingError, DataSet, load
from benchmarks.kept_cells import KeptCells
from benchmarks.options import Options
from benchmarks.prototypes.rows import Rows, as_given, unit_length, unit_norm
from benchmarks.report import Column, Report
from benchmarks.timing import processor_seconds
from polymargin import MultiPrototypeSVC
from polymargin.estimators.finishing import FinishValue, finished, jitter_parts

__all__ = ["run"]

_SEEDS = (0, 1, 2, 3, 4)
_CHOICE_SEED = 100


@dataclass(frozen=True)
class Case:
    """A set with the values that folds of its training part chose, and the error wanted."""

    data: str
    rows: Rows
    C: float
    metric: str
    wanted: float
    per_class: int = 20
    has_finish: bool = True


CASES = (
    Case("letter", Rows("as given", as_given, (), 10.0), 10.0, "learned", 2.6),
    Case("usps", Rows("unit length", unit_length, (), 5.0), 5.0, "learned", 4.8),
    Case("mnist", Rows("unit length", unit_norm, (), 5.0), 5.0, "learned", 2.3, 10, False),
)

COLUMNS = (
    Column("set", "set"),
    Column("rows", "rows"),
    Column("C", "C", "g"),
    Column("metric", "metric"),
    Column("per_class", "per class", "d"),
    Column("jitter", "jitter chosen"),
    Column("seeds", "seeds", "d"),
    Column("before", "without finish [%]", ".2f"),
    Column("before_spread", "spread", ".2f"),
    Column("error", "with finish [%]", ".2f"),
    Column("spread", "spread", ".2f"),
    Column("wanted", "wanted [%]", ".1f"),
    Column("seconds", "fit [CPU s]", ".1f"),
    Column("finish_seconds", "finish [CPU s]", ".1f"),
)


def run(options: Options) -> Report:
    """One row per set; a run that was stopped writes what it has and goes on next time."""
    report = Report(
        "goals",
        "Twenty prototypes per class",
        "Errors on the test part, means over seeds; 'spread' is their standard deviation. C, rows "
        "and metric: folds of the training part (benchmark `prototypes`; MNIST: one part). Jitter: "
        f"chosen once on folds of the training rows with seed {_CHOICE_SEED}.",
        COLUMNS,
    )
    path = None if options.quick else options.output / "goals.cells.jsonl"
    cells = KeptCells(path, {"choice": _CHOICE_SEED})
    for case in CASES:
        try:
            data = case.rows.data(load(case.data, options.quick))
            row = _row(case, data, cells, options.quick)
        except DataMissingError as error:
            report.skip(case.data, error)
            continue
        except KeyboardInterrupt:
            report.missing.append(f"{case.data} and what comes after it: stopped")
            break
        report.rows.append(row)
        print(" ".join(f"{c.title} {c.show(row)}" for c in COLUMNS), flush=True)
    return report


def _row(case: Case, data: DataSet, cells: KeptCells, is_quick: bool) -> dict[str, Any]:
    choice = cells.get(f"{case.data} choice", lambda: _choose(case, data))
    print(f"{case.data}: {choice}", flush=True)
    results: list[dict[str, float]] = []
    for seed in _SEEDS[:1] if is_quick else _SEEDS:
        try:
            measure = _measurement(case, data, _value(choice["jitter"]), seed)
            results.append(cells.get(f"{case.data} seed {seed}", measure))
        except KeyboardInterrupt:
            if not results:
                raise
            break
        print(f"{case.data} seed {seed}: {results[-1]}", flush=True)
    found: dict[str, Any] = {
        key: float(np.mean([one[key] for one in results])) for key in results[0]
    }
    for key, name in (("before", "before_spread"), ("error", "spread")):
        values = [one[key] for one in results]
        found[name] = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return found | {
        "set": case.data,
        "rows": case.rows.name,
        "C": case.C,
        "metric": case.metric,
        "per_class": case.per_class,
        "wanted": case.wanted,
        "seeds": len(results),
        "runs": results,
        **choice,
    }


def _machine(case: Case, seed: int, finish: str | None = None) -> MultiPrototypeSVC:
    return MultiPrototypeSVC(
        case.per_class, C=case.C, metric=case.metric, finish=finish, random_state=seed
    )


def _choose(case: Case, data: DataSet) -> dict[str, Any]:
    """The jitter, and the validation errors behind it."""
    if not case.has_finish:
        return {"jitter": None}
    model = _machine(case, _CHOICE_SEED, "auto")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds, _ = processor_seconds(model.fit, data.X_train, data.y_train)
    record = model.finish_
    return {
        "jitter": _words(record["jitter"]),
        "tried_jitter": [_words(value) for value in record["tried"]],
        "validation": [100.0 * error for error in record["errors"]],
        "choice_seconds": seconds,
    }


def _words(jitter: FinishValue | None) -> str | None:
    """A jitter as text: JSON knows no tuples."""
    if jitter is None:
        return None
    along, strength = jitter_parts(jitter)
    return f"{strength:g} along {along}"


def _value(words: str | None) -> FinishValue | None:
    if words is None:
        return None
    strength, along = words.split(" along ")
    return (along, float(strength))


def _measurement(
    case: Case, data: DataSet, jitter: FinishValue | None, seed: int
) -> Callable[[], dict[str, float]]:
    """Errors of one seed before and after the finish."""

    def error(W: np.ndarray, b: np.ndarray, owner: np.ndarray) -> float:
        winner = (data.X_test @ W.T + b).argmax(axis=1)
        return 100.0 * float((owner[winner] != data.y_test).mean())

    def measure() -> dict[str, float]:
        seconds, model = processor_seconds(_machine(case, seed).fit, data.X_train, data.y_train)
        owner = model._prototype_class
        before = error(model.prototypes_, model.intercept_, owner)
        after, more = before, 0.0
        if jitter is not None:
            given = (data.X_train, data.y_train, None, jitter, seed)
            more, parts = processor_seconds(finished, model, *given)
            after = error(parts.weights, parts.intercepts, owner)
        return {"before": before, "error": after, "seconds": seconds, "finish_seconds": more}

    return measure
