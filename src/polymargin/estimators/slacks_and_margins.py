"""Slacks and geometrical margins of machines that have one score per class."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from polymargin.estimators.base import LargeMarginClassifier
from polymargin.estimators.geometry import geometric_margins, prototype_products
from polymargin.problem.machines import Machine, find_machine
from polymargin.problem.scoring import two_columns

__all__ = ["SlacksAndMargins"]


class SlacksAndMargins(LargeMarginClassifier):
    """``slacks`` and ``margins`` of ``MulticlassSVC``."""

    machine: str | Machine
    _prototype_gram: np.ndarray

    def _labelled_scores(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """(n, n_classes) scores of sum zero, or with their differences right, and class numbers."""
        X = self._check_input(X)
        label = self._class_numbers(X, y)
        return two_columns(self._class_scores(X)), label

    def slacks(self, X: Any, y: Any) -> np.ndarray:
        r"""What every example lacks to the margins that the machine asks for.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) where a pattern has one slack
            :math:`\xi_{ik}`; machines without a constraint for the own class have zeros there.
            Those of "msvm2" are the cheapest ones and may be negative.
        """
        check_is_fitted(self)
        scores, own = self._labelled_scores(X, y)
        return find_machine(self.machine).slacks(self._raised_scores(scores, own), own)

    def margins(self, X: Any, y: Any) -> np.ndarray:
        r"""Geometrical margins between classes (9.1), for examples that are classified correctly.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_classes, n_classes)
            Entry (k, l) is the smallest :math:`|h_k - h_l|` over the examples of classes k and l,
            divided by :math:`\|w_k - w_l\|` in the feature space (a penalised intercept's
            constant not counted); infinite on the diagonal and where there is no example.
        """
        check_is_fitted(self)
        scores, own = self._labelled_scores(X, y)
        if self._kernel.name == "precomputed":  # X may be rows of any examples
            products = 0.5 * (self._prototype_gram + self._prototype_gram.T)
        else:
            products = prototype_products(self, X)
        return geometric_margins(scores, own, np.arange(len(self.classes_)), products)
