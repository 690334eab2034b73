"""Where a solution becomes a fitted model: attributes, status, history, warnings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from polymargin.certificate.certificate import Judgement
from polymargin.certificate.intercepts import best_bias
from polymargin.certificate.training_scores import prototypes
from polymargin.compiled.memory import rows_of
from polymargin.estimators.endings import unfinished
from polymargin.exceptions import CollapsedModelWarning, NotSeparableWarning, warn_user
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem

if TYPE_CHECKING:
    from polymargin.estimators.base import Prepared
    from polymargin.solvers.driver import Solution

__all__ = ["Attributes", "ModelParts", "model_parts", "store", "support_vectors", "warn_of_outcome"]

Attributes = Callable[[DualPoint, Judgement | None], dict[str, Any]]
"""Makes the fitted attributes of a dual point; without a judgement, those of a check on the way."""

_OPTIONAL = (
    "coef_",
    "intercept_",
    "prototypes_",
    "center_",
    "metric_",
    "bias_is_unique_",
    "exact_kernel_",
    "_landmark_duals",
)


class ModelParts(NamedTuple):
    """A model as its fitted attributes.

    ``support`` are rows of the X given to fit, ``T`` their coefficients, ``W`` the prototypes of a
    linear kernel (None otherwise), ``intercept`` the constant part of the scores.
    """

    support: np.ndarray
    T: np.ndarray
    W: np.ndarray | None
    intercept: np.ndarray


def model_parts(
    problem: Problem, ready: Prepared, point: DualPoint, judgement: Judgement | None
) -> ModelParts:
    """The model of a dual point; with a judgement, of the scale that its primal value belongs to.

    The constant of a penalised intercept is read from ``ready.kernel``: ``problem`` may be the one
    on the kernel matrix, whose kernel has none.
    """
    T = point.coefficients(problem)
    constant = ready.kernel.offset * T.sum(axis=0)
    W: np.ndarray | None = None
    scale = 1.0
    if judgement is None:
        b = point.b if problem.has_free_bias else None
        if problem.kernel.is_linear:
            W = prototypes(problem, point.support, T)
            if problem.centre is not None:
                W = W + problem.centre[0]
                constant = constant + np.sqrt(ready.kernel.offset) * problem.centre[1]
    else:
        b, W, scale = judgement.intercept, judgement.W, judgement.scale
        if W is not None:
            constant = np.zeros_like(constant)  # included in the intercept of the judge
        elif not problem.has_free_bias:
            b = None
    intercept = constant if b is None else constant + b
    if scale != 1.0:  # T may be large: no copy where none is needed
        T, intercept = T * scale, intercept * scale
        W = None if W is None else W * scale
    return ModelParts(ready.kept[point.support], T, W, intercept)


def support_vectors(ready: Prepared, support: np.ndarray) -> Any:
    """Rows of X with dual weight; a given kernel matrix has none."""
    return np.empty((0, 0)) if ready.kernel.name == "precomputed" else rows_of(ready.X, support)


def store(estimator: Any, solution: Solution, attributes: Attributes) -> None:
    """Give an estimator the fitted attributes of a solution."""
    judgement = solution.judgement
    found = attributes(solution.point, judgement)
    for name in _OPTIONAL:
        estimator.__dict__.pop(name, None)
    for name, value in found.items():
        setattr(estimator, name, value)
    estimator.certificate_ = judgement.certificate
    if judgement.bias_is_unique is not None:
        estimator.bias_is_unique_ = judgement.bias_is_unique
    estimator.status_ = solution.status
    if solution.history.checks:
        estimator.history_ = solution.history.as_arrays()
    estimator.n_iter_ = max(1, solution.iterations)


# -- warnings --------------------------------------------------------------------------------------


def value_of_zero(problem: Problem) -> float:
    """P of the best model whose prototypes are all zero."""
    n, Q = problem.n_patterns, problem.n_prototypes
    if problem.extra_margins is not None:
        return _costly_zero(problem)
    if not problem.has_one_prototype_per_class:
        return float(problem.cap.sum())
    if problem.has_free_bias and not problem.machine.K3:
        scores = np.zeros((n, Q))
        scores += best_bias(problem.machine, scores, problem.own, problem.cap).b
        return float(problem.cap @ problem.machine.loss(scores, problem.own))
    # without an intercept every example has the same loss
    one = problem.machine.loss(np.zeros((1, Q)), np.zeros(1, dtype=np.int64))
    return float(problem.cap.sum() * one[0])


def _costly_zero(problem: Problem) -> float:
    """``value_of_zero`` where the margins differ between rivals (costs)."""
    scores = problem.raised(np.zeros((problem.n_patterns, problem.n_prototypes)))
    if problem.has_free_bias and not problem.machine.K3:
        scores = scores + best_bias(problem.machine, scores, problem.own, problem.cap).b
    if problem.has_one_prototype_per_class:
        return float(problem.cap @ problem.machine.loss(scores, problem.own))
    mine = problem.prototype_class == problem.label[:, None]
    target = problem.machine.rival_target(problem.n_prototypes)
    return float(problem.cap @ (target + np.where(mine, -np.inf, scores).max(axis=1)))


def warn_of_outcome(solution: Solution, tol: float, can_go_on: bool = True) -> None:
    """Warn of an unfinished solve with the gap reached, of no margin, of a collapsed model.

    ``can_go_on``: whether the warning may recommend a warm start.
    """
    status, problem = solution.status, solution.problem
    if status == "not_separable":
        warn_user(
            "C: the classes cannot be separated (no hard margin exists, or it is below "
            "1/44000 of the data's radius); the model of the largest margin reached is kept. "
            "Use a finite C or a richer kernel.",
            NotSeparableWarning,
        )
    elif status == "hulls_meet":
        warn_user(
            "eta: the convex hulls of the classes have a common point, so every score is "
            "zero and every prediction is a tie. Use a smaller eta or another kernel.",
            CollapsedModelWarning,
        )
    elif status in ("max_iter", "max_time", "stalled"):
        _warn_of_gap(solution, tol, can_go_on)
    elif status == "converged" and not (problem.is_hard or problem.has_class_sums):
        _warn_of_collapse(solution, tol)


def _warn_of_gap(solution: Solution, tol: float, can_go_on: bool) -> None:
    size = "eta" if solution.problem.has_class_sums else "C"
    advice = (
        solution.advice
        or {
            "max_iter": "Increase max_iter or tol, or scale the features.",
            "max_time": "Increase max_time or tol"
            + (", or go on with warm_start=True." if can_go_on else "."),
            "stalled": "The arithmetic allows no further progress: increase tol, scale the "
            f"features, or use a smaller {size}.",
        }[solution.status]
    )
    gap = float(solution.judgement.certificate.relative_gap)
    text = unfinished(solution.status, gap, tol, advice, solution.problem.is_hard)
    warn_user(text, ConvergenceWarning)


def _warn_of_collapse(solution: Solution, tol: float) -> None:
    problem = solution.problem
    zero_model = value_of_zero(problem)
    if zero_model - solution.judgement.certificate.dual > tol * zero_model:
        return
    advice = "a richer kernel, a larger C, or a smaller tol."
    if problem.machine.K3 and problem.machine.K1:
        advice = f"a machine whose loss counts every class (machine='ww', or -m WW), {advice}"
    warn_user(
        "The all-zero model is optimal within tol: the classes overlap without a majority, where "
        f"Crammer-Singer collapses, or C is too small. Use {advice}",
        CollapsedModelWarning,
    )
