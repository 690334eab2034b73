"""Where the scores of the multi-prototype machine live: one stage for each kind of kernel.

A stage shows finished scores block by block, restores feasibility after a reassignment, makes
passes and solves the static problem of the present assignment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from polymargin.compiled.fields import KernelField
from polymargin.compiled.reassignment import restore
from polymargin.problem.problem import Problem, row_blocks
from polymargin.solvers.history import History
from polymargin.solvers.kernel import WorkingSet, solve_kernel
from polymargin.solvers.linear import Sweeps
from polymargin.solvers.linear_fields import unpack
from polymargin.solvers.precision import row_dtype
from polymargin.solvers.run import Deadline, Progress, Solution, Stop

__all__ = ["KernelStage", "LinearStage"]

_MANY_PASSES, _FEW = 4, 0.5  # passes that pay for packing up to this share of the rows


class LinearStage:
    """Explicit prototypes: scores are products with prototypes frozen at the start of a step."""

    def __init__(self, problem: Problem, stop: Stop, seed: Any, deadline: Deadline) -> None:
        self.problem = problem
        self.sweeps = Sweeps(problem, stop, History(), None, seed, deadline)
        self.duals = self.sweeps.duals
        self.queue = self.sweeps.queue
        self.random = self.sweeps.random

    @property
    def progress(self) -> Progress:
        return self.sweeps.progress

    @property
    def field(self) -> Any:
        return self.sweeps.field

    def products(self) -> tuple[float, float]:
        return self.sweeps.products()

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        sweeps = self.sweeps
        frozen = sweeps.frozen()
        for rows in row_blocks(self.problem.n_patterns, sweeps.block):
            patterns = np.ascontiguousarray(sweeps.everyone[rows])
            scores = sweeps.scores(patterns, rows, frozen)
            yield patterns, scores, (frozen.constant * frozen.scale).astype(scores.dtype)

    def restore(self, moved: np.ndarray, begin: int, end: int, zeroing: bool) -> None:
        restore(self.field, self.duals, moved, begin, end, zeroing)

    def passes(self, end: int, most: int) -> None:
        sweeps = self.sweeps
        most = min(most, self.progress.stop.max_iter - self.progress.iterations)
        if most > 0:
            packed = sweeps.pack(end, _FEW) if most >= _MANY_PASSES else None
            sweeps.passes(end, -1.0, most, 0.0, packed=packed)
            unpack(sweeps.field, packed)

    def settle(self, stop: Stop) -> Solution:
        """Solve the static problem from where it stands; the state is the solution after."""
        sweeps = self.sweeps
        before = sweeps.progress
        sweeps.progress = Progress(self.problem, stop, History(), sweeps.support, before.deadline)
        sweeps.is_cold, sweeps.rate = before.steps == 0, None
        sweeps.progress.iterations = before.iterations
        sweeps.progress.steps = before.steps
        return sweeps.run()

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        return self.sweeps.support()

    def load(self, support: np.ndarray, tau: np.ndarray) -> None:
        self.duals.tau[:] = 0.0
        self.duals.tau[support] = tau
        self.duals.n_active[:] = 0
        self.sweeps.refresh()


class KernelStage:
    """Scores of all patterns for all prototypes, kernel rows in bounded memory."""

    def __init__(
        self, problem: Problem, stop: Stop, seed: Any, deadline: Deadline, cache_mb: float
    ) -> None:
        self.problem = problem
        self.seed = seed
        self.cache_mb = cache_mb
        self.set = WorkingSet(problem, stop, History(), None, seed, cache_mb, deadline)
        self.set.first = np.arange(problem.n_patterns)
        self.set.prepare(row_dtype(problem, stop.tol))
        self.random = self.set.random

    @property
    def duals(self) -> Any:
        # the working set copies the assignment; the problem's own is the one that counts
        return self.set.duals._replace(own=self.problem.own)

    @property
    def queue(self) -> np.ndarray:
        return self.set.queue

    @property
    def progress(self) -> Progress:
        return self.set.progress

    @property
    def field(self) -> Any:
        pool = self.set.pool
        return KernelField(pool.rows, pool.slot, self.set.F, len(pool.ids), pool.used, pool.tick)

    def products(self) -> tuple[float, float]:
        return max(float((self.set.duals.tau * self.set.F.T).sum()), 0.0), 0.0

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        F = self.set.F
        yield self.set.everyone, F, np.zeros(len(F), dtype=F.dtype)

    def restore(self, moved: np.ndarray, begin: int, end: int, zeroing: bool) -> None:
        while begin < end:
            begin = restore(self.field, self.duals, moved, begin, end, zeroing)
            if begin < end:
                self.set.pool.fetch(np.unique(moved[begin : begin + 64, 0][: end - begin]))

    def passes(self, end: int, most: int) -> None:
        self.set.duals.own[:] = self.problem.own
        for _ in range(most):
            end, _ = self.set.screen()
            if end == 0 or self.progress.why_stop():
                break
            self.set.visit(end, 0.0)

    def settle(self, stop: Stop) -> Solution:
        tau = self.set.duals.tau
        progress = self.progress
        solution = solve_kernel(
            self.problem, stop, History(), tau, self.seed, self.cache_mb, progress.deadline
        )
        progress.iterations += solution.iterations
        solution.iterations = progress.iterations
        if progress.deadline.why_end() is None:
            self.load(solution.support, solution.tau)
        return solution

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        self.set.duals.own[:] = self.problem.own
        return self.set.support()

    def load(self, support: np.ndarray, tau: np.ndarray) -> None:
        duals = self.set.duals
        duals.own[:] = self.problem.own
        duals.tau[:] = 0.0
        duals.tau[support] = tau
        duals.n_active[:] = 0
        self.set.refresh()
