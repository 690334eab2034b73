"""Gaussian kernels against LIBSVM's one-vs-one machines: time to fit and to predict labels.

The two solve different problems, so there is no common objective; test errors and the numbers of
support vectors stand beside the times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks import competitors
from benchmarks.charts import Panel, beside
from benchmarks.data import DataSet
from benchmarks.options import Options
from benchmarks.report import Column, Report, Verdict, judged
from benchmarks.timing import geometric_mean

__all__ = ["CASES", "Case", "run"]

FIT_TARGET, FIT_SMALLEST = 2.0, 1.3
PREDICT_TARGET, PREDICT_SMALLEST = 30.0, 10.0
LONG_FIT_TARGET, LONG_PREDICT_TARGET = 4.0, 20.0  # MNIST


@dataclass(frozen=True)
class Case:
    """One row: a data set, C and the width of the kernel."""

    data: str
    C: float
    gamma: float
    cache_mb: float = 2000.0
    is_long: bool = False
    """Minutes: fitted once."""

    @property
    def title(self) -> str:
        return self.data


CASES = (
    Case("satimage", 10.0, 1.0),
    Case("pendigits", 10.0, 1.0),
    Case("usps", 10.0, 0.0078),
    Case("letter", 10.0, 2.0),
    Case("mnist", 10.0, 0.02, cache_mb=4000.0, is_long=True),
)

COLUMNS = (
    Column("data", "set"),
    Column("C", "C", "g"),
    Column("gamma", "gamma", "g"),
    Column("shape", "n x d"),
    Column("our_fit", "fit: ours [s]", ".4g"),
    Column("svc_fit", "SVC [s]", ".4g"),
    Column("fit_ratio", "ratio", ".2f"),
    Column("our_gap", "gap", ".1e"),
    Column("our_predict", "predict: ours [s]", ".4g"),
    Column("svc_predict", "SVC [s]", ".4g"),
    Column("predict_ratio", "ratio", ".2f"),
    Column("our_error", "error: ours [%]", ".2f"),
    Column("svc_error", "SVC [%]", ".2f"),
    Column("our_support", "support: ours", ".0f"),
    Column("svc_support", "SVC", ".0f"),
    Column("note", "note"),
)


def run(options: Options) -> Report:
    """All rows whose data are present."""
    report = Report(
        "rbf",
        "Gaussian kernel: polymargin and LIBSVM (one-vs-one)",
        'Time of whole `fit` calls of `MulticlassSVC(kernel="rbf", tol=1e-3)` and '
        "`SVC` at its default tolerance, both with 2000 MB for kernel rows, and of `predict` on "
        "the test part. Medians (MNIST: one fit, 4000 MB); one thread; warm; float64.",
        COLUMNS,
    )
    report.measure(CASES, options, measure, told)
    report.verdicts = verdicts(report.rows, options.quick)
    report.panels = charts(report.rows)
    return report


def told(case: Case, row: dict[str, Any]) -> str:
    return (
        f"{case.data}: fit {row['our_fit']:.4g} s (SVC {row['svc_fit']:.4g}), predict "
        f"{row['our_predict']:.4g} s (SVC {row['svc_predict']:.4g})"
    )


def measure(case: Case, data: DataSet, repeat: int) -> dict[str, Any]:
    """One row of the table."""

    def models(seed: int) -> tuple[Any, Any]:
        ours = competitors.ours_rbf(case.C, case.gamma, seed, case.cache_mb)
        return ours, competitors.libsvm_rbf(case.C, case.gamma, case.cache_mb)

    row: dict[str, Any] = {"data": case.data, "C": case.C, "gamma": case.gamma, "shape": data.shape}
    row["is_long"] = case.is_long
    row |= competitors.in_turns(models, "svc", data, 1 if case.is_long else repeat)
    for key in ("fit", "predict"):
        row[f"{key}_ratio"] = row[f"svc_{key}"] / row[f"our_{key}"]
    return row


def verdicts(rows: list[dict[str, Any]], quick: bool) -> list[Verdict]:
    """Ratios beside their targets, MNIST apart."""
    short, long = ([row for row in rows if row["is_long"] == is_long] for is_long in (False, True))
    fit = [row["fit_ratio"] for row in short]
    predict = [row["predict_ratio"] for row in short]
    long_fit = [row["fit_ratio"] for row in long]
    long_predict = [row["predict_ratio"] for row in long]
    n = len(CASES) - 1
    return [
        judged("fit, geometric mean", fit, geometric_mean, FIT_TARGET, n, quick),
        judged("fit, smallest", fit, min, FIT_SMALLEST, n, quick),
        judged("predict, geometric mean", predict, geometric_mean, PREDICT_TARGET, n, quick),
        judged("predict, smallest", predict, min, PREDICT_SMALLEST, n, quick),
        judged("fit, MNIST", long_fit, min, LONG_FIT_TARGET, 1, quick),
        judged("predict, MNIST", long_predict, min, LONG_PREDICT_TARGET, 1, quick),
    ]


def charts(rows: list[dict[str, Any]]) -> list[Panel]:
    """Fit and prediction side by side, the ratios above."""
    return [
        beside(
            rows,
            (
                f"{key}: SVC / polymargin above the bars",
                "data set, C and gamma",
                f"seconds of {key}",
            ),
            lambda row: f"{row['data']}\nC={row['C']:g}, gamma={row['gamma']:g}",
            {"polymargin": f"our_{key}", "SVC": f"svc_{key}"},
            lambda row, key=key: f"{row[f'{key}_ratio']:.1f}x",
        )
        for key in ("fit", "predict")
    ]
