"""Methods that explain predictions; the functions behind them also take Pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from polymargin.explanation.contributions import Explanation
    from polymargin.explanation.counterfactuals import Counterfactual

__all__ = ["ExplainedClassifier"]


class ExplainedClassifier:
    """``explain``, ``certified_radius`` and ``counterfactual`` as methods."""

    def explain(self, X: Any, reference: Any = None) -> Explanation:
        """Contributions to the lead of the predicted class, see ``polymargin.explain``.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        reference : array-like of shape (n_features,) or None

        Returns
        -------
        Explanation
        """
        from polymargin.explanation.contributions import explain

        return explain(self, X, reference)

    def certified_radius(self, X: Any, norm: Any = 2, units: str = "input") -> np.ndarray:
        """The radius around each row inside which its label cannot change.

        See ``polymargin.certified_radius``.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        norm : {1, 2, "inf"}, default=2
        units : {"input", "scaled"}, default="input"
            The same without a Pipeline.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        from polymargin.explanation.robustness import certified_radius

        return certified_radius(self, X, norm, units).radius

    def counterfactual(
        self,
        X: Any,
        target: Any = None,
        margin: float | None = None,
        norm: Any = 2,
        fixed: Sequence[Any] = (),
        bounds: Any = None,
        units: str = "input",
    ) -> Counterfactual:
        """The least change that gives rows another label, see ``polymargin.counterfactual``.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        target, margin, norm, fixed, bounds, units
            As in ``polymargin.counterfactual``.

        Returns
        -------
        Counterfactual
        """
        from polymargin.explanation.counterfactuals import counterfactual

        return counterfactual(self, X, target, margin, norm, fixed, bounds, units)
