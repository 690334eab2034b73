"""The sufficient condition of AD-SVM for a training set without errors, and its violations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polymargin.problem.problem import row_blocks
from polymargin.problem.scoring import KernelModel

__all__ = ["HullSeparability", "hull_separability"]


@dataclass(frozen=True)
class HullSeparability:
    r"""Whether every example is nearer, in direction, to all of its class than to any other.

    Attributes
    ----------
    gaps : (n,)
        For every example the smallest :math:`\langle x_s - c, x_i - c\rangle` over its own class
        minus the largest one over the other classes, in the feature space; the condition asks for
        positive ones.
    violating : (k,)
        Examples whose gap is not positive.
    per_class : dict
        Label to the number of its violating examples.
    holds : bool
        Where True, every training example is classified correctly, whatever the weights of the
        hulls.  Where False, it may still be.

    See Also
    --------
    polymargin.ConvexHullSVC : The machine that needs it.
    """

    gaps: np.ndarray
    violating: np.ndarray
    per_class: dict[Any, int]
    holds: bool

    def __str__(self) -> str:
        if self.holds:
            return (
                "the separability condition holds: every training example is classified correctly"
            )
        worst = sorted(self.per_class.items(), key=lambda item: -item[1])
        classes = ", ".join(f"{label}: {count}" for label, count in worst if count)
        return (
            f"the separability condition is violated by {len(self.violating)} of "
            f"{len(self.gaps)} examples (by class {classes}); training errors are possible"
        )


def hull_separability(model: Any, X: Any, label: np.ndarray) -> HullSeparability:
    """Check (11) of Ñanculef et al., corrected (erratum AD-5), for a fitted model.

    Parameters
    ----------
    model : ConvexHullSVC
    X : validated rows; the training matrix for a precomputed kernel.
    label : (n,) class numbers.

    Notes
    -----
    For one example i the terms ⟨c, x_i⟩ and ⟨c, c⟩ are the same for every s, so that
    kappa(x_s, x_i) - ⟨c, x_s⟩ is compared.
    """
    n, Q = len(label), len(model.classes_)
    u = model.weights_[model.support_]
    kernel = replace(model._kernel, offset=0.0)
    precomputed = kernel.name == "precomputed"
    landmarks = model.support_ if precomputed else model.support_vectors_
    centre = KernelModel(kernel, landmarks, u[:, None] / Q, np.zeros(1)).scores(X)[:, 0]
    gaps = np.empty(n)
    for rows in row_blocks(n, max(16, 1_000_000 // max(n, 1))):
        block = np.arange(n)[rows]
        # values of all s (columns are the examples of the block)
        unit = np.eye(len(block))
        points = block if precomputed else X[rows]
        values = KernelModel(kernel, points, unit, np.zeros(len(block))).scores(X)
        values -= centre[:, None]
        own = label[:, None] == label[block][None, :]
        nearest = np.where(own, values, np.inf).min(axis=0)
        gaps[rows] = nearest - np.where(own, -np.inf, values).max(axis=0)
    violating = np.flatnonzero(~(gaps > 0.0))
    counts = np.bincount(label[violating], minlength=Q)
    per_class = {
        name: int(count) for name, count in zip(model.classes_.tolist(), counts, strict=True)
    }
    return HullSeparability(gaps, violating, per_class, len(violating) == 0)
