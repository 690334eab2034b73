"""The outer loop of the SMO-like family (A10): survey, select, optimise, propagate.

Problem card: the static problem (2.2), which is (1.2) for one prototype per class, soft or hard
margin, for any kernel.  Scores of all patterns are kept in float64; what a round costs is the
kernel rows of the patterns that moved.
"""

from __future__ import annotations

import time

import numpy as np

from polymargin.certificate.certificate import Judgement
from polymargin.certificate.objective import merit, values_of_sums
from polymargin.compiled.pattern_descent import make_duals, shuffle
from polymargin.compiled.smo_selection import NOTHING, VALUES, survey, visit
from polymargin.compiled.smo_steps import CODES, FIXED_POINT
from polymargin.compiled.totals import (
    GAIN,
    GAP,
    HITS,
    LOSS,
    MARGIN,
    NORM,
    OWN,
    STEPS,
    VISITS,
    empty_totals,
)
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem
from polymargin.solvers.costs import Budget
from polymargin.solvers.driver import Progress
from polymargin.solvers.linear import stand_in_cap
from polymargin.solvers.method import Checked, Method
from polymargin.solvers.precision import row_dtype
from polymargin.solvers.run import Run, seed_state
from polymargin.solvers.smo.pattern_smo import PatternSMO
from polymargin.solvers.smo.row_cache import RowCache, row_capacity

__all__ = ["EMPTY_ROUNDS", "PatternRounds"]

EMPTY_ROUNDS = 1000
"""A log threshold that selects nothing in so many rounds in a row ends the run: "stalled"."""

_CHECKS_PER_PASS = 20  # history has about so many entries for n optimised patterns
_FEWEST_STEPS, _MOST_STEPS = 20, 250  # between two entries
_REFRESH_AFTER = 50  # times n propagations: scores are computed anew
_SLOW = 1e-3  # of the gap: a round of the fixed point that gains less was too coarse
_FINEST = 1e-15

_LOG_ADVICE = (
    "The logarithmic threshold of PatternSMO selects no pattern any more: use threshold='mean' or "
    "'max', or a smaller theta0."
)


