"""Static problems of the alternation by a member of the SMO-like family, as published (A10, A15).

The alternation asks for passes between draws and for the certified solution of a static problem;
here a pass is one round of ``PatternRounds``: survey, select, optimise, propagate.  Scores of all
patterns are kept in float64, for any kernel, and kernel rows come from the cache of the rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem
from polymargin.solvers import find_method
from polymargin.solvers.driver import Progress, Solution, drive
from polymargin.solvers.history import PatternCheck
from polymargin.solvers.run import Run
from polymargin.solvers.smo.pattern_smo import PatternSMO
from polymargin.solvers.smo.rounds import PatternRounds

__all__ = ["AssignedPatternScores"]


class AssignedPatternScores:
    """What ``AssignedKernelScores`` offers, by rounds of a ``PatternSMO``."""

    def __init__(self, problem: Problem, run: Run, options: PatternSMO) -> None:
        find_method(problem, options)  # refuses what the family does not know
        self.problem, self.run = problem, run
        part = run.part()
        self.rounds = PatternRounds(problem, part, None, options)
        self.rounds.start(Progress(self.rounds, part))
        self.queue = np.empty(problem.n_patterns, dtype=np.int64)
        self.everyone = np.arange(problem.n_patterns)
        self.random = self.rounds.random

    @property
    def duals(self) -> Any:
        # own is the array of the problem, which the alternation changes
        return self.rounds.duals._replace(own=self.problem.own)

    @property
    def progress(self) -> Progress:
        return self.rounds.progress

    def products(self) -> tuple[float, float]:
        """||M||^2, and 0: there is no centre."""
        return max(float((self.rounds.duals.tau * self.rounds.F.T).sum()), 0.0), 0.0

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Patterns, their scores (R, k) and what to add to them."""
        F = self.rounds.F
        yield self.everyone, F, np.zeros(len(F))

    def restore(self, moved: np.ndarray, begin: int, end: int, zeroing: bool) -> None:
        """Make the variables of moved examples feasible for their new prototypes (A13)."""
        tau, own, cache = self.rounds.duals.tau, self.problem.own, self.rounds.cache
        for p, old in moved[begin:end]:
            before = tau[p].copy()
            if zeroing:
                tau[p] = 0.0
            else:
                tau[p, [old, own[p]]] = 0.0, before[old]
            if cache.slot[p] < 0:
                cache.fetch(int(p))
            change = tau[p] - before
            changed = np.flatnonzero(change)
            self.rounds.F[changed] += np.outer(change[changed], cache.rows[cache.slot[p]])

    def passes(self, end: int, most: int) -> None:
        """At most so many rounds; the log threshold may select nothing any more."""
        self._follow()
        for _ in range(most):
            if not self._round() or self.progress.why_stop():
                break
        self.rounds.queue = None

    def _follow(self) -> None:
        """Values for the assignment of now, no round under way."""
        rounds = self.rounds
        rounds.duals.own[:] = self.problem.own
        rounds.queue = None
        rounds.is_rejected = rounds.is_sharper = False
        rounds.survey()

    def _round(self) -> bool:
        """One whole round; False where nothing moves or the time is over."""
        rounds = self.rounds
        if not rounds.begin_round():
            return False
        assert rounds.queue is not None
        while not rounds.optimise(rounds.queue):
            if self.progress.why_stop():
                return False
            rounds.checked_at = self.progress.steps  # checks are the alternation's
        return rounds.end_round()

    def settle(self, tol: float) -> Solution:
        """Solve the static problem from where it stands; the state is the solution after."""
        before = self.progress
        self._follow()
        part = self.run.part(tol=tol).watched_by((), PatternCheck)
        solution = drive(self.rounds, part, before.iterations, before.steps)
        if self.progress.why_end() is None:
            self.place(solution.point)
        return solution

    def point(self) -> DualPoint:
        """The present point."""
        return self.rounds.point()

    def place(self, point: DualPoint) -> None:
        """Go to another point."""
        self.rounds.duals.tau[:] = point.tau(self.problem)
        self.rounds.refresh()
        self._follow()
