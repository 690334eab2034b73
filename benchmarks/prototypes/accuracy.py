"""Test error over the number of prototypes per class; C, metric, rows chosen on training data."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from joblib import Parallel, delayed
from sklearn.model_selection import StratifiedKFold

from benchmarks import competitors
from benchmarks.charts import Lines
from benchmarks.data import DataMissingError, DataSet, load
from benchmarks.options import Options
from benchmarks.prototypes.fits import fit_seed, mean, note, seeds, spread
from benchmarks.prototypes.rows import Rows, as_given, unit_length
from benchmarks.report import Column, Report, Table, Verdict, judged
from benchmarks.timing import median
from polymargin.solvers.metric_learning import METRICS

__all__ = ["CASES", "Case", "Choice", "run"]

# C climbs a ladder by the error of folds, from the choice of the row before.  One seed moves the
# error of five folds by .2 points, so there are two, and none of those that the table is made of.
FOLDS = 5
VALIDATION_SEEDS = (10, 11)

# Fits that choose are not timed, so that they may share the cores.
VALIDATION_JOBS = 2


@dataclass(frozen=True)
class Choice:
    """What validation prefers for a set and a number of prototypes."""

    C: float
    metric: str
    rows: Rows


_QUICK_NUMBERS = (1, 3)
_QUICK_FOLDS_USED = 1
_LARGEST = 20


@dataclass(frozen=True)
class Case:
    """A data set, what may be seen of its rows, published test errors, target at q = 20."""

    data: str
    rows: tuple[Rows, ...]
    published: dict[int, float]
    target: float


CASES = (
    Case(
        "usps",
        (
            Rows("as given", as_given, (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08), 0.01),
            Rows("unit length", unit_length, (0.625, 1.25, 2.5, 5.0, 10.0, 20.0), 5.0),
        ),
        {1: 8.12, 3: 6.13, 5: 5.83, 10: 5.48, 15: 5.23, 20: 5.00},
        5.0,
    ),
    Case(
        "letter",
        # sixteen measurements without a common unit: the length of a row means nothing
        (Rows("as given", as_given, (2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0), 20.0),),
        {1: 21.36, 3: 9.64, 5: 6.42, 10: 4.84, 15: 3.16, 20: 2.94},
        2.9,
    ),
)

COLUMNS = (
    Column("data", "set"),
    Column("q", "q", "d"),
    Column("rows", "rows"),
    Column("metric", "metric"),
    Column("C", "C", "g"),
    Column("validation_error", "validation [%]", ".2f"),
    Column("choice", "choice"),
    Column("error", "test error [%]", ".2f"),
    Column("spread", "spread", ".2f"),
    Column("published", "published [%]", ".2f"),
    Column("difference", "difference", "+.2f"),
    Column("alive", "alive", ".0f"),
    Column("prototypes", "of", "d"),
    Column("seconds", "fit [s]", ".4g"),
    Column("note", "note"),
)


def run(report: Report, options: Options) -> dict[tuple[str, int], Choice]:
    """One row per set, number of prototypes, rows and metric; returns the choices."""
    table = Table(
        "Test error",
        f"Default annealing. C: least mean error on {FOLDS} stratified folds of the training part "
        f"with {len(VALIDATION_SEEDS)} seeds of its own, on a ladder of factor 2 that is climbed "
        "from the choice with fewer prototypes. Rows and metric of the lowest validation error are "
        "the choice, which is judged (unit length: ink from 0 on, divided by its length). Error: "
        "mean over seeds 0, 1, 2, spread is their standard deviation. Seconds of the process: "
        "median of the same fits.",
        COLUMNS,
    )
    report.tables.append(table)
    choices: dict[tuple[str, int], Choice] = {}
    for case in CASES:
        numbers = _QUICK_NUMBERS if options.quick else tuple(case.published)
        rows = measure_set(case, numbers, report, options)
        table.rows += rows
        if rows:
            report.panels.append(chart(case, rows))
        report.verdicts += verdicts(case, rows, options.quick)
        for row in chosen(rows):
            of_name = next(one for one in case.rows if one.name == row["rows"])
            choices[case.data, row["q"]] = Choice(row["C"], row["metric"], of_name)
    return choices


def chosen(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The row of each set and number of prototypes that validation prefers."""
    return [row for row in rows if row["choice"]]


def measure_set(
    case: Case, numbers: tuple[int, ...], report: Report, options: Options
) -> list[dict[str, Any]]:
    """The rows of one set, or none where it is absent."""
    try:
        data = load(case.data, options.quick)
    except DataMissingError as reason:
        for q in numbers:
            report.skip(f"accuracy, {case.data} q={q}", reason)
        return []
    found: list[dict[str, Any]] = []
    seen = {rows.name: rows.data(data) for rows in case.rows}
    start = {(rows.name, metric): rows.first for rows in case.rows for metric in METRICS}
    for q in numbers:
        group = [
            measure(case, q, rows, metric, start[rows.name, metric], seen[rows.name], options)
            for rows in case.rows
            for metric in METRICS
        ]
        min(group, key=lambda row: row["validation_error"])["choice"] = "*"
        found += group
        for row in group:
            start[row["rows"], row["metric"]] = row["C"]
            print(
                f"accuracy, {case.data} q={q} {row['rows']}, {row['metric']}{row['choice']}: "
                f"C={row['C']:g}, validation {row['validation_error']:.2f} %, test error "
                f"{row['error']:.2f} % (+- {row['spread']:.2f}; published {row['published']:.2f}), "
                f"{row['seconds']:.4g} s",
                flush=True,
            )
    return found


