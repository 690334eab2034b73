"""The judge: primal value, dual value and gap of a dual point, recomputed in float64 NumPy.

It knows no solver.  One judge serves every machine of the table, with and without an unpenalised
intercept, several prototypes per class and a centre included.  Machines whose patterns have one
slack for the lead over the best rival (Crammer-Singer) need the margins only, which are computed
block by block; the others keep the scores of all patterns.
"""

from __future__ import annotations

import numpy as np

from polymargin.certificate.certificate import Judgement, certify
from polymargin.certificate.objective import (
    A_HAIR_MORE,
    Objective,
    linear_and_ridge,
    rescaled_dual,
    separated_primal,
    values_of,
)
from polymargin.certificate.shared_intercept import shared_bias
from polymargin.certificate.training_scores import KnownRows, TrainingScores
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem, run_blocks

__all__ = ["judge"]


def judge(
    problem: Problem,
    point: DualPoint,
    scores_of_all: np.ndarray | None = None,
    known_rows: KnownRows | None = None,
) -> Judgement:
    """Certify a dual point: P - D of (1.1), (4.1), (5.1) or (6.1); hard margins rescaled (1.12).

    Parameters
    ----------
    problem : Problem
    point : DualPoint
        Exactly feasible; with a free intercept the column sums of its coefficients must vanish.
        ``point.b`` is where the search for the best intercept starts.
    scores_of_all : (n, R) or None
        Receives the scores of all patterns, a free intercept not in them.
    known_rows : KnownRows or None
        Kernel rows at hand because the same kernel is judged many times.

    Returns
    -------
    Judgement
    """
    T = point.coefficients(problem)
    _check_feasible(problem, point, T)
    source = TrainingScores(problem, point.support, T, known_rows)
    if problem.has_margin_loss:
        return _judge_margins(problem, point, T, source, scores_of_all)
    return _judge_scores(problem, point, T, source, scores_of_all)


def _check_feasible(problem: Problem, point: DualPoint, T: np.ndarray) -> None:
    support, V = point.support, point.V
    own, cap = point.own, problem.cap[support]
    if not np.array_equal(own, problem.own[support]):
        raise FloatingPointError("the dual point belongs to another assignment")
    violation = problem.machine.signed_violation(V, own, cap)
    if not problem.has_one_prototype_per_class:
        # (2.2): no weight on a prototype of the own class other than the assigned one
        mine = problem.prototype_class[None, :] == problem.label[support, None]
        violation = max(violation, float(np.abs(V[mine]).max(initial=0.0)))
    if problem.has_free_bias:
        # sums of thousands of terms: rounding grows with what is summed
        total = float(np.abs(T).sum(axis=0).max(initial=0.0))
        sums = float(np.abs(T.sum(axis=0)).max(initial=0.0))
        if sums > 1e-11 * total:
            raise FloatingPointError(f"the dual point is not balanced (by {sums:.1e})")
    if violation > 1e-9 * float(np.abs(V).max(initial=0.0)):
        raise FloatingPointError(f"the dual point is not feasible (by {violation:.1e})")


def _checked_norm2(
    problem: Problem, support: np.ndarray, T: np.ndarray, source: TrainingScores, scores: np.ndarray
) -> float:
    """||M||^2: of explicit prototypes, or T'K T by the scores (n, R) of a kernel."""
    if problem.kernel.is_linear:
        return source.norm2
    norm2 = float((T * scores[support]).sum())
    weight = np.abs(T).T @ np.sqrt(problem.diagonal[support])
    if norm2 < -1e-9 * float(weight @ weight) and problem.kernel_psd is not True:
        raise ValueError(
            "kernel: T'K T is negative, the kernel matrix is not positive semi-definite "
            "on these data; use another kernel or add a multiple of the identity."
        )
    return max(norm2, 0.0)


def _refuse_nan(*values: float) -> None:
    if any(np.isnan(value) for value in values):
        raise ValueError("kernel: its values overflow on these data; scale the features of X.")


# -- one slack for the lead over the best rival ------------------------------------------------


