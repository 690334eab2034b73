"""What estimators on a Dask cluster share: client, partitions, checkpoints, lazy prediction."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from dask.core import flatten
from distributed import Client, KilledWorker, get_client

from polymargin.dask.dask_team import DaskTeam
from polymargin.dask.worker_shards import as_part, stored_part
from polymargin.datasets.row_store import RowStore
from polymargin.estimators.callbacks import outer_watchers
from polymargin.estimators.from_parts import warn_if_unfinished
from polymargin.exceptions import ClusterError
from polymargin.solvers.history import Check
from polymargin.solvers.shards.leader import Round, RoundsResult
from polymargin.solvers.shards.part import LinearSpec
from polymargin.storage.atomic import atomic_file

__all__ = ["ClusterData", "ClusterTrained", "gathered"]

_ROUNDS_PER_CHECKPOINT = 5
_OF_CLUSTERS = ("client", "classes", "checkpoint")  # parameters beside those of one process


class ClusterData(NamedTuple):
    """Delayed partitions on a cluster, weight of every label, features, and the classes.

    ``places`` are the workers that hold the rows already, "" where none does.
    """

    client: Client
    parts: list[Any]
    places: list[str]
    mass: dict[Any, float]
    n_features: int
    classes: np.ndarray


class ClusterTrained:
    """First base of the estimators: a client that does not travel, lazy answers, ``to_local``.

    A subclass names its ``_local_kind``; its constructor is that of the local estimator with
    ``client``, ``classes`` and ``checkpoint`` behind.
    """

    _local_kind: Any
    classes_: np.ndarray
    history_: dict[str, np.ndarray]
    client: Client | None
    classes: Any
    checkpoint: Any
    tol: float
    verbose: int
    get_params: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_local_kind" in vars(cls):
            cls.__init__ = _constructor(cls._local_kind)  # type: ignore[method-assign]

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

    def _look(self, X: Any, y: Any, sample_weight: Any) -> ClusterData:
        """The partitions of the data and what is known of them before training."""
        client = self._client()
        parts = partitions(X, y, sample_weight)
        mass, n_features = look(client, parts)
        classes = np.unique(list(mass) if self.classes is None else self.classes)
        return ClusterData(
            client, parts, find_places(client, X, len(parts)), mass, n_features, classes
        )

    def _team(self, data: ClusterData, spec: LinearSpec, seed: int) -> DaskTeam:
        """Shards of about equally many partitions, with the checkpoint folder of the problem."""
        n_parts = len(data.parts)
        folder = open_checkpoint(self.checkpoint, spec, n_parts)
        n_shards = count_shards(data.client, folder, n_parts)
        order = np.arange(n_parts)
        if folder is None:  # a checkpoint belongs to the partitions in their own order
            order = np.argsort(data.places, kind="stable")
        groups = [[data.parts[k] for k in one] for one in np.array_split(order, n_shards)]
        places = [[data.places[k] for k in one] for one in np.array_split(order, n_shards)]
        return DaskTeam(data.client, spec, groups, seed, folder, [_most(one) for one in places])

    def _finish(self, team: DaskTeam, result: RoundsResult) -> None:
        """What follows once the model is stored: bytes sent, a warning, Ctrl-C handed on."""
        self.history_["bytes_sent"] = team.sent_per_round(len(self.history_["round"]))
        warn_if_unfinished(result, float(self.tol))
        if result.status == "interrupted":
            raise KeyboardInterrupt

    def _watch(self, team: DaskTeam, one: Round) -> bool:
        """Print and keep checkpoints as rounds go by."""
        n_rounds = team.note_round()
        if self.verbose:
            print(
                f"[polymargin] round {n_rounds:4d}  primal {one.primal:.8g}  "
                f"dual {one.dual:.8g}  gap {one.relative_gap:.2e}  theta {one.theta:.2f}  "
                f"sent {team.bytes_sent / 1e6:.1f} MB"
            )
        for watcher in outer_watchers():
            check = Check(0.0, n_rounds, *one[:3], 0, one.steps)
            watcher(check, _no_point)
        if team.folder is not None and n_rounds % _ROUNDS_PER_CHECKPOINT == 0:
            team.save()
        return False

    # -- what the model can do ---------------------------------------------------------------

    def to_local(self) -> Any:
        """The ordinary estimator with this model: it saves, exports and reports.

        Returns
        -------
        MulticlassSVC or MultiPrototypeSVC, fitted
        """
        given = self.get_params(deep=False)
        local = self._local_kind(**{k: v for k, v in given.items() if k not in _OF_CLUSTERS})
        params = set(given)
        for name, value in vars(self).items():
            if name not in params:
                setattr(local, name, value)
        return local

    def predict(self, X: Any) -> Any:
        """Labels: lazy for dask collections, at once for anything else.

        Parameters
        ----------
        X : dask array or data frame, array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        dask array or ndarray of shape (n_samples,)
        """
        return self._lazily("predict", X, self.classes_.dtype)

    def decision_function(self, X: Any) -> Any:
        """Scores: lazy for dask collections, at once for anything else.

        Parameters
        ----------
        X : dask array or data frame, array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        dask array or ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
        """
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


def _constructor(local: type) -> Any:
    """``__init__`` with the parameters of a local estimator and those of a cluster."""
    plain = inspect.signature(local.__init__)  # type: ignore[misc]
    more = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
        for name in _OF_CLUSTERS
    ]
    signature = plain.replace(parameters=[*plain.parameters.values(), *more])

    def construct(self: Any, *args: Any, **parameters: Any) -> None:
        bound = signature.bind(self, *args, **parameters)
        bound.apply_defaults()
        given = dict(list(bound.arguments.items())[1:])
        for name in _OF_CLUSTERS:
            setattr(self, name, given.pop(name))
        local.__init__(self, **given)  # type: ignore[misc]

    construct.__name__ = "__init__"
    construct.__signature__ = signature  # type: ignore[attr-defined]
    return construct


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


def find_places(client: Client, X: Any, n_parts: int) -> list[str]:
    """The worker that holds each partition of X in its memory, "" where none does."""
    if not dask.is_dask_collection(X):
        return [""] * n_parts
    keys = list(flatten(X.__dask_keys__()))
    if len(keys) != n_parts:
        return [""] * n_parts
    scheduler: Any = client.scheduler
    held = client.sync(scheduler.who_has, keys=keys)
    return [min(held.get(key, ()), default="") for key in keys]


def _most(places: list[str]) -> str:
    """The place of most partitions of a shard, "" where none is held."""
    known = Counter(place for place in places if place)
    return known.most_common(1)[0][0] if known else ""


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
