"""Fits of AutoSVC's race: one candidate on some rows, warm started from one with another C.

Dual variables of a machine with C, times C'/C, are feasible with C', and near its solution: every
cap is proportional to C.  On 700 rows of three tables (survey, vehicle, xor) such starts saved 20,
59 and 54 % of the time of six RBF machines; without the factor 6, 41 and 21 %.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from polymargin.estimators.auto_candidates import Candidate, Table
from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.solvers.run import Clock

__all__ = ["Trainer", "WarmStart", "chain_of"]

_SEARCH_TOL = 1e-2  # tolerance of the fits of the race: labels hardly change below it
_FIT_SHARE = 6.0  # a fit of the race may take a sixth of the budget,
_FIT_RATIO = 8.0  # or this many times the median of the fits of its size, if that is more,
_HURRIED_RATIO = 2.0  # this many under max_time, which must also suffice for the final fit
_SHORTEST = 0.05  # least time limit of a fit, in seconds
_COMPILING = 1.0  # a fit that ends so many seconds late has waited for the compiler
_MOST_KEPT = 4_000_000  # bytes of dual variables that are kept as a start for others


class WarmStart(NamedTuple):
    """Dual variables of a fit, and its C in the units of the table."""

    c: float
    classes: np.ndarray
    n_rows: int
    support: np.ndarray
    coefficients: np.ndarray


def chain_of(one: Candidate) -> Candidate:
    """The key that candidates share which differ in C only: they may start from each other."""
    return replace(one, c=1.0)


class Trainer:
    """Trains candidates on rows of one table under the clock of the race."""

    def __init__(
        self,
        X: Any,
        y: np.ndarray,
        weight: np.ndarray | None,
        table: Table,
        clock: Clock,
        budget: float,
        is_unlimited: bool,
        seed: int,
    ) -> None:
        self.X, self.y, self.weight, self.table = X, y, weight, table
        self.clock, self.budget, self.seed = clock, budget, seed
        self.is_unlimited = is_unlimited

    def train(
        self,
        candidate: Candidate,
        rows: np.ndarray,
        recent: Sequence[float],
        start: WarmStart | None,
    ) -> tuple[Any, float]:
        """A fitted model and its seconds; fitted again if the compiler used up its time limit.

        ``recent`` are the seconds of other fits of this size.
        """
        limit = self._limit(recent)
        model = candidate.build(self.table, tol=_SEARCH_TOL, max_time=limit, random_state=self.seed)
        weight = None if self.weight is None else self.weight[rows]
        for _ in range(2):
            if start is not None and isinstance(model, MulticlassSVC):
                factor = candidate.c / start.c
                model._start_from(
                    start.classes, start.n_rows, start.support, factor * start.coefficients
                )
            began = time.perf_counter()
            model.fit(self.X[rows], self.y[rows], weight)
            seconds = time.perf_counter() - began
            if not self._discounts(seconds - limit) or model.status_ != "max_time":
                break
        return model, seconds

    def _limit(self, recent: Sequence[float]) -> float:
        """Time limit of one fit, so that a slow annealing leaves time for the other candidates."""
        usual = float(np.median(recent)) if len(recent) else 0.0
        ratio = _FIT_RATIO if self.is_unlimited else _HURRIED_RATIO
        return max(self.budget / _FIT_SHARE, ratio * usual, _SHORTEST)

    def _discounts(self, overrun: float) -> bool:
        """Whether a fit ended so late that code was compiled; then this does not count as time."""
        waited = overrun > _COMPILING and self.is_unlimited
        if waited:
            self.clock.started += overrun
        return waited

    @staticmethod
    def start_of(candidate: Candidate, model: Any) -> WarmStart | None:
        """A start for another C; None for prototypes, whose problem is not convex."""
        if not isinstance(model, MulticlassSVC) or model.dual_coef_.nbytes > _MOST_KEPT:
            return None
        return WarmStart(
            candidate.c, model.classes_, model._n_train, model.support_, model.dual_coef_
        )
