"""Models trained on parts of the data: they have no dual variables and also take rows on disk."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.datasets.row_store import RowStore

__all__ = ["TrainedInParts"]

_WITH_THE_PARTS = ("support_", "support_vectors_", "dual_coef_", "assignment_")


class TrainedInParts:
    """First base of estimators that also train, predict and score on a ``RowStore``."""

    def __getattr__(self, name: str) -> Any:
        if name in _WITH_THE_PARTS and "n_support_" in vars(self):
            raise AttributeError(
                f"{type(self).__name__} has no {name}: it was trained on parts of the data, whose "
                "dual variables stayed with them; prototypes and intercept_ are the whole model."
            )
        return object.__getattribute__(self, name)  # raises the usual AttributeError

    def predict(self, X: Any) -> np.ndarray:
        """Label of the largest score; the lowest index among equals.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features), or RowStore

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        if isinstance(X, RowStore):
            return np.concatenate([self.predict(rows) for rows, _ in X.blocks()])
        found: np.ndarray = super().predict(X)  # type: ignore[misc]
        return found

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy: the share of examples whose label is predicted.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features), or RowStore
        y : array-like of shape (n_samples,) or None
            None for a ``RowStore``, which has its labels.
        sample_weight : array-like of shape (n_samples,) or None

        Returns
        -------
        float
        """
        if isinstance(X, RowStore):
            right = sum(int((self.predict(rows) == label).sum()) for rows, label in X.blocks())
            return right / X.n_rows
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]
