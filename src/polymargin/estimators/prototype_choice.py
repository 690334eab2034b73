"""Parameters of prototypes that are "auto": a few fits on parts of the training rows.

The setting is replaced where another one is clearly better on the same validation rows, in this
order: C -> more or fewer prototypes -> a learned metric -> places of unused prototypes moved to
classes with larger losses -> C once more -> the jitter of a smooth finish.  Few rows are validated
in three folds; a setting that is not better on the first fold is not tried on the others.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from polymargin.estimators.finishing import (
    CLEARLY,
    CLEARLY_ONCE,
    JITTERS,
    FinishValue,
    finish_errors,
)
from polymargin.estimators.paired_validation import is_clearly_better, validation_parts
from polymargin.estimators.size_plans import class_counts
from polymargin.problem.encoding import sample_weights
from polymargin.problem.kernels import squared_norms
from polymargin.solvers.run import Clock

__all__ = ["Choice", "choose_parameters"]

MOST_WORK = 9.0  # rows trained on before the final fit, in multiples of all rows
_START, _FIRST_COST = 5, 10.0  # prototypes per class; C in units of 1 / (mean ||x||^2 + 1)
_COST_STEP = 10.0**0.5
_LEAST_EXAMPLES = 2  # of a class per prototype
_MOST_ROWS = 12_000  # of the search
_MOST_FOLDED = 2_000  # rows with three folds; with more a quarter of them validates
_SHARE = 0.6  # of max_time


@dataclass(eq=False)
class _Setting:
    """Parameters with the validation errors that they made in each fold."""

    parameters: dict[str, Any]
    per_class: int | None  # prototypes, where the search sets them
    wrong: dict[int, np.ndarray] = field(default_factory=dict)
    models: dict[int, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Choice:
    """Chosen parameters with what was tried."""

    parameters: dict[str, Any]
    seconds: float
    seconds_left: float | None
    tried: dict[str, list[Any]]
    n_fits: int
    work: float
    finishes: dict[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """As the fitted attribute ``choice_``."""
        return {
            **self.parameters,
            "n_fits": self.n_fits + 1,
            "work": self.work + 1.0,
            "seconds": self.seconds,
            **self.tried,
            **self.finishes,
        }


@dataclass(eq=False)
class _Search:
    """Data, the settings tried, and ``best``, the present setting."""

    estimator: Any
    X: Any
    y: np.ndarray
    label: np.ndarray
    weight: np.ndarray | None
    folds: list[tuple[np.ndarray, np.ndarray]]
    clock: Clock
    seed: int
    best: _Setting
    tried: list[_Setting] = field(default_factory=list)
    n_fits: int = 0
    work: float = 0.0

    @property
    def clearly(self) -> float:
        return CLEARLY if len(self.folds) > 1 else CLEARLY_ONCE

    def can_afford(self, settings: list[_Setting], folds: range) -> bool:
        """Whether the fits still missing for these settings and folds are within time and work."""
        missing = sum(
            len(self.folds[k][0]) / len(self.y)
            for one in settings
            for k in folds
            if k not in one.wrong
        )
        return self.work + missing <= MOST_WORK and self.clock.why_end() is None

    def see(self, setting: _Setting, k: int) -> None:
        """Train on a fold and note the errors on its validation rows."""
        if k in setting.wrong:
            return
        train, test = self.folds[k]
        parameters = dict(setting.parameters)
        counts = parameters["n_prototypes"]
        if isinstance(counts, np.ndarray):
            present = np.bincount(self.label[train], minlength=len(counts))
            parameters["n_prototypes"] = np.minimum(counts, present)
        model = clone(self.estimator).set_params(
            **parameters,
            init=self.estimator.init if isinstance(self.estimator.init, str) else "auto",
            finish=None,
            teacher=None,
            probabilities=None,
            calibration_folds=None,
            max_time=None,
            random_state=self.seed,
            verbose=0,
        )
        weight = None if self.weight is None else self.weight[train]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the final fit warns of all rows
            model.fit(_part(self.X, train, train, model), self.y[train], sample_weight=weight)
        rows = _part(self.X, test, train, model)
        setting.wrong[k] = np.asarray(model.predict(rows) != self.y[test])
        setting.models[k] = model
        self.n_fits += 1
        self.work += len(train) / len(self.y)

    def challenge(self, per_class: int | None = None, **changes: Any) -> bool:
        """Compare another setting with the present one; whether it took its place."""
        now = self.best
        per_class = now.per_class if per_class is None else per_class
        other = _Setting(now.parameters | changes, per_class)
        if not self.can_afford([now, other], range(1)):
            return False
        self.see(other, 0)
        self.tried.append(other)
        if not self.is_better(other, now, range(1), 0.0):
            return False
        every = range(len(self.folds))
        if not self.can_afford([now, other], every):
            return False
        for k in every:
            self.see(now, k)
            self.see(other, k)
        if self.is_better(other, now, every, self.clearly):
            self.best = other
            return True
        return False

    def is_better(self, a: _Setting, b: _Setting, folds: range, clearly: float) -> bool:
        return is_clearly_better(
            np.concatenate([a.wrong[k] for k in folds]),
            np.concatenate([b.wrong[k] for k in folds]),
            self.weights(folds),
            clearly,
        )

    def weights(self, folds: Any) -> np.ndarray | None:
        """Weights of the validation rows of some folds."""
        if self.weight is None:
            return None
        return np.concatenate([self.weight[self.folds[k][1]] for k in folds])

    def error(self, setting: _Setting) -> float:
        """Mean over all folds that a setting has seen."""
        wrong = np.concatenate(list(setting.wrong.values()))
        return float(np.average(wrong, weights=self.weights(setting.wrong)))

    def record(self) -> dict[str, list[Any]]:
        """Equally long lists of what was tried."""
        return {
            "tried_n_prototypes": [
                len(next(iter(one.models.values()))._prototype_class) for one in self.tried
            ],
            "tried_C": [float(one.parameters["C"]) for one in self.tried],
            "tried_metric": [str(one.parameters["metric"]) for one in self.tried],
            "tried_folds": [len(one.wrong) for one in self.tried],
            "errors": [self.error(one) for one in self.tried],
        }


def _part(X: Any, rows: np.ndarray, train: np.ndarray, model: Any) -> Any:
    """Rows of X; of a precomputed kernel their values with the training rows."""
    return X[np.ix_(rows, train)] if model.kernel == "precomputed" else X[rows]


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
    label = np.unique(y, return_inverse=True)[1]
    weight = None
    if sample_weight is not None:
        weight = sample_weights(sample_weight, y)
    start = _start(estimator, is_open, X, label)
    folds = _split(label, weight, seed)
    search = _Search(estimator, X, y, label, weight, folds, clock, seed, start)
    finishes: dict[str, Any] = {}
    if folds:
        _search(search, is_open)
    chosen = search.best.parameters
    found = {name: chosen[name] for name, was_open in is_open.items() if was_open}
    if search.tried and _has_open_finish(estimator):
        found["finish"], finishes = _try_finishes(search)
    seconds = time.perf_counter() - started
    left = None if limit is None else max(float(limit) - seconds, 0.05)
    record, n_fits, work = search.record(), search.n_fits, search.work
    return Choice(found, seconds, left, record, n_fits, work, finishes)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _split(
    label: np.ndarray, weight: np.ndarray | None, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to train on and to validate with, one pair per fold; none where there are too few."""
    some = np.arange(len(label)) if weight is None else np.flatnonzero(weight > 0.0)
    if len(some) > _MOST_ROWS:
        some = np.sort(np.random.default_rng(seed).permutation(some)[:_MOST_ROWS])
    present, kept = np.unique(label[some], return_inverse=True)
    if len(present) <= label.max() or np.bincount(kept).max() < 2:
        return []
    tests = validation_parts(kept, _MOST_FOLDED, seed)
    return [(np.delete(some, test), some[test]) for test in tests]


