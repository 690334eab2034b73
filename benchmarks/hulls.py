"""Convex-hull prototypes against a general QP solver (Clarabel), and as the examples grow.

Waveform data, RBF kernel of width gamma = 1/21.  Both solve the same problem to a relative gap of
1e-6; Clarabel is given the matrices, so that its time is that of the solver alone, while ours is
that of the whole ``fit``.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks import competitors
from benchmarks.charts import Lines, Panel, beside
from benchmarks.options import Options
from benchmarks.report import Column, Report, Verdict, judged
from benchmarks.timing import median, timed
from benchmarks.waveform import waveform
from polymargin import ConvexHullSVC

__all__ = ["ETAS", "SIZES", "run"]

ETAS = (0.05, 1.0)
GAMMA = 1.0 / 21.0
TOL = 1e-6
SIZES = (500, 1000, 2000, 4000, 8000, 16000)
COMPARED = 4000
QUICK_SIZES = (100, 200, 400)
QUICK_COMPARED = 200
SPEED_TARGET = 50.0
GROWTH_LIMIT = 2.0

COLUMNS = (
    Column("n", "n", ",d"),
    Column("eta", "eta", "g"),
    Column("seconds", "fit [s]", ".4g"),
    Column("f", "f", ".8g"),
    Column("gap", "gap", ".1e"),
    Column("steps", "steps", ",d"),
    Column("support", "support", ",d"),
    Column("qp_seconds", "Clarabel [s]", ".4g"),
    Column("qp_f", "f", ".8g"),
    Column("ratio", "ratio", ".1f"),
    Column("note", "note"),
)


def run(options: Options) -> Report:
    """Every size with both kinds of hulls; the QP solver at one of them."""
    report = Report(
        "hulls",
        "Convex-hull prototypes: polymargin and a general QP solver",
        f'Time of whole `fit` calls of `ConvexHullSVC(kernel="rbf", gamma=1/21, tol={TOL:g})` on '
        "waveform data (generated, seed 0), and of Clarabel on the same quadratic program "
        f"(`tol_gap_rel={TOL:g}`, its matrices given, one run). Medians; one thread; warm. "
        "On these data a cap of 0.05 binds only for few examples or not at all.",
        COLUMNS,
    )
    sizes = QUICK_SIZES if options.quick else SIZES
    compared = QUICK_COMPARED if options.quick else COMPARED
    competitors.warm(machine(0.5), *waveform(300))
    for n in sizes:
        for eta in ETAS:
            row = measure(n, eta, options.repeat)
            if n == compared:
                compare(row, report)
            report.rows.append(row)
            print(f"n {n}, eta {eta:g}: {row['seconds']:.4g} s, gap {row['gap']:.1e}", flush=True)
    report.verdicts = verdicts(report.rows, len(sizes), options.quick)
    report.panels = charts(report.rows)
    return report


def machine(eta: float) -> ConvexHullSVC:
    return ConvexHullSVC(eta, gamma=GAMMA, tol=TOL)


def measure(n: int, eta: float, repeat: int) -> dict[str, Any]:
    """One row of the table, our side."""
    X, y = waveform(n)
    runs = []
    for _ in range(repeat):
        model = machine(eta)
        seconds, _ = timed(model.fit, X, y)
        runs.append(seconds)
    return {
        "n": n,
        "eta": eta,
        "seconds": median(runs),
        "f": model.certificate_.primal,
        "gap": model.certificate_.relative_gap,
        "steps": model.n_iter_,
        "support": len(model.support_),
        "note": "" if model.status_ == "converged" else model.status_,
        "runs": runs,
    }


def compare(row: dict[str, Any], report: Report) -> None:
    """The same problem by Clarabel, where it is installed."""
    if find_spec("clarabel") is None:
        report.skip(f"Clarabel at eta {row['eta']:g}", "clarabel is not installed")
        return
    solver = quadratic_program(row["n"], row["eta"])
    row["qp_seconds"], solution = timed(solver)
    row["qp_f"] = float(solution.obj_val)
    row["ratio"] = row["qp_seconds"] / row["seconds"]
    if str(solution.status) != "Solved":
        row["note"] = f"Clarabel: {solution.status}"
    print(f"Clarabel: {row['qp_seconds']:.4g} s", flush=True)


def quadratic_program(n: int, eta: float) -> Any:
    """A call that solves min u'Kbar u, class sums 1, 0 <= u <= eta; matrices are made before."""
    import clarabel

    X, y = waveform(n)
    norms = np.einsum("ij,ij->i", X, X)
    K = np.exp(-GAMMA * np.maximum(norms[:, None] + norms[None, :] - 2.0 * X @ X.T, 0.0))
    P = sparse.csc_matrix(np.triu(np.where(y[:, None] == y[None, :], 4.0, -2.0) * K))
    sums = sparse.csc_matrix((np.ones(n), (y, np.arange(n))), shape=(3, n))
    A = sparse.vstack([sums, sparse.identity(n), -sparse.identity(n)], format="csc")
    b = np.concatenate([np.ones(3), np.full(n, eta), np.zeros(n)])
    cones = [clarabel.ZeroConeT(3), clarabel.NonnegativeConeT(2 * n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_rel, settings.tol_gap_abs = TOL, 0.1 * TOL

    def solve() -> Any:
        return clarabel.DefaultSolver(P, np.zeros(n), A, b, cones, settings).solve()

    return solve


def growth(rows: list[dict[str, Any]]) -> list[float]:
    """For each eta the exponent p of seconds ~ n**p, by least squares on logarithms."""
    exponents = []
    for eta in ETAS:
        own = [row for row in rows if row["eta"] == eta]
        sizes = np.log([row["n"] for row in own])
        exponents.append(float(np.polyfit(sizes, np.log([row["seconds"] for row in own]), 1)[0]))
    return exponents


def verdicts(rows: list[dict[str, Any]], n_sizes: int, quick: bool) -> list[Verdict]:
    """How many times faster than the QP solver, and how time grows."""
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    exponents = growth(rows) if len(rows) == n_sizes * len(ETAS) else []
    return [
        judged("Clarabel / fit, smallest", ratios, min, SPEED_TARGET, len(ETAS), quick),
        judged(
            "exponent of n, largest", exponents, max, GROWTH_LIMIT, len(ETAS), quick, at_most=True
        ),
    ]


def charts(rows: list[dict[str, Any]]) -> list[Panel]:
    """Time over the sizes, and beside the QP solver where that ran."""
    sizes = sorted({row["n"] for row in rows})
    lines = {
        f"eta = {eta:g}": [row["seconds"] for row in rows if row["eta"] == eta] for eta in ETAS
    }
    panels: list[Panel] = [Lines("time to fit", "examples", "seconds", sizes, lines)]
    both = [row for row in rows if "ratio" in row]
    if both:
        title = f"{both[0]['n']} examples: Clarabel / polymargin above the bars"
        panels.append(
            beside(
                both,
                (title, "largest weight", "seconds"),
                lambda row: f"eta = {row['eta']:g}",
                {"polymargin": "seconds", "Clarabel": "qp_seconds"},
                lambda row: f"{row['ratio']:.0f}x",
            )
        )
    return panels
