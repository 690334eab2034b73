"""Many rows: time per row and peak memory on covtype, in float32, from 10,000 rows to all of them.

Every size runs in a process of its own, so that no size profits from memory that another one left.
"""

from __future__ import annotations

import warnings
from typing import Any

from benchmarks import competitors, machine
from benchmarks.charts import Lines, Panel
from benchmarks.data import load_covtype, why_not_watched
from benchmarks.options import Options
from benchmarks.report import Column, Report, Verdict, judged
from benchmarks.timing import MemoryWatch, in_fresh_process, median, timed

__all__ = ["SIZES", "measure", "run"]

SIZES = (10_000, 50_000, 250_000, 581_012)
QUICK_SIZES = (500, 1_000, 2_000, 4_000)
C = 1e-4
TOL = 1e-2
GROWTH_LIMIT = 2.5
MEMORY_LIMIT_MB = 300.0

_MB = 1e6

COLUMNS = (
    Column("rows", "rows", ",d"),
    Column("seconds", "fit [s]", ".4g"),
    Column("microseconds_per_row", "per row [us]", ".4g"),
    Column("gap", "gap", ".1e"),
    Column("X_mb", "X [MB]", ".1f"),
    Column("peak_mb", "peak [MB]", ".1f"),
    Column("high_water_mb", "check [MB]", ".1f"),
    Column("beyond_X_mb", "peak - X [MB]", ".1f"),
    Column("note", "note"),
)


def run(options: Options) -> Report:
    """All four sizes, or none."""
    report = Report(
        "covtype",
        "covtype: time per row and peak memory",
        f"`MulticlassSVC(C={C:g}, tol={TOL:g})` on standardised float32 rows of covtype. Peak: "
        "resident memory during `fit` above the level just before, sampled every 5 ms; check: the "
        "same by the kernel's high-water mark. Each size in a fresh process; one thread; warm.",
        COLUMNS,
    )
    sizes = QUICK_SIZES if options.quick else SIZES
    reason = why_not_watched("covtype")
    for size in sizes:
        if reason:
            report.skip(f"covtype {size} rows", reason)
            continue
        row = in_fresh_process(measure, size, options.repeat)
        report.rows.append(row)
        print(
            f"{row['rows']} rows: {row['seconds']:.4g} s, {row['microseconds_per_row']:.4g} us per "
            f"row, peak {row['peak_mb']:.1f} MB (X is {row['X_mb']:.1f} MB)",
            flush=True,
        )
    report.verdicts = verdicts(report.rows, len(sizes), options.quick)
    report.panels = charts(report.rows) if report.rows else []
    return report


def measure(n_rows: int, repeat: int) -> dict[str, Any]:
    """One row of the table; runs in a process of its own."""
    machine.require_one_thread()
    X, y = load_covtype(n_rows)
    competitors.warm(competitors.ours_linear(C, 0, TOL), X, y)
    runs = [fit_watched(X, y, seed) for seed in range(repeat)]
    seconds = median(one["seconds"] for one in runs)
    peak = max(one["peak_mb"] for one in runs)
    return {
        "rows": len(y),
        "seconds": seconds,
        "microseconds_per_row": 1e6 * seconds / len(y),
        "gap": median(one["gap"] for one in runs),
        "X_mb": X.nbytes / _MB,
        "peak_mb": peak,
        "high_water_mb": max(one["high_water_mb"] for one in runs),
        "beyond_X_mb": peak - X.nbytes / _MB,
        "note": note(runs),
        "runs": runs,
    }


def note(runs: list[dict[str, Any]]) -> str:
    """What a reader of the row has to know."""
    parts = sorted({one["status"] for one in runs} - {"converged"})
    parts += sorted({name for one in runs for name in one["warnings"]})
    if not all(one["high_water_is_exact"] for one in runs):
        parts.append("check is an upper bound")
    return ", ".join(parts)


def fit_watched(X: Any, y: Any, seed: int) -> dict[str, Any]:
    """One timed fit under the eyes of the memory watch; its warnings are kept by name."""
    model = competitors.ours_linear(C, seed, TOL)
    with warnings.catch_warnings(record=True) as caught, MemoryWatch() as watch:
        warnings.simplefilter("always")
        seconds, _ = timed(model.fit, X, y)
    return {
        "seed": seed,
        "seconds": seconds,
        "gap": model.certificate_.relative_gap,
        "status": model.status_,
        "warnings": sorted({warning.category.__name__ for warning in caught}),
        "level_mb": watch.level / _MB,
        "peak_mb": watch.sampled / _MB,
        "high_water_mb": watch.high_water / _MB,
        "ru_maxrss_mb": watch.lifetime_peak / _MB,
        "high_water_is_exact": watch.high_water_is_exact,
    }


def verdicts(rows: list[dict[str, Any]], expected: int, quick: bool) -> list[Verdict]:
    """Memory beyond the size of X, and how much dearer a row of the largest size is."""
    beyond = [row["beyond_X_mb"] for row in rows]
    costs = [row["microseconds_per_row"] for row in rows]
    return [
        judged("peak beyond X, MB", beyond, max, MEMORY_LIMIT_MB, expected, quick, at_most=True),
        judged(
            "time per row, largest / smallest size",
            costs,
            lambda values: values[-1] / values[0],
            GROWTH_LIMIT,
            expected,
            quick,
            at_most=True,
        ),
    ]


def charts(rows: list[dict[str, Any]]) -> list[Panel]:
    """Time per row and peak memory over the sizes, each with its limit."""
    sizes = [row["rows"] for row in rows]
    costs = [row["microseconds_per_row"] for row in rows]
    return [
        Lines(
            "time per row",
            "rows",
            "microseconds of fit per row",
            sizes,
            {"polymargin": costs},
            {f"limit: {GROWTH_LIMIT:g} times the first": [GROWTH_LIMIT * costs[0]] * len(sizes)},
        ),
        Lines(
            "peak memory above the level before fit",
            "rows",
            "MB",
            sizes,
            {
                "polymargin": [row["peak_mb"] for row in rows],
                "size of X": [row["X_mb"] for row in rows],
            },
            {f"limit: X + {MEMORY_LIMIT_MB:g} MB": [row["X_mb"] + MEMORY_LIMIT_MB for row in rows]},
        ),
    ]
