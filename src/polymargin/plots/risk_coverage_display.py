"""Risk against coverage: what rejecting doubtful examples buys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.estimators.inspection import labelled
from polymargin.plots.chart import Chart, ChartDisplay, Curve

__all__ = ["RiskCoverageDisplay"]


@dataclass(eq=False)
class RiskCoverageDisplay(ChartDisplay):
    """The share of wrong labels among the examples that the model is surest of.

    An example is answered where the best score leads the second best by at least ``threshold``,
    else rejected.  Coverage is the share of examples answered, risk the share of errors among them.

    Parameters
    ----------
    threshold : (k,) smallest leads that are answered, from all rejected but the surest to none.
    coverage, risk : (k,) shares at each of them.
    n : int
        Number of examples.

    See Also
    --------
    polymargin.risk_coverage : The curve as numbers.
    CalibrationDisplay : Whether probabilities can be believed.

    Examples
    --------
    >>> from polymargin.plots import RiskCoverageDisplay
    >>> display = RiskCoverageDisplay.from_estimator(model, X, y)  # doctest: +SKIP
    """

    threshold: np.ndarray
    coverage: np.ndarray
    risk: np.ndarray
    n: int

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, ax: Any = None) -> RiskCoverageDisplay:
        """Score examples with a fitted model and draw the curve."""
        return cls.record(estimator, X, y).plot(ax)

    @classmethod
    def record(cls, estimator: Any, X: Any, y: Any) -> RiskCoverageDisplay:
        """The figures alone, nothing drawn."""
        found = labelled(estimator, X, y)
        if found.scores is None:
            raise TypeError(
                f"estimator: {type(estimator).__name__} has no decision_function, so no leads."
            )
        return cls.of(found.scores, found.predicted == found.y)

    @classmethod
    def of(cls, scores: np.ndarray, right: np.ndarray) -> RiskCoverageDisplay:
        """The curve of (n, n_classes) scores and whether each label is right."""
        top = np.partition(scores, -2, axis=1)[:, -2:]
        lead = top[:, 1] - top[:, 0]
        order = np.argsort(-lead, kind="stable")
        lead = lead[order]
        wrong = np.cumsum(~np.asarray(right, dtype=bool)[order])
        last = np.flatnonzero(np.append(lead[1:] < lead[:-1], True))  # equal leads go together
        n = len(lead)
        return cls(lead[last], (last + 1) / n, wrong[last] / (last + 1), n)

    def thinned(self, most: int) -> RiskCoverageDisplay:
        """At most so many points, evenly spread over the coverage, the last among them."""
        at = np.searchsorted(self.coverage, np.linspace(0.0, 1.0, most) - 1e-12)
        at = np.unique(np.minimum(at, len(self.coverage) - 1))
        return type(self)(self.threshold[at], self.coverage[at], self.risk[at], self.n)

    def chart(self) -> Chart:
        """Risk in percent over coverage in percent."""
        risk = 100.0 * self.risk
        return Chart(
            "Risk and coverage",
            "examples answered (%)",
            "answers that are wrong (%)",
            curves=(Curve(100.0 * self.coverage, risk, "blue", style="steps", marks=False),),
            x_range=(0.0, 100.0),
            y_range=(0.0, 1.08 * float(risk.max(initial=0.0)) or 1.0),
            words=f"Curve: {risk[-1]:.2f} % of all answers are wrong; of the surer half of the "
            f"examples {risk[np.searchsorted(self.coverage, 0.5 - 1e-12)]:.2f} %.",
            caption="Across: examples answered (%); up: answers that are wrong (%).",
        )
