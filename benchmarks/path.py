"""Regularisation paths: what 50 certified points cost beside one fit at the end of the path.

Processor time of the process, not the clock on the wall: the two sides are then comparable on a
machine that others use too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import competitors
from benchmarks.charts import Panel, beside
from benchmarks.data import DataSet
from benchmarks.options import Options
from benchmarks.report import Column, Report, Verdict, judged
from benchmarks.timing import median, processor_seconds
from polymargin import MulticlassSVC, regularization_path

__all__ = ["CASES", "Case", "run"]

TARGET = 5.0
POINTS = 50


@dataclass(frozen=True)
class Case:
    """One row: a machine on a data set, its range or the word for it; no gamma: linear kernel."""

    data: str
    machine: str
    range: tuple[float, float] | str
    gamma: float | None = None
    is_judged: bool = True

    @property
    def title(self) -> str:
        kernel = "RBF" if self.gamma else "linear"
        return f"{self.data} {self.machine} {kernel}" + (
            f" ({self.range})" if isinstance(self.range, str) else ""
        )

    @property
    def kernel(self) -> dict[str, Any]:
        return {"kernel": "rbf", "gamma": self.gamma} if self.gamma else {"kernel": "linear"}


# The aim names no range: the default one is judged, and given ones of the same length; longer ones
# are shown.
CASES = (
    Case("usps", "cs", "auto"),
    Case("usps", "cs", (1e-3, 0.1)),
    Case("usps", "cs", (1e-4, 0.1), is_judged=False),
    Case("usps", "cs", "wide", is_judged=False),
    Case("satimage", "cs", "auto", 1.0),
    Case("satimage", "cs", (0.1, 10.0), 1.0),
    Case("satimage", "cs", (0.01, 10.0), 1.0, False),
    Case("satimage", "cs", "wide", 1.0, False),
    *(Case("satimage", name, "auto", 1.0, False) for name in ("ww", "llw", "msvm2")),
)

COLUMNS = (
    Column("title", "set, machine, kernel"),
    Column("low", "C from", ".3g"),
    Column("high", "to", ".3g"),
    Column("path", "path [s]", ".3g"),
    Column("fit", "fit at the end [s]", ".3g"),
    Column("ratio", "ratio", ".2f"),
    Column("solved", "solved", ".0f"),
    Column("gap", "largest gap", ".1e"),
)


def run(options: Options) -> Report:
    """All rows whose data are present."""
    report = Report(
        "path",
        "Regularisation paths",
        f"`regularization_path` with {POINTS} values of C, tol=1e-3, beside one "
        "`MulticlassSVC(tol=1e-3).fit` at the largest C. Processor seconds, the least of the runs "
        "of each side; one thread; warm. 'solved' counts the points at which a solver ran; the "
        "others are certified mixtures.",
        COLUMNS,
    )
    report.measure(CASES, options, measure, told)
    report.verdicts = verdicts(report.rows, options.quick)
    report.panels = charts(report.rows)
    return report


def told(case: Case, row: dict[str, Any]) -> str:
    return (
        f"{case.title} {row['low']:.3g} to {row['high']:.3g}: {row['path']:.3g} s, "
        f"ratio {row['ratio']:.2f}, {row['solved']} solved"
    )


def measure(case: Case, data: DataSet, repeat: int) -> dict[str, Any]:
    """One row of the table; the two sides take turns."""
    X, y = data.X_train, data.y_train
    Cs: Any = case.range if isinstance(case.range, str) else np.geomspace(*case.range, POINTS)
    competitors.warm(MulticlassSVC(machine=case.machine, C=0.1, **case.kernel), X, y)
    regularization_path(X[:500], y[:500], machine=case.machine, n_points=5, **case.kernel)
    paths, fits, found = [], [], None
    for seed in range(repeat):
        seconds, found = processor_seconds(
            lambda seed=seed: regularization_path(
                X, y, machine=case.machine, Cs=Cs, random_state=seed, **case.kernel
            )
        )
        paths.append(seconds)
        model = MulticlassSVC(
            machine=case.machine, C=float(found.Cs[-1]), random_state=seed, **case.kernel
        )
        fits.append(processor_seconds(lambda model=model: model.fit(X, y))[0])
    assert found is not None
    return {
        "title": case.title,
        "is_judged": case.is_judged,
        "low": float(found.Cs[0]),
        "high": float(found.Cs[-1]),
        "path": min(paths),
        "fit": min(fits),
        "ratio": min(paths) / min(fits),
        "median_ratio": median(paths) / median(fits),
        "solved": int(found.solved.sum()),
        "gap": float(found.relative_gap.max()),
        "path_runs": paths,
        "fit_runs": fits,
    }


def verdicts(rows: list[dict[str, Any]], quick: bool) -> list[Verdict]:
    """The ratio of every judged row beside the target."""
    return [
        judged(
            f"{row['title']} {row['low']:.2g} to {row['high']:.2g}",
            [row["ratio"]],
            max,
            TARGET,
            1,
            quick,
            True,
        )
        for row in rows
        if row["is_judged"]
    ]


def charts(rows: list[dict[str, Any]]) -> list[Panel]:
    """Seconds side by side, ratios above."""
    return [
        beside(
            rows,
            ("path / fit above the bars", "data set, machine and kernel", "processor seconds"),
            lambda row: f"{row['title']}\n{row['low']:.2g} - {row['high']:.2g}",
            {f"path of {POINTS} points": "path", "one fit at the largest C": "fit"},
            lambda row: f"{row['ratio']:.1f}x",
        )
    ]
