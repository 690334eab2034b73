"""Primal and dual value of a dual point from what is known of its scores.

The judge computes those scores itself; solvers call the same functions with the scores they have.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polymargin.certificate.intercepts import (
    Bias,
    best_bias,
    minimum_cycle_mean,
    minimum_norm_potential,
    pair_margins,
)
from polymargin.problem.machines import Machine
from polymargin.problem.problem import Problem

__all__ = [
    "A_HAIR_MORE",
    "Objective",
    "linear_and_ridge",
    "merit",
    "rescaled_dual",
    "separated_primal",
    "values_of",
    "values_of_sums",
]

A_HAIR_MORE = 1.0 + 1e-11
"""A separating model is scaled to a margin this much above its target: rounded scores must not
cost C times a slack."""


class Objective(NamedTuple):
    """Primal and dual value of a feasible dual point and the model that P belongs to.

    The model is ``scale`` times (prototypes, intercept + bias.b); ``margin`` is the least lead of
    the own class (hard margins only, where models without a primal value are compared by it).
    """

    primal: float
    dual: float
    bias: Bias
    scale: float
    margin: float


def merit(primal: float, margin: float, norm2: float) -> tuple[float, float]:
    """What models are compared by: P, or while that is infinite the largest geometrical margin."""
    if primal < np.inf:
        return 0.0, primal
    return 1.0, -margin / np.sqrt(norm2) if norm2 > 0.0 else np.inf


def separated_primal(norm2: float, margin: float, target: float = 1.0) -> float:
    """P of the model scaled to margin ``target``, infinite if it does not separate (1.12)."""
    return 0.5 * (A_HAIR_MORE * target * np.sqrt(norm2) / margin) ** 2 if margin > 0.0 else np.inf


def rescaled_dual(norm2: float, reward: float) -> float:
    """D of the hard margin at the best multiple of the dual point (1.12), (5.10).

    A norm that vanished in rounding counts as 1e-15 of the weight: D is then huge, not infinite.
    """
    if reward <= 0.0:
        return 0.0
    return 0.5 / max(norm2 / reward / reward, 1e-30)


def values_of_sums(
    problem: Problem, norm2: float, loss: float, own: float, margin: float
) -> tuple[float, float]:
    """P and D of Crammer-Singer from sums: (1.1), (1.2), or (1.12) where a model is scaled.

    ``loss`` is sum_i C_i xi_i, ``own`` is sum_i tau_{i,a_i}, less ⟨M - M_0, M_0⟩ with a centre and
    plus ``problem.extra_reward`` with costs.
    """
    separated = separated_primal(norm2, margin)
    if problem.is_hard:
        return separated, rescaled_dual(norm2, own)
    if not problem.may_rescale:
        return 0.5 * norm2 + loss, own - 0.5 * norm2
    return min(0.5 * norm2 + loss, separated), own - 0.5 * norm2


def linear_and_ridge(
    problem: Problem, support: np.ndarray, signed: np.ndarray
) -> tuple[float, float]:
    """The linear term of D, and what the ridge of a quadratic loss adds to ||w||^2."""
    machine, own = problem.machine, problem.own[support]
    reward = machine.reward(signed, own) + problem.extra_reward(signed, support)
    if machine.p == 1 or problem.is_hard:
        return reward, 0.0
    square = (signed * machine.smoothed(signed, own)).sum(axis=1)
    return reward, float(square @ (0.5 / problem.cap[support]))


def values_of(
    problem: Problem,
    scores: np.ndarray,
    norm2: float,
    reward: float,
    ridge: float,
    hint: np.ndarray | None,
    may_search: bool = True,
) -> Objective:
    """P and D of a feasible point from the scores (n, Q) of all examples without free intercept.

    ``hint`` is where the search for the best intercept starts.  It is the intercept itself without
    ``may_search``, and with one slack per example, where the best one is a linear programme.
    """
    machine = problem.machine
    if problem.is_hard:
        return _hard_values(problem, scores, norm2, reward)
    scores = problem.raised(scores)
    zero = Bias(np.zeros(problem.n_prototypes), 0.0)
    bias = zero
    if problem.has_free_bias:
        if machine.K3 or not may_search:
            bias = zero if hint is None else Bias(hint - hint.mean(), 0.0)
        else:
            bias = best_bias(machine, scores, problem.own, problem.cap, hint)
    shifted = scores + bias.b if problem.has_free_bias else scores
    losses = machine.loss(shifted, problem.own)
    primal = 0.5 * norm2 + float(problem.cap @ losses)
    dual = reward - 0.5 * (norm2 + ridge)
    return Objective(primal, dual, bias, 1.0, np.nan)


def least_lead(scores: np.ndarray, own: np.ndarray) -> float:
    """min_i (h_{y_i} - max of the others)."""
    return float(pair_margins(scores, own).min())


def _hard_values(problem: Problem, scores: np.ndarray, norm2: float, reward: float) -> Objective:
    """The rescaled pair: (1.12), (4.11), (5.10)."""
    machine, own = problem.machine, problem.own
    target = machine.rival_target(scores.shape[1])
    dual = rescaled_dual(norm2, reward)
    zero = Bias(np.zeros(problem.n_prototypes), 0.0)
    lead = least_lead(scores, own)
    if not problem.has_free_bias:
        scale, bias = _scale_to_targets(machine, scores, own), zero
    elif machine.K1:
        scale, bias = _balanced_scale(scores, own, target)
    else:
        scale, bias = _column_scale(scores, own, target)
    if scale is None:
        return Objective(np.inf, dual, zero, 1.0, lead)
    if problem.has_free_bias:
        lead = least_lead(scores + bias.b, own)
    return Objective(0.5 * scale**2 * norm2, dual, bias, scale, lead)


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
    return float(A_HAIR_MORE * (target[there] / reached).max())


def _balanced_scale(
    scores: np.ndarray, own: np.ndarray, target: float
) -> tuple[float | None, Bias]:
    """(4.11): the largest margin over all b is the minimum cycle mean; b are potentials."""
    d = pair_margins(scores, own)
    rho = minimum_cycle_mean(d)
    zero = Bias(np.zeros(len(d)), 0.0)
    if not rho > 0.0:
        return None, zero
    scale = A_HAIR_MORE * target / rho
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
    return A_HAIR_MORE * target / -mean, Bias(mean - highest, 0.0)
