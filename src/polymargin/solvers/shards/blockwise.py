"""Blocks of rows one after another: data larger than memory.

One block after another is a shard that sees the work of all others at once (Gauss-Seidel), so that
neither sigma nor a line search is needed.  Only W, one block and the dual variables stay in memory;
dual variables are kept sparse, because few of a pattern's variables are not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from polymargin.solvers.shards.leader import Round, RoundsResult, primal_and_dual, total
from polymargin.solvers.shards.part import LinearSpec
from polymargin.solvers.shards.shard import Shard
from polymargin.solvers.shards.shard_variables import Prototypes, ShardSums

__all__ = ["BlockSource", "Blockwise"]

_PASSES = 4
"""Passes over a block once it is in memory: reading costs as much as two passes, and more than a
few passes fit the block at the expense of the others."""


class BlockSource(Protocol):
    """Rows in blocks, of which one at a time is read."""

    n_blocks: int

    def load(self, k: int) -> tuple[Any, np.ndarray]:
        """Rows and labels of block k."""


class Blockwise:
    """Epochs over the blocks to relative gap ``tol``.

    Parameters
    ----------
    source : BlockSource
    spec : LinearSpec
    tol : float
    max_epochs : int
    seed : int
    why_stop : callable
        A reason to end now, or None; asked after every block and during its passes.
    watch : callable or None
        Told of the sums so far after every block; a true answer ends the run.
    """

    def __init__(
        self,
        source: BlockSource,
        spec: LinearSpec,
        tol: float,
        max_epochs: int = 10_000,
        seed: int = 0,
        why_stop: Callable[[], str | None] = lambda: None,
        watch: Callable[[Round], bool] | None = None,
    ) -> None:
        self.source, self.spec, self.tol = source, spec, tol
        self.max_epochs, self.seed = max_epochs, seed
        self.why_stop, self.watch = why_stop, watch
        self.model = Prototypes(np.zeros(spec.shape), np.zeros(spec.shape[0]))
        self.variables: list[sp.csr_array | None] = [None] * source.n_blocks
        self.sums = [ShardSums(0.0, 0.0, 0.0, 0)] * source.n_blocks
        self.rounds: list[Round] = []
        self.n_visits = 0  # of blocks
        self.is_asked_to_stop = False

    def run(self) -> RoundsResult:
        """Epochs until the certificate is small enough or something ends the run."""
        random = np.random.default_rng(self.seed)
        while True:
            order = random.permutation(self.source.n_blocks)
            made = self.epoch(order.tolist())
            reason = self.why_end(made)
            # the losses are those of the moment each block was visited: the judge decides
            if reason is not None or self.rounds[-1].relative_gap <= self.tol:
                result = self.judged("converged" if reason is None else reason)
                if reason is not None or result.certificate.relative_gap <= self.tol:
                    return result

    def epoch(self, order: Sequence[int]) -> int:
        """Visit every block once; the steps made."""
        made = 0
        for k in order:
            shard = self._shard(k)
            step = shard.advance(self.model, 1.0, _PASSES)
            shard.settle(1.0)
            self.model = self.model.plus(step.change)
            self.variables[k] = sp.csr_array(shard.variables)
            self.sums[k] = ShardSums(step.before.loss, *shard.blocks.dual_terms())
            made += step.steps
            self.n_visits += 1
            if self._is_over(made):
                break
        self.rounds.append(self._round(made))
        return made

    def _round(self, made: int) -> Round:
        """The sums so far; losses are those of the moment each block was visited."""
        primal, dual = primal_and_dual(self.model, self.sums)
        relative = max(primal - dual, 0.0) / primal if primal > 0.0 else 0.0
        if self.n_visits < self.source.n_blocks:
            relative = 1.0  # the losses of some blocks are not known yet
        return Round(primal, dual, relative, 1.0, 1.0, made)

    def _is_over(self, made: int) -> bool:
        if self.watch is not None and self.watch(self._round(made)):
            self.is_asked_to_stop = True
        return self.is_asked_to_stop or self.why_stop() is not None

    def why_end(self, made: int) -> str | None:
        """The reason to end after an epoch, if there is one."""
        reason = self.why_stop()
        if reason is None and self.is_asked_to_stop:
            reason = "interrupted"
        if reason is None and len(self.rounds) >= self.max_epochs:
            reason = "max_iter"
        if reason is None and not made:
            reason = "stalled"
        return reason

    def judged(self, status: str) -> RoundsResult:
        """The certificate of W recomputed from all dual variables: two readings of the data."""
        n_blocks = self.source.n_blocks
        self.model = model = total([self._shard(k).prototypes() for k in range(n_blocks)])
        sums = [self._shard(k).sums(model) for k in range(n_blocks)]
        return RoundsResult.of(model, sums, status, self.rounds)

    def _shard(self, k: int) -> Shard:
        problem = self.spec.problem(*self.source.load(k))
        known = self.variables[k]
        variables = None if known is None else known.toarray()
        seed = self.seed + 1_000_003 * len(self.rounds) + k
        return Shard(problem, seed, variables, self.why_stop)
