"""Small charts as SVG text; colours come from the classes of the page's style sheet.

Charts are as wide as a phone, so that their letters stay readable there; on larger screens the page
puts them side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

__all__ = ["Line", "Rule", "bar_chart", "line_chart", "map_chart", "nice_ticks", "number"]

_WIDTH, _HEIGHT, _MAP_HEIGHT = 360, 210, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 40
_MOST_POINTS = 300
_FAR = 9999.0


class Line(NamedTuple):
    """A curve: its style class in the page, and whether to mark its points."""

    x: np.ndarray
    y: np.ndarray
    style: str
    marks: bool = True


class Rule(NamedTuple):
    """A straight line across, with a word beside it."""

    at: float
    text: str
    style: str = "rule"


def number(value: float) -> str:
    """A tick label: short, exact enough."""
    if value == 0.0:
        return "0"
    size = abs(value)
    if size >= 1e6 or size < 1e-3:
        mantissa, exponent = f"{value:.3g}".split("e") if "e" in f"{value:.3g}" else ("", "")
        if not mantissa:
            return f"{value:.3g}"
        sign = "−" if exponent.startswith("-") else ""
        return f"{mantissa}e{sign}{exponent.lstrip('+-0')}".replace("-", "−")
    text = f"{value:,.0f}" if size >= 1000 else f"{value:.4g}"
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


def _log_ticks(low: float, high: float) -> list[float]:
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    step = max(1, -(-(last - first) // 5))
    return [float(k) for k in range(first, last + 1, step)]


class _Scale(NamedTuple):
    """From numbers to places on the page."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def _frame(
    x: _Scale,
    y: _Scale,
    x_ticks: Sequence[tuple[float, str]],
    y_ticks: Sequence[tuple[float, str]],
    x_title: str,
    full_height: int = _HEIGHT,
) -> list[str]:
    bottom = full_height - _BOTTOM
    out = []
    for value, text in y_ticks:
        at = y(value)
        out.append(f'<path class="grid" d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}"/>')
        out.append(
            f'<text x="{_LEFT - 6}" y="{at + 3.5:.1f}" text-anchor="end">{escape(text)}</text>'
        )
    out.append(f'<path class="axis" d="M{_LEFT} {bottom}H{_WIDTH - _RIGHT}"/>')
    for value, text in x_ticks:
        at = x(value)
        out.append(f'<path class="axis" d="M{at:.1f} {bottom}v4"/>')
        for row, part in enumerate(text.split("\n")):
            # words at the ends stay inside the picture
            anchor = "end" if at > _WIDTH - _RIGHT - 12 else "middle"
            out.append(
                f'<text x="{at:.1f}" y="{bottom + 16 + 11 * row}" text-anchor="{anchor}">'
                f"{escape(part)}</text>"
            )
    middle = 0.5 * (_LEFT + _WIDTH - _RIGHT)
    out.append(
        f'<text class="name" x="{middle}" y="{full_height - 4}" text-anchor="middle">'
        f"{escape(x_title)}</text>"
    )
    return out


def _whole(parts: list[str], words: str, height: int = _HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(words)}">'
        + "".join(parts)
        + "</svg>"
    )


def _limits(values: np.ndarray, room: float = 0.05) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    pad = room * (high - low) or 0.05 * abs(high) or 0.5
    return low - pad, high + pad


def line_chart(
    lines: Sequence[Line],
    x_title: str,
    words: str,
    *,
    log: bool = False,
    y_range: tuple[float, float] | None = None,
    rules: Sequence[Rule] = (),
    x_ticks: Sequence[tuple[float, str]] | None = None,
    errors: np.ndarray | None = None,
) -> str:
    """Curves over one axis.

    Parameters
    ----------
    lines : curves; points that are not finite are left out.
    x_title : what the horizontal axis means.
    words : the picture in words, for readers who do not see it.
    log : whether heights are powers of ten.
    y_range : limits of the heights; None: all of them.
    rules : horizontal lines.
    x_ticks : places and words; None: round numbers.
    errors : half-lengths of error bars of the first curve.
    """
    lines = [_thinned(line, log) for line in lines]
    heights = np.concatenate([line.y for line in lines] + [_heights(rules, log)])
    if errors is not None:
        heights = np.concatenate([heights, lines[0].y + errors, lines[0].y - errors])
    y_low, y_high = _limits(heights) if y_range is None else y_range
    x_low, x_high = _limits(np.concatenate([line.x for line in lines]), 0.02)
    x = _Scale(x_low, x_high, _LEFT, _WIDTH - _RIGHT)
    y = _Scale(y_low, y_high, _HEIGHT - _BOTTOM, _TOP)
    y_ticks = (
        [(value, _power(value)) for value in _log_ticks(y_low, y_high)]
        if log
        else [(value, number(value)) for value in nice_ticks(y_low, y_high)]
    )
    if x_ticks is None:
        x_ticks = [(value, number(value)) for value in nice_ticks(max(x_low, 0.0), x_high)]
    parts = _frame(x, y, x_ticks, y_ticks, x_title)
    for rule, height in zip(rules, _heights(rules, log), strict=True):
        parts.append(f'<path class="{rule.style}" d="M{_LEFT} {y(height):.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(f'<text x="{_LEFT + 4}" y="{y(height) - 4:.1f}">{escape(rule.text)}</text>')
    if errors is not None:
        for at, height, half in zip(lines[0].x, lines[0].y, errors, strict=True):
            if np.isfinite(height) and np.isfinite(half):
                parts.append(
                    f'<path class="error" d="M{x(at):.1f} {y(height - half):.1f}'
                    f'V{y(height + half):.1f}"/>'
                )
    # a picture in the picture cuts off what lies beyond the limits
    box = f"{_LEFT - 4} {_TOP - 6} {_WIDTH - _RIGHT - _LEFT + 8} {_HEIGHT - _BOTTOM - _TOP + 9}"
    left, top, width, height = box.split()
    parts.append(
        f'<svg x="{left}" y="{top}" width="{width}" height="{height}" viewBox="{box}" '
        'aria-hidden="true">'
    )
    for line in lines:
        parts.extend(_drawn(line, x, y))
    parts.append("</svg>")
    return _whole(parts, words)


def _heights(rules: Sequence[Rule], log: bool) -> np.ndarray:
    at = np.array([rule.at for rule in rules], dtype=np.float64)
    return np.log10(at) if log else at


def _power(exponent: float) -> str:
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}"


