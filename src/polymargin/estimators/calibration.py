"""Probabilities and prediction sets of a classifier, calibrated on rows that it did not train on.

fit -> (folds: train on the others from where the fit ended, score the rows left out) -> one
temperature, or fold models with the nonconformity of their rows.
"""

from __future__ import annotations

import numbers
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import _safe_split, available_if
from sklearn.utils.validation import check_is_fitted

from polymargin.estimators.temperature import fit_temperature, log_softmax
from polymargin.exceptions import shown
from polymargin.problem.kernel_sums import sum_as_written
from polymargin.problem.scoring import two_columns
from polymargin.problem.validation import check_number

__all__ = ["FOLD_ATTRIBUTES", "CalibratedClassifier", "CoveragePromise", "nonconformity"]

DEFAULT_FOLDS = 5
_FIT_SHARE = 0.5  # of max_time for the fit itself where folds follow
_NOT_KEPT = ("support_", "support_vectors_", "dual_coef_", "assignment_", "weights_", "_training")
FOLD_ATTRIBUTES = (
    "temperature_",
    "out_of_fold_scores_",
    "_fold_models",
    "_fold_nonconformity",
    "_fold_rows",
)


class CoveragePromise(NamedTuple):
    """What the sets of ``predict_set`` promise.

    ``kind`` is "held-out" or "out-of-fold", ``promised`` a lower bound of the probability that the
    set of a new row holds its label, ``n_examples`` how many rows calibrated it.
    """

    kind: str
    coverage: float
    promised: float
    n_examples: int


class FoldScores(NamedTuple):
    """Scores of rows by models that have not seen them; minus infinity for a class unknown there.

    ``rows`` are the rows that count, with their weights, folds and class numbers.
    """

    n_rows: int
    rows: np.ndarray
    weight: np.ndarray
    fold: np.ndarray
    label: np.ndarray
    scores: np.ndarray
    models: list[Any]


def nonconformity(scores: np.ndarray) -> np.ndarray:
    """(n, n_classes) max_{r != k} f_r - f_k: the nonconformity of class k, minus its margin."""
    order = np.sort(scores, axis=1)
    best, second = order[:, -1:], order[:, -2:-1]
    is_best = np.arange(scores.shape[1]) == scores.argmax(axis=1)[:, None]
    with np.errstate(invalid="ignore"):
        found = np.where(is_best, second, best) - scores
    return np.where(np.isneginf(scores), np.inf, found)


def _gives_probabilities(estimator: Any) -> bool:
    if estimator._calibration_parameters()[0] is not None:
        return True
    raise AttributeError(
        f"{type(estimator).__name__} has probabilities only if they are asked for: "
        "probabilities='temperature' before fit."
    )


