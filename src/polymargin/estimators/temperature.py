"""Probabilities from scores: the softmax with one temperature, fitted on out-of-fold scores.

    p_k(x) = exp(f_k(x) / T) / sum_l exp(f_l(x) / T),   T > 0

One T for all classes: the order of the scores, and with it the label, never changes.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

__all__ = ["expected_calibration_error", "fit_temperature", "log_loss_of", "log_softmax"]

# Range of 1 / T in units of the typical lead: from equal probabilities to 0 and 1.
_FLATTEST, _SHARPEST = 1e-4, 1e6
# Smoothing: probability mass, in examples, that all rivals share.  With 0, scores without an error
# lead to T = 0, and the first error on new rows has an infinite loss; 1 is too much for small data.
# Of 0, .03, .1, .3, 1 and 3 this had the least log loss in nested folds of the training halves of
# ten sets (``python -m benchmarks doubt``); the test halves took no part.
_DOUBT = 0.3


def log_softmax(scores: np.ndarray, temperature: float) -> np.ndarray:
    """(n, n_classes) logarithms of the probabilities, without overflow."""
    with np.errstate(over="ignore"):  # minus infinity is the right limit
        z = (scores - scores.max(axis=1, keepdims=True)) / temperature
    return np.asarray(z - np.log(np.exp(z).sum(axis=1, keepdims=True)))


def fit_temperature(
    scores: np.ndarray,
    label: np.ndarray,
    weight: np.ndarray | None = None,
    doubt: float = _DOUBT,
) -> float:
    """The temperature of the least log loss of given scores.

    Targets are smoothed like Platt's: the own class gets 1 - e and the others share e, where e is
    a third of an example over all of them, so that T stays above 0 where scores make
    no error.  The loss is convex in 1 / T; its derivative has one zero.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_classes)
        Finite.
    label : ndarray of shape (n_samples,)
        Class numbers.
    weight : ndarray of shape (n_samples,) or None
    doubt : float
        Examples whose label is doubted, in all.
    """
    n, n_classes = scores.shape
    weight = np.ones(n) if weight is None else weight / weight.max()
    weight = weight / weight.mean()
    z = scores - scores.max(axis=1, keepdims=True)
    typical = float(np.average(-z.mean(axis=1), weights=weight))
    if not typical > 0.0:
        return 1.0  # equal scores: every temperature gives the same probabilities
    z = z / typical
    e = doubt / (n + 2.0)
    own = z[np.arange(n), label]
    wanted = (1.0 - e) * own + e * (z.sum(axis=1) - own) / (n_classes - 1.0)

    def slope(log_sharpness: float) -> float:
        p = np.exp(np.exp(log_sharpness) * z)
        p /= p.sum(axis=1, keepdims=True)
        return float(weight @ ((p * z).sum(axis=1) - wanted))

    low, high = np.log(_FLATTEST), np.log(_SHARPEST)
    if slope(low) >= 0.0:
        return typical / _FLATTEST
    if slope(high) <= 0.0:
        return typical / _SHARPEST
    return float(typical / np.exp(brentq(slope, low, high, xtol=1e-10)))


def log_loss_of(probabilities: np.ndarray, label: np.ndarray) -> float:
    """Mean of -log p of the true class; p is not taken below the smallest float."""
    own = probabilities[np.arange(len(label)), label]
    return float(-np.log(np.maximum(own, np.finfo(np.float64).tiny)).mean())


def expected_calibration_error(
    probabilities: np.ndarray, is_right: np.ndarray, n_bins: int = 15
) -> float:
    """Mean distance of confidence and accuracy over bins of equal width of the confidence.

    Parameters
    ----------
    probabilities : ndarray of shape (n_samples, n_classes)
    is_right : ndarray of bool of shape (n_samples,)
        Whether the label of the largest probability is the true one.
    n_bins : int, default=15
    """
    confidence = probabilities.max(axis=1)
    bins = np.minimum((confidence * n_bins).astype(np.int64), n_bins - 1)
    gap = np.bincount(bins, confidence - is_right, minlength=n_bins)
    return float(np.abs(gap).sum() / len(confidence))
