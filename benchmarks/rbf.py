"""Gaussian kernels against LIBSVM's one-vs-one machines: time to fit and to predict labels.

The two solve different problems, so there is no common objective; test errors and the numbers of
support vectors stand beside the times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks import competitors
from benchmarks.charts import Bars, Panel
from benchmarks.data import DataSet
from benchmarks.options import Options
from benchmarks.report import Column, Report, Verdict, judged
from benchmarks.timing import geometric_mean, median, timed

__all__ = ["CASES", "Case", "run"]

FIT_TARGET = 1.0
PREDICT_TARGET = 10.0


@dataclass(frozen=True)
class Case:
    """One row: a data set, C and the width of the kernel."""

    data: str
    C: float
    gamma: float

    @property
    def title(self) -> str:
        return self.data


CASES = (
    Case("satimage", 10.0, 1.0),
    Case("pendigits", 10.0, 1.0),
    Case("usps", 10.0, 0.0078),
    Case("letter", 10.0, 2.0),
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
        "`SVC(cache_size=2000)` at its default tolerance, and of `predict` on the test part. "
        "Medians; one thread; warm; float64.",
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
    """One row of the table; the competitors take turns, so that drift hits both."""
    ours, svc = [], []
    competitors.warm(competitors.ours_rbf(case.C, case.gamma, 0), data.X_train, data.y_train)
    competitors.warm(competitors.libsvm_rbf(case.C, case.gamma), data.X_train, data.y_train)
    for seed in range(repeat):
        ours.append(fit_and_predict(competitors.ours_rbf(case.C, case.gamma, seed), data))
        svc.append(fit_and_predict(competitors.libsvm_rbf(case.C, case.gamma), data))
    row: dict[str, Any] = {"data": case.data, "C": case.C, "gamma": case.gamma, "shape": data.shape}
    for name, runs in (("our", ours), ("svc", svc)):
        for key in ("fit", "predict", "error", "support"):
            row[f"{name}_{key}"] = median(one[key] for one in runs)
    row["fit_ratio"] = row["svc_fit"] / row["our_fit"]
    row["predict_ratio"] = row["svc_predict"] / row["our_predict"]
    row["our_gap"] = median(one["gap"] for one in ours)
    row["note"] = ", ".join(sorted({str(one["status"]) for one in ours} - {"converged"}))
    row |= {"our_runs": ours, "svc_runs": svc}
    return row


def fit_and_predict(model: Any, data: DataSet) -> dict[str, Any]:
    """One timed fit and one timed prediction of labels."""
    fit, _ = timed(model.fit, data.X_train, data.y_train)
    predict, labels = timed(model.predict, data.X_test)
    found: dict[str, Any] = {
        "fit": fit,
        "predict": predict,
        "error": 100.0 * float((labels != data.y_test).mean()),
        "support": len(model.support_),
    }
    if hasattr(model, "certificate_"):
        found |= {"gap": model.certificate_.relative_gap, "status": model.status_}
    return found


def verdicts(rows: list[dict[str, Any]], quick: bool) -> list[Verdict]:
    """Ratios beside their targets; the mean of the prediction ratios has none."""
    fit = [row["fit_ratio"] for row in rows]
    predict = [row["predict_ratio"] for row in rows]
    n = len(CASES)
    mean = geometric_mean(predict) if predict else None
    return [
        judged("fit, geometric mean", fit, geometric_mean, FIT_TARGET, n, quick),
        judged("predict, smallest", predict, min, PREDICT_TARGET, n, quick),
        Verdict("predict, geometric mean", mean, "none", None, "for information"),
    ]


def charts(rows: list[dict[str, Any]]) -> list[Panel]:
    """Fit and prediction side by side, the ratios above."""
    return [
        Bars(
            f"{key}: SVC / polymargin above the bars",
            "data set, C and gamma",
            f"seconds of {key}",
            [f"{row['data']}\nC={row['C']:g}, gamma={row['gamma']:g}" for row in rows],
            {
                "polymargin": [row[f"our_{key}"] for row in rows],
                "SVC": [row[f"svc_{key}"] for row in rows],
            },
            [f"{row[f'{key}_ratio']:.1f}x" for row in rows],
        )
        for key in ("fit", "predict")
    ]
