"""Steps along the smallest balanced directions: cycles of classes, column pairs, layers.

Problem card: the duals (4.2), (5.2) and that of (6.1) with a free intercept, soft or hard.  Every
step keeps the balance exactly.  Weston-Watkins: the cycle of least mean cost among the classes,
where going from a to c costs the smallest g_ic of class a that may rise, or minus the largest g_ia
of class c that may fall.  Lee-Lin-Wahba and M-SVM^2: the worst of the column pairs and of the two
layers (one entry of every column up, or down).  Each step is the exact optimum along its direction.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from polymargin.problem.balance import repair
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem
from polymargin.solvers.frank_wolfe import FrankWolfe
from polymargin.solvers.method import Checked
from polymargin.solvers.run import Run

__all__ = ["Cycles", "Direction", "least_mean_cycle"]


class Direction(NamedTuple):
    """Variables (example, class) and the sign in which each of them moves."""

    violation: float
    example: np.ndarray
    column: np.ndarray
    sign: np.ndarray


class Cycles(FrankWolfe):
    """The same state as Frank-Wolfe, moved along one small direction at a time."""

    def __init__(
        self, problem: Problem, run: Run, start: DualPoint | None = None, whole: bool = True
    ) -> None:
        super().__init__(problem, run, start, whole)
        cap = problem.cap if self.machine.p == 1 else np.full(problem.n_patterns, np.inf)
        self.cap = np.where(self.rival, cap[:, None], 0.0)

    def direction(self, g: np.ndarray) -> Direction:
        alpha = -self.V
        rises = np.where(self.rival & (alpha < self.cap), g, np.inf)
        falls = np.where(self.rival & (alpha > 0.0), g, -np.inf)
        return self.cycle(rises, falls) if self.machine.K1 else self.layer(rises, falls)

    def cycle(self, rises: np.ndarray, falls: np.ndarray) -> Direction:
        """The least mean cycle of the residual costs between classes (A20)."""
        own, Q = self.problem.own, rises.shape[1]
        up, low = np.full((Q, Q), np.inf), np.full((Q, Q), -np.inf)
        up_at, low_at = np.zeros((Q, Q), dtype=int), np.zeros((Q, Q), dtype=int)
        for a in range(Q):
            members = np.flatnonzero(own == a)
            if len(members):
                up_at[a] = members[rises[members].argmin(axis=0)]
                low_at[a] = members[falls[members].argmax(axis=0)]
                up[a] = rises[up_at[a], np.arange(Q)]
                low[a] = falls[low_at[a], np.arange(Q)]
        cost = np.minimum(up, -low.T)
        mean, nodes = least_mean_cycle(cost)
        example, column, sign = [], [], []
        for a, c in zip(nodes, np.roll(nodes, -1), strict=True):
            if up[a, c] <= -low[c, a]:
                example.append(up_at[a, c])
                column.append(c)
                sign.append(1)
            else:
                example.append(low_at[c, a])
                column.append(a)
                sign.append(-1)
        return Direction(-mean, np.array(example), np.array(column), np.array(sign, dtype=float))

    def layer(self, rises: np.ndarray, falls: np.ndarray) -> Direction:
        """The worst of the column pairs and of the layers up and down (A26)."""
        Q = rises.shape[1]
        columns = np.arange(Q)
        up_at, low_at = rises.argmin(axis=0), falls.argmax(axis=0)
        up, low = rises[up_at, columns], falls[low_at, columns]
        with np.errstate(invalid="ignore"):
            pair = np.nan_to_num(low - up, nan=-np.inf, neginf=-np.inf)
        k = int(pair.argmax())
        best = Direction(
            float(pair[k]), np.array([up_at[k], low_at[k]]), np.array([k, k]), np.array([1.0, -1.0])
        )
        for value, at, sign in ((-up.sum(), up_at, 1.0), (low.sum(), low_at, -1.0)):
            if value > best.violation:
                best = Direction(float(value), at, columns, np.full(Q, sign))
        return best

    def step(self, g: np.ndarray, d: Direction) -> bool:
        """The exact optimum along a direction, clipped to the bounds; whether anything moved."""
        if not len(d.example) or not d.violation > 0.0:
            return False
        slope = float((g[d.example, d.column] * d.sign).sum())
        rows, at = np.unique(d.example, return_inverse=True)
        change = np.zeros((len(rows), g.shape[1]))
        np.add.at(change, (at, d.column), -d.sign)  # in the signed variables
        T = self.machine.coefficients(change, self.problem.own[rows])
        block = self.columns(rows)
        curvature = float((T * (block[rows] @ T)).sum() + (T**2).sum(axis=1) @ self.ridge[rows])
        alpha = -self.V[d.example, d.column]
        room = np.where(d.sign > 0.0, self.cap[d.example, d.column] - alpha, alpha)
        least = float(room.min())
        length = least if curvature <= 0.0 else min(-slope / curvature, least)
        if not 0.0 < length < np.inf:
            return False
        self.V[rows] += length * change
        if length == least:
            hit = room == least  # bounds are met exactly
            bound = np.where(d.sign > 0.0, -self.cap[d.example, d.column], 0.0)
            self.V[d.example[hit], d.column[hit]] = bound[hit]
        self.scores += length * (block @ T)
        return True

    def columns(self, rows: np.ndarray) -> np.ndarray:
        """K[:, rows]."""
        if self.K is not None:
            return self.K[:, rows]
        everyone = np.arange(self.problem.n_patterns)
        return self.problem.gram(everyone, rows).astype(np.float64)

    def check(self) -> Checked:
        """Values of the present point, its scores and balance free of drift."""
        self.V = repair(self.machine, self.V, self.problem.own, self.V)
        self.scores = self.apply(self.coefficients(self.V))
        if self.problem.is_hard or self.machine.p == 2:
            self.rescale()
        return super().check()

    def advance(self, checked: Checked) -> bool:
        """As many moves as there are examples: ``max_iter`` counts them as a pass."""
        before = self.progress.steps
        for _ in range(self.problem.n_patterns):
            g = self.gradient()
            if not self.step(g, self.direction(g)):
                break
            self.progress.steps += 1
            if self.progress.why_end():
                break
        self.progress.iterations += 1
        return self.progress.steps > before


def least_mean_cycle(cost: np.ndarray) -> tuple[float, np.ndarray]:
    """Karp: the least mean of a cycle and its nodes in order (none if there is no cycle)."""
    Q = len(cost)
    walks = np.full((Q + 1, Q), np.inf)
    walks[0] = 0.0
    before = np.zeros((Q + 1, Q), dtype=int)
    cost = cost.copy()
    np.fill_diagonal(cost, np.inf)
    for length in range(1, Q + 1):
        reach = walks[length - 1][:, None] + cost
        before[length] = reach.argmin(axis=0)
        walks[length] = reach.min(axis=0)
    spans = (Q - np.arange(Q))[:, None]
    with np.errstate(invalid="ignore"):
        means = (walks[Q] - walks[:Q]) / spans
    worst = np.where(np.isfinite(walks[Q]), np.nan_to_num(means, nan=-np.inf).max(axis=0), np.inf)
    end = int(worst.argmin())
    if not np.isfinite(worst[end]):
        return np.inf, np.empty(0, dtype=int)
    walk = [end]
    for length in range(Q, 0, -1):
        walk.append(int(before[length, walk[-1]]))
    walk.reverse()
    best, nodes = np.inf, np.empty(0, dtype=int)
    for i in range(Q + 1):
        for j in range(i + 1, Q + 1):
            if walk[i] == walk[j]:
                part = walk[i:j]
                mean = float(np.mean([cost[a, c] for a, c in pairwise(walk[i : j + 1])]))
                if mean < best:
                    best, nodes = mean, np.array(part)
                break
    return best, nodes