# -- settings --------------------------------------------------------------------------------------


def _start(estimator: Any, is_open: dict[str, bool], X: Any, label: np.ndarray) -> _Setting:
    """The first setting of the search, which is the choice where nothing can be validated."""
    count: Any = estimator.n_prototypes
    parameters = {
        "n_prototypes": _counts(_START, label) if is_open["n_prototypes"] else count,
        "C": _FIRST_COST / _typical(estimator, X) if is_open["C"] else estimator.C,
        "metric": "euclidean" if is_open["metric"] else estimator.metric,
    }
    return _Setting(parameters, _START if is_open["n_prototypes"] else None)


def _counts(per_class: int, label: np.ndarray) -> np.ndarray:
    """Prototypes of each class, fewer where it has few examples."""
    return np.minimum(per_class, np.maximum(1, np.bincount(label) // _LEAST_EXAMPLES))


def _typical(estimator: Any, X: Any) -> float:
    """Mean of kappa(x, x), the unit of 1 / C."""
    if estimator.kernel == "precomputed":
        return max(float(np.mean(np.diagonal(X))), 1e-300)
    if estimator.kernel != "linear":
        return 1.0
    offset = 0.0 if estimator.intercept == "none" else float(estimator.intercept_scaling) ** 2
    return max(float(np.mean(squared_norms(X), dtype=np.float64)) + offset, 1e-300)


def _search(search: _Search, is_open: dict[str, bool]) -> None:
    search.see(search.best, 0)
    search.tried.append(search.best)
    if is_open["C"]:
        _try_costs(search)
    if is_open["n_prototypes"]:
        _try_counts(search)
    if is_open["metric"] and search.estimator.kernel == "linear":
        search.challenge(metric="learned")
    if is_open["n_prototypes"]:
        _try_places(search)
    if is_open["C"] and search.best is not search.tried[0]:
        _try_costs(search)


def _try_costs(search: _Search) -> None:
    """A smaller C, or else a larger one, and on in that direction while it helps."""
    for step in (1.0 / _COST_STEP, _COST_STEP):
        moved = False
        while _is_new(search, C=search.best.parameters["C"] * step) and search.challenge(
            C=search.best.parameters["C"] * step
        ):
            moved = True
        if moved:
            break


def _is_new(search: _Search, C: float) -> bool:
    """Whether the present setting has not been tried with this C."""
    wanted = search.best.parameters | {"C": C}
    return not any(
        np.isclose(one.parameters["C"], C)
        and one.parameters["metric"] == wanted["metric"]
        and np.array_equal(one.parameters["n_prototypes"], wanted["n_prototypes"])
        for one in search.tried
    )


def _try_counts(search: _Search) -> None:
    """Twice as many prototypes while it helps; fewer where the first step did not."""
    label = search.label

    def attempt(per_class: int) -> bool:
        counts = _counts(per_class, label)
        is_new = not np.array_equal(counts, search.best.parameters["n_prototypes"])
        return is_new and search.challenge(per_class, n_prototypes=counts)

    if attempt(2 * _START):
        attempt(4 * _START)
    elif attempt(_START // 2):
        attempt(1)


def _try_places(search: _Search) -> None:
    """Move places of prototypes that win no example to classes with larger losses."""
    model, (rows, _) = search.best.models[0], search.folds[0]
    owner, alive = model._prototype_class, model.alive_
    Q = len(model.classes_)
    living = np.maximum(1, np.bincount(owner[alive], minlength=Q))
    if living.sum() == len(owner):
        return
    label = search.label[rows]
    slack = model.slacks(_part(search.X, rows, rows, model), search.y[rows])
    need = np.bincount(label, slack, minlength=Q)
    most = np.maximum(1, np.bincount(label, minlength=Q) // _LEAST_EXAMPLES)
    counts = class_counts(len(owner), need, np.maximum(most, living), living)
    search.challenge(n_prototypes=counts)


# -- the finish ------------------------------------------------------------------------------------


def _has_open_finish(estimator: Any) -> bool:
    return _is_auto(estimator.finish) and estimator.teacher is None and estimator.fit_into is None


def _try_finishes(search: _Search) -> tuple[FinishValue | None, dict[str, Any]]:
    """The jitter of a finish, None for none; no further machine is trained.

    The best of several strengths on the first fold must be clearly better than no finish on all
    folds that the present machine has seen.
    """
    best = search.best

    def wrong(k: int, jitter: FinishValue) -> np.ndarray:
        train, test = search.folds[k]
        weight = None if search.weight is None else search.weight[train]
        given = (search.X[train], search.label[train], weight)
        model = best.models[k]
        return finish_errors(model, given, search.X[test], search.label[test], jitter, search.seed)

    first = [wrong(0, jitter) for jitter in JITTERS]
    share = search.weights([0])
    errors = [float(np.average(one, weights=share)) for one in first]
    leader = int(np.argmin(errors))
    folds = sorted(best.wrong)
    after = [first[leader], *(wrong(k, JITTERS[leader]) for k in folds if k)]
    before = np.concatenate([best.wrong[k] for k in folds])
    clearly = CLEARLY if len(folds) > 1 else CLEARLY_ONCE
    helps = is_clearly_better(np.concatenate(after), before, search.weights(folds), clearly)
    plain = float(np.average(best.wrong[0], weights=share))
    record = {"tried_jitter": [None, *JITTERS], "finish_errors": [plain, *errors]}
    return (JITTERS[leader] if helps else None), record
