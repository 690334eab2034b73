"""Validation error against the size of a multi-prototype model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from polymargin.plots.chart import Chart, ChartDisplay, Curve
from polymargin.plots.style import bytes_text

__all__ = ["SizeAccuracyDisplay"]


@dataclass(eq=False)
class SizeAccuracyDisplay(ChartDisplay):
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

    See Also
    --------
    polymargin.MultiPrototypeSVCCV : The search that it draws.

    Examples
    --------
    >>> from polymargin.plots import SizeAccuracyDisplay
    >>> display = SizeAccuracyDisplay.from_estimator(search)  # doctest: +SKIP
    """

    n_prototypes: np.ndarray
    error: np.ndarray
    spread: np.ndarray
    C: np.ndarray
    model_bytes: np.ndarray
    chosen: int

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

    def chart(self) -> Chart:
        """The error in percent over the number of prototypes."""
        percent, best = 100.0 * self.error, slice(self.chosen, self.chosen + 1)
        sizes = zip(self.n_prototypes, self.model_bytes, strict=True)
        return Chart(
            "Validation error (%) by prototypes per class",
            "prototypes per class, size of the model",
            "validation error (%)",
            curves=(
                Curve(
                    self.n_prototypes,
                    percent,
                    "blue",
                    "mean and deviation over folds",
                    spread=100.0 * self.spread,
                ),
                Curve(self.n_prototypes[best], percent[best], "orange", "chosen", style="ring"),
            ),
            x_log=True,
            y_range=(0.0, 1.08 * max(float(np.nanmax(percent + 100.0 * self.spread)), 1e-9)),
            x_ticks=tuple((float(q), f"{q}\n{bytes_text(size)}") for q, size in sizes),
            words="Line chart of the validation error: "
            + "; ".join(
                f"{count} prototypes per class {value:.2f} %"
                for count, value in zip(self.n_prototypes, percent, strict=True)
            ),
            caption="Mean and standard deviation over the folds of the training data, at the best "
            f"C of each size. Chosen: {self.n_prototypes[self.chosen]} prototypes per class.",
        )