def _judge_margins(
    problem: Problem,
    point: DualPoint,
    T: np.ndarray,
    source: TrainingScores,
    scores_of_all: np.ndarray | None,
) -> Judgement:
    n, is_linear = problem.n_patterns, problem.kernel.is_linear
    margins = np.empty(n)
    kept = scores_of_all
    if kept is None and not is_linear:
        kept = np.zeros((n, problem.n_prototypes))

    def look(rows: slice) -> None:
        scores = source.block(rows)
        if kept is not None:
            kept[rows] = scores.T
        margins[rows] = _margins(problem, scores, rows)

    run_blocks(look, n, source.block_size, problem.n_jobs)
    norm2 = (
        source.norm2 if kept is None else _checked_norm2(problem, point.support, T, source, kept)
    )
    margin = float(margins.min(initial=np.inf))
    _refuse_nan(norm2, margin)  # one NaN among the margins is their minimum
    target = problem.machine.rival_target(problem.n_prototypes)
    weight = -point.V.sum(axis=1)
    reward = target * float(weight.sum()) + problem.extra_reward(point.V, point.support)
    separated = separated_primal(norm2, margin, target)
    scale = 1.0
    if problem.is_hard:
        primal, dual = separated, rescaled_dual(norm2, reward)
    else:
        primal = 0.5 * norm2 + float(problem.cap @ np.maximum(0.0, target - margins))
        dual = reward - source.cross - 0.5 * norm2
    if separated < np.inf and problem.may_rescale:
        cap = margin / target * problem.cap[point.support]
        stays_feasible = separated < primal and bool((weight * A_HAIR_MORE <= cap).all())
        if problem.is_hard or stays_feasible:
            primal, scale = separated, A_HAIR_MORE * target / margin
    certificate = certify(primal, dual, problem.kernel_psd)
    return Judgement(certificate, source.W, source.intercept, margin, norm2, scale)


def _margins(problem: Problem, scores: np.ndarray, rows: slice) -> np.ndarray:
    """f_own - max over the other classes, from (R, k) scores, which are overwritten.

    With costs the scores of rivals are raised, so that the margin to be reached is the target.
    """
    own = problem.own[rows]
    if problem.extra_margins is not None:
        scores += problem.extra_margins[problem.label[rows]].T
    at = np.arange(len(own))
    own_scores = scores[own, at]
    if problem.has_one_prototype_per_class:
        scores[own, at] = -np.inf
    else:
        scores[problem.prototype_class[:, None] == problem.label[None, rows]] = -np.inf
    return np.asarray(own_scores - scores.max(axis=0))


# -- every other machine, and free intercepts --------------------------------------------------


def _judge_scores(
    problem: Problem,
    point: DualPoint,
    T: np.ndarray,
    source: TrainingScores,
    scores_of_all: np.ndarray | None,
) -> Judgement:
    machine, support = problem.machine, point.support
    scores = scores_of_all
    if scores is None:
        scores = np.zeros((problem.n_patterns, problem.n_prototypes))

    def look(rows: slice) -> None:
        scores[rows] = source.block(rows).T

    run_blocks(look, problem.n_patterns, source.block_size, problem.n_jobs)
    W, intercept = source.W, source.intercept
    if not machine.K1:
        # absolute margins need scores that sum to zero to the last digit
        scores -= scores.mean(axis=1, keepdims=True)
        intercept = intercept - intercept.mean()
        W = None if W is None else W - W.mean(axis=0)
    norm2 = _checked_norm2(problem, support, T, source, scores)
    _refuse_nan(norm2, np.nan if np.isnan(scores).any() else 0.0)
    reward, ridge = linear_and_ridge(problem, support, point.V)
    found = _with_best_intercept(problem, scores, norm2, reward, ridge, point.b)
    # large coefficients that cancel leave their rounding in ||w||^2
    weight = float((np.abs(T).T @ np.sqrt(problem.diagonal[support])).sum())
    rounding = 1e-14 * weight * float(np.sqrt(norm2))
    certificate = certify(found.primal, found.dual, problem.kernel_psd, rounding)
    unique = None
    if problem.has_free_bias:
        # the model's scores are known to about this much: ||M - M*||^2 <= 2 gap
        known = 0.0
        if np.isfinite(certificate.gap):
            known = float(np.sqrt(2.0 * certificate.gap * problem.diagonal.max()))
        unique = bool(found.bias.width <= 1e-7 + 4.0 * known)
    return Judgement(
        certificate, W, intercept + found.bias.b, found.margin, norm2, found.scale, unique
    )


def _with_best_intercept(
    problem: Problem,
    scores: np.ndarray,
    norm2: float,
    reward: float,
    ridge: float,
    hint: np.ndarray | None,
) -> Objective:
    """Values with the best intercept; a shared slack makes its search a linear programme."""
    machine = problem.machine
    if problem.has_free_bias and machine.K3 and not problem.is_hard:
        lack = machine.deficits(problem.raised(scores), problem.own)
        best = shared_bias(-lack, problem.own, problem.cap, hint)
        found = values_of(problem, scores, norm2, reward, ridge, best.b)
        return found._replace(bias=best)
    return values_of(problem, scores, norm2, reward, ridge, hint)
