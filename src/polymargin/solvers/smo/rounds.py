"""The outer loop of the SMO-like family (A10): survey, select, optimise, propagate.

Problem card: the static problem (2.2), which is (1.2) for one prototype per class, soft or hard
margin, for any kernel.  Scores of all patterns are kept in float64; what a round costs is the
kernel rows of the patterns that moved.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from polymargin.certificate.certificate import energy
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
from polymargin.problem.problem import OutOfTimeError, Problem
from polymargin.solvers.costs import Budget
from polymargin.solvers.history import History, PatternCheck
from polymargin.solvers.precision import row_dtype
from polymargin.solvers.prototypes import PrototypeSolution
from polymargin.solvers.run import (
    Deadline,
    Progress,
    Solution,
    Stop,
    deferred_interrupt,
    is_not_separable,
    merit,
    seed_state,
    stand_in_cap,
    values,
)
from polymargin.solvers.smo.pattern_smo import PatternSMO
from polymargin.solvers.smo.row_cache import RowCache, row_capacity

__all__ = ["EMPTY_ROUNDS", "solve_patterns", "solve_static"]

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


def solve_patterns(
    problem: Problem,
    stop: Stop,
    history: History,
    options: PatternSMO,
    start: np.ndarray | None = None,
    seed: Any = 0,
    cache_mb: float = 1000.0,
    deadline: Deadline | None = None,
) -> Solution:
    """Run the family's member that ``options`` describe to relative gap ``stop.tol``."""
    run = _Rounds(problem, stop, history, options, start, seed, cache_mb, deadline)
    with deferred_interrupt(run.progress.deadline):
        try:
            return run.run()
        except OutOfTimeError:
            reason = run.progress.deadline.why_end() or "max_time"
            return run.progress.finish(reason, *run.support())


def solve_static(
    problem: Problem,
    stop: Stop,
    history: History,
    options: PatternSMO,
    seed: Any,
    cache_mb: float,
    deadline: Deadline,
) -> PrototypeSolution:
    """The static problem of several prototypes per class, with its whole energy."""
    found = solve_patterns(problem, stop, history, options, None, seed, cache_mb, deadline)
    whole = None
    judgement = found.judgement
    progress = Progress(problem, stop, History(), lambda: (found.support, found.tau), deadline)
    is_known = problem.is_hard or not np.isinf(judgement.certificate.relative_gap)
    if is_known and progress.can_judge(len(found.support)):
        whole = energy(problem, found.support, found.tau, judgement.norm2, judgement.scale)
    is_stationary = (
        whole is not None and found.status == "converged" and whole.excess <= 2.0 * stop.tol
    )
    return PrototypeSolution(found, problem.own.copy(), whole, is_stationary)


class PatternProgress(Progress):
    """Progress that notes what the cache and the visits counted."""

    counts: tuple[int, int, int, int] = (0, 0, 0, 0)

    def entry(self, primal: float, dual: float, relative: float, active: int) -> PatternCheck:
        gap = max(primal - dual, 0.0) if primal < np.inf else np.inf
        return PatternCheck(
            self.deadline.seconds,
            self.iterations,
            primal,
            dual,
            relative,
            active,
            self.steps,
            gap,
            *self.counts,
        )


class _Selection(NamedTuple):
    """The patterns of a round in random order; none, and whether that is the end."""

    queue: np.ndarray
    is_stalled: bool = False


