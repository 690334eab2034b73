"""The learned metric of linear prototypes: inner products ⟨x, A z⟩ with A made of prototypes.

Card.  The static problem of an assignment, roughly solved, has prototypes W (R, d).  Their second
moment, shrunk towards the identity,

    A = s ((1 - lambda) W'W / ||W||^2 + lambda I / d),   tr(W A^-1 W') = ||W||^2 fixes s,

is the metric: directions that prototypes use become cheap, others dear.  It is one step of an
alternation between prototypes and metric, akin to multi-task feature learning (Argyriou, Evgeniou &
Pontil, Machine Learning 73 (2008) 243-272; there A is the square root of the second moment).  The
scale s keeps the meaning of C: the prototypes that were found cost as much as before.

The first assignment gives a first metric.  Annealing begins in it; at a temperature of .15 C the
assignment reached gives the metric that stays, again by its static problem without a metric
(prototypes that were found in a metric would give a narrower one).

A machine in the metric is the plain machine on the rows x A^{1/2}: solvers and judge know nothing
of it.  Its prototypes m act on features as m A^{1/2}, so a fitted model is as small and as fast as
any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from polymargin.problem.annealing import Schedule
from polymargin.problem.problem import Problem
from polymargin.solvers.history import OuterCheck, Watcher
from polymargin.solvers.run import Run, deferred_interrupt

if TYPE_CHECKING:
    from polymargin.solvers.prototypes import PrototypeSolution

__all__ = ["METRICS", "LearnedMetric", "Metric", "learn_metric", "prototype_metric"]

METRICS = ("euclidean", "learned")

_SHRINKAGE = 0.1  # lambda: anything from .03 to .5 did as well on folds of USPS and LETTER
_WARM = 0.15  # temperature, in multiples of C, at which the metric is learnt a second time
_ROUGH_TOL, _ROUGHER = 0.01, 10.0  # the problems behind a metric: this gap at most, times tol
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
        """Map prototypes from feature space to the transformed rows (W A^-1/2)."""
        return np.linalg.solve(self.root, W.T).T

    def on_features(self, W: np.ndarray) -> np.ndarray:
        """Map prototypes of the transformed rows to feature space (W A^1/2)."""
        return W @ self.root

    def problem(self, problem: Problem) -> Problem:
        """The same problem with 1/2 tr(M A^-1 M') instead of 1/2 ||M||^2."""
        centre = problem.centre
        if centre is not None:
            centre = (self.prototypes(centre[0]), centre[1])
        return problem.changed(X=self.rows(problem.X), centre=centre)


def prototype_metric(W: np.ndarray) -> Metric:
    """The metric of prototypes W (R, d); that of Euclid where they are all zero."""
    d = W.shape[1]
    largest = float(np.abs(W).max(initial=0.0))
    if not 0.0 < largest < np.inf:
        return Metric.of(np.eye(d))
    W = W / 2.0 ** np.frexp(largest)[1]  # the metric does not depend on it, its squares fit
    norm2 = float((W**2).sum())
    A = (1.0 - _SHRINKAGE) / norm2 * (W.T @ W) + _SHRINKAGE / d * np.eye(d)
    cost = float((np.linalg.solve(A, W.T) * W.T).sum())
    return Metric.of(cost / norm2 * A)


@dataclass(frozen=True)
class LearnedMetric:
    """A metric and what was done for it: the assignment so far, the annealing that is left.

    ``found`` is the best model so far, in this metric, of a fit that has to end now.
    """

    metric: Metric
    own: np.ndarray
    schedule: Schedule | None
    passes: int
    found: PrototypeSolution | None = None


class _RoughSolves:
    """Rough solves on the clock of the fit, each with a part of its time and passes."""

    def __init__(self, run: Run, watchers: tuple[Watcher, ...]) -> None:
        self.run, self.watchers = run, watchers
        self.passes = 0

    def static(self, problem: Problem) -> PrototypeSolution:
        """The static problem of the assignment."""
        return self.solve(problem, None, _STATIC_SHARE)

    def solve(self, problem: Problem, schedule: Schedule | None, share: float) -> PrototypeSolution:
        from polymargin.solvers.prototypes import solve_prototypes

        tol = min(_ROUGH_TOL, _ROUGHER * self.run.stop.tol)
        part = self.run.part(share, tol=tol).watched_by(self.watchers, OuterCheck)
        with deferred_interrupt(part.clock):
            found = solve_prototypes(problem, part, schedule, is_static=schedule is None)
        self.passes += found.solution.iterations
        return found

    def cut_short(self, metric: Metric, found: PrototypeSolution) -> LearnedMetric:
        """What there is when the fit has to end while its metric is learned."""
        found.solution.status = self.run.why_end() or found.solution.status
        return LearnedMetric(metric, found.own, None, self.passes, found)


def learn_metric(
    problem: Problem, run: Run, schedule: Schedule | None, watchers: tuple[Watcher, ...] = ()
) -> LearnedMetric:
    """The metric of the first assignment; with annealing, again of a warm one.

    Parameters
    ----------
    problem : Problem
    run : Run
        Of the whole fit: learning the metric takes half of its time and passes at most.
    schedule : Schedule or None
        The annealing of the fit.  Its draws above a temperature of .15 C take place in the first
        metric, the others are left.
    watchers : functions of (check, snapshot)
        See the checks of the draws.
    """
    d = problem.X.shape[1]
    if d > _MOST_FEATURES:
        raise ValueError(
            f"metric='learned' allows at most {_MOST_FEATURES} features, X has {d}; use "
            "metric='euclidean', or fewer features (PCA, TruncatedSVD)."
        )
    rough = _RoughSolves(run, watchers)
    found = rough.static(problem)
    if run.why_end() is not None:
        return rough.cut_short(Metric.of(np.eye(d)), found)
    metric = _metric_of(found)
    if schedule is None or problem.has_one_prototype_per_class:
        return LearnedMetric(metric, problem.own, schedule, rough.passes)
    hot = schedule.temperatures > _WARM
    if not hot.any():
        return LearnedMetric(metric, problem.own, schedule, rough.passes)
    warm_up = schedule._replace(temperatures=schedule.temperatures[hot])
    found = rough.solve(metric.problem(problem), warm_up, _HOT_SHARE)
    if run.why_end() is not None:
        return rough.cut_short(metric, found)
    again = rough.static(problem.changed(own=found.own))
    if run.why_end() is not None:
        # the model of the draws: nothing is solved in the new metric yet
        return rough.cut_short(metric, found)
    left = schedule._replace(temperatures=schedule.temperatures[~hot])
    return LearnedMetric(_metric_of(again), found.own, left, rough.passes)


def _metric_of(found: PrototypeSolution) -> Metric:
    """The metric of the prototypes of a static problem."""
    judgement = found.solution.judgement
    assert judgement.W is not None  # linear kernels have prototypes
    return prototype_metric(judgement.W * judgement.scale)
