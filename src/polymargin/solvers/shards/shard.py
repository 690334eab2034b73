"""One shard: a part of the rows of a linear problem, its dual variables, and its part of a round.

Problem card.  The dual D(V) = sum_i l_i(V_i) - 1/2 ||W||^2 (20.1) is shared by K shards that see
the same prototypes W.  In a round (A37) a shard improves its own variables V_k on

    max over d   sum_{i in k} l_i(V_i + d_i) - <W, dW_k> - sigma/2 ||dW_k||^2              (20.2)

and hands back dW_k with its gain; the leader joins all changes by one exact line search (20.3).

The substitution V' = sigma V turns (20.2) into the ordinary problem with caps sigma C_i, so the
compiled loops of one machine serve here without change: variables and caps of a shard are stored
times sigma, and everything that leaves the shard is divided by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from polymargin.compiled.pattern_descent import shuffle
from polymargin.compiled.shard_changes import changed_since
from polymargin.compiled.totals import empty_totals
from polymargin.problem.problem import Problem, row_blocks
from polymargin.solvers.run import seed_state
from polymargin.solvers.shards.shard_variables import (
    MachineBlocks,
    PatternBlocks,
    Prototypes,
    ShardSums,
)

__all__ = ["LocalStep", "Shard", "why_not_sharded"]

_RELAXATIONS = (1.4, 1.4, 1.4, 1.0, 0.7)
"""Over-relaxation of the passes of one round, damped at its end: over-relaxed steps leave noise in
the margins, which the primal value sees (measured for one shard, see benchmarks/NOTES.md)."""

_FIRST_BLOCK = 512
"""Rows whose scores are computed together in the first pass."""


class LocalStep(NamedTuple):
    """What a shard hands back after its part of a round.

    ``change`` is dW_k, ``gain`` the change of sum l_i to first order along it, ``curvature`` the
    shard's own quadratic term (M-SVM^2), ``before`` the sums at the point the round began with.
    """

    change: Prototypes
    gain: float
    curvature: float
    before: ShardSums
    steps: int


def why_not_sharded(problem: Problem) -> str | None:
    """Why a problem cannot be divided into shards, if it cannot."""
    if not problem.kernel.is_linear:
        return "shards keep explicit prototypes, which only kernel='linear' has"
    if problem.has_free_bias:
        return (
            "a free intercept couples all rows through the sums of their coefficients; "
            "use intercept='penalized'"
        )
    if problem.is_hard:
        return "the hard margin (C=inf) rescales all dual variables together; use a finite C"
    return None


class Shard:
    """The rows of one part with their dual variables.

    Parameters
    ----------
    problem : Problem
        Of these rows alone: linear kernel, finite caps, no free intercept.
    seed : int
        Of the visiting order.
    variables : (n, R) array or None
        Variables to start from: signed for block machines, tau for Crammer-Singer.
    why_stop : callable
        Asked a few times a second; a true answer ends the passes of the round early.
    """

    def __init__(
        self,
        problem: Problem,
        seed: int = 0,
        variables: np.ndarray | None = None,
        why_stop: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.problem = problem
        self.why_stop = why_stop
        kind = PatternBlocks if problem.machine.is_crammer_singer else MachineBlocks
        shape = (problem.n_patterns, problem.n_prototypes)
        start = np.zeros(shape) if variables is None else np.array(variables, dtype=np.float64)
        self.blocks: PatternBlocks | MachineBlocks = kind(problem, start)
        self.random = seed_state(seed)
        self.queue = np.empty(problem.n_patterns, dtype=np.int64)
        self.moved: np.ndarray = np.empty(0, dtype=np.int64)
        self.held = np.empty((0, shape[1]))
        self.past: np.ndarray | None = None  # variables before the last extrapolation
        self.is_fresh = True  # no round has begun

    # -- a round -----------------------------------------------------------------------------

    def advance(self, model: Prototypes, sigma: float, passes: int) -> LocalStep:
        """The shard's part of a round: some passes on (20.2); the change waits for ``settle``."""
        blocks = self.blocks
        blocks.rescale(sigma)
        blocks.show(model)
        begins = self.is_fresh and not model.weights.any() and not blocks.variables.any()
        self.is_fresh = False
        if begins and isinstance(blocks, PatternBlocks):
            return self._first_round(blocks, passes)
        end, before = blocks.look(self.queue)
        self.moved = self.queue[:end].copy()
        self.held = blocks.variables[self.moved]
        steps = self._passes(end, passes)
        return self._step(before, steps)

    def _first_round(self, blocks: PatternBlocks, passes: int) -> LocalStep:
        """All is zero: a pass in blocks with the prototypes as they grow, then the usual passes.

        Every block takes each k-th row, so that rows sorted by class still mix.
        """
        n = self.problem.n_patterns
        count = max(1, n // _FIRST_BLOCK)
        random = np.random.default_rng(int(self.random[0] >> np.uint64(1)))
        steps = 0
        for c in random.permutation(count).tolist():
            end = blocks.screen_rows(slice(c, n, count), self.queue, 0, empty_totals())
            steps += blocks.visit(self.queue, end, _RELAXATIONS[0], self.why_stop)[0]
            if self.why_stop():
                break
        steps += self._passes(blocks.look(self.queue)[0], passes)
        self.moved, self.held = blocks.everyone, self.held[:0]
        return self._step(ShardSums(float(self.problem.cap.sum()), 0.0, 0.0, 0), steps)

    def settle(self, theta: float, beta: float = 0.0) -> Prototypes:
        """V <- V + theta d (20.3), then on in the direction of the last two rounds by ``beta``.

        The extrapolated point has its signs and caps restored; what that changes in W_k comes
        back, so that the leader knows W.
        """
        blocks = self.blocks
        if theta != 1.0 and len(self.moved):
            blocks.mix(self.held, self.moved, theta)
        self.moved, self.held = self.moved[:0], self.held[:0]
        rows = self.moved
        if self.past is not None:
            count = changed_since(blocks.variables, blocks.sigma, self.past, self.queue)
            rows = self.queue[:count].copy()
        elif beta:
            self.past = blocks.variables / blocks.sigma
        now = blocks.variables[rows] / blocks.sigma
        if self.past is None or beta == 0.0:
            V = now
        else:
            V = blocks.feasible(now + beta * (now - self.past[rows]), rows)
            blocks.variables[rows] = V * blocks.sigma
            blocks.forget(rows)
        if self.past is not None:
            self.past[rows] = now
        T = blocks.coefficients((V - now) * blocks.sigma, rows)
        return blocks.prototypes(rows, T)

    def _passes(self, end: int, passes: int) -> int:
        """Passes over the listed patterns in random order; the number of steps made."""
        steps = 0
        for k in range(passes):
            relaxation = _RELAXATIONS[max(len(_RELAXATIONS) - passes + k, 0)]
            shuffle(self.queue, end, self.random)
            made, end = self.blocks.visit(self.queue, end, relaxation, self.why_stop)
            steps += made
            if not end or not made or self.why_stop():
                break
        return steps

    def _step(self, before: ShardSums, steps: int) -> LocalStep:
        change, gain, curvature = self.blocks.change(self.held, self.moved)
        return LocalStep(change, gain, curvature, before, steps)

    # -- what the leader asks now and then -----------------------------------------------------

    def prototypes(self) -> Prototypes:
        """W_k from the variables, free of drift."""
        blocks = self.blocks
        return blocks.change(np.empty((0, blocks.variables.shape[1])), blocks.everyone)[0]

    def sums(self, model: Prototypes) -> ShardSums:
        """Loss at the prototypes and dual terms of the variables, in float64."""
        problem, blocks = self.problem, self.blocks
        loss = 0.0
        u = np.sqrt(problem.kernel.offset)
        size = 65_536 // (problem.n_prototypes + problem.X.shape[1])  # rows that stay in the cache
        for rows in row_blocks(problem.n_patterns, max(256, size)):
            scores = np.asarray(problem.X[rows] @ model.weights.T, dtype=np.float64)
            scores += u * model.constant
            loss += float(problem.cap[rows] @ _losses(problem, scores, rows))
        return ShardSums(loss, *blocks.dual_terms())

    @property
    def variables(self) -> np.ndarray:
        """(n, R) dual variables (tau, or signed variables), divided by sigma."""
        return self.blocks.variables / self.blocks.sigma

    def support_tau(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows with weight and their Crammer-Singer coefficients, divided by sigma."""
        tau = self.blocks.variables
        support = np.flatnonzero(tau[np.arange(len(tau)), self.problem.own])
        return support, tau[support] / self.blocks.sigma


def _losses(problem: Problem, scores: np.ndarray, rows: slice) -> np.ndarray:
    """Loss of each row of a block from its scores (k, R), which are overwritten."""
    own = problem.own[rows]
    if problem.has_one_prototype_per_class:
        if not problem.machine.K1:
            scores -= scores.mean(axis=1, keepdims=True)
        return problem.machine.loss(scores, own)
    mine = scores[np.arange(len(own)), own].copy()
    scores[problem.prototype_class[None, :] == problem.label[rows, None]] = -np.inf
    return np.maximum(0.0, 1.0 - mine + scores.max(axis=1))