class _Rounds:
    """The state of a run; ``run`` goes to the tolerance."""

    def __init__(
        self,
        problem: Problem,
        stop: Stop,
        history: History,
        options: PatternSMO,
        start: np.ndarray | None,
        seed: Any,
        cache_mb: float,
        deadline: Deadline | None,
    ) -> None:
        n, R = problem.n_patterns, problem.n_prototypes
        self.problem = problem
        self.options = options
        self.progress = PatternProgress(problem, stop, history, self.support, deadline)
        tau = np.zeros((n, R)) if start is None else np.array(start, dtype=np.float64)
        self.duals = make_duals(problem, slice(None), tau)
        capacity = row_capacity(n, cache_mb, options.cache_rows)
        self.cache = RowCache(problem, row_dtype(problem, stop.tol), capacity)
        self.F = np.zeros((R, n))
        self.values = np.zeros(n)
        self.random = seed_state(seed)
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

    # -- points and checks -------------------------------------------------------------------

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        at = np.flatnonzero(self.duals.tau[np.arange(len(self.values)), self.problem.own])
        return at, self.duals.tau[at]

    def refresh(self) -> None:
        """Scores from the dual variables, free of drift."""
        self.F[:] = self.cache.scores(self.duals.tau, self.progress.deadline.why_end)
        self.refreshed_at = int(self.counters[STEPS])

    def count(self) -> None:
        """What was counted so far, for the history and the stop rule."""
        progress, cache = self.progress, self.cache
        progress.steps = int(self.counters[STEPS])
        progress.iterations = int(self.counters[VISITS]) // self.problem.n_patterns
        progress.counts = (
            cache.computed, int(self.counters[HITS]), cache.misses, progress.steps,
        )  # fmt: skip

    def look(self, code: int) -> tuple[float, float]:
        """Survey all patterns: P and D; the values are written if a code is given."""
        hard_cap = stand_in_cap(self.problem, self.duals.tau)
        sums = empty_totals()
        survey(self.F, self.duals, code, hard_cap, self.values, sums)
        self.gap = float(sums[GAP])
        norm2, margin = max(float(sums[NORM]), 0.0), float(sums[MARGIN])
        primal, dual = values(self.problem, norm2, float(sums[LOSS]), float(sums[OWN]), margin)
        self.norm2, self.own = norm2, float(sums[OWN])
        self.merit = merit(primal, margin, norm2)
        return primal, dual

    def check(self, code: int, is_due: bool = True) -> str | None:
        """Survey, and note it where that is due; the reason to end, if there is one.

        A round of few patterns is no event: neither the history nor those who watch it need one
        entry for every step.
        """
        progress, stop = self.progress, self.progress.stop
        primal, dual = self.look(code)
        self.count()
        is_close = primal < np.inf and primal - dual <= stop.tol * primal
        if not (is_due or is_close or progress.steps - self.checked_at >= self.every):
            return progress.why_stop()
        self.checked_at = progress.steps
        relative = progress.record(primal, dual, int((self.values > 0.0).sum()))
        support, tau = self.support()
        if len(support):
            progress.keep_if_best(self.merit, lambda: (support, tau))
        progress.keep_reserve(len(support))
        if relative <= stop.tol:
            return "converged"
        if is_not_separable(self.problem, dual):
            return "not_separable"
        return progress.why_stop()

    # -- selection ---------------------------------------------------------------------------

    def select(self) -> _Selection:
        """A9: the patterns whose value is above the threshold."""
        V = self.values
        if self.is_core:
            chosen = np.flatnonzero(V > 0.0)
        elif self.options.threshold == "log":
            found = self.cool()
            if found is None:
                return _Selection(np.empty(0, dtype=np.int64), True)
            chosen = found
        else:
            share = float(self.options.mu) * V.max()
            chosen = np.flatnonzero((share if self.options.threshold == "max" else V.mean()) < V)
            if not len(chosen) and V.max() > 0.0:
                chosen = np.array([V.argmax()])
        self.round += 1
        queue = np.ascontiguousarray(chosen, dtype=np.int64)
        shuffle(queue, len(queue), self.random)
        return _Selection(queue)

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

    def optimise(self, queue: np.ndarray) -> str | None:
        """A10 step 5: every selected pattern once; the reason to end early, if there is one."""
        cache, progress = self.cache, self.progress
        begin, fetched = 0, -1
        while begin < len(queue):
            due = self.checked_at + self.every - int(self.counters[STEPS])
            before = self.counters[VISITS]
            started = time.perf_counter()
            begin, is_missing = visit(
                self.F,
                self.duals,
                cache.rows,
                cache.slot,
                cache.used,
                cache.tick,
                fetched,
                queue,
                begin,
                len(queue),
                self.code,
                self.phi,
                self.least_gain,
                self.budget.visits,
                due,
                self.counters,
            )
            self.budget.learn(time.perf_counter() - started, self.counters[VISITS] - before)
            fetched = -1
            self.count()
            progress.keep_reserve(min(cache.computed, self.problem.n_patterns))
            reason = progress.why_stop()
            if reason is None and self.counters[STEPS] - self.checked_at >= self.every:
                reason = self.check(NOTHING)
            if reason is not None:
                return reason
            if is_missing:
                fetched = int(queue[begin])
                cache.fetch(fetched)
        return None

    def run(self) -> Solution:
        progress = self.progress
        if self.duals.tau.any():
            self.refresh()
        reason = self.check(VALUES[self.options.selection])
        while True:
            if reason == "converged":
                support, tau = self.support()
                if not progress.can_judge(len(support)):
                    return progress.finish("max_time", support, tau)
                judgement = progress.judged(support, tau)
                if judgement.certificate.relative_gap <= progress.stop.tol:
                    return progress.finish("converged", support, tau, judgement)
                reason = self.sharpen()  # the judge sees more than these scores show
            if reason is not None:
                return progress.finish(reason, *self.support())
            reason = self.one_round()

    def one_round(self) -> str | None:
        """Select, optimise, survey; the reason to end, if there is one."""
        selection = self.select()
        if selection.is_stalled:
            self.progress.advice = _LOG_ADVICE
            return "stalled"
        before, gain = int(self.counters[STEPS]), float(self.counters[GAIN])
        reason = self.optimise(selection.queue)
        is_relative = not self.is_core and self.options.threshold != "log"
        if reason is None and self.counters[STEPS] == before and is_relative:
            # patterns whose value is rounding hide the others: everyone has a turn
            reason = self.optimise(np.flatnonzero(self.values > 0.0))
        if reason is not None:
            return reason
        steps, gain = int(self.counters[STEPS]) - before, float(self.counters[GAIN]) - gain
        waited = self.is_core and self.least_gain > 0.0
        if self.is_core:
            self.least_gain = gain / max(len(selection.queue), 1) if steps else 0.0
        if self.counters[STEPS] - self.refreshed_at > _REFRESH_AFTER * self.problem.n_patterns:
            self.refresh()
        if self.problem.is_hard:
            self.rescale()
        too_coarse = self.code == FIXED_POINT and gain < _SLOW * self.gap and self.phi > _FINEST
        if too_coarse:
            self.phi = max(0.1 * self.phi, _FINEST)
        elif not steps and not waited:
            return self.sharpen()
        return self.check(VALUES[self.options.selection], is_due=False)

    def rescale(self) -> None:
        """The dual of the hard margin is a cone: go to the best multiple of the point (1.12)."""
        self.look(NOTHING)
        if self.norm2 > 0.0 and self.own > 0.0:
            self.duals.tau[:] *= self.own / self.norm2
            self.F *= self.own / self.norm2

    def sharpen(self) -> str | None:
        """Nothing moves but the gap is open: kernel values in float64, fresh scores, or the end."""
        if self.cache.dtype == np.float32:
            self.cache.evaluate_in(np.float64)
        elif self.refreshed_at == int(self.counters[STEPS]):
            return "stalled"
        self.refresh()
        return self.check(VALUES[self.options.selection])
