"""MultiPrototypeSVCCV: C and the number of prototypes by validation on the training data."""

from __future__ import annotations

import numbers
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils.metaestimators import _safe_split

from polymargin.estimators.calibration import FOLD_ATTRIBUTES
from polymargin.estimators.model_size import vectors_needed
from polymargin.estimators.multi_prototype import MultiPrototypeSVC
from polymargin.estimators.prototype_base import PrototypeClassifier
from polymargin.exceptions import shown
from polymargin.problem.annealing import Annealing, find_annealing
from polymargin.problem.encoding import sample_weights
from polymargin.problem.kernels import squared_norms
from polymargin.problem.validation import check_number
from polymargin.solvers.run import Clock, interruptible_search

__all__ = ["MultiPrototypeSVCCV", "PrototypeSearch"]

_AUTO_CS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_SEARCH_SHARE = 0.7  # of max_time; the rest is for the final fit
_REHEAT = 0.2  # initial temperature of a warm start, as a share of the cold one


class Cell(NamedTuple):
    """The figures of one fit of the search."""

    error: float
    seconds: float
    model_bytes: float


class MultiPrototypeSVCCV(PrototypeClassifier):
    r"""Multi-prototype SVM with C and the number of prototypes chosen by cross-validation.

    Every pair is tried on every fold; the final model is trained on all the data.

    Parameters
    ----------
    n_prototypes : sequence of int, default=(1, 3, 5, 10, 20)
        Numbers of prototypes per class to try.
    Cs : sequence of float or "auto", default="auto"
        Values of C to try; "auto" is 0.3, 1, 3, 10, 30, 100 times the inverse of the mean
        of :math:`\kappa(x, x)`.
    cv : int, splitter or iterable, default=5
        As in scikit-learn; an integer means stratified folds without shuffling.
    warm_start : bool, default=False
        Follow a path of growing C on which each fit starts from the assignment of the one before,
        reheated to a fifth of the temperature: about half the time, but prototypes that a small C
        let die stay dead, which can cost accuracy.
    estimator : MultiPrototypeSVC or None, default=None
        Where all other parameters come from.
    max_time : float or None, default=None
        Seconds for everything.  The search ends after 70 % of them with the cells it has.
    n_jobs : int or None, default=None
        Threads that share folds and numbers of prototypes.  The result does not depend on it.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 prints a line per fit with an estimate of the time left.

    Attributes
    ----------
    C_, n_prototypes_ : float, int
        The choice: the lowest mean error; among equals fewer prototypes, then the smaller C.
    results_ : dict of arrays
        One entry per pair, ordered by number of prototypes, then C: ``n_prototypes, C, error``
        (mean share of wrong labels, weighted), ``spread`` (standard deviation over folds),
        ``fold_errors`` (pairs, folds; nan where the search had to end), ``seconds`` (mean of a fit)
        and ``model_bytes`` (prototypes and intercepts in float32).
    best_index_ : int
        Place of the choice in ``results_``.
    best_estimator_ : MultiPrototypeSVC
        The final model; its fitted attributes (``prototypes_``, ``certificate_``, ...) are also
        those of this object.

    See Also
    --------
    MultiPrototypeSVC : The machine itself.
    AutoSVC : Chooses among all kinds of machines.
    plots.SizeAccuracyDisplay : Draws error against size.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MultiPrototypeSVCCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = MultiPrototypeSVCCV(n_prototypes=(1, 2), Cs=(0.1, 1.0), cv=3, random_state=0)
    >>> search.fit(X, y).results_["error"].shape
    (4,)
    """

    def __init__(
        self,
        n_prototypes: Sequence[int] = (1, 3, 5, 10, 20),
        Cs: Sequence[float] | str = "auto",
        cv: Any = 5,
        warm_start: bool = False,
        estimator: MultiPrototypeSVC | None = None,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.Cs = Cs
        self.cv = cv
        self.warm_start = warm_start
        self.estimator = estimator
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @property
    def _template(self) -> MultiPrototypeSVC:
        return MultiPrototypeSVC() if self.estimator is None else self.estimator

    @property
    def kernel(self) -> Any:
        """The kernel of the estimator, by which input is checked."""
        return self._template.kernel

    # -- fit ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MultiPrototypeSVCCV:
        """Search, then train on all the data.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None

        Returns
        -------
        self
        """
        counts = self._check_parameters()
        X, y = self._validate(X, y)
        weight = None
        if sample_weight is not None:
            weight = sample_weights(sample_weight, y)
        if len(np.unique(y)) < 2:
            raise ValueError("The number of classes has to be greater than one; got 1 class in y.")
        Cs = self._levels(X)
        folds = list(check_cv(_fewer_folds(self.cv, y), y, classifier=True).split(X, y))
        base = self._base()
        search = PrototypeSearch(
            base, X, y, weight, counts, Cs, folds, bool(self.warm_start), self.verbose
        )
        limit = None if self.max_time is None else _SEARCH_SHARE * float(self.max_time)
        clock = Clock(limit)
        chains = [(fold, count) for fold in range(len(folds)) for count in range(len(counts))]
        with interruptible_search(clock):
            Parallel(n_jobs=effective_n_jobs(self.n_jobs), prefer="threads")(
                delayed(search.chain)(fold, count, clock) for fold, count in chains
            )
        if not search.cells:
            raise ValueError("cv: every training part has a single class; use other folds.")
        self._choose(search.results())
        if clock.interrupted and search.best is not None:
            # keep a model of a part of the data where there is no other
            _, count, level, model = search.best
            self.n_prototypes_, self.C_ = counts[count], Cs[level]
            self.best_index_ = count * len(Cs) + level
            self._adopt(model)
            raise KeyboardInterrupt
        left = None if self.max_time is None else max(self.max_time - clock.seconds, 0.01)
        final = search.final(self.n_prototypes_, self.C_, left)
        self._adopt(self._calibrated(final, X, y, weight, clock))
        return self

    def _calibration_parameters(self) -> tuple[Any, Any]:
        return self._template.probabilities, self._template.calibration_folds

    def _calibrated(
        self, model: MultiPrototypeSVC, X: Any, y: Any, weight: Any, clock: Clock
    ) -> MultiPrototypeSVC:
        """The final model with what the estimator asks for; the search did without."""
        probabilities, folds = self._calibration_parameters()
        limit = model.max_time
        left = None if self.max_time is None else max(self.max_time - clock.seconds, 0.01)
        model.set_params(probabilities=probabilities, calibration_folds=folds, max_time=left)
        model._finish_calibration(model._begin_calibration(), X, y, weight)
        return model.set_params(max_time=limit)

    def _check_parameters(self) -> list[int]:
        if not isinstance(self._template, MultiPrototypeSVC):
            raise ValueError(f"estimator must be a MultiPrototypeSVC, got {shown(self.estimator)}.")
        counts = list(np.atleast_1d(np.asarray(self.n_prototypes, dtype=object)))
        if not counts or not all(
            isinstance(q, numbers.Integral) and not isinstance(q, bool) and int(q) >= 1
            for q in counts
        ):
            raise ValueError(
                f"n_prototypes must be a sequence of integers >= 1, got {shown(self.n_prototypes)}."
            )
        if self.max_time is not None:
            check_number("max_time", self.max_time, above=0.0)
        return sorted({int(q) for q in counts})

    def _levels(self, X: Any) -> list[float]:
        """The values of C in growing order."""
        if isinstance(self.Cs, str):
            if self.Cs != "auto":
                raise ValueError(
                    f"Cs must be 'auto' or a sequence of numbers, got {shown(self.Cs)}."
                )
            template = self._template
            typical = 1.0
            if template.kernel == "precomputed":
                typical = float(np.mean(np.diagonal(X)))
            elif template.kernel == "linear":
                offset = 0.0 if template.intercept == "none" else template.intercept_scaling**2
                typical = float(np.mean(squared_norms(X))) + offset
            return [c / max(typical, 1e-300) for c in _AUTO_CS]
        levels = list(np.atleast_1d(np.asarray(self.Cs, dtype=object)))
        if not levels:
            raise ValueError("Cs is empty; give at least one value of C.")
        for level in levels:
            check_number("Cs", level, above=0.0)
        return sorted({float(level) for level in levels})

    def _base(self) -> MultiPrototypeSVC:
        base = clone(self._template)
        return base.set_params(
            random_state=self._seed(),
            n_jobs=1,
            max_time=None,
            probabilities=None,
            calibration_folds=None,
        )

    def _choose(self, results: dict[str, np.ndarray]) -> None:
        error = np.where(np.isnan(results["error"]), np.inf, results["error"])
        self.results_ = results
        self.best_index_ = int(np.argmin(np.round(error, 12)))
        self.n_prototypes_ = int(results["n_prototypes"][self.best_index_])
        self.C_ = float(results["C"][self.best_index_])

    def _adopt(self, model: MultiPrototypeSVC) -> None:
        """Copy the fitted attributes of the final model."""
        self.best_estimator_ = model
        self._forget_calibration()
        mine = ("n_features_in_", "feature_names_in_", "_training")
        hidden = ("_kernel", "_prototype_class", *FOLD_ATTRIBUTES)
        for name, value in vars(model).items():
            is_fitted = name.endswith("_") or name in hidden
            if is_fitted and name not in mine:
                setattr(self, name, value)


def _fewer_folds(cv: Any, y: np.ndarray) -> Any:
    """No more folds than the largest class has examples, at least two."""
    if not isinstance(cv, numbers.Integral):
        return cv
    largest = int(np.unique(y, return_counts=True)[1].max())
    if largest < 2:
        raise ValueError(
            "cv: every class of y has a single example, so that none can be left out; use "
            "MultiPrototypeSVC, which searches nothing."
        )
    return max(2, min(int(cv), largest))


# -- the search --------------------------------------------------------------------------------


@dataclass
class PrototypeSearch:
    """Fits of a grid of counts and C on folds, with the figures of each."""

    base: MultiPrototypeSVC
    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    counts: list[int]
    Cs: list[float]
    folds: list[tuple[np.ndarray, np.ndarray]]
    is_path: bool
    verbose: int

    def __post_init__(self) -> None:
        self.cells: dict[tuple[int, int, int], Cell] = {}
        self.best: tuple[float, int, int, MultiPrototypeSVC] | None = None
        self.lock = threading.Lock()
        self.started = time.perf_counter()
        start = find_annealing(self.base.annealing)
        warm: Annealing = clone(start)
        warm.set_params(initial_temperature=_REHEAT * start.initial_temperature)
        if start.final_temperature is not None:
            warm.final_temperature = min(start.final_temperature, warm.initial_temperature)
        self.warm = warm

    def fit_path(
        self,
        X: Any,
        y: np.ndarray,
        weight: np.ndarray | None,
        count: int,
        levels: Sequence[float],
        see: Callable[[int, MultiPrototypeSVC, float], bool],
        clock: Clock,
    ) -> MultiPrototypeSVC:
        """Fits of growing C, each from the assignment of the one before; ``see`` may end them."""
        before: MultiPrototypeSVC | None = None
        for level, C in enumerate(levels):
            model = clone(self.base).set_params(n_prototypes=count, C=C)
            if before is not None and self.is_path and model.assignment != "static":
                model.set_params(init=_filled(before), annealing=self.warm)
            if clock.max_time is not None:
                model.set_params(max_time=max(clock.max_time - clock.seconds, 0.01))
            begun = time.perf_counter()
            model.fit(X, y, weight)
            before = model
            if see(level, model, time.perf_counter() - begun):
                break
        assert before is not None
        return before

    def chain(self, fold: int, count: int, clock: Clock) -> None:
        """All C of one number of prototypes on one fold."""
        if self.cells and clock.why_end() is not None:
            return
        train, test = self.folds[fold]
        X, y = _safe_split(self.base, self.X, self.y, train)
        X_test, y_test = _safe_split(self.base, self.X, self.y, test, train)
        if len(np.unique(y)) < 2:
            return
        weight = None if self.weight is None else self.weight[train]
        test_weight = None if self.weight is None else self.weight[test]

        def see(level: int, model: MultiPrototypeSVC, seconds: float) -> bool:
            is_over = clock.why_end() is not None
            if not (is_over and model.status_ == "max_time" and self.cells):
                wrong = model.predict(X_test) != y_test
                error = _mean(wrong, test_weight)
                self.note(fold, count, level, error, seconds, model)
            return is_over

        self.fit_path(X, y, weight, self.counts[count], self.Cs, see, clock)

    def note(
        self,
        fold: int,
        count: int,
        level: int,
        error: float,
        seconds: float,
        model: MultiPrototypeSVC,
    ) -> None:
        """Keep the figures of a fit, and of all models the best so far."""
        width = model.n_features_in_ if hasattr(model, "prototypes_") else len(model.support_)
        with self.lock:
            size = 4.0 * vectors_needed(model) * (width + 1)
            self.cells[count, level, fold] = Cell(error, seconds, size)
            if self.best is None or (error, count, level) < self.best[:3]:
                self.best = (error, count, level, model)
            if not self.verbose:
                return
            total = len(self.counts) * len(self.Cs) * len(self.folds)
            done = len(self.cells)
            left = (time.perf_counter() - self.started) * (total / done - 1.0)
            print(
                f"[polymargin] {done}/{total}  fold {fold + 1}  "
                f"{self.counts[count]} prototypes  C {self.Cs[level]:.3g}  "
                f"error {100.0 * error:.2f} %  about {left:.0f} s left",
                flush=True,
            )

    def results(self) -> dict[str, np.ndarray]:
        """The table of the search; cells of fewer folds than others do not win by chance."""
        shape = (len(self.counts), len(self.Cs), len(self.folds))
        errors = np.full(shape, np.nan)
        seconds = np.full(shape, np.nan)
        size = np.full(shape[:2], np.nan)
        for (count, level, fold), cell in self.cells.items():
            errors[count, level, fold] = cell.error
            seconds[count, level, fold] = cell.seconds
            size[count, level] = cell.model_bytes
        fold_errors = errors.reshape(-1, shape[2])
        known = ~np.isnan(fold_errors)
        enough = known.sum(axis=1)
        mean = np.full(len(fold_errors), np.nan)
        spread = np.full(len(fold_errors), np.nan)
        for k in np.flatnonzero(enough == enough.max(initial=0)):
            if enough[k]:
                mean[k] = fold_errors[k][known[k]].mean()
                spread[k] = fold_errors[k][known[k]].std()
        times = seconds.reshape(-1, shape[2])
        return {
            "n_prototypes": np.repeat(self.counts, len(self.Cs)),
            "C": np.tile(self.Cs, len(self.counts)),
            "error": mean,
            "spread": spread,
            "fold_errors": fold_errors,
            "seconds": np.where(known, times, 0.0).sum(axis=1) / np.maximum(enough, 1),
            "model_bytes": size.ravel(),
        }

    def final(self, count: int, C: float, max_time: float | None) -> MultiPrototypeSVC:
        levels = self.Cs[: self.Cs.index(C) + 1] if self.is_path else [C]
        return self.fit_path(
            self.X, self.y, self.weight, count, levels, lambda *_: False, Clock(max_time)
        )


def _mean(wrong: np.ndarray, weight: np.ndarray | None) -> float:
    if weight is None or not weight.any():
        return float(np.mean(wrong))
    return float(wrong @ weight / weight.sum())


def _filled(model: MultiPrototypeSVC) -> np.ndarray:
    """The assignment of a model; examples without weight, which do not count, get any prototype."""
    return np.maximum(model.assignment_, 0)
