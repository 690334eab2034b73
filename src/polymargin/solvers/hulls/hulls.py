"""Convex-hull prototypes: the loop of steps and checks, from the first weights to the certificate.

Every loop works on positions: the examples in class order.  ``u`` are the weights, ``g`` the
gradient (7.5), right everywhere whenever ``HullRun.run`` looks at it.
"""

from __future__ import annotations

import numpy as np

from polymargin.certificate.certificate import Judgement
from polymargin.certificate.hull_gap import (
    MEETING,
    HullJudgement,
    judge_hulls,
    linear_minimum,
    spread,
)
from polymargin.certificate.training_scores import KnownRows
from polymargin.compiled.pair_steps import most_violating
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import OutOfTimeError, Problem
from polymargin.solvers.driver import Progress
from polymargin.solvers.hulls.free_weights import FACE_LIMIT, descend_on_face
from polymargin.solvers.hulls.hull_interior_point import INTERIOR_LIMIT, interior_point
from polymargin.solvers.hulls.hull_steps import (
    Engine,
    FrankWolfeSteps,
    KernelSource,
    LinearSource,
    PrototypeDescent,
    RowDescent,
    Source,
)
from polymargin.solvers.method import Checked, Method
from polymargin.solvers.run import Run

__all__ = ["HullDescent"]

_INTERIOR_POINT_AFTER = 3  # slow descents
_GIVE_UP_AFTER = 20  # checks in a row that saw neither f nor the gap fall
_TOUCHING = 1e-9  # no more progress and f below this part of the squared radius: the hulls meet


