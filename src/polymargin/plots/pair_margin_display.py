"""Margins of a fitted machine: geometrical ones of every class pair, and the slacks of examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.plots.chart import Chart, ChartDisplay, Curve, Display
from polymargin.plots.style import axes_of

__all__ = ["PairMarginsDisplay", "SlackDistributionDisplay"]


@dataclass(eq=False)
class PairMarginsDisplay(Display):
    """Geometrical margins between class pairs (9.1) as a table in colour.

    Parameters
    ----------
    classes : (Q,) labels.
    geometric : (Q, Q)
        Distance of the nearest example to the border between two classes; infinite where there is
        none.
    errors : int
        Examples that are not classified correctly and not counted.

    See Also
    --------
    polymargin.margin_record : The margins as numbers.
    SlackDistributionDisplay : Losses of examples.
    """

    classes: np.ndarray
    geometric: np.ndarray
    errors: int

    @classmethod
    def record(cls, model: Any, X: Any, y: Any) -> PairMarginsDisplay:
        """The figures of a fitted machine alone, nothing drawn."""
        from polymargin.selection.margins import margin_record

        found = margin_record(model, X, y)
        return cls(found.classes, found.geometric, found.errors)

    @classmethod
    def from_estimator(cls, model: Any, X: Any, y: Any, ax: Any = None) -> PairMarginsDisplay:
        """Draw the margins of a fitted machine on examples."""
        return cls.record(model, X, y).plot(ax)

    def plot(self, ax: Any = None) -> PairMarginsDisplay:
        """Draw into ``ax`` (new axes if None); ``ax_`` and ``figure_`` hold them."""
        ax = axes_of(ax)
        Q = len(self.classes)
        shown = np.where(np.isfinite(self.geometric), self.geometric, np.nan)
        shown[np.triu_indices(Q)] = np.nan  # every pair once
        shown = shown[1:, : Q - 1]
        image = ax.imshow(shown, cmap="viridis")
        ax.figure.colorbar(image, ax=ax, label="geometrical margin")
        # light cells (large margins) get dark figures
        middle = np.nanmin(shown) + 0.6 * (np.nanmax(shown) - np.nanmin(shown))
        if Q <= 12:
            for row, column in np.argwhere(np.isfinite(shown)):
                value = shown[row, column]
                colour = "black" if value > middle else "white"
                size = "medium" if Q <= 6 else "x-small"
                ax.text(
                    column,
                    row,
                    f"{value:.2g}",
                    ha="center",
                    va="center",
                    color=colour,
                    fontsize=size,
                )
        ax.set_xticks(np.arange(Q - 1), [str(c) for c in self.classes[:-1]])
        ax.set_yticks(np.arange(Q - 1), [str(c) for c in self.classes[1:]])
        ax.spines[["top", "right", "left", "bottom"]].set_visible(False)
        ax.tick_params(length=0)
        ax.set_title(
            "nearest example to the border between two classes"
            + (f"\n({self.errors} misclassified examples left out)" if self.errors else ""),
            fontsize="medium",
        )
        return self._keep(ax)


@dataclass(eq=False)
class SlackDistributionDisplay(ChartDisplay):
    """How the losses of examples are distributed: the share of examples that lose more than x.

    Parameters
    ----------
    losses : (n,) the machine's loss of every example.
    margins : (n,) score of the own class minus the best of the others.

    See Also
    --------
    polymargin.margin_record : The losses as numbers.
    PairMarginsDisplay : Margins between classes.
    """

    losses: np.ndarray
    margins: np.ndarray

    @classmethod
    def record(cls, model: Any, X: Any, y: Any) -> SlackDistributionDisplay:
        """The figures of a fitted machine alone, nothing drawn."""
        from polymargin.selection.margins import margin_record

        found = margin_record(model, X, y)
        return cls(found.losses, found.margins)

    @classmethod
    def from_estimator(cls, model: Any, X: Any, y: Any, ax: Any = None) -> SlackDistributionDisplay:
        """Draw the losses of a fitted machine on examples."""
        return cls.record(model, X, y).plot(ax)

    def chart(self) -> Chart:
        """Shares of all examples on a logarithmic axis, right and wrong ones apart."""
        n, right = len(self.losses), self.margins > 0.0
        groups = (
            (right, "blue", "classified correctly", "steps"),
            (~right, "orange", "errors and ties", "steps"),
            (np.ones(n, dtype=bool), "grey", "all", "dashed"),
        )
        curves = []
        for chosen, colour, name, style in groups:
            losses = np.sort(self.losses[chosen])
            share = 100.0 * np.arange(len(losses), 0, -1) / n
            name = f"{name} ({len(losses)})"
            curves.append(Curve(losses, share, colour, name, style, marks=False))
        return Chart(
            "Losses",
            "loss of an example",
            "examples that lose at least as much (%)",
            curves=tuple(curves),
            y_log=True,
            words="Curves of the share of examples that lose at least as much.",
        )
