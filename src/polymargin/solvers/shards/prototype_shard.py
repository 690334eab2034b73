"""A shard of the multi-prototype machine: assignments and draws belong to its examples.

Between two draws it is a shard like any other (20.1)-(20.3); a draw reads the prototypes that all
shards share, moves dual weight with the examples, and hands back what that changes in W_k.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from polymargin.compiled.reassignment import reassign
from polymargin.compiled.totals import BEST_LOSS, DRAWN_LOSS, MOVED, OWN_LOSS, empty_totals
from polymargin.problem.problem import Problem, row_blocks
from polymargin.solvers.shards.part import LinearSpec
from polymargin.solvers.shards.shard import Shard
from polymargin.solvers.shards.shard_variables import PatternBlocks, Prototypes

__all__ = ["EnergyPart", "PrototypeShard", "PrototypeSpec", "Reassigned"]


@dataclass(frozen=True)
class PrototypeSpec(LinearSpec):
    """A multi-prototype problem without its rows; ``counts`` (Q,) prototypes of each class."""

    counts: np.ndarray

    @property
    def prototype_class(self) -> np.ndarray:
        """(R,) class of each prototype."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @property
    def first(self) -> np.ndarray:
        """(Q + 1,) the prototypes of class c are ``first[c]`` to ``first[c + 1] - 1``."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    @property
    def shape(self) -> tuple[int, int]:
        """Of the prototypes."""
        return int(self.counts.sum()), self.n_features

    def problem(self, X: Any, y: Any, weight: Any = None) -> Problem:
        """Every example with the first prototype of its class."""
        found = super().problem(X, y, weight)
        own = self.first[found.label].astype(np.int64)
        return found.changed(own=own, prototype_class=self.prototype_class)


class Reassigned(NamedTuple):
    """What a draw did: change of W_k, losses with the best, the old and the new assignment."""

    change: Prototypes
    best: float
    own: float
    drawn: float
    moved: int


class EnergyPart(NamedTuple):
    """sum_i C_i min_r xi_i^r, which prototypes win an example, and what a change could gain."""

    loss: float
    alive: np.ndarray
    excess: float


class PrototypeShard(Shard):
    """Rows with assignments; ``own`` of its problem changes in place.

    Parameters
    ----------
    problem, seed, variables, why_stop
        As of ``Shard``.
    own : (n,) array or None
        The assignment that belongs to ``variables``.
    """

    blocks: PatternBlocks

    def __init__(
        self,
        problem: Problem,
        seed: int = 0,
        variables: np.ndarray | None = None,
        why_stop: Callable[[], str | None] = lambda: None,
        own: np.ndarray | None = None,
    ) -> None:
        self.plain = problem.changed(own=np.array(problem.own if own is None else own))
        super().__init__(self.plain, seed, variables, why_stop)
        n, classes = problem.n_patterns, problem.prototype_class
        self.first = np.searchsorted(classes, np.arange(int(classes[-1]) + 2))
        self.is_assigned = own is not None
        self.winner = self.plain.own.copy()
        self.best = self.plain.own.copy()
        self.pairs = np.empty((n, 2), dtype=np.int64)

    @property
    def own(self) -> np.ndarray:
        """(n,) prototype of each example."""
        return self.plain.own

    # -- the first assignment ------------------------------------------------------------------

    def begin(self, centres: np.ndarray | None, offset: np.ndarray | None, seed: int) -> None:
        """Assign by the largest ``X centres' + offset`` within the class; None: at random.

        The assignment of a checkpoint stays.
        """
        if self.is_assigned:
            return
        if centres is None:
            random = np.random.default_rng(seed)
            low, high = self.first[self.plain.label], self.first[self.plain.label + 1]
            self.own[:] = random.integers(low, high) if len(low) else low
        else:
            self._assign(centres, offset)
        self.is_assigned = True
        self.blocks.forget(self.blocks.everyone)

    def adopt(self, model: Prototypes, root: np.ndarray | None) -> None:
        """A shard that was made anew takes the assignment that the prototypes prefer."""
        if self.is_assigned:
            return
        if root is not None:
            self.measure(root)
        self._assign(model.weights, np.sqrt(self.plain.kernel.offset) * model.constant)
        self.is_assigned = True

    def _assign(self, W: np.ndarray, offset: Any) -> None:
        problem = self.problem
        for rows in self._row_blocks():
            scores = np.asarray(problem.X[rows] @ W.T, dtype=np.float64)
            scores += 0.0 if offset is None else offset
            scores[problem.prototype_class[None, :] != problem.label[rows, None]] = -np.inf
            self.own[rows] = scores.argmax(axis=1)

    def measure(self, root: np.ndarray | None) -> None:
        """Rows times a root of the metric from now on (None: as they are); variables are zero."""
        plain = self.plain
        self.problem = plain
        if root is not None:
            X = np.ascontiguousarray(plain.X @ root.astype(plain.X.dtype))
            self.problem = plain.changed(X=X)
        shape = (plain.n_patterns, plain.n_prototypes)
        self.blocks = PatternBlocks(self.problem, np.zeros(shape))
        self._start_anew()

    def _start_anew(self) -> None:
        self.past = None
        self.moved = self.moved[:0]
        self.held = self.held[:0]

    # -- draws -----------------------------------------------------------------------------------

    def weights(self) -> np.ndarray:
        """(R,) sum of C_i of the examples of every prototype."""
        return np.bincount(self.own, self.plain.cap, len(self.plain.prototype_class))

    def reassign(
        self, model: Prototypes, temperature: float, pull: np.ndarray, tol: float, zeroing: bool
    ) -> Reassigned:
        """Draw by (3.5), at temperature 0 the smallest slack; below 0 only count."""
        blocks = self.blocks
        blocks.show(model)
        totals = empty_totals()
        shift = (blocks.field.constant * blocks.scale).astype(blocks.field_dtype)
        end = 0
        for rows in row_blocks(self.plain.n_patterns, max(256, 16384 // blocks.n_field)):
            end = int(
                reassign(
                    blocks.scores(rows),
                    shift,
                    np.ascontiguousarray(blocks.everyone[rows]),
                    blocks.duals,
                    self.first,
                    float(temperature),
                    pull,
                    float(tol),
                    self.random,
                    self.winner,
                    self.pairs,
                    end,
                    totals,
                )
            )
        patterns, left = self.pairs[:end].T
        change = self._transfer(patterns, left, zeroing)
        best, own, drawn = (
            float(totals[k]) / blocks.sigma for k in (BEST_LOSS, OWN_LOSS, DRAWN_LOSS)
        )
        return Reassigned(change, best, own, drawn, int(totals[MOVED]))

    def _transfer(self, patterns: np.ndarray, left: np.ndarray, zeroing: bool) -> Prototypes:
        """Dual weight goes to the new prototypes, or is given up (A13); the change of W_k."""
        blocks = self.blocks
        before = blocks.variables[patterns]
        if zeroing:
            blocks.variables[patterns] = 0.0
        else:
            weight = blocks.variables[patterns, left]
            blocks.variables[patterns, left] = 0.0
            blocks.variables[patterns, self.own[patterns]] = weight
        blocks.forget(patterns)
        self._start_anew()
        return blocks.prototypes(patterns, (blocks.variables[patterns] - before) / blocks.sigma)

    def keep(self) -> None:
        """Remember the assignment of the smallest slacks that the last draw saw."""
        self.best[:] = self.winner

    def swap(self) -> None:
        """Go to the remembered assignment, and remember the present one."""
        patterns = np.flatnonzero(self.own != self.best)
        left = self.own[patterns].copy()
        self.own[patterns] = self.best[patterns]
        self.best[patterns] = left
        self._transfer(patterns, left, zeroing=False)

    # -- what it is worth --------------------------------------------------------------------------

    def energy(self, model: Prototypes) -> EnergyPart:
        """The shard's part of E (2.1), in float64."""
        problem = self.problem
        loss = excess = 0.0
        alive = np.zeros(problem.n_prototypes, dtype=bool)
        u = np.sqrt(problem.kernel.offset)
        for rows in self._row_blocks():
            scores = np.asarray(problem.X[rows] @ model.weights.T, dtype=np.float64)
            scores += u * model.constant
            alive[scores.argmax(axis=1)] = True
            mine = problem.prototype_class[None, :] == problem.label[rows, None]
            rival = np.where(mine, -np.inf, scores).max(axis=1)
            least = np.maximum(0.0, 1.0 + rival - np.where(mine, scores, -np.inf).max(axis=1))
            own = scores[np.arange(len(scores)), self.own[rows]]
            loss += float(problem.cap[rows] @ least)
            gained = np.maximum(0.0, 1.0 + rival - own) - least
            excess = max(excess, float(gained.max(initial=0.0)))
        return EnergyPart(loss, alive, excess)

    def _row_blocks(self) -> Any:
        return row_blocks(self.plain.n_patterns, max(64, 500_000 // self.plain.n_prototypes))
