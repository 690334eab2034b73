"""Figures of experiments: curves with spread, and critical differences of mean ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata, studentized_range

from polymargin._extras import need
from polymargin.plots.style import AMBER, BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY
from polymargin.storage.atomic import atomic_file

__all__ = [
    "critical_difference",
    "draw_lines",
    "draw_panels",
    "draw_ranks",
    "mean_ranks",
    "save_figure",
]

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY, BLACK)


def new_figure(**options: Any) -> Any:
    """A figure without a window; ImportError with advice where matplotlib is missing."""
    return need("matplotlib.figure", "drawing", "plots").Figure(layout="constrained", **options)


def save_figure(figure: Any, path: Path) -> None:
    """Write a PNG whole or not at all."""
    with atomic_file(path) as file:
        figure.savefig(file, format="png", dpi=130)


Curves = Mapping[str, Sequence[Sequence[float]]]


def draw_lines(
    path: Path,
    title: str,
    x_label: str,
    y_label: str,
    x: Sequence[float],
    curves: Curves,
    log_x: bool = False,
) -> None:
    """Mean of every point's values, bars from the smallest to the largest."""
    draw_panels(path, title, x_label, y_label, x, {"": curves}, log_x)


def draw_panels(
    path: Path,
    title: str,
    x_label: str,
    y_label: str,
    x: Sequence[float],
    panels: Mapping[str, Curves],
    log_x: bool = False,
) -> None:
    """The same curves for several things beside each other, on one scale."""
    n = len(panels)
    figure = new_figure(figsize=(7.0 if n == 1 else 1.0 + 2.6 * n, 4.2))
    figure.suptitle(title)
    for axes, (name, curves) in zip(
        figure.subplots(1, n, sharey=True, squeeze=False)[0], panels.items(), strict=True
    ):
        _draw_curves(axes, x, curves)
        axes.set(title=name, xlabel=x_label)
        if log_x:
            axes.set_xscale("log")
            axes.minorticks_off()
        axes.set_xticks(list(x), [f"{value:g}" for value in x])
        axes.grid(alpha=0.25)
    first = figure.axes[0]
    first.set_ylabel(y_label)
    if n == 1:
        first.legend(frameon=False, fontsize=8)
    else:
        handles, labels = first.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    save_figure(figure, path)


def _draw_curves(axes: Any, x: Sequence[float], curves: Curves) -> None:
    for place, (name, points) in enumerate(curves.items()):
        there = [(at, values) for at, values in zip(x, points, strict=True) if len(values)]
        if not there:
            continue
        means = np.array([np.mean(values) for _, values in there])
        low = means - [min(values) for _, values in there]
        high = [max(values) for _, values in there] - means
        axes.errorbar(
            [at for at, _ in there],
            means,
            yerr=np.maximum([low, high], 0.0),
            color=COLOURS[place % len(COLOURS)],
            ls="--" if name == "printed" else "-",
            marker="o",
            ms=4,
            capsize=3,
            label=name,
        )


def mean_ranks(errors: np.ndarray) -> np.ndarray:
    """Mean rank of every column over the rows; 1 is the lowest error, equals share ranks."""
    return np.asarray(rankdata(errors, axis=1).mean(axis=0))


def critical_difference(n_methods: int, n_sets: int, level: float = 0.05) -> float:
    """Nemenyi's difference of mean ranks that k methods on N sets must have to differ.

    CD = q_{level, k, infinity} / sqrt(2) * sqrt(k (k + 1) / (6 N)).
    """
    q = float(studentized_range.ppf(1.0 - level, n_methods, np.inf)) / np.sqrt(2.0)
    return float(q * np.sqrt(n_methods * (n_methods + 1.0) / (6.0 * n_sets)))


def draw_ranks(path: Path, title: str, names: Sequence[str], errors: np.ndarray) -> None:
    """Mean ranks on a line; bars join methods that differ by less than the critical difference."""
    ranks = mean_ranks(errors)
    cd = critical_difference(len(names), len(errors))
    order = np.argsort(ranks)
    figure = new_figure(figsize=(7.5, 1.6 + 0.3 * len(names)))
    axes = figure.subplots()
    k = len(names)
    for place, j in enumerate(order):
        height = -1.0 - 0.5 * (k - 1 - place)  # labels pass below the stems to their right
        axes.plot([ranks[j], ranks[j]], [0.0, height], color="0.6", lw=0.8)
        axes.plot([ranks[j]], [0.0], "o", color=BLUE, ms=5)
        axes.annotate(f" {names[j]}  {ranks[j]:.2f}", (ranks[j], height), fontsize=8, va="center")
    for level, (first, last) in enumerate(_cliques(ranks[order], cd)):
        low, high = ranks[order][first], ranks[order][last]
        axes.plot([low, high], [0.35 + 0.25 * level] * 2, color=ORANGE, lw=3)
    axes.set(title=f"{title}; critical difference {cd:.2f} (Nemenyi, 5 %, {len(errors)} sets)")
    axes.set(xlim=(0.8, k + 0.8), xlabel="mean rank (1: lowest error)", yticks=[])
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    save_figure(figure, path)


def _cliques(ranks: np.ndarray, cd: float) -> list[tuple[int, int]]:
    """Largest runs of sorted ranks whose ends differ by less than ``cd``."""
    runs: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = int(np.searchsorted(ranks, ranks[first] + cd, side="left")) - 1
        if last > first and not (runs and runs[-1][1] >= last):
            runs.append((first, last))
    return runs
