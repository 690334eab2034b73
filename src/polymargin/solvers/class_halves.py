"""Passes on two threads over patterns whose active prototypes lie in one half of the classes.

A visit reads and changes the prototypes of the active variables of its pattern only.  So patterns
whose active prototypes belong to one half of the classes, and patterns whose belong to the other,
are visited at the same time without locks: no thread sees a prototype that another one changes,
and the bits do not depend on how fast the threads are.  A pass divides the classes at random
several times; patterns that lie in neither half then wait for the next division, and those that
are left in the end are visited by one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polymargin.compiled.class_sets import class_sets
from polymargin.compiled.fields import DenseField
from polymargin.compiled.pattern_descent import Duals, descend_until
from polymargin.compiled.threads import share
from polymargin.compiled.totals import STEPS, VISITS, empty_totals
from polymargin.problem.problem import Problem
from polymargin.solvers.run import seed_state

__all__ = ["ClassHalves"]

_MOST_CLASSES = 64  # bits of a word: the set of classes of a pattern
_DIVISIONS = 4  # of the classes in a pass: with ten classes 3 % of the patterns are left (MNIST)
_TRIED = 8  # random divisions of which the one with the fullest halves is taken
_FEWEST_SECONDS = 3e-3
"""Nominal seconds of a pass from which on waking a thread, 50 microseconds, is little beside it."""


class ClassHalves:
    """Passes between two draws of the multi-prototype machine, on two threads.

    Parameters
    ----------
    problem : Problem
    duals : Duals
    seed : any
        Seed of the divisions; not that of the order of visits.
    """

    def __init__(self, problem: Problem, duals: Duals, seed: Any) -> None:
        self.duals = duals
        self.n_classes = int(problem.prototype_class[-1]) + 1
        self.random = np.random.default_rng([0, *np.atleast_1d(np.asarray(seed, dtype=np.uint64))])
        self.orders = tuple(seed_state([k, int(self.random.integers(1 << 32))]) for k in range(2))

    def why_not(self, field: Any, seconds: float) -> str | None:
        """Why passes of so many nominal seconds stay on one thread."""
        if not isinstance(field, DenseField):
            return "prototypes of sparse rows lie feature by feature"
        if not 4 <= self.n_classes <= _MOST_CLASSES:
            return f"classes are divided from 4 to {_MOST_CLASSES}"
        return "passes are short" if seconds < _FEWEST_SECONDS else None

    def passes(
        self,
        field: Any,
        queue: np.ndarray,
        most: int,
        relaxation: float,
        budget: int,
        why_stop: Callable[[], str | None],
    ) -> tuple[int, int, float]:
        """At most so many passes; how many were made, the steps, and the visits."""
        made = 0
        totals = [empty_totals(), empty_totals()]

        def visit(task: tuple[int, np.ndarray]) -> None:
            thread, patterns = task
            begin, end = 0, len(patterns)
            while begin < end and not why_stop():
                begin, end, _ = descend_until(
                    field,
                    self.duals,
                    patterns,
                    begin,
                    end,
                    -1.0,
                    1,
                    self.orders[thread],
                    relaxation,
                    0.0,
                    budget,
                    totals[thread],
                )

        while made < most and len(queue) and not why_stop():
            left = queue
            for _ in range(_DIVISIONS):
                one, other, left = self.divide(left)
                share(visit, [(0, one), (1, other)], 2)
            visit((0, left))
            made += 1
            queue = queue[self.duals.n_active[queue] > 1]  # the others cannot move any more
        steps, visits = (float(sum(of[k] for of in totals)) for k in (STEPS, VISITS))
        return made, int(steps), visits

    def divide(self, patterns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Patterns that lie in one half of the classes, in the other, and in neither."""
        sets = np.empty(len(patterns), dtype=np.uint64)
        class_sets(patterns, self.duals, sets)
        bits = np.uint64(1) << np.arange(self.n_classes, dtype=np.uint64)
        best: tuple[int, np.ndarray, np.ndarray] | None = None
        for _ in range(_TRIED):
            half = np.bitwise_or.reduce(
                bits[self.random.permutation(self.n_classes)[: self.n_classes // 2]]
            )
            inside, outside = (sets & ~half) == 0, (sets & half) == 0
            full = int(min(np.count_nonzero(inside), np.count_nonzero(outside)))
            if best is None or full > best[0]:
                best = full, inside, outside
        assert best is not None
        _, inside, outside = best
        return patterns[inside], patterns[outside], patterns[~(inside | outside)]
