"""``DaskMulticlassSVC``: a linear machine on dask arrays and data frames."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, get_client

from polymargin.dask.dask_team import DaskTeam
from polymargin.dask.worker_shards import as_part, stored_part
from polymargin.datasets.row_store import RowStore
from polymargin.estimators.from_parts import linear_spec, store_parts, warn_if_unfinished
from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.problem.machines import Machine
from polymargin.solvers.run import deferred_interrupt
from polymargin.solvers.shards.leader import Round, Rounds
from polymargin.solvers.shards.part import LinearSpec
from polymargin.storage.atomic import atomic_file

__all__ = ["DaskMulticlassSVC"]

_ROUNDS_PER_CHECKPOINT = 5


class DaskMulticlassSVC(MulticlassSVC):
    """A linear all-in-one machine trained on the workers of a Dask cluster.

    Rows and dual variables stay on their workers; a round sends the prototypes to every shard and
    brings their changes back, which one exact line search joins (20.3).  The certificate is that of
    ``MulticlassSVC``: primal and dual value are sums over the shards.

    Parameters
    ----------
    machine, C, intercept, intercept_scaling, tol, max_iter, max_time, class_weight, random_state, \
verbose
        As for ``MulticlassSVC``; ``max_iter`` counts rounds.  ``kernel`` must be "linear", the
        intercept "none" or "penalized", C finite.
    client : distributed.Client or None
        None: the client of the moment (``distributed.get_client``).
    classes : array-like or None
        All labels, if known; otherwise one pass over y finds them.
    checkpoint : path or None
        A folder that leader and workers see.  Dual variables are written there every few rounds;
        a later fit of the same data and parameters goes on from them.

    Attributes
    ----------
    classes_, coef_, intercept_, certificate_, status_, n_iter_, n_features_in_
        As of ``MulticlassSVC``.
    n_support_ : int
        Examples with weight.
    history_ : dict
        Per round: primal, dual, relative_gap, theta, sigma, steps; ``bytes_sent`` in total.

    Examples
    --------
    >>> from distributed import Client, LocalCluster
    >>> client = Client(LocalCluster(n_workers=2, threads_per_worker=1))  # doctest: +SKIP
    >>> model = DaskMulticlassSVC(C=0.1, intercept="penalized").fit(X, y)  # doctest: +SKIP
    >>> model.to_local().predict(rows)  # doctest: +SKIP
    """

    def __init__(
        self,
        machine: str | Machine = "cs",
        C: float | str = 1.0,
        kernel: str = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        intercept: str = "auto",
        intercept_scaling: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 10000,
        max_time: float | None = None,
        solver: str = "auto",
        cache_mb: float = 1000,
        class_weight: Mapping[Any, float] | str | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        probabilities: str | None = None,
        calibration_folds: int | None = None,
        client: Client | None = None,
        classes: Any = None,
        checkpoint: Any = None,
    ) -> None:
        super().__init__(
            machine=machine,
            C=C,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            intercept=intercept,
            intercept_scaling=intercept_scaling,
            tol=tol,
            max_iter=max_iter,
            max_time=max_time,
            solver=solver,
            cache_mb=cache_mb,
            class_weight=class_weight,
            warm_start=warm_start,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
            probabilities=probabilities,
            calibration_folds=calibration_folds,
        )
        self.client = client
        self.classes = classes
        self.checkpoint = checkpoint

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "client": None}  # a connection cannot travel

    # -- fit ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> DaskMulticlassSVC:
        """Train on dask arrays (dense or CSR chunks) or data frames.

        Parameters
        ----------
        X : dask array or data frame of shape (n_samples, n_features), or RowStore
            A ``RowStore`` has its labels; its folder must be one that all workers see.
        y : dask array or series of shape (n_samples,)
        sample_weight : dask array or None
            Partitioned as X and y are.
        """
        client = self._client()
        parts = _partitions(X, y, sample_weight)
        mass, n_features = _look(client, parts)
        classes = np.unique(list(mass)) if self.classes is None else np.unique(self.classes)
        spec = linear_spec(self, classes, mass, n_features)
        run = self._run(())
        folder = _open_checkpoint(self.checkpoint, spec, len(parts))
        n_shards = _n_shards(client, folder, len(parts))
        groups = [list(group) for group in np.array_split(np.array(parts, dtype=object), n_shards)]
        team = DaskTeam(client, spec, groups, run.seed, folder)
        rounds = Rounds(
            team,
            spec.shape,
            run.stop.tol,
            run.stop.max_iter,
            why_stop=run.why_end,
            watch=lambda one: self._watch(team, one, rounds),
        )
        with deferred_interrupt(run.clock):
            team.start()
            result = rounds.run(warm=team.is_resumed)
        team.close()
        store_parts(self, spec, result, team.n_rows)
        self.history_["bytes_sent"] = np.asarray(team.bytes_sent)
        warn_if_unfinished(result, float(self.tol))
        if result.status == "interrupted":
            raise KeyboardInterrupt
        return self

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

    def _watch(self, team: DaskTeam, one: Round, rounds: Rounds) -> bool:
        """Print and keep checkpoints as rounds go by."""
        if self.verbose:
            print(
                f"[polymargin] round {len(rounds.rounds):4d}  primal {one.primal:.8g}  "
                f"dual {one.dual:.8g}  gap {one.relative_gap:.2e}  theta {one.theta:.2f}  "
                f"sent {team.bytes_sent / 1e6:.1f} MB"
            )
        if team.folder is not None and len(rounds.rounds) % _ROUNDS_PER_CHECKPOINT == 0:
            team.save()
        return False

    # -- what the model can do ---------------------------------------------------------------

    def to_local(self) -> MulticlassSVC:
        """The ordinary estimator with this model: it saves, exports and reports."""
        own = {"client", "classes", "checkpoint"}
        local = MulticlassSVC(**{k: v for k, v in self.get_params().items() if k not in own})
        params = set(self.get_params())
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
        blocks = X.to_delayed().reshape(-1) if hasattr(X, "chunks") else X.to_delayed()
        lengths = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(blocks)
        width = (len(self.classes_),) if is_wide else ()
        found = [
            da.from_delayed(dask.delayed(getattr(local, verb))(block), (length, *width), dtype)
            for block, length in zip(blocks, lengths, strict=True)
        ]
        return da.concatenate(found, allow_unknown_chunksizes=True)


def _partitions(X: Any, y: Any, weight: Any) -> list[Any]:
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
    return list(np.asarray(values.to_delayed(), dtype=object).reshape(-1))


def _look(client: Client, parts: list[Any]) -> tuple[dict[Any, float], int]:
    """Weight of every label over all partitions, and the number of features."""
    found = client.gather(client.compute([dask.delayed(_facts)(part) for part in parts]))
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


def _n_shards(client: Client, folder: str | None, n_parts: int) -> int:
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


def _open_checkpoint(path: Any, spec: LinearSpec, n_parts: int) -> str | None:
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
        "n_partitions": n_parts,
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
