"""The learned metric of linear prototypes: inner products <x, A z> with A made of prototypes.

Card.  The static problem of the first assignment, roughly solved, has prototypes W (R, d).  Their
second moment, shrunk towards the identity,

    A = s ((1 - lambda) W'W / ||W||^2 + lambda I / d),   tr(W A^-1 W') = ||W||^2 fixes s,

is the metric: directions that prototypes use become cheap, others dear.  It is one step of an
alternation between prototypes and metric, akin to multi-task feature learning (Argyriou, Evgeniou &
Pontil, Machine Learning 73 (2008) 243-272; there A is the square root of the second moment).  The
scale s keeps the meaning of C: the prototypes that were found cost as much as before.

A machine in the metric is the plain machine on the rows x A^{1/2}: solvers and judge know nothing
of it.  Its prototypes m act on features as m A^{1/2}, so a fitted model is as small and as fast as
any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polymargin.history import History
from polymargin.problem import Problem
from polymargin.solvers.base import Deadline, deferred_interrupt

__all__ = ["METRICS", "Metric", "learn_metric", "prototype_metric"]

METRICS = ("euclidean", "learned")

_SHRINKAGE = 0.1  # lambda: anything from .03 to .5 did as well on folds of USPS and LETTER
_ROUGH_TOL, _ROUGHER = 0.01, 10.0  # the problem that teaches: at most this gap, times the user's
_SHARE = 0.25  # of a time limit
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


def learn_metric(problem: Problem, seed: Any, cache_mb: float, deadline: Deadline) -> Metric:
    """The metric of the static problem as it stands, solved roughly in a part of the time.

    ``deadline`` is that of the whole fit, which hears of a Ctrl-C.
    """
    from polymargin.solvers.alternation import solve_prototypes

    d = problem.X.shape[1]
    if d > _MOST_FEATURES:
        raise ValueError(
            f"metric='learned' allows at most {_MOST_FEATURES} features, X has {d}; use "
            "metric='euclidean', or fewer features (PCA, TruncatedSVD)."
        )
    stop = deadline.stop
    limit = None if stop.max_time is None else _SHARE * stop.max_time
    rough = replace(stop, tol=min(_ROUGH_TOL, _ROUGHER * stop.tol), max_time=limit)
    # passes write to the assignment
    copy = replace(problem, own=problem.own.copy())
    clock = Deadline(rough)
    with deferred_interrupt(clock):
        found = solve_prototypes(copy, rough, History(), None, True, seed, cache_mb, clock)
    deadline.interrupted = clock.interrupted
    judgement = found.solution.judgement
    assert judgement.W is not None  # linear kernels have prototypes
    return prototype_metric(judgement.W * judgement.scale)
