"""Which of two models is better on validation rows: by the rows on which they differ."""

from __future__ import annotations

import numpy as np

__all__ = ["is_clearly_better", "validation_folds", "validation_parts"]

_FOLDS = 3
_PARTS = 4  # of many rows, of which one validates


def is_clearly_better(
    wrong: np.ndarray, than: np.ndarray, weight: np.ndarray | None, clearly: float
) -> bool:
    """Whether errors fell by ``clearly`` times their noise, the root of the number that changed.

    Rows that both get right, or both wrong, do not count.  A model that corrects f errors and makes
    w new ones is better by f - w, plus or minus the root of f + w.

    Parameters
    ----------
    wrong, than : ndarray of bool of shape (m,)
        Errors of the challenger and of the model that stands.
    weight : ndarray of shape (m,) or None
    clearly : float
    """
    change = than.astype(np.float64) - wrong
    if weight is not None:
        change *= weight
    gain = float(change.sum())
    return gain > 0.0 and gain >= clearly * float(np.sqrt((change**2).sum()))


def validation_folds(label: np.ndarray, n_folds: int, seed: int) -> list[np.ndarray]:
    """Validation rows of each fold: as many of each class as its share, at least one in the first.

    A class of one row has it in no fold: it is always trained on.
    """
    rng = np.random.default_rng(seed)
    fold = np.full(len(label), -1)
    start = 0
    for c in range(int(label.max()) + 1):
        rows = rng.permutation(np.flatnonzero(label == c))
        if len(rows) < 2:
            continue
        first = start if len(rows) >= n_folds else 0
        fold[rows] = (first + np.arange(len(rows))) % n_folds
        start = (first + len(rows)) % n_folds
    return [np.flatnonzero(fold == k) for k in range(n_folds)]


def validation_parts(label: np.ndarray, most_folded: int, seed: int) -> list[np.ndarray]:
    """Validation rows of three folds; of more than ``most_folded`` rows a quarter, once."""
    if len(label) > most_folded:
        return validation_folds(label, _PARTS, seed)[:1]
    return [test for test in validation_folds(label, _FOLDS, seed) if len(test)]
