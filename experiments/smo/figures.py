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
_LOWEST = 0.8  # of the optimal dual value


def draw(
    name: str, members: list[Member], curves: dict[str, Curve], caption: str, path: Path
) -> None:
    """One figure; the cache figure has a row of panels for every cache."""
    module: Any = importlib.import_module("matplotlib.figure")
    sizes = sorted({member.rows for member in members}, reverse=True)
    figure = module.Figure(figsize=(11, 3.4 * len(sizes) + 0.9), layout="constrained")
    title = TITLES[name].format(few=sizes[-1])
    figure.suptitle(f"{title}\n{caption}", fontsize=9)
    panels = figure.subplots(len(sizes), 2, squeeze=False)
    best = optimum(curves)
    for (left, right), rows in zip(panels, sizes, strict=True):
        shown = [member for member in members if member.rows == rows]
        last = 0.0
        for k, member in enumerate(shown):
            curve = curves[member.key]
            style = _style(k, member)
            left.plot(*_extended(curve), **style)
            right.plot(curve.error_seconds, curve.errors, **style)
            last = max(last, float(curve.columns["seconds"][-1]))
        left.axhline(best, color="0.6", lw=0.8, zorder=0)
        left.set(ylim=(_LOWEST * best, best * 1.008), ylabel="dual value")
        low = min(float(curves[member.key].errors.min()) for member in shown)
        right.set(ylim=(max(low - 0.3, 0.0), low + 8.0), ylabel="test error in %")
        for axes in (left, right):
            axes.set(xscale="log", xlabel=f"seconds, cache of {rows} rows")
            axes.set_xlim(0.03, 1.2 * last)
            axes.grid(alpha=0.25)
        left.legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(path, dpi=130)


def _extended(curve: Curve) -> tuple[np.ndarray, np.ndarray]:
    return curve.columns["seconds"], curve.columns["dual"]


def _style(k: int, member: Member) -> dict[str, Any]:
    if member.parts is None:
        return {"color": BLACK, "lw": 2.2, "marker": "o", "ms": 4, "label": member.label}
    return {
        "color": _COLOURS[k % 6], "ls": _DASHES[k % 6], "lw": 1.5, "label": member.label,
    }  # fmt: skip
