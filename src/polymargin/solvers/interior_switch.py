"""When the driver leaves descent for the interior point, and the point that comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem
from polymargin.solvers.barrier import MachineLeap, PlainLeap

if TYPE_CHECKING:
    from polymargin.solvers.driver import Progress

__all__ = ["InteriorPointSwitch"]


class InteriorPointSwitch:
    """Decides when descent is too slow and offers the interior point's dual point instead."""

    def __init__(self, problem: Problem, progress: Progress) -> None:
        self.problem = problem
        self.is_plain = problem.machine.is_crammer_singer and not problem.has_free_bias
        self.inner: PlainLeap | MachineLeap
        self.inner = (PlainLeap if self.is_plain else MachineLeap)(problem, progress)

    def is_worth_it(self) -> bool:
        """Whether to switch now."""
        return self.inner.is_worth_it()

    def point(self, dual: float, largest: float) -> DualPoint | None:
        """A dual point better than the current one, whose dual value is given."""
        inner = self.inner
        if isinstance(inner, MachineLeap):
            found = inner.signed_point(dual, largest)
            return None if found is None else DualPoint.from_dense(self.problem, *found)
        tau = inner.point(dual, largest)
        if tau is None:
            return None
        return DualPoint.from_dense(
            self.problem, self.problem.machine.signed(tau, self.problem.own)
        )
