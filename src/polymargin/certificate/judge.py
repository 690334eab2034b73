"""The judge of every machine of the table, with and without an unpenalised intercept.

Like ``certificate.judge`` it knows no solver and works in float64.  A dual value is a bound only at
a feasible point, so a free intercept's points are repaired first (19.4): ``repair`` lowers dual
variables until the column sums of the coefficients vanish.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from polymargin.certificate.certificate import Judgement, certify, score_source
from polymargin.certificate.intercepts import (
    Bias,
    best_bias,
    minimum_cycle_mean,
    minimum_norm_potential,
    pair_margins,
)
from polymargin.certificate.shared_intercept import shared_bias
from polymargin.problem.machines import Machine
from polymargin.problem.problem import Problem, run_blocks

__all__ = [
    "Values",
    "judge_machine",
    "linear_and_ridge",
    "repair",
    "signed_start",
    "signed_within_caps",
    "values_of",
]

_A_HAIR_MORE = 1.0 + 1e-11
"""Hard margins are scaled this much above the target: rounded scores must not fall below it."""


class Values(NamedTuple):
    """Primal and dual value of a feasible dual point and the model that P belongs to.

    The model is ``scale`` times (prototypes, intercept + bias.b); ``margin`` is the least lead of
    the own class (hard margins only, where models without a primal value are compared by it).
    """

    primal: float
    dual: float
    bias: Bias
    scale: float
    margin: float


def judge_machine(
    problem: Problem,
    support: np.ndarray,
    signed: np.ndarray,
    hint: np.ndarray | None = None,
    scores_of_all: np.ndarray | None = None,
) -> Judgement:
    """Certify the dual point whose rows ``support`` are the signed variables ``signed``.

    Parameters
    ----------
    problem : Problem
    support : (s,) pattern numbers.
    signed : (s, Q) their variables, exactly feasible; with a free intercept the column sums of
        their coefficients must vanish.
    hint : (Q,) or None
        An intercept to start the search for the best one from.
    scores_of_all : (n, Q) or None
        Receives the scores of all patterns, the free intercept not in them.
    """
    machine, own = problem.machine, problem.own[support]
    T = machine.coefficients(signed, own)
    _check_feasible(problem, own, problem.cap[support], signed, T)
    source = score_source(problem, support, T)
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
    norm2 = source.norm2
    if not problem.kernel.is_linear:
        norm2 = float((T * scores[support]).sum())
        weight = np.abs(T).T @ np.sqrt(problem.diagonal[support])
        if norm2 < -1e-9 * float(weight @ weight) and problem.kernel_psd is not True:
            raise ValueError(
                "kernel: T'K T is negative, the kernel matrix is not positive semi-definite "
                "on these data; use another kernel or add a multiple of the identity."
            )
        norm2 = max(norm2, 0.0)
    if np.isnan(norm2) or np.isnan(scores).any():
        raise ValueError("kernel: its values overflow on these data; scale the features of X.")
    reward, ridge = linear_and_ridge(problem, support, signed)
    if problem.has_free_bias and machine.K3 and not problem.is_hard:
        best = shared_bias(-machine.deficits(scores, problem.own), problem.own, problem.cap, hint)
        found = values_of(problem, scores, norm2, reward, ridge, best.b)
        found = found._replace(bias=best)
    else:
        found = values_of(problem, scores, norm2, reward, ridge, hint)
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
        certificate,
        W,
        intercept + found.bias.b,
        found.margin,
        norm2,
        found.scale,
        unique,
    )


def _check_feasible(
    problem: Problem, own: np.ndarray, cap: np.ndarray, signed: np.ndarray, T: np.ndarray
) -> None:
    violation = problem.machine.signed_violation(signed, own, cap)
    scale = float(np.abs(signed).max(initial=0.0))
    if problem.has_free_bias:
        # sums of thousands of terms: rounding grows with what is summed
        total = float(np.abs(T).sum(axis=0).max(initial=0.0))
        sums = float(np.abs(T.sum(axis=0)).max(initial=0.0))
        if sums > 1e-11 * total:
            raise FloatingPointError(f"the dual point is not balanced (by {sums:.1e})")
    if violation > 1e-9 * scale:
        raise FloatingPointError(f"the dual point is not feasible (by {violation:.1e})")


def linear_and_ridge(
    problem: Problem, support: np.ndarray, signed: np.ndarray
) -> tuple[float, float]:
    """The linear term of D, and what the ridge of M-SVM^2 adds to ||w||^2 (0 elsewhere)."""
    machine, own = problem.machine, problem.own[support]
    reward = machine.reward(signed, own)
    if machine.p == 1 or problem.is_hard:
        return reward, 0.0
    T = machine.coefficients(signed, own)
    return reward, float((T**2).sum(axis=1) @ (0.5 / problem.cap[support]))


def values_of(
    problem: Problem,
    scores: np.ndarray,
    norm2: float,
    reward: float,
    ridge: float,
    hint: np.ndarray | None,
) -> Values:
    """P and D of a feasible point from the scores (n, Q) of all examples without free intercept.

    ``hint`` is where the search for the best intercept starts; with one slack per example, whose
    best intercept is a linear programme, it is the intercept.
    """
    machine = problem.machine
    if problem.is_hard:
        return _hard_values(problem, scores, norm2, reward)
    zero = Bias(np.zeros(problem.n_prototypes), 0.0)
    bias = zero
    if problem.has_free_bias:
        if machine.K3:
            bias = zero if hint is None else Bias(hint - hint.mean(), 0.0)
        else:
            bias = best_bias(machine, scores, problem.own, problem.cap, hint)
    shifted = scores + bias.b if problem.has_free_bias else scores
    losses = machine.loss(shifted, problem.own)
    primal = 0.5 * norm2 + float(problem.cap @ losses)
    dual = reward - 0.5 * (norm2 + ridge)
    return Values(primal, dual, bias, 1.0, np.nan)


def least_lead(scores: np.ndarray, own: np.ndarray) -> float:
    """min_i (h_{y_i} - max of the others)."""
    return float(pair_margins(scores, own).min())


def _hard_values(problem: Problem, scores: np.ndarray, norm2: float, reward: float) -> Values:
    """The rescaled pair: (1.12), (4.11), (5.10)."""
    machine, own = problem.machine, problem.own
    dual = 0.0 if reward <= 0.0 else 0.5 / max(norm2 / reward / reward, 1e-30)
    zero = Bias(np.zeros(problem.n_prototypes), 0.0)
    lead = least_lead(scores, own)
    if not problem.has_free_bias:
        scale, bias = _scale_to_targets(machine, scores, own), zero
    elif machine.K1:
        scale, bias = _balanced_scale(scores, own, machine.rival_target(scores.shape[1]))
    else:
        scale, bias = _column_scale(scores, own, machine.rival_target(scores.shape[1]))
    if scale is None:
        return Values(np.inf, dual, zero, 1.0, lead)
    if problem.has_free_bias:
        lead = least_lead(scores + bias.b, own)
    return Values(0.5 * scale**2 * norm2, dual, bias, scale, lead)


def _scale_to_targets(machine: Machine, scores: np.ndarray, own: np.ndarray) -> float | None:
    """The factor that lifts every constraint to its target, if they all are on the right side."""
    Q = scores.shape[1]
    lack = machine.deficits(scores, own)
    target = np.full(lack.shape, machine.rival_target(Q))
    target[np.arange(len(own)), own] = machine.target_of_own(Q)
    there = np.isfinite(lack)
    reached = (target - lack)[there]
    if not (reached > 0.0).all():
        return None
    return float(_A_HAIR_MORE * (target[there] / reached).max())


def _balanced_scale(
    scores: np.ndarray, own: np.ndarray, target: float
) -> tuple[float | None, Bias]:
    """(4.11): the largest margin over all b is the minimum cycle mean; b are potentials."""
    d = pair_margins(scores, own)
    rho = minimum_cycle_mean(d)
    zero = Bias(np.zeros(len(d)), 0.0)
    if not rho > 0.0:
        return None, zero
    scale = _A_HAIR_MORE * target / rho
    upper = d * scale - target  # b_c - b_a <= upper_ac
    np.fill_diagonal(upper, 0.0)
    potential = np.zeros(len(d))
    for _ in range(len(d)):
        potential = (potential[:, None] + upper).min(axis=0)
    found = minimum_norm_potential(upper, potential)
    return scale, Bias(found.b / scale, found.width)


def _column_scale(scores: np.ndarray, own: np.ndarray, target: float) -> tuple[float | None, Bias]:
    """(5.9): all columns reach the target together; b is unique."""
    Q = scores.shape[1]
    masked = scores.copy()
    masked[np.arange(len(own)), own] = -np.inf
    highest = masked.max(axis=0)
    mean = float(highest.mean())
    if not mean < 0.0:
        return None, Bias(np.zeros(Q), 0.0)
    return _A_HAIR_MORE * target / -mean, Bias(mean - highest, 0.0)


def signed_start(problem: Problem, T: np.ndarray) -> np.ndarray | None:
    """Signed variables within the present bounds from coefficients of an earlier fit.

    None where the coefficients do not determine them (an own constraint beside the rivals').
    """
    machine, own = problem.machine, problem.own
    if machine.own_target is not None:
        return None
    return signed_within_caps(problem, np.minimum(machine.signed(T, own), 0.0))


def signed_within_caps(problem: Problem, signed: np.ndarray) -> np.ndarray:
    """Signed variables of rivals (n, Q), scaled or clipped into the caps row by row."""
    machine, cap = problem.machine, problem.cap[:, None]
    if machine.p == 2:
        return signed
    if not machine.K3:
        return np.maximum(signed, -cap)
    total = -signed.sum(axis=1, keepdims=True)
    return np.asarray(signed * np.minimum(1.0, cap / np.maximum(total, 1e-300)))


# -- repair ------------------------------------------------------------------------------------


def repair(machine: Machine, signed: np.ndarray, own: np.ndarray, lack: np.ndarray) -> np.ndarray:
    """The nearest point by lowering alone whose coefficients have vanishing column sums (19.4).

    Variables whose constraints are met best (``lack`` lowest) are lowered first: that costs the
    dual value least, and few patterns change.
    """
    alpha = -signed
    rows = np.arange(len(own))
    alpha[rows, own] = 0.0
    if machine.K1:
        flow = np.zeros((signed.shape[1], signed.shape[1]))
        np.add.at(flow, own, alpha)
        excess = _excess_flow(flow)
        for a, c in zip(*np.nonzero(excess), strict=True):
            _lower(
                alpha[:, c],
                np.flatnonzero((own == a) & (alpha[:, c] > 0.0)),
                lack[:, c],
                excess[a, c],
            )
        # what rounding left over is settled on the largest flows
        _settle(alpha, own)
    else:
        sums = alpha.sum(axis=0)
        for k in np.flatnonzero(sums > sums.min()):
            _lower(alpha[:, k], np.flatnonzero(alpha[:, k] > 0.0), lack[:, k], sums[k] - sums.min())
    repaired = -alpha
    repaired[rows, own] = 0.0
    return repaired


def _lower(column: np.ndarray, entries: np.ndarray, lack: np.ndarray, amount: float) -> None:
    """Take ``amount`` from the entries of a column, best met constraints first; in place."""
    order = entries[np.argsort(lack[entries], kind="stable")]
    ends = np.cumsum(column[order])
    last = int(np.searchsorted(ends, amount))
    if last >= len(order):
        column[order] = 0.0
        return
    left = ends[last] - amount
    column[order[:last]] = 0.0
    column[order[last]] = left


def _excess_flow(flow: np.ndarray) -> np.ndarray:
    """What to take from the flow between classes so that every class is balanced (19.4).

    The excess is a sum of paths from classes with too much outflow to classes with too much inflow;
    shortest paths along arcs with flow are cancelled one after the other.
    """
    Q = len(flow)
    rest = flow.copy()
    excess = np.zeros((Q, Q))
    negligible = 1e-15 * flow.sum()
    balance = rest.sum(axis=1) - rest.sum(axis=0)
    for _ in range(4 * Q * Q):
        start = int(balance.argmax())
        if balance[start] <= negligible:
            break
        path = _path_to_need(rest, balance, start, negligible)
        if path is None:
            break
        arcs = list(pairwise(path))
        amount = min([balance[start], -balance[path[-1]], *(rest[arc] for arc in arcs)])
        for arc in arcs:
            rest[arc] -= amount
            excess[arc] += amount
        balance[start] -= amount
        balance[path[-1]] += amount
    return excess


def _path_to_need(
    rest: np.ndarray, balance: np.ndarray, start: int, negligible: float
) -> list[int] | None:
    before = {start: start}
    frontier = [start]
    while frontier:
        reached = []
        for a in frontier:
            for c in np.flatnonzero(rest[a] > 0.0):
                if c in before:
                    continue
                before[int(c)] = a
                if balance[c] < -negligible:
                    path = [int(c)]
                    while path[-1] != start:
                        path.append(before[path[-1]])
                    return path[::-1]
                reached.append(int(c))
        frontier = reached
    return None


def _settle(alpha: np.ndarray, own: np.ndarray) -> None:
    """Repeat the balancing on what rounding left, lowering the largest variables; in place."""
    Q = alpha.shape[1]
    for _ in range(3):
        flow = np.zeros((Q, Q))
        np.add.at(flow, own, alpha)
        balance = flow.sum(axis=1) - flow.sum(axis=0)
        if np.abs(balance).max(initial=0.0) <= 1e-15 * flow.sum():
            return
        excess = _excess_flow(flow)
        for a, c in zip(*np.nonzero(excess), strict=True):
            members = np.flatnonzero(own == a)
            largest = members[alpha[members, c].argmax()]
            alpha[largest, c] = max(alpha[largest, c] - excess[a, c], 0.0)
