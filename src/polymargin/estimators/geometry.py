"""Distances to the borders between classes, in the feature space of a fitted machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.problem.problem import row_blocks

__all__ = ["class_winners", "geometric_margins", "prototype_products", "squared_distances"]


def prototype_products(model: Any, X: Any) -> np.ndarray:
    """⟨M_r, M_s⟩ without intercepts, from prototypes or from kernel values of the support.

    Parameters
    ----------
    model : fitted MulticlassSVC, MultiPrototypeSVC or ConvexHullSVC
    X : array
        The training matrix, read for a precomputed kernel only.
    """
    if model._kernel.is_linear:
        G = _linear_products(model)
    elif model._kernel.name == "precomputed":
        K = np.asarray(X, dtype=np.float64)
        support, tau = model.support_, model.dual_coef_
        if K.shape[0] != K.shape[1]:
            raise ValueError(
                "X must be the square kernel matrix of the training examples: norms of the "
                "prototypes are computed from it."
            )
        blocks = row_blocks(len(support), 512)  # none where no pattern has weight
        G = sum(
            (tau[rows].T @ (K[np.ix_(support[rows], support)] @ tau) for rows in blocks),
            start=np.zeros((tau.shape[1], tau.shape[1])),
        )
    else:
        plain = model._landmark_model()
        scores = plain.scores(model.support_vectors_, np.float64, 1) - model.intercept_
        G = model.dual_coef_.T @ scores
    return np.asarray(0.5 * (G + G.T))


def _linear_products(model: Any) -> np.ndarray:
    if hasattr(model, "coef_"):
        W = model.coef_
        if len(W) == 1:  # two classes: the difference is stored
            W = np.concatenate([-0.5 * W, 0.5 * W])
    else:
        W = model.prototypes_
    return np.asarray(W @ W.T)


def squared_distances(G: np.ndarray) -> np.ndarray:
    """||M_r - M_s||^2 from inner products."""
    diagonal = np.diag(G)
    return np.maximum(diagonal[:, None] + diagonal[None, :] - G - G.T, 0.0)


def class_winners(
    scores: np.ndarray, prototype_class: np.ndarray, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Per example and class: the best prototype's number and its score."""
    n = len(scores)
    number = np.zeros((n, n_classes), dtype=np.int64)
    best = np.full((n, n_classes), -np.inf)
    for c in range(n_classes):
        mine = np.flatnonzero(prototype_class == c)
        number[:, c] = mine[scores[:, mine].argmax(axis=1)]
        best[:, c] = scores[np.arange(n), number[:, c]]
    return number, best


def geometric_margins(
    scores: np.ndarray, label: np.ndarray, prototype_class: np.ndarray, products: np.ndarray
) -> np.ndarray:
    """(Q, Q) smallest distance of an example of classes k or l to the border between them (9.1).

    The border of an example is the one between the winning prototypes of the two classes.  Examples
    that are not classified correctly are refused.
    """
    Q = int(prototype_class[-1]) + 1
    number, best = class_winners(scores, prototype_class, Q)
    rows = np.arange(len(label))
    lead = best[rows, label][:, None] - best
    lead[rows, label] = np.inf
    wrong = int((lead.min(axis=1) <= 0.0).sum())
    if wrong:
        raise ValueError(
            f"y: {wrong} of {len(label)} examples are not classified correctly, so X and y have "
            "no geometrical margins under this model; leave them out."
        )
    apart = np.sqrt(squared_distances(products))
    here = apart[number[rows, label][:, None], number]
    with np.errstate(divide="ignore", invalid="ignore"):
        distances = lead / here
    distances[rows, label] = np.inf
    smallest = np.full((Q, Q), np.inf)
    for k in range(Q):
        if (label == k).any():
            smallest[k] = distances[label == k].min(axis=0)
    return np.minimum(smallest, smallest.T)
