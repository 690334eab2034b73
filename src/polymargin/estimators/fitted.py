"""What a fit tells its user at the end, if there is something to tell."""

from __future__ import annotations

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from polymargin.certificate.intercepts import best_bias
from polymargin.estimators.endings import unfinished
from polymargin.exceptions import CollapsedModelWarning, NotSeparableWarning, warn_user
from polymargin.problem.problem import Problem
from polymargin.solvers.run import Solution

__all__ = ["warn_of_outcome"]


def value_of_zero(problem: Problem) -> float:
    """P of the best model whose prototypes are all zero."""
    n, Q = problem.n_patterns, problem.n_prototypes
    if not problem.has_one_prototype_per_class:
        return float(problem.cap.sum())
    if problem.has_free_bias and not problem.machine.K3:
        scores = np.zeros((n, Q))
        scores += best_bias(problem.machine, scores, problem.own, problem.cap).b
        return float(problem.cap @ problem.machine.loss(scores, problem.own))
    # without an intercept every example loses the same
    one = problem.machine.loss(np.zeros((1, Q)), np.zeros(1, dtype=np.int64))
    return float(problem.cap.sum() * one[0])


def warn_of_outcome(
    solution: Solution, problem: Problem, tol: float, can_go_on: bool = True
) -> None:
    """Warn of an unfinished solve with the gap reached, of no margin, of a collapsed model.

    ``can_go_on``: whether the estimator has a warm start to recommend.
    """
    certificate = solution.judgement.certificate
    if solution.status == "not_separable":
        warn_user(
            "C: the classes cannot be separated (no hard margin exists, or it is below "
            "1/44000 of the data's radius); the model of the largest margin reached is kept. "
            "Use a finite C or a richer kernel.",
            NotSeparableWarning,
        )
    elif solution.status in ("max_iter", "max_time", "stalled"):
        advice = (
            solution.advice
            or {
                "max_iter": "Increase max_iter or tol, or scale the features.",
                "max_time": "Increase max_time or tol"
                + (", or go on with warm_start=True." if can_go_on else "."),
                "stalled": "The arithmetic allows no further progress: increase tol, scale the "
                "features, or use a smaller C.",
            }[solution.status]
        )
        gap = float(certificate.relative_gap)
        text = unfinished(solution.status, gap, tol, advice, problem.is_hard)
        warn_user(text, ConvergenceWarning)
    if not problem.is_hard and solution.status == "converged":
        zero_model = value_of_zero(problem)
        if zero_model - certificate.dual <= tol * zero_model:
            advice = "a richer kernel, a larger C, or a smaller tol."
            if problem.machine.K3 and problem.machine.K1:
                advice = "a machine whose loss counts every class (machine='ww'), " + advice
            warn_user(
                "The model that does not look at X (every prototype zero) is optimal within tol: "
                "the classes overlap without a majority, where Crammer-Singer collapses, or C is "
                f"too small. Use {advice}",
                CollapsedModelWarning,
            )
