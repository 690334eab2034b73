"""AutoSVC: the machine, its size, C and gamma chosen by a race on the training data.

fit: check (auto_parameters.py) -> scale (auto_data.py) -> a sample of the rows -> race
(auto_race.py) of candidates (auto_candidates.py) over splits (auto_splits.py), each fit from what
others left (auto_fits.py) -> final fit of the choice (auto_final.py) -> warnings
(auto_warnings.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from polymargin.estimators.auto_candidates import Candidate, Table, starting_candidates
from polymargin.estimators.auto_data import Ready, prepare, scaled
from polymargin.estimators.auto_final import FinalRows, final_rows, is_better
from polymargin.estimators.auto_losses import fit_temperature, objective_weights, probabilities
from polymargin.estimators.auto_parameters import check_parameters, seed_of
from polymargin.estimators.auto_race import Entry, Race, Rules
from polymargin.estimators.auto_size import fit_small
from polymargin.estimators.auto_splits import plan_stages, search_rows
from polymargin.estimators.auto_table import format_tried, tried_columns
from polymargin.estimators.auto_warmup import compile_first
from polymargin.estimators.auto_warnings import warn_of_choice
from polymargin.estimators.inspection import dissect, model_space, nameless, two_columns
from polymargin.problem.validation import canonical, validate_named
from polymargin.solvers.run import Clock, deferred_interrupt

__all__ = ["AutoSVC"]

_AUTO_SECONDS = 6.0
"""Seconds of the race per 10,000 rows, at least once and at most ten times: with the final fit less
than twenty fits of a kernel machine of the same rows, or 10 s."""

_SEARCH_SHARE = 0.6  # of max_time; the rest is for the final fit
_SHORTEST_FIT = 0.05  # seconds below which no final fit is tried
_GOOD_GAP = 0.05  # relative gap up to which an unfinished final fit is preferred to the race


def _has_probabilities(estimator: Any) -> bool:
    """Temperatures are fitted where they are asked for."""
    if estimator.objective == "log_loss" or estimator.probabilities is not None:
        return True
    raise AttributeError("predict_proba needs probabilities='temperature' or objective='log_loss'.")


class AutoSVC(ClassifierMixin, BaseEstimator):
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
        "accurate" takes the best mean.  The others take, of all machines whose mean is within one
        standard error of the best, the one with the fewest bytes ("small") or with the fewest
        multiplications per prediction ("fast").
    machines : "all" or sequence of {"linear", "prototypes", "rbf"}, default="all"
        Kinds of machines to try.
    scale : {"auto", "none"}, default="auto"
        "auto" standardises dense X (mean 0, variance 1 per feature) and leaves sparse X as it is,
        since that of texts is normalised already.  The scaler is part of ``best_estimator_``.
    cv : int or splitter, default=5
        Folds; stratified and shuffled for an integer, by whole groups where ``groups`` are given.
        Fewer where the largest class is smaller.
    budget : "auto" or float, default="auto"
        Seconds for the race.  "auto" is 6 s, from 10,000 rows on 6 s per 10,000 rows and at most
        60 s.  When they are over, the leader of that moment is chosen.
    n_candidates : int or None, default=None
        At most so many machines start; those most often useful come first.
    max_time : float or None, default=None
        Seconds for everything but code that is compiled for the first time; the race gets at most
        60 % of them.  If the final fit cannot be finished, the model of the race stays where it is
        the better one.
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
        Of the final fit.  It speaks of training, not of accuracy on new data.
    stage_ : str
        "final" if the model was trained on all rows meant for it, "race" if a limit or Ctrl-C left
        only a model of the race.
    n_rows_ : int
        Rows that the model was trained on.
    was_cut_short_ : bool
        Whether a time limit or Ctrl-C ended the race early.
    temperature_ : float
        Of ``predict_proba``, fitted on validation scores of the choice; 1 where none was asked.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The scaler sees all training rows, also those that validate: it uses no labels.  Tables with
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
        kinds = check_parameters(self)
        whole = Clock(self.max_time)
        seed = seed_of(self.random_state)
        if self.fit_into is not None:
            fit_small(self, X, y, sample_weight, seed)
            return self
        ready = prepare(self, X, y, sample_weight, groups)
        rows = search_rows(ready.label, np.random.default_rng([seed, 0]))
        began = whole.seconds
        sample = scaled(ready, rows)
        row_seconds = (whole.seconds - began) / len(rows)
        table = Table.of(sample.X, sample.label)
        weight = "balanced" if self._balances() else self.class_weight
        candidates = starting_candidates(table, self.prefer, weight, kinds, self.n_candidates)
        whole.started += compile_first(sample.X, sample.y, table, candidates)
        race, clock = self._race(sample, table, candidates, seed, len(ready.label), whole)
        chosen = race.choice()
        self._record(race, chosen, table)
        if clock.interrupted:
            if chosen is not None:
                self._adopt(chosen.model, ready, chosen, race, "race")
            raise KeyboardInterrupt
        candidate = candidates[0] if chosen is None else chosen.candidate
        left = None if self.max_time is None else self.max_time - whole.seconds
        test = race.splits[-1].test if race.splits else rows[:0]
        rng = np.random.default_rng([seed, 2])
        plan = final_rows(ready.label, chosen, candidate.kind, rows[test], left, row_seconds, rng)
        if plan is None and chosen is not None:
            self._adopt(chosen.model, ready, chosen, race, "race")
        else:
            self._finish(ready, race, chosen, candidate, plan, whole, seed)
        if self.verbose:
            print(self.table(), flush=True)
        warn_of_choice(self, race, chosen, groups is not None)
        return self

    def _balances(self) -> bool:
        return self.objective == "balanced_accuracy" and self.class_weight is None

    def _race(
        self,
        sample: Ready,
        table: Table,
        candidates: list[Candidate],
        seed: int,
        n_rows: int,
        whole: Clock,
    ) -> tuple[Race, Clock]:
        seconds = self._search_seconds(n_rows)
        rules = Rules(
            self.objective,
            self.prefer,
            self._balances(),
            seconds,
            self.max_time is None,
            seed,
            self.n_jobs,
            int(self.verbose),
        )
        loss_weight = objective_weights(self.objective, sample.label, sample.weight)
        clock = Clock(seconds)
        if self.max_time is not None:  # its share of the time began with the preparation
            clock.started = whole.started
        race = Race(
            sample.X, sample.y, sample.label, sample.weight, loss_weight, table, rules, clock
        )
        stages = plan_stages(sample.label, sample.groups, self.cv, seed)
        with deferred_interrupt(clock):
            race.run(stages, candidates)
        return race, clock

    def _search_seconds(self, n_rows: int) -> float:
        seconds = _AUTO_SECONDS * float(np.clip(n_rows / 10_000, 1.0, 10.0))
        if not isinstance(self.budget, str):
            seconds = float(self.budget)
        if self.max_time is not None:
            seconds = min(seconds, _SEARCH_SHARE * float(self.max_time))
        return seconds

    def _record(self, race: Race, chosen: Entry | None, table: Table) -> None:
        self.tried_ = tried_columns(list(race.entries.values()), chosen, table, self.objective)
        self.was_cut_short_ = race.was_cut_short
        shift = 0.0 if self.objective == "log_loss" else 1.0
        self.best_score_ = float("nan") if chosen is None else shift - chosen.mean
        self.best_error_ = float("nan") if chosen is None else chosen.error

    # -- the final fit -------------------------------------------------------------------------

    def _finish(
        self,
        ready: Ready,
        race: Race,
        chosen: Entry | None,
        candidate: Candidate,
        plan: FinalRows | None,
        whole: Clock,
        seed: int,
    ) -> None:
        """Train the choice; the model of the race stays if that cannot be finished."""
        rows, held_out = plan or (np.arange(len(ready.label)), np.zeros(0, dtype=np.intp))
        part = scaled(ready, rows)
        left = None if self.max_time is None else max(self.max_time - whole.seconds, _SHORTEST_FIT)
        model = candidate.build(
            race.table, tol=self.tol, max_time=left, n_jobs=self.n_jobs, random_state=seed
        )
        try:
            model.fit(part.X, part.y, part.weight)
            if not getattr(model, "alive_", np.ones(1, dtype=bool)).all() and left is None:
                model.prune()
        finally:
            test = scaled(ready, held_out).X if len(held_out) else None
            self._adopt_better(model, part, chosen, race, test)

    def _adopt_better(
        self, model: Any, part: Ready, chosen: Entry | None, race: Race, test: Any
    ) -> None:
        """The final model, unless it was ended so early that the model of the race is better."""
        is_model = hasattr(model, "certificate_")
        is_finished = getattr(model, "status_", "") not in ("", "max_time", "interrupted")
        if is_finished or chosen is None or chosen.model is None:
            stays = False
        else:
            stays = not (is_model and is_better(model, chosen, race, test, _GOOD_GAP))
        if stays and chosen is not None:
            self._adopt(chosen.model, part, chosen, race, "race")
        elif is_model:
            self._adopt(model, part, chosen, race, "final")

    def _adopt(
        self, model: Any, ready: Ready, chosen: Entry | None, race: Race, stage: str
    ) -> None:
        """The model becomes that of this object."""
        self.best_estimator_ = model
        if ready.scaler is not None:
            self.best_estimator_ = Pipeline([("scale", ready.scaler), ("svc", model)])
        self.classes_ = model.classes_
        self.certificate_ = model.certificate_
        self.stage_ = stage
        in_race = stage == "race" and chosen is not None
        self.n_rows_ = chosen.train_rows if in_race and chosen else len(ready.label)
        self.best_params_ = {"estimator": type(model).__name__} | (
            {} if chosen is None else chosen.candidate.parameters(race.table)
        )
        self.temperature_ = 1.0
        wanted = self.objective == "log_loss" or self.probabilities is not None
        if wanted and chosen is not None:
            scores, label, weight = race.validation_scores(chosen)
            self.temperature_ = fit_temperature(scores, label, weight)

    def table(self, rows: int | None = None) -> str:
        """The table of what was tried as text, best machines first.

        Parameters
        ----------
        rows : int or None
            At most so many lines; None shows all.
        """
        check_is_fitted(self, "tried_")
        return format_tried(self.tried_, self.objective, rows)

    # -- on the way out ------------------------------------------------------------------------

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
        """softmax(scores / temperature_), with ``probabilities`` or ``objective="log_loss"`` only.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return probabilities(two_columns(self.decision_function(X)), self.temperature_)