def _thinned(line: Line, log: bool) -> Line:
    x, y = np.asarray(line.x, dtype=np.float64), np.asarray(line.y, dtype=np.float64)
    if log:
        y = np.log10(np.where(y > 0, y, np.nan))
    good = np.isfinite(y)
    x, y = x[good], y[good]
    if len(x) > _MOST_POINTS:
        keep = np.unique(np.linspace(0, len(x) - 1, _MOST_POINTS).astype(int))
        x, y = x[keep], y[keep]
    return Line(x, y, line.style, line.marks and len(x) <= 80)


def _drawn(line: Line, x: _Scale, y: _Scale) -> list[str]:
    if not len(line.x):
        return []
    places = [
        (x(float(a)), min(max(y(float(b)), -_FAR), _FAR))
        for a, b in zip(line.x, line.y, strict=True)
    ]
    path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
    parts = [f'<path class="line {line.style}" d="{path}"/>']
    if line.marks:
        dots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in places)
        parts.append(f'<path class="dots {line.style}" d="{dots}"/>')
    return parts


def map_chart(
    image: str,
    x_limits: tuple[float, float],
    y_limits: tuple[float, float],
    points: Sequence[tuple[np.ndarray, str]],
    names: Sequence[tuple[float, float, str]],
    x_title: str,
    words: str,
) -> str:
    """An image of regions with points (places and colour) and names on it."""
    x = _Scale(*x_limits, _LEFT, _WIDTH - _RIGHT)
    y = _Scale(*y_limits, _MAP_HEIGHT - _BOTTOM, _TOP)
    width, height = _WIDTH - _RIGHT - _LEFT, _MAP_HEIGHT - _BOTTOM - _TOP
    parts = [
        f'<image x="{_LEFT}" y="{_TOP}" width="{width}" height="{height}" '
        f'preserveAspectRatio="none" href="{image}"/>'
    ]
    x_ticks = [(value, number(value)) for value in nice_ticks(*x_limits)]
    y_ticks = [(value, number(value)) for value in nice_ticks(*y_limits)]
    parts += _frame(x, y, x_ticks, y_ticks, x_title, _MAP_HEIGHT)
    for places, colour in points:
        dots = "".join(f"M{x(float(a)):.1f} {y(float(b)):.1f}h0" for a, b in places)
        parts.append(f'<path class="dots" stroke="{colour}" d="{dots}"/>')
    for a, b, text in names:
        parts.append(
            f'<text class="region" x="{x(a):.1f}" y="{y(b) + 4:.1f}" text-anchor="middle">'
            f"{escape(text)}</text>"
        )
    return _whole(parts, words, _MAP_HEIGHT)


def bar_chart(
    counts: np.ndarray,
    edges: np.ndarray,
    styles: Sequence[str],
    x_title: str,
    words: str,
    rules: Sequence[Rule] = (),
) -> str:
    """A histogram; every bar has a style class, every rule stands upright."""
    top = max(float(counts.max(initial=0)), 1.0)
    x = _Scale(float(edges[0]), float(edges[-1]), _LEFT, _WIDTH - _RIGHT)
    y = _Scale(0.0, 1.08 * top, _HEIGHT - _BOTTOM, _TOP)
    y_ticks = [(value, number(value)) for value in nice_ticks(0.0, top) if value == int(value)]
    x_ticks = [(value, number(value)) for value in nice_ticks(float(edges[0]), float(edges[-1]), 6)]
    parts = _frame(x, y, x_ticks, y_ticks, x_title)
    base = _HEIGHT - _BOTTOM
    for k, count in enumerate(counts):
        if count:
            left, right = x(float(edges[k])), x(float(edges[k + 1]))
            parts.append(
                f'<path class="bar {styles[k]}" d="M{left + 0.3:.1f} {base}V{y(float(count)):.1f}'
                f'H{right - 0.3:.1f}V{base}z"/>'
            )
    for rule in rules:
        parts.append(f'<path class="{rule.style}" d="M{x(rule.at):.1f} {base}V{_TOP}"/>')
        if rule.text:
            parts.append(
                f'<text x="{x(rule.at) + 4:.1f}" y="{_TOP + 8}">{escape(rule.text)}</text>'
            )
    return _whole(parts, words)
