"""AutoSVC: the machine, its size, C and gamma chosen by a race on the training data.

fit: check (auto_parameters.py) -> everything that is trained (auto_course.py, read first) ->
attributes -> warnings (auto_warnings.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from polymargin.estimators.auto_course import Course, Kept
from polymargin.estimators.auto_data import prepare
from polymargin.estimators.auto_limits import EncodedTable
from polymargin.estimators.auto_losses import fit_temperature, probabilities
from polymargin.estimators.auto_parameters import check_parameters, seed_of
from polymargin.estimators.auto_size import fit_small
from polymargin.estimators.auto_table import format_tried, tried_columns
from polymargin.estimators.auto_warnings import warn_of_choice
from polymargin.estimators.inspection import dissect, model_space, nameless
from polymargin.estimators.label_score import LabelScore
from polymargin.problem.scoring import two_columns
from polymargin.problem.validation import canonical, validate_named
from polymargin.solvers.run import Clock

__all__ = ["AutoSVC"]


def _has_probabilities(estimator: Any) -> bool:
    """Temperatures are fitted where they are asked for."""
    if estimator.objective == "log_loss" or estimator.probabilities is not None:
        return True
    raise AttributeError("predict_proba needs probabilities='temperature' or objective='log_loss'.")


class AutoSVC(LabelScore, BaseEstimator):
    """Large-margin classifier that chooses its machine on the training data.

    Linear Crammer-Singer and Weston-Watkins machines, multi-prototype machines of a few sizes and
    metrics, and RBF machines race over cross-validation splits: all of them on cheap splits first,
    the close ones on all.  Steps to neighbouring C and gamma refine the leader.  The choice is
    trained on all rows and keeps its certificate.

    Parameters
    ----------
    objective : {"accuracy", "balanced_accuracy", "log_loss"}, default="accuracy"
        What validation measures.  "balanced_accuracy" also gives classes balanced weights in
        training unless ``class_weight`` says otherwise; "log_loss" turns scores into probabilities
        by a temperature fitted on validation scores and adds ``predict_proba``.
    prefer : {"accurate", "small", "fast"}, default="accurate"
        "accurate" takes the best mean, up to 800 rows the smallest C (times gamma) of the machines
        that trail it by at most one standard error of the difference.  The others take, of all
        machines whose mean is within one standard error of the best, the one with the fewest bytes
        ("small") or with the fewest multiplications per prediction ("fast").
    machines : "all" or sequence of {"linear", "prototypes", "rbf"}, default="all"
        Kinds of machines to try.
    scale : {"auto", "none"}, default="auto"
        "auto" standardises dense X (mean 0, variance 1 per feature) and leaves sparse X as it is,
        since that of texts is normalised already.  Where validation is clearly better for it, X
        has one unit for all features instead, or values beyond five robust deviations from the
        median are cut off there (``scaling_``).  The scaler is part of ``best_estimator_``.
    cv : int or splitter, default=5
        Folds; stratified and shuffled for an integer, by whole groups where ``groups`` are given.
        Fewer where the largest class is smaller.
    budget : "auto" or float, default="auto"
        Seconds for the race.  "auto" is 6 s, from 10,000 rows on 6 s per 10,000 rows and at most
        60 s.  When they are over, the leader of that moment is chosen.
    n_candidates : int or None, default=None
        At most so many machines start; those most often useful come first.
    max_time : float or None, default=None
        Seconds for everything.  A linear machine is then trained on all rows first; the race ends
        when 60 % are over, the rest is for the final fit.  Of these three the model that is best
        on validation rows is kept.  Code that has to be compiled (once per installation) counts;
        machines whose code is not ready after half of the limit are left out, all but the linear
        one, after which a second remains for training: a shorter first fit ends late.
    class_weight : dict, "balanced" or None, default=None
    tol : float, default=1e-3
        Relative duality gap of the final fit.
    n_jobs : int or None, default=None
        Threads that share candidates.  The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Splits, samples, order of visits.  Decisions are made by scores, so that equal seeds give
        equal models unless ``budget`` or ``max_time`` ended the race (``was_cut_short_``).
    verbose : int, default=0
        1 prints a line per split and the table of what was tried.
    fit_into : int, str or None, default=None
        The largest size of the model on a device, such as "8kB".  ``MultiPrototypeSVC(fit_into=)``
        is then the machine (``scale``, ``cv``, ``budget`` and ``machines`` are not used).
    probabilities : "temperature" or None, default=None
        "temperature" adds ``predict_proba`` whatever the objective is.

    Attributes
    ----------
    best_estimator_ : Pipeline, MulticlassSVC or MultiPrototypeSVC
        The fitted model, behind its scaler where there is one.
    best_params_ : dict
        Its parameters that were chosen.
    best_score_, best_error_ : float
        Mean validation score of the choice (minus the log loss for "log_loss") and its standard
        error; nan if nothing could be validated.  Chosen among many, it is a little optimistic.
    tried_ : dict of equally long lists
        ``machine, parameters, score, standard_error, n_splits, train_rows, seconds, model_bytes,
        verdict``, the choice first; ``table()`` shows it.
    certificate_ : Certificate
        Of the final fit.  It bounds the training objective, not the error on new data.
    scaling_ : {"standard", "common", "clipped", "none"}
        How ``best_estimator_`` scales: each feature by its deviation, all by one number, each by
        its quartiles with limits, or not at all.
    stage_ : str
        Where the model comes from: "final" fit, or, where a limit or Ctrl-C left nothing better,
        "race" or "linear", the machine that was trained on all rows before the race.
    n_rows_ : int
        Rows that the model was trained on.
    was_cut_short_ : bool
        Whether a time limit or Ctrl-C ended the race early.
    temperature_ : float
        Of ``predict_proba``, fitted on validation scores of the choice; 1 where none was asked.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    MulticlassSVC : One machine with parameters of your choice.
    MultiPrototypeSVCCV : Prototypes only, C and their number by cross-validation.

    Notes
    -----
    The scaler sees all training rows, also those that validate: it uses no labels, which only
    choose between three ways to scale.  ``max_time`` below 20 s always standardises.  Tables with
    more than 10,000 rows are sampled for the race, and kernel machines are trained on at most
    20,000 rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import AutoSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AutoSVC(n_candidates=4, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> model.tried_["verdict"][0]
    'chosen'
    """

    def __init__(
        self,
        objective: str = "accuracy",
        prefer: str = "accurate",
        machines: str | Sequence[str] = "all",
        scale: str = "auto",
        cv: Any = 5,
        budget: float | str = "auto",
        n_candidates: int | None = None,
        max_time: float | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        tol: float = 1e-3,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        fit_into: int | str | None = None,
        probabilities: str | None = None,
    ) -> None:
        self.objective = objective
        self.prefer = prefer
        self.machines = machines
        self.scale = scale
        self.cv = cv
        self.budget = budget
        self.n_candidates = n_candidates
        self.max_time = max_time
        self.class_weight = class_weight
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.fit_into = fit_into
        self.probabilities = probabilities

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- fit ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> AutoSVC:
        """Choose a machine by validation, then train it on all rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None
            Counts in training and in validation; rows of weight 0 are left out.
        groups : array-like of shape (n_samples,) or None
            Speakers, patients, documents: rows of one group never stand on both sides of a split.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, groups)

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, table: EncodedTable | None = None
    ) -> AutoSVC:
        """``fit``; of a raw table from which X was made also limits for its numbers are compared.

        Where ``scaling_`` is "clipped" then, the model takes the features of ``table.limited``.
        """
        kinds = check_parameters(self)
        clock = Clock(self.max_time)
        seed = seed_of(self.random_state)
        if self.fit_into is not None:
            fit_small(self, X, y, sample_weight, seed)
            return self
        ready = prepare(self, X, y, sample_weight, groups, table)
        course = Course(self, ready, kinds, seed, clock)
        try:
            course.run()
        finally:
            if course.kept is not None:
                self._adopt(course, course.kept)
        if self.verbose:
            print(self.table(), flush=True)
        warn_of_choice(self, course, groups is not None)
        return self

    def _adopt(self, course: Course, kept: Kept) -> None:
        """Copy the kept model and its record into the fitted attributes."""
        entry, race, scaler = kept.entry, course.race, course.ready.scaler
        self.best_estimator_ = kept.model
        if scaler is not None:
            if hasattr(self, "feature_names_in_"):
                scaler.feature_names_in_ = self.feature_names_in_
            self.best_estimator_ = Pipeline([("scale", scaler), ("svc", kept.model)])
        self.classes_ = kept.model.classes_
        self.certificate_ = kept.model.certificate_
        self.scaling_ = course.ready.scaling
        self.stage_, self.n_rows_ = kept.stage, kept.n_rows
        self.was_cut_short_ = race.was_cut_short
        is_known = bool(entry.losses)
        tried = {id(one): one for one in (*race.entries.values(), course.linear, entry) if one}
        chosen = entry if is_known else None
        self.tried_ = tried_columns(list(tried.values()), chosen, course.table, self.objective)
        shift = 0.0 if self.objective == "log_loss" else 1.0
        self.best_score_ = shift - entry.mean if is_known else float("nan")
        self.best_error_ = entry.error if is_known else float("nan")
        self.best_params_ = {"estimator": type(kept.model).__name__} | (
            entry.candidate.parameters(course.table) if is_known else {}
        )
        self.temperature_ = 1.0
        wanted = self.objective == "log_loss" or self.probabilities is not None
        if wanted and is_known:
            self.temperature_ = fit_temperature(*race.validation_scores(entry))

    def table(self, rows: int | None = None) -> str:
        """The table of what was tried as text, best machines first.

        Parameters
        ----------
        rows : int or None
            At most so many lines; None shows all.

        Returns
        -------
        str
        """
        check_is_fitted(self, "tried_")
        return format_tried(self.tried_, self.objective, rows)

    # -- prediction ------------------------------------------------------------------------

    def _check_input(self, X: Any) -> Any:
        check_is_fitted(self, "best_estimator_")
        return canonical(
            validate_named(
                self,
                X,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                order="C",
                reset=False,
            )
        )

    def predict(self, X: Any) -> np.ndarray:
        """Labels by the chosen model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        X = self._check_input(X)
        with nameless():
            return np.asarray(self.best_estimator_.predict(X))

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the chosen model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
        """
        X = self._check_input(X)
        with nameless():
            return np.asarray(self.best_estimator_.decision_function(X))

    def predict_or_reject(
        self, X: Any, margin: float = 0.0, reject_label: Any = None
    ) -> np.ndarray:
        """Labels, or ``reject_label`` where the best class leads by no more than ``margin``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        margin : float, default=0.0
        reject_label : object, default=None
            Must not be one of ``classes_``.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        X = self._check_input(X)
        parts = dissect(self.best_estimator_)
        with nameless():
            X = model_space(parts, X)
        labels = parts.last.predict_or_reject(X, margin, reject_label)
        return np.asarray(labels)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities, where ``probabilities`` or ``objective="log_loss"`` asked for them.

        They are ``softmax(scores / temperature_)``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return probabilities(two_columns(self.decision_function(X)), self.temperature_)
