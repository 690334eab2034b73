"""Where the scores of block descent live: explicit prototypes, or kernel rows of a working set.

A stage turns signed variables into scores and offers the field that the compiled body pushes into.
Beside one prototype per class, absolute margins keep one that collects the sum of all: a centred
score is f_k - f_Q / Q, and a changed variable touches two prototypes instead of all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polymargin.certificate.training_scores import prototypes
from polymargin.compiled.fields import KernelField, SparseField
from polymargin.problem.machines import Machine
from polymargin.problem.problem import Problem, row_blocks
from polymargin.solvers.kernel_rows import KernelRows
from polymargin.solvers.linear_fields import make_field, set_prototypes, sparse_scores

__all__ = ["KernelStage", "LinearStage", "centred", "settled"]


def settled(machine: Machine, signed: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Coefficients of the same class scores whose anchor is zero: no large sums that cancel."""
    T = machine.coefficients(signed, own)
    return T if machine.K1 else np.concatenate([T, np.zeros((len(T), 1))], axis=1)


def centred(machine: Machine, scores: np.ndarray) -> np.ndarray:
    """Class scores (..., Q) from the scores of all prototypes of the field."""
    if machine.K1:
        return scores
    Q = scores.shape[-1] - 1
    return np.asarray(scores[..., :Q] - scores[..., Q:] / Q)


class _Stage:
    """What both stages share: the constant feature of an intercept."""

    problem: Problem
    constant: np.ndarray
    scale: float

    @property
    def n_prototypes(self) -> int:
        return self.problem.n_prototypes + (0 if self.problem.machine.K1 else 1)

    def bias(self) -> np.ndarray:
        """The constant part of the class scores."""
        return centred(self.problem.machine, self.constant * self.scale)

    def set_bias(self, b: np.ndarray, sums: np.ndarray) -> None:
        """The constant of centre b and of coefficients with these column sums (free intercept)."""
        self.constant[:] = self.scale * sums
        self.constant[: len(b)] += b / self.scale

    def move_bias(self, change: np.ndarray) -> None:
        """The centre moves by ``change``, the coefficients stay (free intercept)."""
        self.constant[: len(change)] += change / self.scale


