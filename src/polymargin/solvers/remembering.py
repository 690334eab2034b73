"""Progress that keeps what the judge saw: its scores of all patterns can be the last check."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from polymargin.certificate.certificate import Judgement, judge
from polymargin.problem.problem import Problem
from polymargin.solvers.run import Progress

__all__ = ["Judged", "Memory", "RememberingProgress"]

Judged = tuple[np.ndarray, np.ndarray, np.ndarray, Judgement]
"""Support, variables, scores (n, R) of all patterns, and what the judge said."""


class Memory:
    """Keeps what the judge saw: the last points, and the scores of all patterns."""

    problem: Problem
    kept = 1

    def remember(
        self, support: np.ndarray, point: np.ndarray, judge_it: Callable[[np.ndarray], Judgement]
    ) -> Judgement:
        known: list[Judged] = getattr(self, "seen", [])
        self.seen = known[1 - self.kept :] if self.kept > 1 else []  # makes room first
        scores = np.zeros((self.problem.n_patterns, self.problem.n_prototypes))
        judgement = judge_it(scores)
        self.seen.append((support, point, scores, judgement))
        return judgement

    def recall(self, support: np.ndarray) -> Judged | None:
        for one in reversed(getattr(self, "seen", [])):
            if np.array_equal(one[0], support):
                return one
        return None


class RememberingProgress(Memory, Progress):
    """A point that was judged last is not judged again."""

    def judged(self, support: np.ndarray, tau: np.ndarray) -> Judgement:
        for known in getattr(self, "seen", [])[-1:]:
            if np.array_equal(known[0], support) and np.array_equal(known[1], tau):
                return known[3]
        return self.remember(support, tau, lambda out: judge(self.problem, support, tau, out))

    def scores_of_all(self, support: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """(n, R) scores of a point as the judge computes them."""
        self.judged(support, tau)
        return self.seen[-1][2]
