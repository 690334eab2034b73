"""Where the gradients of hull weights come from, and how the weights move.

A source gives 2 Kbar w for any weights: from kernel rows, or for linear kernels from explicit
prototypes.  An engine lowers f: pairs on kernel rows, pairs on a working set beside explicit
prototypes, or Frank-Wolfe.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from polymargin.certificate.hull_gap import centred_prototypes, hull_coefficients, linear_minimum
from polymargin.compiled.pair_steps import BUDGET, DONE, MISSING, descend_pairs, list_active
from polymargin.problem.problem import row_blocks
from polymargin.problem.scoring import linear_scores
from polymargin.solvers.costs import Budget
from polymargin.solvers.kernel_rows import KernelRows

if TYPE_CHECKING:
    from polymargin.solvers.hulls.hulls import HullDescent

__all__ = [
    "Engine",
    "FrankWolfeSteps",
    "KernelSource",
    "LinearSource",
    "PrototypeDescent",
    "RowDescent",
    "Source",
]

_PREFETCH = 8  # rows computed together: the one that is missing and the next to be asked for
_SPARSE_PREFETCH = 64  # a product of sparse rows first copies all of the data
_SAMPLE = 64  # examples of all classes together whose means choose the first weights
_WORKING_SET = 1500
_SPARSE_WHOLE = 5000  # products of sparse rows are dear: all of them once, where they fit
_NANOSECONDS = 3.0  # of a visit to a position, until it is measured
_PATIENCE = 10  # pair steps per position in play before the face of the free weights is solved


# -- where gradients come from -----------------------------------------------------------------


class Source:
    """2 Kbar w for weights w whose sums are the same in every class: (7.5) is linear in them."""

    def gradient(self, positions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions and weights of (approximate) class means."""
        raise NotImplementedError

    def products(self, positions: np.ndarray) -> np.ndarray:
        """Kernel values between positions, in float64."""
        raise NotImplementedError

    def is_scattered(self) -> bool:
        """Whether K_ii outweighs all other kernel values of example i with its class together."""
        return False


def _evenly(members: list[np.ndarray], count: int) -> tuple[np.ndarray, np.ndarray]:
    """At most ``count`` evenly spaced members of each class, with equal weights of sum 1."""
    chosen = [
        own[np.unique(np.linspace(0, len(own) - 1, min(count, len(own))).astype(np.int64))]
        for own in members
    ]
    weights = [np.full(len(some), 1.0 / len(some)) for some in chosen]
    return np.concatenate(chosen), np.concatenate(weights)


