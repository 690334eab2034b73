"""Shards of this process, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polymargin.solvers.shards.leader import Team
from polymargin.solvers.shards.shard import LocalStep, Shard
from polymargin.solvers.shards.shard_variables import Prototypes, ShardSums

__all__ = ["LocalTeam"]


class LocalTeam(Team):
    """Shards that live in this process."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = list(shards)
        self.n_shards = len(self.shards)

    def advance(self, model: Prototypes, sigma: float, passes: int) -> list[LocalStep]:
        return [shard.advance(model, sigma, passes) for shard in self.shards]

    def settle(self, theta: float, beta: float) -> list[Prototypes]:
        return [shard.settle(theta, beta) for shard in self.shards]

    def sums(self, model: Prototypes) -> list[ShardSums]:
        return [shard.sums(model) for shard in self.shards]

    def prototypes(self) -> list[Prototypes]:
        return [shard.prototypes() for shard in self.shards]

    def each(self, verb: str, *arguments: Any) -> list[Any]:
        return [getattr(shard, verb)(*arguments) for shard in self.shards]

    def rebuild(self, shards: Sequence[int]) -> None:
        """Shards of this process are not lost."""
