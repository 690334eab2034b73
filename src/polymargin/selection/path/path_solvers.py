"""The solvers of a regularisation path: they stay alive between values of C.

Kernel rows, scores and compiled state of one solve are there for the next; only caps, variables and
scores change.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from polymargin.certificate.certificate import Judgement
from polymargin.certificate.judge import judge_machine
from polymargin.compiled.pattern_descent import make_duals
from polymargin.problem.problem import OutOfTimeError, Problem
from polymargin.selection.path.path_points import Knot, Mixture
from polymargin.selection.successive_solves import takes_signed, within_caps
from polymargin.solvers.blocks import BlockDescent
from polymargin.solvers.history import History
from polymargin.solvers.kernel import WorkingSet
from polymargin.solvers.linear import Sweeps
from polymargin.solvers.linear_fields import set_prototypes
from polymargin.solvers.machine_progress import MachineProgress
from polymargin.solvers.precision import FLOAT32_PROTOTYPES_TOL, allows_float32, row_dtype
from polymargin.solvers.remembering import Memory, RememberingProgress
from polymargin.solvers.run import Deadline, Progress, Solution, Stop

__all__ = ["PathSolver", "make_solver"]

_COPIED = 1 << 28  # bytes of X up to which checks work on a float32 copy
_NEAR = 0.2  # examples that stay in the working set of the next solve
_KEPT = 3  # points: the one that a solve returns may not be the last that was judged


class _PathProgress(RememberingProgress):
    kept = _KEPT


class _MachinePathProgress(Memory, MachineProgress):
    kept = _KEPT

    def judged(self, support: np.ndarray, tau: np.ndarray) -> Judgement:
        def judge_it(out: np.ndarray) -> Judgement:
            return judge_machine(self.problem, support, tau, self.hint, out)

        return self.remember(support, tau, judge_it)


class _KnownSweeps(Sweeps):
    """Sweeps from a point of known scores and prototypes: no product before the first pass."""

    progress: _PathProgress
    known: np.ndarray | None = None
    gives_extra = False  # points are solved as well as their mixtures need it, and no better
    aim, fewest_passes = 0.7, 13  # beside the few passes of a warm start a check is dear

    def begin(self, start: Mixture) -> None:
        """Prototypes of the start, and its scores for the first check."""
        self.is_cold = False
        W = start.W
        assert W is not None
        set_prototypes(self.field, self.place, W)
        self.field.constant[:] = self.field.scale * self.duals.tau.sum(axis=0)
        self.known = start.scores()

    def screen_all(self, hard_cap: float, totals: np.ndarray) -> int:
        if self.known is None:
            return super().screen_all(hard_cap, totals)
        scores, self.known = self.known, None
        return self.screen_known(scores, hard_cap, totals)


class _LastingSet(WorkingSet):
    """A working set that outlives a solve and can start again.

    Nobody leaves during a solve; before the next one those who are far from their margin do.  The
    scores outside are known at the start, and again when the judge has seen the point: nothing else
    is computed for them.
    """

    progress: _PathProgress
    near = _NEAR
    is_known = False
    is_running = False

    def trim(self) -> None:
        if not self.is_running:
            super().trim()

    def run(self) -> Solution:
        self.is_running = True
        return super().run()

    def start_again(self, tau: np.ndarray | None, scores: np.ndarray | None) -> None:
        """From zero, or from a point with known scores (n, R), under the present caps."""
        self.is_known = tau is not None and scores is not None
        self.tau = np.zeros_like(self.tau) if tau is None else tau.copy()
        self.outside_scores[:] = 0.0 if scores is None else scores
        self.F = np.ascontiguousarray(self.outside_scores[self.ids].T)
        self.rebuild(self.tau[self.ids])
        self.is_running = False
        if self.is_known:
            self.trim()
        self.grow(np.flatnonzero(self.tau.any(axis=1) & ~self.inside))

    def check(self) -> tuple[float, float, float, np.ndarray]:
        if not self.is_known:
            return super().check()
        found = self.sum_up()
        if found[0] - found[1] <= self.progress.stop.tol * found[0]:
            self.outside_scores[:] = self.progress.scores_of_all(*self.support())
            self.F = np.ascontiguousarray(self.outside_scores[self.ids].T)  # free of drift
            found = self.sum_up()
        return found


class PathSolver:
    """``solve(C, start, tol)`` gives the solved point; the problem's caps are set before."""

    def __init__(
        self,
        problem: Problem,
        stop: Stop,
        deadline: Deadline,
        seed: Any,
        cache_mb: float,
        offset: float,
    ) -> None:
        self.problem, self.stop, self.deadline = problem, stop, deadline
        self.seed, self.cache_mb, self.offset = seed, cache_mb, offset
        n = problem.n_patterns
        is_kept = problem.known_rows is not None or problem.kernel.name == "precomputed"
        self.has_gram = is_kept and 4.0 * n * n <= 1e6 * cache_mb

    def solve(self, C: float, start: Mixture | None, tol: float) -> Knot:
        stop = Stop(tol, self.stop.max_iter, self.stop.max_time)
        V = None
        if start is not None:
            V = within_caps(self.problem, start.variables(self.problem.n_patterns))
        progress, solution = self.run(stop, V, start)
        return self.knot(C, progress, solution)

    def run(self, stop: Stop, V: np.ndarray | None, start: Mixture | None) -> tuple[Any, Solution]:
        raise NotImplementedError

    def knot(self, C: float, progress: Any, solution: Solution) -> Knot:
        problem = self.problem
        found = progress.recall(solution.support)
        if found is None:  # a fit that ran out of time before its certificate
            progress.judged(*self.last_point(solution))
            found = progress.seen[-1]
        support, V, scores, judgement = found
        machine, own = problem.machine, problem.own[support]
        signed = takes_signed(problem)
        T = machine.coefficients(V, own) if signed else V
        rows = np.arange(len(support))
        reward = machine.reward(V, own) if signed else float(V[rows, own].sum())
        ridge = np.zeros(len(support))
        if machine.p == 2:
            ridge = 0.5 * C / problem.cap[support]
        b = judgement.intercept if problem.has_free_bias else np.zeros(problem.n_prototypes)
        return Knot(
            C,
            support,
            V,
            T,
            scores,
            b,
            self.offset * T.sum(axis=0),
            judgement.W,
            reward,
            ridge,
            judgement.certificate,
            judgement.scale,
            solution.iterations,
        )

    def last_point(self, solution: Solution) -> tuple[np.ndarray, np.ndarray]:
        """The point of a solution in the variables of the solver."""
        return solution.support, solution.tau


