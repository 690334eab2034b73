"""Charts by matplotlib, where it is installed: grouped bars and lines with a limit.

Colours are from the Okabe-Ito palette, which stays distinct for colour-blind readers; hatching and
markers say the same without colour.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["Bars", "Lines", "Panel", "draw", "is_available"]

_COLOURS = ("#0072B2", "#E69F00", "#009E73")
_HATCHES = ("", "//", "..")
_MARKERS = ("o", "s", "^")
_GROUP_WIDTH = 0.8


@dataclass(frozen=True)
class Bars:
    """Groups of bars on a logarithmic axis, one series per competitor, a note over each group."""

    title: str
    x_label: str
    y_label: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[float]]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Lines:
    """Measured lines over x (logarithmic), and limits that they should stay below."""

    title: str
    x_label: str
    y_label: str
    x: Sequence[float]
    series: Mapping[str, Sequence[float]]
    limits: Mapping[str, Sequence[float]] = field(default_factory=dict)


Panel = Bars | Lines


def is_available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw(title: str, panels: Sequence[Panel], path: Path) -> None:
    """Draw the panels side by side into a PNG file."""
    figure_module: Any = importlib.import_module("matplotlib.figure")
    width = sum(max(5.0, 1.0 * len(p.groups)) if isinstance(p, Bars) else 5.5 for p in panels)
    figure = figure_module.Figure(figsize=(width, 4.8), layout="constrained")
    figure.suptitle(title)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        if isinstance(panel, Bars):
            _draw_bars(axes, panel)
        else:
            _draw_lines(axes, panel)
        axes.set_title(panel.title)
        axes.set_xlabel(panel.x_label)
        axes.set_ylabel(panel.y_label)
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
        axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def _draw_bars(axes: Any, panel: Bars) -> None:
    width = _GROUP_WIDTH / len(panel.series)
    places = range(len(panel.groups))
    for k, (name, values) in enumerate(panel.series.items()):
        shift = (k - (len(panel.series) - 1) / 2) * width
        axes.bar(
            [place + shift for place in places],
            values,
            width,
            label=name,
            color=_COLOURS[k],
            hatch=_HATCHES[k],
            edgecolor="white",
        )
    tops = [max(column) for column in zip(*panel.series.values(), strict=True)]
    for place, top, note in zip(places, tops, panel.notes or [""] * len(tops), strict=True):
        axes.annotate(
            note, (place, top), (0, 3), textcoords="offset points", ha="center", fontsize=8
        )
    axes.set_yscale("log")
    axes.margins(y=0.15)
    axes.set_xticks(list(places), panel.groups, rotation=40, ha="right", rotation_mode="anchor")


def _draw_lines(axes: Any, panel: Lines) -> None:
    for k, (name, values) in enumerate(panel.series.items()):
        axes.plot(panel.x, values, label=name, color=_COLOURS[k], marker=_MARKERS[k])
    for name, values in panel.limits.items():
        axes.plot(panel.x, values, label=name, color="black", linestyle="--")
    axes.set_xscale("log")
    axes.set_xticks(list(panel.x), [f"{x:,.0f}" for x in panel.x])
    axes.minorticks_off()
    axes.set_ylim(bottom=0.0)
