"""The four figures: dual value and test error against seconds."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from experiments.smo.findings import optimum
from experiments.smo.study import Curve, Member
from polymargin.plots.style import AMBER, BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY

__all__ = ["TITLES", "draw"]

TITLES = {
    "cooling": "Logarithmic cooling with every strategy",
    "thresholds": "Thresholds of the SMO-like method (opt-kkt, bmg)",
    "selections": "Values of patterns, threshold mean (opt-kkt)",
    "cache": "Cache of {few} rows beside one that holds all support vectors",
}
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY)
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 2, 4, 2)))
_LOWEST = 0.5  # of the optimal dual value
_ENDS = {"converged": "o", "stalled": "X"}  # others: the time was over


def draw(
    name: str, members: list[Member], curves: dict[str, Curve], caption: str, path: Path
) -> None:
    """One figure; the cache figure has a row of panels for every cache."""
    module: Any = importlib.import_module("matplotlib.figure")
    ticker: Any = importlib.import_module("matplotlib.ticker")
    sizes = sorted({member.rows for member in members}, reverse=True)
    figure = module.Figure(figsize=(11, 3.3 * len(sizes) + 1.4), layout="constrained")
    title = TITLES[name].format(few=sizes[-1])
    ends = "Curves end with a dot where the tolerance is reached, a cross where the run stalls,"
    ends += " an arrow where its time is over."
    figure.suptitle(f"{title}\n{caption}\n{ends}", fontsize=8.5)
    panels = figure.subplots(len(sizes), 2, squeeze=False)
    best = optimum(curves)
    for (left, right), rows in zip(panels, sizes, strict=True):
        shown = [member for member in members if member.rows == rows]
        first, last = np.inf, 0.0
        for k, member in enumerate(shown):
            curve = curves[member.key]
            style = _style(k, member)
            seconds, dual = curve.columns["seconds"], curve.columns["dual"]
            for axes, x, y in (
                (left, seconds, dual),
                (right, curve.error_seconds, curve.errors),
            ):
                axes.plot(x, y, **style)
                axes.plot(x[-1:], y[-1:], _ENDS.get(curve.status, ">"), color=style["color"], ms=6)
            first = min(first, curve.first("seconds", "dual", _LOWEST * best))
            last = max(last, float(seconds[-1]))
        left.axhline(best, color="0.6", lw=0.8, zorder=0)
        left.set(ylim=(_LOWEST * best, best * 1.008), ylabel="dual value")
        low = min(float(curves[member.key].errors.min()) for member in shown)
        right.set(ylim=(max(low - 0.3, 0.0), low + 6.0), ylabel="test error in %")
        for axes in (left, right):
            axes.set(xscale="log", xlabel=f"seconds (processor time), cache of {rows} rows")
            axes.set_xlim(0.6 * first, 1.3 * last)
            axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
            axes.xaxis.set_minor_formatter(ticker.NullFormatter())
            axes.grid(alpha=0.25)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)


def _style(k: int, member: Member) -> dict[str, Any]:
    if member.parts is None:
        return {"color": BLACK, "lw": 2.2, "marker": ".", "ms": 6, "label": member.label}
    return {
        "color": _COLOURS[k % 6], "ls": _DASHES[k % 6], "lw": 1.5, "label": member.label,
    }  # fmt: skip
