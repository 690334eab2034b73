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
from typing import Any

import numpy as np

from polymargin.certificate.certificate import Judgement
from polymargin.certificate.intercepts import Bias
from polymargin.certificate.judge import Values, linear_and_ridge, repair, values_of
from polymargin.compiled.block_descent import descend_blocks
from polymargin.compiled.block_lists import enlist, examine_sums
from polymargin.compiled.block_variables import make_blocks
from polymargin.compiled.fields import PackedField
from polymargin.compiled.pattern_descent import shuffle
from polymargin.compiled.totals import GAIN, GAP, STEPS, VISITS, empty_totals
from polymargin.problem.problem import OutOfTimeError, Problem
from polymargin.solvers.barrier import MachineLeap
from polymargin.solvers.block_scores import KernelStage, LinearStage, centred, settled
from polymargin.solvers.costs import (
    Budget,
    class_check_seconds,
    kernel_check_seconds,
    kernel_pass_seconds,
    linear_visit_seconds,
    row_width,
)
from polymargin.solvers.history import History
from polymargin.solvers.linear import CALM, CALM_WITHIN
from polymargin.solvers.linear_fields import packed_rows, unpack
from polymargin.solvers.machine_progress import MachineProgress
from polymargin.solvers.polish import polished, polishing_pays
from polymargin.solvers.precision import FLOAT32_PROTOTYPES_TOL, allows_float32
from polymargin.solvers.run import (
    Deadline,
    Solution,
    Stop,
    deferred_interrupt,
    is_not_separable,
    merit,
    seed_state,
)

__all__ = ["BlockDescent", "solve_machine"]

# Measured on the problems of benchmarks/machines.
_RELAXATION = 1.4
_PASSES_PER_CHECK = (20, 80)  # kernels, linear
_THRESHOLD = 0.8  # kernels: share of the average gain below which a step waits
_PENALTY = 0.05  # constant kernel of a free intercept, in units of the mean K_ii
# look again at this part of the gap, or of the tolerance: kernels, linear
_FALL, _SHARE = (0.1, 0.06), (0.3, 1.0)


def solve_machine(
    problem: Problem,
    stop: Stop,
    history: History,
    start: np.ndarray | None = None,
    seed: Any = 0,
    cache_mb: float = 1000.0,
) -> Solution:
    """Block descent to relative gap ``stop.tol``; ``start`` is (n, Q) signed variables or None."""
    run = BlockDescent(problem, stop, history, start, seed, cache_mb)
    with deferred_interrupt(run.progress.deadline):
        try:
            run.prepare(allows_float32(problem, stop.tol, FLOAT32_PROTOTYPES_TOL))
            return run.run()
        except OutOfTimeError:
            reason = run.progress.deadline.why_end() or "max_time"
            return run.progress.finish(reason, *run.support())


