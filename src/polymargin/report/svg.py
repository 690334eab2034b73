"""Charts and maps as SVG text; colours come from the classes of the page's style sheet.

Charts are as wide as a phone, so that their letters stay readable there; on larger screens the page
puts them side by side.
"""

from __future__ import annotations

import math
from html import escape
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from polymargin.plots.chart import Bars, Chart, Curve, Rule
from polymargin.plots.decision_region_display import DecisionRegionDisplay
from polymargin.plots.style import PALETTE
from polymargin.report.facts import short
from polymargin.report.png import class_image

__all__ = ["chart_svg", "map_svg", "nice_ticks", "number"]

_WIDTH, _HEIGHT, _MAP_HEIGHT = 360, 210, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 40
_MOST_POINTS = 300
_MOST_MARKS = 80
_MOST_DOTS = 800
_FAR = 9999.0

Ticks = list[tuple[float, str]]


def number(value: float) -> str:
    """A tick label: short, exact enough."""
    size = abs(value)
    text = (
        f"{value:,.0f}" if 1000 <= size < 1e6 else f"{value:.4g}" if size < 1e6 else f"{value:.3g}"
    )
    if "e" in text:
        mantissa, exponent = text.split("e")
        text = f"{mantissa}e{'-' if exponent[0] == '-' else ''}{exponent.lstrip('+-0')}"
    return text.replace("-", "−")


def nice_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between low and high."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(nice * power for nice in (1.0, 2.0, 5.0, 10.0) if nice * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


