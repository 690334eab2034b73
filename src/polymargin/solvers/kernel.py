"""Kernels: block descent on a working set that starts small, grows by violation and is trimmed.

Only patterns that matter get kernel rows and score updates.  Inside the set every pass looks at all
scores (cheap) and makes the steps whose gain is above the average of the last pass (a push costs a
kernel row); outside, scores are computed only at the few full checks.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from polymargin.certificate.certificate import Judgement
from polymargin.certificate.objective import merit, values_of_sums
from polymargin.certificate.training_scores import KnownRows
from polymargin.compiled.fields import KernelField
from polymargin.compiled.pattern_descent import descend, make_duals, screen, shuffle, wanted
from polymargin.compiled.raised_field import raised
from polymargin.compiled.totals import GAIN, GAP, LOSS, MARGIN, OWN, STEPS, VISITS, empty_totals
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem
from polymargin.solvers.costs import Budget, kernel_check_seconds, kernel_pass_seconds
from polymargin.solvers.driver import Progress
from polymargin.solvers.kernel_rows import KernelRows, largest_growth
from polymargin.solvers.linear import stand_in_cap
from polymargin.solvers.method import Checked, Method
from polymargin.solvers.precision import row_dtype, row_unit
from polymargin.solvers.run import Run, seed_state

__all__ = ["WorkingSet"]

# Measured on the four RBF problems of benchmarks/.
_SHORTEST_ROUND = 0.02
"""Nominal seconds of a round at least; beyond them it ends when it has doubled the work so far.
The driver sees the rate of descent at checks only, and without it cannot leave a slow one."""
_SHRINK_UNTIL = 0.05
_SAFETY = 0.9
_RELAXATION = 1.3
_TRIM_BELOW = 0.8
_NEAR = 0.02
_LONG_ROW = 64
"""Numbers of a row from which on kernel values of checks are kept: below, memory that has not been
used before costs more than computing them again (measured: no gain at 36, a quarter at 256)."""
_NEAR_GAP = 0.2
"""Relative gap below which a check computes the scores of the set anew if 16-bit rows pushed them:
without that 0 to 9 % more passes, and checks that see less than the judge (measured)."""
_QUIET = 0.005
"""Below that gap, a check at which at most this share of the set joins is the last to look outside:
the judge looks at all patterns anyway.  Saves 3 % of a fit (measured; no difference at .002)."""
_MOST_PASSES, _PASSES_PER_SCREEN = 1000, 4
"""Passes between two checks at most, and over one queue before the set is screened anew: one pass
per screen costs 5 % of a fit, more than four gain nothing (measured with 1, 3, 4, 6 and 10)."""
_VISITS_PER_ROW, _THRESHOLD_AGAIN = 8, 0.1  # while rows are scarce: 4 times fewer rows


class WorkingSet(Method):
    """Block descent on kernel rows of a working set.

    Problem card: (1.1)-(1.3) for any kernel: plain Crammer-Singer, one or several prototypes per
    class, soft or hard margin.  Rows and scores are float32 down to ``tol`` 1e-4 and float64 below;
    if the judge finds that float32 was not enough, the run goes on in float64.
    """

    takes_interior_point = True
    near = _NEAR

    def __init__(self, problem: Problem, run: Run, start: DualPoint | None = None) -> None:
        n, R = problem.n_patterns, problem.n_prototypes
        self.problem = problem
        self.progress = Progress(self, run)
        self.cache_mb = run.cache_mb
        self.random = seed_state(run.seed)
        self.tau = np.zeros((n, R)) if start is None else start.tau(problem)
        self.everyone = np.empty(0, dtype=np.int64)
        self.budget = Budget(1000.0)
        order = np.random.default_rng(int(self.random[0] >> np.uint64(1))).permutation(n)
        size = min(n, max(500, n // 10, 4 * R))
        has_weight = self.tau[np.arange(n), problem.own] != 0.0
        self.first = np.concatenate([np.flatnonzero(has_weight), order[~has_weight[order]][:size]])

    def start(self, progress: Progress) -> None:
        self.progress = progress
        self.open(progress)
        self.refreshed_at, self.idle = -1, 0
        self.has_looked, self.is_quiet_outside = True, False
        cap = self.problem.cap
        self.gap, self.primal = float(np.where(np.isinf(cap), 1.0, cap).sum()), 0.0
        self.descend_in_set()

    def open(self, progress: Progress, first: np.ndarray | None = None) -> None:
        """Kernel rows for the first set, or for these patterns."""
        self.progress = progress
        self.first = self.first if first is None else first
        self.prepare(row_dtype(self.problem, progress.stop.tol))

    def prepare(self, dtype: Any) -> None:
        """Begin (again) at ``self.tau`` with rows and scores of this dtype."""
        self.dtype = np.dtype(dtype)
        # ``self.tau`` is the point until rows are there
        self.everyone = np.empty(0, dtype=np.int64)
        unit = row_unit(self.problem, self.dtype)
        self.pool = KernelRows(self.problem, dtype, self.cache_mb, self.progress.why_end, unit)
        self.kept_rows: KnownRows | None = None
        self.has_looked = True  # at the last check, at the patterns outside
        self.is_quiet_outside = False
        n, R = self.tau.shape
        self.inside = np.zeros(n, dtype=bool)
        self.outside_scores = np.zeros((n, R), dtype=self.dtype)
        self.F = np.empty((R, 0), dtype=self.dtype)
        self.rebuild(np.empty((0, R)))
        self.grow(self.first)
        if self.tau.any():
            self.refresh()

    # -- the set -----------------------------------------------------------------------------

    @property
    def ids(self) -> np.ndarray:
        return self.pool.ids

    def grow(self, new: np.ndarray) -> None:
        """The patterns ``new`` join with the scores of the last full check."""
        if not len(new):
            return
        m = len(self.ids)
        if self.kept_rows is not None:
            self.kept_rows.forget(self.rows_beside(self.pool.cells_after(len(new))))
        self.pool.grow(new)
        self.inside[new] = True
        F = np.empty((self.F.shape[0], len(self.ids)), dtype=self.dtype)
        F[:, :m] = self.F
        F[:, m:] = self.outside_scores[new].T
        self.F = F
        self.rebuild(np.concatenate([self.duals.tau, self.tau[new]]))

    def rebuild(self, tau: np.ndarray) -> None:
        self.duals = make_duals(self.problem, self.ids, np.ascontiguousarray(tau))
        self.queue = np.empty(len(tau), dtype=np.int64)
        self.everyone = np.arange(len(tau))
        self.budget.rate = max(self.budget.rate, 1.0 * len(tau))  # a push touches all of them

    def trim(self) -> None:
        """Patterns without weight and with a comfortable margin leave when they are many."""
        margins = _margins(self.problem, self.F.T.astype(np.float64), self.ids)
        has_weight = self.duals.tau[self.everyone, self.duals.own] != 0.0
        keep = np.flatnonzero(has_weight | ~(margins - 1.0 >= self.near))
        if not 0 < len(keep) < _TRIM_BELOW * len(self.ids):
            return
        self.inside[self.ids] = False
        self.outside_scores[self.ids] = self.F.T
        self.pool.keep(keep)
        self.inside[self.ids] = True
        self.F = np.ascontiguousarray(self.F[:, keep])
        self.rebuild(self.duals.tau[keep])

    def refresh(self) -> None:
        """Scores of the set from its dual variables, free of drift."""
        self.F = np.ascontiguousarray(self.scores(self.ids).T)

    def scores(self, patterns: np.ndarray, support: np.ndarray | None = None) -> np.ndarray:
        """(k, R) scores of any patterns by the dual variables, of all or of some positions."""
        if support is None:
            support = np.flatnonzero(self.own_weights())
        tau = self.duals.tau[support].astype(self.dtype)
        return self.pool.data.scores(patterns, support, tau, self.progress.why_end)

    def place(self, point: DualPoint, own: np.ndarray) -> None:
        """Go to another point of the patterns in the set, with other own prototypes (n,)."""
        self.duals.own[:] = own[self.ids]
        self.duals.tau[:] = point.tau(self.problem)[self.ids]
        self.duals.n_active[:] = 0
        self.refresh()

    # -- passes ------------------------------------------------------------------------------

    def hard_cap(self) -> float:
        return stand_in_cap(self.problem, self.duals.tau)

    def screen(self) -> tuple[int, np.ndarray]:
        """Queue of the violating patterns of the set and the certificate's sums over it."""
        totals = empty_totals()
        shift = np.zeros(len(self.F), dtype=self.dtype)
        F = np.ascontiguousarray(self.problem.raised(self.F.T, self.ids).T)
        end = screen(F, shift, self.everyone, self.duals, self.queue, 0, self.hard_cap(), totals)
        return end, totals

    def visit(self, end: int, threshold: float) -> tuple[int, np.ndarray]:
        """One pass over the queue in random order; rows that are missing are fetched ahead.

        Returns
        -------
        end : int
            Of what is left of the queue: patterns without a violation are dropped.
        totals : ndarray
        """
        totals = empty_totals()
        progress = self.progress
        shuffle(self.queue, end, self.random)
        if self.pool.capacity < len(self.ids):
            end = self.visit_chunks(end, threshold, totals)
        else:
            end = self.descend(self.queue, end, threshold, totals)
        progress.iterations += 1
        progress.steps += int(totals[STEPS])
        progress.work += kernel_pass_seconds(totals[VISITS], totals[STEPS], len(self.ids))
        return end, totals

    def field(self, slot: np.ndarray | None = None) -> Any:
        """The field of the set, with other places of its rows if given."""
        pool = self.pool
        slot = pool.slot if slot is None else slot
        nothing = np.zeros(len(self.F)), 0.0  # the constant feature and its weight
        times = pool.used, pool.tick
        field = KernelField(pool.rows, slot, self.F, len(self.ids), *times, *nothing, pool.unit)
        return raised(self.problem, field, self.duals.label)

    def descend(self, queue: np.ndarray, end: int, threshold: float, totals: np.ndarray) -> int:
        """Compiled pieces of a pass over a queue; the end of what is left of it."""
        pool, progress = self.pool, self.progress
        field, hard_cap = self.field(), self.hard_cap()
        begin = 0
        while begin < end:
            before = totals[VISITS]
            started = time.perf_counter()
            begin, end = descend(
                field,
                self.duals,
                queue,
                begin,
                end,
                threshold,
                _RELAXATION,
                hard_cap,
                self.budget.visits,
                totals,
            )
            self.budget.learn(time.perf_counter() - started, totals[VISITS] - before)
            if begin < end:
                if progress.why_stop():
                    break
                if pool.slot[queue[begin]] < 0:
                    ahead = min(end, begin + max(1, min(64, pool.capacity // 2)))
                    pool.fetch(queue[begin:ahead])
        return end

    def visit_chunks(self, end: int, threshold: float, totals: np.ndarray) -> int:
        """Rows are scarce: those of as many patterns as fit, each used for several steps.

        Only patterns that would move now get a row, and while it is there they are visited
        again, after the others of their chunk.
        """
        nothing = np.full_like(self.pool.slot, -1)
        chunk = np.empty(self.pool.capacity, dtype=np.int64)
        begin, hard_cap = 0, self.hard_cap()
        while begin < end:
            field = self.field(nothing)
            begin, end, count = wanted(
                field, self.duals, self.queue, begin, end, threshold, hard_cap, chunk
            )
            self.pool.hold(chunk[:count])
            self.descend(chunk, count, threshold, totals)
            again = totals.copy()  # the gains of a pass are those of its first visits
            for _ in range(_VISITS_PER_ROW - 1):
                before = again[STEPS]
                self.descend(chunk, count, _THRESHOLD_AGAIN * threshold, again)
                if again[STEPS] == before:
                    break
            totals[STEPS], totals[VISITS] = again[STEPS], again[VISITS]
            if self.progress.why_stop():
                break
        return end

    def descend_until(self, target: float) -> bool:
        """Passes until the gap inside the set is below ``target``; whether anything moved."""
        threshold = 0.0
        before, limit = self.progress.steps, max(2.0 * self.progress.work, _SHORTEST_ROUND)
        for _ in range(_MOST_PASSES // _PASSES_PER_SCREEN):
            end, sums = self.screen()
            if sums[GAP] <= target or end == 0:
                break
            for _ in range(_PASSES_PER_SCREEN):
                end, totals = self.visit(end, threshold)
                has_rested = totals[STEPS] == 0 and threshold == 0.0
                threshold = totals[GAIN] / len(self.ids) if totals[STEPS] else 0.0
                is_over = self.progress.work > limit or bool(self.progress.why_stop())
                if totals[STEPS] == 0 or end == 0 or is_over:
                    break
            if has_rested or is_over:
                break
        return self.progress.steps > before

    # -- rounds ------------------------------------------------------------------------------

    def check(self) -> Checked:
        """P and D; the patterns outside that violate their margin are the next to join."""
        if self.is_quiet_outside:
            # few joined at the last check, and the set has come to rest: the judge looks at all
            found = self.sum_up()
            self.is_quiet_outside = self.has_looked = False
            if found.relative_gap <= self.progress.stop.tol:
                return found
        self.has_looked = True
        is_near = self.gap < _NEAR_GAP * self.primal
        self.look_outside(is_near and self.pool.unit != 1.0)
        found = self.sum_up()
        self.is_quiet_outside = is_near and len(self.violating) <= _QUIET * len(self.ids)
        return found

    def look_outside(self, refreshes: bool = False) -> None:
        """Scores of the patterns outside by the current dual variables, or of all."""
        patterns = np.flatnonzero(~self.inside)
        if refreshes:
            patterns = np.concatenate([self.ids, patterns])
        support = np.flatnonzero(self.own_weights())
        is_known = self.know_rows(self.ids[support])
        found = self.scores(patterns, support[~is_known])
        if self.kept_rows is not None and is_known.any():
            at = support[is_known]
            found += self.kept_rows.scores(self.ids[at], self.duals.tau[at])[:, patterns].T
        if refreshes:
            self.F = np.ascontiguousarray(found[: len(self.ids)].T)
        self.outside_scores[patterns] = found
        self.progress.work += kernel_check_seconds(len(patterns), len(self.ids))

    def know_rows(self, support: np.ndarray) -> np.ndarray:
        """Of which of these patterns the kernel rows over all patterns are at hand.

        Most patterns with weight at one check have weight at the next: a row that is kept turns
        its part of all further checks into a product of matrices.
        """
        data, n = self.pool.data, self.problem.n_patterns
        if data.length < _LONG_ROW:
            return np.zeros(len(support), dtype=bool)
        room = self.rows_beside(self.pool.rows.size)
        if self.kept_rows is None and room >= len(support):
            write, n_jobs = data.writer_of_all(), self.problem.n_jobs
            self.kept_rows = KnownRows(write, n, self.dtype, room, n_jobs)
        if self.kept_rows is None:
            return np.zeros(len(support), dtype=bool)
        new = self.kept_rows.missing(support)
        left = max(min(room, len(self.kept_rows.rows)) - self.kept_rows.count, 0)
        self.kept_rows.learn(new[:left], self.progress.why_end)
        return np.asarray(self.kept_rows.place[support] >= 0)

    def rows_beside(self, n_cells: int) -> int:
        """Rows over all patterns that fit beside so many numbers of the set, which come first."""
        pool, size = self.pool, self.dtype.itemsize
        left = 1e6 * self.cache_mb - n_cells * pool.stored.itemsize - pool.data.cells_of_all * size
        return max(int(left) // (size * self.problem.n_patterns), 0)

    def sum_up(self) -> Checked:
        """What ``check`` says, by the scores outside as they were last seen."""
        problem = self.problem
        _, totals = self.screen()
        outside = np.flatnonzero(~self.inside)
        margins = _margins(problem, self.outside_scores[outside].astype(np.float64), outside)
        slacks = np.maximum(0.0, 1.0 - margins)
        hard_cap = self.hard_cap()
        cap = np.where(np.isinf(problem.cap[outside]), hard_cap, problem.cap[outside])
        outside_loss = float(cap @ slacks)
        norm2 = float((self.duals.tau * self.F.T).sum())
        violating = outside[slacks > 0.0]
        self.violating = violating[np.argsort(-slacks[slacks > 0.0], kind="stable")]
        self.gap = float(totals[GAP]) + outside_loss
        margin = min(totals[MARGIN] + 1.0, margins.min(initial=np.inf))
        loss = totals[LOSS] + outside_loss
        own = totals[OWN] + problem.extra_reward(self.duals.tau, self.ids)
        primal, dual = values_of_sums(problem, norm2, loss, own, margin)
        self.primal = primal
        n_support = int(np.count_nonzero(self.own_weights()))
        return Checked(primal, dual, merit(primal, margin, norm2), len(self.ids), n_support)

    def rescale(self) -> None:
        """The dual of the hard margin is a cone: go to the best multiple of the point (1.12)."""
        own = float(self.own_weights().sum())
        norm2 = float((self.duals.tau * self.F.T).sum())
        if norm2 > 0.0 and own > 0.0:
            self.duals.tau[:] *= own / norm2
            self.F *= self.dtype.type(own / norm2)

    def own_weights(self) -> np.ndarray:
        """tau_{i,own} of the patterns of the set."""
        return np.asarray(self.duals.tau[self.everyone, self.duals.own])

    def point(self) -> DualPoint:
        if not len(self.everyone):  # between two working sets
            return DualPoint.from_dense(
                self.problem, self.problem.machine.signed(self.tau, self.problem.own)
            )
        at = np.flatnonzero(self.own_weights())
        at = at[np.argsort(self.ids[at])]
        return DualPoint.from_tau(self.ids[at], self.duals.tau[at], self.duals.own[at])

    def advance(self, checked: Checked) -> bool:
        if not self.has_looked:
            return True  # something outside: the next check looks there
        if np.isnan(self.gap) or (self.idle > 1 and not len(self.violating)):
            self.idle = 0
            if not self.sharpen():
                return False
        else:
            self.trim()
            self.grow(self.violating[: largest_growth(len(self.ids))])
        self.descend_in_set()
        return True

    def descend_in_set(self) -> None:
        """Passes inside the set down to a part of the gap, or of the tolerance."""
        target = _SHRINK_UNTIL * self.gap
        if not self.problem.is_hard:
            target = max(target, _SAFETY * self.progress.stop.tol * self.primal)
        self.idle = 0 if self.descend_until(target) else self.idle + 1
        if self.problem.is_hard:
            self.rescale()

    def rejected(self, judgement: Judgement) -> None:
        if self.has_looked:
            self.idle = 2  # the judge sees more than these scores show

    def adopt(self, point: DualPoint) -> None:
        self.tau = point.tau(self.problem)
        self.first = np.arange(self.problem.n_patterns)
        self.prepare(np.float64)
        self.gap = 0.0
        self.descend_in_set()

    def largest_weight(self) -> float:
        return float(self.duals.tau.max(initial=0.0))

    def sharpen(self) -> bool:
        """Nothing moves but the gap is open: recompute scores in float64; False: they are."""
        refreshed_at, self.refreshed_at = self.refreshed_at, self.progress.steps
        if self.dtype == np.float32:
            at = np.flatnonzero(self.own_weights())
            self.tau[:] = 0.0
            self.tau[self.ids[at]] = self.duals.tau[at]
            self.first = np.flatnonzero(self.inside)
            self.prepare(np.float64)
            return True
        if refreshed_at == self.progress.steps:
            return False
        self.refresh()
        return True


def _margins(problem: Problem, scores: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """f_own - max over the other classes, raised by costs; the scores are overwritten."""
    scores = problem.raised(scores, patterns)
    at = np.arange(len(patterns))
    own_scores = scores[at, problem.own[patterns]].copy()
    scores[problem.prototype_class[None, :] == problem.label[patterns, None]] = -np.inf
    return own_scores - scores.max(axis=1, initial=-np.inf)
