"""The learned metric of linear prototypes: inner products ⟨x, A z⟩ with A made of prototypes.

Card.  The static problem of an assignment, roughly solved, has prototypes W (R, d).  Their second
moment, shrunk towards the identity,

    A = s ((1 - lambda) W'W / ||W||^2 + lambda I / d),   tr(W A^-1 W') = ||W||^2 fixes s,

is the metric: directions that prototypes use become cheap, others dear.  It is one step of an
alternation between prototypes and metric, akin to multi-task feature learning (Argyriou, Evgeniou &
Pontil, Machine Learning 73 (2008) 243-272; there A is the square root of the second moment).  The
scale s keeps the meaning of C: the prototypes that were found cost as much as before.

The first assignment teaches a first metric.  Annealing begins in it; at a temperature of .15 C
the assignment reached teaches the metric that stays, again by its static problem without a metric
(prototypes that were found in a metric would teach a narrower one).

A machine in the metric is the plain machine on the rows x A^{1/2}: solvers and judge know nothing
of it.  Its prototypes m act on features as m A^{1/2}, so a fitted model is as small and as fast as
any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polymargin.problem.annealing import Schedule
from polymargin.problem.problem import Problem
from polymargin.solvers.history import History, OuterCheck, Watcher
from polymargin.solvers.run import Deadline, Stop, deferred_interrupt

if TYPE_CHECKING:
    from polymargin.solvers.prototypes import PrototypeSolution

__all__ = ["METRICS", "Lesson", "Metric", "learn_metric", "prototype_metric"]

METRICS = ("euclidean", "learned")

_SHRINKAGE = 0.1  # lambda: anything from .03 to .5 did as well on folds of USPS and LETTER
_WARM = 0.15  # temperature, in multiples of C, at which the metric is learnt a second time
_ROUGH_TOL, _ROUGHER = 0.01, 10.0  # the problems that teach: at most this gap, times the user's
_STATIC_SHARE, _HOT_SHARE = 0.125, 0.25  # of time and passes: each static problem, the hot draws
_MOST_FEATURES = 4000  # A has a square of them, and its root takes their cube


@dataclass(frozen=True)
class Metric:
    """A symmetric positive definite matrix A with its root."""

    matrix: np.ndarray
    root: np.ndarray

    @classmethod
    def of(cls, matrix: np.ndarray) -> Metric:
        values, vectors = np.linalg.eigh(matrix)
        return cls(matrix, (vectors * np.sqrt(values)) @ vectors.T)

    def rows(self, X: Any) -> np.ndarray:
        """The rows x A^{1/2}, dense and in the dtype of X."""
        return np.ascontiguousarray(X @ self.root.astype(X.dtype))

    def prototypes(self, W: np.ndarray) -> np.ndarray:
        """What prototypes that act on features are among such rows."""
        return np.linalg.solve(self.root, W.T).T

    def on_features(self, W: np.ndarray) -> np.ndarray:
        """What prototypes of such rows are among features; the inverse of ``prototypes``."""
        return W @ self.root

    def problem(self, problem: Problem) -> Problem:
        """The same problem with 1/2 tr(M A^-1 M') instead of 1/2 ||M||^2."""
        centre = problem.centre
        if centre is not None:
            centre = (self.prototypes(centre[0]), centre[1])
        return replace(problem, X=self.rows(problem.X), centre=centre)


def prototype_metric(W: np.ndarray) -> Metric:
    """The metric of prototypes W (R, d); that of Euclid where they are all zero."""
    d = W.shape[1]
    norm2 = float((W**2).sum())
    if not 0.0 < norm2 < np.inf:
        return Metric.of(np.eye(d))
    A = (1.0 - _SHRINKAGE) / norm2 * (W.T @ W) + _SHRINKAGE / d * np.eye(d)
    cost = float((np.linalg.solve(A, W.T) * W.T).sum())
    return Metric.of(cost / norm2 * A)


@dataclass(frozen=True)
class Lesson:
    """A metric and what was done for it: the assignment so far, the annealing that is left.

    ``found`` is the best model so far, in this metric, of a fit that has to end now.
    """

    metric: Metric
    own: np.ndarray
    schedule: Schedule | None
    passes: int
    found: PrototypeSolution | None = None


class _Teacher:
    """Rough solves on the clock of the fit, each with a part of its time and passes."""

    def __init__(
        self, seed: Any, cache_mb: float, deadline: Deadline, watchers: tuple[Watcher, ...]
    ) -> None:
        self.seed = seed
        self.cache_mb = cache_mb
        self.deadline = deadline
        self.watchers = watchers
        self.passes = 0

    def static(self, problem: Problem) -> PrototypeSolution:
        return self.solve(problem, None, _STATIC_SHARE)

    def solve(self, problem: Problem, schedule: Schedule | None, share: float) -> PrototypeSolution:
        from polymargin.solvers.prototypes import solve_prototypes

        stop, now = self.deadline.stop, self.deadline.seconds
        rough = Stop(
            min(_ROUGH_TOL, _ROUGHER * stop.tol),
            max(1, int(share * stop.max_iter)),
            None if stop.max_time is None else now + share * stop.max_time,
        )
        clock = Deadline(rough)
        clock.started = self.deadline.started
        clock.interrupted = self.deadline.interrupted
        # passes write to the assignment
        copy = replace(problem, own=problem.own.copy())
        history = History(self.watchers, OuterCheck)
        is_static = schedule is None
        with deferred_interrupt(clock):
            found = solve_prototypes(
                copy, rough, history, schedule, is_static, self.seed, self.cache_mb, clock
            )
        self.deadline.interrupted = clock.interrupted
        self.passes += found.solution.iterations
        return found


def learn_metric(
    problem: Problem,
    schedule: Schedule | None,
    seed: Any,
    cache_mb: float,
    deadline: Deadline,
    watchers: tuple[Watcher, ...] = (),
) -> Lesson:
    """The metric of the first assignment; with annealing, again of a warm one.

    Parameters
    ----------
    schedule : Schedule or None
        The annealing of the fit.  Its draws above a temperature of .15 C take place in the first
        metric, the others are left.
    deadline : Deadline
        Of the whole fit: lessons take half of its time and passes at most, and it hears of a
        Ctrl-C.
    watchers : functions of (check, snapshot)
        See the checks of the draws.
    """
    d = problem.X.shape[1]
    if d > _MOST_FEATURES:
        raise ValueError(
            f"metric='learned' allows at most {_MOST_FEATURES} features, X has {d}; use "
            "metric='euclidean', or fewer features (PCA, TruncatedSVD)."
        )
    teacher = _Teacher(seed, cache_mb, deadline, watchers)
    found = teacher.static(problem)
    if deadline.why_end() is not None:
        return _cut_short(Metric.of(np.eye(d)), found, teacher)
    metric = _metric_of(found)
    if schedule is None or problem.has_one_prototype_per_class:
        return Lesson(metric, problem.own, schedule, teacher.passes)
    hot = schedule.temperatures > _WARM
    if not hot.any():
        return Lesson(metric, problem.own, schedule, teacher.passes)
    warm_up = schedule._replace(temperatures=schedule.temperatures[hot])
    found = teacher.solve(metric.problem(problem), warm_up, _HOT_SHARE)
    if deadline.why_end() is not None:
        return _cut_short(metric, found, teacher)
    again = teacher.static(replace(problem, own=found.own))
    if deadline.why_end() is not None:
        # the model of the draws: nothing is solved in the new metric yet
        return _cut_short(metric, found, teacher)
    left = schedule._replace(temperatures=schedule.temperatures[~hot])
    return Lesson(_metric_of(again), found.own, left, teacher.passes)


def _metric_of(found: PrototypeSolution) -> Metric:
    """The metric of the prototypes of a static problem."""
    judgement = found.solution.judgement
    assert judgement.W is not None  # linear kernels have prototypes
    return prototype_metric(judgement.W * judgement.scale)


def _cut_short(metric: Metric, found: PrototypeSolution, teacher: _Teacher) -> Lesson:
    """What there is when the fit has to end during a lesson."""
    found.solution.status = teacher.deadline.why_end() or found.solution.status
    return Lesson(metric, found.own, None, teacher.passes, found)
