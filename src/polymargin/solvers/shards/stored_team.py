"""Blocks of rows on disk as a team of the multi-prototype machine: one block awake at a time.

To the leader all blocks together are one shard, because each sees the work of those before it
(Gauss-Seidel): neither sigma nor a line search is needed.  Assignments and dual variables, which
are sparse, stay in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.solvers.shards.blockwise import BlockSource
from polymargin.solvers.shards.leader import Team, total
from polymargin.solvers.shards.prototype_shard import PrototypeShard, PrototypeSpec
from polymargin.solvers.shards.shard import LocalStep
from polymargin.solvers.shards.shard_variables import Prototypes, ShardSums

__all__ = ["StoredTeam"]


class StoredTeam(Team):
    """The blocks of a source, visited in order.

    Parameters
    ----------
    source : BlockSource
    spec : PrototypeSpec
    seed : int
    why_stop : callable
        Asked during passes; a true answer ends them.
    """

    n_shards = 1

    def __init__(
        self,
        source: BlockSource,
        spec: PrototypeSpec,
        seed: int,
        why_stop: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.source, self.spec, self.seed, self.why_stop = source, spec, seed, why_stop
        self.asleep: list[dict[str, Any]] = [{} for _ in range(source.n_blocks)]
        self.root: np.ndarray | None = None
        self.change: Prototypes | None = None

    def awake(self) -> Iterator[PrototypeShard]:
        """Every block in turn with its variables; what the caller changes is kept."""
        for k, known in enumerate(self.asleep):
            problem = self.spec.problem(*self.source.load(k))
            seed = self.seed + 1_000_003 * (k + 1)
            shard = PrototypeShard(problem, seed, None, self.why_stop, known.get("own"))
            if self.root is not None:
                shard.measure(self.root)
            if known:
                shard.blocks.variables[:] = known["variables"].toarray()
                shard.winner[:], shard.best[:] = known["winner"], known["best"]
                shard.random[:] = known["random"]
            yield shard
            small = np.min_scalar_type(self.spec.shape[0])
            known["own"] = shard.own.astype(small)
            known["winner"], known["best"] = shard.winner.astype(small), shard.best.astype(small)
            known["variables"] = sp.csr_array(shard.variables)
            known["random"] = shard.random

    def each(self, verb: str, *arguments: Any) -> list[Any]:
        if verb == "measure":
            self.root = None
            for shard in self.awake():
                shard.measure(None)  # its variables become zero
            self.root = arguments[0]
            return []
        return [getattr(shard, verb)(*arguments) for shard in self.awake()]

    def advance(self, model: Prototypes, sigma: float, passes: int) -> list[LocalStep]:
        """Block after block, each from the prototypes that the last one left."""
        now, steps = model, []
        for shard in self.awake():
            step = shard.advance(now, 1.0, passes)
            shard.settle(1.0)
            now = now.plus(step.change)
            steps.append(step)
        self.change = total([step.change for step in steps])
        sums = [step.before for step in steps]
        before = ShardSums(
            sum(one.loss for one in sums),
            sum(one.reward for one in sums),
            sum(one.ridge for one in sums),
            sum(one.n_support for one in sums),
        )
        made = sum(step.steps for step in steps)
        return [LocalStep(self.change, sum(step.gain for step in steps), 0.0, before, made)]

    def settle(self, theta: float, beta: float) -> list[Prototypes]:
        """Blocks have taken their steps; what a leader leaves out of W is handed to it here."""
        assert self.change is not None
        return [self.change.plus(self.change, -theta)]
