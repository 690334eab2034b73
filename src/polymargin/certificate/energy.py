"""The energy of the multi-prototype machine: the objective over prototypes and assignments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polymargin.certificate.training_scores import TrainingScores
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem, run_blocks

__all__ = ["Energy", "energy"]


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


def energy(problem: Problem, point: DualPoint, norm2: float, scale: float = 1.0) -> Energy:
    """E of the model ``scale`` times the dual point; ``norm2`` is its squared norm before scaling.

    Parameters
    ----------
    problem : Problem
    point : DualPoint
    norm2, scale : float
        From the Judgement of that point.
    """
    n, R = problem.n_patterns, problem.n_prototypes
    source = TrainingScores(problem, point.support, point.coefficients(problem))
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
        rival = np.where(mine, -np.inf, problem.raised(scores.T, rows).T).max(axis=0)
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
