"""Margins of a fitted machine: geometrical ones of every class pair, and the slacks of examples."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.plots.style import BLUE, GREY, ORANGE, axes_of

__all__ = ["PairMarginsDisplay", "SlackDistributionDisplay"]


class PairMarginsDisplay:
    """Geometrical margins between class pairs (9.1) as a table in colour.

    Parameters
    ----------
    classes : (Q,) labels.
    geometric : (Q, Q)
        Distance of the nearest example to the border between two classes; infinite where there is
        none.
    errors : int
        Examples that are not classified correctly and not counted.
    """

    def __init__(self, classes: np.ndarray, geometric: np.ndarray, errors: int) -> None:
        self.classes = classes
        self.geometric = geometric
        self.errors = errors

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
        self.ax_ = ax
        self.figure_ = ax.figure
        return self


class SlackDistributionDisplay:
    """How the losses of examples are distributed: the share of examples that lose more than x.

    Parameters
    ----------
    losses : (n,) the machine's loss of every example.
    margins : (n,) score of the own class minus the best of the others.
    """

    def __init__(self, losses: np.ndarray, margins: np.ndarray) -> None:
        self.losses = losses
        self.margins = margins

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

    def plot(self, ax: Any = None) -> SlackDistributionDisplay:
        """Draw into ``ax`` (new axes if None); ``ax_`` and ``figure_`` hold them."""
        ax = axes_of(ax)
        n = len(self.losses)
        share = 100.0 * np.arange(n, 0, -1) / n
        for chosen, colour, label in (
            (self.margins > 0.0, BLUE, "classified correctly"),
            (self.margins <= 0.0, ORANGE, "errors and ties"),
        ):
            losses = np.sort(self.losses[chosen])
            height = 100.0 * np.arange(len(losses), 0, -1) / n
            ax.step(losses, height, where="post", color=colour, label=f"{label} ({len(losses)})")
        ax.step(
            np.sort(self.losses),
            share,
            where="post",
            color=GREY,
            linestyle="--",
            label="all",
            zorder=1,
        )
        ax.set_yscale("log")
        ax.set_xlabel("loss of an example")
        ax.set_ylabel("examples that lose at least as much (%)")
        ax.grid(alpha=0.3)
        ax.legend(frameon=False)
        self.ax_ = ax
        self.figure_ = ax.figure
        return self
