"""Seconds of fit, and prediction per example beside a Gaussian SVC of similar accuracy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks import competitors
from benchmarks.charts import Bars, beside
from benchmarks.data import DataMissingError, DataSet, load
from benchmarks.options import Options
from benchmarks.prototypes.accuracy import Choice
from benchmarks.prototypes.fits import fit_seed, note
from benchmarks.prototypes.rows import Rows, as_given
from benchmarks.report import Column, Report, Table, Verdict, judged
from benchmarks.timing import median, processor_seconds

__all__ = ["CASES", "Case", "run"]

PREDICT_TARGET = 100.0

_QUICK_Q = 3
# Ours takes milliseconds, so a median wants more calls than one of a call that takes a second
_PREDICT_CALLS = 25
_FLOAT32_BYTES = 4


@dataclass(frozen=True)
class Case:
    """One row; C is None where validation chose it, metric and rows; ``svc`` is (C, gamma)."""

    data: str
    q: int
    seconds_target: float
    C: float | None = None
    svc: tuple[float, float] | None = None
    fits: int | None = None

    @property
    def title(self) -> str:
        """Name of the row."""
        return f"{self.data.upper()} q={self.q}"


CASES = (
    Case("usps", 20, 5.0, svc=(10.0, 0.0078)),
    Case("letter", 20, 10.0, svc=(10.0, 2.0)),
    Case("mnist", 10, 300.0, C=0.01, fits=1),
)

COLUMNS = (
    Column("data", "set"),
    Column("shape", "n x d"),
    Column("q", "q", "d"),
    Column("C", "C", "g"),
    Column("rows", "rows"),
    Column("metric", "metric"),
    Column("seconds", "fit [s]", ".4g"),
    Column("gap", "gap", ".1e"),
    Column("error", "error [%]", ".2f"),
    Column("svc_error", "SVC [%]", ".2f"),
    Column("microseconds", "predict, each [us]", ".3g"),
    Column("svc_microseconds", "SVC [us]", ".4g"),
    Column("ratio", "ratio", ".0f"),
    Column("kilobytes", "model [kB]", ",.0f"),
    Column("svc_kilobytes", "SVC [kB]", ",.0f"),
    Column("note", "note"),
)


def run(report: Report, options: Options, chosen: dict[tuple[str, int], Choice]) -> None:
    """All rows whose data are present."""
    table = Table(
        "Fit and prediction",
        "Default annealing; C, rows and metric as chosen above (MNIST: fixed). Medians of whole "
        "`fit` calls (MNIST: one) and of `predict` on the test part, divided by its size; bringing "
        "rows to unit length is part of it; "
        '`SVC(kernel="rbf")` with C=10 and gamma .0078 (USPS) or 2 (LETTER). Models as float32: '
        "prototypes and intercepts; support vectors, coefficients and intercepts.",
        COLUMNS,
    )
    report.tables.append(table)
    for case in CASES:
        try:
            data = load(case.data, options.quick)
        except DataMissingError as reason:
            report.skip(f"speed, {case.data}", reason)
            continue
        row = measure(case, data, options, chosen)
        table.rows.append(row)
        print(sentence(row), flush=True)
    compared = [row for row in table.rows if "ratio" in row]
    if compared:
        report.panels.append(chart(compared))
    report.verdicts += verdicts(table.rows, options.quick)


def sentence(row: dict[str, Any]) -> str:
    """The row for people who wait."""
    text = (
        f"speed, {row['data']} q={row['q']}: fit {row['seconds']:.4g} s, error "
        f"{row['error']:.2f} %, predict {row['microseconds']:.3g} us each"
    )
    if "ratio" in row:
        text += f" (SVC {row['svc_microseconds']:.4g}, ratio {row['ratio']:.0f})"
    return text


def measure(
    case: Case, data: DataSet, options: Options, chosen: dict[tuple[str, int], Choice]
) -> dict[str, Any]:
    """One row of the table."""
    q = _QUICK_Q if options.quick else case.q
    if case.C is None:
        choice = chosen[case.data, q]
    else:
        choice = Choice(case.C, "euclidean", Rows("as given", as_given, (case.C,), case.C))
    C, metric, of_rows = choice.C, choice.metric, choice.rows.of
    seen = choice.rows.data(data)
    models = [
        competitors.ours_prototypes(q, C, seed, "default", metric)
        for seed in range(case.fits or options.repeat)
    ]
    calls = options.repeat if options.quick else max(_PREDICT_CALLS, options.repeat)
    competitors.warm(models[0], seen.X_train, seen.y_train)
    runs = [fit_seed(model, seen) for model in models]
    row: dict[str, Any] = {
        "data": case.data,
        "shape": data.shape,
        "q": q,
        "C": C,
        "rows": choice.rows.name,
        "metric": metric,
        "seconds": median(one["seconds"] for one in runs),
        "seconds_target": case.seconds_target,
        "gap": median(one["gap"] for one in runs),
        "error": median(one["error"] for one in runs),
        "alive": median(one["alive"] for one in runs),
        "prototypes": runs[0]["prototypes"],
        "microseconds": microseconds(lambda X: models[0].predict(of_rows(X)), data, calls),
        "kilobytes": kilobytes(models[0].prototypes_, models[0].intercept_),
        "note": note(runs),
        "runs": runs,
    }
    if case.svc is not None:
        row |= measure_svc(*case.svc, data, options.repeat)
        row["ratio"] = row["svc_microseconds"] / row["microseconds"]
    return row


def measure_svc(C: float, gamma: float, data: DataSet, repeat: int) -> dict[str, Any]:
    """The competitor's side of a row."""
    svc = competitors.libsvm_rbf(C, gamma)
    seconds, _ = processor_seconds(svc.fit, data.X_train, data.y_train)
    return {
        "svc_C": C,
        "svc_gamma": gamma,
        "svc_seconds": seconds,
        "svc_support": len(svc.support_),
        "svc_error": competitors.percent_wrong(svc, data.X_test, data.y_test),
        "svc_microseconds": microseconds(svc.predict, data, repeat),
        "svc_kilobytes": kilobytes(svc.support_vectors_, svc.dual_coef_, svc.intercept_),
    }