class KernelSource(Source):
    """Rows of kernel values in bounded memory, computed on demand."""

    def __init__(self, run: HullDescent, cache_mb: float) -> None:
        self.run = run
        self.rows = KernelRows(run.problem, np.float64, cache_mb, run.progress.why_end)
        self.rows.open(run.order)
        self.diagonal = run.problem.diagonal[run.order]

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        return _evenly(self.run.members, max(1, _SAMPLE // self.run.n_classes))

    def gradient(self, positions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        run, rows, n, Q = self.run, self.rows, len(self.run.order), self.run.n_classes
        total, own = np.zeros(n), np.zeros(n)  # sum_p w_p K[p, :], over everybody and one's class
        size = max(1, min(256, rows.capacity // 2))
        for block in row_blocks(len(positions), size):
            run.ask()
            some, w = positions[block], weights[block]
            rows.fetch(some)
            K = rows.rows[rows.slot[some], :n]
            total += w @ K
            for k in np.unique(run.label[some]):
                mine, members = run.label[some] == k, slice(run.first[k], run.first[k + 1])
                own[members] += w[mine] @ K[mine, members]
        return 2.0 * (Q * own - total)

    def is_scattered(self) -> bool:
        """Judged by the examples of ``means``, whose rows the first gradient needs anyway."""
        run, rows = self.run, self.rows
        some, _ = self.means()
        if len(some) > rows.capacity or len(some) == len(run.order):
            return False
        rows.fetch(some)
        label = run.label[some]
        heavy = sum(
            np.abs(rows.rows[rows.slot[p], run.first[k] : run.first[k + 1]]).sum()
            for p, k in zip(some, label, strict=True)
        )
        return bool(heavy < 2.0 * np.abs(self.diagonal[some]).sum())

    def products(self, positions: np.ndarray) -> np.ndarray:
        K = np.empty((len(positions), len(positions)))
        for block in row_blocks(len(positions), max(1, min(256, self.rows.capacity // 2))):
            self.rows.fetch(positions[block])
            K[block] = self.rows.rows[self.rows.slot[positions[block]]][:, positions]
        return K


class LinearSource(Source):
    """Explicit prototypes: one product with the data gives every gradient."""

    def __init__(self, run: HullDescent) -> None:
        self.run = run

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        return _evenly(self.run.members, len(self.run.order))

    def gradient(self, positions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        run, problem, Q = self.run, self.run.problem, self.run.n_classes
        coefficients = hull_coefficients(run.label[positions], weights, Q)
        W = centred_prototypes(problem, run.order[positions], coefficients)
        own = np.empty(len(run.order))
        for rows in row_blocks(len(own), 16384):
            run.ask()
            S = linear_scores(problem.X[rows], W, np.zeros(Q), problem.n_jobs)
            own[rows] = S[np.arange(len(S)), problem.label[rows]]
        return 2.0 * Q * own[run.order]

    def products(self, positions: np.ndarray) -> np.ndarray:
        """Around the mean, where that costs nothing: f does not see a shift."""
        X = self.run.problem.X[self.run.order[positions]].astype(np.float64)
        if sp.issparse(X):
            return np.ascontiguousarray((X @ X.T).toarray())
        X -= X.mean(axis=0)
        return np.asarray(X @ X.T)


# -- how weights move --------------------------------------------------------------------------


class Engine:
    """Something that lowers f; ``descend`` leaves ``run.g`` right everywhere."""

    may_stall = True  # many checks without gain mean that there is none to be had

    def __init__(self, run: HullDescent, source: Source) -> None:
        self.run, self.source = run, source

    def descend(self, goal: float, gap: float) -> bool:
        """Towards a gap of ``goal``; it is ``gap`` now.  False: it goes slowly."""
        raise NotImplementedError


def _target(run: HullDescent, goal: float, gap: float) -> float:
    """The violation that should bring the gap to the goal; never below what rounding shows."""
    worst = run.violation()
    return max(worst * min(max(0.7 * goal / max(gap, 1e-300), 0.02), 0.5), run.rounding)


def _patience(run: HullDescent, n_active: int) -> int:
    """Pair steps after which the free weights are looked at as a whole."""
    return min(run.progress.stop.max_iter - run.steps, 2000 + _PATIENCE * n_active)


class RowDescent(Engine):
    """Pairs on kernel rows of all positions; the list of those in play shrinks."""

    def __init__(self, run: HullDescent, source: KernelSource) -> None:
        super().__init__(run, source)
        self.rows, self.diagonal = source.rows, source.diagonal
        self.budget = Budget(_NANOSECONDS)
        self.together = _SPARSE_PREFETCH if sp.issparse(run.problem.X) else _PREFETCH

    def descend(self, goal: float, gap: float) -> bool:
        run, rows = self.run, self.rows
        target = _target(run, goal, gap)
        active, first = self.shrunk()
        run.active = len(active)
        before = run.u.copy()
        left = _patience(run, len(active))
        try:
            while left > 0:
                size = min(left, max(16, self.budget.visits // (3 * len(active) + 1)))
                started = time.perf_counter()
                state, steps, _, i, j = descend_pairs(
                    rows.rows, rows.slot, rows.used, rows.tick, self.diagonal,
                    run.u, run.cap, run.g, active, first, target, size,
                )  # fmt: skip
                run.steps += steps
                left -= steps
                if state == MISSING:
                    self.fetch(i, j)
                elif state == DONE:
                    return True
                else:
                    seconds = time.perf_counter() - started
                    self.budget.learn(seconds, 3.0 * steps * len(active))
                if run.progress.why_stop():
                    break
            return False
        finally:
            if len(active) < len(run.order):
                self.restore(active, before)

    def shrunk(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions that could move, with room for the thresholds to shift by the violation."""
        run = self.run
        active = np.empty(len(run.order), dtype=np.int64)
        first = np.zeros(run.n_classes + 1, dtype=np.int64)
        slack = run.violation()
        count = list_active(run.g, run.u, run.cap, run.first, slack, active, first)
        if count > 0.7 * len(run.order):
            return run.everyone, run.first
        return active[:count], first

    def restore(self, active: np.ndarray, before: np.ndarray) -> None:
        """Gradients of positions out of play, from the rows of those that moved."""
        run = self.run
        moved = np.flatnonzero(run.u != before)
        change = self.source.gradient(moved, run.u[moved] - before[moved])
        change[active] = 0.0
        run.g += change

    def fetch(self, i: int, j: int) -> None:
        """The missing row, and those of the positions likely to be asked for next."""
        run, rows = self.run, self.rows
        wanted = i if j < 0 else j
        own = run.members[int(run.label[wanted])]
        movable = run.u[own] < run.cap[own] if j < 0 else run.u[own] > 0.0
        others = own[movable & (rows.slot[own] < 0)]
        keys = run.g[others] if j < 0 else -run.g[others]
        count = min(self.together, max(rows.capacity // 4, 1), len(others))
        if count < len(others):
            others = others[np.argpartition(keys, count - 1)[:count]]
        rows.fetch(np.unique(np.append(others[:count], wanted)))


class PrototypeDescent(Engine):
    """Pairs on the inner products of a working set; prototypes carry the rest (linear kernels)."""

    def __init__(self, run: HullDescent, source: Source, cache_mb: float) -> None:
        super().__init__(run, source)
        self.budget = Budget(_NANOSECONDS)
        self.whole = _WORKING_SET
        if sp.issparse(run.problem.X):
            fits = int(np.sqrt(cache_mb * 1e6 / 8))
            self.whole = max(_WORKING_SET, min(_SPARSE_WHOLE, fits))
        self.chosen = np.empty(0, dtype=np.int64)
        self.gram = np.empty((0, 0))

    def descend(self, goal: float, gap: float) -> bool:
        run = self.run
        target = _target(run, goal, gap)
        self.gather(self.choose())
        chosen, gram = self.chosen, self.gram
        m = len(chosen)
        run.active = m
        first = np.searchsorted(run.label[chosen], np.arange(run.n_classes + 1))
        u, cap, g = run.u[chosen], run.cap[chosen], run.g[chosen]
        everyone, used, tick = np.arange(m), np.zeros(m, np.int64), np.zeros(1, np.int64)
        diagonal = np.diagonal(gram).copy()
        left, state = _patience(run, m), BUDGET
        while left > 0 and state != DONE and not run.progress.why_stop():
            size = min(left, max(16, self.budget.visits // (3 * m + 1)))
            started = time.perf_counter()
            state, steps, *_ = descend_pairs(
                gram, everyone, used, tick, diagonal, u, cap, g, everyone, first, target, size
            )
            run.steps += steps
            left -= steps
            self.budget.learn(time.perf_counter() - started, 3.0 * steps * m)
        run.u[chosen] = u
        run.refresh(self.source)
        return bool(state == DONE)

    def choose(self) -> np.ndarray:
        """The most violating positions, from both ends, of the most violating classes."""
        run = self.run
        if len(run.order) <= self.whole:
            return run.everyone
        low = np.array(
            [run.g[own][run.u[own] < run.cap[own]].min(initial=np.inf) for own in run.members]
        )
        high = np.array([run.g[own][run.u[own] > 0.0].max() for own in run.members])
        classes = np.argsort(low - high, kind="stable")[: _WORKING_SET // 8]
        quota = _WORKING_SET // (2 * len(classes))
        found = []
        for k in classes:
            own = run.members[k]
            g, u, cap = run.g[own], run.u[own], run.cap[own]
            for keys, at in ((g, (u < cap) & (g < high[k])), (-g, (u > 0.0) & (g > low[k]))):
                some = own[at]
                if len(some) > quota:
                    some = some[np.argpartition(keys[at], quota)[:quota]]
                found.append(some)
        return np.unique(np.concatenate(found))

    def gather(self, chosen: np.ndarray) -> None:
        """Inner products of the working set, kept while it stays the same."""
        if np.array_equal(chosen, self.chosen):
            return
        self.chosen = chosen
        self.gram = self.source.products(chosen)


class FrankWolfeSteps(Engine):
    """Towards the best vertex, with exact line search: slow, but it gets there."""

    may_stall = False

    def descend(self, goal: float, gap: float) -> bool:
        run = self.run
        until = time.perf_counter() + 0.1
        while time.perf_counter() < until and run.steps < run.progress.stop.max_iter:
            vertex = linear_minimum(run.g, run.cap, run.members)
            gap = float((run.u - vertex) @ run.g)
            if gap <= goal:
                break
            at = np.flatnonzero(vertex)
            slope = self.source.gradient(at, vertex[at]) - run.g
            curvature = float((vertex - run.u) @ slope)  # 2 d'Kbar d
            theta = 1.0 if curvature <= gap else gap / curvature
            run.u += theta * (vertex - run.u)
            run.g += theta * slope
            run.steps += 1
        return True  # plain Frank-Wolfe solves no faces