class _Axis(NamedTuple):
    """From numbers to places on the page; ``low`` and ``high`` are powers if it is logarithmic."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        value = math.log10(value) if self.is_log else value
        at = self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)
        return min(max(at, -_FAR), _FAR)

    def ticks(self, most: int = 5) -> Ticks:
        if not self.is_log:
            return [(value, number(value)) for value in nice_ticks(self.low, self.high, most)]
        first, last = math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9)
        if last - first < 2:  # too few powers of ten: round numbers, unevenly spaced
            values = nice_ticks(10.0**self.low, 10.0**self.high)
            return [(value, number(value)) for value in values if value > 0.0]
        step = max(1, -(-(last - first) // 5))
        return [(10.0**k, f"10{_raised(k)}") for k in range(first, last + 1, step)]


def _raised(power: int) -> str:
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _axis(
    values: list[np.ndarray],
    given: tuple[float, float] | None,
    is_log: bool,
    room: float,
    start: float,
    end: float,
) -> _Axis:
    """An axis that shows all finite values, with some room, or the range that was given."""
    found = np.concatenate([np.asarray(given if given is not None else [], float), *values])
    if given is not None and not is_log:
        return _Axis(*given, start, end)
    found = found[np.isfinite(found) & ((found > 0.0) | (not is_log))]
    if not len(found):
        return _Axis(0.0, 1.0, start, end)
    found = np.log10(found) if is_log else found
    low, high = float(found.min()), float(found.max())
    pad = room * (high - low) or 0.05 * abs(high) or 0.5
    return _Axis(low - pad, high + pad, start, end, is_log)


def chart_svg(chart: Chart) -> str:
    """The chart as SVG; its title, legend and caption are left to the page.

    Parameters
    ----------
    chart : Chart
    """
    curves = [_thinned(curve, chart.y_log) for curve in chart.curves]
    across = [curve.x for curve in curves] + [bars.edges for bars in chart.bars]
    across += [np.array([rule.at]) for rule in chart.rules if rule.is_upright]
    up = [curve.y for curve in curves] + [1.08 * bars.heights for bars in chart.bars]
    up += [np.array([rule.at]) for rule in chart.rules if not rule.is_upright]
    up += [
        curve.y + s * curve.spread for curve in curves if curve.spread is not None for s in (-1, 1)
    ]
    x = _axis(across, chart.x_range, chart.x_log, 0.02, _LEFT, _WIDTH - _RIGHT)
    y_range = chart.y_range
    if chart.bars and y_range is None:
        y_range = 0.0, max(1.0, *(float(values.max(initial=0.0)) for values in up))
    y = _axis(up, y_range, chart.y_log, 0.05, _HEIGHT - _BOTTOM, _TOP)
    x_ticks = x.ticks(6) if chart.x_ticks is None else list(chart.x_ticks)
    parts = _frame(x, y, x_ticks, chart.x_title, _HEIGHT, whole_numbers=bool(chart.bars))
    # a picture in the picture cuts off what lies beyond the limits
    left, top = _LEFT - 4, _TOP - 6
    width, height = _WIDTH - _RIGHT - _LEFT + 8, _HEIGHT - _BOTTOM - _TOP + 9
    parts.append(
        f'<svg x="{left}" y="{top}" width="{width}" height="{height}" '
        f'viewBox="{left} {top} {width} {height}" aria-hidden="true">'
    )
    for bars in chart.bars:
        parts += _bars(bars, x, y)
    for curve in curves:
        parts += _curve(curve, x, y)
    parts.append("</svg>")
    for rule in chart.rules:
        parts += _rule(rule, x, y)
    frame = f"{x.low} {x.high} {x.start} {x.end} {y.low} {y.high} {y.start} {y.end}"
    return _whole(parts, chart.words, _HEIGHT, f' data-frame="{frame}"')


def _whole(parts: list[str], words: str, height: int, more: str = "") -> str:
    head = f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(words)}"{more}>'
    return head + "".join(parts) + "</svg>"


def _text(x: float, y: float, text: str, anchor: str = "start", style: str = "") -> str:
    style = f' class="{style}"' if style else ""
    return f'<text{style} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _frame(
    x: _Axis, y: _Axis, x_ticks: Ticks, x_title: str, height: int, whole_numbers: bool = False
) -> list[str]:
    bottom = height - _BOTTOM
    out = []
    for value, text in y.ticks():
        if not whole_numbers or value == int(value):
            out.append(f'<path class="grid" d="M{_LEFT} {y(value):.1f}H{_WIDTH - _RIGHT}"/>')
            out.append(_text(_LEFT - 6, y(value) + 3.5, text, "end"))
    out.append(f'<path class="axis" d="M{_LEFT} {bottom}H{_WIDTH - _RIGHT}"/>')
    for value, text in x_ticks:
        at = x(value)
        out.append(f'<path class="axis" d="M{at:.1f} {bottom}v4"/>')
        anchor = "end" if at > _WIDTH - _RIGHT - 12 else "middle"  # inside the picture
        lines = text.split("\n")
        out += [_text(at, bottom + 16 + 11 * k, line, anchor) for k, line in enumerate(lines)]
    if not any("\n" in text for _, text in x_ticks):
        out.append(_text(0.5 * (_LEFT + _WIDTH - _RIGHT), height - 4, x_title, "middle", "name"))
    return out


def _rule(rule: Rule, x: _Axis, y: _Axis) -> list[str]:
    style = "rule" if rule.style == "dashed" else "axis"
    path = f"M{_LEFT} {y(rule.at):.1f}H{_WIDTH - _RIGHT}"
    place = _LEFT + 4.0, y(rule.at) - 4.0
    if rule.is_upright:
        path = f"M{x(rule.at):.1f} {_HEIGHT - _BOTTOM}V{_TOP}"
        place = x(rule.at) + 4.0, _TOP + 8.0
    words = [_text(*place, rule.text)] if rule.text else []
    return [f'<path class="{style}" d="{path}"/>', *words]


def _thinned(curve: Curve, is_log: bool) -> Curve:
    """The curve without points that cannot be drawn, and with few enough of them."""
    x, y = np.asarray(curve.x, dtype=np.float64), np.asarray(curve.y, dtype=np.float64)
    good = np.flatnonzero(np.isfinite(x) & np.isfinite(y) & ((y > 0.0) | (not is_log)))
    if len(good) > _MOST_POINTS:
        good = good[np.unique(np.linspace(0, len(good) - 1, _MOST_POINTS).astype(int))]
    spread = None if curve.spread is None else np.nan_to_num(curve.spread[good])
    low = None if curve.filled_to is None else np.asarray(curve.filled_to, float)[good]
    marks = curve.marks and len(good) <= _MOST_MARKS
    return Curve(x[good], y[good], curve.colour, curve.name, curve.style, marks, spread, low)


def _curve(curve: Curve, x: _Axis, y: _Axis) -> list[str]:
    places = [(x(a), y(b)) for a, b in zip(curve.x.tolist(), curve.y.tolist(), strict=True)]
    if not places:
        return []
    parts = []
    if curve.filled_to is not None and np.isfinite(curve.filled_to).all():
        back = [(x(a), y(b)) for a, b in zip(curve.x, curve.filled_to, strict=True)][::-1]
        parts.append(f'<path class="area" d="{_path(places + back)}z"/>')
    if curve.style == "steps":
        places = [places[0]] + [
            corner for (_, b), (c, d) in pairwise(places) for corner in ((c, b), (c, d))
        ]
    if curve.style not in ("dots", "ring"):
        dashed = " dashed" if curve.style == "dashed" else ""
        parts.append(f'<path class="line {curve.colour}{dashed}" d="{_path(places)}"/>')
    if curve.spread is not None:
        bars = zip(curve.x, curve.y, curve.spread, strict=True)
        parts += [
            f'<path class="error" d="M{x(a):.1f} {y(b - half):.1f}V{y(b + half):.1f}"/>'
            for a, b, half in bars
        ]
    if curve.style in ("dots", "ring") or (curve.marks and curve.style != "steps"):
        chosen = " chosen" if curve.style == "ring" else ""
        parts.append(_dots(places, f'class="dots {curve.colour}{chosen}"'))
    return parts


def _path(places: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in places)


def _dots(places: list[tuple[float, float]], look: str) -> str:
    return f'<path {look} d="' + "".join(f"M{a:.1f} {b:.1f}h0" for a, b in places) + '"/>'


def _bars(bars: Bars, x: _Axis, y: _Axis) -> list[str]:
    base = _HEIGHT - _BOTTOM
    return [
        f'<path class="bar {bars.colour}" d="M{x(bars.edges[k]) + 0.3:.1f} {base}'
        f'V{y(bars.heights[k]):.1f}H{x(bars.edges[k + 1]) - 0.3:.1f}V{base}z"/>'
        for k in np.flatnonzero(bars.heights)
    ]


def map_svg(record: DecisionRegionDisplay) -> str:
    """Decision regions of two features with the measured examples.

    Parameters
    ----------
    record : DecisionRegionDisplay
        Of at most as many classes as the palette has colours.
    """
    colours = list(PALETTE[: len(record.labels)])
    x = _Axis(float(record.x[0]), float(record.x[-1]), _LEFT, _WIDTH - _RIGHT)
    y = _Axis(float(record.y[0]), float(record.y[-1]), _MAP_HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<image x="{_LEFT}" y="{_TOP}" width="{_WIDTH - _RIGHT - _LEFT}" '
        f'height="{_MAP_HEIGHT - _BOTTOM - _TOP}" preserveAspectRatio="none" '
        f'href="{class_image(record.winner[::-1], colours)}"/>'
    ]
    first, second = (short(name, 40) for name in record.plane.names)
    parts += _frame(x, y, x.ticks(), first, _MAP_HEIGHT)
    step = max(1, -(-len(record.points) // _MOST_DOTS))
    points, own = record.points[::step], record.own[::step]
    for k in np.unique(own[own >= 0]):
        places = [(x(a), y(b)) for a, b in points[own == k].tolist()]
        parts.append(_dots(places, f'class="dots" stroke="{colours[k]}"'))
    for k, a, b in record.names():
        parts.append(_text(x(a), y(b) + 4, short(str(record.labels[k]), 24), "middle", "region"))
    words = f"Map of the decision regions over {first} and {second}: " + ", ".join(
        f"{short(str(label), 24)} on {np.mean(record.winner == k):.0%}"
        for k, label in enumerate(record.labels)
    )
    return _whole(parts, words, _MAP_HEIGHT)