class _LinearPath(PathSolver):
    """Crammer-Singer with explicit prototypes."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.rates: dict[float, float] = {}  # how fast gaps fell at each C, per pass

    @cached_property
    def float32_rows(self) -> np.ndarray | None:
        X = self.problem.rows
        is_worth_it = isinstance(X, np.ndarray) and X.dtype != np.float32
        return X.astype(np.float32) if is_worth_it and X.nbytes <= _COPIED else None

    def solve(self, C: float, start: Mixture | None, tol: float) -> Knot:
        self.C = C
        return super().solve(C, start, tol)

    def run(self, stop: Stop, V: np.ndarray | None, start: Mixture | None) -> tuple[Any, Solution]:
        run = _KnownSweeps(self.problem, stop, History(), None, self.seed, self.deadline)
        if V is not None and start is not None:
            run.duals = make_duals(self.problem, slice(None), np.ascontiguousarray(V))
            run.begin(start)
            if self.rates:
                run.rate = self.rates[min(self.rates, key=lambda C: abs(np.log(C / self.C)))]
        if run.single:
            run.float32_rows = self.float32_rows
        progress = _PathProgress(self.problem, stop, History(), run.support, self.deadline)
        run.progress = progress
        solution = run.run()
        if run.rate is not None:
            self.rates[self.C] = run.rate
        return progress, solution


class _KernelPath(PathSolver):
    """Crammer-Singer on kernel rows: one working set for all values of C where memory allows."""

    alive: _LastingSet | None = None

    def run(self, stop: Stop, V: np.ndarray | None, start: Mixture | None) -> tuple[Any, Solution]:
        dtype = row_dtype(self.problem, stop.tol)
        fresh = self.alive is None or self.alive.dtype != dtype
        run: WorkingSet
        if fresh:
            kind = _LastingSet if self.has_gram else WorkingSet
            run = kind(self.problem, stop, History(), V, self.seed, self.cache_mb, self.deadline)
        else:
            assert self.alive is not None
            run = self.alive
        progress = _PathProgress(self.problem, stop, History(), run.support, self.deadline)
        run.progress = progress
        try:
            if fresh:
                run.prepare(dtype)
                self.alive = run if isinstance(run, _LastingSet) else None
            else:
                assert isinstance(run, _LastingSet)
                run.start_again(V, None if start is None else start.scores())
            return progress, run.run()
        except OutOfTimeError:
            self.alive = None  # its rows may be half of what it counts
            return progress, _cut_short(progress, self.deadline, run.support)


class _MachinePath(PathSolver):
    """Every other machine, and free intercepts."""

    alive: BlockDescent | None = None
    latest: BlockDescent

    def last_point(self, solution: Solution) -> tuple[np.ndarray, np.ndarray]:
        return self.latest.support()

    def run(self, stop: Stop, V: np.ndarray | None, start: Mixture | None) -> tuple[Any, Solution]:
        problem = self.problem
        single = allows_float32(problem, stop.tol, FLOAT32_PROTOTYPES_TOL)
        stays = self.has_gram or problem.kernel.is_linear
        run = self.alive if stays else None
        if run is None:
            run = BlockDescent(problem, stop, History(), V, self.seed, self.cache_mb, self.deadline)
            run.takes_all = self.has_gram
        elif V is not None:
            run.V = V.copy()
        else:
            run.V = np.zeros_like(run.V)
        self.latest = run
        run.b = np.zeros(problem.n_prototypes) if start is None else start.b.copy()
        progress = _MachinePathProgress(problem, stop, History(), run.snapshot, self.deadline)
        run.progress = progress
        try:
            if self.alive is run and run.single == single:
                run.adopt()
                run.stage.refresh(run.blocks.V, run.b)
            else:
                run.prepare(single)
            self.alive = run
            return progress, run.run()
        except OutOfTimeError:
            self.alive = None
            return progress, _cut_short(progress, self.deadline, run.support)


def _cut_short(progress: Progress, deadline: Deadline, support: Any) -> Solution:
    return progress.finish(deadline.why_end() or "max_time", *support())


def make_solver(
    problem: Problem, stop: Stop, deadline: Deadline, seed: Any, cache_mb: float, offset: float
) -> PathSolver:
    """The solver for a problem; ``offset`` is the constant of a penalised intercept's kernel."""
    kind: type[PathSolver]
    if takes_signed(problem):
        kind = _MachinePath
    else:
        kind = _LinearPath if problem.kernel.is_linear else _KernelPath
    return kind(problem, stop, deadline, seed, cache_mb, offset)
