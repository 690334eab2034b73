"""Problem: the checked, encoded, weighted training problem, all that solvers and judge see.

A problem is frozen: code that needs another one makes a copy (``Problem.changed``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from polymargin.compiled.csr import compress
from polymargin.compiled.threads import share, thread_pool
from polymargin.problem.kernels import Kernel, squared_norms
from polymargin.problem.machines import Machine

__all__ = [
    "OutOfTimeError",
    "Problem",
    "as_read_only",
    "computed_ahead",
    "row_blocks",
    "run_blocks",
]

Result = TypeVar("Result")

_FEW_PROTOTYPES = 32
"""Beside more of them the passes over listed prototypes are faster with dense rows (measured)."""


@dataclass(frozen=True)
class Problem:
    """Minimise 1/2 sum_r ||M_r||^2 + sum_i C_i xi_i, each example assigned to one prototype.

    Attributes
    ----------
    machine : Machine
    kernel : Kernel
        With the constant of a penalised intercept inside (``kernel.offset``).
    X : (n, d) float32/float64 C-ordered array, CSR matrix, or the (n, n) Gram matrix
        ("precomputed").  Never written to.
    label : (n,) class numbers.
    cap : (n,) C_i = C * weight_i > 0; infinite for the hard margin.
    own : (n,) prototype to which each example is assigned.
    prototype_class : (R,) class of each prototype, in class order.
    n_jobs : int
        Threads that share blocks of kernel values.
    kernel_psd : bool or None
        Whether the kernel is positive semi-definite, None where that is not known.
    centre : (M_0 (R, d), their weights of the constant feature (R,)) or None
        Linear kernels: 1/2 sum_r ||M_r - M_0r||^2 takes the place of 1/2 sum_r ||M_r||^2.
    has_free_bias : bool
        Whether an unpenalised intercept of sum zero is added to the scores.
    has_class_sums : bool
        Whether the variables of every class sum to one, as the weights of convex hulls do (7.1).
    extra_margins : (Q, R) or None
        What an example of class k asks of prototype r beyond the machine's target: the cost of
        mistaking one class for the other minus that target, 0 for the own class (24.1).  Relative
        margins and finite C_i only.
    """

    machine: Machine
    kernel: Kernel
    X: Any
    label: np.ndarray
    cap: np.ndarray
    own: np.ndarray
    prototype_class: np.ndarray
    n_jobs: int = 1
    kernel_psd: bool | None = None
    centre: tuple[np.ndarray, np.ndarray] | None = None
    has_free_bias: bool = False
    has_class_sums: bool = False
    extra_margins: np.ndarray | None = None

    @property
    def n_patterns(self) -> int:
        return len(self.label)

    @property
    def n_prototypes(self) -> int:
        return len(self.prototype_class)

    @cached_property
    def is_hard(self) -> bool:
        """Whether some C_i is infinite."""
        return bool(np.isinf(self.cap).any())

    @property
    def has_one_prototype_per_class(self) -> bool:
        return self.n_prototypes == int(self.prototype_class[-1]) + 1

    @property
    def has_margin_loss(self) -> bool:
        """Whether losses follow from the lead over the best rival: one slack, no free intercept."""
        return bool(self.machine.K1 and self.machine.K3 and not self.has_free_bias)

    @property
    def may_rescale(self) -> bool:
        """Whether a multiple of a model that separates all examples loses nothing (1.12)."""
        return self.centre is None and self.extra_margins is None

    def raised(self, scores: np.ndarray, patterns: Any = slice(None)) -> np.ndarray:
        """Scores (k, R) of patterns with the extra margins of their rivals added (24.1).

        Losses, gradients and best intercepts of these are those of the costs; without costs the
        scores themselves come back.
        """
        if self.extra_margins is None:
            return scores
        return np.asarray(scores + self.extra_margins[self.label[patterns]].astype(scores.dtype))

    def extra_reward(self, V: np.ndarray, patterns: Any = slice(None)) -> float:
        """What costs add to the linear term of D: sum of alpha times the extra margins."""
        if self.extra_margins is None:
            return 0.0
        return -float(np.einsum("ir,ir->", V, self.extra_margins[self.label[patterns]]))

    @cached_property
    def rows(self) -> Any:
        """X as products with few prototypes take it: CSR instead of dense rows of mostly zeros."""
        is_plain = self.kernel.is_linear and not sp.issparse(self.X)
        if not is_plain or self.n_prototypes > _FEW_PROTOTYPES:
            return self.X
        found = compress(self.X)
        return self.X if found is None else found

    @cached_property
    def norms(self) -> np.ndarray | None:
        """Squared norms of the rows, where the kernel is made of them."""
        if self.kernel.name == "precomputed" or self.kernel.function is not None:
            return None
        return squared_norms(self.X)

    @cached_property
    def diagonal(self) -> np.ndarray:
        """K_ii."""
        return self.kernel.diagonal(self.X, self.norms)

    @cached_property
    def radius2(self) -> float:
        """The largest K_ii without the constant of a penalised intercept, which separates nothing.

        Where that constant is far larger than the features, all of K is about constant and only
        this says how large the data are.
        """
        largest = float(self.diagonal.max(initial=0.0))
        return max(largest - self.kernel.offset, 1e-16 * largest)

    def with_norms(self, norms: np.ndarray) -> Problem:
        """The same problem with squared norms of its rows that are known already."""
        found = self.changed()
        found.__dict__["norms"] = norms  # where the cached property keeps its value
        return found

    def changed(self, **changes: Any) -> Problem:
        """A copy with other fields; facts about the rows stay known while rows are the same."""
        found = replace(self, **changes)
        if not changes.keys() & {"X", "kernel", "prototype_class"}:
            known = ("rows", "norms", "diagonal")
            found.__dict__.update({k: self.__dict__[k] for k in known if k in self.__dict__})
        return found

    def gram(self, rows: Any, columns: Any) -> np.ndarray:
        """K between two sets of patterns, in the dtype of X."""
        if self.kernel.name == "precomputed":
            return self.kernel.block(self.X[rows], columns, None, None)
        a = None if self.norms is None else self.norms[rows]
        b = None if self.norms is None else self.norms[columns]
        return self.kernel.block(self.X[rows], self.X[columns], a, b)


def row_blocks(n: int, size: int) -> Iterator[slice]:
    """Consecutive slices of at most ``size`` rows."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


