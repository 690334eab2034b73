"""Convex-hull prototypes: the loop of steps and checks, from the first weights to the certificate.

Every loop works on positions: the examples in class order.  ``u`` are the weights, ``g`` the
gradient (7.5), right everywhere whenever ``HullRun.run`` looks at it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polymargin.certificate.hull_gap import (
    MEETING,
    HullJudgement,
    certify_hulls,
    hull_coefficients,
    judge_hulls,
    linear_minimum,
    spread,
)
from polymargin.compiled.pair_steps import most_violating
from polymargin.problem.problem import OutOfTimeError, Problem
from polymargin.solvers.costs import judge_seconds
from polymargin.solvers.history import Check, History
from polymargin.solvers.hulls.free_weights import FACE_LIMIT, descend_on_face
from polymargin.solvers.hulls.hull_interior_point import INTERIOR_LIMIT, interior_point
from polymargin.solvers.hulls.hull_steps import (
    Engine,
    FrankWolfe,
    KernelSource,
    LinearSource,
    PrototypeDescent,
    RowDescent,
    Source,
)
from polymargin.solvers.run import Deadline, Stop, deferred_interrupt

__all__ = ["HullSolution", "solve_hulls"]

_GRACE = 0.4  # seconds that a fit may go on after it was told to end
_LEAP_AFTER = 3
_GIVE_UP_AFTER = 20
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

    Problem card: min f(u) = sum_{m < l} ||v_m - v_l||^2 with v_k = sum_{i in class k} u_i phi(x_i),
    class sums 1, 0 <= u_i <= cap_i (7.1).  ``method`` is "smo" (pairs within classes; linear
    kernels keep the prototypes) or "frank_wolfe".  Ends at gap (7.7) <= tol * max(f, 1e-12 K_ii).
    """
    run = HullRun(problem, stop, history)
    with deferred_interrupt(run.deadline):
        try:
            source: Source
            engine: Engine
            if problem.kernel.is_linear:
                source = LinearSource(run)
                engine = PrototypeDescent(run, source, cache_mb)
            else:
                source = rows = KernelSource(run, cache_mb)
                engine = RowDescent(run, rows)
            run.start(source)
            return run.run(FrankWolfe(run, source) if method == "frank_wolfe" else engine)
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
        self.creeping = 0  # descents that ran out of patience
        self.marks = (np.inf, np.inf)  # f and the gap when one of them last fell
        self.idle = 0  # checks since then

    def start(self, source: Source) -> None:
        """From the vertex that the gradient at the class means (kernels: of a few) points to.

        Where examples hardly see one another, every one of them will carry weight: the means.
        """
        positions, weights = source.means()
        guess = source.gradient(positions, weights)
        even = np.concatenate([np.full(len(own), 1.0 / len(own)) for own in self.members])
        if source.is_scattered() and np.all(even <= self.cap):
            self.u = even
        else:
            self.u = linear_minimum(guess, self.cap, self.members)
        self.refresh(source)

    def refresh(self, source: Source) -> None:
        support = np.flatnonzero(self.u)
        self.g = source.gradient(support, self.u[support])

    def ask(self) -> None:
        """Give up where the fit has to end now."""
        if self.deadline.why_end():
            raise OutOfTimeError

    @property
    def rounding(self) -> float:
        """A violation that the arithmetic cannot tell from zero."""
        size = float(np.abs(self.g).max()) + self.n_classes * self.scale
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

    def run(self, engine: Engine) -> HullSolution:
        """Descend and check until the gap is certified, or a reason to end comes first."""
        is_fresh = False  # whether the gradient came from the judge and nothing moved since
        while True:
            value, gap, relative = self.check()
            if value <= MEETING * self.scale:
                return self.finish("hulls_meet")
            if relative <= self.stop.tol:
                solution = self.finish("converged")
                proved = solution.judgement.certificate.relative_gap <= self.stop.tol
                if proved or solution.status != "converged":
                    return solution
            else:
                reason = self.deadline.why_stop(self.steps)
                if reason is not None:
                    return self.finish(reason)
                if engine.may_stall and self.is_stuck(value, gap):
                    return self.stalled(self.finish("stalled"))
                if self.descend(engine, value, gap):
                    is_fresh = False
                    continue
                solution = self.finish("stalled")
            if is_fresh:
                return self.stalled(solution)
            self.adopt(solution.judgement)
            is_fresh = True

    def descend(self, engine: Engine, value: float, gap: float) -> bool:
        """Steps of the engine, and more where it creeps; False where nothing moved."""
        self.keep_reserve()
        before = self.steps
        goal = self.stop.tol * max(value, MEETING * self.scale)
        in_time = engine.descend(goal, gap) or self.deadline.why_stop(self.steps) is not None
        if not in_time:
            self.hurry(engine.source)
        return self.steps > before or self.deadline.why_stop(self.steps) is not None

    def is_stuck(self, value: float, gap: float) -> bool:
        """Whether many checks in a row saw neither f nor the gap fall."""
        if gap < 0.9 * self.marks[1] or value < 0.999 * self.marks[0]:
            self.marks = (value, gap)
            self.idle = 0
        self.idle += 1
        return self.idle > _GIVE_UP_AFTER

    def hurry(self, source: Source) -> None:
        """Pairs creep: solve for the free weights, and soon leap by interior point."""
        self.solve_face(source)
        self.creeping += 1
        if self.creeping == _LEAP_AFTER and len(self.order) <= INTERIOR_LIMIT:
            self.leap(source)

    def second_derivatives(self, source: Source, positions: np.ndarray) -> np.ndarray:
        """2 Kbar between positions."""
        label = self.label[positions]
        same = label[:, None] == label[None, :]
        return 2.0 * np.where(same, self.n_classes - 1.0, -1.0) * source.products(positions)

    def leap(self, source: Source) -> None:
        """Go on from the interior point, rounded to bounds, if it is lower."""
        point = interior_point(
            self.second_derivatives(source, self.everyone),
            self.cap,
            self.label,
            self.n_classes,
            lambda value: self.stop.tol * max(value, MEETING * self.scale),
            self.deadline.why_end,
        )
        if point is None:
            return
        support = np.flatnonzero(point)
        g = source.gradient(support, point[support])
        if point @ g < self.u @ self.g:
            self.u, self.g = point, g

    def solve_face(self, source: Source) -> None:
        """The exact minimum over the weights that are free now, as far as bounds allow."""
        free = np.flatnonzero((self.u > 0.0) & (self.u < self.cap))
        if not 1 < len(free) <= FACE_LIMIT:
            return
        H = self.second_derivatives(source, free)
        u, label = self.u[free], self.label[free]
        new = descend_on_face(H, self.g[free], u, self.cap[free], label)
        change = source.gradient(free, new - u)
        # f(u + d) - f(u) = g'd + d'Kbar d
        if (new - u) @ (self.g[free] + 0.5 * change[free]) < 0.0:
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
        if not meets and certificate.relative_gap <= self.stop.tol:
            solution.status = "converged"
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
        is_proved = judgement.certificate.relative_gap <= self.stop.tol
        if is_proved and status in ("max_time", "max_iter"):
            status = "converged"
        return HullSolution(support, u, judgement, status, self.steps, self.history)
