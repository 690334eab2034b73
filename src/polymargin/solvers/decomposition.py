"""Frank-Wolfe on working sets: only kernel columns of the examples in work are needed.

Problem card: as ``frank_wolfe``, for more examples than a kernel matrix fits in memory.  A working
set B holds the examples of the most violating balanced direction (without them it may contain no
feasible descent at all) and those with the largest terms of the gap (4.9).  Inner iterations of
Frank-Wolfe keep the balance of the rest: A_B gamma_B = A_B alpha_B for Weston-Watkins, the column
sums of B up to one common shift for the others.  These linear programmes are no circulations;
HiGHS solves them.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem
from polymargin.solvers.cycles import Cycles
from polymargin.solvers.frank_wolfe import FrankWolfe
from polymargin.solvers.method import Checked
from polymargin.solvers.run import Run

__all__ = ["Decomposed"]

_INNER_ITERATIONS = 30
_INNER_SHARE = 0.1


class Decomposed(Cycles):
    """The state of Frank-Wolfe, moved by inner runs on working sets of ``size`` examples."""

    def __init__(
        self,
        problem: Problem,
        run: Run,
        start: DualPoint | None = None,
        size: int = 200,
        rule: str = "direction",
        inner_iterations: int = _INNER_ITERATIONS,
    ) -> None:
        super().__init__(problem, run, start, whole=False)
        self.size = min(size, problem.n_patterns)
        self.rule = rule
        self.inner_iterations = inner_iterations

    def contributions(self, g: np.ndarray) -> np.ndarray:
        """Terms of the gap (4.9) of every example at the present intercept."""
        own, b = self.problem.own, self.b
        rho = g + b[own][:, None] - b if self.machine.K1 else g - b
        alpha = -self.V
        room = np.where(np.isfinite(self.cap), self.cap, max(float(alpha.max()), 1.0)) - alpha
        terms = np.maximum(room, 0.0) * np.maximum(-rho, 0.0) + alpha * np.maximum(rho, 0.0)
        return np.asarray(np.where(self.rival, terms, 0.0).sum(axis=1))

    def working_set(self, g: np.ndarray) -> np.ndarray:
        """Examples of the worst direction first, then those with the largest terms."""
        if self.rule == "gap":
            return np.sort(np.argsort(-self.contributions(g), kind="stable")[: self.size])
        first = np.unique(self.direction(g).example).astype(np.int64)
        order = np.argsort(-self.contributions(g), kind="stable")
        rest = order[~np.isin(order, first)][: max(self.size - len(first), 0)]
        return np.sort(np.concatenate([first, rest]))

    def move(self, g: np.ndarray) -> bool:
        """Inner Frank-Wolfe on one working set; whether anything changed."""
        B = self.working_set(g)
        columns = self.columns(B)
        K, own = columns[B], self.problem.own[B]
        V, scores = self.V[B].copy(), self.scores[B].copy()
        outer = float(self.contributions(g).sum())
        for _ in range(self.inner_iterations):
            slope = self.local_gradient(B, V, scores)
            d = self.local_vertex(B, slope, -V) + V
            gap = -float((slope * d).sum())
            if not gap > 1e-14 * outer or self.progress.why_end():
                break
            T = self.machine.coefficients(-d, own)
            change = K @ T
            curvature = float((T * change).sum() + (T**2).sum(axis=1) @ self.ridge[B])
            length = 1.0 if curvature <= 0.0 else min(1.0, gap / curvature)
            V = np.minimum(V - length * d, 0.0)
            scores += length * change
            if gap <= _INNER_SHARE * outer:
                break
        change = V - self.V[B]
        if not change.any():
            return False
        self.V[B] = V
        self.scores += columns @ self.machine.coefficients(change, own)
        if self.machine.p == 2:
            self.rescale()
        return True

    def local_gradient(self, B: np.ndarray, V: np.ndarray, scores: np.ndarray) -> np.ndarray:
        own = self.problem.own[B]
        g = -self.machine.deficits(scores, own)
        if self.machine.p == 2:
            g -= self.ridge[B][:, None] * self.machine.coefficients(V, own)
        return np.where(self.rival[B], g, 0.0)

    def local_vertex(self, B: np.ndarray, g: np.ndarray, alpha: np.ndarray) -> np.ndarray:
        """The linear programme on B; the present point where HiGHS finds none."""
        i, k = np.nonzero(self.rival[B])
        own, Q, m = self.problem.own[B], g.shape[1], len(i)
        at = np.arange(m)
        cost, upper = g[i, k], self.cap[B][i, k]
        bounds: list[tuple[float | None, float | None]]
        if self.machine.K1:
            cells = np.concatenate([np.ones(m), -np.ones(m)])
            where = (np.concatenate([own[i], k]), np.concatenate([at, at]))
            A = sp.csr_array((cells, where), shape=(Q, m))[: Q - 1]
            bounds = [(0.0, u if np.isfinite(u) else None) for u in upper]
        else:
            # one more variable: the common shift of the column sums
            A = sp.csr_array((np.ones(m), (k, at)), shape=(Q, m))
            A = sp.hstack([A, sp.csr_array(-np.ones((Q, 1)))], format="csr")
            cost = np.append(cost, 0.0)
            bounds = [(0.0, u if np.isfinite(u) else None) for u in upper]
            bounds.append((None, self.room_of_columns()))
        present = np.append(alpha[i, k], np.zeros(A.shape[1] - m))
        found = linprog(cost, A_eq=A, b_eq=A @ present, bounds=bounds, method="highs")
        vertex = np.zeros(g.shape)
        vertex[i, k] = alpha[i, k] if found.x is None else np.maximum(found.x[:m], 0.0)
        return vertex

    def room_of_columns(self) -> float | None:
        """How far the common column sum of M-SVM^2 may rise: its cone needs a cap."""
        if self.machine.p == 1:
            return None
        Q = self.V.shape[1]
        top = 2.0 * (Q - 1) * self.best_primal / Q
        return max(top - float((-self.V).sum(axis=0).max()), 0.0)

    def check(self) -> Checked:
        """A check of all examples for every working set."""
        return FrankWolfe.check(self)

    def advance(self, checked: Checked) -> bool:
        return FrankWolfe.advance(self, checked)