class OutOfTimeError(Exception):
    """Work in blocks was given up because the fit has to end now."""


def run_blocks(
    work: Callable[[slice], None],
    n: int,
    size: int,
    n_jobs: int,
    why_stop: Callable[[], str | None] | None = None,
) -> None:
    """Call ``work`` on every block of rows, in threads if asked.

    The blocks do not depend on the number of threads, so neither do the results.  ``why_stop`` is
    asked before every block; a reason raises OutOfTimeError.
    """
    blocks = list(row_blocks(n, max(1, size)))
    if why_stop is not None:
        do, asked = work, why_stop

        def work(block: slice) -> None:
            if asked():
                raise OutOfTimeError
            do(block)

    if n_jobs <= 1 or len(blocks) <= 1:
        for block in blocks:
            work(block)
    else:
        share(work, blocks, n_jobs)


def computed_ahead(
    work: Callable[[slice], Result], blocks: Sequence[slice], n_jobs: int
) -> Iterator[Result]:
    """``work`` of every block, in order; with several jobs threads compute the next few ahead."""
    if n_jobs <= 1 or len(blocks) <= 1:
        yield from map(work, blocks)
        return
    pool = thread_pool(n_jobs)
    waiting: deque[tuple[slice, Future[Result]]] = deque()

    def next_result() -> Result:
        block, future = waiting.popleft()
        # not begun: threads are busy, perhaps with work that waits for this
        return work(block) if future.cancel() else future.result()

    try:
        for block in blocks:
            waiting.append((block, pool.submit(work, block)))
            if len(waiting) > 2 * n_jobs:
                yield next_result()
        while waiting:
            yield next_result()
    finally:
        begun = [future for _, future in waiting if not future.cancel()]
        wait(begun)  # they may write where the caller goes on


def as_read_only(X: Any) -> Any:
    """A read-only view: one compiled specialisation serves memmaps, shared and private arrays."""
    if sp.issparse(X):
        return X
    view = np.asarray(X).view()
    view.flags.writeable = False
    return view
