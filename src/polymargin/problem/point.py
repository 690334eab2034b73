"""DualPoint: the dual variables of a problem, in one language for every machine.

Signed variables: v_ik = -alpha_ik <= 0 for a rival k of pattern i, and v_{i,own} = +alpha_{i,own}
for machines with a constraint of the own class (0 elsewhere).  Crammer-Singer speaks it too: its
coefficients tau without the own entry are signed variables V <= 0 under a cap on their sum.  The
coefficients T of the prototypes, M_k = sum_i T_ik phi(x_i), are ``machine.coefficients(V, own)``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polymargin.problem.balance import repair
from polymargin.problem.problem import Problem

__all__ = ["DualPoint"]

_SIGN_ROUNDING = 1e-12
"""A positive variable of a rival below this part of the row's largest is rounding, not a sign that
the label of the row changed."""


@dataclass(frozen=True)
class DualPoint:
    """Patterns with dual weight and their signed variables; all other patterns have none.

    Attributes
    ----------
    support : (s,) pattern numbers, ascending.
    V : (s, R) their signed variables.
    own : (s,) their own prototypes.
    b : (R,) or None
        The unpenalised intercept that goes with them, where one is known.
    """

    support: np.ndarray
    V: np.ndarray
    own: np.ndarray
    b: np.ndarray | None = None

    # -- ways to make one ----------------------------------------------------------------------

    @classmethod
    def zero(cls, problem: Problem) -> DualPoint:
        """The point without weight."""
        none = np.empty(0, dtype=np.int64)
        return cls(none, np.empty((0, problem.n_prototypes)), none)

    @classmethod
    def from_dense(cls, problem: Problem, V: np.ndarray, b: np.ndarray | None = None) -> DualPoint:
        """From signed variables (n, R) of all patterns."""
        support = np.flatnonzero(V.any(axis=1))
        return cls(support, V[support], problem.own[support], b)

    @classmethod
    def from_tau(cls, support: np.ndarray, tau: np.ndarray, own: np.ndarray) -> DualPoint:
        """From Crammer-Singer coefficients tau (s, R), which are overwritten; ``own`` is (s,)."""
        tau[np.arange(len(support)), own] = 0.0
        return cls(support, tau, own)

    @classmethod
    def from_coefficients(
        cls, problem: Problem, T: np.ndarray, b: np.ndarray | None = None
    ) -> DualPoint | None:
        """A feasible start from coefficients (n, R) of an earlier fit, within the present caps.

        Rows whose label changed since then start at zero.  None where coefficients do not determine
        the variables (machines with a constraint of the own class).
        """
        machine = problem.machine
        if machine.own_target is not None:
            return None
        V = machine.signed(T, problem.own)
        size = np.abs(V).max(axis=1, initial=0.0)
        V[V.max(axis=1, initial=0.0) > _SIGN_ROUNDING * size] = 0.0
        np.minimum(V, 0.0, out=V)
        return cls.from_dense(problem, V, b).clipped(problem)

    # -- verbs ---------------------------------------------------------------------------------

    def clipped(self, problem: Problem) -> DualPoint:
        """Scaled (shared slacks) or clipped (a slack each) into the caps, row by row."""
        cap = problem.cap[self.support]
        return replace(self, V=problem.machine.feasible(self.V, self.own, cap))

    def balanced(self, problem: Problem) -> DualPoint:
        """Column sums of the coefficients made zero by lowering (free intercept, 19.4)."""
        V = repair(problem.machine, self.V, self.own, self.V)
        keep = V.any(axis=1)
        return DualPoint(self.support[keep], V[keep], self.own[keep], self.b)

    def coefficients(self, problem: Problem) -> np.ndarray:
        """(s, R) T with M_k = sum_i T_ik phi(x_i): (1.3), (4.4), (5.3)."""
        return problem.machine.coefficients(self.V, self.own)

    def dense(self, problem: Problem) -> np.ndarray:
        """(n, R) signed variables of all patterns."""
        V = np.zeros((problem.n_patterns, problem.n_prototypes))
        V[self.support] = self.V
        return V

    def tau(self, problem: Problem) -> np.ndarray:
        """(n, R) Crammer-Singer coefficients of all patterns, own weights exactly within caps."""
        tau = self.dense(problem)
        tau[self.support, self.own] = np.minimum(-self.V.sum(axis=1), problem.cap[self.support])
        return tau

    def assigned(self, own: np.ndarray) -> DualPoint:
        """The same variables, the patterns assigned to the prototypes ``own`` (n,) instead.

        Signed variables do not say which prototype of its class is a pattern's own one.
        """
        return replace(self, own=own[self.support])

    def without(self, pattern: int) -> DualPoint:
        """The point of the problem that lacks one pattern; later patterns move up by one."""
        keep = self.support != pattern
        support = self.support[keep]
        return DualPoint(support - (support > pattern), self.V[keep], self.own[keep], self.b)
