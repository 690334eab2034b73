"""One problem after another: solves from known points, on one clock, with shared kernel values.

Leave-one-out and regularisation paths solve many problems that differ little.  What they share is
here: a start with its intercept, one deadline for all, a kernel matrix that is computed once, and
lines of progress.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from polymargin.certificate.certificate import Judgement
from polymargin.certificate.judge import signed_within_caps
from polymargin.estimators.base import Prepared
from polymargin.problem.kernels import Kernel
from polymargin.problem.problem import KnownRows, OutOfTimeError, Problem, run_blocks
from polymargin.solvers.blocks import BlockDescent
from polymargin.solvers.history import History
from polymargin.solvers.kernel import solve_kernel
from polymargin.solvers.linear import Sweeps
from polymargin.solvers.precision import FLOAT32_PROTOTYPES_TOL, allows_float32
from polymargin.solvers.run import Deadline, Solution, Stop

__all__ = [
    "Ticker",
    "adopt",
    "dual_point",
    "free_bias_of",
    "solve_from",
    "takes_signed",
    "with_gram",
    "with_known_rows",
    "within_caps",
]

_GRAM_BLOCK = 256


def takes_signed(problem: Problem) -> bool:
    """Whether the solver of the problem speaks of signed variables instead of coefficients."""
    return not problem.machine.is_crammer_singer or problem.has_free_bias


def solve_from(
    problem: Problem,
    stop: Stop,
    deadline: Deadline,
    start: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    seed: Any = 0,
    cache_mb: float = 1000.0,
) -> Solution:
    """Solve from a dual point: coefficients tau, or signed variables where ``takes_signed``.

    ``bias`` is a free intercept to begin with.  The deadline may be shared with other solves.
    """
    if not takes_signed(problem):
        if problem.kernel.is_linear:
            return Sweeps(problem, stop, History(), start, seed, deadline).run()
        return solve_kernel(problem, stop, History(), start, seed, cache_mb, deadline)
    run = BlockDescent(problem, stop, History(), start, seed, cache_mb, deadline)
    if bias is not None and problem.has_free_bias:
        run.b = bias - bias.mean()
    try:
        run.prepare(allows_float32(problem, stop.tol, FLOAT32_PROTOTYPES_TOL))
        return run.run()
    except OutOfTimeError:
        reason = deadline.why_end() or "max_time"
        return run.progress.finish(reason, *run.support())


def dual_point(problem: Problem, solution: Solution) -> np.ndarray | None:
    """The point of a solution as a start of the next solve, (n, R) over all patterns.

    None where coefficients do not determine the variables (machines with a target of their own).
    """
    T = np.zeros((problem.n_patterns, problem.n_prototypes))
    T[solution.support] = solution.tau
    if not takes_signed(problem):
        return T
    if problem.machine.own_target is not None:
        return None
    return np.minimum(problem.machine.signed(T, problem.own), 0.0)


def free_bias_of(problem: Problem, judgement: Judgement) -> np.ndarray | None:
    """The unpenalised intercept of a solution, None if there is none."""
    return judgement.intercept if problem.has_free_bias else None


def within_caps(problem: Problem, start: np.ndarray) -> np.ndarray:
    """A start for ``solve_from``, scaled or clipped into the caps of this problem row by row."""
    if takes_signed(problem):
        return signed_within_caps(problem, start)
    weight = start[np.arange(len(start)), problem.own]
    over = np.flatnonzero(weight > problem.cap)
    inside = start.copy()
    inside[over] *= (problem.cap[over] / weight[over])[:, None]
    return inside


def adopt(model: Any, ready: Prepared, problem: Problem, solution: Solution) -> None:
    """Give a MulticlassSVC the fitted attributes of a solution, whatever solved it.

    ``problem`` may be the one on the kernel matrix, which knows nothing of the intercept's constant
    in the kernel.
    """
    judged = solution.judgement
    scale = judged.scale
    W = None if judged.W is None else judged.W * scale
    intercept = judged.intercept
    if W is None:
        intercept = ready.kernel.offset * solution.tau.sum(axis=0)
        if problem.has_free_bias:
            intercept = intercept + judged.intercept
    made = model._fitted_attributes(ready.kernel, ready.classes, ready.X)
    attributes = made(ready.kept[solution.support], solution.tau * scale, W, intercept * scale)
    for name, value in attributes.items():
        setattr(model, name, value)
    model.certificate_ = judged.certificate
    if judged.bias_is_unique is not None:
        model.bias_is_unique_ = judged.bias_is_unique
    model.status_ = solution.status
    model.history_ = solution.history.as_arrays()
    model.n_iter_ = max(1, solution.iterations)


def with_gram(problem: Problem, cache_mb: float) -> Problem:
    """The same problem on its kernel matrix in float64, where that fits into half of the memory.

    Unchanged for linear kernels, for matrices given by the user and for large problems.
    """
    if not _pays_to_keep(problem, cache_mb):
        return problem
    n, X = problem.n_patterns, problem.X
    if problem.kernel.function is None:
        X = X.astype(np.float64)
    wide = replace(problem, X=X)
    K = np.empty((n, n))

    def work(rows: slice) -> None:
        # whole rows: to mirror half of them costs more memory traffic than it saves arithmetic
        K[rows] = wide.gram(rows, slice(0, n))

    run_blocks(work, n, _GRAM_BLOCK, problem.n_jobs)
    return replace(problem, X=K, kernel=Kernel("precomputed"))


def with_known_rows(problem: Problem, cache_mb: float) -> Problem:
    """The same problem with kernel rows that are kept, where all fit into half of the memory."""
    if not _pays_to_keep(problem, cache_mb):
        return problem
    return replace(problem, known_rows=KnownRows(problem))


def _pays_to_keep(problem: Problem, cache_mb: float) -> bool:
    """Whether kernel values are computed at all, and all of them fit into half of the memory."""
    is_computed = not problem.kernel.is_linear and problem.kernel.name != "precomputed"
    return is_computed and 8.0 * problem.n_patterns**2 <= 0.5e6 * cache_mb


class Ticker:
    """A line of progress every other second, if asked for."""

    def __init__(self, what: str, total: int, verbose: int) -> None:
        self.what, self.total, self.verbose = what, total, verbose
        self.started = self.last = time.perf_counter()

    def tell(self, done: int, note: str = "") -> None:
        """``done`` of ``total`` are done; the time left is estimated from the time so far."""
        now = time.perf_counter()
        if not self.verbose or (now - self.last < 2.0 and done < self.total):
            return
        self.last = now
        spent = now - self.started
        left = spent * (self.total - done) / max(done, 1)
        print(
            f"[polymargin] {spent:8.2f} s  {self.what} {done}/{self.total}{note}  "
            f"about {left:.0f} s left",
            flush=True,
        )
