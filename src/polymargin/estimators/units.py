"""A fit in the units of ``problem.scales``, with points and solutions in the user's units."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem
from polymargin.problem.scales import in_units, unit_of
from polymargin.solvers.history import AnyCheck, Snapshot, Watcher

if TYPE_CHECKING:
    from polymargin.solvers.driver import Solution

__all__ = ["Units"]


class Units:
    """Division of phi(x) by ``unit``: P and dual variables are multiplied by its square, W by it.

    Attributes
    ----------
    problem : Problem
        In these units.
    """

    def __init__(self, problem: Problem) -> None:
        self.given = problem
        self.unit = unit_of(problem)
        self.problem = problem if self.unit == 1.0 else in_units(problem, self.unit)

    def entered(self, point: DualPoint | None) -> DualPoint | None:
        """A point of the user's problem as one of this problem."""
        if self.unit == 1.0 or point is None:
            return point
        return replace(point, V=point.V * self.unit * self.unit)

    def watchers(self, watchers: tuple[Watcher, ...]) -> tuple[Watcher, ...]:
        """Watchers that receive values and points in the user's units."""
        return watchers if self.unit == 1.0 else tuple(map(self._watcher, watchers))

    def left(self, solution: Solution) -> Solution:
        """A solution of this problem as one of the user's problem."""
        if self.unit == 1.0:
            return solution
        judgement = solution.judgement
        found = judgement.certificate
        primal, dual, gap = map(self._divided, (found.primal, found.dual, found.gap))
        solution.history.checks = [self._check(check) for check in solution.history.checks]
        W = None if judgement.W is None else judgement.W / self.unit
        judgement = replace(
            judgement,
            certificate=replace(found, primal=primal, dual=dual, gap=gap),
            W=W,
            norm2=self._divided(judgement.norm2),
        )
        return replace(
            solution, problem=self.given, point=self._point(solution.point), judgement=judgement
        )

    def _divided(self, value: Any) -> Any:
        with np.errstate(over="ignore", under="ignore"):
            return np.float64(value) / self.unit / self.unit

    def _point(self, point: DualPoint) -> DualPoint:
        V = self._divided(point.V)
        if not np.isfinite(V).all():
            raise ValueError(
                "X: its kernel values are so small that dual variables overflow; scale X up."
            )
        return replace(point, V=V)

    def _check(self, check: AnyCheck) -> AnyCheck:
        names = {"primal", "dual", "gap", "energy"} & set(check._fields)
        return check._replace(**{name: self._divided(getattr(check, name)) for name in names})

    def _watcher(self, watcher: Watcher) -> Watcher:
        def told(check: AnyCheck, snapshot: Snapshot) -> bool:
            return watcher(self._check(check), lambda: self._point(snapshot()))

        return told
