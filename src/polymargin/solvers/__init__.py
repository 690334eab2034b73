"""Solvers: one front door, ``solve(problem, run, start, method)``, and the table of methods.

    >>> from polymargin.solvers import METHODS
    >>> METHODS["cycles"].name
    'cycles'

A method is one row: its name, why it cannot run a problem (or None), and how it is made.  Another
one is registered (``register_method``) and named in ``solve``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from polymargin.exceptions import shown

if TYPE_CHECKING:
    from polymargin.problem.point import DualPoint
    from polymargin.problem.problem import Problem
    from polymargin.solvers.driver import Solution
    from polymargin.solvers.method import Method
    from polymargin.solvers.run import Run

__all__ = ["METHODS", "MethodRow", "find_method", "make_method", "register_method", "solve"]


class MethodRow(NamedTuple):
    """One row of the table.

    Attributes
    ----------
    name : str
        What ``solve`` calls it; for a method with options the name of their class.
    why_not : function of a problem
        The reason why the method cannot run it, to be read after its name; None if it can.
    make : function of (problem, run, start, options)
        The method; ``options`` is the object given as ``method``, None for a name.
    is_automatic : bool
        Whether "auto" may choose it: the first such row that can run the problem is taken.
    """

    name: str
    why_not: Callable[[Problem], str | None]
    make: Callable[[Problem, Run, DualPoint | None, Any], Method]
    is_automatic: bool = False


METHODS: dict[str, MethodRow] = {}


def register_method(row: MethodRow) -> None:
    """Add a method to the table, or replace the one of that name."""
    METHODS[row.name] = row


def find_method(problem: Problem, method: Any = "auto") -> MethodRow:
    """The row for a problem; a method that cannot run it is refused with the reason.

    Parameters
    ----------
    problem : Problem
    method : str or object with options
        "auto" or "block" take the first automatic row that can run the problem.
    """
    if isinstance(method, str) and method in ("auto", "block"):
        return next(
            row for row in METHODS.values() if row.is_automatic and not row.why_not(problem)
        )
    name = method if isinstance(method, str) else type(method).__name__
    if name not in METHODS:
        raise ValueError(f"method must be 'auto' or one of {sorted(METHODS)}, got {shown(method)}.")
    why_not = METHODS[name].why_not(problem)
    if why_not:
        raise ValueError(f"solver={shown(method)} {why_not}; use solver='block'.")
    return METHODS[name]


def make_method(
    problem: Problem, run: Run, start: DualPoint | None = None, method: Any = "auto"
) -> Method:
    """A method for a problem, ready for ``drive``."""
    row = find_method(problem, method)
    return row.make(problem, run, start, None if isinstance(method, str) else method)


def solve(
    problem: Problem, run: Run, start: DualPoint | None = None, method: Any = "auto"
) -> Solution:
    """Solve a problem to relative gap ``run.stop.tol``, or until there is another reason to stop.

    Parameters
    ----------
    problem : Problem
    run : Run
        Stop rule, clock, seed, memory, threads and history.
    start : DualPoint or None
        A feasible point to begin with, ``start.b`` a free intercept; None: cold.
    method : str or object with options, default="auto"
        A name of ``METHODS``, or options such as a ``PatternSMO``.

    Returns
    -------
    Solution
        With the certificate of the judge and the status: "converged", "max_iter", "max_time",
        "interrupted", "not_separable", "stalled" or "hulls_meet".
    """
    from polymargin.solvers.driver import drive

    return drive(make_method(problem, run, start, method), run)


# -- the table -----------------------------------------------------------------------------------


def _why_not_plain(problem: Problem) -> str | None:
    """Crammer-Singer without a free intercept has loops of its own: its variables are a simplex."""
    if problem.has_class_sums:
        return "knows no class sums"
    if not problem.machine.is_crammer_singer:
        return (
            f"optimises the one simplex of variables that a pattern of 'cs' has; "
            f"machine={problem.machine.name!r} has other constraints"
        )
    if problem.has_free_bias:
        return (
            "moves one pattern at a time, which the balance of a free intercept forbids "
            "(intercept='penalized' or 'none' will do)"
        )
    return None


def _why_not_sweeps(problem: Problem) -> str | None:
    if not problem.kernel.is_linear:
        return "keeps explicit prototypes, which only a linear kernel has"
    return _why_not_plain(problem)


def _why_not_working_set(problem: Problem) -> str | None:
    if problem.centre is not None:
        return "knows no centre"
    return _why_not_plain(problem)


def _why_not_block(problem: Problem) -> str | None:
    if problem.has_class_sums or problem.centre is not None:
        return "knows neither class sums nor a centre"
    if not problem.has_one_prototype_per_class:
        return "knows one prototype per class only"
    return None


def _why_not_costs(problem: Problem) -> str | None:
    if problem.extra_margins is None:
        return None
    return "asks every rival for the same margin, which cost_matrix= does not"


def _why_not_pattern_smo(problem: Problem) -> str | None:
    return _why_not_plain(problem) or _why_not_costs(problem)


def _why_not_balanced(problem: Problem) -> str | None:
    machine = problem.machine
    if problem.has_class_sums or machine.K3 or machine.own_target is not None:
        return (
            f"moves along the balanced directions of 'ww', 'llw' and 'msvm2'; "
            f"machine={machine.name!r} has other constraints"
        )
    if not problem.has_free_bias:
        return "is made for the constraints of a free intercept (intercept='free')"
    return _why_not_costs(problem)


def _why_not_frank_wolfe(problem: Problem) -> str | None:
    if problem.is_hard:
        reason = "needs a finite C: its linear programme is unbounded for the hard margin"
        return _why_not_balanced(problem) or reason
    return _why_not_balanced(problem)


def _why_not_hulls(problem: Problem) -> str | None:
    return None if problem.has_class_sums else "needs the class sums of convex hulls"


def _make_sweeps(problem: Problem, run: Run, start: DualPoint | None, options: Any) -> Method:
    from polymargin.solvers.linear import Sweeps

    if start is None and run.n_jobs > 1:
        from polymargin.solvers.shards.threaded_start import threaded_start

        start = threaded_start(problem, run)
    return Sweeps(problem, run, start)


def _make_working_set(problem: Problem, run: Run, start: DualPoint | None, options: Any) -> Method:
    from polymargin.solvers.kernel import WorkingSet

    return WorkingSet(problem, run, start)


def _make_block(problem: Problem, run: Run, start: DualPoint | None, options: Any) -> Method:
    from polymargin.solvers.blocks import BlockDescent

    return BlockDescent(problem, run, start)


def _make_pattern_smo(problem: Problem, run: Run, start: DualPoint | None, options: Any) -> Method:
    from polymargin.solvers.smo.pattern_smo import PatternSMO
    from polymargin.solvers.smo.rounds import PatternRounds

    return PatternRounds(problem, run, start, options or PatternSMO())


def _make_frank_wolfe(problem: Problem, run: Run, start: DualPoint | None, options: Any) -> Method:
    from polymargin.solvers.frank_wolfe import FrankWolfe, fits

    if fits(problem, run.cache_mb):
        return FrankWolfe(problem, run, start)
    from polymargin.solvers.decomposition import Decomposed

    return Decomposed(problem, run, start)


def _make_working_sets(problem: Problem, run: Run, start: DualPoint | None, options: Any) -> Method:
    from polymargin.solvers.decomposition import Decomposed
    from polymargin.solvers.working_sets import WorkingSets

    asked = options or WorkingSets()
    size, inner = int(asked.size), int(asked.inner_iterations)
    return Decomposed(problem, run, start, size, asked.rule, inner)


def _make_cycles(problem: Problem, run: Run, start: DualPoint | None, options: Any) -> Method:
    from polymargin.solvers.cycles import Cycles
    from polymargin.solvers.frank_wolfe import fits

    return Cycles(problem, run, start, fits(problem, run.cache_mb))


def _make_hulls(problem: Problem, run: Run, start: DualPoint | None, options: Any) -> Method:
    from polymargin.solvers.hulls.hulls import HullDescent

    return HullDescent(problem, run)


def _make_hulls_frank_wolfe(
    problem: Problem, run: Run, start: DualPoint | None, options: Any
) -> Method:
    from polymargin.solvers.hulls.hulls import HullDescent

    return HullDescent(problem, run, "frank_wolfe")


for _row in (
    MethodRow("sweeps", _why_not_sweeps, _make_sweeps, is_automatic=True),
    MethodRow("working-set", _why_not_working_set, _make_working_set, is_automatic=True),
    MethodRow("block", _why_not_block, _make_block, is_automatic=True),
    MethodRow("hulls", _why_not_hulls, _make_hulls, is_automatic=True),
    MethodRow("hulls-frank-wolfe", _why_not_hulls, _make_hulls_frank_wolfe),
    MethodRow("PatternSMO", _why_not_pattern_smo, _make_pattern_smo),
    MethodRow("frank-wolfe", _why_not_frank_wolfe, _make_frank_wolfe),
    MethodRow("WorkingSets", _why_not_frank_wolfe, _make_working_sets),
    MethodRow("cycles", _why_not_balanced, _make_cycles),
):
    register_method(_row)
