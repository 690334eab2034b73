"""Confusion matrix: counts and row shares, from two classes to a thousand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.estimators.inspection import check_rows, dissect, encode_labels
from polymargin.plots.chart import Display
from polymargin.plots.style import axes_of, short, ticks_of

__all__ = ["ConfusionDisplay"]

_BOTH_FIT = 12
_COUNTS_FIT = 30
_MOST_TICKS = 30
_MOST_PIXELS = 260


@dataclass(eq=False)
class ConfusionDisplay(Display):
    """Which class is taken for which.

    Parameters
    ----------
    counts : (Q, Q) examples of the class of the row that were given the class of the column.
    labels : (Q,) the classes, in the order of rows and columns.

    Attributes
    ----------
    row_shares : (Q, Q) counts divided by their row; nan in rows of classes without examples.
    ax_, figure_ : matplotlib axes and figure, after ``plot``.

    See Also
    --------
    MarginDistributionDisplay : How clearly examples are classified.
    polymargin.write_report : A page with both.

    Examples
    --------
    >>> from polymargin.plots import ConfusionDisplay
    >>> display = ConfusionDisplay.from_estimator(model, X, y)  # doctest: +SKIP
    """

    counts: np.ndarray
    labels: np.ndarray

    @property
    def row_shares(self) -> np.ndarray:
        total = self.counts.sum(axis=1, keepdims=True)
        return np.divide(
            self.counts, total, out=np.full(self.counts.shape, np.nan), where=total > 0
        )

    @property
    def n_examples(self) -> int:
        return int(self.counts.sum())

    @property
    def n_errors(self) -> int:
        return int(self.counts.sum() - np.trace(self.counts))

    def worst(self, k: int = 10) -> list[tuple[Any, Any, int, float]]:
        """The k most frequent confusions: true label, predicted label, count, share of the row."""
        wrong = self.counts.copy()
        np.fill_diagonal(wrong, 0)
        order = np.argsort(-wrong, axis=None, kind="stable")[:k]
        shares = self.row_shares
        found = []
        for at in order:
            i, j = np.unravel_index(at, wrong.shape)
            if wrong[i, j]:
                share = float(shares[i, j])
                found.append((self.labels[i], self.labels[j], int(wrong[i, j]), share))
        return found

    def pooled(self, most: int) -> tuple[np.ndarray, int]:
        """Row shares on at most ``most`` x ``most`` cells, and how many classes a cell spans.

        A cell shows the largest share of its block, so that no confusion is lost between pixels.
        """
        shares = np.nan_to_num(self.row_shares)
        Q = len(shares)
        block = -(-Q // most)
        if block == 1:
            return shares, 1
        padded = np.zeros((-(-Q // block) * block,) * 2)
        padded[:Q, :Q] = shares
        side = len(padded) // block
        return padded.reshape(side, block, side, block).max(axis=(1, 3)), block

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None) -> ConfusionDisplay:
        """Predict X with a fitted classifier or Pipeline, count, draw.

        Parameters
        ----------
        estimator : fitted classifier, Pipeline or search
        X : array-like, data frame or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels that the model has never seen get a row of their own.
        ax : matplotlib axes or None
        """
        return cls.record(estimator, X, y).plot(ax)

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_pred: Any, *, labels: Any = None, ax: Any = None
    ) -> ConfusionDisplay:
        """Count and draw given predictions.

        Parameters
        ----------
        y_true, y_pred : array-like of shape (n_samples,)
        labels : array-like or None
            Classes in the order wanted; those of ``y_true`` and ``y_pred`` that are not among them
            come last.
        ax : matplotlib axes or None
        """
        return cls.record_predictions(y_true, y_pred, labels).plot(ax)

    @classmethod
    def record(cls, estimator: Any, X: Any, y: Any) -> ConfusionDisplay:
        """The figures alone, nothing drawn."""
        parts = dissect(estimator)
        X = check_rows(X, y)
        encode_labels(parts.last.classes_, y)  # refuses labels of another kind
        return cls.record_predictions(y, estimator.predict(X), parts.last.classes_)

    @classmethod
    def record_predictions(cls, y_true: Any, y_pred: Any, labels: Any = None) -> ConfusionDisplay:
        """The figures of given predictions, nothing drawn."""
        y_true, y_pred = np.asarray(y_true).ravel(), np.asarray(y_pred).ravel()
        if len(y_true) != len(y_pred):
            raise ValueError(f"y_pred has {len(y_pred)} labels, y_true has {len(y_true)}.")
        if not len(y_true):
            raise ValueError("y_true is empty; at least one example is needed.")
        order = [] if labels is None else np.asarray(labels).tolist()
        place = {label: k for k, label in enumerate(order)}
        others = {*y_true.tolist(), *y_pred.tolist()} - place.keys()
        for label in sorted(others, key=lambda label: (str(type(label)), label)):
            place[label] = len(place)
        rows = np.fromiter((place[label] for label in y_true.tolist()), np.intp, len(y_true))
        columns = np.fromiter((place[label] for label in y_pred.tolist()), np.intp, len(y_pred))
        Q = len(place)
        counts = np.bincount(rows * Q + columns, minlength=Q * Q).reshape(Q, Q)
        return cls(counts, _as_labels(list(place)))

    def plot(self, ax: Any = None, *, title: bool = True) -> ConfusionDisplay:
        """Draw into ``ax`` (new axes if None); ``ax_`` and ``figure_`` hold them."""
        is_new = ax is None
        ax = axes_of(ax)
        Q = len(self.labels)
        if is_new:
            side = min(3.2 + 0.32 * Q, 10.0)
            ax.figure.set_size_inches(side + 1.0, side)
        shares = np.nan_to_num(self.row_shares)
        shown, block = self.pooled(_MOST_PIXELS)
        # square roots show the rare confusions that matter, beside a diagonal close to 1
        image = ax.imshow(
            np.sqrt(shown),
            cmap="Blues",
            vmin=0.0,
            vmax=1.0,
            interpolation="nearest",
            extent=(-0.5, Q - 0.5, Q - 0.5, -0.5),
        )
        bar = ax.figure.colorbar(image, ax=ax, fraction=0.045, pad=0.02)
        levels = np.array([0.0, 0.01, 0.05, 0.2, 0.5, 1.0])
        bar.set_ticks(np.sqrt(levels), labels=[f"{100 * level:.0f} %" for level in levels])
        bar.set_label("share of the row" + (f", largest of {block} × {block}" if block > 1 else ""))
        self._write(ax, shares)
        at = ticks_of(Q, _MOST_TICKS)
        names = [short(self.labels[k], 12) for k in at]
        upright = max(map(len, names)) > 3
        ax.set_xticks(at, names, rotation=90 if upright else 0, fontsize=9)
        ax.set_yticks(at, names, fontsize=9)
        ax.set_xlabel("predicted")
        ax.set_ylabel("true")
        if title:
            rate = 100.0 * self.n_errors / max(self.n_examples, 1)
            ax.set_title(f"{self.n_errors:,} of {self.n_examples:,} wrong ({rate:.2f} %)")
        return self._keep(ax)

    def _write(self, ax: Any, shares: np.ndarray) -> None:
        """Counts, with their shares where there is room; nothing where nothing was counted."""
        Q = len(self.labels)
        if Q > _COUNTS_FIT:
            return
        size = 10 if Q <= 6 else 8 if Q <= _BOTH_FIT else 6.5
        for i, j in zip(*np.nonzero(self.counts), strict=True):
            text = f"{self.counts[i, j]:,}"
            if Q <= _BOTH_FIT:
                text += f"\n{_percent(shares[i, j])}"
            ink = "white" if shares[i, j] > 0.35 else "black"
            ax.text(j, i, text, ha="center", va="center", fontsize=size, color=ink)


def _percent(share: float) -> str:
    value = 100.0 * share
    return f"{value:.0f} %" if value >= 9.95 or value == 0 else f"{value:.1f} %"


def _as_labels(labels: list[Any]) -> np.ndarray:
    """An array of labels that keeps what they are: mixed kinds stay objects."""
    if len({isinstance(label, str) for label in labels}) == 1:
        return np.asarray(labels)
    out = np.empty(len(labels), dtype=object)
    out[:] = labels
    return out
