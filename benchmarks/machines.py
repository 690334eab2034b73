"""Weston-Watkins, Lee-Lin-Wahba and M-SVM^2: how much more they cost than what they compete with.

Gaussian kernels with a free intercept are timed beside LIBSVM's one-vs-one machines on the same
data; the linear Weston-Watkins machine with a penalised intercept beside our linear
Crammer-Singer machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks import competitors
from benchmarks.charts import Panel, beside
from benchmarks.data import DataSet
from benchmarks.options import Options
from benchmarks.report import Column, Report, Verdict, judged
from polymargin import MulticlassSVC

__all__ = ["CASES", "Case", "run"]

KERNEL_TARGETS = {"ww": 1.5, "llw": 4.0, "msvm2": 2.0}
MANY_CLASSES_TARGETS = {"ww": 3.0, "llw": 15.0, "msvm2": 4.0}  # LETTER, 26 classes
LINEAR_TARGET = 2.0
LONGEST = 120.0  # seconds of one fit


@dataclass(frozen=True)
class Case:
    """One row: a machine on a data set; no gamma means the linear kernel."""

    data: str
    machine: str
    C: float
    gamma: float | None = None

    @property
    def is_long(self) -> bool:
        """Whether a fit takes minutes: it is made once, for ``LONGEST`` seconds at most."""
        return (self.data, self.machine) == ("letter", "llw")

    @property
    def title(self) -> str:
        return f"{self.data} {self.machine}" + ("" if self.gamma else " (linear)")


CASES = (
    *(Case("satimage", machine, 10.0, 1.0) for machine in KERNEL_TARGETS),
    *(Case("usps", machine, 10.0, 0.0078) for machine in KERNEL_TARGETS),
    *(Case("letter", machine, 10.0, 2.0) for machine in MANY_CLASSES_TARGETS),
    Case("letter", "ww", 1.0),
    Case("usps", "ww", 0.01),
    Case("mnist", "ww", 0.01),
)

COLUMNS = (
    Column("title", "set, machine"),
    Column("C", "C", "g"),
    Column("shape", "n x d"),
    Column("our_fit", "fit [s]", ".4g"),
    Column("other", "beside"),
    Column("other_fit", "fit [s]", ".4g"),
    Column("ratio", "ratio", ".2f"),
    Column("our_gap", "gap", ".1e"),
    Column("our_error", "error [%]", ".2f"),
    Column("other_error", "beside [%]", ".2f"),
    Column("our_support", "support", ".0f"),
    Column("note", "note"),
)


def run(options: Options) -> Report:
    """All rows whose data are present."""
    report = Report(
        "machines",
        "Weston-Watkins, Lee-Lin-Wahba and M-SVM^2",
        "Whole `fit` calls at tol=1e-3. Gaussian kernel: free intercept, beside "
        "`SVC(cache_size=2000)`; linear: penalised intercept, beside our Crammer-Singer machine. "
        "The ratio is ours over the other. Medians (Lee-Lin-Wahba on LETTER: one fit, at most two "
        "minutes); one thread; warm; float64.",
        COLUMNS,
    )
    report.measure(CASES, options, measure, told)
    report.verdicts = verdicts(report.rows, options.quick)
    report.panels = charts(report.rows)
    return report


def told(case: Case, row: dict[str, Any]) -> str:
    return (
        f"{case.title}: {row['our_fit']:.4g} s, {row['other']} {row['other_fit']:.4g} s, "
        f"ratio {row['ratio']:.2f}"
    )


def models(case: Case, seed: int) -> tuple[MulticlassSVC, Any, str]:
    """The machine, what stands beside it, and the name of that."""
    if case.gamma is None:
        ours = MulticlassSVC(machine=case.machine, intercept="penalized", C=case.C)
        return ours.set_params(random_state=seed), competitors.ours_linear(case.C, seed), "cs"
    ours = MulticlassSVC(machine=case.machine, kernel="rbf", C=case.C, gamma=case.gamma)
    ours.set_params(random_state=seed, max_time=LONGEST if case.is_long else None)
    return ours, competitors.libsvm_rbf(case.C, case.gamma), "SVC"


def measure(case: Case, data: DataSet, repeat: int) -> dict[str, Any]:
    """One row of the table."""
    row: dict[str, Any] = {"title": case.title, "C": case.C, "shape": data.shape}
    row |= {"machine": case.machine, "gamma": case.gamma, "other": models(case, 0)[2]}
    seeds = 1 if case.is_long else repeat
    row |= competitors.in_turns(lambda seed: models(case, seed)[:2], "other", data, seeds)
    row["ratio"] = row["our_fit"] / row["other_fit"]
    return row


def verdicts(rows: list[dict[str, Any]], quick: bool) -> list[Verdict]:
    """The largest ratio of each machine beside its target, LETTER with its many classes apart."""
    found = []
    for machine, target in KERNEL_TARGETS.items():
        ratios = [row["ratio"] for row in kernel_rows(rows, machine, False)]
        found.append(judged(f"{machine}, kernel, largest", ratios, max, target, 2, quick, True))
    for machine, target in MANY_CLASSES_TARGETS.items():
        ratios = [row["ratio"] for row in kernel_rows(rows, machine, True)]
        found.append(judged(f"{machine}, 26 classes", ratios, max, target, 1, quick, True))
    linear = [row["ratio"] for row in rows if not row["gamma"]]
    found.append(judged("ww, linear, largest", linear, max, LINEAR_TARGET, 3, quick, True))
    return found


def kernel_rows(
    rows: list[dict[str, Any]], machine: str, has_many_classes: bool
) -> list[dict[str, Any]]:
    """The rows of a machine with a Gaussian kernel, on LETTER or on the others."""
    mine = [row for row in rows if row["gamma"] and row["machine"] == machine]
    return [row for row in mine if row["title"].startswith("letter") == has_many_classes]


def charts(rows: list[dict[str, Any]]) -> list[Panel]:
    """Seconds side by side, ratios above."""
    return [
        beside(
            rows,
            ("ours / other above the bars", "data set and machine", "seconds of fit"),
            lambda row: str(row["title"]),
            {"the machine": "our_fit", "SVC, or linear Crammer-Singer": "other_fit"},
            lambda row: f"{row['ratio']:.1f}x",
        )
    ]
