"""The machine table: what makes one all-in-one multi-class SVM differ from the next.

A machine is a row of facts; solvers, certificates and estimators read the row.  The functions
below are the slow, obvious voice that tests hold the compiled one to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["MACHINES", "Machine", "find_machine"]


def _crammer_singer_loss(scores: np.ndarray, own: np.ndarray) -> np.ndarray:
    """xi_i = max_r (f_r(x_i) - 1[r = y_i]) - (f_{y_i}(x_i) - 1): equation (1.7)."""
    rows = np.arange(len(own))
    own_scores = scores[rows, own]
    shifted = scores.copy()
    shifted[rows, own] -= 1.0
    return shifted.max(axis=1) - (own_scores - 1.0)


def _crammer_singer_violation(tau: np.ndarray, own: np.ndarray, cap: np.ndarray) -> float:
    """Largest violation of (1.2): rows sum to zero, tau_{i,y_i} in [0, C_i], others <= 0."""
    worst = 0.0
    for start in range(0, len(own), 1024):  # blocks stay in the cache
        rows = slice(start, start + 1024)
        block = tau[rows].copy()
        at = np.arange(len(block))
        own_weight = block[at, own[rows]]
        sums = np.abs(block.sum(axis=1)).max()
        block[at, own[rows]] = 0.0
        over = (own_weight - cap[rows]).max()
        worst = max(worst, float(sums), float(block.max()), float(-own_weight.min()), float(over))
    return worst


@dataclass(frozen=True)
class Machine:
    """One row of the table.

    Attributes
    ----------
    name, title : str
        The word users type and the name people know.
    step : int
        Code of the compiled pattern step (see ``solvers.patterns``).
    intercepts : tuple of str
        The kinds of intercept the mathematics (and this version) allows.
    loss : callable
        ``loss(scores, own)``: slack of every example from its scores.
    violation : callable
        ``violation(tau, own, cap)``: how far a dual point is from feasible (0 means exactly).
    reference : str
        Where the machine was published.
    """

    name: str
    title: str
    step: int
    intercepts: tuple[str, ...]
    loss: Callable[[np.ndarray, np.ndarray], np.ndarray]
    violation: Callable[[np.ndarray, np.ndarray, np.ndarray], float]
    reference: str

    def resolve_intercept(self, intercept: str, is_linear: bool) -> str:
        """The kind of intercept meant by the parameter; a refusal says why."""
        if intercept == "auto":
            return "penalized" if is_linear else "none"
        if intercept not in ("none", "penalized", "free"):
            raise ValueError(
                f"intercept must be 'auto', 'none', 'penalized' or 'free', got {intercept!r}."
            )
        if intercept not in self.intercepts:
            raise ValueError(
                f"intercept={intercept!r} is not available for machine={self.name!r} in this "
                f"version; use one of {self.intercepts}."
            )
        return intercept


MACHINES: dict[str, Machine] = {
    "cs": Machine(
        name="cs",
        title="Crammer-Singer (single-prototype SVM)",
        step=0,
        intercepts=("none", "penalized"),
        loss=_crammer_singer_loss,
        violation=_crammer_singer_violation,
        reference="Crammer & Singer, JMLR 2 (2001) 265-292",
    ),
}


def find_machine(machine: str | Machine) -> Machine:
    """The row of that name; an unknown name is refused with the names there are."""
    if isinstance(machine, Machine):
        return machine
    if machine not in MACHINES:
        raise ValueError(f"machine must be one of {sorted(MACHINES)}, got {machine!r}.")
    return MACHINES[machine]
