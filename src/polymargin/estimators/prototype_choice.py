"""Parameters of prototypes that are "auto": few fits on a validation part of the training rows.

C on a warm path -> more or fewer prototypes -> a learned metric -> places of dead prototypes given
to classes with larger losses -> C once more.  Each step begins at the best of those before.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from polymargin.estimators.finishing import validation_split
from polymargin.estimators.size_plans import class_counts
from polymargin.problem.kernels import squared_norms
from polymargin.solvers.run import Clock

__all__ = ["Choice", "choose_parameters"]

MOST_FITS = 9  # before the final one
_START = 5  # prototypes per class
_UNIT_COSTS = (3.0, 10.0, 30.0)  # C in units of 1 / (mean ||x||^2 + 1)
_COST_STEP = 10.0**0.5
_LEAST_EXAMPLES = 4  # of a class per prototype
_MOST_ROWS = 12_000  # of the search
_SHARE = 0.6  # of max_time


@dataclass(eq=False)
class _Trial:
    """One fit of the search."""

    parameters: dict[str, Any]
    error: float
    seconds: float
    model: Any


@dataclass(eq=False)
class Choice:
    """Chosen parameters with what was tried."""

    parameters: dict[str, Any]
    trials: list[_Trial]
    seconds: float
    seconds_left: float | None

    def record(self) -> dict[str, Any]:
        """As the fitted attribute ``choice_``."""
        return {
            **self.parameters,
            "n_fits": len(self.trials) + 1,
            "seconds": self.seconds,
            "tried_n_prototypes": [len(t.model._prototype_class) for t in self.trials],
            "tried_C": [float(t.parameters["C"]) for t in self.trials],
            "tried_metric": [str(t.parameters["metric"]) for t in self.trials],
            "errors": [t.error for t in self.trials],
        }


@dataclass(eq=False)
class _Steps:
    """The search: data, what was tried, the best so far."""

    estimator: Any
    X: Any
    label: np.ndarray
    weight: np.ndarray | None
    train: np.ndarray
    test: np.ndarray
    clock: Clock
    seed: int
    trials: list[_Trial] = field(default_factory=list)

    @property
    def best(self) -> _Trial:
        """The lowest error; the earliest among equals, which is the simpler machine."""
        return min(self.trials, key=lambda trial: trial.error)

    @property
    def may_go_on(self) -> bool:
        return len(self.trials) < MOST_FITS and self.clock.why_end() is None

    def machine(self, **parameters: Any) -> Any:
        return clone(self.estimator).set_params(
            **parameters,
            finish=None,
            teacher=None,
            probabilities=None,
            calibration_folds=None,
            max_time=None,
            random_state=self.seed,
            verbose=0,
        )

    def see(self, model: Any, seconds: float) -> None:
        """Note the validation error of a fitted machine."""
        wrong = model.predict(self.X[self.test]) != self.label[self.test]
        share = None if self.weight is None else self.weight[self.test]
        names = ("n_prototypes", "C", "metric")
        parameters = {name: getattr(model, name) for name in names}
        self.trials.append(
            _Trial(parameters, float(np.average(wrong, weights=share)), seconds, model)
        )

    def attempt(self, **changes: Any) -> None:
        """One more fit, from the best parameters so far with some changes."""
        if not self.may_go_on:
            return
        started = time.perf_counter()
        model = self.machine(**(self.best.parameters | changes))
        weight = None if self.weight is None else self.weight[self.train]
        model.fit(self.X[self.train], self.label[self.train], sample_weight=weight)
        self.see(model, time.perf_counter() - started)

    def path(self, count: Any, metric: str, costs: list[float]) -> None:
        """C on a path of warm starts: that of ``MultiPrototypeSVCCV``."""
        from polymargin.estimators.multi_prototype_cv import PrototypeSearch

        base = self.machine(metric=metric)
        fold = [(self.train, self.test)]
        search = PrototypeSearch(
            base, self.X, self.label, self.weight, [count], costs, fold, True, 0
        )
        weight = None if self.weight is None else self.weight[self.train]

        def see(level: int, model: Any, seconds: float) -> bool:
            model.set_params(init=self.estimator.init, annealing=self.estimator.annealing)
            self.see(model, seconds)
            return not self.may_go_on

        X, label = self.X[self.train], self.label[self.train]
        search.fit_path(X, label, weight, count, costs, see)


def choose_parameters(
    estimator: Any, X: Any, y: np.ndarray, sample_weight: Any, seed: int
) -> Choice:
    """Values for ``n_prototypes``, ``C`` and ``metric`` where they are "auto".

    Parameters
    ----------
    estimator : MultiPrototypeSVC
    X, y, sample_weight
        The training rows.
    seed : int
    """
    started = time.perf_counter()
    limit = estimator.max_time
    clock = Clock(None if limit is None else _SHARE * float(limit))
    is_open = {n: _is_auto(getattr(estimator, n)) for n in ("n_prototypes", "C", "metric")}
    classes, label = np.unique(y, return_inverse=True)
    kernel_size = _typical(estimator, X)
    start = _start(estimator, is_open, label, kernel_size)
    split = validation_split(label, seed)
    steps = None
    if split is not None:
        train, test = split
        train, test = train[: _MOST_ROWS * 3 // 4], test[: _MOST_ROWS // 4]
        if len(np.unique(label[train])) == len(classes):
            weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
            steps = _Steps(estimator, X, label, weight, train, test, clock, seed)
            _search(steps, start, is_open, kernel_size)
    chosen = start if steps is None or not steps.trials else steps.best.parameters
    found = {name: chosen[name] for name, was_open in is_open.items() if was_open}
    seconds = time.perf_counter() - started
    left = None if limit is None else max(float(limit) - seconds, 0.05)
    return Choice(found, [] if steps is None else steps.trials, seconds, left)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _start(
    estimator: Any, is_open: dict[str, bool], label: np.ndarray, kernel_size: float
) -> dict[str, Any]:
    """Where the search begins, and what is taken where nothing can be validated."""
    most = max(1, int(np.bincount(label).min()) // _LEAST_EXAMPLES)
    return {
        "n_prototypes": min(_START, most) if is_open["n_prototypes"] else estimator.n_prototypes,
        "C": _UNIT_COSTS[1] / kernel_size if is_open["C"] else estimator.C,
        "metric": "euclidean" if is_open["metric"] else estimator.metric,
    }


def _typical(estimator: Any, X: Any) -> float:
    """Mean of kappa(x, x), by which C is measured."""
    if estimator.kernel == "precomputed":
        return max(float(np.mean(np.diagonal(X))), 1e-300)
    if estimator.kernel != "linear":
        return 1.0
    offset = 0.0 if estimator.intercept == "none" else float(estimator.intercept_scaling) ** 2
    return max(float(np.mean(squared_norms(X), dtype=np.float64)) + offset, 1e-300)


def _search(
    steps: _Steps, start: dict[str, Any], is_open: dict[str, bool], kernel_size: float
) -> None:
    costs = [c / kernel_size for c in _UNIT_COSTS] if is_open["C"] else [float(start["C"])]
    steps.path(start["n_prototypes"], start["metric"], costs)
    if is_open["n_prototypes"]:
        _try_counts(steps)
    if is_open["metric"] and steps.estimator.kernel == "linear":
        steps.attempt(metric="learned")
    if is_open["n_prototypes"]:
        _try_places(steps)
    if is_open["C"]:
        at = float(steps.best.parameters["C"])
        steps.attempt(C=at * _COST_STEP)
        if steps.best.parameters["C"] == at:
            steps.attempt(C=at / _COST_STEP)


def _try_counts(steps: _Steps) -> None:
    """Twice as many prototypes while it helps; fewer where the first step did not."""
    count = int(steps.best.parameters["n_prototypes"])
    most = max(1, int(np.bincount(steps.label[steps.train]).min()) // _LEAST_EXAMPLES)
    larger = [q for q in (2 * count, 4 * count) if q <= most]
    for q in larger:
        steps.attempt(n_prototypes=q)
        if steps.best.parameters["n_prototypes"] != q:
            break
    if steps.best.parameters["n_prototypes"] == count and count > 1:
        steps.attempt(n_prototypes=max(1, count // 2))


def _try_places(steps: _Steps) -> None:
    """Places of prototypes that win nothing, for classes with larger losses."""
    if not steps.may_go_on:
        return
    model = steps.best.model
    owner, alive = model._prototype_class, model.alive_
    Q = len(model.classes_)
    living = np.maximum(1, np.bincount(owner[alive], minlength=Q))
    if living.sum() == len(owner):
        return
    rows = steps.train
    slack = model.slacks(steps.X[rows], steps.label[rows])
    need = np.bincount(steps.label[rows], slack, minlength=Q)
    most = np.maximum(1, np.bincount(steps.label[rows], minlength=Q) // _LEAST_EXAMPLES)
    counts = class_counts(len(owner), need, np.maximum(most, living), living)
    steps.attempt(n_prototypes=counts)
