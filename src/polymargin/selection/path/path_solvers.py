"""Solved points of a regularisation path: one session of solves for all values of C."""

from __future__ import annotations

import numpy as np

from polymargin.problem.problem import Problem
from polymargin.selection.path.path_points import Knot, Mixture
from polymargin.solvers.driver import Solution
from polymargin.solvers.run import Run
from polymargin.solvers.sessions import KnownStart, open_session

__all__ = ["PathSolver"]


class PathSolver:
    """``solve(problem, C, start, tol)`` gives the solved point.

    Parameters
    ----------
    problem : Problem
        Of any C; ``self.problem`` is what is solved, perhaps on its kernel matrix.
    run : Run
        Of the whole path.
    """

    def __init__(self, problem: Problem, run: Run) -> None:
        self.run = run
        self.offset = problem.kernel.offset  # constant of a penalised intercept's kernel
        self.session = open_session(problem, run.cache_mb)
        self.problem = self.session.problem

    def solve(self, problem: Problem, C: float, start: Mixture | None, tol: float) -> Knot:
        """The problem with the caps of C, from a mixture of solved points."""
        known = None
        if start is not None:
            known = KnownStart(start.point(problem).clipped(problem), start.scores(), start.W)
        return self.knot(C, self.session.solve_again(problem, self.run.part(tol=tol), known))

    def knot(self, C: float, solution: Solution) -> Knot:
        problem, point, judgement = solution.problem, solution.point, solution.judgement
        T = solution.coefficients
        ridge = np.zeros(len(T))
        if problem.machine.p == 2:
            ridge = 0.5 * C / problem.cap[point.support]
        b = judgement.intercept if problem.has_free_bias else np.zeros(problem.n_prototypes)
        return Knot(
            C,
            point,
            T,
            solution.scores,
            b,
            self.offset * T.sum(axis=0),
            judgement.W,
            problem.machine.reward(point.V, point.own),
            ridge,
            judgement.certificate,
            judgement.scale,
            solution.iterations,
        )
