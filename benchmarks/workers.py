"""Two Dask workers beside one local thread, by the clock on the wall: use an idle machine.

Rows are made on the workers: ten Gaussian classes in 50 dimensions with about 20 % error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.options import Options
from benchmarks.report import Column, Report, judged
from benchmarks.timing import in_fresh_process, timed

__all__ = ["run"]

ROWS, QUICK_ROWS = 10_000_000, 20_000
FEATURES, CLASSES, SPREAD = 50, 10, 0.35
C_PER_ROW = 20.0  # C times rows: one thread then makes more than ten passes to gap 1e-3
TOL = 1e-3
LEAST = 1.5
PARTS = 16

COLUMNS = (
    Column("what", "trainer"),
    Column("rows", "rows", ",d"),
    Column("seconds", "fit [s]", ".1f"),
    Column("gap", "gap", ".1e"),
    Column("rounds", "passes or rounds", "d"),
    Column("error", "training error of a part", ".3f"),
)


def part(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Part k of the rows, n of them, and their labels."""
    centres = np.random.default_rng(0).standard_normal((CLASSES, FEATURES), dtype=np.float32)
    random = np.random.default_rng([1, k])
    y = random.integers(0, CLASSES, n)
    X = random.standard_normal((n, FEATURES), dtype=np.float32)
    for rows in np.array_split(np.arange(n), max(1, n // 100_000)):
        X[rows] += SPREAD * centres[y[rows]]
    return X, y


def run(options: Options) -> Report:
    """One thread first, then two workers, in processes of their own."""
    rows = QUICK_ROWS if options.quick else ROWS
    report = Report(
        "workers",
        "workers: two Dask workers beside one thread",
        f"`MulticlassSVC(C={C_PER_ROW:g} / rows, tol={TOL:g})` on {FEATURES} float32 features of "
        f"{CLASSES} Gaussian classes; the workers hold their rows already, and both fits are warm.",
        COLUMNS,
    )
    for measure in (measure_local, measure_workers):
        row = in_fresh_process(measure, rows)
        report.rows.append(row)
        print(f"{row['what']}: {row['seconds']:.1f} s, gap {row['gap']:.1e}", flush=True)
    seconds = [row["seconds"] for row in report.rows]
    report.verdicts = [
        judged("one thread / two workers", [seconds[0] / seconds[1]], min, LEAST, 1, options.quick)
    ]
    return report


def measure_local(n_rows: int) -> dict[str, Any]:
    """One thread on all rows in memory."""
    from polymargin import MulticlassSVC

    size = n_rows // PARTS
    X = np.empty((size * PARTS, FEATURES), dtype=np.float32)
    y = np.empty(size * PARTS, dtype=np.int64)
    for k in range(PARTS):
        X[k * size : (k + 1) * size], y[k * size : (k + 1) * size] = part(size, k)
    model = MulticlassSVC(C=C_PER_ROW / n_rows, tol=TOL, random_state=0)
    model.fit(X[:2000], y[:2000])
    seconds, _ = timed(model.fit, X, y)
    return _row("one thread", model, len(y), seconds, size)


def measure_workers(n_rows: int) -> dict[str, Any]:
    """Two workers that hold their rows."""
    import dask
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    from polymargin.dask import DaskMulticlassSVC

    size = n_rows // PARTS
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=None, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        made = [dask.delayed(part)(size, k) for k in range(PARTS)]
        X = da.concatenate(
            [da.from_delayed(one[0], (size, FEATURES), np.float32) for one in made]
        ).persist()
        y = da.concatenate([da.from_delayed(one[1], (size,), np.int64) for one in made]).persist()
        wait([X, y])
        model = DaskMulticlassSVC(C=C_PER_ROW / n_rows, tol=TOL, random_state=0, client=client)
        model.fit(X[: 2 * size : size // 1000], y[: 2 * size : size // 1000])
        seconds, _ = timed(model.fit, X, y)
        return _row("two workers", model.to_local(), size * PARTS, seconds, size)


def _row(what: str, model: Any, rows: int, seconds: float, size: int) -> dict[str, Any]:
    X, y = part(min(size, 10_000), 0)
    return {
        "what": what,
        "rows": rows,
        "seconds": seconds,
        "gap": float(model.certificate_.relative_gap),
        "rounds": int(model.n_iter_),
        "error": 1.0 - float(model.score(X, y)),
    }