class LinearStage(_Stage):
    """Explicit prototypes beside dense or CSR rows: scores of all patterns are one product."""

    keeps_scores = False

    def __init__(self, problem: Problem, penalty: float, single: bool) -> None:
        self.problem = problem
        scale = np.sqrt(penalty if problem.has_free_bias else problem.kernel.offset)
        # absolute margins: the sum of all prototypes is large beside what they differ by
        single = single and bool(problem.machine.K1)
        self.field, self.place = make_field(problem, single, self.n_prototypes, float(scale))
        self.constant, self.scale = self.field.constant, float(scale)
        self.ids = np.arange(problem.n_patterns)

    def refresh(self, signed: np.ndarray, b: np.ndarray) -> None:
        """Prototypes from the variables, free of drift, and the intercept of centre b."""
        problem, field = self.problem, self.field
        support = np.flatnonzero(signed.any(axis=1))
        C = settled(problem.machine, signed[support], problem.own[support])
        W = prototypes(problem, support, C)
        set_prototypes(field, self.place, W)
        if problem.has_free_bias:
            self.set_bias(b, C.sum(axis=0))
        else:
            self.constant[:] = self.scale * C.sum(axis=0)

    def shift(self, rows: np.ndarray, change: np.ndarray) -> None:
        """The signed variables of some patterns changed (the constant is left alone)."""
        problem, field = self.problem, self.field
        C = settled(problem.machine, change, problem.own[rows])
        W = prototypes(problem, rows, C)
        if isinstance(field, SparseField):
            field.V[self.place, : len(W)] += W.T
        else:
            field.W[:] += W

    def class_weights(self) -> np.ndarray:
        """(Q, d) prototypes of the classes."""
        field = self.field
        if isinstance(field, SparseField):
            W = np.asarray(field.V[:, : self.n_prototypes], dtype=np.float64)
        else:
            W = field.W.T
        return centred(self.problem.machine, W).T

    def scores(self) -> np.ndarray:
        """(n, Q) class scores of all patterns; a penalised intercept counts, a free one not."""
        problem, field = self.problem, self.field
        n, R = problem.n_patterns, self.n_prototypes
        out = np.empty((n, R))
        for rows in row_blocks(n, max(256, min(8192, 65536 // R))):
            if isinstance(field, SparseField):
                out[rows] = sparse_scores(field, self.ids[rows], R).T
            else:
                out[rows] = field.X[rows] @ field.W.T
        if not problem.has_free_bias:
            out += self.constant * self.scale
        return centred(problem.machine, out)

    def norm2(self, signed: np.ndarray, scores: np.ndarray) -> float:
        W = self.class_weights()
        norm2 = float((W * W).sum())
        if not self.problem.has_free_bias:
            constant = centred(self.problem.machine, self.constant)
            norm2 += float(constant @ constant)
        return norm2


class KernelStage(_Stage):
    """Kernel rows of a working set and the scores of its patterns, which every push updates."""

    keeps_scores = True

    def __init__(
        self,
        problem: Problem,
        penalty: float,
        dtype: Any,
        cache_mb: float,
        why_end: Callable[[], str | None],
        ids: np.ndarray,
    ) -> None:
        self.problem = problem
        self.dtype = np.dtype(dtype)
        self.why_end = why_end
        self.pool = KernelRows(problem, dtype, cache_mb, why_end)
        self.scale = float(np.sqrt(penalty)) if problem.has_free_bias else 0.0
        self.constant = np.zeros(self.n_prototypes)
        self.F = np.zeros((self.n_prototypes, 0), dtype=self.dtype)
        self.grow(ids, np.zeros((len(ids), self.n_prototypes)))

    @property
    def ids(self) -> np.ndarray:
        return self.pool.ids

    @property
    def field(self) -> KernelField:
        pool = self.pool
        return KernelField(
            pool.rows,
            pool.slot,
            self.F,
            len(self.ids),
            pool.used,
            pool.tick,
            self.constant,
            self.scale,
        )

    def settle(self) -> None:
        """Absolute margins: the sum of all prototypes goes into those of the classes.

        Its scores would grow to many times theirs, and so would rounding errors.
        """
        if not self.problem.machine.K1:
            for sums in (self.F, self.constant):
                sums[:-1] -= sums[-1] / self.problem.n_prototypes
                sums[-1] = 0.0

    def has_all_rows(self) -> bool:
        """Whether the Gram matrix of the set lies in the pool in its order."""
        m = len(self.ids)
        return m <= self.pool.capacity and bool((self.pool.slot[:m] == np.arange(m)).all())

    def grow(self, new: np.ndarray, scores: np.ndarray) -> None:
        """The patterns ``new`` join with these scores (k, prototypes)."""
        m = len(self.ids)
        self.pool.grow(new)
        F = np.empty((self.n_prototypes, m + len(new)), dtype=self.dtype)
        F[:, :m] = self.F
        F[:, m:] = scores.T
        self.F = F

    def keep(self, positions: np.ndarray) -> None:
        """Only these positions, ascending, stay."""
        self.pool.keep(positions)
        self.F = np.ascontiguousarray(self.F[:, positions])

    def refresh(self, signed: np.ndarray, b: np.ndarray) -> None:
        """Scores of the set from the variables of its patterns, and the intercept of centre b."""
        C = settled(self.problem.machine, signed, self.problem.own[self.ids])
        pool, m = self.pool, len(self.ids)
        if not C.any():
            self.F[:] = 0.0
        elif self.has_all_rows():
            self.F[:] = C.T.astype(self.dtype) @ pool.rows[:m, :m]
        else:
            self.F[:] = self.against(self.ids, C).T
        if self.problem.has_free_bias:
            self.set_bias(b, C.sum(axis=0))

    def against(self, patterns: np.ndarray, C: np.ndarray) -> np.ndarray:
        """(k, prototypes) scores of any patterns by coefficients C of the set."""
        support = np.flatnonzero(C.any(axis=1))
        some = C[support].astype(self.dtype)
        return self.pool.data.scores(patterns, support, some, self.why_end)

    def shift(self, rows: np.ndarray, change: np.ndarray) -> None:
        """The signed variables of some positions changed (the constant is left alone)."""
        C = settled(self.problem.machine, change, self.problem.own[self.ids[rows]])
        some, pool, m = C.astype(self.dtype), self.pool, len(self.ids)
        for start in range(0, len(rows), 256):
            part = slice(start, start + 256)
            at = pool.slot[rows[part]]
            ready = bool((at >= 0).all())
            K = pool.rows[at, :m] if ready else pool.data.block(rows[part], slice(0, m))
            self.F += some[part].T @ K

    def inside_scores(self) -> np.ndarray:
        """(m, Q) class scores of the set without the free intercept."""
        return centred(self.problem.machine, self.F.T.astype(np.float64))

    def norm2(self, signed: np.ndarray, scores: np.ndarray) -> float:
        T = self.problem.machine.coefficients(signed, self.problem.own[self.ids])
        return max(float((T * scores).sum()), 0.0)
