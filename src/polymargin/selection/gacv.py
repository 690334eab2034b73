"""Generalised approximate cross-validation (GACV) of the machine of Lee, Lin and Wahba."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from polymargin.estimators.landmark_training import refuse_landmarks
from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.exceptions import shown
from polymargin.problem.encoding import sample_weights
from polymargin.problem.kernels import squared_norms
from polymargin.problem.machines import find_machine

__all__ = ["GACV", "gacv"]


@dataclass(frozen=True)
class GACV:
    """The criterion and its parts (9.10).

    Attributes
    ----------
    value : float
        ``observed + correction``, to be minimised over the parameters of the machine.
    observed : float
        Mean loss of the training examples.
    correction : float
        Mean increase, to first order, of the loss of an example that is left out.
    form : str
        What was computed, in words.
    reference : str

    See Also
    --------
    polymargin.gacv : Makes it.
    """

    value: float
    observed: float
    correction: float
    form: str
    reference: str


_GACV_FORM = (
    "mean over examples of sum_{k != y} [h_k + 1/(Q-1)]_+ plus mean of "
    "kappa(x_i, x_i) sum_{k != y} m_ik (alpha_ik - mean of alpha_i), where m_ik is 0 for "
    "alpha_ik = 0, 1 for scores below 1 and Q above (for Q = 2 the binary GACV)"
)
_GACV_REFERENCE = (
    "Lee, Lin & Wahba, JASA 99 (2004) 67-81; for two classes Wahba, Lin & Zhang, GACV for support "
    "vector machines, in Advances in Large Margin Classifiers (MIT Press, 2000) 297-309"
)


def gacv(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> GACV:
    """Generalised approximate cross-validation of a Lee-Lin-Wahba machine.

    Approximates the mean left-out loss with one fit: the contribution of each example's own dual
    weight to its scores is subtracted to first order.

    Parameters
    ----------
    estimator : MulticlassSVC
        With ``machine="llw"`` and a finite C.  A fitted one must have been trained on these X and
        y; one that is not fitted is cloned and trained.
    X : array-like or CSR matrix of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    sample_weight : array-like of shape (n_samples,) or None
        The weights that the machine was trained with.

    Returns
    -------
    GACV

    See Also
    --------
    leave_one_out : The exact number that it approximates.
    selection.gacv.GACV : What it returns.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, gacv
    >>> X, y = load_iris(return_X_y=True)
    >>> gacv(MulticlassSVC("llw", kernel="rbf", gamma=0.5), X, y).value > 0
    True
    """
    if not isinstance(estimator, MulticlassSVC) or find_machine(estimator.machine).name != "llw":
        raise ValueError(
            "estimator must be a MulticlassSVC with machine='llw': GACV is derived from its loss, "
            f"got {shown(estimator)}."
        )
    refuse_landmarks(estimator, "GACV")
    if np.isinf(estimator.C):
        raise ValueError("estimator: GACV needs a finite C; a hard margin has no losses.")
    model = estimator
    if not hasattr(model, "dual_coef_"):
        model = clone(estimator).fit(X, y, sample_weight=sample_weight)
    h, own = model._labelled_scores(X, y)
    n, Q = h.shape
    if model._n_train != n:
        raise ValueError(
            f"X has {n} examples, but the estimator was trained on {model._n_train}; GACV looks at "
            "the training examples themselves."
        )
    T = np.zeros((n, Q))
    T[model.support_] = model.dual_coef_
    rows = np.arange(n)
    alpha = T[rows, own][:, None] - T
    multiple = np.where(h >= 1.0, float(Q), 1.0) * (alpha > 1e-9 * max(float(alpha.max()), 1e-300))
    checked = model._check_input(X)
    norms = None if model._kernel.name in ("precomputed", "callable") else squared_norms(checked)
    diagonal = model._kernel.diagonal(checked, norms)
    weight = np.ones(n)
    if sample_weight is not None:
        weight = sample_weights(sample_weight, own)
    machine = find_machine("llw")
    observed = float(weight @ machine.loss(h, own) / weight.sum())
    change = diagonal * (multiple * -T).sum(axis=1)
    correction = float(weight @ change / weight.sum())
    return GACV(observed + correction, observed, correction, _GACV_FORM, _GACV_REFERENCE)
