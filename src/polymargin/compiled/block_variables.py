"""The signed variables of a machine's patterns, as the compiled loops see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from polymargin.problem.problem import Problem

__all__ = ["Blocks", "make_blocks"]


class Blocks(NamedTuple):
    """The signed variables of the patterns in play and the facts of the machine.

    A pattern's list begins with its *anchor*: the own class for relative margins; for absolute ones
    the extra prototype number Q, which collects the sum of all others, so that a centred score is
    f_k - f_Q / Q.

    Attributes
    ----------
    own : (n,) class of each pattern.
    rival_cap, own_cap : (n,) bounds of |v| (0: no such constraint; infinite for the hard margin).
    ridge : (n,) 1 / (2 C_i) of the quadratic loss, 0 otherwise.
    inverse : (g, Q, Q) M^-1 of a quadratic loss with a matrix of its own, else empty.
    curvature : (n,) K_ii, the ridge (unless it has a matrix) and the constant feature of a free
        intercept.
    V : (n, Q) signed variables.
    total : (n,) their row sums.
    active : (n, Q + 1) int16 lists.
    n_active : (n,) int32, the anchor counted.
    relative : bool
        Whether margins are differences to the own class (K1 = 1).
    has_shared_slack : bool
        Whether the constraints of a pattern share one slack (K3 = 1): the variables then have one
        cap on the sum of their sizes instead of one cap each.
    rival_target, own_target : float
    """

    own: np.ndarray
    rival_cap: np.ndarray
    own_cap: np.ndarray
    ridge: np.ndarray
    curvature: np.ndarray
    V: np.ndarray
    total: np.ndarray
    active: np.ndarray
    n_active: np.ndarray
    relative: bool
    has_shared_slack: bool
    rival_target: float
    own_target: float
    inverse: np.ndarray


def make_blocks(
    problem: Problem, patterns: np.ndarray | slice, V: np.ndarray, extra: float
) -> Blocks:
    """The variables of some patterns; ``extra`` is the square of the constant feature."""
    machine, Q = problem.machine, problem.n_prototypes
    diagonal = problem.diagonal[patterns] + extra
    cap = problem.cap[patterns]
    own = problem.own[patterns]
    ridge = np.zeros(len(V))
    if machine.p == 2:
        ridge = 0.5 / cap
        cap = np.full(len(V), np.inf)
    # a zero vector cannot be separated by any margin: the hard machine leaves it out
    cap = np.where((diagonal + ridge <= 0.0) & np.isinf(cap), 0.0, cap)
    inverse = np.zeros((0, 0, 0))
    if machine.loss_matrix is not None:
        inverse = np.ascontiguousarray(machine.form(Q).inverses)
    rival, mine = machine.shares
    return Blocks(
        own=own,
        rival_cap=cap * rival if rival else np.zeros(len(V)),
        own_cap=cap * mine if mine else np.zeros(len(V)),
        ridge=ridge,
        curvature=diagonal if len(inverse) else diagonal + ridge,
        V=V,
        total=V.sum(axis=1),
        active=np.empty((len(V), Q + 1), dtype=np.int16),
        n_active=np.zeros(len(V), dtype=np.int32),
        relative=bool(machine.K1),
        has_shared_slack=bool(machine.K3),
        rival_target=machine.rival_target(Q),
        own_target=machine.target_of_own(Q),
        inverse=inverse,
    )
