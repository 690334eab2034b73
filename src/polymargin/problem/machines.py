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

import numpy as np

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
    """One row of the table: the parameters of the generic model (11.1).

    Attributes
    ----------
    name, title : str
        The word users type and the name people know.
    K1 : {0, 1}
        1: margins are relative, h_{y_i} - h_k; 0: they are absolute, -h_k, and scores sum to zero.
    K2 : float or None
        The margin asked of rivals; None is 1 / (Q - 1).
    K3 : {0, 1}
        1: the constraints of a pattern share one slack; 0: each has its own.
    p : {1, 2}
        1: linear slacks, xi >= 0; 2: the quadratic form sum_k xi_k^2 + (sum_k xi_k)^2 of M-SVM^2.
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

    def __post_init__(self) -> None:
        why_not = self._why_not()
        if why_not:
            raise ValueError(f"Machine {self.name!r}: {why_not}")

    def _why_not(self) -> str | None:
        """The reason why these facts make no machine, if there is one."""
        if self.K1 not in (0, 1) or self.K3 not in (0, 1) or self.p not in (1, 2):
            return "K1 and K3 must be 0 or 1, p must be 1 or 2."
        if self.K2 is not None and not 0.0 < self.K2 < np.inf:
            return f"K2 must be a number > 0, or None for 1 / (Q - 1), got {self.K2!r}."
        if self.K1 == 1 and (self.own_target is not None or not self.has_rivals):
            return "relative margins (K1=1) compare with every rival; own_target needs K1=0."
        if not self.has_rivals and self.own_target is None:
            return "there is no constraint at all; give an own_target or has_rivals=True."
        if isinstance(self.own_target, str) and self.own_target != "Q-1":
            return f"own_target must be a number, 'Q-1' or None, got {self.own_target!r}."
        if self.p == 2 and (self.K1, self.K3, self.own_target) != (0, 0, None):
            return "the quadratic loss (p=2) needs absolute margins of the rivals, K1=0 and K3=0."
        if self.own_share is not None and (self.own_target is None or self.K3):
            return "own_share weighs the own slack against the others: it needs both, and K3=0."
        if self.own_share is not None and not 0.0 < self.own_share < 1.0:
            return f"own_share must lie between 0 and 1, got {self.own_share!r}."
        if "free" in self.intercepts and not self._knows_free_bias:
            return "a free intercept is known for 'cs', 'ww', 'llw' and 'msvm2' shaped rows only."
        return None

    @property
    def _knows_free_bias(self) -> bool:
        return self.K1 == 1 or (self.K3 == 0 and self.own_target is None)

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

    def mixing(self, n_classes: int) -> np.ndarray:
        """The block M of (11.1) for one pattern, over its constraints."""
        m = (n_classes - 1) * self.has_rivals + (self.own_target is not None)
        if self.p == 2:
            return np.eye(m) + (np.sqrt(n_classes) - 1.0) / (n_classes - 1.0)
        return np.eye(m) / (m if self.K3 else 1.0)

    # -- the slow voice ------------------------------------------------------------------------

    def coefficients(self, signed: np.ndarray, own: np.ndarray) -> np.ndarray:
        """T with M_k = sum_i T_ik phi(x_i), from the signed variables: (4.4), (5.3)."""
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
        """(n, Q): what each constraint lacks, -inf where there is none; xi_ik >= deficit_ik."""
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
        """xi_ik (n, Q), or xi_i (n,) where a pattern has one slack, of centred scores."""
        lack = self.deficits(scores, own)
        if self.p == 2:
            return quadratic_slacks(lack, own)[0]
        slack = np.maximum(lack, 0.0)
        return slack.max(axis=1) if self.K3 else slack

    def loss(self, scores: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Loss of every example, to be weighed by C_i."""
        slack = self.slacks(scores, own)
        if self.p == 2:
            return (slack**2).sum(axis=1) + slack.sum(axis=1) ** 2
        if self.K3:
            return slack
        if self.own_share is None:
            return slack.sum(axis=1)
        rival, mine = self.shares
        own_slack = slack[np.arange(len(own)), own]
        return rival * slack.sum(axis=1) + (mine - rival) * own_slack

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
                f"intercept must be 'auto', 'none', 'penalized' or 'free', got {intercept!r}."
            )
        if intercept not in self.intercepts:
            raise ValueError(
                f"intercept={intercept!r} is not available for machine={self.name!r}: the best "
                f"unpenalised intercept of its loss is not known here; use one of "
                f"{self.intercepts}."
            )
        return intercept


