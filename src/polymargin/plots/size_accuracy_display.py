"""Validation error against the size of a multi-prototype model."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from polymargin.plots.style import BLUE, ORANGE, axes_of

__all__ = ["SizeAccuracyDisplay"]


class SizeAccuracyDisplay:
    """Validation error against the size of the model: what another prototype buys.

    Parameters
    ----------
    n_prototypes : (k,) prototypes per class.
    error, spread : (k,) mean and standard deviation over folds of the share of wrong labels, at
        the best C of each size.
    C : (k,) that C.
    model_bytes : (k,) size of the model in float32.
    chosen : int
        Place of the size that was chosen.

    Examples
    --------
    >>> from polymargin.plots import SizeAccuracyDisplay
    >>> display = SizeAccuracyDisplay.from_estimator(search)  # doctest: +SKIP
    """

    def __init__(
        self,
        n_prototypes: np.ndarray,
        error: np.ndarray,
        spread: np.ndarray,
        C: np.ndarray,
        model_bytes: np.ndarray,
        chosen: int,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.error = error
        self.spread = spread
        self.C = C
        self.model_bytes = model_bytes
        self.chosen = chosen

    @classmethod
    def from_estimator(cls, estimator: Any, ax: Any = None) -> SizeAccuracyDisplay:
        """Draw the curve of a fitted ``MultiPrototypeSVCCV``."""
        return cls.record(estimator).plot(ax)

    @classmethod
    def record(cls, estimator: Any) -> SizeAccuracyDisplay:
        """The figures alone, nothing drawn."""
        check_is_fitted(estimator, "results_")
        results = estimator.results_
        sizes = np.unique(results["n_prototypes"])
        best = []
        for size in sizes:
            at = np.flatnonzero(results["n_prototypes"] == size)
            error = np.where(np.isnan(results["error"][at]), np.inf, results["error"][at])
            best.append(at[error.argmin()])
        names = ("error", "spread", "C", "model_bytes")
        columns = {name: results[name][best] for name in names}
        chosen = int(np.searchsorted(sizes, estimator.n_prototypes_))
        return cls(sizes, chosen=chosen, **columns)

    def plot(self, ax: Any = None) -> SizeAccuracyDisplay:
        """Draw into ``ax`` (new axes if None); ``ax_`` and ``figure_`` hold them."""
        ax = axes_of(ax)
        percent, spread = 100.0 * self.error, 100.0 * self.spread
        ax.errorbar(
            self.n_prototypes,
            percent,
            yerr=spread,
            color=BLUE,
            marker="o",
            capsize=3,
            label="mean and deviation over folds",
        )
        ax.plot(
            self.n_prototypes[self.chosen],
            percent[self.chosen],
            linestyle="none",
            marker="D",
            markersize=10,
            markerfacecolor="none",
            markeredgewidth=2,
            color=ORANGE,
            label="chosen",
        )
        ax.set_xscale("log")
        labels = [
            f"{q}\n{_bytes(size)}"
            for q, size in zip(self.n_prototypes, self.model_bytes, strict=True)
        ]
        ax.set_xticks(self.n_prototypes, labels)
        ax.minorticks_off()
        ax.set_xlabel("prototypes per class, size of the model")
        ax.set_ylabel("validation error (%)")
        ax.set_ylim(bottom=0.0)
        ax.grid(alpha=0.3)
        ax.legend(frameon=False)
        self.ax_ = ax
        self.figure_ = ax.figure
        return self


def _bytes(size: float) -> str:
    if not np.isfinite(size):
        return "-"
    return f"{size / 1000:.3g} kB" if size < 1e6 else f"{size / 1e6:.3g} MB"
