"""The risk-coverage curve: share of wrong answers as a function of the share of rows answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.estimators.inspection import check_rows, class_scores, encode_labels
from polymargin.problem.encoding import sample_weights
from polymargin.problem.validation import check_number

__all__ = ["RiskCoverage", "risk_coverage"]


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """Share of rows answered and share of wrong answers, from most to least certain.

    Entry i: the rows whose lead is above ``margin[i]`` are answered, the others rejected
    (``predict_or_reject(X, margin[i])``).  Rows of equal lead are answered together.

    Attributes
    ----------
    margin : ndarray of shape (n_points,)
        Falling.
    coverage : ndarray of shape (n_points,)
        Share of rows that are answered, growing to 1.
    risk : ndarray of shape (n_points,)
        Share of wrong labels among them.
    area : float
        Mean risk over all coverages, 0 for a model that is only wrong about what it rejects first.

    See Also
    --------
    polymargin.risk_coverage : Makes it.
    polymargin.plots.RiskCoverageDisplay : Draws it.
    """

    margin: np.ndarray
    coverage: np.ndarray
    risk: np.ndarray
    area: float

    def margin_for_risk(self, risk: float) -> float:
        """The smallest margin at which the share of wrong answers is at most ``risk``.

        Infinite (reject all) where no margin reaches it.

        Parameters
        ----------
        risk : float in [0, 1]
        """
        check_number("risk", risk, at_least=0.0)
        good = np.flatnonzero(self.risk <= risk)
        return float(self.margin[good[-1]]) if len(good) else np.inf

    def margin_for_coverage(self, coverage: float) -> float:
        """The largest margin at which at least a share ``coverage`` of the rows is answered.

        Parameters
        ----------
        coverage : float in [0, 1]
        """
        check_number("coverage", coverage, at_least=0.0)
        enough = np.flatnonzero(self.coverage >= min(coverage, 1.0) - 1e-12)
        return float(self.margin[enough[0]]) if len(enough) else 0.0


def risk_coverage(model: Any, X: Any, y: Any, sample_weight: Any = None) -> RiskCoverage:
    """Risk-coverage curve of a fitted model on labelled rows, by the lead of the best class.

    Parameters
    ----------
    model : classifier, Pipeline or search, fitted
        With a ``decision_function``.
    X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        Rows that were not used in training.
    y : array-like of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,) or None

    Returns
    -------
    RiskCoverage

    See Also
    --------
    predict_set : Sets of labels, with a guarantee for new rows.
    plots.RiskCoverageDisplay : Draws the curve.
    selection.risk_coverage.RiskCoverage : What it returns.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, risk_coverage
    >>> X, y = load_iris(return_X_y=True)
    >>> curve = risk_coverage(MulticlassSVC(random_state=0).fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> float(curve.coverage[-1])
    1.0
    """
    X = check_rows(X, y)
    scores = class_scores(model, X)
    own = encode_labels(np.asarray(model.classes_), y)
    weight = sample_weights(sample_weight, own)
    if not weight.sum() > 0.0:
        raise ValueError("sample_weight must have a positive sum.")
    top = np.partition(scores, -2, axis=1)[:, -2:]
    lead = top[:, 1] - top[:, 0]
    wrong = scores.argmax(axis=1) != own
    order = np.argsort(-lead, kind="stable")
    answered = np.cumsum(weight[order])
    errors = np.cumsum((weight * wrong)[order])
    level = lead[order]
    last = np.flatnonzero(np.append(level[1:] != level[:-1], True) & (answered > 0.0))
    coverage, risk = answered[last] / answered[-1], errors[last] / answered[last]
    # rows of this lead are answered by any margin below it: the next smaller lead, 0 at the end
    margin = np.append(level[last[1:]], 0.0) if len(last) else np.zeros(0)
    area = float(np.diff(coverage, prepend=0.0) @ risk)
    return RiskCoverage(margin, coverage, risk, area)
