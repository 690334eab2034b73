"""Aiolli & Sperduti 2002 and 2005, section 5: convergence of the SMO-like family on digits."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from polymargin._extras import need
from polymargin.reproduce.benchmark_data import BenchmarkSplit
from polymargin.reproduce.experiment import Cell, Experiment, Measured, Row, Scale
from polymargin.reproduce.experiment_figures import COLOURS, new_figure, save_figure
from polymargin.reproduce.lvq_digits import DRAWN, TRAIN, draw_digits
from polymargin.reproduce.smo_curves import (
    Curve,
    Member,
    Setting,
    choose,
    fit_member,
    members,
    run_member,
)
from polymargin.reproduce.smo_findings import Finding, check, check_cubic, comparison, optimum

__all__ = ["EXPERIMENT", "curves_of"]

TITLES = {
    "cooling": "Logarithmic cooling with every strategy",
    "thresholds": "Thresholds of the SMO-like method",
    "selections": "Values of patterns, threshold mean",
    "cache": "A small cache beside one that holds all support vectors",
    "cubic": "Values of patterns, threshold mean, cubic kernel",
}
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 2, 4, 2)))
_LOWEST = 0.5  # of the optimal dual value: where the curves begin
_ENDS = {"converged": "o", "stalled": "X"}  # others: the time was over


def cells(scale: Scale) -> list[Cell]:
    """One cell per curve; a curve of two figures is run once."""
    drawn, train = {"full": (DRAWN, TRAIN), "quick": (1797, 600), "tiny": (500, 200)}[scale]
    data = "mnist" if scale == "full" else "digits"
    seconds = {"full": 600.0, "quick": 5.0, "tiny": 5.0}[scale]
    found = {member.key: member for group in members(train).values() for member in group}
    return [
        {
            "data": data,
            "drawn": drawn,
            "n_train": train,
            "seconds": seconds,
            "label": member.label,
            "rows": member.rows,
            "parts": None if member.parts is None else list(member.parts),
        }
        | ({} if member.kernel == "rbf" else {"kernel": member.kernel})
        for member in found.values()
    ]


@lru_cache(maxsize=1)
def _prepared(
    data: str, drawn: int, n_train: int, kernel: str
) -> tuple[BenchmarkSplit, Setting, np.ndarray]:
    """Digits, kernel and C by validation, kernel values of the test part; once per process."""
    digits = draw_digits(data, drawn, n_train, seed=0)
    setting = choose(digits, kernel=kernel)
    return digits, setting, _test_kernel(digits, setting.gamma, kernel)


def _test_kernel(digits: BenchmarkSplit, gamma: float, kernel: str) -> np.ndarray:
    """Kernel values (test, training) in float32."""
    A, B = digits.X_test.astype(np.float32), digits.X_train.astype(np.float32)
    if kernel == "poly":
        return np.asarray((np.float32(gamma) * (A @ B.T) + np.float32(1.0)) ** 3)
    square = (A * A).sum(axis=1)[:, None] + (B * B).sum(axis=1)[None, :] - 2.0 * (A @ B.T)
    return np.asarray(np.exp(-np.float32(gamma) * np.maximum(square, 0.0)))


def run(cell: Cell) -> dict[str, Any]:
    """A curve, six digits of every number."""
    digits, setting, K = _prepared(
        cell["data"], cell["drawn"], cell["n_train"], cell.get("kernel", "rbf")
    )
    setting = replace(setting, seconds=cell["seconds"])
    few = BenchmarkSplit(digits.X_train[:60], digits.y_train[:60], digits.X_test, digits.y_test)
    fit_member(_member(cell), replace(setting, tol=0.5, seconds=600.0), few, 0)
    curve = run_member(_member(cell), setting, digits, K)  # compiled code is loaded by now
    return {
        "status": curve.status,
        "relative_gap": curve.relative_gap,
        "support_vectors": curve.support_vectors,
        "history": {name: _short(column) for name, column in curve.columns.items()},
        "error_seconds": _short(curve.error_seconds),
        "test_error": _short(curve.errors),
        "gamma": setting.gamma,
        "C": setting.C,
        "validation_error": setting.validation_error,
    }


def _short(values: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def _member(cell: Cell) -> Member:
    parts = None if cell["parts"] is None else tuple(cell["parts"])
    return Member(cell["label"], cell["rows"], parts, cell.get("kernel", "rbf"))


def curves_of(measured: Sequence[Measured]) -> dict[str, Curve]:
    """The curves of finished cells by their names."""
    found = {}
    for one in measured:
        result, member = one.result, _member(one.cell)
        found[member.key] = Curve(
            member,
            result["status"],
            result["relative_gap"],
            result["support_vectors"],
            {name: np.array(column) for name, column in result["history"].items()},
            np.array(result["error_seconds"]),
            np.array(result["test_error"]),
        )
    return found


def rows(measured: Sequence[Measured]) -> list[Row]:
    """The statements of the papers, then seconds of every curve."""
    if not measured:
        return []
    curves = curves_of(measured)
    sizes = {curve.member.rows for curve in curves.values()}
    reduced = measured[0].cell["drawn"] != DRAWN
    found = [_statement(one, reduced) for one in _findings(curves, min(sizes), max(sizes))]
    for (label, size, status, seconds), curve in zip(
        comparison(curves), curves.values(), strict=True
    ):
        levels = dict(zip(("99 %", "99.9 %", "99.99 %", "tol"), seconds, strict=True))
        found.append(
            Row(
                (label, str(size)),
                "test error %",
                None,
                [] if curve.member.parts is None else [float(curve.errors[-1])],
                [float(curve.errors[-1])] if curve.member.parts is None else [],
                extra={f"s to {name}": value for name, value in levels.items() if value == value}
                | {"ended": status},
            )
        )
    return found


def _findings(curves: dict[str, Curve], few: int, many: int) -> list[Finding]:
    """Those whose curves are all there."""
    found: list[Finding] = []
    with contextlib.suppress(KeyError):
        found += check(curves, few, many)
    with contextlib.suppress(KeyError, ValueError):
        found += check_cubic(curves, many)
    return found


def _statement(finding: Finding, reduced: bool) -> Row:
    judged = "matched" if finding.is_confirmed else "not confirmed"
    if reduced:
        judged += " (a small part of the data)"
    return Row((finding.statement, ""), "statement", None, judged=judged, note=finding.numbers)


def draw(measured: Sequence[Measured], folder: Path) -> list[Path]:
    """The figures: dual value and test error against seconds."""
    curves = curves_of(measured)
    by_key = {_member(one.cell).key: one for one in measured}
    paths = []
    for name, group in members(measured[0].cell["n_train"]).items():
        there = [member for member in group if member.key in curves]
        if there:
            path = folder / f"{EXPERIMENT.name}-{name}.png"
            _draw_group(path, TITLES[name], _caption(by_key[there[0].key]), there, curves)
            paths.append(path)
    return paths


def _caption(one: Measured) -> str:
    kernel = "cubic kernel" if _member(one.cell).kernel == "poly" else "RBF"
    return (
        f"{one.cell['data']}, {one.cell['n_train']} training examples, {kernel} with gamma = "
        f"{one.result['gamma']:g}, C = {one.result['C']:g}"
    )


def _draw_group(
    path: Path, title: str, caption: str, group: list[Member], curves: dict[str, Curve]
) -> None:
    """One figure; a row of panels for every size of the cache."""
    ticker: Any = need("matplotlib.ticker", "drawing", "plots")
    sizes = sorted({member.rows for member in group}, reverse=True)
    figure = new_figure(figsize=(11, 3.3 * len(sizes) + 1.4))
    ends = "Curves end with a dot where the tolerance is reached, a cross where the run stalls,"
    ends += " an arrow where its time is over."
    figure.suptitle(f"{title}\n{caption}\n{ends}", fontsize=8.5)
    panels = figure.subplots(len(sizes), 2, squeeze=False)
    best = optimum(curves, group[0].kernel)
    for (left, right), size in zip(panels, sizes, strict=True):
        shown = [member for member in group if member.rows == size]
        for k, member in enumerate(shown):
            curve, style = curves[member.key], _style(k, member)
            for axes, x, y in (
                (left, curve.columns["seconds"], curve.columns["dual"]),
                (right, curve.error_seconds, curve.errors),
            ):
                axes.plot(x, y, **style)
                axes.plot(x[-1:], y[-1:], _ENDS.get(curve.status, ">"), color=style["color"], ms=6)
        left.axhline(best, color="0.6", lw=0.8, zorder=0)
        left.set(ylim=(_LOWEST * best, best * 1.008), ylabel="dual value")
        low = min(float(curves[member.key].errors.min()) for member in shown)
        right.set(ylim=(max(low - 0.3, 0.0), low + 6.0), ylabel="test error in %")
        begin = 0.5 * min(
            curves[member.key].first("seconds", "dual", _LOWEST * best) for member in shown
        )
        for axes in (left, right):
            axes.set(xscale="log", xlabel=f"seconds (processor time), cache of {size} rows")
            axes.set_xlim(left=begin if np.isfinite(begin) else None)
            axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
            axes.xaxis.set_minor_formatter(ticker.NullFormatter())
            axes.grid(alpha=0.25)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    save_figure(figure, path)


def _style(k: int, member: Member) -> dict[str, Any]:
    if member.parts is None:
        return {"color": "black", "lw": 2.2, "marker": ".", "ms": 6, "label": member.label}
    return {
        "color": COLOURS[k % 6], "ls": _DASHES[(k + k // 6) % 6], "lw": 1.5, "label": member.label,
    }  # fmt: skip


EXPERIMENT = Experiment(
    name="smo",
    title="The SMO-like family on digits (SMO; MP, section 5)",
    about=(
        "10,705 random digits of MNIST (the papers: NIST-3), 5000 for training. RBF kernel; gamma "
        "and C by the error on a random fifth of the training part (not printed). Curves end at a "
        "relative gap of 1e-3 or after 600 s by the clock. ALL of the papers is the optimiser "
        "all-pairs (A4, erratum SMO-3 corrected); opt-kkt is the one of the longer paper. The "
        "papers name no kernel: a fifth figure has the cubic one. "
        "Statements are judged by counts of patterns and kernel rows, seconds stand beside "
        "them; the papers print curves and no figures."
    ),
    labels=("curve or statement", "cache rows"),
    cells=cells,
    run=run,
    rows=rows,
    draw=draw,
)
