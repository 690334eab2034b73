"""A fit in the units of ``problem.scales``: what goes in and comes out in the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from polymargin.problem.problem import Problem
from polymargin.problem.scales import in_units, unit_of
from polymargin.solvers.history import AnyCheck, Snapshot, Watcher
from polymargin.solvers.run import Solution

__all__ = ["Units"]

Attributes = Callable[..., dict[str, Any]]


class Units:
    """Division of phi(x) by ``unit``: P and T are multiplied by its square, W by itself.

    Attributes
    ----------
    problem : Problem
        In these units.
    """

    def __init__(self, problem: Problem) -> None:
        self.unit = unit_of(problem)
        self.problem = in_units(problem, self.unit)

    def entered(self, variables: np.ndarray) -> np.ndarray:
        """Dual variables of the user's problem as those of this one."""
        return variables * self.unit * self.unit if self.unit != 1.0 else variables

    def attributes(self, attributes: Attributes) -> Attributes:
        """``attributes(support, tau, W, intercept)`` for points of this problem."""
        if self.unit == 1.0:
            return attributes

        def left(support: np.ndarray, tau: Any, W: Any, intercept: Any) -> dict[str, Any]:
            W = None if W is None else W / self.unit
            return attributes(support, self._divided(tau), W, intercept)

        return left

    def watchers(self, watchers: tuple[Watcher, ...]) -> tuple[Watcher, ...]:
        """Watchers that are told of values in the user's units."""
        return watchers if self.unit == 1.0 else tuple(map(self._watcher, watchers))

    def solution(self, solution: Solution) -> Solution:
        """The values of certificate and history in the user's units; coefficients as they are."""
        if self.unit == 1.0:
            return solution
        found = solution.judgement.certificate
        primal, dual, gap = map(self._divided, (found.primal, found.dual, found.gap))
        certificate = replace(found, primal=primal, dual=dual, gap=gap)
        solution.history.checks = [self._check(check) for check in solution.history.checks]
        judgement = replace(solution.judgement, certificate=certificate)
        return replace(solution, judgement=judgement)

    def _divided(self, value: Any) -> Any:
        return value / self.unit / self.unit

    def _check(self, check: AnyCheck) -> AnyCheck:
        names = {"primal", "dual", "gap", "energy"} & set(check._fields)
        return check._replace(**{name: self._divided(getattr(check, name)) for name in names})

    def _watcher(self, watcher: Watcher) -> Watcher:
        def told(check: AnyCheck, snapshot: Snapshot) -> bool:
            return watcher(self._check(check), snapshot)

        return told
