"""Prediction with several prototypes per class, shared by the estimators that have them."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import effective_n_jobs

from polymargin.estimators.base import LargeMarginClassifier
from polymargin.estimators.geometry import geometric_margins, prototype_products
from polymargin.problem.scoring import PrototypeModel, class_maxima, linear_scores

__all__ = ["PrototypeClassifier"]


class PrototypeClassifier(LargeMarginClassifier):
    """Prediction by the highest of all prototype scores."""

    _knows_objects = False

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

    def slacks(self, X: Any, y: Any) -> np.ndarray:
        """What every example lacks to the margin 1, or to its costs, by its best prototype.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_samples,)
            min_r xi_i^r over the prototypes r of the example's class, so that with weights C_i
            ``energy_ = 1/2 sum_r ||M_r||^2 + sum_i C_i xi_i`` on the training examples.
        """
        X = self._check_input(X)
        label = self._class_numbers(X, y)
        scores = self._prototype_scores(X)
        mine = self._prototype_class[None, :] == label[:, None]
        own = np.where(mine, scores, -np.inf).max(axis=1)
        raised = self._raised_scores(scores, label, self._prototype_class)
        rival = np.where(mine, -np.inf, raised).max(axis=1)
        return np.asarray(np.maximum(0.0, 1.0 + rival - own))

    def margins(self, X: Any, y: Any) -> np.ndarray:
        """Geometrical margins between classes (9.1), for examples that are classified correctly.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            For a precomputed kernel the training matrix.
        y : array-like of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_classes, n_classes)
            Entry (k, l) is the smallest distance of an example of classes k and l to the border
            between the prototypes of the two classes that win there; infinite on the diagonal and
            where there is no example.
        """
        X = self._check_input(X)
        label = self._class_numbers(X, y)
        products = prototype_products(self, X)
        return geometric_margins(self._prototype_scores(X), label, self._prototype_class, products)
