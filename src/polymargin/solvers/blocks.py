"""Block descent for every machine of the table, with an unpenalised intercept where asked.

Problem card: (4.1), (5.1), (6.1) or a row of one's own, by their duals.  Passes visit the variables
that could still move; a *check* makes the point feasible, certifies it and writes the lists anew.

A free intercept is a proximal-point loop, not a second solver: its constraints (the coefficients
of every class sum to zero) have the structure of a constant kernel.  A constant ``penalty`` is
added to the kernel and the scores are shifted by the present intercept b, which is a penalised
intercept with its centre at b; after every pass b moves to what the penalised one has become.  The
iterates are not balanced, so a check repairs them before it certifies (19.4).
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from polymargin.certificate.certificate import Judgement
from polymargin.certificate.intercepts import Bias
from polymargin.certificate.objective import Objective, linear_and_ridge, merit, values_of
from polymargin.compiled.block_descent import descend_blocks
from polymargin.compiled.block_lists import enlist, examine_sums
from polymargin.compiled.block_variables import make_blocks
from polymargin.compiled.fields import DenseField
from polymargin.compiled.gathered_field import GatheredField, flush, gathered, is_worth_gathering
from polymargin.compiled.pattern_descent import shuffle
from polymargin.compiled.raised_field import raised
from polymargin.compiled.totals import GAIN, GAP, STEPS, VISITS, empty_totals
from polymargin.problem.balance import repair
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem
from polymargin.solvers.best_multiple import BestMultiple
from polymargin.solvers.block_scores import KernelStage, LinearStage, centred, settled
from polymargin.solvers.costs import (
    Budget,
    class_check_seconds,
    kernel_check_seconds,
    kernel_pass_seconds,
    linear_visit_seconds,
    row_width,
)
from polymargin.solvers.driver import Progress
from polymargin.solvers.last_digits import may_refine_quadratic, refine_quadratic
from polymargin.solvers.linear import DAMPED, DAMPED_WITHIN
from polymargin.solvers.linear_fields import packed_rows, unpack
from polymargin.solvers.method import Checked, Method
from polymargin.solvers.precision import FLOAT32_PROTOTYPES_TOL, allows_float32
from polymargin.solvers.run import Run, seed_state

__all__ = ["BlockDescent"]

# Measured on the problems of benchmarks/machines.
_RELAXATION = 1.4
_PASSES_PER_CHECK = (40, 80, 15)  # kernels, linear, kernels close to the end or quadratic
_THRESHOLD = 0.8  # kernels: share of the average gain below which a step waits
_PENALTY = 0.05  # constant kernel of a free intercept, in units of the mean K_ii
# look again at this part of the gap, or of the tolerance: kernels, linear
_FALL, _SHARE = (0.1, 0.06), (0.3, 1.0)
_NEAR = 60.0  # kernels: times the tolerance within which noise in the margins is most of the gap
_CLOSE = 3.0  # kernels: times the tolerance within which the next check comes sooner
# kernels: patterns that lead by this part of the target leave, if no more than a share stay
# (quadratic slacks: a smaller one, few passes are left by then)
_FAR, _TRIM_BELOW, _TRIM_BELOW_QUADRATIC, _TRIM_WITHIN = 0.05, 0.85, 0.6, 0.1
_CALM = (1.0, 0.6, 0.4)  # relaxation of the passes before a check there
# checks near the end, and elsewhere, without a gap that much less: float32 is too coarse
_STALLED, _STALLED_FAR, _LESS = 5, 20, 0.95


class BlockDescent(Method):
    """Block descent on signed variables, on explicit prototypes or kernel rows."""

    takes_interior_point = True

    def __init__(
        self,
        problem: Problem,
        run: Run,
        start: DualPoint | None = None,
        takes_all: bool = False,
    ) -> None:
        n, Q = problem.n_patterns, problem.n_prototypes
        self.problem = problem
        self.machine = problem.machine
        self.takes_interior_point = problem.machine.loss_matrix is None
        self.cache_mb = run.cache_mb
        self.progress = Progress(self, run)
        self.takes_all = takes_all  # kernels: every pattern is in play from the beginning
        self.listed: int | None = None  # patterns queued by the last check, if it made the lists
        # patterns of the blocks, set together with them; None: ``self.V`` alone is the point
        self.members: np.ndarray | None = None
        self.random = seed_state(run.seed)
        self.penalty = _PENALTY * float(problem.diagonal.mean()) or 1.0
        self.V, self.b = np.zeros((n, Q)), np.zeros(Q)
        if start is not None:
            self.place(start)

    def place(self, point: DualPoint) -> None:
        """Take the variables and the intercept of a point; ``prepare`` goes on from there."""
        self.V = point.dense(self.problem)
        if point.b is not None and self.problem.has_free_bias:
            self.b = point.b - point.b.mean()

    def start(self, progress: Progress) -> None:
        self.progress = progress
        self.idle = 0
        self.is_near = self.is_close = False
        self.least_gap, self.n_stalled = np.inf, 0
        self.multiple = BestMultiple()
        self.open_stage(allows_float32(self.problem, progress.stop.tol, FLOAT32_PROTOTYPES_TOL))

    def open_stage(self, single: bool) -> None:
        """Make what holds the scores; a method that lasts keeps it from solve to solve."""
        self.prepare(single)

    # -- the state ---------------------------------------------------------------------------

    def prepare(self, single: bool) -> None:
        """Start (again) from ``self.V`` and ``self.b``."""
        problem = self.problem
        n = problem.n_patterns
        self.members = None  # time may run out before the new stage has blocks
        self.single = single
        self.stage: LinearStage | KernelStage
        if problem.kernel.is_linear:
            self.stage = LinearStage(problem, self.penalty, single)
            self.budget = Budget(30.0 + row_width(problem))
        else:
            dtype = np.float32 if single else np.float64
            self.stage = KernelStage(
                problem,
                self.penalty,
                dtype,
                self.cache_mb,
                self.progress.why_end,
                self.first_set(),
            )
            self.budget = Budget(1000.0 + n)
        self.outside = np.ones(n, dtype=bool)
        self.open_blocks()
        self.stage.refresh(self.blocks.V, self.b)

    def first_set(self) -> np.ndarray:
        """Patterns to begin with: all where most get weight, else those that have it and some."""
        n = self.problem.n_patterns
        if not self.machine.K1 or n <= 500 or self.takes_all:
            return np.arange(n)
        order = np.random.default_rng(int(self.random[0] >> np.uint64(1))).permutation(n)
        has_weight: np.ndarray = np.asarray(self.V.any(axis=1))
        some = order[np.logical_not(has_weight[order])][: max(500, n // 10)]
        return np.concatenate([np.flatnonzero(has_weight), some])

    def open_blocks(self) -> None:
        """Blocks for the patterns of the stage, from ``self.V``."""
        ids = self.stage.ids
        extra = self.penalty if self.problem.has_free_bias else 0.0
        # linear stages have all patterns: no second copy of their variables
        if isinstance(self.stage, LinearStage):
            self.V = V = np.ascontiguousarray(self.V)
        else:
            V = self.V[ids]
        self.blocks, self.members = make_blocks(self.problem, ids, V, extra), ids
        self.queue = np.empty(len(ids), dtype=np.int64)
        self.slot = np.empty(len(ids), dtype=np.int64)
        self.outside[:] = True
        self.outside[ids] = False

    def variables(self) -> np.ndarray:
        """(n, Q) signed variables of all patterns.

        Right at every look at the clock: a stage that is growing already counts patterns that have
        no block yet.
        """
        if self.members is not None and self.blocks.V is not self.V:
            self.V[self.members] = self.blocks.V
        return self.V

    def point(self) -> DualPoint:
        """A feasible dual point: balanced where the intercept is free."""
        V = self.variables()
        if self.problem.has_free_bias and not self.is_balanced():
            V = repair(self.machine, V, self.problem.own, V)
        return DualPoint.from_dense(self.problem, V, self.b.copy())

    def snapshot(self) -> DualPoint:
        return replace(self.point(), b=self.found.bias.b if self.problem.has_free_bias else None)

    def is_balanced(self) -> bool:
        T = self.machine.coefficients(self.V, self.problem.own)
        total = float(np.abs(T).sum(axis=0).max(initial=0.0))
        return bool(np.abs(T.sum(axis=0)).max(initial=0.0) <= 1e-12 * total)

    # -- passes ------------------------------------------------------------------------------

    def gradient(self, scores: np.ndarray) -> np.ndarray:
        """dD/dv of the set from its class scores, the intercept not yet in them."""
        blocks, problem = self.blocks, self.problem
        scores = problem.raised(scores, self.stage.ids)
        shifted = scores + self.stage.bias() if problem.has_free_bias else scores
        return self.machine.dual_gradient(shifted, blocks.own, blocks.V, blocks.ridge)

    def hard_cap(self) -> float:
        """Stands for an infinite cap in estimates of the gap."""
        if self.problem.is_hard or self.machine.p == 2:
            return 2.0 * float(np.abs(self.blocks.V).max(initial=0.0)) or 1.0
        return 0.0

    def visit(
        self,
        end: int,
        threshold: float,
        relaxation: float = _RELAXATION,
        packed: DenseField | None = None,
    ) -> tuple[int, np.ndarray]:
        """One pass over the queue in compiled pieces; missing kernel rows are fetched ahead."""
        totals = empty_totals()
        progress, stage = self.progress, self.stage
        hard_cap = self.hard_cap()
        waiting = self.gathered_field() if packed is None else None
        field = raised(self.problem, packed or waiting or stage.field, self.blocks.own)
        begin = 0
        shuffle(self.queue, end, self.random)
        while begin < end:
            before = totals[VISITS]
            started = time.perf_counter()
            begin, end = descend_blocks(
                field,
                self.blocks,
                self.queue,
                begin,
                end,
                threshold,
                relaxation,
                hard_cap,
                self.budget.visits,
                totals,
            )
            self.budget.learn(time.perf_counter() - started, totals[VISITS] - before)
            if begin < end:
                if progress.why_stop():
                    break
                if isinstance(stage, KernelStage) and stage.pool.slot[self.queue[begin]] < 0:
                    ahead = min(end, begin + max(1, min(64, stage.pool.capacity // 2)))
                    stage.pool.fetch(self.queue[begin:ahead])
        # only here: where a compiled piece ends depends on the clock, and bits must not
        if waiting is not None:
            flush(waiting)
        if isinstance(stage, KernelStage):
            stage.settle()
        progress.iterations += 1
        progress.steps += int(totals[STEPS])
        progress.work += self.nominal_cost(totals)
        if self.problem.has_free_bias:
            self.move_bias()
        return end, totals

    def gathered_field(self) -> GatheredField | None:
        """The kernel field with pushes made together, where that pays and no row can leave."""
        stage = self.stage
        if not isinstance(stage, KernelStage) or not stage.has_all_rows():
            return None
        field = stage.field
        return gathered(field) if is_worth_gathering(field, self.blocks.relative) else None

    def nominal_cost(self, totals: np.ndarray) -> float:
        if isinstance(self.stage, KernelStage):
            size = len(self.stage.ids)
            return kernel_pass_seconds(float(totals[VISITS]), float(totals[STEPS]), size, 3.0)
        return float(totals[VISITS]) * linear_visit_seconds(self.problem)

    def sums(self) -> np.ndarray:
        return settled(self.machine, self.blocks.V, self.blocks.own).sum(axis=0)

    def move_bias(self) -> None:
        """The proximal step: b becomes what the penalised intercept has become."""
        b = self.stage.bias()
        b -= b.mean()
        self.stage.move_bias(b - self.b)
        self.b = b

    def passes(self, scores: np.ndarray, target: float, is_damped: bool = False) -> int:
        """Passes until the gap that they find is below ``target``; the steps made.

        ``is_damped``: the last ones before the check are under-relaxed (linear kernels).
        """
        before = self.progress.steps
        stage = self.stage
        end = self.listed
        if end is None:
            end = enlist(self.gradient(scores), self.blocks, self.queue)
        self.listed = None
        threshold = 0.0
        packed = self.pack(end)
        for _ in range(self.longest_round()):
            if not end:
                break
            queued = end
            end, totals = self.visit(end, threshold, packed=packed)
            if self.progress.why_stop():
                break
            if totals[GAP] <= target or not totals[STEPS]:
                if not threshold or totals[GAP] <= target:
                    break
                threshold = 0.0
            if isinstance(stage, KernelStage):
                threshold = _THRESHOLD * float(totals[GAIN]) / max(queued, 1)
                G = self.gradient(stage.inside_scores())
                end = enlist(G, self.blocks, self.queue)
        if is_damped and isinstance(stage, LinearStage):
            for relaxation in DAMPED:
                if end and not self.progress.why_stop():
                    end, _ = self.visit(end, 0.0, relaxation, packed)
        unpack(stage.field, packed)
        if self.is_near and isinstance(stage, KernelStage):
            self.calm(stage)
        return self.progress.steps - before

    def longest_round(self) -> int:
        """Passes until the next check, whatever they find."""
        if not self.stage.keeps_scores:
            return _PASSES_PER_CHECK[1]
        is_short = self.machine.p == 2 or self.is_close
        return _PASSES_PER_CHECK[2 if is_short else 0]

    def calm(self, stage: KernelStage) -> None:
        """Under-relaxed passes over all that could move: D hardly sees the noise, P does."""
        for relaxation in _CALM:
            end = enlist(self.gradient(stage.inside_scores()), self.blocks, self.queue)
            if end and not self.progress.why_stop():
                self.visit(end, 0.0, relaxation)

    def pack(self, end: int) -> DenseField | None:
        """The rows in play packed, where that pays (explicit prototypes only)."""
        stage = self.stage
        if not self.single or not isinstance(stage, LinearStage) or self.problem.has_free_bias:
            return None
        V = self.blocks.V
        return packed_rows(
            stage.field, self.queue[:end], self.slot, lambda: stage.norm2(V, V), self.problem
        )

    # -- checks ------------------------------------------------------------------------------

    def balance(self, scores: np.ndarray) -> None:
        """Repair the variables of the set so that the certificate may be computed (19.4)."""
        blocks = self.blocks
        raised_scores = self.problem.raised(scores, self.stage.ids)
        lack = self.machine.deficits(raised_scores + self.b, blocks.own)
        repaired = repair(self.machine, blocks.V, blocks.own, lack)
        change = repaired - blocks.V
        rows = np.flatnonzero(change.any(axis=1))
        blocks.V[:] = repaired
        blocks.total[:] = repaired.sum(axis=1)
        if len(rows):
            self.stage.shift(rows, change[rows])
        self.stage.set_bias(self.b, self.sums())

    def inside_scores(self) -> np.ndarray:
        stage = self.stage
        return stage.inside_scores() if isinstance(stage, KernelStage) else stage.scores()

    def check(self) -> Checked:
        """Values of the repaired point; scores of the set and of all patterns are kept."""
        if self.may_examine:
            return self.checked(*self.examine())
        stage = self.stage
        drifts = isinstance(stage, KernelStage) and stage.has_all_rows()
        refreshes = drifts and (self.is_near or self.n_stalled > 1)
        checked = self.checked(*self.look(refreshes))
        if drifts and not refreshes and checked.relative_gap <= _CLOSE * self.progress.stop.tol:
            checked = self.checked(*self.look(True))
        return checked

    def checked(self, found: Objective, norm2: float) -> Checked:
        """What the driver is told of these values."""
        self.found = found
        active = int(self.blocks.n_active.sum())
        n_support = 0
        if not self.problem.kernel.is_linear:
            n_support = int(self.blocks.V.any(axis=1).sum())
        order = merit(found.primal, found.margin, norm2)
        return Checked(found.primal, found.dual, order, active, n_support)

    def look(self, refreshes: bool) -> tuple[Objective, float]:
        """Values and ||w||^2 of the repaired point by the scores of all patterns.

        ``refreshes``: those of the set are made anew from its kernel rows; in single precision
        they drift.
        """
        problem, stage, blocks = self.problem, self.stage, self.blocks
        blocks.total[:] = blocks.V.sum(axis=1)
        if refreshes:
            stage.refresh(blocks.V, self.b)
        if self.is_near and self.multiple.may_help(problem):
            self.multiple.take(self)
        if problem.has_free_bias:
            self.balance(self.inside_scores())
        if self.problem.is_hard or self.machine.p == 2:
            self.rescale()
        self.inside = inside = self.inside_scores()
        norm2 = stage.norm2(blocks.V, inside)
        scores = inside
        if isinstance(stage, KernelStage):
            scores = np.empty((problem.n_patterns, problem.n_prototypes))
            scores[stage.ids] = inside
            outside = np.flatnonzero(self.outside)
            C = settled(self.machine, blocks.V, blocks.own)
            self.raw_outside = stage.against(outside, C)
            scores[outside] = centred(self.machine, self.raw_outside.astype(np.float64))
            self.progress.work += kernel_check_seconds(len(outside), len(stage.ids))
        self.scores = scores
        width = row_width(problem) if problem.kernel.is_linear else 0.0
        self.progress.work += class_check_seconds(scores.size, width, is_compiled=False)
        reward, ridge = linear_and_ridge(problem, stage.ids, blocks.V)
        # far from the optimum any intercept will do: the search for the best one costs a check
        may_search = self.is_near or problem.kernel.is_linear
        return values_of(problem, scores, norm2, reward, ridge, self.b, may_search), norm2

    @property
    def may_examine(self) -> bool:
        """Whether one compiled pass over the scores makes the whole check."""
        machine, problem = self.machine, self.problem
        summed = (machine.K1, machine.K3, machine.p, machine.own_target) == (1, 0, 1, None)
        plain = not problem.has_free_bias and not problem.is_hard
        return bool(summed and plain and problem.kernel.is_linear and machine.shares[0] == 1.0)

    def examine(self) -> tuple[Objective, float]:
        """``look`` for Weston-Watkins on linear data; it writes the lists of the next passes."""
        problem, stage = self.problem, self.stage
        self.inside = self.scores = scores = self.inside_scores()
        norm2 = stage.norm2(self.blocks.V, scores)
        found = np.zeros(2)
        self.listed = int(examine_sums(problem.raised(scores), self.blocks, self.queue, found))
        reward = float(found[1]) + problem.extra_reward(self.blocks.V)
        self.progress.work += class_check_seconds(scores.size, row_width(problem), is_compiled=True)
        primal, dual = 0.5 * norm2 + float(found[0]), reward - 0.5 * norm2
        bias = Bias(np.zeros(problem.n_prototypes), 0.0)
        return Objective(primal, dual, bias, 1.0, np.nan), norm2

    def rescale(self) -> None:
        """The dual of the hard margin is a cone: go to the best multiple of the point (5.10)."""
        blocks, stage = self.blocks, self.stage
        norm2 = stage.norm2(blocks.V, self.inside_scores())
        if blocks.ridge.any():
            smoothed = self.machine.smoothed(blocks.V, blocks.own)
            with np.errstate(over="ignore", invalid="ignore"):
                norm2 += float((blocks.V * smoothed).sum(axis=1) @ blocks.ridge)
        reward = self.machine.reward(blocks.V, blocks.own)
        if not 0.0 < norm2 < np.inf or reward <= 0.0:
            return
        multiple = reward / norm2
        with np.errstate(over="ignore"):
            if not np.isfinite(multiple * np.abs(blocks.V).max(initial=0.0)):
                return
        blocks.V[:] *= multiple
        blocks.total[:] *= multiple
        self.b = self.b * multiple
        if isinstance(stage, KernelStage) and stage.has_all_rows():
            stage.F *= stage.dtype.type(multiple)  # ``look`` has refreshed them
            if self.problem.has_free_bias:
                stage.set_bias(self.b, self.sums())
        else:
            stage.refresh(blocks.V, self.b)

    def grow(self) -> int:
        """Patterns outside that violate their constraints join, worst first; how many did."""
        stage = self.stage
        if not isinstance(stage, KernelStage) or not self.outside.any():
            return 0
        outside = np.flatnonzero(self.outside)
        scores = self.problem.raised(self.scores[outside], outside)
        lack = self.machine.deficits(scores + self.b, self.problem.own[outside])
        worst = lack.max(axis=1)
        order = np.argsort(-worst, kind="stable")
        new = order[worst[order] > 0.0][: max(2 * len(stage.ids) // 3, 1000)]
        if len(new):
            self.variables()
            self.multiple.keep()  # the scores outside belong to it
            stage.grow(outside[new], self.raw_outside[new])
            self.open_blocks()
        return len(new)

    def trim(self, inside: np.ndarray) -> bool:
        """Patterns without weight and well beyond their margins leave, where they are many."""
        stage, blocks = self.stage, self.blocks
        if not isinstance(stage, KernelStage) or not stage.has_all_rows() or self.takes_all:
            return False
        scores = self.problem.raised(inside + self.b, stage.ids)
        lack = self.machine.deficits(scores, blocks.own).max(axis=1)
        is_far = lack < -_FAR * blocks.rival_target
        keep = np.flatnonzero(blocks.V.any(axis=1) | ~is_far)
        share = _TRIM_BELOW_QUADRATIC if self.machine.p == 2 else _TRIM_BELOW
        if not 0 < len(keep) < share * len(blocks.V):
            return False
        self.variables()
        stage.keep(keep)
        self.open_blocks()
        return True

    # -- rounds ------------------------------------------------------------------------------

    def advance(self, checked: Checked) -> bool:
        grown = self.grow()
        inside = self.inside_scores() if self.multiple.undo(self) or grown else self.inside
        if checked.relative_gap <= _TRIM_WITHIN and self.trim(inside):
            inside = self.inside_scores()
        is_damped = checked.relative_gap <= DAMPED_WITHIN * self.progress.stop.tol
        self.is_near = checked.relative_gap <= _NEAR * self.progress.stop.tol
        self.is_close = checked.relative_gap <= _CLOSE * self.progress.stop.tol
        moved = self.passes(inside, self.target(checked), is_damped)
        self.idle = 0 if moved or grown else self.idle + 1
        is_less = checked.relative_gap < _LESS * self.least_gap
        self.least_gap = min(checked.relative_gap, self.least_gap)
        self.n_stalled = 0 if is_less else self.n_stalled + 1
        limit = _STALLED if self.is_near else _STALLED_FAR
        has_stalled = self.single and self.n_stalled >= limit
        if self.idle <= 1 and not has_stalled:
            return True
        if self.single:
            self.variables()
            self.prepare(False)
            self.idle = self.n_stalled = 0
        elif self.idle > 3:
            return False
        else:
            self.stage.refresh(self.blocks.V, self.b)
        return True

    def target(self, checked: Checked) -> float:
        """The estimated gap at which the next check is worth its price."""
        problem = self.problem
        gap = checked.primal - checked.dual
        if self.machine.p == 2 and checked.dual > 0.0:
            gap = min(gap, checked.dual)  # far from the optimum P says little: C times a square
        kind = int(problem.kernel.is_linear)
        target = _FALL[kind] * gap if np.isfinite(gap) else 0.0
        if problem.is_hard:
            return target
        return max(target, _SHARE[kind] * self.progress.stop.tol * checked.primal)

    def rejected(self, judgement: Judgement) -> None:
        self.idle += 1

    def adopt(self, point: DualPoint) -> None:
        self.place(point)
        self.takes_all = True
        self.prepare(False)

    def largest_weight(self) -> float:
        return float(np.abs(self.blocks.V).max())

    def refine(self, point: DualPoint, judgement: Judgement) -> tuple[DualPoint, Judgement]:
        """The last digits of a smooth machine, where they are cheap and the judge agrees."""
        problem, tol = self.problem, self.progress.stop.tol
        if not may_refine_quadratic(problem, tol):
            return point, judgement
        found = refine_quadratic(problem, self.variables())
        if found is None:
            return point, judgement
        refined = DualPoint.from_dense(problem, *found)
        try:
            better = self.progress.judged(refined)
        except FloatingPointError:
            return point, judgement
        if better.certificate.relative_gap > tol:
            return point, judgement
        return refined, better
