"""Frank-Wolfe for the machines with a free intercept: the method of their documentation.

Problem card: (4.2), (5.2) or the dual of (6.1).  Each iteration minimises the linearised dual over
the feasible set, which has a closed solution: a cheapest circulation for Weston-Watkins (4.12),
columns filled to one height for Lee-Lin-Wahba, one entry per column under a cap on the column sum
for M-SVM^2, whose feasible set is a cone.  An exact line search follows.  For the first two the
linear programme's value is the duality gap with the best intercept (4.10).  The rate is
1 / iterations: use it for comparison and for coarse solutions.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from polymargin.certificate.intercepts import column_flow
from polymargin.certificate.objective import linear_and_ridge, merit, values_of
from polymargin.compiled.circulation import cheapest_circulation
from polymargin.problem.balance import repair
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem, row_blocks
from polymargin.solvers.driver import Progress
from polymargin.solvers.method import Checked, Method
from polymargin.solvers.run import Run

__all__ = ["FrankWolfe", "fits"]


def fits(problem: Problem, cache_mb: float) -> bool:
    """Whether all scores can be had at once: linear, or a kernel matrix that fits."""
    return problem.kernel.is_linear or 8e-6 * problem.n_patterns**2 <= cache_mb


class FrankWolfe(Method):
    """Conditional gradients, one check per iteration: variables, scores of all, the intercept."""

    def __init__(
        self, problem: Problem, run: Run, start: DualPoint | None = None, whole: bool = True
    ) -> None:
        self.problem, self.machine = problem, problem.machine
        n, Q = problem.n_patterns, problem.n_prototypes
        self.V = np.zeros((n, Q))
        if start is not None:
            self.V = start.balanced(problem).dense(problem)
        self.b = np.zeros(Q)
        self.rival = np.ones((n, Q), dtype=bool)
        self.rival[np.arange(n), problem.own] = False
        self.ridge = np.zeros(n)
        if self.machine.p == 2:
            self.ridge = 0.5 / problem.cap
        everyone = np.arange(n)
        self.K = None
        if whole and not problem.kernel.is_linear:
            self.K = problem.gram(everyone, everyone).astype(np.float64)
        self.scores = self.apply(self.coefficients(self.V))
        self.best_primal = np.inf

    def start(self, progress: Progress) -> None:
        self.progress = progress

    def coefficients(self, V: np.ndarray) -> np.ndarray:
        return self.machine.coefficients(V, self.problem.own)

    def apply(self, T: np.ndarray) -> np.ndarray:
        """K T, never building K for a linear kernel."""
        if self.K is not None:
            return np.asarray(self.K @ T)
        if not self.problem.kernel.is_linear:
            support = np.flatnonzero(T.any(axis=1))
            out = np.zeros(T.shape)
            for rows in row_blocks(len(T), 256):
                K = self.problem.gram(np.arange(rows.start, rows.stop), support)
                out[rows] = K.astype(np.float64) @ T[support]
            return out
        X = self.problem.X
        if sp.issparse(X):
            return np.asarray(X @ np.asarray(X.T @ T))
        return np.asarray(X @ (X.T @ T), dtype=np.float64)

    def point(self) -> DualPoint:
        V = repair(self.machine, self.V, self.problem.own, self.V)
        return DualPoint.from_dense(self.problem, V, self.b)

    def gradient(self) -> np.ndarray:
        """g_ik (4.5), (5.7), the ridge of M-SVM^2 included; 0 at the own class."""
        g = -self.machine.deficits(self.scores, self.problem.own)
        if self.machine.p == 2:
            g -= self.ridge[:, None] * self.coefficients(self.V)
        return np.where(self.rival, g, 0.0)

    def vertex(self, g: np.ndarray) -> np.ndarray:
        """gamma: the minimiser of the linearised dual over the feasible set."""
        problem = self.problem
        if self.machine.p == 2:
            return self.cone_vertex(g)
        if self.machine.K1:
            found = cheapest_circulation(g, problem.own, problem.cap, self.b)
            self.b = found.bias
            return found.flow
        return column_flow(np.where(self.rival, g, np.inf), problem.own, problem.cap)

    def cone_vertex(self, g: np.ndarray) -> np.ndarray:
        """M-SVM^2: the common column sum is at most 2 (Q - 1) P / Q for any primal value P."""
        Q = g.shape[1]
        lowest = np.where(self.rival, g, np.inf).argmin(axis=0)
        gamma = np.zeros(g.shape)
        if g[lowest, np.arange(Q)].sum() < 0.0:
            gamma[lowest, np.arange(Q)] = 2.0 * (Q - 1) * self.best_primal / Q
        return gamma

    def check(self) -> Checked:
        """P with the best intercept and D at the present point."""
        T = self.coefficients(self.V)
        norm2 = max(float((T * self.scores).sum()), 0.0)
        reward, ridge = linear_and_ridge(self.problem, np.arange(len(T)), self.V)
        found = values_of(self.problem, self.scores, norm2, reward, ridge, self.b)
        self.b = found.bias.b
        self.best_primal = min(self.best_primal, found.primal)
        self.progress.work += 1e-9 * len(T) ** 2
        order = merit(found.primal, found.margin, norm2)
        weights = self.V < 0.0
        n_support = int(weights.any(axis=1).sum())
        return Checked(found.primal, found.dual, order, int(weights.sum()), n_support)

    def advance(self, checked: Checked) -> bool:
        moved = self.move(self.gradient())
        self.progress.iterations += int(moved)
        self.progress.steps += int(moved)
        return moved

    def move(self, g: np.ndarray) -> bool:
        """The vertex and the exact line search towards it; whether anything changed."""
        d = self.vertex(g) + self.V  # V = -alpha
        gap = -float((g * d).sum())
        T = self.coefficients(-d)
        change = self.apply(T)
        curvature = float((T * change).sum() + (T**2).sum(axis=1) @ self.ridge)
        length = 1.0 if curvature <= 0.0 else min(1.0, gap / curvature)
        if not length > 0.0:
            return False
        self.V -= length * d
        np.minimum(self.V, 0.0, out=self.V)  # rounding of a full step
        self.scores += length * change
        if self.machine.p == 2:
            self.rescale()
        return True

    def rescale(self) -> None:
        """To the best multiple: the feasible set of M-SVM^2 is a cone (5.10)."""
        T = self.coefficients(self.V)
        norm2 = float((T * self.scores).sum() + (T**2).sum(axis=1) @ self.ridge)
        reward = self.machine.reward(self.V, self.problem.own)
        if norm2 > 0.0 and reward > 0.0:
            self.V *= reward / norm2
            self.scores *= reward / norm2
