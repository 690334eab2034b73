"""Test error over the number of prototypes per class, C chosen on the training part alone."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from sklearn.model_selection import StratifiedKFold

from benchmarks import competitors
from benchmarks.charts import Lines
from benchmarks.data import DataMissingError, DataSet, load
from benchmarks.options import Options
from benchmarks.prototypes.fits import fit_seed, mean, note, percent_wrong, seeds, spread
from benchmarks.report import Column, Report, Table, Verdict, judged
from benchmarks.timing import median

__all__ = ["CASES", "Case", "run"]

# C is chosen by the first folds of a larger number: large training parts at a smaller expense
FOLDS = 5
FOLDS_USED = 3

_QUICK_NUMBERS = (1, 3)
_QUICK_FOLDS_USED = 1
_LARGEST = 20


@dataclass(frozen=True)
class Case:
    """A data set, its candidates for C, the published test errors, and the target at q = 20."""

    data: str
    candidates: tuple[float, ...]
    published: dict[int, float]
    target: float


CASES = (
    Case(
        "usps",
        (0.003, 0.01, 0.03, 0.1),
        {1: 8.12, 3: 6.13, 5: 5.83, 10: 5.48, 15: 5.23, 20: 5.00},
        5.0,
    ),
    Case(
        "letter",
        (1.0, 3.0, 10.0, 30.0),
        {1: 21.36, 3: 9.64, 5: 6.42, 10: 4.84, 15: 3.16, 20: 2.94},
        2.9,
    ),
)

COLUMNS = (
    Column("data", "set"),
    Column("q", "q", "d"),
    Column("C", "C", "g"),
    Column("validation_error", "validation [%]", ".2f"),
    Column("error", "test error [%]", ".2f"),
    Column("spread", "spread", ".2f"),
    Column("published", "published [%]", ".2f"),
    Column("difference", "difference", "+.2f"),
    Column("alive", "alive", ".0f"),
    Column("prototypes", "of", "d"),
    Column("seconds", "fit [s]", ".4g"),
    Column("note", "note"),
)


def run(report: Report, options: Options) -> dict[tuple[str, int], float]:
    """One row per set and number of prototypes; returns the C chosen for each."""
    table = Table(
        "Test error",
        f"Default annealing. C: least mean error on the first {FOLDS_USED} of {FOLDS} stratified "
        "folds of the training part, seed 0, ties to the smaller. Error: mean over seeds 0, 1, 2, "
        "spread is their standard deviation. Seconds: median of the same fits.",
        COLUMNS,
    )
    report.tables.append(table)
    for case in CASES:
        numbers = _QUICK_NUMBERS if options.quick else tuple(case.published)
        rows = measure_set(case, numbers, report, options)
        table.rows += rows
        if rows:
            report.panels.append(chart(case, rows))
        report.verdicts += verdicts(case, rows, options.quick)
    return {(row["data"], row["q"]): row["C"] for row in table.rows}


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
    rows = []
    for q in numbers:
        row = measure(case, q, data, options)
        rows.append(row)
        print(
            f"accuracy, {case.data} q={q}: C={row['C']:g}, test error {row['error']:.2f} % "
            f"(+- {row['spread']:.2f}; published {row['published']:.2f}), {row['seconds']:.4g} s",
            flush=True,
        )
    return rows


def measure(case: Case, q: int, data: DataSet, options: Options) -> dict[str, Any]:
    """One row of the table; the fits that choose C have loaded everything before the timed ones."""
    candidates = case.candidates[:2] if options.quick else case.candidates
    validation = validate(q, candidates, data, options)
    C = min(candidates, key=lambda candidate: validation[candidate])
    runs = [
        fit_seed(competitors.ours_prototypes(q, C, seed, "default"), data)
        for seed in seeds(options)
    ]
    errors = [one["error"] for one in runs]
    return {
        "data": case.data,
        "q": q,
        "C": C,
        "validation_error": validation[C],
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


def validate(
    q: int, candidates: tuple[float, ...], data: DataSet, options: Options
) -> dict[float, float]:
    """Mean error in percent on held-out folds of the training part, per C."""
    X, y = data.X_train, data.y_train
    used = _QUICK_FOLDS_USED if options.quick else FOLDS_USED
    errors: dict[float, list[float]] = {C: [] for C in candidates}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fits that count keep theirs
        folds = list(StratifiedKFold(FOLDS).split(X, y))[:used]
        for C in candidates:
            for train, held_out in folds:
                model = competitors.ours_prototypes(q, C, 0, "default").fit(X[train], y[train])
                errors[C].append(percent_wrong(model, X[held_out], y[held_out]))
    return {C: mean(found) for C, found in errors.items()}


def edge(C: float, candidates: tuple[float, ...]) -> str:
    """A choice at the end of the grid might have gone further."""
    smallest, largest = min(candidates), max(candidates)
    if largest == C:
        return "C is the largest candidate"
    return "C is the smallest candidate" if smallest == C else ""


def verdicts(case: Case, rows: list[dict[str, Any]], quick: bool) -> list[Verdict]:
    """The target of the largest number; the others against the published row and the spread.

    Published errors have two digits behind the point, so ours are rounded before they are compared.
    """
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
    """Both curves over the number of prototypes."""
    ends = [[one["error"] for one in row["runs"]] for row in rows]
    return Lines(
        f"{case.data.upper()}: test error",
        "prototypes per class",
        "%, mean of the seeds (bars: lowest, highest)",
        [row["q"] for row in rows],
        {
            "polymargin, C by validation": [row["error"] for row in rows],
            "published": [row["published"] for row in rows],
        },
        whiskers={"polymargin, C by validation": [(min(one), max(one)) for one in ends]},
        y_axis="log",
    )
