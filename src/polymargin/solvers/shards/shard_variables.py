"""The dual variables of a shard beside its rows, in the language of the compiled loops.

Variables and caps are stored times sigma (see ``shard``); what leaves is divided by it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from polymargin.certificate.training_scores import prototypes
from polymargin.compiled.block_descent import descend_blocks
from polymargin.compiled.block_lists import enlist
from polymargin.compiled.block_variables import make_blocks
from polymargin.compiled.pattern_descent import descend, make_duals, screen
from polymargin.compiled.shard_changes import add_change, mix
from polymargin.compiled.totals import LOSS, OWN, STEPS, VISITS, empty_totals
from polymargin.problem.kernels import dense_scores
from polymargin.problem.problem import Problem, row_blocks
from polymargin.solvers.block_scores import centred
from polymargin.solvers.costs import Budget
from polymargin.solvers.linear_fields import make_field, set_prototypes, sparse_scores

__all__ = ["MachineBlocks", "PatternBlocks", "Prototypes", "ShardSums"]


class Prototypes(NamedTuple):
    """Prototypes of a linear machine: ``weights`` (R, d) and the weight of the constant feature."""

    weights: np.ndarray
    constant: np.ndarray

    @property
    def norm2(self) -> float:
        """||W||^2, the constant feature counted."""
        return self.product(self)

    def product(self, other: Prototypes) -> float:
        """⟨W, W'⟩."""
        return float(np.vdot(self.weights, other.weights) + np.vdot(self.constant, other.constant))

    def plus(self, other: Prototypes, factor: float = 1.0) -> Prototypes:
        """W + factor W'."""
        return Prototypes(
            self.weights + factor * other.weights, self.constant + factor * other.constant
        )


class ShardSums(NamedTuple):
    """The part of a shard in primal and dual value.

    ``loss`` is sum_i C_i loss_i at the prototypes it was shown, ``reward`` the linear term of D and
    ``ridge`` sum_i ||T_i||^2 / (2 C_i) of M-SVM^2 (0 elsewhere) at its variables.
    """

    loss: float
    reward: float
    ridge: float
    n_support: int