class CalibratedClassifier:
    """``predict_proba``, ``predict_set`` and what a fit does for them."""

    probabilities: str | None = None
    calibration_folds: int | None = None
    classes_: np.ndarray
    max_time: float | None

    # -- on the way in -----------------------------------------------------------------------

    def _calibration_parameters(self) -> tuple[Any, Any]:
        return self.probabilities, self.calibration_folds

    def _begin_calibration(self) -> float:
        """Check parameters, drop earlier calibrations, and return the time."""
        probabilities, folds = self._calibration_parameters()
        if probabilities is not None and not (
            isinstance(probabilities, str) and probabilities == "temperature"
        ):
            raise ValueError(
                f"probabilities must be None or 'temperature', got {shown(probabilities)}."
            )
        is_whole = isinstance(folds, numbers.Integral) and not isinstance(folds, bool)
        if folds is not None and not (is_whole and folds >= 2):
            raise ValueError(
                f"calibration_folds must be None or an integer >= 2, got {shown(folds)}."
            )
        self._forget_calibration()
        return time.perf_counter()

    def _forget_calibration(self) -> None:
        for name in (*FOLD_ATTRIBUTES, "calibration_scores_"):
            self.__dict__.pop(name, None)

    def _calibrates(self) -> bool:
        return any(value is not None for value in self._calibration_parameters())

    def _time_of_fit(self) -> float | None:
        """Seconds for the fit itself: a share of ``max_time`` where folds follow."""
        if self.max_time is None or not self._calibrates():
            return self.max_time
        return _FIT_SHARE * self.max_time

    def _finish_calibration(self, started: float, X: Any, y: Any, sample_weight: Any) -> None:
        """Out-of-fold scores of the fitted model's training rows, and what is made of them."""
        if not self._calibrates():
            return
        probabilities, folds = self._calibration_parameters()
        found = self._score_folds(started, X, y, sample_weight, int(folds or DEFAULT_FOLDS))
        if probabilities is not None:
            known = np.isfinite(found.scores[np.arange(len(found.label)), found.label])
            if not known.any():
                raise ValueError(
                    "probabilities: no class of y has two examples, so that no model knows the "
                    "class of a row that it has not seen; use probabilities=None."
                )
            lowest = np.where(np.isfinite(found.scores), found.scores, np.inf).min(axis=1)
            scores = np.maximum(found.scores, lowest[:, None])
            self.temperature_ = fit_temperature(
                scores[known], found.label[known], found.weight[known]
            )
        if folds is not None:
            self.out_of_fold_scores_ = np.full((found.n_rows, len(self.classes_)), np.nan)
            self.out_of_fold_scores_[found.rows] = found.scores
            self._fold_models = found.models
            if self._kernel.name == "precomputed":  # type: ignore[attr-defined]
                # a fold model knows the kernel values of its own training rows
                n_folds = len(found.models)
                self._fold_rows = [found.rows[found.fold != k] for k in range(n_folds)]
            own = nonconformity(found.scores)[np.arange(len(found.label)), found.label]
            self._fold_nonconformity = [
                np.sort(own[found.fold == k]) for k in range(len(found.models))
            ]

    def _score_folds(
        self, started: float, X: Any, y: Any, sample_weight: Any, n_folds: int
    ) -> FoldScores:
        X, y = self._check_input(X), np.asarray(y).ravel()  # type: ignore[attr-defined]
        weight = np.asarray(1.0 if sample_weight is None else sample_weight, dtype=np.float64)
        weight = np.broadcast_to(weight, y.shape)
        rows = np.flatnonzero(np.isin(y, self.classes_) & (weight > 0.0))
        label = np.searchsorted(self.classes_, y[rows])
        fold = _stratified(label, n_folds)
        scores = np.full((len(rows), len(self.classes_)), -np.inf)
        models = []
        for k in range(int(fold.max()) + 1):
            train, test = rows[fold != k], rows[fold == k]
            left = self._time_left(started, int(fold.max()) + 1 - k)
            model = self._fit_fold(X, y, weight, train, left)
            rest, _ = _safe_split(model, X, y, test, train)
            known = np.searchsorted(self.classes_, model.classes_)
            scores[np.ix_(fold == k, known)] = two_columns(model.decision_function(rest))
            _slim(model)
            models.append(model)
        return FoldScores(len(y), rows, weight[rows], fold, label, scores, models)

    def _time_left(self, started: float, n_folds: int) -> float | None:
        if self.max_time is None:
            return None
        return max((self.max_time - (time.perf_counter() - started)) / n_folds, 0.01)

    def _fit_fold(
        self, X: Any, y: np.ndarray, weight: np.ndarray, train: np.ndarray, left: float | None
    ) -> Any:
        """A model of some rows, warm started from the model of all rows."""
        weight = weight[train]
        model = self._fold_estimator(train, y[train], weight)
        model.set_params(max_time=left)
        some, labels = _safe_split(model, X, y, train)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit of all rows has warned already
            model.fit(some, labels, None if (weight == 1.0).all() else weight)
        return model

    def _fold_estimator(self, train: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Any:
        """An unfitted copy for some training rows; subclasses add a warm start."""
        settings: dict[str, Any] = {"probabilities": None, "calibration_folds": None, "verbose": 0}
        if self._kernel.name in ("rbf", "poly", "sigmoid"):  # type: ignore[attr-defined]
            settings["gamma"] = self._kernel.gamma  # type: ignore[attr-defined]
        if self._kernel.parts:  # type: ignore[attr-defined]
            settings["kernel"] = sum_as_written(self._kernel)  # type: ignore[attr-defined]
            settings |= {"kernel_weights": None} if hasattr(self, "kernel_weights") else {}
        costs = getattr(self, "cost_matrix", None)
        if costs is not None:
            # a fold may lack a class
            present = np.searchsorted(self.classes_, np.unique(y))
            settings["cost_matrix"] = np.asarray(costs)[np.ix_(present, present)]
        model = clone(self).set_params(**settings)
        model.__dict__.pop("_skl_callbacks", None)  # they watch the fit of all rows
        return model

    # -- probabilities -----------------------------------------------------------------------

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes: the softmax of the scores over ``temperature_``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``; the largest is that of ``predict``.
        """
        return np.asarray(np.exp(self.predict_log_proba(X)))

    @available_if(_gives_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of ``predict_proba``, exact where probabilities round to 0.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self, "intercept_")
        if not hasattr(self, "temperature_"):
            raise NotFittedError(
                "probabilities: this model has no temperature_ (its last training was "
                "partial_fit, prune, or was interrupted); call fit."
            )
        scores = two_columns(self.decision_function(X))  # type: ignore[attr-defined]
        return log_softmax(scores, self.temperature_)

    # -- sets --------------------------------------------------------------------------------

    def calibrate(self, X: Any, y: Any) -> Any:
        """Calibrate ``predict_set`` on rows held out of training.

        The sets then hold the label of a new row with a probability of at least ``coverage``, if
        the rows given here and new ones are exchangeable (drawn alike).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Not used in training.
        y : array-like of shape (n_samples,)

        Returns
        -------
        self
        """
        check_is_fitted(self, "intercept_")
        X = self._check_input(X)  # type: ignore[attr-defined]
        label = self._class_numbers(X, y)  # type: ignore[attr-defined]
        found = nonconformity(two_columns(self._class_scores(X)))  # type: ignore[attr-defined]
        self.calibration_scores_ = np.sort(found[np.arange(len(label)), label])
        return self

    def predict_set(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """Sets of labels that hold the true one with a promised probability.

        After ``calibrate(X, y)`` the sets promise ``coverage`` (split conformal prediction).
        Otherwise a model fitted with ``calibration_folds`` compares with its out-of-fold margins
        (cross-validation+), which promises about ``2 * coverage - 1`` and usually reaches
        ``coverage``.  ``coverage_promise`` says which of them applies.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        coverage : float in (0, 1), default=0.9

        Returns
        -------
        ndarray of bool of shape (n_samples, n_classes)
            In the order of ``classes_``.  A set may hold several labels, or none where even the
            best class leads by less than rows of training usually do.

        References
        ----------
        Vovk, Gammerman & Shafer, Algorithmic Learning in a Random World (2005); Barber, Candes,
        Ramdas & Tibshirani, Predictive inference with the jackknife+, Annals of Statistics 49
        (2021); Romano, Sesia & Candes, Classification with valid and adaptive coverage (2020).
        """
        kind = self.coverage_promise(coverage).kind
        if kind == "out-of-fold":
            return self._fold_sets(X, float(coverage))
        scores = two_columns(self.decision_function(X))  # type: ignore[attr-defined]
        known = self.calibration_scores_
        rank = int(np.ceil((len(known) + 1) * coverage - 1e-9))
        limit = np.inf if rank > len(known) else known[rank - 1]
        return np.asarray(nonconformity(scores) <= limit)

    def _fold_sets(self, X: Any, coverage: float) -> np.ndarray:
        """Leave a class out whose nonconformity exceeds that of a share ``coverage`` of rows."""
        X = self._check_input(X)  # type: ignore[attr-defined]
        n_below = np.zeros((X.shape[0], len(self.classes_)))
        columns = getattr(self, "_fold_rows", None)
        for k, model in enumerate(self._fold_models):
            part = X if columns is None else np.ascontiguousarray(X[:, columns[k]])
            scores = np.full(n_below.shape, -np.inf)
            at = np.searchsorted(self.classes_, model.classes_)
            scores[:, at] = two_columns(model._class_scores(part))
            known = self._fold_nonconformity[k]
            n_below += np.searchsorted(known, nonconformity(scores), side="left")
        n = sum(map(len, self._fold_nonconformity))
        return np.asarray(n_below < coverage * (n + 1) - 1e-9)

    def coverage_promise(self, coverage: float = 0.9) -> CoveragePromise:
        """What the sets of ``predict_set`` promise, and by which calibration.

        Parameters
        ----------
        coverage : float in (0, 1), default=0.9

        Returns
        -------
        CoveragePromise
            For out-of-fold sets ``promised`` is ``2 * coverage - 1`` minus a term of the number of
            rows and folds (jackknife+, theorem 4); rows must be exchangeable.
        """
        check_is_fitted(self, "intercept_")
        check_number("coverage", coverage, above=0.0)
        if coverage >= 1.0:
            raise ValueError(f"coverage must be a number between 0 and 1, got {shown(coverage)}.")
        if hasattr(self, "calibration_scores_"):
            n = len(self.calibration_scores_)
            return CoveragePromise("held-out", float(coverage), float(coverage), n)
        if not hasattr(self, "_fold_models"):
            raise NotFittedError(
                "predict_set needs a calibration: fit with calibration_folds=5 (promises about "
                "2 * coverage - 1), or call calibrate(X, y) with rows held out of training "
                "(promises coverage)."
            )
        n, K = sum(map(len, self._fold_nonconformity)), len(self._fold_models)
        loss = min(2.0 * (1.0 - 1.0 / K) / (n / K + 1.0), (1.0 - K / n) / (K + 1.0))
        promised = max(0.0, 2.0 * coverage - 1.0 - loss)
        return CoveragePromise("out-of-fold", float(coverage), promised, n)


def _stratified(label: np.ndarray, n_folds: int) -> np.ndarray:
    """Fold of every row: each class is dealt out in random order, of a seed that never changes."""
    n_folds = min(n_folds, len(label))
    order = np.random.default_rng(0).permutation(len(label))
    order = order[np.argsort(label[order], kind="stable")]
    fold = np.empty(len(label), dtype=np.int64)
    fold[order] = np.arange(len(label)) % n_folds
    return fold


def _slim(model: Any) -> None:
    """Drop what the scores of a linear model do not need."""
    if model._kernel.is_linear:
        for name in _NOT_KEPT:
            model.__dict__.pop(name, None)