def measure(
    case: Case, q: int, rows: Rows, metric: str, start: float, data: DataSet, options: Options
) -> dict[str, Any]:
    """One row of the table; what is compiled is loaded before the timed fits."""
    candidates = rows.candidates
    validation = climb(
        candidates, candidates.index(start), lambda C: validate(q, C, metric, data, options)
    )
    C = min(validation, key=lambda candidate: validation[candidate])
    models = [competitors.ours_prototypes(q, C, seed, "default", metric) for seed in seeds(options)]
    competitors.warm(models[0], data.X_train, data.y_train)
    runs = [fit_seed(model, data) for model in models]
    errors = [one["error"] for one in runs]
    return {
        "data": case.data,
        "q": q,
        "rows": rows.name,
        "metric": metric,
        "C": C,
        "validation_error": validation[C],
        "choice": "",
        "error": mean(errors),
        "spread": spread(errors),
        "published": case.published[q],
        "difference": mean(errors) - case.published[q],
        "alive": mean(one["alive"] for one in runs),
        "prototypes": runs[0]["prototypes"],
        "seconds": median(one["seconds"] for one in runs),
        "note": ", ".join(filter(None, [note(runs), edge(C, candidates)])),
        "validation": [{"C": C, "error": error} for C, error in validation.items()],
        "runs": runs,
    }


def climb(
    candidates: tuple[float, ...], at: int, error_of: Callable[[float], float]
) -> dict[float, float]:
    """Errors of the candidates looked at: from one of them to where both neighbours are worse."""
    found: dict[float, float] = {}

    def error(place: int) -> float:
        if not 0 <= place < len(candidates):
            return float("inf")
        C = candidates[place]
        if C not in found:
            found[C] = error_of(C)
        return found[C]

    while True:
        best = min((at, at - 1, at + 1), key=error)
        if best == at:
            return found
        at = best


def validate(q: int, C: float, metric: str, data: DataSet, options: Options) -> float:
    """Mean error in percent on held-out folds of the training part."""
    X, y = data.X_train, data.y_train
    used = _QUICK_FOLDS_USED if options.quick else FOLDS
    seeds_used = VALIDATION_SEEDS[:1] if options.quick or q == 1 else VALIDATION_SEEDS
    splits = list(StratifiedKFold(FOLDS).split(X, y))[:used]
    return mean(
        Parallel(n_jobs=1 if options.quick else VALIDATION_JOBS)(
            delayed(held_out_error)(q, C, metric, seed, X[train], y[train], X[rest], y[rest])
            for train, rest in splits
            for seed in seeds_used
        )
    )


def held_out_error(
    q: int, C: float, metric: str, seed: int, X: Any, y: Any, X_rest: Any, y_rest: Any
) -> float:
    """Error in percent on the rest; the fits that count keep their warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = competitors.ours_prototypes(q, C, seed, "default", metric).fit(X, y)
    return competitors.percent_wrong(model, X_rest, y_rest)


def edge(C: float, candidates: tuple[float, ...]) -> str:
    """A choice at the end of the grid might have gone further."""
    smallest, largest = min(candidates), max(candidates)
    if largest == C:
        return "C is the largest candidate"
    return "C is the smallest candidate" if smallest == C else ""


def verdicts(case: Case, rows: list[dict[str, Any]], quick: bool) -> list[Verdict]:
    """The target of the largest number; the others against the published row and the spread.

    Only choices of validation are judged.
    Published errors have two digits behind the point, so ours are rounded before they are compared.
    """
    rows = chosen(rows)
    largest = [row["error"] for row in rows if row["q"] == _LARGEST]
    beyond = [
        round(row["error"], 2) - row["published"] - row["spread"]
        for row in rows
        if row["q"] != _LARGEST
    ]
    name = case.data.upper()
    return [
        judged(f"{name} q={_LARGEST}, error in %", largest, max, case.target, 1, quick, True),
        judged(
            f"{name} q<{_LARGEST}, error beyond published + spread, largest",
            beyond,
            max,
            0.0,
            len(case.published) - 1,
            quick,
            at_most=True,
        ),
    ]


def chart(case: Case, rows: list[dict[str, Any]]) -> Lines:
    """All curves over the number of prototypes."""
    numbers = [row["q"] for row in chosen(rows)]
    curves = {
        f"{seen.name}, {metric} metric": [
            row for row in rows if row["metric"] == metric and row["rows"] == seen.name
        ]
        for seen in case.rows
        for metric in METRICS
    }
    ends = {
        name: [[one["error"] for one in row["runs"]] for row in curve]
        for name, curve in curves.items()
    }
    return Lines(
        f"{case.data.upper()}: test error",
        "prototypes per class",
        "%, mean of the seeds (bars: lowest, highest)",
        numbers,
        {name: [row["error"] for row in curve] for name, curve in curves.items()},
        limits={"published": [case.published[q] for q in numbers]},
        whiskers={name: [(min(one), max(one)) for one in end] for name, end in ends.items()},
        y_axis="log",
    )