class HullDescent(Method):
    """Weights of convex-hull prototypes, in class order.

    Problem card: min f(u) = sum_{m < l} ||v_m - v_l||^2 with v_k = sum_{i in class k} u_i phi(x_i),
    class sums 1, 0 <= u_i <= cap_i (7.1).  ``kind`` is "smo" (pairs within classes; linear kernels
    keep the prototypes) or "frank_wolfe".  Ends at gap (7.7) <= tol * max(f, 1e-12 K_ii).
    """

    def __init__(self, problem: Problem, run: Run, kind: str = "smo") -> None:
        self.problem = problem
        self.kind, self.cache_mb = kind, run.cache_mb
        self.progress = Progress(self, run)
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
        self.active = len(self.order)
        self.slow_descents = 0
        self.marks = (np.inf, np.inf)  # f and the gap when one of them last fell
        self.idle = 0  # checks since then
        self.is_fresh = False  # whether the gradient came from the judge and nothing moved since
        self.objection: Judgement | None = None

    @property
    def steps(self) -> int:
        return self.progress.steps

    @steps.setter
    def steps(self, value: int) -> None:
        self.progress.steps = self.progress.iterations = value

    def start(self, progress: Progress) -> None:
        """From the vertex that the gradient at the class means (kernels: of a few) points to.

        Where examples hardly see one another, every one of them will carry weight: the means.
        """
        self.progress = progress
        source: Source
        if self.problem.kernel.is_linear:
            source = LinearSource(self)
            self.engine: Engine = PrototypeDescent(self, source, self.cache_mb)
        else:
            source = rows = KernelSource(self, self.cache_mb)
            self.engine = RowDescent(self, rows)
        if self.kind == "frank_wolfe":
            self.engine = FrankWolfeSteps(self, source)
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
        if self.progress.why_end():
            raise OutOfTimeError

    @property
    def rounding(self) -> float:
        """A violation that the arithmetic cannot tell from zero."""
        size = float(np.abs(self.g).max()) + self.n_classes * self.scale
        return float(np.finfo(float).eps) * size

    def violation(self) -> float:
        return float(most_violating(self.g, self.u, self.cap, self.everyone, self.first)[0])

    # -- what the driver asks for --------------------------------------------------------------

    def point(self) -> DualPoint:
        """Weights as variables of the own class: coefficients u_i (1[y_i = k] - 1/Q)."""
        at = np.flatnonzero(self.u)
        at = at[np.argsort(self.order[at])]
        V = np.zeros((len(at), self.n_classes))
        V[np.arange(len(at)), self.label[at]] = self.u[at]
        return DualPoint(self.order[at], V, self.label[at])

    def check(self) -> Checked:
        """f and the gap (7.7)."""
        value = max(0.5 * float(self.u @ self.g), 0.0)
        best = linear_minimum(self.g, self.cap, self.members)
        gap = max(float((self.u - best) @ self.g), 0.0)
        never_kept = (2.0, 0.0)  # f does not rise: the last point is the best one
        n_support = int((self.u > 0.0).sum())
        least = MEETING * self.scale
        return Checked(value, value - gap, never_kept, self.active, n_support, least)

    def why_over(self, checked: Checked) -> str | None:
        return "hulls_meet" if checked.primal <= MEETING * self.scale else None

    def advance(self, checked: Checked) -> bool:
        objection, self.objection = self.objection, None
        if objection is not None:
            return self.take_gradient(objection)
        value, gap = checked.primal, checked.primal - checked.dual
        if self.engine.may_stall and self.is_stuck(value, gap):
            return False
        if self.descend(value, gap):
            self.is_fresh = False
            return True
        point = self.point()
        if not self.progress.can_judge(len(point.support)):
            return False
        return self.take_gradient(self.progress.judged(point))

    def rejected(self, judgement: Judgement) -> None:
        self.objection = judgement

    def take_gradient(self, judgement: Judgement) -> bool:
        """Go on from the judge's gradient; False where the present one is the judge's already."""
        assert isinstance(judgement, HullJudgement)
        if self.is_fresh or judgement.gradient is None:
            return False
        self.g = judgement.gradient[self.order]
        self.is_fresh = True
        return True

    def judge(
        self,
        point: DualPoint,
        scores_of_all: np.ndarray | None = None,
        known_rows: KnownRows | None = None,
    ) -> HullJudgement:
        return judge_hulls(self.problem, point, self.scale)

    def unjudged(self, point: DualPoint, dual: float) -> HullJudgement:
        return judge_hulls(self.problem, point, self.scale, lambda: "max_time")

    def final_status(self, status: str, judgement: Judgement) -> str:
        """Hulls that meet as far as the arithmetic can tell, whatever ended the run."""
        certificate = judgement.certificate
        meets = certificate.primal <= MEETING * self.scale
        if status == "stalled" and certificate.dual <= 0.0:
            meets = certificate.primal <= _TOUCHING * self.scale
        return "hulls_meet" if meets and status in ("converged", "stalled") else status

    # -- descent -------------------------------------------------------------------------------

    def descend(self, value: float, gap: float) -> bool:
        """Steps of the engine, and more where they gain little; False where nothing moved."""
        before = self.steps
        goal = self.progress.stop.tol * max(value, MEETING * self.scale)
        in_time = self.engine.descend(goal, gap) or self.progress.why_stop() is not None
        if not in_time:
            self.take_larger_steps(self.engine.source)
        return self.steps > before or self.progress.why_stop() is not None

    def is_stuck(self, value: float, gap: float) -> bool:
        """Whether many checks in a row saw neither f nor the gap fall."""
        if gap < 0.9 * self.marks[1] or value < 0.999 * self.marks[0]:
            self.marks = (value, gap)
            self.idle = 0
        self.idle += 1
        return self.idle > _GIVE_UP_AFTER

    def take_larger_steps(self, source: Source) -> None:
        """Pairs gain little: solve for all free weights, and soon switch to the interior point."""
        self.solve_face(source)
        self.slow_descents += 1
        if self.slow_descents == _INTERIOR_POINT_AFTER and len(self.order) <= INTERIOR_LIMIT:
            self.switch_to_interior_point(source)

    def second_derivatives(self, source: Source, positions: np.ndarray) -> np.ndarray:
        """2 Kbar between positions."""
        label = self.label[positions]
        same = label[:, None] == label[None, :]
        return 2.0 * np.where(same, self.n_classes - 1.0, -1.0) * source.products(positions)

    def switch_to_interior_point(self, source: Source) -> None:
        """Go on from the interior point, rounded to bounds, if it is lower."""
        point = interior_point(
            self.second_derivatives(source, self.everyone),
            self.cap,
            self.label,
            self.n_classes,
            lambda value: self.progress.stop.tol * max(value, MEETING * self.scale),
            self.progress.why_end,
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
