"""Shards of this process, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polymargin.solvers.shards.leader import Team
from polymargin.solvers.shards.shard import Shard

__all__ = ["LocalTeam"]


class LocalTeam(Team):
    """Shards that live in this process."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = list(shards)
        self.n_shards = len(self.shards)

    def each(self, verb: str, *arguments: Any) -> list[Any]:
        return [getattr(shard, verb)(*arguments) for shard in self.shards]
