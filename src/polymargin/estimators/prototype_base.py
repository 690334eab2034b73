"""Prediction with several prototypes per class, shared by the estimators that have them."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import effective_n_jobs

from polymargin.estimators.base import LargeMarginClassifier
from polymargin.estimators.geometry import geometric_margins, prototype_products
from polymargin.problem.kernels import EACH
from polymargin.problem.own_kernel_lists import list_scores
from polymargin.problem.scoring import PrototypeModel, check_finite, class_maxima, linear_scores

__all__ = ["OPPOSITE_PROTOTYPE", "PrototypeClassifier"]

OPPOSITE_PROTOTYPE = "_opposite_prototype"
"""Name under which files keep w_2 of two classes with w_1 = -w_2, in place of both."""


class PrototypeClassifier(LargeMarginClassifier):
    """Prediction by the highest of all prototype scores."""

    _knows_objects = False
    _knows_kernel_lists = True

    _prototype_class: np.ndarray
    prototypes_: np.ndarray
    intercept_: np.ndarray
    dual_coef_: np.ndarray
    support_vectors_: Any
    prototype_classes_: np.ndarray

    def __getstate__(self) -> dict[str, Any]:
        """The state for files and pickles: w_2 alone where w_1 = -w_2 (two classes)."""
        state = dict(super().__getstate__())
        W = state.get("prototypes_")
        if W is not None and len(W) == 2 and np.array_equal(W[0], -W[1]):
            state[OPPOSITE_PROTOTYPE] = state.pop("prototypes_")[1]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        if OPPOSITE_PROTOTYPE in state:
            second = state.pop(OPPOSITE_PROTOTYPE)
            state["prototypes_"] = np.stack([0.0 - second, second])
        super().__setstate__(state)

    def _prototype_scores(self, X: Any) -> np.ndarray:
        if self._kernel.name == EACH:
            return list_scores(
                self._kernel,
                self.support_vectors_,
                self.dual_coef_,
                self.intercept_,
                self._prototype_class,
                X,
                effective_n_jobs(self.n_jobs),
            )
        if self._kernel.is_linear:
            n_jobs = effective_n_jobs(self.n_jobs)
            return linear_scores(X, self.prototypes_, self.intercept_, n_jobs)
        return self._landmark_model().scores(X, np.float64, effective_n_jobs(self.n_jobs))

    def _class_scores(self, X: Any) -> np.ndarray:
        return class_maxima(self._prototype_scores(X), self._prototype_class)

    def _winners(self, X: Any) -> np.ndarray:
        if self._kernel.name == EACH:
            return np.asarray(check_finite(self._prototype_scores(X)).argmax(axis=1))
        if self._kernel.is_linear:
            return PrototypeModel(self.prototypes_, self.intercept_).argmax(X)
        return self._landmark_model().argmax(X, effective_n_jobs(self.n_jobs))

    def prototype_scores(self, X: Any) -> np.ndarray:
        """Scores :math:`f_r(x)` of every prototype in float64.

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
        r"""What every example lacks to the margin 1, or to its costs, by its best prototype.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_samples,)
            :math:`\xi_i = \min_r \xi_i^r` over the prototypes r of the example's class, so that on
            the training examples, with weights :math:`C_i`, ``energy_`` is
            :math:`\tfrac12 \sum_r \|M_r\|^2 + \sum_i C_i\, \xi_i`.
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
