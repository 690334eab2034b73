"""The machine table: what makes one all-in-one multi-class SVM differ from the next.

A machine is a row of facts; solvers, certificates and estimators read the row.  The functions
below are the slow, obvious voice that tests hold the compiled one to.

Every row is a case of one model.  Pattern i has a constraint for each rival class k != y_i and,
for some machines, one for its own class::

    relative (K1 = 1):  h_{y_i} - h_k >= K2 - xi_ik
    absolute (K1 = 0):  -h_k >= K2 - xi_ik
                        h_{y_i} >= own_target - xi_{i,y_i}   (only with an own target)

with sum_k h_k = 0 in the absolute case (it follows in the relative one).  Dual variables
alpha_ik >= 0 belong to the constraints; the *signed* variables are v_ik = -alpha_ik for rivals and
v_{i,y_i} = +alpha_{i,y_i}.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.exceptions import shown
from polymargin.problem.quadratic_forms import (
    IDENTITY,
    QuadraticForm,
    as_tuples,
    quadratic_form,
    quadratic_slacks,
    why_no_form,
)
from polymargin.problem.titles import TITLES

__all__ = ["MACHINES", "Machine", "find_machine", "quadratic_slacks"]


def _crammer_singer_violation(tau: np.ndarray, own: np.ndarray, cap: np.ndarray) -> float:
    """Largest violation of (1.2): rows sum to zero, tau_{i,y_i} in [0, C_i], others <= 0."""
    worst = 0.0
    step, ones = max(1024, 65536 // tau.shape[1]), np.ones(tau.shape[1])
    for start in range(0, len(own), step):  # blocks stay in the cache
        rows = slice(start, start + step)
        block = tau[rows].copy()
        at = np.arange(len(block))
        own_weight = block[at, own[rows]]
        sums = np.abs(block @ ones).max()
        block[at, own[rows]] = 0.0
        over = (own_weight - cap[rows]).max()
        worst = max(worst, float(sums), float(block.max()), float(-own_weight.min()), float(over))
    return worst


@dataclass(frozen=True)
class Machine:
    r"""One row of the table: the parameters of the generic model (11.1).

    Attributes
    ----------
    name, title : str
        The word users type and the name people know.
    K1 : {0, 1}
        1: margins are relative, :math:`h_{y_i} - h_k`; 0: they are absolute, :math:`-h_k`, and
        scores sum to zero.
    K2 : float or None
        The margin asked of rivals; None is :math:`1 / (Q - 1)`.
    K3 : {0, 1}
        1: the constraints of a pattern share one slack; 0: each has its own.
    p : {1, 2}
        1: linear slacks, :math:`\xi \ge 0`; 2: a quadratic form :math:`\xi^\top M \xi`, by default
        that of M-SVM², :math:`\sum_k \xi_k^2 + (\sum_k \xi_k)^2`.
    own_target : str or float or None
        Absolute margins only: the margin asked of the own class ("Q-1", a number, None: no such
        constraint).
    has_rivals : bool
        Whether rivals have constraints.
    own_share : float or None
        Weights own_share of the own slack and 1 - own_share of the rivals'; None weighs all by 1.
    intercepts : tuple of str
        The kinds of intercept allowed.
    auto_intercept : str or None
        What "auto" means; None is "penalized" for linear kernels and "none" otherwise.
    reference : str
        Where the machine was published.
    loss_matrix : "identity" or array of shape (n_classes, n_classes), optional
        With p=2 another positive definite M, for absolute or relative margins; an example's own
        class has no part in it.  "identity" is the sum of squared slacks.

    See Also
    --------
    MACHINES : The rows that have a name.
    MulticlassSVC : Takes a name or a row as ``machine``.

    Examples
    --------
    >>> from polymargin import Machine, MulticlassSVC
    >>> wide = Machine("ww2", "Weston-Watkins, margin 2", K1=1, K2=2.0, K3=0, intercepts=("none",))
    >>> MulticlassSVC(wide).fit([[0.0], [1.0], [2.0]], [0, 1, 1]).predict([[0.0]])
    array([0])
    """

    name: str
    title: str
    K1: int
    K2: float | None
    K3: int
    p: int = 1
    own_target: str | float | None = None
    has_rivals: bool = True
    own_share: float | None = None
    intercepts: tuple[str, ...] = ("none", "penalized")
    auto_intercept: str | None = None
    reference: str = ""
    loss_matrix: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "loss_matrix", as_tuples(self.loss_matrix))
        why_not = self._why_not()
        if why_not:
            raise ValueError(f"Machine {self.name!r}: {why_not}")

    def _why_not(self) -> str | None:
        """The reason why these facts make no machine, if there is one."""
        if self.K1 not in (0, 1) or self.K3 not in (0, 1) or self.p not in (1, 2):
            return "K1 and K3 must be 0 or 1, p must be 1 or 2."
        if self.K2 is not None and not 0.0 < self.K2 < np.inf:
            return f"K2 must be a number > 0, or None for 1 / (Q - 1), got {shown(self.K2)}."
        if self.K1 == 1 and (self.own_target is not None or not self.has_rivals):
            return "relative margins (K1=1) compare with every rival; own_target needs K1=0."
        if not self.has_rivals and self.own_target is None:
            return "there is no constraint at all; give an own_target or has_rivals=True."
        if isinstance(self.own_target, str) and self.own_target != "Q-1":
            return f"own_target must be a number, 'Q-1' or None, got {shown(self.own_target)}."
        if self.own_share is not None and (self.own_target is None or self.K3):
            return "own_share weighs the own slack against the others: it needs both, and K3=0."
        if self.own_share is not None and not 0.0 < self.own_share < 1.0:
            return f"own_share must lie between 0 and 1, got {shown(self.own_share)}."
        if "free" in self.intercepts and not self._knows_free_bias:
            return "a free intercept is known for 'cs', 'ww', 'llw' and 'msvm2' shaped rows only."
        return self._why_not_quadratic()

    def _why_not_quadratic(self) -> str | None:
        if self.p == 1:
            is_plain = self.loss_matrix is None
            return None if is_plain else "loss_matrix belongs to a quadratic loss, p=2."
        if (self.K3, self.own_target) != (0, None):
            return "the quadratic loss (p=2) needs a slack per rival and no other, K3=0."
        if self.K1 and self.loss_matrix is None:
            return "the quadratic loss (p=2) of relative margins needs a loss_matrix."
        return why_no_form(self.loss_matrix)

    @property
    def _knows_free_bias(self) -> bool:
        usual = self.K1 == 1 or (self.K3 == 0 and self.own_target is None)
        return usual and self.loss_matrix is None

    # -- facts that depend on the number of classes --------------------------------------------

    def rival_target(self, n_classes: int) -> float:
        """K2."""
        return 1.0 / (n_classes - 1) if self.K2 is None else float(self.K2)

    def target_of_own(self, n_classes: int) -> float:
        """The margin asked of the own class (0 where there is no such constraint)."""
        if self.own_target is None:
            return 0.0
        return n_classes - 1.0 if isinstance(self.own_target, str) else float(self.own_target)

    @property
    def shares(self) -> tuple[float, float]:
        """Weights of the slacks of a rival and of the own class; 0: no such constraint."""
        rival, own = (1.0, 1.0) if self.own_share is None else (1 - self.own_share, self.own_share)
        return rival * self.has_rivals, own * (self.own_target is not None)

    def form(self, n_classes: int) -> QuadraticForm:
        """The quadratic form of a row with a ``loss_matrix``."""
        return quadratic_form(self.loss_matrix, n_classes)

    def mixing(self, n_classes: int) -> np.ndarray:
        """The block M of (11.1) for one pattern (of class 0), over its constraints."""
        m = (n_classes - 1) * self.has_rivals + (self.own_target is not None)
        if self.loss_matrix is not None:
            M = np.eye(n_classes) if self.loss_matrix == IDENTITY else np.array(self.loss_matrix)
            return np.linalg.cholesky(M[1:, 1:]).T
        if self.p == 2:
            return np.eye(m) + (np.sqrt(n_classes) - 1.0) / (n_classes - 1.0)
        return np.eye(m) / (m if self.K3 else 1.0)

    # -- the slow voice ------------------------------------------------------------------------

    def coefficients(self, signed: np.ndarray, own: np.ndarray) -> np.ndarray:
        r"""T with :math:`M_k = \sum_i T_{ik}\, \varphi(x_i)` of signed variables: (4.4), (5.3)."""
        if self.K1 == 0:
            return signed - signed.mean(axis=1, keepdims=True)
        rows = np.arange(len(own))
        T = signed.copy()
        T[rows, own] = 0.0
        T[rows, own] = -T.sum(axis=1)
        return T

    def signed(self, T: np.ndarray, own: np.ndarray) -> np.ndarray:
        """The signed variables behind T, where T determines them: rivals only."""
        rows = np.arange(len(own))
        V = T.copy() if self.K1 else T - T[rows, own][:, None]
        V[rows, own] = 0.0
        return V

    def deficits(self, scores: np.ndarray, own: np.ndarray) -> np.ndarray:
        r"""(n, Q): what each constraint lacks, not above :math:`\xi_{ik}`; -inf without one."""
        Q = scores.shape[1]
        rows = np.arange(len(own))
        mine = scores[rows, own]
        if self.has_rivals:
            lack = scores + self.rival_target(Q)
            if self.K1:
                lack -= mine[:, None]
        else:
            lack = np.full(scores.shape, -np.inf)
        has_own = self.own_target is not None
        lack[rows, own] = self.target_of_own(Q) - mine if has_own else -np.inf
        return lack

    def slacks(self, scores: np.ndarray, own: np.ndarray) -> np.ndarray:
        r"""Of centred scores: :math:`\xi_{ik}` (n, Q), or one :math:`\xi_i` (n,) per pattern."""
        lack = self.deficits(scores, own)
        if self.loss_matrix is not None:
            return self.form(scores.shape[1]).slacks(lack, own)
        if self.p == 2:
            return quadratic_slacks(lack, own)[0]
        slack = np.maximum(lack, 0.0)
        return slack.max(axis=1) if self.K3 else slack

    def loss(self, scores: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Loss of every example, to be weighed by :math:`C_i`."""
        slack = self.slacks(scores, own)
        if self.loss_matrix is not None:
            return self.form(scores.shape[1]).cost(slack, own)
        if self.p == 2:
            return (slack**2).sum(axis=1) + slack.sum(axis=1) ** 2
        if self.K3:
            return slack
        if self.own_share is None:
            return slack.sum(axis=1)
        rival, mine = self.shares
        own_slack = slack[np.arange(len(own)), own]
        return rival * slack.sum(axis=1) + (mine - rival) * own_slack

    def smoothed(self, signed: np.ndarray, own: np.ndarray) -> np.ndarray:
        """(n, Q) M^-1 v_i of a quadratic loss: what its ridge 1 / (2 C_i) multiplies, (6.2)."""
        if self.loss_matrix is not None:
            return self.form(signed.shape[1]).smoothed(signed, own)
        return np.asarray(signed - signed.mean(axis=1, keepdims=True))

    def dual_gradient(
        self, scores: np.ndarray, own: np.ndarray, signed: np.ndarray, ridge: np.ndarray
    ) -> np.ndarray:
        """(n, Q) slopes of -D in the signed variables, from the scores of their own machine.

        ``ridge`` (n,) is 1 / (2 C_i) where the loss is quadratic.
        """
        Q, rows = scores.shape[1], np.arange(len(own))
        G = scores + self.rival_target(Q)
        if self.K1:
            G -= scores[rows, own][:, None]
        else:
            G[rows, own] = scores[rows, own] - self.target_of_own(Q)
        if self.p == 2:
            G += ridge[:, None] * self.smoothed(signed, own)
        return np.asarray(G)

    def feasible(self, signed: np.ndarray, own: np.ndarray, cap: np.ndarray) -> np.ndarray:
        """Signed variables with their signs restored, then scaled or clipped into the caps.

        Shared slacks: the sum of a pattern is scaled; a slack each: every variable is clipped.
        """
        rows, (rival, mine) = np.arange(len(own)), self.shares
        own_v = np.maximum(signed[rows, own], 0.0) if mine else np.zeros(len(own))
        V = np.minimum(signed, 0.0) if rival else np.zeros_like(signed)
        V[rows, own] = own_v
        if self.p == 2:
            return V
        if self.K3:
            weight = np.abs(V).sum(axis=1)
            return np.asarray(V * np.minimum(1.0, cap / np.maximum(weight, 1e-300))[:, None])
        if rival:  # a share of zero takes no part, also where the cap is infinite
            V = np.maximum(V, -(rival * cap)[:, None])
        V[rows, own] = np.minimum(own_v, mine * cap) if mine else 0.0
        return V

    def reward(self, signed: np.ndarray, own: np.ndarray) -> float:
        """The linear term of D: sum of alpha times its target."""
        Q = signed.shape[1]
        mine = signed[np.arange(len(own)), own].sum()
        return float(self.rival_target(Q) * (mine - signed.sum()) + self.target_of_own(Q) * mine)

    def violation(self, tau: np.ndarray, own: np.ndarray, cap: np.ndarray) -> float:
        """How far the coefficients T of a dual point are from feasible (0 means exactly)."""
        if self.K1 and self.K3:
            return _crammer_singer_violation(tau, own, cap)
        return self.signed_violation(self.signed(tau, own), own, cap)

    def signed_violation(self, signed: np.ndarray, own: np.ndarray, cap: np.ndarray) -> float:
        """Largest violation of signs and caps by signed variables: (1.2), (4.2), (5.2)."""
        if not len(own):
            return 0.0
        rival, mine = self.shares
        rows = np.arange(len(own))
        alpha = -signed
        own_alpha = -alpha[rows, own]
        alpha[rows, own] = 0.0
        worst = -min(float(alpha.min()), float(own_alpha.min()))
        if self.own_target is None:
            worst = max(worst, float(np.abs(own_alpha).max()))
        if self.p == 2:
            return worst
        if self.K3:
            return max(worst, float((alpha.sum(axis=1) + own_alpha - cap).max()))
        # a share of zero takes no part, also where the cap is infinite
        limit, own_limit = (cap * share if share else 0.0 for share in (rival, mine))
        over = float((alpha.max(axis=1) - limit).max())
        return max(worst, over, float((own_alpha - own_limit).max()))

    @property
    def is_crammer_singer(self) -> bool:
        """Whether the solvers written for Crammer-Singer alone may run it."""
        return (self.K1, self.K2, self.K3) == (1, 1.0, 1)

    @property
    def step(self) -> int:
        """Code of the compiled pattern step (see ``solvers.block_steps``)."""
        if self.K3 == 0:
            return 1
        return 0 if self.K1 else 2

    def resolve_intercept(self, intercept: str, is_linear: bool) -> str:
        """The kind of intercept meant by the parameter; a refusal says why."""
        if intercept == "auto":
            return self.auto_intercept or ("penalized" if is_linear else "none")
        if intercept not in ("none", "penalized", "free"):
            raise ValueError(
                f"intercept must be 'auto', 'none', 'penalized' or 'free', got {shown(intercept)}."
            )
        if intercept not in self.intercepts:
            raise ValueError(
                f"intercept={intercept!r} is not available for machine={self.name!r}: the best "
                f"unpenalised intercept of its loss is not known here; use one of "
                f"{self.intercepts}."
            )
        return intercept


