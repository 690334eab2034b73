"""The cost of mistaking one class for another, as margins that rivals are asked for (24.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.exceptions import in_one_line, shown
from polymargin.problem.machines import Machine

__all__ = ["check_costs", "check_costs_allowed", "extra_margins"]


def check_costs(cost_matrix: Any, classes: np.ndarray) -> np.ndarray:
    """The costs as (Q, Q) float64; whatever is no cost matrix of these classes is refused.

    Parameters
    ----------
    cost_matrix : array-like of shape (n_classes, n_classes)
        Entry [i, j] is the cost of saying ``classes[j]`` when ``classes[i]`` is true: 0 on the
        diagonal, finite and > 0 elsewhere.
    classes : (Q,) labels in ascending order.
    """
    try:
        costs = np.array(cost_matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"cost_matrix must be a square array of numbers, got {shown(cost_matrix)}."
        ) from None
    Q = len(classes)
    if costs.shape != (Q, Q):
        raise ValueError(
            f"cost_matrix must have shape ({Q}, {Q}), a row and a column for each of the classes "
            f"{_some(classes)}, got shape {costs.shape}."
        )
    if np.diag(costs).any():  # nan counts
        raise ValueError("cost_matrix: its diagonal must be 0, a right answer costs nothing.")
    wrong = ~((costs > 0.0) & (costs < np.inf)) & ~np.eye(Q, dtype=bool)
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        raise ValueError(
            f"cost_matrix[{i}, {j}] is {costs[i, j]:g}; every cost off the diagonal must be finite "
            "and > 0."
        )
    return costs


def check_costs_allowed(machine: Machine, is_hard: bool) -> None:
    """Refuse costs where there are no rival margins to replace, or where no mistake is allowed."""
    if not machine.K1:
        raise ValueError(
            f"cost_matrix needs relative margins, which machine={machine.name!r} does not have; "
            "use machine='cs' or 'ww'."
        )
    if is_hard:
        raise ValueError(
            "cost_matrix needs a finite C: a hard margin allows no mistake whose cost could count."
        )


def extra_margins(
    cost_matrix: Any,
    machine: Machine,
    classes: np.ndarray,
    prototype_class: np.ndarray,
    is_hard: bool,
) -> np.ndarray | None:
    """(Q, R) costs minus the machine's target, 0 for the own class; None without a matrix."""
    if cost_matrix is None:
        return None
    check_costs_allowed(machine, is_hard)
    costs = check_costs(cost_matrix, classes)
    extra = costs[:, prototype_class] - machine.rival_target(len(prototype_class))
    extra[np.arange(len(classes))[:, None] == prototype_class[None, :]] = 0.0
    return np.ascontiguousarray(extra)


def _some(classes: np.ndarray) -> str:
    names = [in_one_line(str(name)) for name in classes.tolist()]
    return ", ".join(names if len(names) <= 6 else [*names[:5], f"... ({len(names)} in all)"])
