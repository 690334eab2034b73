"""What a validation example costs under each objective, one number per example.

Two machines are compared on the same examples, so that their difference has a standard error of its
own, which is much smaller than that of each.  Balanced accuracy is accuracy with weights: every
example counts by the inverse of the size of its class.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from polymargin.problem.scoring import two_columns

__all__ = [
    "OBJECTIVES",
    "class_scores_of",
    "example_losses",
    "fit_temperature",
    "mean_and_error",
    "objective_weights",
    "probabilities",
]

OBJECTIVES = ("accuracy", "balanced_accuracy", "log_loss")

_LEAST_LOG = float(np.log(1e-6))  # log-probability of a label that the training part did not have


def objective_weights(objective: str, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """How much every example counts in the mean loss."""
    w = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
    if objective != "balanced_accuracy":
        return w
    of_class = np.bincount(y, weights=w)
    return np.asarray(w / of_class[y] * w.sum() / np.count_nonzero(of_class))


def class_scores_of(model: Any, X: Any, classes: np.ndarray) -> np.ndarray:
    """(n, n_classes) scores in the order of ``classes``; -inf for those the model never saw."""
    known = two_columns(model.decision_function(X))
    scores = np.full((len(known), len(classes)), -np.inf)
    scores[:, np.searchsorted(classes, model.classes_)] = known
    return scores


def example_losses(
    objective: str, scores: np.ndarray, y: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Loss of every example: 1 for a wrong label, or minus the log of its probability.

    Scores become probabilities by a temperature that is fitted to the other half of the examples.
    """
    if objective != "log_loss":
        return (scores.argmax(axis=1) != y).astype(np.float64)
    losses = np.empty(len(y))
    halves = (np.arange(len(y)) % 2).astype(bool)
    for part in (halves, ~halves):
        temperature = fit_temperature(scores[~part], y[~part], weight[~part])
        losses[part] = _log_losses(scores[part], y[part], temperature)
    return losses


def _log_losses(scores: np.ndarray, y: np.ndarray, temperature: float) -> np.ndarray:
    logs = log_softmax(scores / temperature, axis=1)[np.arange(len(y)), y]
    return -np.maximum(logs, _LEAST_LOG)


def fit_temperature(scores: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    """The T > 0 of least log loss of softmax(scores / T)."""
    if not len(y):
        return 1.0
    finite = np.abs(scores[np.isfinite(scores)])
    unit = float(finite.mean()) if finite.size and finite.any() else 1.0

    def loss(log_t: float) -> float:
        return float(weight @ _log_losses(scores, y, unit * np.exp(log_t)))

    found = minimize_scalar(loss, bounds=(-6.0, 6.0), method="bounded", options={"xatol": 1e-2})
    return float(unit * np.exp(found.x))


def probabilities(scores: np.ndarray, temperature: float) -> np.ndarray:
    """softmax(scores / T)."""
    return np.asarray(np.exp(log_softmax(scores / temperature, axis=1)))


def mean_and_error(loss: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Weighted mean and its standard error."""
    total = float(weight.sum())
    if total <= 0.0:
        return float("nan"), float("nan")
    exponent = -int(np.frexp(total)[1])  # a power of two: squares of large weights overflow
    weight, total = np.ldexp(weight, exponent), float(np.ldexp(total, exponent))
    mean = float(weight @ loss) / total
    return mean, float(np.sqrt(np.sum((weight * (loss - mean)) ** 2))) / total
