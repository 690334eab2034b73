"""What a machine in the span of landmarks proves about the machine of the exact kernel.

The model in the span is one of the models of the exact kernel, with the same norm and the same
scores, so its P is an upper bound of the exact optimum.  Its dual variables are feasible for the
exact kernel as they are, and s V, 0 <= s <= 1, is feasible with them; so

    D_s = s reward - s^2/2 (sum_r T_r' K T_r + ridge)

at the best s is a lower bound.  It needs the kernel values between all patterns with dual weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from polymargin.certificate.objective import linear_and_ridge, rescaled_dual
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem, run_blocks

__all__ = ["ExactKernelBounds", "exact_dual", "exact_dual_work"]

_BLOCK = 512


@dataclass(frozen=True)
class ExactKernelBounds:
    r"""Bounds on the optimal value :math:`P^*` of the exact kernel, from a fit with landmarks.

    :math:`\text{dual} \le P^* \le \text{primal}` where ``dual`` is known.

    Attributes
    ----------
    primal : float
        P of the fitted model, which is the same under the exact kernel.
    dual : float or None
        D of the fit's dual variables under the exact kernel, at their best multiple; None where it
        was not computed: it would have cost more than a tenth of the fit.
    relative_gap : float or None
        ``(primal - dual) / primal``: how far the model can be from the best one of the exact
        kernel.
    rest : float
        Mean part of :math:`\kappa(x, x)` of the training rows that the landmarks do not span.
    score_rounding : float
        Largest difference seen between scores of the fitted model and those that were certified,
        on some rows; that of float32 features, if they were.

    See Also
    --------
    Certificate : Of the machine in the span of the landmarks.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MulticlassSVC(kernel="rbf", landmarks=30, random_state=0).fit(X, y)
    >>> bounds = model.exact_kernel_
    >>> bounds.dual is None or bounds.dual <= bounds.primal
    True
    """

    primal: float
    dual: float | None
    relative_gap: float | None
    rest: float
    score_rounding: float

    @classmethod
    def of(
        cls, primal: float, dual: float | None, rest: float, score_rounding: float
    ) -> ExactKernelBounds:
        """The record, its gap relative to P."""
        gap = None
        if dual is not None and 0.0 < primal < np.inf:
            gap = max(primal - dual, 0.0) / primal
        return cls(primal, dual, gap, rest, score_rounding)


def exact_dual_work(problem: Problem, n_support: int) -> float:
    """Multiplications of ``exact_dual``; a value of the kernel function counts as forty."""
    X = problem.X
    width = X.nnz / max(X.shape[0], 1) if sp.issparse(X) else X.shape[1]
    return 0.5 * n_support**2 * (width + 40.0)


def exact_dual(
    problem: Problem, point: DualPoint, why_stop: Callable[[], str | None] | None = None
) -> float:
    """D of a dual point under the kernel of ``problem`` at its best multiple, in float64.

    Raises
    ------
    OutOfTimeError
        Where ``why_stop`` gives a reason.
    """
    T = point.coefficients(problem)
    reward, ridge = linear_and_ridge(problem, point.support, point.V)
    square = _squared_norm(problem, point.support, T, why_stop) + ridge
    if reward <= 0.0:
        return 0.0
    if problem.is_hard:
        return rescaled_dual(square, reward)
    s = min(1.0, reward / square) if square > 0.0 else 1.0
    return s * reward - 0.5 * s * s * square


def _squared_norm(
    problem: Problem, support: np.ndarray, T: np.ndarray, why_stop: Callable[[], str | None] | None
) -> float:
    """sum_r T_r' K T_r over the support, each pair of blocks once."""
    kernel = problem.kernel
    X = problem.X[support]
    if kernel.function is None:
        X = X.astype(np.float64)
    norms = None if problem.norms is None else problem.norms[support]
    parts = np.zeros(-(-len(support) // _BLOCK))

    def work(rows: slice) -> None:
        a = None if norms is None else norms[rows]
        total = 0.0
        for start in range(rows.start, len(support), _BLOCK):
            columns = slice(start, min(start + _BLOCK, len(support)))
            b = None if norms is None else norms[columns]
            found = float((T[rows] * (kernel.block(X[rows], X[columns], a, b) @ T[columns])).sum())
            total += found if start == rows.start else 2.0 * found
        parts[rows.start // _BLOCK] = total

    run_blocks(work, len(support), _BLOCK, problem.n_jobs, why_stop)
    return max(float(parts.sum()), 0.0)
