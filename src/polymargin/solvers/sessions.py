"""Sessions: many solves of one problem whose caps change, each from a point that is known well.

Regularisation paths solve dozens of such problems.  A session keeps kernel rows, scores and
compiled state of one solve for the next; ``open_session`` chooses it by the method that the table
of ``polymargin.solvers`` names for the problem.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from polymargin.certificate.judge import judge
from polymargin.certificate.training_scores import KnownRows
from polymargin.problem.kernels import Kernel
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem, run_blocks
from polymargin.solvers import find_method
from polymargin.solvers.blocks import BlockDescent
from polymargin.solvers.driver import Progress, Solution, drive
from polymargin.solvers.kernel import WorkingSet
from polymargin.solvers.linear import Sweeps
from polymargin.solvers.linear_fields import set_prototypes
from polymargin.solvers.method import Checked, Method
from polymargin.solvers.precision import row_dtype
from polymargin.solvers.run import Run

__all__ = ["KnownStart", "Session", "on_kernel_matrix", "open_session"]

_COPIED_BYTES = 1 << 28  # of X, up to which checks work on a float32 copy
_NEAR = 0.2  # lead beyond the margin up to which examples stay in the working set of the next solve
_REMEMBERED = 3  # judged points: the one that a solve returns may not be the last that was judged
_MATRIX_BLOCK = 256


class KnownStart(NamedTuple):
    """A feasible point with its scores (n, R) of all patterns and, linear, its prototypes."""

    point: DualPoint
    scores: np.ndarray
    W: np.ndarray | None


class Session:
    """Solves one problem after the other; ``solve_again`` gives the solution with its scores.

    Attributes
    ----------
    problem : Problem
        What is solved: the problem given, perhaps on its kernel matrix.
    """

    def __init__(
        self, problem: Problem, cache_mb: float, known_rows: KnownRows | None = None
    ) -> None:
        self.problem, self.known_rows = problem, known_rows
        n = problem.n_patterns
        is_kept = known_rows is not None or problem.kernel.name == "precomputed"
        self.has_matrix = is_kept and 4.0 * n * n <= 1e6 * cache_mb

    def solve_again(self, problem: Problem, run: Run, start: KnownStart | None) -> Solution:
        """Solve ``problem``, which differs from that of the session by its caps alone."""
        method = self.method(problem, run, start)
        solution = drive(method, run, known_rows=self.known_rows)
        self.close(method, run)
        if solution.scores is None:  # a fit that ran out of time before its certificate
            scores = np.zeros((problem.n_patterns, problem.n_prototypes))
            found = judge(problem, solution.point, scores, self.known_rows)
            solution = replace(solution, judgement=found, scores=scores)
        return solution

    def method(self, problem: Problem, run: Run, start: KnownStart | None) -> Method:
        """The method, ready to be driven."""
        raise NotImplementedError

    def close(self, method: Method, run: Run) -> None:
        """The solve is over; what was learnt from it."""


# -- explicit prototypes ---------------------------------------------------------------------------


class _KnownSweeps(Sweeps):
    """Sweeps from a point of known scores and prototypes: no product before the first pass."""

    gives_extra = False  # points are solved as well as their mixtures need it, and no better
    aim, fewest_passes = 0.7, 13  # beside the few passes of a warm start a check costs much

    def __init__(
        self, problem: Problem, run: Run, start: KnownStart | None, session: _SweepsSession
    ) -> None:
        self.known_W = None if start is None else start.W
        self.known = None if start is None else start.scores
        super().__init__(problem, run, None if start is None else start.point)
        self.remembers = _REMEMBERED
        if start is not None:
            self.expected_rate = session.expected_rate(problem)
        if self.single:
            self.float32_rows = session.float32_rows

    def refresh(self) -> None:
        W, self.known_W = self.known_W, None
        if W is None:
            super().refresh()
            return
        set_prototypes(self.field, self.place, W)
        self.field.constant[:] = self.field.scale * self.duals.tau.sum(axis=0)

    def screen_all(self, hard_cap: float, totals: np.ndarray) -> int:
        if self.known is None:
            return super().screen_all(hard_cap, totals)
        scores, self.known = self.known, None
        return self.screen_known(scores, hard_cap, totals)


class _SweepsSession(Session):
    """Crammer-Singer with explicit prototypes."""

    def __init__(self, problem: Problem, cache_mb: float) -> None:
        super().__init__(problem, cache_mb)
        self.rates: dict[float, float] = {}  # how fast gaps fell, per pass, by the largest cap

    @cached_property
    def float32_rows(self) -> np.ndarray | None:
        X = self.problem.rows
        is_worth_it = isinstance(X, np.ndarray) and X.dtype != np.float32
        return X.astype(np.float32) if is_worth_it and X.nbytes <= _COPIED_BYTES else None

    def method(self, problem: Problem, run: Run, start: KnownStart | None) -> Method:
        return _KnownSweeps(problem, run, start, self)

    def expected_rate(self, problem: Problem) -> float | None:
        """The rate of the solve whose caps were nearest."""
        if not self.rates:
            return None
        cap = float(problem.cap.max())
        return self.rates[min(self.rates, key=lambda other: abs(np.log(other / cap)))]

    def close(self, method: Method, run: Run) -> None:
        assert isinstance(method, Sweeps)
        if method.rate is not None:
            self.rates[float(method.problem.cap.max())] = method.rate


# -- kernel rows -----------------------------------------------------------------------------------


class _RememberingSet(WorkingSet):
    remembers = _REMEMBERED


class _LastingSet(WorkingSet):
    """A working set that outlives a solve and can start again.

    No pattern leaves during a solve; before the next one those far from their margin do.  The
    scores outside are known at the start, and again when the judge has seen the point: nothing else
    is computed for them.
    """

    remembers = _REMEMBERED
    near = _NEAR
    is_open = is_known = is_running = False
    known: KnownStart | None = None

    def begin_at(self, problem: Problem, start: KnownStart | None) -> None:
        """The next solve: other caps, another start."""
        self.problem, self.known = problem, start

    def start(self, progress: Progress) -> None:
        super().start(progress)
        self.is_open = True

    def open(self, progress: Progress, first: np.ndarray | None = None) -> None:
        self.progress = progress
        if self.is_open:
            self.open_again()
        else:
            super().open(progress, first)
        self.is_running = True

    def open_again(self) -> None:
        """From zero, or from a point with known scores (n, R), under the present caps."""
        start = self.known
        self.is_known = start is not None
        self.tau = np.zeros_like(self.tau) if start is None else start.point.tau(self.problem)
        self.outside_scores[:] = 0.0 if start is None else start.scores
        self.F = np.ascontiguousarray(self.outside_scores[self.ids].T)
        self.rebuild(self.tau[self.ids])
        self.is_running = False
        if self.is_known:
            self.trim()
        self.grow(np.flatnonzero(self.tau.any(axis=1) & ~self.inside))

    def trim(self) -> None:
        if not self.is_running:
            super().trim()

    def check(self) -> Checked:
        if not self.is_known:
            return super().check()
        found = self.sum_up()
        if found.primal - found.dual <= self.progress.stop.tol * found.primal:
            self.outside_scores[:] = self.progress.scores_of_all(self.point())
            self.F = np.ascontiguousarray(self.outside_scores[self.ids].T)  # free of drift
            found = self.sum_up()
        return found


class _WorkingSetSession(Session):
    """Crammer-Singer on kernel rows: one working set for all solves where memory allows."""

    alive: _LastingSet | None = None

    def method(self, problem: Problem, run: Run, start: KnownStart | None) -> Method:
        dtype = row_dtype(problem, run.stop.tol)
        if self.alive is not None and self.alive.dtype == dtype:
            self.alive.begin_at(problem, start)
            return self.alive
        point = None if start is None else start.point
        if not self.has_matrix:
            return _RememberingSet(problem, run, point)
        self.alive = _LastingSet(problem, run, point)
        return self.alive

    def close(self, method: Method, run: Run) -> None:
        if run.why_end() is not None:
            self.alive = None  # its rows may be half of what it counts


# -- every other machine, and free intercepts ------------------------------------------------------


class _LastingBlocks(BlockDescent):
    """Block descent that can start again with the kernel rows or prototypes it has."""

    remembers = _REMEMBERED
    is_open = False

    def begin_at(self, problem: Problem, point: DualPoint | None) -> None:
        """The next solve: other caps, another start."""
        self.problem = problem
        self.b = np.zeros(problem.n_prototypes)
        self.place(DualPoint.zero(problem) if point is None else point)

    def open_stage(self, single: bool) -> None:
        if self.is_open and self.single == single:
            self.open_blocks()
            self.stage.refresh(self.blocks.V, self.b)
        else:
            self.prepare(single)
        self.is_open = True


class _BlockSession(Session):
    alive: _LastingBlocks | None = None

    def method(self, problem: Problem, run: Run, start: KnownStart | None) -> Method:
        point = None if start is None else start.point
        stays = self.has_matrix or problem.kernel.is_linear
        if self.alive is None or not stays:
            self.alive = _LastingBlocks(problem, run, point, takes_all=self.has_matrix)
        else:
            self.alive.begin_at(problem, point)
        return self.alive

    def close(self, method: Method, run: Run) -> None:
        if run.why_end() is not None:
            self.alive = None


def open_session(problem: Problem, cache_mb: float) -> Session:
    """A session for a problem, with kernel values that are computed once where they fit."""
    name = find_method(problem).name
    if name == "sweeps":
        return _SweepsSession(problem, cache_mb)
    if name == "working-set":
        # a part of the matrix is enough: the rows of the patterns that ever have weight
        rows = KnownRows.exact(problem) if _pays_to_keep(problem, cache_mb) else None
        return _WorkingSetSession(problem, cache_mb, rows)
    return _BlockSession(on_kernel_matrix(problem, cache_mb), cache_mb)


def on_kernel_matrix(problem: Problem, cache_mb: float) -> Problem:
    """The same problem on its kernel matrix in float64, where that fits into half of the memory.

    Unchanged for linear kernels, for matrices given by the user and for large problems.
    """
    if not _pays_to_keep(problem, cache_mb):
        return problem
    n, X = problem.n_patterns, problem.X
    if problem.kernel.function is None:
        X = X.astype(np.float64)
    wide = problem.changed(X=X)
    K = np.empty((n, n))

    def work(rows: slice) -> None:
        # whole rows: to mirror half of them costs more memory traffic than it saves arithmetic
        K[rows] = wide.gram(rows, slice(0, n))

    run_blocks(work, n, _MATRIX_BLOCK, problem.n_jobs)
    return problem.changed(X=K, kernel=Kernel("precomputed"))


def _pays_to_keep(problem: Problem, cache_mb: float) -> bool:
    """Whether kernel values are computed at all, and all of them fit into half of the memory."""
    is_computed = not problem.kernel.is_linear and problem.kernel.name != "precomputed"
    return is_computed and 8.0 * problem.n_patterns**2 <= 0.5e6 * cache_mb