_UNIFIED = "Dogan, Glasmachers & Igel, JMLR 17 (2016) 1-32"
_MAXIMUM_REGRESSION = "Szedmak, Shawe-Taylor & Parado-Hernandez, PASCAL report (2006)"
_REINFORCED = "Liu & Yuan, J. Comput. Graph. Stat. 20 (2011) 901-919"
_ALL = ("none", "penalized", "free")
_FREE = {"intercepts": _ALL, "auto_intercept": "free"}


def _row(name: str, K1: int, K2: float | None, K3: int, reference: str, **more: Any) -> Machine:
    return Machine(name, TITLES[name], K1, K2, K3, reference=reference, **more)


MACHINES: dict[str, Machine] = {
    row.name: row
    for row in (
        # name, K1, K2, K3, reference
        _row("cs", 1, 1.0, 1, "Crammer & Singer, JMLR 2 (2001) 265-292", intercepts=_ALL),
        _row("ww", 1, 1.0, 0, "Weston & Watkins, Royal Holloway CSD-TR-98-04 (1998)", **_FREE),
        _row("llw", 0, None, 0, "Lee, Lin & Wahba, JASA 99 (2004) 67-81", **_FREE),
        _row("msvm2", 0, None, 0, "Guermeur & Monfrini, Informatica 22 (2011) 73-96", p=2, **_FREE),
        _row("adm", 0, 1.0, 1, _UNIFIED),
        _row("atm", 0, 1.0, 1, _UNIFIED, own_target=1.0),
        _row("ats", 0, 1.0, 0, _UNIFIED, own_target=1.0),
        _row("mmr", 0, 1.0, 0, _MAXIMUM_REGRESSION, own_target=1.0, has_rivals=False),
        _row("reinforced", 0, 1.0, 0, _REINFORCED, own_target="Q-1", own_share=0.5),
    )
}


def find_machine(machine: str | Machine) -> Machine:
    """The row of that name; an unknown name is refused with the names there are."""
    if isinstance(machine, Machine):
        return machine
    if machine not in MACHINES:
        raise ValueError(f"machine must be one of {sorted(MACHINES)}, got {shown(machine)}.")
    return MACHINES[machine]
