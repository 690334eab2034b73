"""Calibration: whether labels that are given with 80 % are right in 80 % of the cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.estimators.inspection import labelled
from polymargin.plots.chart import Chart, ChartDisplay, Curve

__all__ = ["CalibrationDisplay"]

_BINS = 10


@dataclass(eq=False)
class CalibrationDisplay(ChartDisplay):
    r"""Share of right labels against the probability that the model gives them.

    Parameters
    ----------
    confidence, accuracy : (k,) mean probability of the predicted label, and share of right labels,
        among the examples of each of ten ranges of that probability that hold any.
    count : (k,) examples in each.
    log_loss : float
        Mean of minus the logarithm of the probability of the true label (unknown labels left out).
    error : float
        Expected calibration error: mean of :math:`|\text{accuracy} - \text{confidence}|` over
        examples.

    See Also
    --------
    RiskCoverageDisplay : What rejecting doubtful rows buys.

    Examples
    --------
    >>> from polymargin.plots import CalibrationDisplay
    >>> display = CalibrationDisplay.from_estimator(model, X, y)  # doctest: +SKIP
    """

    confidence: np.ndarray
    accuracy: np.ndarray
    count: np.ndarray
    log_loss: float
    error: float

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, ax: Any = None) -> CalibrationDisplay:
        """Compute the probabilities of a fitted model and draw their calibration."""
        return cls.record(estimator, X, y).plot(ax)

    @classmethod
    def record(cls, estimator: Any, X: Any, y: Any) -> CalibrationDisplay:
        """The figures alone, nothing drawn."""
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(
                f"estimator: {type(estimator).__name__} has no predict_proba; fit it with "
                "probabilities."
            )
        found = labelled(estimator, X, y)
        return cls.of(np.asarray(estimator.predict_proba(found.X)), found.own)

    @classmethod
    def of(cls, probabilities: np.ndarray, own: np.ndarray) -> CalibrationDisplay:
        """The figures of (n, n_classes) probabilities and class numbers (-1: unknown label)."""
        confidence = probabilities.max(axis=1)
        right = probabilities.argmax(axis=1) == own
        place = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
        count = np.bincount(place, minlength=_BINS)
        seen = count > 0
        sums = [np.bincount(place, values, _BINS)[seen] for values in (confidence, right)]
        mean, accuracy = (total / count[seen] for total in sums)
        known = own >= 0
        given = probabilities[known, own[known]]
        loss = float(-np.log(np.maximum(given, np.finfo(float).tiny)).mean())
        error = float(np.average(np.abs(accuracy - mean), weights=count[seen]))
        return cls(mean, accuracy, count[seen], loss, error)

    def chart(self) -> Chart:
        """Accuracy over confidence in percent, beside the line of perfect calibration."""
        both = np.array([0.0, 100.0])
        return Chart(
            "Calibration",
            "probability of the predicted label (%)",
            "labels that are right (%)",
            curves=(
                Curve(both, both, "grey", "perfect", style="dashed", marks=False),
                Curve(100.0 * self.confidence, 100.0 * self.accuracy, "blue", "this model"),
            ),
            x_range=(0.0, 100.0),
            y_range=(0.0, 104.0),
            words=f"Calibration curve: probabilities are off by {100.0 * self.error:.1f} % in the "
            "mean.",
            caption="Across: probability of the predicted label (%); up: labels that are right "
            "(%). Below the dashed line the model is too sure.",
        )
