"""Distribution of the multi-class margins, with the slack region marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.estimators.inspection import (
    check_rows,
    class_scores,
    dissect,
    encode_labels,
    example_margins,
    margin_target,
)
from polymargin.plots.chart import Bars, Chart, Display, Rule, draw_chart
from polymargin.plots.style import axes_of
from polymargin.problem.scoring import two_columns

__all__ = ["MarginDistributionDisplay"]

_TAIL = 0.002  # share of the examples on each side that may fall into the outermost bins


@dataclass(eq=False)
class MarginDistributionDisplay(Display):
    r"""Histogram of :math:`f_y - \max_{r \ne y} f_r`: how clearly examples are classified.

    A negative margin is a wrong label.  A margin below ``target`` is paid for in training: the
    slack region.

    Parameters
    ----------
    margins : (n,) margins; nan where the label is unknown to the model.
    target : float or None
        Margin that the machine asks for; None where it asks for none (hulls) or where the margin
        does not tell ("mmr").

    Attributes
    ----------
    n_wrong, n_slack, n_clear, n_unknown : int
        Examples with margin at most 0, between 0 and the target, at or above it; without a margin.
    ax_, figure_ : matplotlib axes and figure, after ``plot``.

    See Also
    --------
    ConfusionDisplay : Which class is taken for which.
    PairMarginsDisplay : Geometrical margins between classes.

    Examples
    --------
    >>> from polymargin.plots import MarginDistributionDisplay
    >>> display = MarginDistributionDisplay.from_estimator(model, X, y)  # doctest: +SKIP
    """

    margins: np.ndarray
    target: float | None = None

    @property
    def known(self) -> np.ndarray:
        """The margins that there are."""
        return self.margins[np.isfinite(self.margins)]

    @property
    def n_wrong(self) -> int:
        return int((self.known <= 0).sum())

    @property
    def n_slack(self) -> int:
        # a solution of finite accuracy leaves support vectors a hair below the target
        level = 0.0 if self.target is None else self.target * (1.0 - 1e-6)
        return int(((self.known > 0) & (self.known < level)).sum())

    @property
    def n_clear(self) -> int:
        return len(self.known) - self.n_wrong - self.n_slack

    @property
    def n_unknown(self) -> int:
        return len(self.margins) - len(self.known)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, bins: int = 60, ax: Any = None
    ) -> MarginDistributionDisplay:
        """Score X with a fitted classifier or Pipeline and draw the margins.

        Parameters
        ----------
        estimator : fitted classifier, Pipeline or search with a decision function
        X : array-like, data frame or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        bins : int, default=60
        ax : matplotlib axes or None
        """
        return cls.record(estimator, X, y).plot(ax, bins=bins)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        scores: Any,
        *,
        classes: Any = None,
        target: float | None = None,
        bins: int = 60,
        ax: Any = None,
    ) -> MarginDistributionDisplay:
        """Draw the margins of given scores.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
        scores : array-like of shape (n_samples, n_classes), or (n_samples,) for two classes
        classes : array-like or None
            Labels of the columns; None: those of ``y_true`` in order.
        target : float or None
            Margin below which the slack region begins.
        bins : int, default=60
        ax : matplotlib axes or None
        """
        values = two_columns(np.asarray(scores))
        known = np.unique(y_true) if classes is None else np.asarray(classes)
        if values.shape[1] != len(known):
            raise ValueError(
                f"scores has {values.shape[1]} columns for {len(known)} classes; "
                "give classes, one per column."
            )
        if len(values) != len(np.asarray(y_true)):
            raise ValueError(f"scores has {len(values)} rows for {len(y_true)} labels in y_true.")
        own = encode_labels(known, y_true, "y_true")
        return cls(example_margins(values, own), target).plot(ax, bins=bins)

    @classmethod
    def record(cls, estimator: Any, X: Any, y: Any) -> MarginDistributionDisplay:
        """The figures alone, nothing drawn."""
        parts = dissect(estimator)
        X = check_rows(X, y)
        own = encode_labels(parts.last.classes_, y)
        margins = example_margins(class_scores(estimator, X), own)
        return cls(margins, margin_target(estimator))

    def histogram(self, bins: int = 60) -> tuple[np.ndarray, np.ndarray]:
        """Counts and edges; 0 and the target are edges, far outliers go into the outermost bins."""
        known = self.known
        low, high = np.quantile(known, [_TAIL, 1.0 - _TAIL]) if len(known) else (0.0, 1.0)
        marks = [0.0] if self.target is None else [0.0, self.target]
        low, high = min(low, *marks, 0.0), max(high, *marks, 0.0)
        width = (high - low) / max(bins, 1)
        if not width > 0.0:
            width = 1.0 / max(bins, 1)
        if self.target is not None:
            width = self.target / max(1, round(self.target / width))
        first = int(np.floor(low / width + 1e-9))
        if (known == 0.0).any():
            first = min(first, -1)
        last = max(int(np.ceil(high / width - 1e-9)), first + 1)
        edges = width * np.arange(first, last + 1)
        inside = np.clip(known, edges[0], edges[-1])
        # a margin of exactly 0 is a tie, on the wrong side of the edge
        counts = np.histogram(np.where(inside == 0.0, -1e-12 * width, inside), edges)[0]
        return counts, edges

    def chart(self, bins: int = 60) -> Chart:
        """The histogram in up to three colours."""
        counts, edges = self.histogram(bins)
        middle = 0.5 * (edges[1:] + edges[:-1])
        level = 0.0 if self.target is None else self.target
        clear = "right" if self.target is None else "clearly right"
        parts = [
            (middle < 0, "orange", f"wrong: {self.n_wrong:,}"),
            (middle > level, "blue", f"{clear}: {self.n_clear:,}"),
        ]
        rules = [Rule(0.0, is_upright=True, style="solid")]
        caption = "Left of 0 the label is wrong."
        if self.target is not None:
            name = f"right, but inside the margin: {self.n_slack:,}"
            parts.insert(1, ((middle > 0) & (middle < level), "amber", name))
            rules.append(Rule(level, is_upright=True))
            caption += f" The dashed line is the margin that training asks for, {level:.3g}."
        return Chart(
            "Margins",
            "margin: own score − best rival score",
            "examples",
            bars=tuple(
                Bars(edges, np.where(where, counts, 0), colour, name)
                for where, colour, name in parts
            ),
            rules=tuple(rules),
            x_range=(float(edges[0]), float(edges[-1])),
            words="Histogram of margins. " + "; ".join(name for *_, name in parts) + ".",
            caption=caption,
        )

    def plot(self, ax: Any = None, *, bins: int = 60) -> MarginDistributionDisplay:
        """Draw into ``ax`` (new axes if None); ``ax_`` and ``figure_`` hold them."""
        ax = axes_of(ax)
        draw_chart(self.chart(bins), ax)
        return self._keep(ax)