def microseconds(predict: Callable[[Any], Any], data: DataSet, calls: int) -> float:
    """Median time of ``predict`` on the whole test part, per example."""
    predict(data.X_test)
    seconds = median(processor_seconds(predict, data.X_test)[0] for _ in range(calls))
    return 1e6 * seconds / len(data.y_test)


def kilobytes(*arrays: Any) -> float:
    """Size of a model whose numbers are kept as float32, in 10^3 bytes."""
    return _FLOAT32_BYTES * sum(array.size for array in arrays) / 1e3


def verdicts(rows: list[dict[str, Any]], quick: bool) -> list[Verdict]:
    """Seconds of every set, and the smallest ratio of prediction times."""
    found = []
    for case in CASES:
        seconds = [row["seconds"] for row in rows if row["data"] == case.data]
        name = f"{case.title} fit, seconds"
        found.append(judged(name, seconds, max, case.seconds_target, 1, quick, at_most=True))
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    n = sum(case.svc is not None for case in CASES)
    return [*found, judged("predict, SVC / ours, smallest", ratios, min, PREDICT_TARGET, n, quick)]


def chart(rows: list[dict[str, Any]]) -> Bars:
    """Prediction of both, the ratio above."""
    title = "prediction: SVC / polymargin above the bars"
    return beside(
        rows,
        (title, "data set and prototypes per class", "microseconds per example"),
        lambda row: f"{row['data'].upper()}, q={row['q']}",
        {"polymargin": "microseconds", 'SVC(kernel="rbf")': "svc_microseconds"},
        lambda row: f"{row['ratio']:.0f}x",
    )
