"""What runs on the workers of a cluster: shards that live in the memory of a worker process.

Dual variables are kept here and nowhere else.  If they travelled as results of tasks, losing a
worker would make the scheduler compute all rounds again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from distributed import get_worker

from polymargin.compiled.threads import single_threaded_libraries
from polymargin.datasets.row_store import RowStore
from polymargin.problem.problem import Problem
from polymargin.solvers.shards.part import LinearSpec, fingerprint
from polymargin.solvers.shards.prototype_shard import PrototypeShard, PrototypeSpec
from polymargin.solvers.shards.shard import Shard
from polymargin.storage.atomic import atomic_file

__all__ = ["Built", "Lost", "as_part", "build", "call", "drop", "stored_part"]


class _Held(NamedTuple):
    shard: Shard
    file: Path | None
    rows: str


class Built(NamedTuple):
    """What the leader learns of a new shard."""

    n_rows: int
    is_resumed: bool
    address: str


class Lost(NamedTuple):
    """The answer of a worker that does not hold the shard."""

    key: str


_SHARDS: dict[str, _Held] = {}


def as_part(X: Any, y: Any, weight: Any = None) -> tuple[Any, Any, Any]:
    """One partition: rows, labels and weights that belong together."""
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    if hasattr(weight, "to_numpy"):
        weight = weight.to_numpy()
    return X, np.asarray(y).reshape(-1), weight


def stored_part(rows: RowStore, k: int) -> tuple[Any, Any, Any]:
    """One block of rows on disk."""
    X, y = rows.load(k)
    return X, y, None


def build(
    key: str, spec: LinearSpec, parts: list[tuple[Any, Any, Any]], seed: int, folder: str | None
) -> Built:
    """Make the shard of some partitions, with the dual variables of a checkpoint if there are."""
    problem = _joined([spec.problem(*part) for part in parts])
    rows = fingerprint(problem) if folder else ""
    file = Path(folder) / f"shard-{rows[:32]}.npz" if folder else None
    saved: dict[str, np.ndarray] = {}
    if file is not None and file.exists():
        with np.load(file) as archive:
            saved = {name: archive[name] for name in archive.files}
    variables = saved.get("variables")
    with single_threaded_libraries():
        shard = Shard(problem, seed, variables)
        if isinstance(spec, PrototypeSpec):
            shard = PrototypeShard(problem, seed, variables, own=saved.get("own"))
        _SHARDS[key] = _Held(shard, file, rows)
    return Built(problem.n_patterns, variables is not None, get_worker().address)


def _joined(problems: list[Problem]) -> Problem:
    if len(problems) == 1:
        return problems[0]
    filled = [one for one in problems if one.n_patterns] or problems[:1]
    rows: list[Any] = [one.X for one in filled]
    X = sp.vstack(rows, "csr") if sp.issparse(rows[0]) else np.concatenate(rows)
    label = np.concatenate([one.label for one in filled])
    first = filled[0]
    return Problem(
        first.machine,
        first.kernel,
        X,
        label,
        np.concatenate([one.cap for one in filled]),
        np.concatenate([one.own for one in filled]),
        first.prototype_class,
        kernel_psd=True,
    )


def call(key: str, verb: str, *arguments: Any) -> Any:
    """One verb of a shard; ``Lost`` where this worker does not have it (any more)."""
    held = _SHARDS.get(key)
    if held is None:
        return Lost(key)
    if verb == "save":
        return _save(held)
    with single_threaded_libraries():
        return getattr(held.shard, verb)(*arguments)


def _save(held: _Held) -> None:
    """Dual variables into the checkpoint folder, whole or not at all."""
    if held.file is None:
        return
    with atomic_file(held.file) as file:
        facts = {"variables": held.shard.variables, "rows": np.array(held.rows)}
        if isinstance(held.shard, PrototypeShard):
            facts["own"] = held.shard.own
        np.savez(file, **facts)  # type: ignore[arg-type]


def drop(key: str) -> None:
    """Forget a shard."""
    _SHARDS.pop(key, None)
