"""Rows on disk beside rows in memory: processor seconds of the same fit, conversion apart."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import DataMissingError, load_covtype
from benchmarks.options import Options
from benchmarks.report import Column, Report, judged
from benchmarks.timing import processor_seconds

__all__ = ["run"]

C, TOL = 1e-4, 1e-2
MOST = 3.0
MEMORY_SHARE = 4  # the packed rows are so many times the memory allowed

COLUMNS = (
    Column("rows", "rows", ",d"),
    Column("megabytes", "packed [MB]", ".0f"),
    Column("memory", "memory [MB]", ".0f"),
    Column("converted", "conversion [s]", ".1f"),
    Column("disk", "fit from disk [s]", ".2f"),
    Column("local", "fit in memory [s]", ".2f"),
    Column("ratio", "ratio", ".2f"),
    Column("gap", "gap", ".1e"),
)


def run(options: Options) -> Report:
    """covtype, all rows."""
    report = Report(
        "row_blocks",
        "row_blocks: rows on disk beside rows in memory",
        f"`MulticlassSVC(C={C:g}, tol={TOL:g})` on standardised float32 rows of covtype, packed in "
        f"blocks for a memory of a {MEMORY_SHARE}th of their size. Processor seconds of one "
        "thread; reading hits the cache of the system.",
        COLUMNS,
    )
    try:
        X, y = load_covtype(4000 if options.quick else 581_012)
    except DataMissingError as reason:
        report.skip("covtype", reason)
        return report
    row = measure(X, y)
    report.rows.append(row)
    print(f"disk {row['disk']:.2f} s, memory {row['local']:.2f} s", flush=True)
    report.verdicts = [
        judged("disk / memory", [row["ratio"]], max, MOST, 1, options.quick, at_most=True)
    ]
    return report


def measure(X: Any, y: np.ndarray) -> dict[str, Any]:
    """One row of the table."""
    from polymargin import MulticlassSVC, open_rows

    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", X)
        np.save(Path(folder) / "y.npy", y)
        memory = X.nbytes // MEMORY_SHARE
        paths = (Path(folder) / "X.npy", Path(folder) / "y.npy")
        converted, rows = processor_seconds(lambda: open_rows(*paths, memory=memory))
        with rows:
            model = MulticlassSVC(C=C, tol=TOL, random_state=0)
            model.fit(X[:2000], y[:2000])
            model.fit(rows)
            disk, _ = processor_seconds(model.fit, rows)
            gap = float(model.certificate_.relative_gap)
            local, _ = processor_seconds(MulticlassSVC(C=C, tol=TOL, random_state=0).fit, X, y)
            size = rows.nbytes
    return {
        "rows": len(y),
        "megabytes": size / 1e6,
        "memory": memory / 1e6,
        "converted": converted,
        "disk": disk,
        "local": local,
        "ratio": disk / local,
        "gap": gap,
    }
