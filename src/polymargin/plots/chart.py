"""A chart as a record: curves, bars and rules, drawn alike by matplotlib and by a report's SVG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.plots.style import AMBER, BLACK, BLUE, GREEN, GREY, ORANGE, axes_of

__all__ = ["Bars", "Chart", "ChartDisplay", "Curve", "Display", "Rule", "draw_chart"]

_COLOURS = {
    "blue": BLUE,
    "orange": ORANGE,
    "green": GREEN,
    "amber": AMBER,
    "grey": GREY,
    "ink": BLACK,
}
# Hatches tell bars apart where colours cannot.
_HATCHES = {"orange": "///", "amber": "...", "blue": ""}


@dataclass(frozen=True)
class Curve:
    """Points joined by a line; those that are not finite are left out.

    Attributes
    ----------
    x, y : (k,)
    colour : {"blue", "orange", "green", "amber", "grey", "ink"}
    name : str
        What the legend says; empty for nothing.
    style : {"line", "dashed", "steps", "dots", "ring"}
        "dots" are points without a line, "ring" marks a chosen point.
    marks : bool
        Whether the points of a line are marked.
    spread : (k,) or None
        Half-lengths of error bars.
    filled_to : (k,) or None
        Heights down to which the area is tinted.
    """

    x: np.ndarray
    y: np.ndarray
    colour: str
    name: str = ""
    style: str = "line"
    marks: bool = True
    spread: np.ndarray | None = None
    filled_to: np.ndarray | None = None


@dataclass(frozen=True)
class Bars:
    """Bars of one colour over (k + 1,) edges; a height of 0 is no bar."""

    edges: np.ndarray
    heights: np.ndarray
    colour: str
    name: str = ""


@dataclass(frozen=True)
class Rule:
    """A straight line across, or upright, with a word beside it."""

    at: float
    text: str = ""
    is_upright: bool = False
    style: str = "dashed"


@dataclass(frozen=True)
class Chart:
    """What a picture with two axes shows.

    Attributes
    ----------
    title, x_title, y_title : str
    curves, bars, rules : what is drawn
    x_log, y_log : bool
    x_range, y_range : (low, high) or None
        None leaves the limits to the data; a low of None fixes only the other end.
    x_ticks : places with their words, or None
    words : str
        The picture in a sentence, for readers who do not see it.
    caption : str
    """

    title: str
    x_title: str
    y_title: str
    curves: tuple[Curve, ...] = ()
    bars: tuple[Bars, ...] = ()
    rules: tuple[Rule, ...] = ()
    x_log: bool = False
    y_log: bool = False
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    x_ticks: tuple[tuple[float, str], ...] | None = None
    words: str = ""
    caption: str = ""

    @property
    def legend(self) -> list[tuple[str, str]]:
        """Colour and name of everything that has a name."""
        named: list[Curve | Bars] = [*self.curves, *self.bars]
        return [(one.colour, one.name) for one in named if one.name]


class Display:
    """What all Displays share: ``plot`` draws into axes and keeps them."""

    ax_: Any
    figure_: Any

    def _keep(self, ax: Any) -> Any:
        self.ax_ = ax
        self.figure_ = ax.figure
        return self


class ChartDisplay(Display):
    """A Display that is one chart."""

    def chart(self) -> Chart:
        """The picture as a record."""
        raise NotImplementedError

    def plot(self, ax: Any = None) -> Any:
        """Draw into ``ax`` (new axes if None); ``ax_`` and ``figure_`` hold them."""
        ax = axes_of(ax)
        draw_chart(self.chart(), ax)
        return self._keep(ax)


def draw_chart(chart: Chart, ax: Any) -> None:
    """Draw a chart into matplotlib axes; its title is left to the caller."""
    for bars in chart.bars:
        _draw_bars(bars, ax)
    for curve in chart.curves:
        _draw_curve(curve, ax, is_log=chart.y_log)
    for rule in chart.rules:
        _draw_rule(rule, ax)
    if chart.x_log:
        ax.set_xscale("log")
    if chart.y_log and any(np.any(_drawable(curve.y, True) > 0) for curve in chart.curves):
        ax.set_yscale("log")
    if chart.x_range is not None:
        ax.set_xlim(*chart.x_range)
    if chart.y_range is not None:
        ax.set_ylim(*chart.y_range)
    if chart.x_ticks is not None:
        ax.set_xticks([at for at, _ in chart.x_ticks], [text for _, text in chart.x_ticks])
        ax.minorticks_off()
    ax.set_xlabel(chart.x_title)
    ax.set_ylabel(chart.y_title)
    ax.grid(alpha=0.3, axis="y" if chart.bars else "both")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    if chart.legend:
        ax.legend(frameon=False, fontsize=9)


def _drawable(values: np.ndarray, is_log: bool) -> np.ndarray:
    """Values with nan where they cannot be drawn."""
    values = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(values) & ((values > 0.0) | (not is_log)), values, np.nan)


def _draw_curve(curve: Curve, ax: Any, is_log: bool) -> None:
    colour, y = _COLOURS[curve.colour], _drawable(curve.y, is_log)
    if curve.filled_to is not None:
        low = _drawable(curve.filled_to, is_log)
        ax.fill_between(curve.x, low, y, color=GREY, alpha=0.15, linewidth=0)
    if curve.style == "ring":
        look = {"marker": "D", "markersize": 10, "markerfacecolor": "none", "markeredgewidth": 2}
    else:
        look = {"marker": "." if curve.marks or curve.style == "dots" else "", "markersize": 5}
    line = {"line": "-", "steps": "-", "dashed": "--"}.get(curve.style, "none")
    drawn = "steps-post" if curve.style == "steps" else "default"
    options = {"color": colour, "linestyle": line, "label": curve.name or None, **look}
    if curve.spread is None:
        ax.plot(curve.x, y, drawstyle=drawn, linewidth=1.5, **options)
    else:
        ax.errorbar(curve.x, y, yerr=curve.spread, capsize=3, **options)


def _draw_bars(bars: Bars, ax: Any) -> None:
    seen = bars.heights > 0
    ax.bar(
        bars.edges[:-1][seen],
        bars.heights[seen],
        np.diff(bars.edges)[seen],
        align="edge",
        color=_COLOURS[bars.colour],
        hatch=_HATCHES.get(bars.colour, ""),
        edgecolor="white",
        linewidth=0.3,
        label=bars.name or None,
    )


def _draw_rule(rule: Rule, ax: Any) -> None:
    draw = ax.axvline if rule.is_upright else ax.axhline
    draw(rule.at, color=BLACK, linewidth=1.0, linestyle="--" if rule.style == "dashed" else "-")
    if not rule.text:
        return
    axes, data = "axes fraction", "data"
    ax.annotate(
        rule.text,
        (rule.at, 1.0) if rule.is_upright else (0.0, rule.at),
        xycoords=(data, axes) if rule.is_upright else (axes, data),
        xytext=(4, -10) if rule.is_upright else (4, 3),
        textcoords="offset points",
        fontsize=8,
        color="#555555",
    )