class BlockDescent:
    """The state of block descent; ``run`` goes to the tolerance."""

    def __init__(
        self,
        problem: Problem,
        stop: Stop,
        history: History,
        start: np.ndarray | None,
        seed: Any,
        cache_mb: float,
        deadline: Deadline | None = None,
    ) -> None:
        n, Q = problem.n_patterns, problem.n_prototypes
        self.problem = problem
        self.machine = problem.machine
        self.cache_mb = cache_mb
        self.progress = MachineProgress(problem, stop, history, self.snapshot, deadline)
        self.V = np.zeros((n, Q)) if start is None else np.array(start, dtype=np.float64)
        self.b = np.zeros(Q)
        self.takes_all = False
        self.listed: int | None = None  # patterns queued by the last check, if it made the lists
        # patterns of the blocks, set together with them; None: ``self.V`` alone is the point
        self.members: np.ndarray | None = None
        self.random = seed_state(seed)
        self.penalty = _PENALTY * float(problem.diagonal.mean()) or 1.0

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
                self.progress.deadline,
                self.first_set(),
            )
            self.budget = Budget(1000.0 + n)
        self.outside = np.ones(n, dtype=bool)
        self.adopt()
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

    def adopt(self) -> None:
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

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """A feasible dual point: balanced where the intercept is free."""
        V = self.variables()
        if self.problem.has_free_bias and not self.is_balanced():
            V = repair(self.machine, V, self.problem.own, V)
        support = np.flatnonzero(V.any(axis=1))
        return support, V[support]

    def is_balanced(self) -> bool:
        T = self.machine.coefficients(self.V, self.problem.own)
        total = float(np.abs(T).sum(axis=0).max(initial=0.0))
        return bool(np.abs(T.sum(axis=0)).max(initial=0.0) <= 1e-12 * total)

    def snapshot(self) -> tuple[np.ndarray, np.ndarray]:
        support, V = self.support()
        return support, self.machine.coefficients(V, self.problem.own[support])

    # -- passes ------------------------------------------------------------------------------

    def gradient(self, scores: np.ndarray) -> np.ndarray:
        """dD/dv of the set from its class scores, the intercept not yet in them."""
        blocks = self.blocks
        own = blocks.own
        rows = np.arange(len(own))
        shifted = scores + self.stage.bias() if self.problem.has_free_bias else scores
        if blocks.relative:
            G = shifted - shifted[rows, own][:, None] + blocks.rival_target
        else:
            G = shifted + blocks.rival_target
            G[rows, own] = shifted[rows, own] - blocks.own_target
        if self.machine.p == 2:
            centre = blocks.V - blocks.V.mean(axis=1, keepdims=True)
            G += blocks.ridge[:, None] * centre
        return G

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
        packed: PackedField | None = None,
    ) -> tuple[int, np.ndarray]:
        """One pass over the queue in compiled pieces; missing kernel rows are fetched ahead."""
        totals = empty_totals()
        progress, stage = self.progress, self.stage
        hard_cap = self.hard_cap()
        begin = 0
        shuffle(self.queue, end, self.random)
        while begin < end:
            before = totals[VISITS]
            started = time.perf_counter()
            begin, end = descend_blocks(
                packed or stage.field,
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
        progress.iterations += 1
        progress.steps += int(totals[STEPS])
        progress.work += self.nominal_cost(totals)
        if self.problem.has_free_bias:
            self.move_bias()
        return end, totals

    def nominal_cost(self, totals: np.ndarray) -> float:
        if isinstance(self.stage, KernelStage):
            size = len(self.stage.ids)
            return kernel_pass_seconds(float(totals[VISITS]), float(totals[STEPS]), size, 3.0)
        return float(totals[VISITS]) * linear_visit_seconds(self.problem)

    def sums(self) -> np.ndarray:
        return settled(self.machine, self.blocks.V, self.blocks.own).sum(axis=0)

    def move_bias(self) -> None:
        """The proximal step: b becomes what the penalised intercept has become."""
        self.b = self.stage.bias()
        self.b -= self.b.mean()
        self.stage.set_bias(self.b, self.sums())

    def passes(self, scores: np.ndarray, target: float, calm: bool = False) -> int:
        """Passes until the gap that they find is below ``target``; the steps made.

        ``calm``: the last ones before the check are under-relaxed (linear kernels).
        """
        before = self.progress.steps
        stage = self.stage
        end = self.listed
        if end is None:
            end = enlist(self.gradient(scores), self.blocks, self.queue)
        self.listed = None
        threshold = 0.0
        packed = self.pack(end)
        for _ in range(_PASSES_PER_CHECK[0 if stage.keeps_scores else 1]):
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
        if calm and isinstance(stage, LinearStage):
            for relaxation in CALM:
                if end and not self.progress.why_stop():
                    end, _ = self.visit(end, 0.0, relaxation, packed)
        unpack(stage.field, packed)
        return self.progress.steps - before

    def pack(self, end: int) -> PackedField | None:
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
        lack = self.machine.deficits(scores + self.b, blocks.own)
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

    def check(self) -> tuple[Values, np.ndarray, np.ndarray]:
        """Values of the repaired point, scores of the set, and of all patterns."""
        if self.may_examine:
            return self.examine()
        problem, stage, blocks = self.problem, self.stage, self.blocks
        blocks.total[:] = blocks.V.sum(axis=1)
        if isinstance(stage, KernelStage) and stage.has_all_rows():
            stage.refresh(blocks.V, self.b)  # scores in single precision drift
        if problem.has_free_bias:
            self.balance(self.inside_scores())
        if self.problem.is_hard or self.machine.p == 2:
            self.rescale()
        inside = self.inside_scores()
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
        width = row_width(problem) if problem.kernel.is_linear else 0.0
        self.progress.work += class_check_seconds(scores.size, width, is_compiled=False)
        reward, ridge = linear_and_ridge(problem, stage.ids, blocks.V)
        found = values_of(problem, scores, norm2, reward, ridge, self.b)
        self.merit = merit(found.primal, found.margin, norm2)
        return found, inside, scores

    @property
    def may_examine(self) -> bool:
        """Whether one compiled pass over the scores makes the whole check."""
        machine, problem = self.machine, self.problem
        summed = machine.K1 == 1 and machine.K3 == 0 and machine.own_target is None
        plain = not problem.has_free_bias and not problem.is_hard
        return bool(summed and plain and problem.kernel.is_linear and machine.shares[0] == 1.0)

    def examine(self) -> tuple[Values, np.ndarray, np.ndarray]:
        """``check`` for Weston-Watkins on linear data; it writes the lists of the next passes."""
        problem, stage = self.problem, self.stage
        scores = self.inside_scores()
        norm2 = stage.norm2(self.blocks.V, scores)
        found = np.zeros(2)
        self.listed = int(examine_sums(scores, self.blocks, self.queue, found))
        self.progress.work += class_check_seconds(scores.size, row_width(problem), is_compiled=True)
        primal, dual = 0.5 * norm2 + float(found[0]), float(found[1]) - 0.5 * norm2
        bias = Bias(np.zeros(problem.n_prototypes), 0.0)
        self.merit = merit(primal, np.nan, norm2)
        return Values(primal, dual, bias, 1.0, np.nan), scores, scores

    def rescale(self) -> None:
        """The dual of the hard margin is a cone: go to the best multiple of the point (5.10)."""
        blocks, stage = self.blocks, self.stage
        T = self.machine.coefficients(blocks.V, blocks.own)
        norm2 = stage.norm2(blocks.V, self.inside_scores())
        norm2 += float((T**2).sum(axis=1) @ blocks.ridge)
        reward = self.machine.reward(blocks.V, blocks.own)
        if norm2 <= 0.0 or reward <= 0.0:
            return
        blocks.V[:] *= reward / norm2
        blocks.total[:] *= reward / norm2
        self.b = self.b * (reward / norm2)
        stage.refresh(blocks.V, self.b)

    def grow(self, scores: np.ndarray) -> int:
        """Patterns outside that violate their constraints join, worst first; how many did."""
        stage = self.stage
        if not isinstance(stage, KernelStage) or not self.outside.any():
            return 0
        outside = np.flatnonzero(self.outside)
        lack = self.machine.deficits(scores[outside] + self.b, self.problem.own[outside])
        worst = lack.max(axis=1)
        order = np.argsort(-worst, kind="stable")
        new = order[worst[order] > 0.0][: max(2 * len(stage.ids) // 3, 1000)]
        if len(new):
            self.variables()
            stage.grow(outside[new], self.raw_outside[new])
            self.adopt()
        return len(new)

    def polish(
        self, support: np.ndarray, V: np.ndarray, judgement: Judgement
    ) -> tuple[np.ndarray, np.ndarray, Judgement]:
        """The last digits of a smooth machine, where they are cheap and the judge agrees."""
        problem, progress = self.problem, self.progress
        if not polishing_pays(problem, progress.stop.tol):
            return support, V, judgement
        found = polished(problem, self.variables())
        if found is None:
            return support, V, judgement
        everyone = np.arange(problem.n_patterns)
        progress.hint = found[1]
        try:
            better = progress.judged(everyone, found[0])
        except FloatingPointError:
            return support, V, judgement
        if better.certificate.relative_gap > progress.stop.tol:
            return support, V, judgement
        support = np.flatnonzero(found[0].any(axis=1))
        return support, found[0][support], better

    def leap_to(self, V: np.ndarray, b: np.ndarray) -> None:
        """Go on from a point that descent did not make, with every pattern in play."""
        self.V, self.b = V, b
        self.takes_all = True
        self.prepare(False)

    # -- the run -----------------------------------------------------------------------------

    def run(self) -> Solution:
        progress, problem, stop = self.progress, self.problem, self.progress.stop
        idle = 0
        leap = MachineLeap(problem, progress)
        while True:
            found, inside, scores = self.check()
            progress.hint = self.b
            problem.present_bias = found.bias.b if problem.has_free_bias else None
            relative = progress.record(found.primal, found.dual, int(self.blocks.n_active.sum()))
            progress.keep_if_best(self.merit, self.support)
            if not problem.kernel.is_linear:
                progress.keep_reserve(int(self.blocks.V.any(axis=1).sum()))
            reason = progress.why_stop()
            over = reason is not None or relative <= stop.tol
            if over or is_not_separable(problem, found.dual):
                support, V = self.support()
            if relative <= stop.tol:
                if not progress.can_judge(len(support)):
                    return progress.finish("max_time", support, V)
                judgement = progress.judged(support, V)
                if judgement.certificate.relative_gap <= stop.tol:
                    support, V, judgement = self.polish(support, V, judgement)
                    return progress.finish("converged", support, V, judgement)
                idle += 1
            if is_not_separable(problem, found.dual):
                return progress.finish("not_separable", support, V)
            if reason is not None:
                return progress.finish(reason, support, V)
            if leap.is_worth_it():
                point = leap.signed_point(found.dual, float(np.abs(self.blocks.V).max()))
                if point is not None:
                    self.leap_to(*point)
                    continue
            grown = self.grow(scores)
            if grown:
                inside = self.inside_scores()
            gap = found.primal - found.dual
            if self.machine.p == 2 and found.dual > 0.0:
                gap = min(gap, found.dual)  # far from the optimum P says little: C times a square
            kind = int(problem.kernel.is_linear)
            target = _FALL[kind] * gap if np.isfinite(gap) else 0.0
            if not problem.is_hard:
                target = max(target, _SHARE[kind] * stop.tol * found.primal)
            moved = self.passes(inside, target, relative <= CALM_WITHIN * stop.tol)
            idle = 0 if moved or grown else idle + 1
            if idle > 1:
                if self.single:
                    self.variables()
                    self.prepare(False)
                    idle = 0
                elif idle > 3:
                    return progress.finish("stalled", *self.support())
                else:
                    self.stage.refresh(self.blocks.V, self.b)
