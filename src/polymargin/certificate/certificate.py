"""The judge: primal value, dual value and gap, recomputed in plain float64 NumPy.

It knows no solver.  Fitted models, warnings, tests and benchmarks quote this module only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.compiled.csr import by_feature, row_scores, weighted_sum
from polymargin.problem.kernels import IN_PLACE, dense_scores
from polymargin.problem.problem import Problem, row_blocks, run_blocks

__all__ = [
    "Certificate",
    "Energy",
    "Judgement",
    "certify",
    "energy",
    "judge",
    "linear_primal",
    "prototypes",
    "rescaled_dual",
    "score_source",
    "separated_primal",
]

_BLOCK_BYTES = 4_000_000
_FEWEST_ROWS = 32
_A_HAIR_MORE = 1.0 + 1e-11
"""A model is scaled to a margin this much above 1: rounded scores must not cost C times a slack."""


@dataclass(frozen=True)
class Certificate:
    """Proof of quality of a fitted model.

    The optimal value P* of the training problem obeys ``dual <= P* <= primal``, and ``primal`` is
    the value of exactly the coefficients that the model uses.

    Attributes
    ----------
    primal : float
        P = 1/2 sum_r ||M_r||^2 + sum_i C_i xi_i; infinite while a hard-margin model does not
        separate the data.
    dual : float
        D at a feasible dual point.
    gap : float
        primal - dual.
    relative_gap : float
        gap / primal: the model's objective is at most this fraction above the best possible.
    kernel_psd : bool or None
        Whether the kernel is positive semi-definite, without which the gap proves nothing;
        None where a matrix was too large to check.
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


