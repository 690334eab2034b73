"""What estimators on a Dask cluster share: client, partitions, checkpoints, lazy prediction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, KilledWorker, get_client

from polymargin.dask.dask_team import DaskTeam
from polymargin.dask.worker_shards import as_part, stored_part
from polymargin.datasets.row_store import RowStore
from polymargin.estimators.callbacks import outer_watchers
from polymargin.exceptions import ClusterError
from polymargin.solvers.history import Check
from polymargin.solvers.shards.leader import Round
from polymargin.solvers.shards.part import LinearSpec
from polymargin.storage.atomic import atomic_file

__all__ = [
    "ClusterTrained",
    "count_shards",
    "gathered",
    "look",
    "open_checkpoint",
    "partitions",
]

_ROUNDS_PER_CHECKPOINT = 5


class ClusterTrained:
    """First base of the estimators: a client that does not travel, lazy answers, ``to_local``."""

    _local_kind: Any
    classes_: np.ndarray
    client: Client | None
    verbose: int
    get_params: Any

    def __getstate__(self) -> dict[str, Any]:
        parent: Any = super()
        return {**parent.__getstate__(), "client": None}  # a connection cannot travel

    def _client(self) -> Client:
        if self.client is not None:
            return self.client
        try:
            return get_client()
        except ValueError as error:
            raise ValueError(
                "client: there is no Dask client; make one with distributed.Client(...) or give "
                "client=."
            ) from error

    def _watch(self, team: DaskTeam, one: Round, rounds: Any) -> bool:
        """Print and keep checkpoints as rounds go by."""
        team.note_round()
        if self.verbose:
            print(
                f"[polymargin] round {len(rounds.rounds):4d}  primal {one.primal:.8g}  "
                f"dual {one.dual:.8g}  gap {one.relative_gap:.2e}  theta {one.theta:.2f}  "
                f"sent {team.bytes_sent / 1e6:.1f} MB"
            )
        for watcher in outer_watchers():
            check = Check(0.0, len(rounds.rounds), *one[:3], 0, one.steps)
            watcher(check, _no_point)
        if team.folder is not None and len(rounds.rounds) % _ROUNDS_PER_CHECKPOINT == 0:
            team.save()
        return False

    # -- what the model can do ---------------------------------------------------------------

    def to_local(self) -> Any:
        """The ordinary estimator with this model: it saves, exports and reports."""
        own = {"client", "classes", "checkpoint"}
        given = self.get_params(deep=False)
        local = self._local_kind(**{k: v for k, v in given.items() if k not in own})
        params = set(given)
        for name, value in vars(self).items():
            if name not in params:
                setattr(local, name, value)
        return local

    def predict(self, X: Any) -> Any:
        """Labels: lazy for dask collections, at once for anything else."""
        return self._lazily("predict", X, self.classes_.dtype)

    def decision_function(self, X: Any) -> Any:
        """Scores: lazy for dask collections, at once for anything else."""
        return self._lazily("decision_function", X, np.float64)

    def _lazily(self, verb: str, X: Any, dtype: Any) -> Any:
        local = self.to_local()
        if not dask.is_dask_collection(X):
            return getattr(local, verb)(X)
        is_wide = verb == "decision_function" and len(self.classes_) > 2
        blocks = _pieces(X)
        lengths = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(blocks)
        width = (len(self.classes_),) if is_wide else ()
        found = [
            da.from_delayed(dask.delayed(getattr(local, verb))(block), (length, *width), dtype)
            for block, length in zip(blocks, lengths, strict=True)
        ]
        return da.concatenate(found, allow_unknown_chunksizes=True)


def _no_point() -> Any:
    raise RuntimeError("a fit on a cluster has no dual point of all rows at once.")


def partitions(X: Any, y: Any, weight: Any) -> list[Any]:
    """Delayed (rows, labels, weights), partition by partition."""
    if isinstance(X, RowStore):
        return [dask.delayed(stored_part)(X, k) for k in range(X.n_blocks)]
    columns = [_delayed(X, "X"), _delayed(y, "y")]
    if weight is not None:
        columns.append(_delayed(weight, "sample_weight"))
    counts = [len(column) for column in columns]
    if len(set(counts)) > 1:
        raise ValueError(
            f"X, y and sample_weight have {counts} partitions; rechunk them alike, for instance "
            "y = y.rechunk(X.chunks[0])."
        )
    return [dask.delayed(as_part)(*pieces) for pieces in zip(*columns, strict=True)]


def _delayed(values: Any, name: str) -> list[Any]:
    if not dask.is_dask_collection(values):
        raise TypeError(
            f"{name} must be a dask array or data frame, got {type(values).__name__}; for data in "
            "memory use MulticlassSVC."
        )
    if hasattr(values, "chunks") and values.ndim == 2 and values.numblocks[1] > 1:
        values = values.rechunk({1: -1})
    return _pieces(values)


def _pieces(values: Any) -> list[Any]:
    """Delayed partitions as they are.

    Optimised graphs join small partitions of Parquet files, and not alike for all columns.
    """
    return list(np.asarray(values.to_delayed(optimize_graph=False), dtype=object).reshape(-1))


def gathered(client: Client, tasks: list[Any]) -> list[Any]:
    """Results of delayed tasks; workers that die of them are an error that says so."""
    try:
        found: list[Any] = client.gather(client.compute(tasks))
        return found
    except KilledWorker as error:
        raise ClusterError(
            "workers were lost again and again while they read a partition; they may have run out "
            "of memory: use more workers, more memory each, or smaller partitions."
        ) from error


def look(client: Client, parts: list[Any]) -> tuple[dict[Any, float], int]:
    """Weight of every label over all partitions, and the number of features."""
    found = gathered(client, [dask.delayed(_facts)(part) for part in parts])
    mass: dict[Any, float] = {}
    widths = set()
    for labels, weights, width in found:
        if len(labels):
            widths.add(width)
        for label, weight in zip(labels.tolist(), weights.tolist(), strict=True):
            mass[label] = mass.get(label, 0.0) + weight
    if not mass:
        raise ValueError("y is empty: there is no example to train on.")
    if len(widths) > 1:
        raise ValueError(f"X: partitions have {sorted(widths)} columns; give all the same ones.")
    return mass, widths.pop()


def _facts(part: tuple[Any, Any, Any]) -> tuple[np.ndarray, np.ndarray, int]:
    X, y, weight = part
    if X.shape[0] != len(y):
        raise ValueError(f"X and y: a partition has {X.shape[0]} rows but {len(y)} labels.")
    labels, inverse = np.unique(y, return_inverse=True)
    weights = None if weight is None else np.asarray(weight, dtype=np.float64).reshape(-1)
    return labels, np.bincount(inverse, weights, len(labels)).astype(float), X.shape[1]


def count_shards(client: Client, folder: str | None, n_parts: int) -> int:
    """One shard per thread of the cluster, or as many as the checkpoint has."""
    threads = sum(client.nthreads().values())
    count = max(1, min(threads, n_parts))
    if folder is None:
        return count
    file = Path(folder) / "shards.json"
    if file.exists():
        return int(json.loads(file.read_text(encoding="utf-8"))["n_shards"])
    with atomic_file(file) as out:
        out.write(json.dumps({"n_shards": count}).encode())
    return count


def open_checkpoint(path: Any, spec: LinearSpec, n_parts: int) -> str | None:
    """The checkpoint folder, which belongs to exactly one problem."""
    if path is None:
        return None
    folder = Path(path).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    facts = {
        "machine": spec.machine.name,
        "C": spec.C,
        "offset": spec.offset,
        "classes": [str(label) for label in spec.classes.tolist()],
        "class_factor": spec.class_factor.tolist(),
        "n_features": spec.n_features,
        "npartitions": n_parts,
    }
    file = folder / "problem.json"
    if file.exists():
        known = json.loads(file.read_text(encoding="utf-8"))
        different = sorted(name for name in facts if known.get(name) != facts[name])
        if different:
            raise ValueError(
                f"checkpoint: {folder} belongs to another problem (different: "
                f"{', '.join(different)}); name another folder or remove it."
            )
    else:
        with atomic_file(file) as out:
            out.write(json.dumps(facts).encode())
    return str(folder)
