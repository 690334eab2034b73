"""Convex-hull prototypes: pair descent on kernel rows or explicit prototypes, and Frank-Wolfe.

Every loop works on positions: the examples in class order.  ``u`` are the weights, ``g`` the
gradient (7.5), right everywhere whenever ``HullRun.run`` looks at it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from polymargin.certificate import prototypes
from polymargin.history import Check, History
from polymargin.hull_certificate import (
    MEETING,
    HullJudgement,
    certify_hulls,
    hull_coefficients,
    judge_hulls,
    linear_minimum,
    spread,
)
from polymargin.problem import OutOfTimeError, Problem, row_blocks
from polymargin.scoring import linear_scores
from polymargin.solvers.base import Budget, Deadline, Stop, deferred_interrupt, judge_seconds
from polymargin.solvers.faces import FACE_LIMIT, descend_on_face
from polymargin.solvers.pairs import (
    BUDGET,
    DONE,
    MISSING,
    descend_pairs,
    list_active,
    most_violating,
)
from polymargin.solvers.rows import KernelRows

__all__ = ["HullSolution", "solve_hulls"]

_PREFETCH = 8  # rows computed together: the one that is missing and the next to be asked for
_SAMPLE = 64  # examples of all classes together whose means choose the first weights
_WORKING_SET = 1500
_GRACE = 0.4  # seconds that a fit may go on after it was told to end
_PATIENCE = 10  # pair steps per position in play before the face of the free weights is solved
_TOUCHING = 1e-9  # no more progress and f below this part of the squared radius: the hulls meet


@dataclass
class HullSolution:
    """Weights (of the examples ``support``), what the judge says of them, and how the run ended."""

    support: np.ndarray
    u: np.ndarray
    judgement: HullJudgement
    status: str
    steps: int
    history: History


def solve_hulls(
    problem: Problem, stop: Stop, history: History, method: str = "smo", cache_mb: float = 1000.0
) -> HullSolution:
    """Weights of the hull prototypes.

    Problem card: min f(u) = sum_{m<l} ||v_m - v_l||^2 with v_k = sum_{i in class k} u_i phi(x_i),
    class sums 1, 0 <= u_i <= cap_i (7.1).  ``method`` is "smo" (pairs within classes; linear
    kernels keep the prototypes) or "frank_wolfe".  Ends at gap (7.7) <= tol * max(f, 1e-12 K_ii).
    """
    run = HullRun(problem, stop, history)
    with deferred_interrupt(run.deadline):
        try:
            source: _Source
            if problem.kernel.is_linear:
                source = _LinearSource(run)
            else:
                source = _KernelSource(run, cache_mb)
            run.start(source)
            if method == "frank_wolfe":
                return run.run(_FrankWolfe(run, source))
            if isinstance(source, _KernelSource):
                return run.run(_RowDescent(run, source))
            return run.run(_PrototypeDescent(run, source))
        except OutOfTimeError:
            return run.finish(run.deadline.why_end() or "max_time")


class HullRun:
    """The state of a run in class order, its clock, its history and its end."""

    def __init__(self, problem: Problem, stop: Stop, history: History) -> None:
        self.problem = problem
        self.stop = stop
        self.history = history
        self.deadline = Deadline(stop)
        self.n_classes = problem.n_prototypes
        self.order = np.argsort(problem.label, kind="stable")
        self.label = problem.label[self.order]
        self.first = np.searchsorted(self.label, np.arange(self.n_classes + 1))
        self.members = [
            np.arange(begin, end)
            for begin, end in zip(self.first[:-1], self.first[1:], strict=True)
        ]
        self.everyone = np.arange(len(self.order))
        self.cap = problem.cap[self.order]
        self.u = linear_minimum(np.zeros(len(self.order)), self.cap, self.members)
        self.g = np.zeros(len(self.order))
        self.scale = spread(problem)
        self.steps = 0
        self.active = len(self.order)

    def start(self, source: _Source) -> None:
        """From the vertex that the gradient at the class means (kernels: of a few) points to."""
        positions, weights = source.means()
        guess = source.gradient(positions, weights)
        self.u = linear_minimum(guess, self.cap, self.members)
        self.refresh(source)

    def refresh(self, source: _Source) -> None:
        support = np.flatnonzero(self.u)
        self.g = source.gradient(support, self.u[support])

    def ask(self) -> None:
        """Give up where the fit has to end now."""
        if self.deadline.why_end():
            raise OutOfTimeError

    @property
    def rounding(self) -> float:
        """A violation that the arithmetic cannot tell from zero."""
        size = float(np.abs(self.g).max()) + self.n_classes * float(self.problem.diagonal.max())
        return float(np.finfo(float).eps) * size

    def violation(self) -> float:
        return float(most_violating(self.g, self.u, self.cap, self.everyone, self.first)[0])

    def support(self) -> tuple[np.ndarray, np.ndarray]:
        """Examples with weight, ascending, and their weights."""
        at = np.flatnonzero(self.u)
        ids = self.order[at]
        ascending = np.argsort(ids)
        return ids[ascending], self.u[at][ascending]

    def snapshot(self) -> tuple[np.ndarray, np.ndarray]:
        ids, u = self.support()
        return ids, hull_coefficients(self.problem.label[ids], u, self.n_classes)

    def check(self) -> tuple[float, float, float]:
        """f, the gap (7.7), and their ratio; noted in the history."""
        value = max(0.5 * float(self.u @ self.g), 0.0)
        best = linear_minimum(self.g, self.cap, self.members)
        gap = max(float((self.u - best) @ self.g), 0.0)
        certificate = certify_hulls(value, gap, self.scale, None)
        check = Check(
            self.deadline.seconds,
            self.steps,
            value,
            value - gap,
            certificate.relative_gap,
            self.active,
            self.steps,
        )
        try:
            if self.history.record(check, self.snapshot):
                self.deadline.interrupted = True
        except KeyboardInterrupt:
            self.deadline.interrupted = True
        return value, gap, certificate.relative_gap

    def run(self, engine: _Engine) -> HullSolution:
        """Descend and check until the gap is certified, or a reason to end comes first."""
        trusted = True  # the gradient was not refreshed since the last progress
        while True:
            value, gap, relative = self.check()
            if relative <= self.stop.tol or value <= MEETING * self.scale:
                status = "hulls_meet" if value <= MEETING * self.scale else "converged"
                solution = self.finish(status)
                if status == "hulls_meet" or solution.status != "converged":
                    return solution
                if solution.judgement.certificate.relative_gap <= self.stop.tol:
                    return solution
                if not trusted:
                    return self.stalled(solution)
                self.adopt(solution.judgement)
                trusted = False
                continue
            reason = self.deadline.why_stop(self.steps)
            if reason is not None:
                return self.finish(reason)
            self.keep_reserve()
            before = self.steps
            goal = self.stop.tol * max(value, MEETING * self.scale)
            if not engine.descend(goal, gap) and self.deadline.why_stop(self.steps) is None:
                self.solve_face(engine.source)
            if self.steps > before:
                trusted = True
            elif self.deadline.why_stop(self.steps) is None:
                solution = self.finish("stalled")
                if not trusted:
                    return self.stalled(solution)
                self.adopt(solution.judgement)
                trusted = False

    def solve_face(self, source: _Source) -> None:
        """The exact minimum over the weights that are free now, as far as bounds allow."""
        free = np.flatnonzero((self.u > 0.0) & (self.u < self.cap))
        if not 1 < len(free) <= FACE_LIMIT:
            return
        label = self.label[free]
        same = label[:, None] == label[None, :]
        H = 2.0 * np.where(same, self.n_classes - 1.0, -1.0) * source.products(free)
        new = descend_on_face(H, self.g[free], self.u[free], self.cap[free], label)
        change = source.gradient(free, new - self.u[free])
        # f(u + d) - f(u) = g'd + d'Kbar d
        if (new - self.u[free]) @ (self.g[free] + 0.5 * change[free]) < 0.0:
            self.u[free] = new
            self.g += change

    def adopt(self, judgement: HullJudgement) -> None:
        """Go on from the judge's gradient."""
        if judgement.gradient is not None:
            self.g = judgement.gradient[self.order]

    def stalled(self, solution: HullSolution) -> HullSolution:
        """The arithmetic allows no more: hulls that meet as far as it can tell, or a wide gap."""
        certificate = solution.judgement.certificate
        meets = certificate.dual <= 0.0 and certificate.primal <= _TOUCHING * self.scale
        solution.status = "hulls_meet" if meets else "stalled"
        return solution

    def keep_reserve(self) -> None:
        """Set the time of the certificate aside, as long as it is a modest part of the whole."""
        limit = self.stop.max_time
        if limit:
            seconds = judge_seconds(self.problem, int((self.u > 0.0).sum()))
            self.deadline.reserve = seconds if seconds <= 0.3 * limit else 0.0

    def finish(self, status: str) -> HullSolution:
        """The present weights with their certificate, or without where time does not allow it."""
        support, u = self.support()
        left = np.inf
        if self.deadline.interrupted:
            left = _GRACE
        elif self.stop.max_time is not None:
            left = max(self.stop.max_time - self.deadline.seconds, 0.0) + _GRACE
        in_time = judge_seconds(self.problem, len(support)) <= left
        judgement = judge_hulls(
            self.problem, support, u, self.scale, None if in_time else lambda: "max_time"
        )
        if not in_time and status == "converged":
            status = "max_time"
        return HullSolution(support, u, judgement, status, self.steps, self.history)


