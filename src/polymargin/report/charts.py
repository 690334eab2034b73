"""The charts of a report, from the records of the Display classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polymargin.plots.decision_region_display import DecisionRegionDisplay
from polymargin.plots.history_display import HistoryDisplay
from polymargin.plots.margin_display import MarginDistributionDisplay
from polymargin.plots.size_accuracy_display import SizeAccuracyDisplay
from polymargin.plots.style import PALETTE
from polymargin.report.facts import short
from polymargin.report.png import class_image
from polymargin.report.svg import Line, Rule, bar_chart, line_chart, map_chart

__all__ = ["Chart", "bytes_text", "history_charts", "margin_chart", "region_chart", "size_chart"]

_MOST_DOTS = 800


class Chart(NamedTuple):
    """A drawing with its caption; ``legend`` pairs style classes with words."""

    title: str
    svg: str
    caption: str = ""
    legend: tuple[tuple[str, str], ...] = ()


def bytes_text(size: float) -> str:
    """A size for people."""
    if not np.isfinite(size):
        return "unknown"
    if size < 1000:
        return f"{size:.0f} bytes"
    return f"{size / 1000:.3g} kB" if size < 1e6 else f"{size / 1e6:.3g} MB"


def known(value: float) -> str:
    """A number, or the word for none."""
    return f"{value:.6g}" if np.isfinite(value) else "unknown"


def history_charts(record: HistoryDisplay) -> list[Chart]:
    """Objective or energy, gap and temperature against time."""
    when = record.seconds
    if not len(when):
        return []
    limits = record.range_of_objective()
    charts = []
    if record.energy is None:
        words = (
            f"Line chart: from the first to the last of {len(when)} checks the value of the model "
            f"and its lower bound approach each other, ending at {known(record.primal[-1])} and "
            f"{known(record.dual[-1])}."
        )
        lines = [Line(when, record.primal, "blue"), Line(when, record.dual, "orange")]
        charts.append(
            Chart(
                "Objective",
                line_chart(lines, "seconds", words, y_range=limits),
                "",
                (("blue", "this model"), ("orange", "proven lower bound")),
            )
        )
    else:
        words = (
            f"Line chart: the energy over {len(when)} steps, ending at {known(record.energy[-1])}."
        )
        lines = [Line(when, record.energy, "blue")]
        charts.append(Chart("Energy", line_chart(lines, "seconds", words, y_range=limits)))
    rules = [] if record.tol is None else [Rule(record.tol, f"tol = {record.tol:g}")]
    words = f"Line chart: the relative duality gap, ending at {known(record.gap[-1])}."
    lines = [Line(when, record.gap, "green")]
    charts.append(
        Chart("Relative duality gap", line_chart(lines, "seconds", words, log=True, rules=rules))
    )
    if "temperature" in record.quantities and record.temperature is not None:
        words = "Line chart: the temperature of the annealing falls to zero."
        lines = [Line(when, record.temperature, "amber")]
        charts.append(Chart("Temperature, in units of C", line_chart(lines, "seconds", words)))
    return charts


def margin_chart(record: MarginDistributionDisplay) -> Chart | None:
    """The histogram of the margins."""
    if not len(record.known):
        return None
    counts, edges = record.histogram(48)
    middle = 0.5 * (edges[1:] + edges[:-1])
    level = 0.0 if record.target is None else record.target
    styles = np.where(middle < 0, "orange", np.where(middle < level, "amber", "blue"))
    legend = [("orange", f"wrong: {record.n_wrong:,}")]
    rules = [Rule(0.0, "", "axis")]
    if record.target is not None:
        legend.append(("amber", f"right, but inside the margin: {record.n_slack:,}"))
        rules.append(Rule(level, ""))
    clear = "right" if record.target is None else "clearly right"
    legend.append(("blue", f"{clear}: {record.n_clear:,}"))
    words = "Histogram of margins. " + "; ".join(text for _, text in legend) + "."
    title = "margin: own score − best other score"
    svg = bar_chart(counts, edges, styles.tolist(), title, words, rules)
    caption = "Left of 0 the label is wrong."
    if record.target is not None:
        caption += f" The dashed line is the margin that training asks for, {level:.3g}."
    return Chart("Margins", svg, caption, tuple(legend))


def region_chart(record: DecisionRegionDisplay) -> Chart:
    """Decision regions of two features with the measured examples."""
    colours = list(PALETTE[: len(record.labels)])
    step = max(1, -(-len(record.points) // _MOST_DOTS))
    points, own = record.points[::step], record.own[::step]
    names = [(x, y, short(str(record.labels[k]), 24)) for k, x, y in record.names()]
    first, second = (short(name, 40) for name in record.plane.names)
    words = f"Map of the decision regions over {first} and {second}: " + ", ".join(
        f"{short(str(label), 24)} on {np.mean(record.winner == k):.0%}"
        for k, label in enumerate(record.labels)
    )
    svg = map_chart(
        class_image(record.winner[::-1], colours),
        (float(record.x[0]), float(record.x[-1])),
        (float(record.y[0]), float(record.y[-1])),
        [(points[own == k], colours[k]) for k in range(len(colours)) if (own == k).any()],
        names,
        first,
        words,
    )
    caption = f"Across: {first}; up: {second}. Tints are predictions, dots measured examples."
    return Chart("Decision regions", svg, caption)


def size_chart(record: SizeAccuracyDisplay) -> Chart:
    """Validation error against prototypes per class."""
    place = np.log10(record.n_prototypes.astype(float))
    error, spread = 100.0 * record.error, 100.0 * record.spread
    ticks = [
        (float(at), f"{count}\n{bytes_text(size)}")
        for at, count, size in zip(place, record.n_prototypes, record.model_bytes, strict=True)
    ]
    best = slice(record.chosen, record.chosen + 1)
    lines = [Line(place, error, "blue"), Line(place[best], error[best], "orange chosen")]
    words = "Line chart of the validation error: " + "; ".join(
        f"{count} prototypes per class {value:.2f} %"
        for count, value in zip(record.n_prototypes, error, strict=True)
    )
    svg = line_chart(lines, "", words, x_ticks=ticks, errors=spread)
    caption = (
        "Mean and standard deviation over the folds of the training data, at the best C of each "
        "size. Chosen: "
        f"{record.n_prototypes[record.chosen]} prototypes per class."
    )
    return Chart(
        "Validation error (%) by prototypes per class",
        svg,
        caption,
        (("blue", "mean over folds"), ("orange", "chosen")),
    )
