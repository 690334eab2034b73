"""A fitted model as a set of prototypes: what explanations are computed from.

Linear and prototype models are f_r(z) = ⟨M_r, z⟩ + b_r on the features z that the classifier sees;
a Gaussian (RBF) model is f_r(z) = sum_i tau_ir kappa(x_i, z) + b_r.  A class scores what its best
prototype does.  Behind scalers z = (x - shift) * scale for the input features x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.estimators.inspection import (
    Parts,
    check_rows,
    dissect,
    input_names,
    model_space,
    prototypes_of,
)
from polymargin.estimators.inspection import feature_names as model_feature_names
from polymargin.estimators.scalers import Scaling, compose_scalers
from polymargin.exceptions import shown
from polymargin.problem.kernels import scaled, squared_norms
from polymargin.problem.scoring import KernelModel, linear_scores

__all__ = ["ModelView", "View", "check_norm_and_units", "dense_rows", "dual_norm", "view_of"]

_NORMS: tuple[Any, ...] = (1, 2, "inf")
_UNITS = ("input", "scaled")
_ADVICE = (
    "Give the features after that step to the classifier at the end of the Pipeline instead "
    "(model[-1] and model[:-1].transform(X))."
)


@dataclass(frozen=True, eq=False)
class ModelView:
    """The prototypes of a fitted model.

    Attributes
    ----------
    parts : Parts
        The model taken apart.
    classes : ndarray of shape (n_classes,)
    owner : ndarray of shape (R,)
        Class number of each prototype.
    weights : ndarray of shape (R, n_features) or None
        Prototypes of a linear model; None for a Gaussian kernel.
    intercept : ndarray of shape (R,)
    landmarks : KernelModel or None
        Scores of a Gaussian model; None for a linear one.
    """

    parts: Parts
    classes: np.ndarray
    owner: np.ndarray
    weights: np.ndarray | None
    intercept: np.ndarray
    landmarks: KernelModel | None

    @property
    def is_linear(self) -> bool:
        return self.weights is not None

    @property
    def has_one_prototype_per_class(self) -> bool:
        return len(self.owner) == len(self.classes)

    def scores(self, Z: Any) -> np.ndarray:
        """(n, R) prototype scores of rows as the classifier sees them."""
        if self.weights is None:
            assert self.landmarks is not None
            return self.landmarks.scores(Z)
        return linear_scores(Z, self.weights, self.intercept)

    def kernel_values(self, Z: Any) -> np.ndarray:
        """(n, n_support) kernel values of rows and support vectors of a Gaussian model."""
        model = self.landmarks
        assert model is not None
        block = scaled(Z, model.factor)
        return np.asarray(
            model.kernel.block(block, model.landmarks, squared_norms(block), model.norms)
        )

    def scaling(self, purpose: str) -> Scaling | None:
        """The scalers in front of the classifier as one map; other steps are refused."""
        steps = [(type(step).__name__, step) for step in self.parts.steps]
        return compose_scalers(steps, purpose, _ADVICE)


@dataclass(frozen=True, eq=False)
class View:
    """Rows under a model: the view, the rows in its space, scores, predicted class numbers."""

    model: ModelView
    Z: Any
    scores: np.ndarray
    predicted: np.ndarray
    input_names: list[str]
    model_names: list[str]

    @property
    def labels(self) -> np.ndarray:
        return np.asarray(self.model.classes[self.predicted])

    def is_own(self) -> np.ndarray:
        """(n, R): whether the prototype belongs to the predicted class."""
        return np.asarray(self.model.owner[None, :] == self.predicted[:, None])


def view_of(model: Any, X: Any, what: str) -> View:
    """Check a model and rows, predict, and score every prototype.

    Parameters
    ----------
    model : classifier, Pipeline or search, fitted
    X : array-like, sparse matrix or frame of shape (n_samples, n_features)
    what : str
        The function that asks, for messages.
    """
    found = _model_view(dissect(model), what)
    X = check_rows(X)
    labels = np.asarray(model.predict(X))  # checks X as every prediction does
    Z = model_space(found.parts, X)
    Z = Z.tocsr() if sp.issparse(Z) else np.asarray(Z, dtype=np.float64)
    names = input_names(model, X)
    seen = model_feature_names(found.parts, names, Z.shape[1])
    predicted = np.searchsorted(found.classes, labels)
    return View(found, Z, found.scores(Z), predicted, names, seen)


def _model_view(parts: Parts, what: str) -> ModelView:
    last = parts.last
    linear = prototypes_of(last)
    if linear is not None:
        W = np.asarray(linear.weights, dtype=np.float64)
        b = np.asarray(linear.intercept, dtype=np.float64)
        return ModelView(parts, last.classes_, linear.owner, W, b, None)
    kernel = getattr(last, "_kernel", None)
    if kernel is None:
        raise ValueError(
            f"model: {what} needs a linear, prototype or RBF model of polymargin (or another "
            f"linear model with one row of coef_ per class), got {type(last).__name__}."
        )
    if kernel.name != "rbf":
        raise ValueError(
            f"model: {what} is not available for kernel={kernel.name!r}: contributions and radii "
            "are exact for linear and prototype models and certified for kernel='rbf' only, whose "
            "feature space has a known distance; train with one of these."
        )
    owner = getattr(last, "_prototype_class", np.arange(len(last.classes_)))
    return ModelView(
        parts, last.classes_, np.asarray(owner), None, last.intercept_, last._landmark_model()
    )


def dual_norm(rows: np.ndarray, norm: Any) -> np.ndarray:
    """Norms of rows by which |⟨row, d⟩| <= dual norm * norm of d."""
    if norm == 2:
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)))
    if norm == 1:
        return np.asarray(np.abs(rows).max(axis=1, initial=0.0))
    return np.asarray(np.abs(rows).sum(axis=1))


def check_norm_and_units(norm: Any, units: Any) -> Any:
    """Refuse unknown norms and units; ``np.inf`` is "inf"."""
    if isinstance(norm, float) and np.isinf(norm):
        norm = "inf"
    if isinstance(norm, bool) or norm not in _NORMS:
        raise ValueError(f"norm must be 1, 2 or 'inf', got {shown(norm)}.")
    if not isinstance(units, str) or units not in _UNITS:
        raise ValueError(
            f"units must be 'input' (those of X) or 'scaled' (after the scalers of the Pipeline), "
            f"got {shown(units)}."
        )
    return norm


def dense_rows(X: Any) -> np.ndarray:
    """All of X as a dense float array."""
    if sp.issparse(X):
        return np.asarray(X.toarray(), dtype=np.float64)
    return np.array(X.to_numpy() if hasattr(X, "to_numpy") else X, dtype=np.float64)