# -- where gradients come from -----------------------------------------------------------------


class _Source:
    """2 Kbar w for any weights w of positions: the gradient (7.5) is linear in them."""

    def gradient(self, positions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions and weights of (approximate) class means."""
        raise NotImplementedError

    def products(self, positions: np.ndarray) -> np.ndarray:
        """Kernel values between positions, in float64."""
        raise NotImplementedError


def _evenly(members: list[np.ndarray], count: int) -> tuple[np.ndarray, np.ndarray]:
    """At most ``count`` evenly spaced members of each class, with equal weights of sum 1."""
    chosen = [
        own[np.unique(np.linspace(0, len(own) - 1, min(count, len(own))).astype(np.int64))]
        for own in members
    ]
    weights = [np.full(len(some), 1.0 / len(some)) for some in chosen]
    return np.concatenate(chosen), np.concatenate(weights)


class _KernelSource(_Source):
    """Rows of kernel values in bounded memory, computed when somebody asks for them."""

    def __init__(self, run: HullRun, cache_mb: float) -> None:
        self.run = run
        self.rows = KernelRows(run.problem, np.float64, cache_mb, run.deadline.why_end)
        self.rows.open(run.order)
        self.diagonal = run.problem.diagonal[run.order]

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        return _evenly(self.run.members, max(1, _SAMPLE // self.run.n_classes))

    def gradient(self, positions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        run, rows, n = self.run, self.rows, len(self.run.order)
        Q = run.n_classes
        Z = np.zeros((Q, n))  # sum over the positions of class c of w_p K[p, :]
        size = max(1, min(256, rows.capacity // 2))
        for block in row_blocks(len(positions), size):
            run.ask()
            some = positions[block]
            rows.fetch(some)
            coefficients = np.zeros((Q, len(some)))
            coefficients[run.label[some], np.arange(len(some))] = weights[block]
            Z += coefficients @ rows.rows[rows.slot[some], :n]
        return 2.0 * (Q * Z[run.label, run.everyone] - Z.sum(axis=0))

    def products(self, positions: np.ndarray) -> np.ndarray:
        K = np.empty((len(positions), len(positions)))
        for block in row_blocks(len(positions), max(1, min(256, self.rows.capacity // 2))):
            self.rows.fetch(positions[block])
            K[block] = self.rows.rows[self.rows.slot[positions[block]]][:, positions]
        return K


class _LinearSource(_Source):
    """Explicit prototypes: one product with the data gives every gradient."""

    def __init__(self, run: HullRun) -> None:
        self.run = run

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        return _evenly(self.run.members, len(self.run.order))

    def gradient(self, positions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        run, problem, Q = self.run, self.run.problem, self.run.n_classes
        coefficients = hull_coefficients(run.label[positions], weights, Q)
        W = prototypes(problem, run.order[positions], coefficients)
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


class _Engine:
    """Something that lowers f; ``descend`` leaves ``run.g`` right everywhere."""

    def __init__(self, run: HullRun, source: _Source) -> None:
        self.run, self.source = run, source

    def descend(self, goal: float, gap: float) -> bool:
        """Towards a gap of ``goal``; it is ``gap`` now.  False: it goes slowly."""
        raise NotImplementedError


def _target(run: HullRun, goal: float, gap: float) -> float:
    """The violation that should bring the gap to the goal; never below what rounding shows."""
    worst = run.violation()
    return max(worst * min(max(0.7 * goal / max(gap, 1e-300), 0.02), 0.5), run.rounding)


def _patience(run: HullRun, n_active: int) -> int:
    """Pair steps after which the free weights are looked at as a whole."""
    return min(run.stop.max_iter - run.steps, 2000 + _PATIENCE * n_active)


class _RowDescent(_Engine):
    """Pairs on kernel rows of all positions; the list of those in play shrinks."""

    def __init__(self, run: HullRun, source: _KernelSource) -> None:
        super().__init__(run, source)
        self.rows, self.diagonal = source.rows, source.diagonal
        self.budget = Budget(3.0)

    def descend(self, goal: float, gap: float) -> bool:
        run, rows = self.run, self.rows
        target = _target(run, goal, gap)
        active, first = self.shrunk()
        run.active = len(active)
        before = run.u.copy()
        left = _patience(run, len(active))
        try:
            while left > 0:
                size = min(left, max(16, self.budget.visits // (3 * len(active))))
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
                if run.deadline.why_stop(run.steps):
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
        count = min(_PREFETCH, max(rows.capacity // 4, 1), len(others))
        if count < len(others):
            others = others[np.argpartition(keys, count - 1)[:count]]
        rows.fetch(np.unique(np.append(others[:count], wanted)))


class _PrototypeDescent(_Engine):
    """Pairs on the inner products of a working set; prototypes carry the rest (linear kernels)."""

    def __init__(self, run: HullRun, source: _Source) -> None:
        super().__init__(run, source)
        self.budget = Budget(3.0)
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
        while left > 0 and state != DONE and not run.deadline.why_stop(run.steps):
            size = min(left, max(16, self.budget.visits // (3 * m)))
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
        """The most violating positions of every class, from both ends."""
        run = self.run
        if len(run.order) <= _WORKING_SET:
            return run.everyone
        quota = max(4, _WORKING_SET // (2 * run.n_classes))
        found = []
        for own in run.members:
            g, u, cap = run.g[own], run.u[own], run.cap[own]
            low, high = g[u < cap].min(initial=np.inf), g[u > 0.0].max()
            for keys, at in ((g, (u < cap) & (g < high)), (-g, (u > 0.0) & (g > low))):
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


class _FrankWolfe(_Engine):
    """Towards the best vertex, with exact line search."""

    def descend(self, goal: float, gap: float) -> bool:
        run = self.run
        until = time.perf_counter() + 0.1
        while time.perf_counter() < until and run.steps < run.stop.max_iter:
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
