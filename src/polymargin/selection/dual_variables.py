"""Dual variables, gradient and margins of Weston-Watkins, Lee-Lin-Wahba and M-SVM^2, to look at.

The machines store coefficients tau of their prototypes; the papers use alpha_ik >= 0, one for every
example i and rival class k.  With alpha_{i y_i} = 0 the two determine each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from polymargin.estimators.geometry import geometric_margins, prototype_products
from polymargin.estimators.landmark_training import refuse_landmarks
from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.problem.machines import find_machine

__all__ = ["DualVariables", "dual_variables"]

_MACHINES = ("ww", "llw", "msvm2")


@dataclass(frozen=True)
class DualVariables:
    r"""The dual point of a fitted machine.

    Attributes
    ----------
    alpha : (n, Q)
        :math:`\alpha_{ik} \ge 0`, 0 in the column of the own class.
    gradient : (n, Q)
        Of the dual objective that is minimised (:math:`J_d` of the papers, the negative dual
        value): 0 in the column of the own class.  M-SVM²: with :math:`\kappa + \delta / (2 C)`.
    value : float
        The dual value, maximised.
    margins : (Q, Q) or None
        M-SVM²: geometrical margins (9.1) in the space of :math:`\kappa + \delta / (2 C)`, where the
        machine is a hard-margin Lee-Lin-Wahba machine; "llw" with ``C=inf``: those of
        :math:`\kappa`, which is the same with :math:`1 / C = 0`.  None for other machines.
    excess : (Q, Q) or None
        :math:`d_{kl}` of (9.1) there, 0 for the closest pair.
    functional : float or None
        d, the smallest difference of scores there; at least :math:`Q / (Q - 1)` at the optimum.

    See Also
    --------
    polymargin.dual_variables : Makes it.
    """

    alpha: np.ndarray
    gradient: np.ndarray
    value: float
    margins: np.ndarray | None
    excess: np.ndarray | None
    functional: float | None


def dual_variables(model: MulticlassSVC, X: Any, y: Any) -> DualVariables:
    """Dual variables and gradient of a machine that was trained without sample weights.

    Parameters
    ----------
    model : MulticlassSVC
        Fitted, with machine "ww", "llw" or "msvm2" and a finite C, or "llw" with C = inf.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The training examples.
    y : array-like of shape (n_samples,)

    Returns
    -------
    DualVariables

    See Also
    --------
    margin_record : The primal side of the same solution.
    selection.dual_variables.DualVariables : What it returns.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, dual_variables
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MulticlassSVC("ww", kernel="rbf", gamma=0.5, random_state=0).fit(X, y)
    >>> dual_variables(model, X, y).alpha.shape
    (150, 3)
    """
    name = find_machine(model.machine).name if isinstance(model, MulticlassSVC) else None
    if name not in _MACHINES:
        raise ValueError(f"model must be a MulticlassSVC with a machine of {_MACHINES}.")
    refuse_landmarks(model, "dual_variables")
    check_is_fitted(model)
    scores, label = model._labelled_scores(X, y)
    n, Q = scores.shape
    if n != model._n_train:
        raise ValueError(f"X and y must be the {model._n_train} training examples, got {n}.")
    tau = np.zeros((n, Q))
    tau[model.support_] = model.dual_coef_
    rows = np.arange(n)
    rival = np.ones((n, Q), dtype=bool)
    rival[rows, label] = False
    plain = scores - _intercept(model, Q)
    if name == "ww":
        alpha = np.where(rival, -tau, 0.0)
        asked = 1.0 + model._raised_scores(plain, label) - plain
        gradient = plain[rows, label][:, None] - plain - asked
        linear = float((alpha * asked).sum())
    else:
        alpha = np.where(rival, tau[rows, label][:, None] - tau, 0.0)
        if name == "msvm2":
            plain = plain + tau / (2.0 * model.C_)
        # H alpha at (i, k) is minus the score of class k without its intercept
        gradient = -plain - 1.0 / (Q - 1.0)
        linear = float(alpha.sum()) / (Q - 1.0)
    norm2 = float((tau * plain).sum())
    margins = excess = functional = None
    if name == "msvm2" or (name == "llw" and np.isinf(model.C_)):
        margins, excess, functional = _ridge_margins(model, X, scores, label, tau)
    return DualVariables(
        np.maximum(alpha, 0.0),
        np.where(rival, gradient, 0.0),
        linear - 0.5 * norm2,
        margins,
        excess,
        functional,
    )


def _intercept(model: MulticlassSVC, Q: int) -> np.ndarray:
    """One number per class; two classes of a linear kernel store the difference."""
    b = np.asarray(model.intercept_, dtype=np.float64)
    return b if len(b) == Q else np.array([-0.5, 0.5]) * b[0]


def _ridge_margins(
    model: MulticlassSVC, X: Any, scores: np.ndarray, label: np.ndarray, tau: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Margins, d_kl and d (9.1) in the space of kappa + delta / (2 C)."""
    ridge = 1.0 / (2.0 * model.C_)
    products = prototype_products(model, X) + ridge * (tau.T @ tau)
    Q, rows = scores.shape[1], np.arange(len(label))
    lifted = scores + ridge * tau
    margins = geometric_margins(lifted, label, np.arange(Q), products)
    lead = lifted[rows, label][:, None] - lifted
    lead[rows, label] = np.inf
    d = float(lead.min())
    pairs = np.full((Q, Q), np.inf)
    for k in range(Q):
        pairs[k] = lead[label == k].min(axis=0)
    excess = np.minimum(pairs, pairs.T) / d - 1.0
    np.fill_diagonal(excess, 0.0)
    return margins, excess, d