class PatternRounds(Method):
    """The state of a run: the member of the family that ``options`` describe.

    The driver checks whenever so many patterns were optimised, also in the middle of a round: a
    round of few patterns is no event, and neither history nor watchers need an entry for each.
    """

    def __init__(
        self, problem: Problem, run: Run, start: DualPoint | None, options: PatternSMO
    ) -> None:
        n, R = problem.n_patterns, problem.n_prototypes
        self.problem = problem
        self.options = options
        tau = np.zeros((n, R)) if start is None else start.tau(problem)
        self.duals = make_duals(problem, slice(None), tau)
        capacity = row_capacity(n, run.cache_mb, options.cache_rows)
        self.cache = RowCache(problem, row_dtype(problem, run.stop.tol), capacity)
        self.F = np.zeros((R, n))
        self.values = np.zeros(n)
        self.random = seed_state(run.seed)
        self.counters = empty_totals()
        self.budget = Budget(5000.0 + 2.0 * n)
        self.code = CODES[options.pattern]
        self.phi = float(options.pattern_tol)
        self.is_core = options.selection == "core"
        self.least_gain = 0.0
        self.round = 0  # t of the log threshold
        self.theta0 = options.theta0
        self.refreshed_at = 0
        self.checked_at = 0
        self.every = min(max(_FEWEST_STEPS, n // _CHECKS_PER_PASS), _MOST_STEPS)
        # the round under way: its patterns, how many had their turn, counters at its beginning
        self.queue: np.ndarray | None = None
        self.begin, self.fetched, self.is_missing = 0, -1, False
        self.first_steps, self.first_gain, self.n_selected = 0, 0.0, 0
        self.has_everyone = self.is_surveyed = self.is_rejected = self.is_sharper = False

    def start(self, progress: Progress) -> None:
        self.progress = progress
        if self.duals.tau.any():
            self.refresh()
        self.survey()

    # -- points and checks -------------------------------------------------------------------

    def point(self) -> DualPoint:
        own = self.problem.own
        at = np.flatnonzero(self.duals.tau[np.arange(len(own)), own])
        return DualPoint.from_tau(at, self.duals.tau[at], own[at])

    def refresh(self) -> None:
        """Scores from the dual variables, free of drift."""
        self.F[:] = self.cache.scores(self.duals.tau, self.progress.why_end)
        self.refreshed_at = int(self.counters[STEPS])

    def count(self) -> None:
        """What was counted so far, for the history and the stop rule."""
        self.progress.steps = int(self.counters[STEPS])
        self.progress.iterations = int(self.counters[VISITS]) // self.problem.n_patterns

    def history_columns(self, primal: float, dual: float) -> tuple[float, ...]:
        gap = max(primal - dual, 0.0) if primal < np.inf else np.inf
        hits, steps = int(self.counters[HITS]), int(self.counters[STEPS])
        return gap, self.cache.computed, hits, self.cache.misses, steps

    def look(self, code: int) -> None:
        """Survey all patterns: P and D; the values are written if a code is given."""
        hard_cap = stand_in_cap(self.problem, self.duals.tau)
        sums = empty_totals()
        survey(self.F, self.duals, code, hard_cap, self.values, sums)
        self.gap = float(sums[GAP])
        self.norm2, self.own = max(float(sums[NORM]), 0.0), float(sums[OWN])
        self.margin, loss = float(sums[MARGIN]), float(sums[LOSS])
        self.primal, self.dual = values_of_sums(
            self.problem, self.norm2, loss, self.own, self.margin
        )
        self.count()

    def survey(self) -> None:
        """The values by which the next round selects."""
        self.look(VALUES[self.options.selection])
        self.is_surveyed = True

    def check(self) -> Checked:
        if not self.is_surveyed:
            self.look(NOTHING)  # in the middle of a round: its values stay
        self.is_surveyed = self.is_sharper = False
        self.checked_at = self.progress.steps
        order = merit(self.primal, self.margin, self.norm2)
        active = int((self.values > 0.0).sum())
        n_support = int(np.count_nonzero(self.duals.tau.any(axis=1)))
        if not n_support:
            order = (3.0, 0.0)  # the zero point is not worth keeping
        return Checked(self.primal, self.dual, order, active, n_support)

    def is_due(self) -> bool:
        """Whether a check is due: many steps since the last one, near the end, or out of time."""
        is_close = self.primal < np.inf and (
            self.primal - self.dual <= self.progress.stop.tol * self.primal
        )
        many = self.progress.steps - self.checked_at >= self.every
        return self.is_sharper or is_close or many or self.progress.why_stop() is not None

    # -- selection ---------------------------------------------------------------------------

    def select(self) -> np.ndarray | None:
        """A9: the patterns whose value is above the threshold, in random order; None: the end."""
        V = self.values
        if self.is_core:
            chosen = np.flatnonzero(V > 0.0)
        elif self.options.threshold == "log":
            found = self.cool()
            if found is None:
                return None
            chosen = found
        else:
            share = float(self.options.mu) * V.max()
            chosen = np.flatnonzero((share if self.options.threshold == "max" else V.mean()) < V)
            if not len(chosen) and V.max() > 0.0:
                chosen = np.array([V.argmax()])
        self.round += 1
        queue = np.ascontiguousarray(chosen, dtype=np.int64)
        shuffle(queue, len(queue), self.random)
        return queue

    def cool(self) -> np.ndarray | None:
        """The log threshold of the first round from now on that selects something (19.10).

        Rounds that select nothing change no value, so they are counted, not made.
        """
        largest = float(self.values.max())
        if self.theta0 is None:
            self.theta0 = largest
        for _ in range(EMPTY_ROUNDS):
            chosen = np.flatnonzero(self.values > self.theta0 / np.log10(self.round + 10.0))
            if len(chosen):
                return chosen
            self.round += 1
        return None

    # -- rounds ------------------------------------------------------------------------------

    def optimise(self, queue: np.ndarray) -> bool:
        """A10 step 5: every selected pattern once; False where a check comes first."""
        cache, progress = self.cache, self.progress
        while self.begin < len(queue):
            if self.is_missing:
                self.fetched = int(queue[self.begin])
                cache.fetch(self.fetched)
            due = self.checked_at + self.every - int(self.counters[STEPS])
            before = self.counters[VISITS]
            started = time.perf_counter()
            self.begin, self.is_missing = visit(
                self.F,
                self.duals,
                cache.rows,
                cache.slot,
                cache.used,
                cache.tick,
                self.fetched,
                queue,
                self.begin,
                len(queue),
                self.code,
                self.phi,
                self.least_gain,
                self.budget.visits,
                due,
                self.counters,
            )
            self.budget.learn(time.perf_counter() - started, self.counters[VISITS] - before)
            self.fetched = -1
            self.count()
            progress.keep_reserve(min(cache.computed, self.problem.n_patterns))
            if progress.why_stop() or self.counters[STEPS] - self.checked_at >= self.every:
                return False
        return True

    def advance(self, checked: Checked) -> bool:
        """Rounds until the next check is due: select, optimise, survey."""
        if self.is_rejected:
            self.is_rejected = False
            return self.sharpen()  # the judge sees more than these scores show
        while True:
            if self.queue is None and not self.begin_round():
                self.advice = _LOG_ADVICE
                return False
            assert self.queue is not None
            if not self.optimise(self.queue):
                return True
            is_relative = not self.is_core and self.options.threshold != "log"
            if self.counters[STEPS] == self.first_steps and is_relative and not self.has_everyone:
                # patterns whose value is rounding hide the others: everyone has a turn
                self.turn_to(np.flatnonzero(self.values > 0.0))
                self.has_everyone = True
                continue
            if not self.end_round():
                return False
            if self.is_surveyed and self.is_due():
                return True

    def begin_round(self) -> bool:
        selected = self.select()
        if selected is None:
            return False
        self.turn_to(selected)
        self.n_selected, self.has_everyone, self.is_surveyed = len(selected), False, False
        self.first_steps = int(self.counters[STEPS])
        self.first_gain = float(self.counters[GAIN])
        return True

    def turn_to(self, queue: np.ndarray) -> None:
        self.queue, self.begin, self.fetched, self.is_missing = queue, 0, -1, False

    def end_round(self) -> bool:
        """What follows a round: its threshold, fresh scores, a survey; False: nothing moves."""
        self.queue = None
        steps = int(self.counters[STEPS]) - self.first_steps
        gain = float(self.counters[GAIN]) - self.first_gain
        waited = self.is_core and self.least_gain > 0.0
        if self.is_core:
            self.least_gain = gain / max(self.n_selected, 1) if steps else 0.0
        if self.counters[STEPS] - self.refreshed_at > _REFRESH_AFTER * self.problem.n_patterns:
            self.refresh()
        if self.problem.is_hard:
            self.rescale()
        too_coarse = self.code == FIXED_POINT and gain < _SLOW * self.gap and self.phi > _FINEST
        if too_coarse:
            self.phi = max(0.1 * self.phi, _FINEST)
        elif not steps and not waited:
            return self.sharpen()
        self.survey()
        return True

    def rescale(self) -> None:
        """The dual of the hard margin is a cone: go to the best multiple of the point (1.12)."""
        self.look(NOTHING)
        if self.norm2 > 0.0 and self.own > 0.0:
            self.duals.tau[:] *= self.own / self.norm2
            self.F *= self.own / self.norm2

    def rejected(self, judgement: Judgement) -> None:
        self.is_rejected = True

    def sharpen(self) -> bool:
        """Nothing moves but the gap is open: float64 values, fresh scores; False: all tried."""
        if self.cache.dtype == np.float32:
            self.cache.evaluate_in(np.float64)
        elif self.refreshed_at == int(self.counters[STEPS]):
            return False
        self.refresh()
        self.survey()
        self.queue, self.is_sharper = None, True
        return True
