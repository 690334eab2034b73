"""Linear machines against liblinear, at equal primal value.

Our machine is fitted to a relative gap of 1e-3 with several seeds; the median primal value is the
target.  liblinear then goes down a ladder of tolerances, each half the one before, and is timed at
the loosest one whose (median) primal value, computed by our judge, is not above the target.
Both sides take turns at the clock, which counts seconds of the process; the least of the turns of
each seed counts, because what slows a turn down comes from outside.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from benchmarks import competitors
from benchmarks.charts import Bars, beside
from benchmarks.data import DataSet
from benchmarks.options import Options
from benchmarks.report import Column, Report, Verdict, judged
from benchmarks.timing import geometric_mean, median, processor_seconds, timed

__all__ = ["CASES", "Case", "Rung", "run", "search_ladder"]

GEOMETRIC_TARGET = 4.0
WORST_TARGET = 2.0
SPARSE_TARGET = 1.5

TURNS = 5

_LOOSEST = 1.0
_TIGHTEST = 2.0**-30


@dataclass(frozen=True)
class Case:
    """One row: a data set and C; where fits are long, a later start and fewer runs of liblinear."""

    data: str
    C: float
    sparse: bool = False
    ladder_start: float = _LOOSEST
    liblinear_runs: int | None = None

    @property
    def title(self) -> str:
        """Name of the row."""
        return f"{self.data} C={self.C:g}"


CASES = (
    Case("usps", 0.01),
    Case("usps", 0.1),
    Case("letter", 0.1),
    Case("letter", 1.0),
    Case("satimage", 0.1),
    Case("satimage", 1.0),
    Case("pendigits", 0.1),
    Case("pendigits", 1.0),
    Case("mnist", 0.01, ladder_start=0.25, liblinear_runs=1),
    Case("news20_bydate", 1.0, sparse=True),
)

COLUMNS = (
    Column("data", "set"),
    Column("C", "C", "g"),
    Column("shape", "n x d"),
    Column("our_seconds", "ours [s]", ".4g"),
    Column("our_gap", "gap", ".1e"),
    Column("our_primal", "primal", ".7g"),
    Column("tol", "liblinear tol", ".3g"),
    Column("seconds", "liblinear [s]", ".4g"),
    Column("primal", "its primal", ".7g"),
    Column("ratio", "ratio", ".2f"),
    Column("note", "note"),
)


@dataclass(frozen=True)
class Rung:
    """The runs of liblinear at one tolerance; too many failures end a rung early."""

    tol: float
    seconds: list[float]
    primals: list[float]
    target: float

    @property
    def is_reached(self) -> bool:
        """Whether the median primal value is not above the target."""
        return median(self.primals) <= self.target

    def as_json(self) -> dict[str, Any]:
        """For the file of results."""
        return {"tol": self.tol, "seconds": self.seconds, "primals": self.primals}


def run(options: Options) -> Report:
    """All rows whose data are present."""
    report = Report(
        "linear",
        "Linear Crammer-Singer machines: polymargin and liblinear at equal primal value",
        "Time of whole `fit` calls: `MulticlassSVC(tol=1e-3)` and "
        '`LinearSVC(multi_class="crammer_singer")` at the loosest tolerance, on a ladder of factor '
        "2, whose primal value is not above ours. Processor seconds, each seed the least of "
        f"{TURNS} turns (both sides take turns), medians over seeds; one thread; warm; float64.",
        COLUMNS,
    )
    report.measure(CASES, options, measure, told)
    report.verdicts = verdicts(report.rows, options.quick)
    report.panels = [chart(report.rows)]
    return report


def told(case: Case, row: dict[str, Any]) -> str:
    return (
        f"{case.title}: ours {row['our_seconds']:.4g} s, liblinear {row['seconds']:.4g} s "
        f"(tol {row['tol']:.3g}), ratio {row['ratio']:.2f}"
    )


def measure(case: Case, data: DataSet, repeat: int) -> dict[str, Any]:
    """One row of the table."""
    X, y = data.X_train, data.y_train
    competitors.warm(competitors.ours_linear(case.C, 0), X, y)
    competitors.warm(competitors.liblinear(case.C, 1.0, 0), X, y)
    ours = [fit_ours(case.C, X, y, seed) for seed in range(repeat)]
    target = median(fit["primal"] for fit in ours)
    runs = case.liblinear_runs or repeat

    def stand(tol: float) -> Rung:
        return stand_on_rung(case.C, X, y, tol, target, runs)

    with warnings.catch_warnings():
        # it counts visits against max_iter, which its solver never hears of
        warnings.simplefilter("ignore", ConvergenceWarning)
        ladder, chosen = search_ladder(stand, case.ladder_start)
        clock = take_turns(case.C, X, y, chosen.tol, range(repeat), runs)
    our_seconds, seconds = median(clock["ours"]), median(clock["liblinear"])
    return {
        "data": case.data,
        "C": case.C,
        "sparse": case.sparse,
        "shape": data.shape,
        "our_seconds": our_seconds,
        "our_gap": median(fit["gap"] for fit in ours),
        "our_primal": target,
        "tol": chosen.tol,
        "seconds": seconds,
        "primal": median(chosen.primals),
        "ratio": seconds / our_seconds,
        "note": note(ours, chosen),
        "our_runs": ours,
        "turns": clock,
        "ladder": [rung.as_json() for rung in ladder],
    }


def take_turns(
    C: float, X: Any, y: np.ndarray, tol: float, seeds: range, runs: int
) -> dict[str, list[float]]:
    """Processor seconds of both sides for every seed, the least of some turns."""
    least: dict[str, dict[int, float]] = {"ours": {}, "liblinear": {}}
    for seed in seeds:
        sides = {"ours": competitors.ours_linear(C, seed)}
        if seed < runs:
            sides["liblinear"] = competitors.liblinear(C, tol, seed)
        for _ in range(TURNS):
            for side, model in sides.items():
                seconds = processor_seconds(clone(model).fit, X, y)[0]
                least[side][seed] = min(seconds, least[side].get(seed, np.inf))
    return {side: list(found.values()) for side, found in least.items()}


def fit_ours(C: float, X: Any, y: np.ndarray, seed: int) -> dict[str, Any]:
    """One timed fit of our machine and what its certificate says.

    The certificate is held against the function that judges liblinear: both must agree.
    """
    model = competitors.ours_linear(C, seed)
    seconds, _ = timed(model.fit, X, y)
    certificate = model.certificate_
    value = competitors.primal(model, X, y, C)
    if abs(value - certificate.primal) > 1e-9 * certificate.primal:
        raise ArithmeticError(f"certificate {certificate.primal!r}, but the judge says {value!r}")
    return {
        "seed": seed,
        "seconds": seconds,
        "primal": certificate.primal,
        "gap": certificate.relative_gap,
        "status": model.status_,
    }


def stand_on_rung(C: float, X: Any, y: np.ndarray, tol: float, target: float, runs: int) -> Rung:
    """Fit liblinear with several seeds, until so many failed that the median must fail too."""
    rung = Rung(tol, [], [], target)
    for seed in range(runs):
        model = competitors.liblinear(C, tol, seed)
        seconds, _ = timed(model.fit, X, y)
        rung.seconds.append(seconds)
        rung.primals.append(competitors.primal(model, X, y, C))
        if 2 * sum(value > target for value in rung.primals) > runs:
            break
    return rung


def search_ladder(stand: Callable[[float], Rung], start: float) -> tuple[list[Rung], Rung]:
    """All rungs tried, and the loosest that is reached (the tightest tried if none is).

    A start that is reached at once is loosened, up to tolerance 1; otherwise it is tightened.
    """
    chosen = stand(start)
    tried = [chosen]
    if chosen.is_reached:
        while chosen.tol < _LOOSEST:
            looser = stand(2.0 * chosen.tol)
            tried.append(looser)
            if not looser.is_reached:
                break
            chosen = looser
    while not chosen.is_reached and chosen.tol > _TIGHTEST:
        chosen = stand(0.5 * chosen.tol)
        tried.append(chosen)
    return tried, chosen


def note(ours: list[dict[str, Any]], chosen: Rung) -> str:
    """What a reader of the row has to know."""
    parts = sorted({str(fit["status"]) for fit in ours} - {"converged"})
    if not chosen.is_reached:
        parts.append("not reached: the ratio is a lower bound")
    return ", ".join(parts)


def verdicts(rows: list[dict[str, Any]], quick: bool) -> list[Verdict]:
    """Ratios beside their targets."""
    dense = [row["ratio"] for row in rows if not row["sparse"]]
    sparse = [row["ratio"] for row in rows if row["sparse"]]
    n_dense = sum(not case.sparse for case in CASES)
    n_sparse = len(CASES) - n_dense
    return [
        judged("dense, geometric mean", dense, geometric_mean, GEOMETRIC_TARGET, n_dense, quick),
        judged("dense, smallest", dense, min, WORST_TARGET, n_dense, quick),
        judged("news20 (sparse)", sparse, min, SPARSE_TARGET, n_sparse, quick),
    ]


def chart(rows: list[dict[str, Any]]) -> Bars:
    """Seconds of both, the ratio above."""
    title = "numbers above the bars: liblinear / polymargin"
    return beside(
        rows,
        (title, "data set and C", "processor seconds of fit"),
        lambda row: f"{row['data']}, C={row['C']:g}",
        {"polymargin": "our_seconds", "liblinear": "seconds"},
        lambda row: f"{row['ratio']:.1f}x",
    )