def quadratic_slacks(lack: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cheapest slacks of M-SVM^2 above the deficits, and their sums t: (6.7), by sorting.

    xi_k = max(lack_k, -t) with t = sum_k xi_k; they may be negative.  ``lack`` is (n, Q), its own
    column is ignored and its slack is 0.
    """
    n, Q = lack.shape
    rows = np.arange(n)
    masked = lack.copy()
    masked[rows, own] = -np.inf
    u = -np.sort(-masked, axis=1)[:, : Q - 1]
    sums = np.concatenate([np.zeros((n, 1)), np.cumsum(u, axis=1)], axis=1)
    t = sums / (Q - np.arange(Q))
    # the first j whose next largest deficit does not exceed -t_j
    following = np.concatenate([u, np.full((n, 1), -np.inf)], axis=1)
    at = (following <= -t).argmax(axis=1)
    total = t[rows, at]
    slack = np.maximum(masked, -total[:, None])
    slack[rows, own] = 0.0
    return slack, total


_UNIFIED = "Dogan, Glasmachers & Igel, JMLR 17 (2016) 1-32"
_ALL = ("none", "penalized", "free")

MACHINES: dict[str, Machine] = {
    row.name: row
    for row in (
        Machine(
            "cs",
            "Crammer-Singer (single-prototype SVM)",
            K1=1,
            K2=1.0,
            K3=1,
            intercepts=_ALL,
            reference="Crammer & Singer, JMLR 2 (2001) 265-292",
        ),
        Machine(
            "ww",
            "Weston-Watkins",
            K1=1,
            K2=1.0,
            K3=0,
            intercepts=_ALL,
            auto_intercept="free",
            reference="Weston & Watkins, Royal Holloway CSD-TR-98-04 (1998)",
        ),
        Machine(
            "llw",
            "Lee-Lin-Wahba",
            K1=0,
            K2=None,
            K3=0,
            intercepts=_ALL,
            auto_intercept="free",
            reference="Lee, Lin & Wahba, JASA 99 (2004) 67-81",
        ),
        Machine(
            "msvm2",
            "M-SVM^2 (quadratic loss)",
            K1=0,
            K2=None,
            K3=0,
            p=2,
            intercepts=_ALL,
            auto_intercept="free",
            reference="Guermeur & Monfrini, Informatica 22 (2011) 73-96",
        ),
        Machine(
            "adm",
            "Absolute margins, largest rival slack",
            K1=0,
            K2=1.0,
            K3=1,
            reference=_UNIFIED,
        ),
        Machine(
            "atm",
            "Absolute margins, largest slack of all classes",
            K1=0,
            K2=1.0,
            K3=1,
            own_target=1.0,
            reference=_UNIFIED,
        ),
        Machine(
            "ats",
            "Absolute margins, sum of the slacks of all classes",
            K1=0,
            K2=1.0,
            K3=0,
            own_target=1.0,
            reference=_UNIFIED,
        ),
        Machine(
            "mmr",
            "Maximum-margin regression: the own class alone",
            K1=0,
            K2=1.0,
            K3=0,
            own_target=1.0,
            has_rivals=False,
            reference="Szedmak, Shawe-Taylor & Parado-Hernandez, PASCAL report (2006)",
        ),
        Machine(
            "reinforced",
            "Reinforced multi-category SVM",
            K1=0,
            K2=1.0,
            K3=0,
            own_target="Q-1",
            own_share=0.5,
            reference="Liu & Yuan, J. Comput. Graph. Stat. 20 (2011) 901-919",
        ),
    )
}


def find_machine(machine: str | Machine) -> Machine:
    """The row of that name; an unknown name is refused with the names there are."""
    if isinstance(machine, Machine):
        return machine
    if machine not in MACHINES:
        raise ValueError(f"machine must be one of {sorted(MACHINES)}, got {machine!r}.")
    return MACHINES[machine]
