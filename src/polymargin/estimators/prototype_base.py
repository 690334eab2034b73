"""Prediction with several prototypes per class, shared by the estimators that have them."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import effective_n_jobs

from polymargin.estimators.base import LargeMarginClassifier
from polymargin.problem.scoring import PrototypeModel, class_maxima, linear_scores

__all__ = ["PrototypeClassifier"]


class PrototypeClassifier(LargeMarginClassifier):
    """Prediction by the highest of all prototype scores."""

    _prototype_class: np.ndarray
    prototypes_: np.ndarray
    intercept_: np.ndarray
    prototype_classes_: np.ndarray

    def _prototype_scores(self, X: Any) -> np.ndarray:
        if self._kernel.is_linear:
            n_jobs = effective_n_jobs(self.n_jobs)
            return linear_scores(X, self.prototypes_, self.intercept_, n_jobs)
        return self._landmark_model().scores(X, np.float64, effective_n_jobs(self.n_jobs))

    def _class_scores(self, X: Any) -> np.ndarray:
        return class_maxima(self._prototype_scores(X), self._prototype_class)

    def _winners(self, X: Any) -> np.ndarray:
        if self._kernel.is_linear:
            return PrototypeModel(self.prototypes_, self.intercept_).argmax(X)
        return self._landmark_model().argmax(X, effective_n_jobs(self.n_jobs))

    def prototype_scores(self, X: Any) -> np.ndarray:
        """Scores f_r(x) of every prototype in float64.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, R)
        """
        return self._prototype_scores(self._check_input(X))

    def nearest_prototype(self, X: Any) -> np.ndarray:
        """The prototype that wins each example: the highest score, the lowest number among equals.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._winners(self._check_input(X))

    def predict(self, X: Any) -> np.ndarray:
        """Label of the winning prototype.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        winner = self.nearest_prototype(X)
        return self.prototype_classes_[winner]
