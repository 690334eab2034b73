"""``fit_into``: the best model of at most so many bytes, chosen by validation of rounded models.

scale -> split -> C -> plans (format, counts, features, projection) -> each: margin machine, rounded
smooth finish, validation error -> the best plan on all rows -> integers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import StratifiedShuffleSplit

from polymargin.estimators.finishing import CLEARLY_ONCE
from polymargin.estimators.number_formats import (
    BITS,
    CompactModel,
    Grid,
    RowGrids,
    compact,
    label_bytes,
    parse_size,
)
from polymargin.estimators.paired_validation import is_clearly_better
from polymargin.estimators.size_plans import SizeBudget, SizePlan, class_counts, plans_for
from polymargin.solvers.smooth_finish import FinishSettings, Parts, Rounding, finish

__all__ = ["CompactFit", "FeatureScale", "SizeSearch", "Trial", "fit_compact", "split_rows"]

_VALIDATION_SHARE, _MOST_VALIDATION = 0.25, 3000
_MOST_SEARCHED = 6000  # training rows of the search; the final fit uses all
_UNIT_COSTS = (3.0, 30.0)  # values of C tried, times the mean of ||x||^2 + 1
_ROUGH_TOL = 0.01  # tolerance of machines whose weights the finish moves
_SEARCH_SHARE = 0.6  # of max_time
_UNEQUAL = 8.0  # least ratio of spreads with one factor per feature
_FAR = 100.0  # least distance of a mean from 0, in spreads, with a shift per feature
# Plans are compared with the first jitter; the others are tried for the best one, None: no finish.
# Held-out rows of satimage, mean of nine plans: 11.7 % errors with it, 13.0 without jitter.
_FIRST_JITTER, _JITTERS = 0.2, (None, 0.1, 0.3)
_LEAST_STEPS, _EPOCHS, _MOST_EPOCHS = 800, 15, 200
_SHARPNESS = 8.0
_FINE_BITS = 8  # rounding after training to so many bits changes next to no label
_RATE = 0.05
# Of the stage whose numbers are rounded: with .03, or with half the epochs, weights that should
# move to the next of 15 levels do not get there (held-out training rows of LETTER, five per class:
# 1.0 points above float32; with a step per prototype and these 0.3).
_ROUNDED_RATE, _ROUNDED_EPOCHS = 0.06, 2
_ATTEMPTS = 3  # at the last stage, if it ends badly


@dataclass(frozen=True, eq=False)
class FeatureScale:
    """Z = (X - mean) * factor for training, and which of shift and factor the device applies."""

    mean: np.ndarray
    factor: np.ndarray
    has_factors: bool
    has_shifts: bool

    @classmethod
    def of(cls, X: np.ndarray) -> FeatureScale:
        with np.errstate(all="ignore"):
            return cls._measured(X)

    @classmethod
    def _measured(cls, X: np.ndarray) -> FeatureScale:
        mean, spread = X.mean(axis=0), X.std(axis=0)
        varying = spread > 0.0
        typical = float(np.sqrt((spread**2).mean())) or 1.0
        used = spread[varying] if varying.any() else np.ones(1)
        unequal = bool(np.quantile(used, 0.95) > _UNEQUAL * np.quantile(used, 0.05))
        factor = np.full(len(mean), 1.0 / typical)
        if unequal:
            factor = 1.0 / np.where(varying, spread, typical)
        far = bool((np.abs(mean[varying]) > _FAR * spread[varying]).any())
        single = factor.astype(np.float32).astype(np.float64)
        shift = mean.astype(np.float32).astype(np.float64)
        if not (np.isfinite(single).all() and single.all() and np.isfinite(shift).all()):
            raise ValueError(
                "X: fit_into keeps means and spreads of features in single precision, which cannot "
                "hold those of these data; scale the features of X to between 1e-30 and 1e30."
            )
        return cls(shift, single, unequal, far)

    def apply(self, X: np.ndarray) -> np.ndarray:
        return np.asarray((X - self.mean) * self.factor, dtype=np.float32)

    @property
    def per_feature(self) -> int:
        return 4 * (int(self.has_factors) + int(self.has_shifts))


@dataclass(frozen=True, eq=False)
class CompactFit:
    """Result of the search.

    ``base`` is the margin machine that the finish began from, ``tried`` the table of the search,
    ``C`` counted in features that were scaled to a spread of 1.
    """

    model: CompactModel
    base: Any
    tried: dict[str, list[Any]]
    settings: FinishSettings
    C: float
    interrupted: bool


class Trial(NamedTuple):
    """A plan that was tried: validation error, bytes, and what it came from."""

    error: float
    size: int
    plan: SizePlan
    settings: FinishSettings
    model: CompactModel
    base: Any


@dataclass
class SizeSearch:
    """Machines and rounded models of one search; ``deadline`` by ``time.perf_counter``."""

    estimator: Any
    Z: np.ndarray
    label: np.ndarray
    weight: np.ndarray | None
    classes: np.ndarray
    scale: FeatureScale
    budget: SizeBudget
    seed: int
    deadline: float
    bases: dict[Any, Any] = field(default_factory=dict)
    C: float = 1.0

    @property
    def is_over(self) -> bool:
        return time.perf_counter() > self.deadline

    def labels(self, rows: np.ndarray) -> np.ndarray:
        """The labels as given, which ``class_weight`` may name."""
        return np.asarray(self.classes[self.label[rows]])

    # -- margin machines -----------------------------------------------------------------------

    def base(self, counts: np.ndarray, rows: np.ndarray, C: float, tol: float = _ROUGH_TOL) -> Any:
        """A trained margin machine, kept for the same counts, rows and C."""
        key = (tuple(counts.tolist()), len(rows), C)
        if key not in self.bases:
            left = self.deadline - time.perf_counter()
            model = clone(self.estimator).set_params(
                fit_into=None,
                finish=None,
                n_prototypes=np.minimum(counts, np.bincount(self.label[rows])),
                C=C,
                tol=max(tol, float(self.estimator.tol)),
                max_time=None if np.isinf(left) else max(left, 0.05),
                random_state=self.seed,
                verbose=0,
            )
            weight = None if self.weight is None else self.weight[rows]
            self.bases[key] = model.fit(self.Z[rows], self.labels(rows), sample_weight=weight)
        return self.bases[key]

    def choose_C(self, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        """C by validation of a few prototypes per class; returns the need of each class."""
        typical = float((self.Z[train].astype(np.float64) ** 2).sum(axis=1).mean()) + 1.0
        Q = len(self.classes)
        counts = np.full(Q, min(3, self.budget.most // Q))
        best = np.inf
        need: np.ndarray = np.ones(Q)
        for cost in _UNIT_COSTS:
            if np.isfinite(best) and self.is_over:
                break
            model = self.base(counts, train, cost / typical)
            wrong = model.predict(self.Z[test]) != self.labels(test)
            if wrong.mean() < best:
                best, self.C = float(wrong.mean()), cost / typical
                slack = model.slacks(self.Z[train], self.labels(train))
                need = np.bincount(self.label[train], slack, minlength=Q)
        return np.sqrt(need / max(float(need.max()), 1e-300)) + 0.2

    # -- one plan ------------------------------------------------------------------------------

    def counts(self, plan: SizePlan, need: np.ndarray) -> np.ndarray:
        most = np.maximum(1, np.bincount(self.label, minlength=len(self.classes)) // 2)
        return class_counts(plan.n_prototypes, need, most)

    def shape(self, plan: SizePlan, base: Any, rows: np.ndarray) -> tuple[Parts, np.ndarray | None]:
        """Weights of the base on the kept features, split by a projection where there is one."""
        W, kept = base.prototypes_.astype(np.float64), None
        if plan.n_kept < self.Z.shape[1]:
            spread = self.Z[rows].std(axis=0)
            # contribution of a column to differences of scores
            effect = spread * (W - W.mean(axis=0)).std(axis=0)
            kept = np.sort(np.argsort(-effect, kind="stable")[: plan.n_kept])
            W = W[:, kept]
        if plan.n_inner is None:
            return Parts(W, base.intercept_), kept
        Z = self.Z[rows][:, slice(None) if kept is None else kept]
        return _projected(W, base.intercept_, Z, plan.n_inner, self.seed), kept

    def rounded(
        self,
        plan: SizePlan,
        base: Any,
        rows: np.ndarray,
        settings: FinishSettings,
        attempt: int = 0,
    ) -> CompactModel:
        """The compact model of a base after a finish in the numbers of the plan."""
        parts, kept = self.shape(plan, base, rows)
        weight = None if self.weight is None else self.weight[rows]
        Z = self.Z[rows][:, slice(None) if kept is None else kept]
        owner = base._prototype_class
        settings = replace(settings, epochs=_epochs(len(rows)), seed=self.seed + attempt)

        def train(start: Parts, how: FinishSettings, rounding: Rounding | None = None) -> Parts:
            label = self.label[rows]
            return finish(start, Z, label, owner, how, rounding, weight, lambda: self.is_over)

        done = parts if settings.rate == 0.0 else train(parts, settings)
        grid: Grid | RowGrids = Grid.of(done.weights, plan.number_format)
        if plan.has_own_steps:
            grid = RowGrids.of(done.weights, plan.has_table)
        inner = None
        if done.projection is not None:
            inner = Grid.of(done.projection, plan.number_format)
        rounding = Rounding(grid.round, None if inner is None else inner.round)
        if BITS[plan.number_format] < _FINE_BITS:
            epochs = _ROUNDED_EPOCHS * settings.epochs
            how = replace(settings, rate=_ROUNDED_RATE, epochs=epochs)
            done = train(done, how, rounding)
        return self._record(rounding(done), (grid, inner), plan, owner, kept)

    def last(self, chosen: Trial, base: Any) -> CompactModel:
        """The chosen plan trained on all rows.

        Stochastic gradient steps in few bits end badly now and then (satimage, 240 prototypes in
        int4: 8.9 % of the training rows wrong instead of 4 to 5).  Such an end shows on the
        training rows: where the model of the search, which saw fewer of them, is clearly better,
        another order of visits is tried, and in the end the model of the search stays.
        """
        rows = np.arange(len(self.label))
        found = [chosen.model]
        before = self.wrong(chosen.model, rows)
        for attempt in range(_ATTEMPTS):
            model = self.rounded(chosen.plan, base, rows, chosen.settings, attempt)
            if not is_clearly_better(before, self.wrong(model, rows), self.weight, CLEARLY_ONCE):
                return model
            found.append(model)
            if self.is_over:
                break
        return min(found, key=lambda one: self.error(one, rows))

    def _record(
        self, parts: Parts, grids: Any, plan: SizePlan, owner: np.ndarray, kept: np.ndarray | None
    ) -> CompactModel:
        columns = slice(None) if kept is None else kept
        mean, factor = self.scale.mean[columns], self.scale.factor[columns]
        b, scaled = parts.intercepts, parts.on_features()
        if not self.scale.has_shifts:
            b = b - (scaled * factor) @ mean
        grid, inner = grids
        common = 1.0 if self.scale.has_factors else float(factor[0])
        found = compact(
            parts.weights,
            b,
            parts.projection,
            (grid, inner),
            plan.number_format,
            owner,
            {
                "n_features": self.Z.shape[1],
                "features": kept,
                "shift": mean if self.scale.has_shifts else None,
                "factor": factor if self.scale.has_factors else None,
            },
        )
        return replace(found, step=float(np.float32(found.step * common)))

    def winners(self, model: CompactModel, rows: np.ndarray) -> np.ndarray:
        """The prototype of the integers that wins each row."""
        W, b = model.on_features()
        X = self.Z[rows] / self.scale.factor + self.scale.mean
        return np.asarray((X @ W.T + b).argmax(axis=1))

    def without_dead(self, model: CompactModel) -> CompactModel:
        """Drop prototypes that win no training row; a class keeps at least one."""
        owner = model.prototype_class
        wins = np.bincount(self.winners(model, np.arange(len(self.label))), minlength=len(owner))
        keep = wins > 0
        for c in range(len(self.classes)):
            mine = np.flatnonzero(owner == c)
            keep[mine[0]] |= not keep[mine].any()
        return replace(
            model,
            weights=model.weights[keep],
            intercepts=model.intercepts[keep],
            prototype_class=owner[keep],
            multipliers=None if model.multipliers is None else model.multipliers[keep],
        )

    def wrong(self, model: CompactModel, rows: np.ndarray) -> np.ndarray:
        """Whether the integers themselves give a wrong label."""
        return np.asarray(model.prototype_class[self.winners(model, rows)] != self.label[rows])

    def error(self, model: CompactModel, rows: np.ndarray) -> float:
        """Share of wrong labels."""
        weight = None if self.weight is None else self.weight[rows]
        return float(np.average(self.wrong(model, rows), weights=weight))


def fit_compact(
    estimator: Any,
    X: Any,
    label: np.ndarray,
    weight: np.ndarray | None,
    classes: np.ndarray,
    seed: int,
) -> CompactFit:
    """Search and final fit.

    Parameters
    ----------
    estimator : MultiPrototypeSVC
        Where all other parameters come from.
    X : ndarray or CSR matrix of shape (n, d)
    label : ndarray of shape (n,)
        Class numbers.
    weight : ndarray of shape (n,) or None
    classes : ndarray of shape (Q,)
        Labels, whose bytes count.
    seed : int
    """
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    scale = FeatureScale.of(X)
    rarest = int(np.bincount(label).min())
    budget = SizeBudget(
        parse_size(estimator.fit_into),
        X.shape[1],
        len(classes),
        scale.per_feature,
        label_bytes(classes),
        rarest,
    )
    plans = plans_for(budget)
    started, limit = time.perf_counter(), estimator.max_time
    deadline = np.inf if limit is None else started + _SEARCH_SHARE * float(limit)
    search = SizeSearch(
        estimator, scale.apply(X), label, weight, classes, scale, budget, seed, deadline
    )
    train, test = split_rows(label, seed)
    tried: dict[str, list[Any]] = {
        "plan": [],
        "jitter": [],
        "error": [],
        "bytes": [],
        "seconds": [],
    }
    found: list[Trial] = []

    def trial(plan: SizePlan, jitter: float | None) -> None:
        begun = time.perf_counter()
        base = search.base(search.counts(plan, need), train, search.C)
        settings = FinishSettings(_SHARPNESS, jitter or 0.0, rate=0.0 if jitter is None else _RATE)
        model = search.rounded(plan, base, train, settings)
        error, size = search.error(model, test), model.n_bytes(classes)
        found.append(Trial(error, size, plan, settings, model, base))
        row = (plan.words(X.shape[1]), jitter, error, size, time.perf_counter() - begun)
        for name, value in zip(tried, row, strict=True):
            tried[name].append(value)
        if estimator.verbose:
            print(
                f"[polymargin] {row[0]}, jitter {jitter}: {100.0 * error:.2f} % of {len(test)} "
                f"validation rows wrong, {size} bytes",
                flush=True,
            )

    def best() -> Trial:
        """The plan of least error; another jitter only where it is clearly better."""
        first = [one for one in found if one.settings.jitter == _FIRST_JITTER]
        stands = min(first, key=lambda one: (one.error, one.size))
        for other in found[len(first) :]:
            than = search.wrong(stands.model, test)
            wrong = search.wrong(other.model, test)
            share = None if weight is None else weight[test]
            stands = other if is_clearly_better(wrong, than, share, CLEARLY_ONCE) else stands
        return stands

    try:
        need = search.choose_C(train, test)
        for plan in plans:
            if found and search.is_over:
                break
            trial(plan, _FIRST_JITTER)
        leader = best()
        for jitter in _JITTERS:
            if not search.is_over:
                trial(leader.plan, jitter)
        chosen = best()
        search.deadline = np.inf if limit is None else started + float(limit)
        everything = np.arange(len(label))
        base = search.base(search.counts(chosen.plan, need), everything, search.C, 0.0)
        model = search.without_dead(search.last(chosen, base))
        tried["chosen"] = [one is chosen for one in found]
        return CompactFit(model, base, tried, chosen.settings, search.C, False)
    except KeyboardInterrupt:
        if not found:
            raise
        chosen = best()
        tried["chosen"] = [one is chosen for one in found]
        return CompactFit(chosen.model, chosen.base, tried, chosen.settings, search.C, True)


def split_rows(label: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train and to validate; classes of one example are in both."""
    counts = np.bincount(label)
    n, Q = len(label), len(counts)
    n_test = max(Q, min(_MOST_VALIDATION, int(_VALIDATION_SHARE * n)))
    if counts.min() < 2 or n - n_test < Q:
        return np.arange(n), np.arange(n)
    n_train = min(_MOST_SEARCHED, n - n_test)
    splitter = StratifiedShuffleSplit(1, test_size=n_test, train_size=n_train, random_state=seed)
    return next(splitter.split(label, label))


def _epochs(n: int) -> int:
    """Enough steps of 256 examples for small tables too."""
    return int(np.clip(-(-_LEAST_STEPS * 256 // n), _EPOCHS, _MOST_EPOCHS))


def _projected(W: np.ndarray, b: np.ndarray, Z: np.ndarray, k: int, seed: int) -> Parts:
    """W as V P with P (k, d): the directions that matter most for differences of scores.

    A random rotation among the inner features spreads what the first directions carry, so that one
    grid of numbers serves all of them.
    """
    covariance = np.cov(Z, rowvar=False).reshape(Z.shape[1], -1) + 1e-6 * np.eye(Z.shape[1])
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 1e-6 * float(values.max()))
    root = (vectors * np.sqrt(values)) @ vectors.T
    middle = W.mean(axis=0)
    right = np.linalg.svd((W - middle) @ root, full_matrices=False)[2][:k]
    k = len(right)
    back = (vectors / np.sqrt(values)) @ vectors.T
    P, V = right @ back, (W - middle) @ root @ right.T
    rotation = np.linalg.qr(np.random.default_rng(seed).standard_normal((k, k)))[0]
    size = np.sqrt((P**2).mean()) or 1.0
    return Parts(V @ rotation.T * size, b, rotation @ P / size)