class _LinearBlocks:
    """What both kinds of variables share: rows, the field, sums that leave the shard."""

    def __init__(self, problem: Problem, variables: np.ndarray) -> None:
        self.problem = problem
        self.sigma = 1.0
        self.variables = variables  # times sigma
        self.n_field = problem.n_prototypes + (0 if problem.machine.K1 else 1)
        self.scale = float(np.sqrt(problem.kernel.offset))
        field, self.place = make_field(problem, False, self.n_field, self.scale)
        self.field: Any = field
        rows = problem.rows
        width = rows.nnz / max(rows.shape[0], 1) if hasattr(rows, "nnz") else rows.shape[1]
        self.budget = Budget(30.0 + width)
        self.everyone = np.arange(problem.n_patterns)
        self.single = False  # whether scores of float32 rows are float32

    def show(self, model: Prototypes) -> None:
        """The prototypes that all shards see; absolute margins have an anchor, which is zero."""
        W, constant = model.weights, model.constant
        if self.n_field > len(W):
            W = np.concatenate([W, np.zeros((1, W.shape[1]))])
            constant = np.append(constant, 0.0)
        set_prototypes(self.field, self.place, W)
        self.field.constant[:] = constant
        self.single = model.weights.dtype == np.float32 == self.problem.X.dtype

    def scores(self, rows: slice) -> np.ndarray:
        """(R, k) scores of a block of rows, without the constant feature."""
        if self.place is not None:
            return sparse_scores(self.field, self.everyone[rows], self.n_field)
        W = self.field.W.astype(np.float32) if self.single else self.field.W
        return dense_scores(W, self.field.X[rows])

    def prototypes(self, rows: np.ndarray, T: np.ndarray) -> Prototypes:
        """sum_i T_i x_i, from coefficients that are not times sigma."""
        return Prototypes(prototypes(self.problem, rows, T), self.scale * T.sum(axis=0))

    def forget(self, rows: np.ndarray) -> None:
        """The variables of these rows were changed from outside the compiled loop."""

    def mix(self, held: np.ndarray, rows: np.ndarray, theta: float) -> None:
        """V <- held + theta (V - held) in some rows."""
        self.variables[rows] = held + theta * (self.variables[rows] - held)
        self.forget(rows)

    def change(self, held: np.ndarray, rows: np.ndarray) -> tuple[Prototypes, float, float]:
        """Of W_k since ``rows`` had the variables ``held`` (empty: zero); gain and curvature."""
        after = self.variables[rows]
        old = held if len(held) else np.zeros_like(after)
        changed = np.flatnonzero((after != old).any(axis=1))
        rows, after, old = rows[changed], after[changed], old[changed]
        moved = self.coefficients(after - old, rows)
        linear = self.reward(after - old, rows)
        slope, curvature = self.ridge_along(self.coefficients(old, rows), moved, rows)
        return self.prototypes(rows, moved), linear - slope, curvature

    def coefficients(self, variables: np.ndarray, rows: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def reward(self, change: np.ndarray, rows: np.ndarray) -> float:
        raise NotImplementedError

    def ridge_along(
        self, T: np.ndarray, change: np.ndarray, rows: np.ndarray
    ) -> tuple[float, float]:
        raise NotImplementedError

    def visit(
        self, queue: np.ndarray, end: int, relaxation: float, why_stop: Callable[[], str | None]
    ) -> tuple[int, int]:
        """One pass over the queue in compiled pieces; steps made and the new end of the queue."""
        totals = empty_totals()
        begin = 0
        while begin < end:
            visited, started = totals[VISITS], time.perf_counter()
            begin, end = self.descend(queue, begin, end, relaxation, totals)
            self.budget.learn(time.perf_counter() - started, totals[VISITS] - visited)
            if begin < end and why_stop():
                break
        return int(totals[STEPS]), end

    def descend(
        self, queue: np.ndarray, begin: int, end: int, relaxation: float, totals: Any
    ) -> tuple[int, int]:
        raise NotImplementedError


class PatternBlocks(_LinearBlocks):
    """Crammer-Singer with any number of prototypes per class: tau and its own compiled loop."""

    def __init__(self, problem: Problem, variables: np.ndarray) -> None:
        super().__init__(problem, variables)
        self.duals = make_duals(problem, slice(None), variables)

    def rescale(self, sigma: float) -> None:
        """Variables and caps times ``sigma``."""
        if sigma != self.sigma:
            self.variables *= sigma / self.sigma
            self.duals.cap[:] = sigma * self.problem.cap
            self.sigma = sigma

    def forget(self, rows: np.ndarray) -> None:
        # a variable may have regained weight: the lists of these patterns are written anew
        self.duals.n_active[rows] = 0

    def mix(self, held: np.ndarray, rows: np.ndarray, theta: float) -> None:
        mix(self.variables, held, rows, theta, self.duals.n_active)

    def change(self, held: np.ndarray, rows: np.ndarray) -> tuple[Prototypes, float, float]:
        if self.place is not None:
            return super().change(held, rows)
        R, width = self.problem.n_prototypes, self.problem.X.shape[1]
        W, constant, own = np.zeros((R, width)), np.zeros(R), self.problem.own
        X, factor = self.field.X, 1.0 / self.sigma
        gain = add_change(X, self.variables, held, rows, own, factor, W, constant)
        return Prototypes(W, self.scale * constant), gain, 0.0

    def _own(self) -> np.ndarray:
        return self.variables[self.everyone, self.problem.own]

    def screen_rows(self, rows: slice, queue: np.ndarray, end: int, totals: Any) -> int:
        """Screen a block of rows; the new end of the queue comes back."""
        scores = self.scores(rows)
        shift = (self.field.constant * self.scale).astype(scores.dtype)
        ids = np.ascontiguousarray(self.everyone[rows])
        return int(screen(scores, shift, ids, self.duals, queue, end, 0.0, totals))

    def look(self, queue: np.ndarray) -> tuple[int, ShardSums]:
        """Scores of all rows: the queue of patterns that can move, and the sums of the shard."""
        totals = empty_totals()
        end = 0
        for rows in row_blocks(self.problem.n_patterns, max(256, 16384 // self.n_field)):
            end = self.screen_rows(rows, queue, end, totals)
        support = int(np.count_nonzero(self._own()))
        return end, ShardSums(totals[LOSS] / self.sigma, totals[OWN] / self.sigma, 0.0, support)

    @property
    def field_dtype(self) -> Any:
        return self.field.W.dtype if self.place is None else self.field.V.dtype

    def descend(
        self, queue: np.ndarray, begin: int, end: int, relaxation: float, totals: Any
    ) -> tuple[int, int]:
        return descend(
            self.field,
            self.duals,
            queue,
            begin,
            end,
            0.0,
            relaxation,
            0.0,
            self.budget.visits,
            totals,
        )

    def coefficients(self, variables: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return variables / self.sigma

    def reward(self, change: np.ndarray, rows: np.ndarray) -> float:
        """Change of the linear term of D."""
        return float(change[np.arange(len(rows)), self.problem.own[rows]].sum()) / self.sigma

    def ridge_along(
        self, T: np.ndarray, change: np.ndarray, rows: np.ndarray
    ) -> tuple[float, float]:
        return 0.0, 0.0

    def feasible(self, tau: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """tau with its signs and caps restored (not times sigma)."""
        at, own, cap = np.arange(len(rows)), self.problem.own[rows], self.problem.cap[rows]
        tau[at, own] = 0.0
        tau = self.problem.machine.feasible(tau, own, cap)
        tau[at, own] = np.minimum(-tau.sum(axis=1), cap)
        return tau

    def dual_terms(self) -> tuple[float, float, int]:
        own = self._own()
        return float(own.sum()) / self.sigma, 0.0, int((own != 0.0).sum())


class MachineBlocks(_LinearBlocks):
    """Every other machine of the table: signed variables."""

    def __init__(self, problem: Problem, variables: np.ndarray) -> None:
        super().__init__(problem, variables)
        self.blocks = make_blocks(problem, slice(None), variables, 0.0)

    def rescale(self, sigma: float) -> None:
        """Variables and caps times ``sigma``."""
        if sigma != self.sigma:
            self.variables *= sigma / self.sigma
            scaled = replace(self.problem, cap=sigma * self.problem.cap)
            self.blocks = make_blocks(scaled, slice(None), self.variables, 0.0)
            self.sigma = sigma

    def forget(self, rows: np.ndarray) -> None:
        self.blocks.total[rows] = self.variables[rows].sum(axis=1)

    def look(self, queue: np.ndarray) -> tuple[int, ShardSums]:
        """Scores of all rows: the queue of patterns that can move, and the sums of the shard."""
        problem, machine = self.problem, self.problem.machine
        scores = np.empty((problem.n_patterns, problem.n_prototypes))
        for rows in row_blocks(problem.n_patterns, max(256, 65536 // self.n_field)):
            raw = self.scores(rows).T + self.field.constant * self.scale
            scores[rows] = centred(machine, raw)
        self.forget(self.everyone)
        blocks = self.blocks
        G = machine.dual_gradient(scores, blocks.own, self.variables, blocks.ridge)
        end = int(enlist(G, blocks, queue))
        loss = float(problem.cap @ machine.loss(scores, problem.own))
        return end, ShardSums(loss, *self.dual_terms())

    def descend(
        self, queue: np.ndarray, begin: int, end: int, relaxation: float, totals: Any
    ) -> tuple[int, int]:
        hard_cap = 0.0
        if self.problem.machine.p == 2:
            hard_cap = 2.0 * float(np.abs(self.variables).max(initial=0.0)) or 1.0
        return descend_blocks(
            self.field,
            self.blocks,
            queue,
            begin,
            end,
            0.0,
            relaxation,
            hard_cap,
            self.budget.visits,
            totals,
        )

    def coefficients(self, variables: np.ndarray, rows: np.ndarray) -> np.ndarray:
        own = self.problem.own[rows]
        return self.problem.machine.coefficients(variables, own) / self.sigma

    def reward(self, change: np.ndarray, rows: np.ndarray) -> float:
        """Change of the linear term of D."""
        return self.problem.machine.reward(change, self.problem.own[rows]) / self.sigma

    def ridge_along(
        self, T: np.ndarray, change: np.ndarray, rows: np.ndarray
    ) -> tuple[float, float]:
        """Slope and curvature of the ridge of M-SVM^2 along a change of coefficients."""
        if self.problem.machine.p == 1:
            return 0.0, 0.0
        weight = 0.5 / self.problem.cap[rows]
        slope, curvature = (T * change).sum(axis=1), (change * change).sum(axis=1)
        return float(slope @ weight), float(curvature @ weight)

    def feasible(self, V: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Signed variables with their signs and caps restored (not times sigma)."""
        problem = self.problem
        return problem.machine.feasible(V, problem.own[rows], problem.cap[rows])

    def dual_terms(self) -> tuple[float, float, int]:
        problem, V = self.problem, self.variables
        reward = problem.machine.reward(V, problem.own) / self.sigma
        support = np.flatnonzero(V.any(axis=1))
        T = self.coefficients(V[support], support)
        return reward, self.ridge_along(T, T, support)[0], len(support)
