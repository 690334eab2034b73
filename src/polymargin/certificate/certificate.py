"""Certificate and Judgement: what the judge says of a dual point.

Fitted models, warnings, tests and benchmarks quote these records only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Certificate", "Judgement", "certify", "linear_primal"]


@dataclass(frozen=True)
class Certificate:
    r"""Proof of quality of a fitted model.

    The optimal value :math:`P^*` of the training problem obeys
    :math:`\text{dual} \le P^* \le \text{primal}`, and ``primal`` is the value of exactly the
    coefficients that the model uses.

    Attributes
    ----------
    primal : float
        :math:`P = \tfrac12 \sum_r \|M_r\|^2 + \sum_i C_i\, \xi_i`; infinite while a hard-margin
        model does not separate the data.
    dual : float
        D at a feasible dual point.
    gap : float
        ``primal - dual``.
    relative_gap : float
        ``gap / primal``: the model's objective is at most this fraction above the best possible.
    kernel_psd : bool or None
        Whether the kernel is positive semi-definite, without which the gap proves nothing;
        None where a matrix was too large to check.

    See Also
    --------
    ExactKernelBounds : What a fit with landmarks proves about the exact kernel.
    leave_one_out : What can be said about new rows.

    Examples
    --------
    >>> from polymargin import Certificate
    >>> Certificate(primal=2.0, dual=1.5, gap=0.5, relative_gap=0.25).relative_gap
    0.25
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    kernel_psd: bool | None = True


@dataclass(frozen=True)
class Judgement:
    """A certificate with what was computed on the way: the coefficients that P belongs to.

    ``W`` are the prototypes of a linear kernel (None otherwise), ``intercept`` is the constant part
    of the scores, ``margin`` is min_i (f_{y_i} - max of the other classes), ``norm2`` is
    sum_r ||M_r||^2.  The primal value is that of the model times ``scale``: where a separating
    model scaled to margin exactly 1 is better, as always for the hard margin (1.12), scale is
    1 / margin.  ``bias_is_unique`` says so of a free intercept (None: there is none).
    """

    certificate: Certificate
    W: np.ndarray | None
    intercept: np.ndarray
    margin: float
    norm2: float
    scale: float = 1.0
    bias_is_unique: bool | None = None


def certify(
    primal: float, dual: float, kernel_psd: bool | None, rounding: float = 0.0
) -> Certificate:
    """A certificate from two values; a gap below zero beyond rounding is an error (19.5)."""
    if np.isnan(primal) or np.isnan(dual):
        raise FloatingPointError(f"no certificate: primal {primal}, dual {dual}; scale X or C")
    gap = primal - dual
    if gap < 0.0:
        if gap < -max(1e-9 * abs(primal), rounding) and kernel_psd is True:
            raise FloatingPointError(f"negative duality gap {gap:.3e} at primal {primal:.6e}")
        gap = 0.0
    relative = gap / primal if 0.0 < primal < np.inf else (np.inf if primal == np.inf else 0.0)
    return Certificate(primal, dual, gap, relative, kernel_psd)


def linear_primal(
    coef: np.ndarray,
    intercept: np.ndarray,
    X: Any,
    label: np.ndarray,
    cap: np.ndarray | float,
    intercept_scaling: float | None = None,
) -> float:
    """Primal value (1.1) of any linear Crammer-Singer model, from any library.

    Parameters
    ----------
    coef : (n_classes, d)
        One row per class.
    intercept : (n_classes,) or 0
        Intercepts; penalised as 1/2 ||intercept / intercept_scaling||^2 when a scaling is given.
    X, label
        Training data and class numbers.
    cap : float or (n,)
        C, or C_i.
    intercept_scaling : float or None
        None: the intercept is not penalised.
    """
    scores = np.asarray(X @ np.ascontiguousarray(coef.T)) + intercept
    rows = np.arange(len(label))
    own = scores[rows, label].copy()
    scores[rows, label] = -np.inf
    slack = np.maximum(0.0, 1.0 - own + scores.max(axis=1))
    penalty = float((np.asarray(coef) ** 2).sum())
    if intercept_scaling:
        penalty += float((np.asarray(intercept) ** 2).sum()) / intercept_scaling**2
    return 0.5 * penalty + float((cap * slack).sum())
