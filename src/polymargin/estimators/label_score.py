"""Accuracy on labels of all types that ``fit`` takes."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassifierMixin

from polymargin.problem.plain_labels import plain_labels

__all__ = ["LabelScore"]


class LabelScore(ClassifierMixin):
    """A classifier whose ``score`` reads labels as ``fit`` does."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of right labels.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None

        Returns
        -------
        float
        """
        return float(super().score(X, plain_labels(y), sample_weight))
