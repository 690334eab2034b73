"""``predict_set`` and ``calibrate`` for models behind other steps: a Pipeline hands on neither."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.estimators.calibration import CalibratedClassifier, CoveragePromise
from polymargin.estimators.inspection import Parts, check_rows, dissect, model_space

__all__ = ["calibrate", "coverage_promise", "predict_set"]


def _parts(model: Any) -> Parts:
    parts = dissect(model)
    if not isinstance(parts.last, CalibratedClassifier):
        raise ValueError(
            f"model: {type(parts.last).__name__} has no prediction sets; give a polymargin "
            "classifier, a Pipeline that ends in one, or a search over these."
        )
    return parts


def calibrate(model: Any, X: Any, y: Any) -> Any:
    """Calibrate ``predict_set`` of a fitted model on rows held out of its training.

    Parameters
    ----------
    model : polymargin classifier, Pipeline that ends in one, or search, fitted
    X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        Not used in training.
    y : array-like of shape (n_samples,)

    Returns
    -------
    model
        The same object.

    See Also
    --------
    predict_set : The sets that it calibrates.
    coverage_promise : What they promise.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, calibrate, predict_set
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MulticlassSVC().fit(X[::2], y[::2])
    >>> _ = calibrate(model, X[1::2], y[1::2])
    >>> predict_set(model, X[:1], coverage=0.9).shape
    (1, 3)
    """
    parts = _parts(model)
    parts.last.calibrate(model_space(parts, check_rows(X, y)), y)
    return model


def predict_set(model: Any, X: Any, coverage: float = 0.9) -> np.ndarray:
    """Sets of labels that hold the true one with a promised probability.

    The method ``predict_set`` of the classifiers, which says more, for Pipelines and searches too.

    Parameters
    ----------
    model : polymargin classifier, Pipeline that ends in one, or search, fitted
        With ``calibration_folds``, or calibrated by ``calibrate``.
    X : array-like, sparse matrix or frame of shape (n_samples, n_features)
    coverage : float in (0, 1), default=0.9

    Returns
    -------
    ndarray of bool of shape (n_samples, n_classes)
        In the order of ``classes_``.

    See Also
    --------
    calibrate : Needs to come first, or ``calibration_folds`` at ``fit``.
    coverage_promise : What the sets promise.
    risk_coverage : Reject doubtful rows instead.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, predict_set
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MulticlassSVC().fit(X[::2], y[::2]).calibrate(X[1::2], y[1::2])
    >>> predict_set(model, X[:1], coverage=0.9)
    array([[ True, False, False]])
    """
    parts = _parts(model)
    return np.asarray(parts.last.predict_set(model_space(parts, check_rows(X)), coverage))


def coverage_promise(model: Any, coverage: float = 0.9) -> CoveragePromise:
    """What the sets of ``predict_set`` promise, and by which calibration.

    Parameters
    ----------
    model : polymargin classifier, Pipeline that ends in one, or search, fitted
    coverage : float in (0, 1), default=0.9

    Returns
    -------
    CoveragePromise

    See Also
    --------
    predict_set : The sets.
    calibrate : Calibrates them on held-out rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, coverage_promise
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MulticlassSVC().fit(X[::2], y[::2]).calibrate(X[1::2], y[1::2])
    >>> coverage_promise(model, 0.9).promised
    0.9
    """
    return _parts(model).last.coverage_promise(coverage)
