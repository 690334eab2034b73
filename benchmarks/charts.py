"""Charts by matplotlib, where it is installed: grouped bars and lines with a limit.

Colours are from the Okabe-Ito palette, which stays distinct for colour-blind readers; hatching and
markers say the same without colour.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

__all__ = ["Bars", "Lines", "Panel", "beside", "draw", "is_available"]

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
_HATCHES = ("", "//", "..", "xx")
_MARKERS = ("o", "s", "^", "D")
_GROUP_WIDTH = 0.8
_MOST_SIDE_BY_SIDE = 3
_MOST_LEVEL_LABELS = 2
# above the bars, as a part of the height
_LEGEND_ROOM = 0.1
# between points of different series at the same x, so that none hides another
_SHIFT = 1.05


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
    """Measured lines over x (logarithmic), and limits that they should stay below.

    ``whiskers`` are the ends (low, high) of bars through the points of a series; without
    ``joined`` only the points are drawn, a little apart.  ``points`` are single ones (x, y) with
    their names written beside them.
    """

    title: str
    x_label: str
    y_label: str
    x: Sequence[float]
    series: Mapping[str, Sequence[float]]
    limits: Mapping[str, Sequence[float]] = field(default_factory=dict)
    whiskers: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    y_axis: Literal["from zero", "log", "free"] = "from zero"
    joined: bool = True
    points: Mapping[str, tuple[float, float]] = field(default_factory=dict)


Panel = Bars | Lines


def beside(
    rows: Sequence[Mapping[str, Any]],
    labels: tuple[str, str, str],
    group: Callable[[Mapping[str, Any]], str],
    series: Mapping[str, str],
    note: Callable[[Mapping[str, Any]], str] | None = None,
) -> Bars:
    """Bars of a table: a group per row, a series per competitor.

    Parameters
    ----------
    rows : of the table
    labels : title, x axis, y axis
    group : function of a row
        Its name.
    series : names of competitors with the keys of their numbers.
    note : function of a row or None
        What stands above its group.
    """
    return Bars(
        *labels,
        [group(row) for row in rows],
        {name: [row[key] for row in rows] for name, key in series.items()},
        [] if note is None else [note(row) for row in rows],
    )


def is_available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw(title: str, panels: Sequence[Panel], path: Path) -> None:
    """Draw the panels into a PNG file, side by side; more than three go into two columns."""
    figure_module: Any = importlib.import_module("matplotlib.figure")
    n_columns = len(panels) if len(panels) <= _MOST_SIDE_BY_SIDE else 2
    n_rows = -(-len(panels) // n_columns)
    widths = [max(5.0, 1.0 * len(p.groups)) if isinstance(p, Bars) else 5.5 for p in panels]
    width = max(sum(widths[k : k + n_columns]) for k in range(0, len(panels), n_columns))
    figure = figure_module.Figure(figsize=(width, 4.8 * n_rows), layout="constrained")
    figure.suptitle(title)
    places = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for axes in places[len(panels) :]:
        axes.remove()
    for axes, panel in zip(places, panels, strict=False):
        if isinstance(panel, Bars):
            _draw_bars(axes, panel)
        else:
            _draw_lines(axes, panel)
        axes.set_title(panel.title)
        axes.set_xlabel(panel.x_label)
        axes.set_ylabel(panel.y_label)
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
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
    low, high = axes.get_ylim()
    axes.set_ylim(top=high * (high / low) ** _LEGEND_ROOM)
    axes.legend(frameon=False, loc="upper center", ncols=len(panel.series))
    axes.set_xticks(list(places), panel.groups)
    if len(panel.groups) > _MOST_LEVEL_LABELS:
        axes.tick_params(axis="x", rotation=40)
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")


def _draw_lines(axes: Any, panel: Lines) -> None:
    for k, (name, values) in enumerate(panel.series.items()):
        shift = 1.0 if panel.joined else _SHIFT ** (k - (len(panel.series) - 1) / 2)
        axes.errorbar(
            [shift * x for x in panel.x],
            values,
            _reach(values, panel.whiskers.get(name)),
            label=name,
            color=_COLOURS[k],
            marker=_MARKERS[k],
            linestyle="-" if panel.joined else "",
            capsize=3,
        )
    for name, values in panel.limits.items():
        axes.plot(panel.x, values, label=name, color="black", linestyle="--")
    for name, place in panel.points.items():
        axes.plot(*place, marker="*", color="black", markersize=9, linestyle="")
        axes.annotate(name, place, (-5, 3), textcoords="offset points", ha="right", fontsize=8)
    axes.set_xscale("log")
    axes.set_xticks(list(panel.x), [f"{x:,.0f}" for x in panel.x])
    axes.minorticks_off()
    axes.legend(frameon=False)
    if panel.y_axis == "from zero":
        axes.set_ylim(bottom=0.0)
    elif panel.y_axis == "log":
        _set_log_with_plain_numbers(axes)


def _reach(
    values: Sequence[float], ends: Sequence[tuple[float, float]] | None
) -> list[list[float]] | None:
    """Lengths of whiskers below and above the points."""
    if ends is None:
        return None
    pairs = list(zip(values, ends, strict=True))
    # a mean may leave the ends by a rounding
    below = [max(value - low, 0.0) for value, (low, _) in pairs]
    above = [max(high - value, 0.0) for value, (_, high) in pairs]
    return [below, above]


def _set_log_with_plain_numbers(axes: Any) -> None:
    """Plain numbers at 1, 2, 3, 5 times powers of ten instead of exponents."""
    ticker: Any = importlib.import_module("matplotlib.ticker")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(ticker.NullLocator())
