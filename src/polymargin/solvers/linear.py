"""Linear kernels: sweeps over the data with explicit prototypes.

A *check* multiplies all data with the prototypes (BLAS), which gives the certificate and, for every
pattern, the list of variables that could still move.  Between two checks only those variables are
visited, in random order, until their estimated share of the gap has fallen far enough.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import scipy.sparse as sp

from polymargin.certificate.certificate import Judgement
from polymargin.certificate.objective import merit, values_of_sums
from polymargin.certificate.training_scores import prototypes
from polymargin.compiled.fields import DenseField, SparseField
from polymargin.compiled.memory import fresh
from polymargin.compiled.pattern_descent import descend_until, make_duals, screen
from polymargin.compiled.raised_field import raised
from polymargin.compiled.totals import GAP, LOSS, MARGIN, OWN, STEPS, VISITS, empty_totals
from polymargin.problem.kernels import dense_scores
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem, computed_ahead, row_blocks
from polymargin.solvers.class_halves import ClassHalves
from polymargin.solvers.costs import Budget, linear_check_seconds, linear_visit_seconds, row_width
from polymargin.solvers.driver import Progress
from polymargin.solvers.linear_fields import (
    FEW,
    make_field,
    packed_rows,
    set_prototypes,
    sparse_scores,
    unpack,
)
from polymargin.solvers.method import Checked, Method
from polymargin.solvers.precision import FLOAT32_PROTOTYPES_TOL, allows_float32
from polymargin.solvers.run import Run, seed_state

__all__ = ["DAMPED", "DAMPED_WITHIN", "WORTH_THREADS", "Sweeps", "stand_in_cap"]

# Measured on the linear problems of benchmarks/: fewer checks cost passes over stale lists, more
# checks cost products with all the data.  (Share of the gap, share of the tolerance) at which to
# look again, where a pass costs more than a check, and where it costs less.
_WHEN_PASSES_COST_MORE = (0.1, 1.0)
_WHEN_CHECKS_COST_MORE = (0.05, 0.3)
# Part of the tolerance at which a check should find the gap; fewest and most passes before it.
_AIM, _FEWEST_PASSES, _PASSES_PER_CHECK = 0.8, 10, 60
_NEAR_END = 5.0  # times the tolerance: from there the next check is the last one as a rule
# Extra round only if it costs at most 20 % of the work so far and the gap is above half the
# tolerance.
_CHEAP, _GOOD = 0.2, 0.5
_RELAXATION = 1.4
# Over-relaxed steps leave noise in the margins, which P sees much more than D: near the tolerance
# (up to so many times it) the last passes before a check are under-relaxed, more and more.
DAMPED, DAMPED_WITHIN = (1.0, 0.7, 0.45, 0.3), 30.0
_FIRST_BLOCK = 512
_LARGE = 1e7  # numbers in X
WORTH_THREADS = 2e-3  # nominal seconds of a check from which on it is shared by threads
_WORTH_CASTING = 32
"""Prototypes from which on a float32 copy of a block of rows pays for itself in the product."""


class Sweeps(Method):
    """Block descent on explicit prototypes.

    Problem card: (1.1)-(1.3) with kappa(x, z) = ⟨x, z⟩ + u^2: plain Crammer-Singer, one or several
    prototypes per class, soft or hard margin, with or without a centre.

    Once within the tolerance, a round more is made where rounds are cheap (``gives_extra``): a
    better model for some percent of the time.
    """

    takes_interior_point = True
    may_remember = True  # large data: the judge's scores of all patterns serve as the last check
    gives_extra = True
    aim, fewest_passes = _AIM, _FEWEST_PASSES
    float32_rows: np.ndarray | None = None  # of X, where many checks share the price of a copy
    expected_rate: float | None = None  # how fast the gap falls per pass, if that is known

    def __init__(self, problem: Problem, run: Run, start: DualPoint | None = None) -> None:
        n, R = problem.n_patterns, problem.n_prototypes
        self.problem = problem
        self.progress = Progress(self, run)
        self.remembers = int(self.may_remember and _is_large(problem))
        self.is_cold = start is None
        tau = fresh((n, R)) if start is None else start.tau(problem)
        self.duals = make_duals(problem, slice(None), tau)
        self.single = allows_float32(problem, run.stop.tol, FLOAT32_PROTOTYPES_TOL)
        self.field, self.place = make_field(
            problem, self.single, R, float(np.sqrt(problem.kernel.offset))
        )
        self.queue = np.empty(n, dtype=np.int64)
        self.everyone = np.arange(n)
        self.random = seed_state(run.seed)
        self.visit_cost = linear_visit_seconds(problem)
        self.check_cost = linear_check_seconds(problem)
        self.budget = Budget(30.0 + row_width(problem))
        self.block = max(256, min(8192, 16384 // R))
        self.has_extra = False
        self.slot = np.empty(n, dtype=np.int64)
        if not self.is_cold or problem.centre is not None:
            self.refresh()

    def start(self, progress: Progress) -> None:
        self.progress = progress
        self.rate = self.expected_rate
        if self.is_cold and not progress.steps:
            self.first_pass()
        self.latest: tuple[int, float] | None = None
        self.expects_end = self.is_rejected = False
        self.refreshed_at = -1

    # -- scores ------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Prototypes from the dual variables, free of drift."""
        tau, field = self.duals.tau, self.field
        W = prototypes(self.problem, self.everyone, tau)
        constant = field.scale * tau.sum(axis=0)
        if self.problem.centre is not None:
            W += self.problem.centre[0]
            constant += self.problem.centre[1]
        set_prototypes(field, self.place, W)
        field.constant[:] = constant

    def frozen(self) -> DenseField | SparseField:
        """The field with a copy of its prototypes: scores of it do not see later pushes."""
        field = self.field
        constant = field.constant.copy()
        if isinstance(field, SparseField):
            return field._replace(V=field.V.copy(), constant=constant, total=field.total.copy())
        return field._replace(W=field.W.copy(), constant=constant)

    def scores(
        self, patterns: np.ndarray, rows: slice, field: DenseField | SparseField | None = None
    ) -> np.ndarray:
        """(R, k) scores of a block without the constant feature, raised where there are costs."""
        scores = self.plain_scores(patterns, rows, field)
        return np.ascontiguousarray(self.problem.raised(scores.T, rows).T)

    def plain_scores(
        self, patterns: np.ndarray, rows: slice, field: DenseField | SparseField | None
    ) -> np.ndarray:
        """(R, k) scores of a block, without the constant feature."""
        field = self.field if field is None else field
        if isinstance(field, SparseField):
            return sparse_scores(field, patterns, self.problem.n_prototypes)
        if self.float32_rows is not None:
            return dense_scores(field.W.astype(np.float32), self.float32_rows[rows])
        if self.single and (field.X.dtype == np.float32 or len(field.W) >= _WORTH_CASTING):
            block = field.X[rows].astype(np.float32, copy=False)
            return dense_scores(field.W.astype(np.float32), block)
        return dense_scores(field.W, field.X[rows])

    def screen(self, rows: slice, end: int, hard_cap: float, totals: np.ndarray) -> int:
        """Screen a block of rows; the new end of the queue comes back."""
        patterns = np.ascontiguousarray(self.everyone[rows])
        scores = self.scores(patterns, rows)
        shift = (self.field.constant * self.field.scale).astype(scores.dtype)
        return int(screen(scores, shift, patterns, self.duals, self.queue, end, hard_cap, totals))

    def screen_all(self, hard_cap: float, totals: np.ndarray) -> int:
        """Screen all rows; the length of the queue comes back."""
        if self.expects_end and self.remembers:
            # the judge will be asked anyway, and this product with the data is as good as ours
            scores = self.progress.scores_of_all(self.point())
            return self.screen_known(scores, hard_cap, totals)
        n_jobs = self.problem.n_jobs if self.check_cost > WORTH_THREADS else 1
        blocks = list(row_blocks(self.problem.n_patterns, self.block))
        end = 0
        for first, last, sums in computed_ahead(partial(self.look, hard_cap), blocks, n_jobs):
            # added up block by block, so that the bits do not depend on the number of threads
            totals[[GAP, LOSS, OWN]] += sums[[GAP, LOSS, OWN]]
            totals[MARGIN] = min(totals[MARGIN], sums[MARGIN])
            self.queue[end : end + last - first] = self.queue[first:last]
            end += last - first
        return end

    def look(self, hard_cap: float, rows: slice) -> tuple[int, int, np.ndarray]:
        """Screen a block into its own places of the queue; where they begin and end, and sums."""
        sums = empty_totals()
        return rows.start, self.screen(rows, rows.start, hard_cap, sums), sums

    def screen_known(self, scores: np.ndarray, hard_cap: float, totals: np.ndarray) -> int:
        """Screen all rows by known scores (n, R), the constant included."""
        S = np.ascontiguousarray(self.problem.raised(scores).T)
        shift = np.zeros(scores.shape[1])
        return int(screen(S, shift, self.everyone, self.duals, self.queue, 0, hard_cap, totals))

    @property
    def matrix(self) -> np.ndarray:
        """The prototypes as the field keeps them."""
        return self.field.V if isinstance(self.field, SparseField) else self.field.W

    @property
    def norm2(self) -> float:
        """||M||^2, or ||M - M_0||^2."""
        return self.products()[0]

    def products(self) -> tuple[float, float]:
        """||M||^2 and 0, or with a centre ||M - M_0||^2 and ⟨M - M_0, M_0⟩."""
        field, centre, M = self.field, self.problem.centre, self.matrix
        c = field.constant
        if centre is None:
            return float(np.einsum("ij,ij->", M, M, dtype=np.float64) + np.vdot(c, c)), 0.0
        M0, c0 = centre
        if isinstance(field, SparseField):
            M = M[self.place, : len(M0)].T
        change, shift = M - M0, c - c0
        cross = float((change * M0).sum() + np.vdot(shift, c0))
        return float((change * change).sum() + np.vdot(shift, shift)), cross

    def hard_cap(self) -> float:
        return stand_in_cap(self.problem, self.duals.tau)

    # -- passes ------------------------------------------------------------------------------

    def passes(
        self,
        end: int,
        target: float,
        most: int,
        hard_cap: float,
        relaxation: float = _RELAXATION,
        packed: DenseField | None = None,
    ) -> tuple[int, int]:
        """Compiled passes over ``queue[:end]`` in pieces that let Python look at the clock.

        Returns the number of steps made and the new end; passes and steps are counted.
        """
        progress = self.progress
        field = self.field if packed is None else packed
        field = raised(self.problem, field, self.duals.label)
        begin, made, steps = 0, 0, 0
        totals = empty_totals()
        while True:
            before = totals[VISITS]
            started = time.perf_counter()
            begin, end, finished = descend_until(
                field,
                self.duals,
                self.queue,
                begin,
                end,
                target,
                most - made,
                self.random,
                relaxation,
                hard_cap,
                self.budget.visits,
                totals,
            )
            self.budget.learn(time.perf_counter() - started, totals[VISITS] - before)
            made += finished
            progress.iterations += finished
            progress.work += self.visit_cost * (totals[VISITS] - before)
            steps = int(totals[STEPS])
            if begin >= end or progress.why_stop():
                break
        progress.steps += steps
        return steps, end

    def passes_in_halves(
        self, halves: ClassHalves, end: int, most: int, packed: DenseField | None
    ) -> None:
        """At most so many passes over ``queue[:end]`` on two threads."""
        progress = self.progress
        field = raised(self.problem, self.field if packed is None else packed, self.duals.label)
        made, steps, visits = halves.passes(
            field, self.queue[:end].copy(), most, _RELAXATION, self.budget.visits, progress.why_stop
        )
        progress.iterations += made
        progress.steps += steps
        progress.work += self.visit_cost * visits

    def go(self, end: int, target: float, most: int, relative: float) -> int:
        """The passes between two checks; near the tolerance the last few are under-relaxed."""
        hard_cap = self.hard_cap()
        near = relative <= DAMPED_WITHIN * self.progress.stop.tol
        damped = DAMPED[-min(len(DAMPED), most - 1) :] if near and most > 1 else ()
        packed = self.pack(end)
        steps, end = self.passes(end, target, most - len(damped), hard_cap, packed=packed)
        for relaxation in damped:
            if not end or self.progress.why_stop():
                break
            made, end = self.passes(end, -1.0, 1, hard_cap, relaxation, packed)
            steps += made
        unpack(self.field, packed)
        return steps

    def pack(self, end: int, few: float = FEW) -> DenseField | None:
        """The rows in play packed, where that pays."""
        if not self.single or self.problem.centre is not None:
            return None
        return packed_rows(
            self.field, self.queue[:end], self.slot, lambda: self.norm2, self.problem, few
        )

    def until_check(self, relative: float) -> int:
        """Passes until the gap will be small enough if it goes on falling as it did."""
        now, before = self.progress.iterations, self.latest
        self.latest, self.expects_end = (now, relative), False
        if before is not None and 0.0 < relative < before[1] and now > before[0]:
            self.rate = float(np.log(before[1] / relative)) / (now - before[0])
        if self.rate is None or not 0.0 < relative < np.inf:
            return _PASSES_PER_CHECK
        wanted = np.log(relative / (self.aim * self.progress.stop.tol)) / self.rate
        near = relative <= _NEAR_END * self.progress.stop.tol
        self.expects_end = near and wanted <= _PASSES_PER_CHECK
        return int(min(max(wanted, self.fewest_passes), _PASSES_PER_CHECK))

    def first_pass(self) -> None:
        """A cold start: scores block by block with the prototypes as they grow.

        Every block takes each k-th row, so that data sorted by class still mix.
        """
        n = self.problem.n_patterns
        k = max(1, n // _FIRST_BLOCK)
        blocks = np.random.default_rng(int(self.random[0] >> np.uint64(1))).permutation(k)
        hard_cap = self.hard_cap()
        before = self.progress.iterations
        for c in blocks:
            rows = slice(int(c), n, k)
            end = self.screen(rows, 0, hard_cap, empty_totals())
            self.passes(end, np.inf, 1, hard_cap)
            if self.progress.why_end():
                break
        self.progress.iterations = before + 1

    def check(self) -> Checked:
        """Primal, dual and the queue of the next passes; lists are written anew."""
        totals = empty_totals()
        hard_cap = self.hard_cap()
        self.progress.work += self.check_cost
        self.end = self.screen_all(hard_cap, totals)
        self.gap = float(totals[GAP])
        margin = totals[MARGIN] + 1.0
        norm2, cross = self.products()
        own = totals[OWN] - cross + self.problem.extra_reward(self.duals.tau)
        primal, dual = values_of_sums(self.problem, norm2, totals[LOSS], own, margin)
        return Checked(primal, dual, merit(primal, margin, norm2), self.end)

    def rescale(self) -> None:
        """The dual of the hard margin is a cone: go to the best multiple of the point (1.12)."""
        rows = np.arange(self.problem.n_patterns)
        own = self.duals.tau[rows, self.problem.own].sum()
        norm2 = self.norm2
        if norm2 <= 0.0 or own <= 0.0:
            return
        factor = own / norm2
        self.duals.tau[:] *= factor
        self.matrix[:] *= factor
        self.field.constant[:] *= factor

    # -- rounds ------------------------------------------------------------------------------

    def advance(self, checked: Checked) -> bool:
        moved = not self.is_rejected and self.make_round(checked)
        self.is_rejected = False
        if not moved:
            if self.refreshed_at == self.progress.steps:
                return False
            self.refreshed_at = self.progress.steps
            self.refresh()
        if self.problem.is_hard:
            self.rescale()
        return True

    def rejected(self, judgement: Judgement) -> None:
        self.is_rejected = True

    def adopt(self, point: DualPoint) -> None:
        self.duals.tau[:] = point.tau(self.problem)
        self.duals.n_active[:] = 0  # the lists know nothing of this point
        self.refresh()

    def largest_weight(self) -> float:
        return float(self.duals.tau.max(initial=0.0))

    def last_round(self, checked: Checked) -> bool:
        """One more round where it costs next to nothing beside what was spent."""
        marks = self.progress.marks
        is_good = checked.relative_gap <= _GOOD * self.progress.stop.tol
        if self.has_extra or is_good or not self.gives_extra or len(marks) < 2:
            return False
        if self.remembers or self.problem.is_hard:
            return False  # the judge has been asked already; points of a cone have no middle
        self.has_extra = True
        spent = marks[-1][0]
        if spent - marks[-2][0] > _CHEAP * spent or self.progress.why_stop() is not None:
            return False
        self.make_extra_round(checked)
        return True

    def make_round(self, checked: Checked) -> bool:
        """Passes until the next check should be made; whether a step moved something."""
        target, relative = self.target(checked.primal), checked.relative_gap
        left = self.progress.stop.max_iter - self.progress.iterations
        return self.go(self.end, target, min(self.until_check(relative), left), relative) > 0

    def make_extra_round(self, checked: Checked) -> None:
        """Passes, and then the middle between the points before and after them.

        P is convex and D concave, so the gap of the middle is at most the mean of the two; it is
        less by what the noise of single steps in the margins cancels out, a fifth as a rule.
        """
        field, tau, M = self.field, self.duals.tau, self.matrix
        rows = self.queue[: self.end].copy()
        before, M_before, constant_before = tau[rows], M.copy(), field.constant.copy()
        self.make_round(checked)
        tau[rows] = 0.5 * (tau[rows] + before)
        self.duals.n_active[rows] = 0  # the lists know nothing of this point
        M[:] = 0.5 * (M + M_before)
        field.constant[:] = 0.5 * (field.constant + constant_before)

    def target(self, primal: float) -> float:
        """The estimated gap at which the next check is worth its price."""
        visits = float(self.duals.n_active[self.queue[: self.end]].sum())
        checks_cost_more = self.visit_cost * visits < self.check_cost
        shares = _WHEN_CHECKS_COST_MORE if checks_cost_more else _WHEN_PASSES_COST_MORE
        if self.problem.is_hard:
            return shares[0] * self.gap
        return max(shares[0] * self.gap, shares[1] * self.progress.stop.tol * primal)

    def point(self) -> DualPoint:
        flat = self.duals.tau.ravel()
        own = flat.take(self.everyone * self.problem.n_prototypes + self.problem.own)
        support = np.flatnonzero(own)
        tau = self.duals.tau.take(support, axis=0)
        return DualPoint.from_tau(support, tau, self.problem.own[support])


def stand_in_cap(problem: Problem, tau: np.ndarray) -> float:
    """Stands for an infinite C in estimates of the gap: twice the largest weight so far."""
    if not problem.is_hard:
        return 0.0
    largest = float(tau.max(initial=0.0))
    return 2.0 * largest if largest > 0.0 else 1.0


def _is_large(problem: Problem) -> bool:
    """Whether a product with the data costs so much that the judge's own should be the last check.

    On small data the judge costs more than a check, and it is often asked too early; scores of all
    patterns must be small beside the data.
    """
    X = problem.rows
    return not sp.issparse(X) and X.size >= _LARGE and 4 * problem.n_prototypes <= X.shape[1]