def _block_rows(width: int) -> int:
    return max(16, _BLOCK_BYTES // (8 * max(1, width)))


def _as_float64(block: Any) -> Any:
    return block.astype(np.float64) if block.dtype != np.float64 else block


def prototypes(problem: Problem, support: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """W_r = sum_i tau_ir x_i (1.3)."""
    X = problem.rows
    if sp.issparse(X):
        return weighted_sum(X, support, tau)
    W = np.zeros((tau.shape[1], X.shape[1]))
    size = _block_rows(X.shape[1])
    unpacked = IN_PLACE // max(W.size, 1)
    if unpacked >= _FEWEST_ROWS:
        size = min(size, unpacked)  # small pieces also stay in the cache
    if 2 * len(support) >= len(X) and X.shape[1] > tau.shape[1]:
        # most rows take part and rows are long: slices of X are cheaper than gathered rows
        full = np.zeros((len(X), tau.shape[1]))
        full[support] = tau
        for rows in row_blocks(len(X), size):
            W += full[rows].T @ _as_float64(X[rows])
        return W
    for rows in row_blocks(len(support), size):
        W += tau[rows].T @ _as_float64(X[support[rows]])
    return W


def _losses(
    problem: Problem, scores: np.ndarray, rows: slice, margins: np.ndarray, slacks: np.ndarray
) -> None:
    """Margins and slacks (1.7) of a block from its (R, k) scores, which are overwritten."""
    own = problem.own[rows]
    at = np.arange(len(own))
    own_scores = scores[own, at]
    if problem.has_one_prototype_per_class:
        scores[own, at] = -np.inf
    else:
        scores[problem.prototype_class[:, None] == problem.label[None, rows]] = -np.inf
    margins[rows] = margin = own_scores - scores.max(axis=0)
    slacks[rows] = np.maximum(0.0, 1.0 - margin)


def judge(
    problem: Problem, support: np.ndarray, tau: np.ndarray, scores_of_all: np.ndarray | None = None
) -> Judgement:
    """Certify the dual point whose rows ``support`` are ``tau`` (all others zero).

    Soft margin: P - D of (1.1) and (1.2).  Hard margin: the rescaled pair (1.12).

    Parameters
    ----------
    problem : Problem
    support : (s,) pattern numbers.
    tau : (s, R) their variables, feasible for (1.2).
    scores_of_all : (n, R) or None
        Receives the scores of all patterns.

    Returns
    -------
    Judgement
    """
    n, R = problem.n_patterns, problem.n_prototypes
    violation = problem.machine.violation(tau, problem.own[support], problem.cap[support])
    if not problem.has_one_prototype_per_class:
        violation = max(violation, _misplaced(problem, support, tau))
    own_tau = tau[np.arange(len(support)), problem.own[support]]
    if violation > 1e-9 * float(np.abs(own_tau).max(initial=0.0)):
        raise FloatingPointError(f"the dual point is not feasible (by {violation:.1e})")
    margins = np.empty(n)
    slacks = np.empty(n)
    source = _Scores(problem, support, tau)
    kept_scores = scores_of_all
    if kept_scores is None and not problem.kernel.is_linear:
        kept_scores = np.zeros((n, R))

    def look(rows: slice) -> None:
        scores = source.block(rows)
        if kept_scores is not None:
            kept_scores[rows] = scores.T
        _losses(problem, scores, rows, margins, slacks)

    run_blocks(look, n, source.block_size, problem.n_jobs)
    norm2, cross = source.norm2, source.cross
    if kept_scores is not None and not problem.kernel.is_linear:
        norm2 = float((tau * kept_scores[support]).sum())
        weight = np.abs(tau).T @ np.sqrt(problem.diagonal[support])
        if norm2 < -1e-9 * float(weight @ weight) and problem.kernel_psd is not True:
            raise ValueError(
                "kernel: tau'K tau is negative, the kernel matrix is not positive semi-definite "
                "on these data; use another kernel or add a multiple of the identity."
            )
        norm2 = max(norm2, 0.0)
    margin = float(margins.min(initial=np.inf))
    if np.isnan(norm2) or np.isnan(margin):  # one NaN among the margins is their minimum
        raise ValueError("kernel: its values overflow on these data; scale the features of X.")
    own_sum = float(own_tau.sum())
    scale = 1.0
    separated = separated_primal(norm2, margin)
    if problem.is_hard:
        primal, dual = separated, rescaled_dual(norm2, own_sum)
    else:
        primal = 0.5 * norm2 + float(problem.cap @ slacks)
        dual = own_sum - cross - 0.5 * norm2
    if (separated < np.inf and problem.centre is None) and (
        problem.is_hard
        or (
            separated < primal
            and bool((own_tau * _A_HAIR_MORE <= margin * problem.cap[support]).all())
        )
    ):
        primal, scale = separated, _A_HAIR_MORE / margin
    certificate = certify(primal, dual, problem.kernel_psd)
    return Judgement(certificate, source.W, source.intercept, margin, norm2, scale)


def _misplaced(problem: Problem, support: np.ndarray, tau: np.ndarray) -> float:
    """Largest weight on a prototype of the own class other than the assigned one (2.2)."""
    mine = problem.prototype_class[None, :] == problem.label[support, None]
    mine[np.arange(len(support)), problem.own[support]] = False
    return float(np.abs(tau[mine]).max(initial=0.0))


def score_source(problem: Problem, support: np.ndarray, tau: np.ndarray) -> _Scores:
    """Scores (R, k) of blocks of training examples by coefficients tau of the support."""
    return _Scores(problem, support, tau)


class _Scores:
    """Scores (R, k) of blocks of training examples by a dual point, in float64.

    Linear: ``W`` are the prototypes (the centre included), ``norm2`` is ||M - M_0||^2 and ``cross``
    is ⟨M - M_0, M_0⟩, both without the centre ||M||^2 and 0.
    """

    def __init__(self, problem: Problem, support: np.ndarray, tau: np.ndarray) -> None:
        self.problem = problem
        self.tau = tau
        self.W: np.ndarray | None = None
        self.norm2 = self.cross = 0.0
        u = np.sqrt(problem.kernel.offset)
        constant = u * tau.sum(axis=0)
        self.intercept = u * constant
        width = max(len(support), 1)
        if problem.kernel.is_linear:
            W = prototypes(problem, support, tau)
            self.norm2 = float((W * W).sum() + (constant * constant).sum())
            if problem.centre is not None:
                W0, constant0 = problem.centre
                self.cross = float((W * W0).sum() + (constant * constant0).sum())
                W, constant = W + W0, constant + constant0
            self.W, self.intercept = W, u * constant
            width = W.shape[1]
            if sp.issparse(problem.rows):
                self.columns, width = by_feature(W), 1
        elif problem.known_rows is None:
            self.landmarks = _Landmarks(problem, support)
        X = problem.X
        self.block_size = min(_block_rows(width), _block_rows(tau.shape[1]))
        self.known: np.ndarray | None = None
        if problem.known_rows is not None:
            self.known = problem.known_rows.scores(support, tau)
        self.full: np.ndarray | None = None
        kernel = problem.kernel
        if kernel.name == "precomputed" and not kernel.offset and 6 * len(support) >= len(X):
            # most columns take part: products with whole slices are cheaper than gathered columns
            self.full = np.zeros((tau.shape[1], len(X)))
            self.full[:, support] = tau.T
            self.block_size = 1024

    def block(self, rows: slice) -> np.ndarray:
        if self.known is not None:
            return self.known[:, rows].copy()
        if self.full is not None:
            # the matrix is symmetric: columns are rows, and these products read memory in order
            return np.asarray(self.full @ _as_float64(self.problem.X[:, rows]))
        if self.W is None:
            return (self.landmarks.block(rows) @ self.tau).T.copy()
        X = self.problem.rows
        if sp.issparse(X):
            scores = row_scores(X, rows, self.columns, len(self.W))
        else:
            scores = dense_scores(self.W, _as_float64(X[rows]))
        scores += self.intercept[:, None]
        return scores


@dataclass(frozen=True)
class Energy:
    """The whole multi-prototype objective at the prototypes of a dual point.

    Attributes
    ----------
    value : float
        E = 1/2 ||M||^2 + sum_i C_i min_r xi_i^r over the prototypes r of the own class (2.1).
    winner : (n,) the prototype of the own class with the smallest slack, the assigned one among
        equals.
    excess : float
        The largest xi_i^{a_i} - min_r xi_i^r: no reassignment improves where it is 0.
    alive : (R,) whether the prototype has the highest score of all for some example.
    """

    value: float
    winner: np.ndarray
    excess: float
    alive: np.ndarray


def energy(
    problem: Problem, support: np.ndarray, tau: np.ndarray, norm2: float, scale: float = 1.0
) -> Energy:
    """E of the model ``scale`` times the dual point; ``norm2`` is its squared norm before scaling.

    Parameters
    ----------
    problem : Problem
    support, tau : the dual point as in ``judge``.
    norm2, scale : float
        From the Judgement of that point.
    """
    n, R = problem.n_patterns, problem.n_prototypes
    source = _Scores(problem, support, tau)
    loss = np.empty(n)
    excess = np.empty(n)
    winner = np.empty(n, dtype=np.int64)
    top = np.empty(n, dtype=np.int64)

    def look(rows: slice) -> None:
        scores = source.block(rows) * scale
        at = np.arange(scores.shape[1])
        own = problem.own[rows]
        top[rows] = scores.argmax(axis=0)
        mine = problem.prototype_class[:, None] == problem.label[None, rows]
        rival = np.where(mine, -np.inf, scores).max(axis=0)
        slack = np.where(mine, np.maximum(0.0, 1.0 + rival - scores), np.inf)
        best = slack.argmin(axis=0)
        least, present = slack[best, at], slack[own, at]
        winner[rows] = np.where(present <= least, own, best)
        loss[rows] = least
        excess[rows] = present - least

    run_blocks(look, n, source.block_size, problem.n_jobs)
    if problem.is_hard:
        losses = 0.0 if float(loss.max(initial=0.0)) <= 1e-9 else np.inf
    else:
        losses = float(problem.cap @ loss)
    value = 0.5 * scale**2 * norm2 + losses
    alive = np.zeros(R, dtype=bool)
    alive[top] = True
    return Energy(value, winner, float(excess.max(initial=0.0)), alive)


def separated_primal(norm2: float, margin: float) -> float:
    """P of the model scaled to margin exactly 1, infinite if it does not separate (1.12)."""
    return 0.5 * (_A_HAIR_MORE * np.sqrt(norm2) / margin) ** 2 if margin > 0.0 else np.inf


def rescaled_dual(norm2: float, own_sum: float) -> float:
    """D of the hard margin at the best multiple of the dual point (1.12).

    A norm that vanished in rounding counts as 1e-15 of the weight: D is then huge, not infinite.
    """
    if own_sum <= 0.0:
        return 0.0
    return 0.5 / max(norm2 / own_sum**2, 1e-30)


class _Landmarks:
    """Kernel values against the support patterns in float64, block by block."""

    def __init__(self, problem: Problem, support: np.ndarray) -> None:
        self.problem = problem
        self.support = support
        if problem.kernel.name != "precomputed":
            self.rows = _as_float64(problem.X[support])

    def block(self, rows: slice) -> np.ndarray:
        problem, kernel = self.problem, self.problem.kernel
        if kernel.name == "precomputed":
            return _as_float64(kernel.block(problem.X[rows], self.support, None, None))
        a = None if problem.norms is None else problem.norms[rows]
        b = None if problem.norms is None else problem.norms[self.support]
        return kernel.block(_as_float64(problem.X[rows]), self.rows, a, b)


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
    """Primal value (1.1) of any linear Crammer-Singer model, whoever trained it.

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
