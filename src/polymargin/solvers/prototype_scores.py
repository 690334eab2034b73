"""Where the scores of the multi-prototype machine live: one class for each kind of kernel.

It shows finished scores block by block, restores feasibility after a reassignment, makes passes and
solves the static problem of the present assignment, which is ``problem.own``: an array that the
alternation owns and changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from polymargin.compiled.reassignment import restore
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem, computed_ahead, row_blocks
from polymargin.solvers import solve
from polymargin.solvers.class_halves import ClassHalves
from polymargin.solvers.driver import Progress, Solution, drive
from polymargin.solvers.kernel import WorkingSet
from polymargin.solvers.linear import WORTH_THREADS, Sweeps
from polymargin.solvers.linear_fields import unpack
from polymargin.solvers.run import Run

__all__ = ["AssignedKernelScores", "AssignedLinearScores"]

_MANY_PASSES, _FEW = 4, 0.5  # passes that pay for packing up to this share of the rows


class _StaticSweeps(Sweeps):
    """Static problems are solved many times: the scores of all patterns are not kept."""

    may_remember = False


class AssignedLinearScores:
    """Explicit prototypes: scores are products with prototypes frozen at the start of a step."""

    def __init__(self, problem: Problem, run: Run) -> None:
        self.problem, self.run = problem, run
        self.sweeps = _StaticSweeps(problem, run.part())
        self.duals = self.sweeps.duals
        self.queue = self.sweeps.queue
        self.random = self.sweeps.random
        self.halves = ClassHalves(problem, self.duals, run.seed) if run.n_jobs > 1 else None

    @property
    def progress(self) -> Progress:
        return self.sweeps.progress

    def products(self) -> tuple[float, float]:
        """||M||^2 and the product with the centre."""
        return self.sweeps.products()

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Patterns, their scores (R, k) and what to add to them."""
        sweeps = self.sweeps
        frozen = sweeps.frozen()

        def look(rows: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            patterns = np.ascontiguousarray(sweeps.everyone[rows])
            scores = sweeps.scores(patterns, rows, frozen)
            return patterns, scores, (frozen.constant * frozen.scale).astype(scores.dtype)

        blocks = list(row_blocks(self.problem.n_patterns, sweeps.block))
        n_jobs = self.problem.n_jobs if sweeps.check_cost > WORTH_THREADS else 1
        yield from computed_ahead(look, blocks, n_jobs)

    def restore(self, moved: np.ndarray, begin: int, end: int, zeroing: bool) -> None:
        """Make the variables of moved examples feasible for their new prototypes."""
        restore(self.sweeps.field, self.duals, moved, begin, end, zeroing)

    def passes(self, end: int, most: int) -> None:
        """Passes over the queue of the last screening."""
        sweeps = self.sweeps
        most = min(most, self.progress.stop.max_iter - self.progress.iterations)
        if most > 0:
            packed = sweeps.pack(end, _FEW) if most >= _MANY_PASSES else None
            if self.halves is None or self.halves.why_not(sweeps.field, self.pass_seconds(end)):
                sweeps.passes(end, -1.0, most, 0.0, packed=packed)
            else:
                sweeps.passes_in_halves(self.halves, end, most, packed)
            unpack(sweeps.field, packed)

    def pass_seconds(self, end: int) -> float:
        """Nominal seconds of a pass over the queue."""
        return self.sweeps.visit_cost * float(self.duals.n_active[self.queue[:end]].sum())

    def settle(self, tol: float) -> Solution:
        """Solve the static problem from where it stands; the state is the solution after."""
        before = self.progress
        return drive(self.sweeps, self.run.part(tol=tol), before.iterations, before.steps)

    def point(self) -> DualPoint:
        """The present point."""
        return self.sweeps.point()

    def place(self, point: DualPoint) -> None:
        """Go to another point."""
        self.sweeps.adopt(point)


class AssignedKernelScores:
    """Scores of all patterns for all prototypes, kernel rows in bounded memory."""

    def __init__(self, problem: Problem, run: Run) -> None:
        self.problem, self.run = problem, run
        self.set = WorkingSet(problem, run.part())
        self.set.open(self.set.progress, np.arange(problem.n_patterns))
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

    def products(self) -> tuple[float, float]:
        """||M||^2, and 0: kernels have no centre."""
        return max(float((self.set.duals.tau * self.set.F.T).sum()), 0.0), 0.0

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Patterns, their scores (R, k) and what to add to them."""
        F = np.ascontiguousarray(self.problem.raised(self.set.F.T, self.set.ids).T)
        yield self.set.everyone, F, np.zeros(len(F), dtype=F.dtype)

    def restore(self, moved: np.ndarray, begin: int, end: int, zeroing: bool) -> None:
        """Make the variables of moved examples feasible for their new prototypes."""
        while begin < end:
            begin = restore(self.set.field(), self.duals, moved, begin, end, zeroing)
            if begin < end:
                self.set.pool.fetch(np.unique(moved[begin : begin + 64, 0][: end - begin]))

    def passes(self, end: int, most: int) -> None:
        """Passes over the violating patterns."""
        self.set.duals.own[:] = self.problem.own
        for _ in range(most):
            end, _ = self.set.screen()
            if end == 0 or self.progress.why_stop():
                break
            self.set.visit(end, 0.0)

    def settle(self, tol: float) -> Solution:
        """Solve the static problem from where it stands; the state is the solution after."""
        progress = self.progress
        solution = solve(self.problem, self.run.part(tol=tol), self.point())
        progress.iterations += solution.iterations
        solution.iterations = progress.iterations
        if progress.why_end() is None:
            self.place(solution.point)
        return solution

    def point(self) -> DualPoint:
        """The present point."""
        self.set.duals.own[:] = self.problem.own
        return self.set.point()

    def place(self, point: DualPoint) -> None:
        """Go to another point."""
        self.set.place(point, self.problem.own)
