"""Prototypes of tabular data in words: where each differs most from its runner-up.

Two prototypes r and s of different classes meet at the border ⟨w_r - w_s, z⟩ + b_r - b_s = 0, so
the weights that decide between them are those of the difference.  The runner-up of a prototype is
the prototype of another class that comes closest to it: the one with the highest mean score on the
examples that r wins, or without examples the one with the shortest difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.estimators.inspection import (
    dissect,
    feature_names,
    input_names,
    model_space,
    prototypes_of,
)
from polymargin.exceptions import shown
from polymargin.problem.scoring import linear_scores

__all__ = ["PrototypeTable", "prototype_table"]


@dataclass(frozen=True, eq=False)
class PrototypeTable:
    """One row per prototype.

    Attributes
    ----------
    label, rival_label : list
        Class of the prototype and of its runner-up.
    prototype, rival : ndarray of shape (R,)
        Their numbers.
    wins : ndarray of shape (R,) or None
        Examples that the prototype wins, where examples were given.
    features : list of list of str
        Names of the features that weigh most, the largest first.
    weights : list of ndarray
        Their weights in :math:`w_r - w_s`: positive speaks for the prototype.

    See Also
    --------
    polymargin.prototype_table : Makes it.
    """

    label: list[Any]
    rival_label: list[Any]
    prototype: np.ndarray
    rival: np.ndarray
    wins: np.ndarray | None
    features: list[list[str]]
    weights: list[np.ndarray]

    def __str__(self) -> str:
        lines = []
        for k in range(len(self.prototype)):
            terms = ", ".join(
                f"{name} {weight:+.3g}"
                for name, weight in zip(self.features[k], self.weights[k], strict=True)
            )
            wins = "" if self.wins is None else f" ({self.wins[k]} examples)"
            lines.append(
                f"{self.label[k]} #{self.prototype[k]}{wins} against {self.rival_label[k]} "
                f"#{self.rival[k]}: {terms}"
            )
        return "\n".join(lines)


def prototype_table(model: Any, X: Any = None, top: int = 5, names: Any = None) -> PrototypeTable:
    """The largest weights of every prototype against its runner-up.

    Parameters
    ----------
    model : fitted linear or multi-prototype model, or a Pipeline or search around one
        Weights are those of the features that the classifier sees: behind a scaler one unit is one
        spread.
    X : array-like of shape (n_samples, n_features) or None
        Examples, by which runners-up are found, wins counted, and weights ranked by the spread of
        their features.
    top : int, default=5
        Features of each prototype.
    names : sequence of str or None
        Names of the input features; by default those the model knows.

    Returns
    -------
    PrototypeTable

    See Also
    --------
    explain : The same question for a row.
    plots.PrototypeImagesDisplay : Prototypes of images.
    explanation.prototype_table.PrototypeTable : What it returns.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MultiPrototypeSVC, prototype_table
    >>> data = load_iris()
    >>> model = MultiPrototypeSVC(1, random_state=0).fit(data.data, data.target)
    >>> table = prototype_table(model, data.data, top=2, names=data.feature_names)
    >>> table.features[0][0]
    'petal length (cm)'
    """
    if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
        raise ValueError(f"top must be an integer >= 1, got {shown(top)}.")
    parts = dissect(model)
    found = prototypes_of(parts.last)
    if found is None:
        raise ValueError(
            "model: a kernel machine has no prototypes with weights; use kernel='linear'."
        )
    W, b, owner = found.weights, found.intercept, found.owner
    classes = parts.last.classes_
    spread = np.ones(W.shape[1])
    wins = None
    if X is None:
        far = ((W[:, None, :] - W[None, :, :]) ** 2).sum(axis=2)
        closeness = -far
    else:
        Z = model_space(parts, X)
        scores = linear_scores(Z, W, b)
        winner = scores.argmax(axis=1)
        wins = np.bincount(winner, minlength=len(W))
        means = np.zeros((len(W), len(W)))
        np.add.at(means, winner, scores)
        closeness = means / np.maximum(wins, 1)[:, None]
        dense = Z.toarray() if hasattr(Z, "toarray") else np.asarray(Z, dtype=np.float64)
        spread = dense.std(axis=0)
    closeness[owner[:, None] == owner[None, :]] = -np.inf
    rival = closeness.argmax(axis=1)
    difference = W - W[rival]
    order = np.argsort(-np.abs(difference * spread), axis=1, kind="stable")[:, :top]
    width = int(getattr(model, "n_features_in_", None) or W.shape[1])
    words = feature_names(parts, input_names(model, X, names, width), W.shape[1])
    return PrototypeTable(
        label=classes[owner].tolist(),
        rival_label=classes[owner[rival]].tolist(),
        prototype=np.arange(len(W)),
        rival=rival,
        wins=wins,
        features=[[words[j] for j in row] for row in order],
        weights=[difference[r, row] for r, row in enumerate(order)],
    )
