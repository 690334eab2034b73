"""The shards of a fit on the workers of a Dask cluster, and what happens when a worker is lost.

Every shard is pinned to one worker, where it lives in memory (``worker_shards``).  A verb is one
task per shard; a worker that is gone, or that does not hold its shard any more, counts as lost:
the shard is built again elsewhere, from its partitions and the last checkpoint.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask
import numpy as np
from distributed import CancelledError, Client, Future, wait

from polymargin.dask import worker_shards
from polymargin.dask.worker_shards import Built, Lost
from polymargin.exceptions import ClusterError
from polymargin.solvers.shards.leader import ShardsLostError, Team
from polymargin.solvers.shards.part import LinearSpec
from polymargin.solvers.shards.shard import LocalStep
from polymargin.solvers.shards.shard_variables import Prototypes, ShardSums

__all__ = ["DaskTeam"]

_POLL = 0.5  # seconds between two looks at clock, scheduler and workers
_PATIENCE = 30.0  # seconds to wait for a worker, or for a scheduler that does not answer
_MOST_LOSSES = 5  # of one shard without a finished verb in between: it does not fit its workers
_TAKES_TASKS = ("init", "running", "paused")  # a worker that closes keeps its tasks waiting
_LARGE = 1 << 20  # bytes of prototypes from which on they are sent once and not with every task


class DaskTeam(Team):
    """Shards on workers.

    Parameters
    ----------
    client : distributed.Client
    spec : LinearSpec
    groups : list of lists of delayed partitions (X, y, weight)
        One group becomes one shard.
    seed : int
    folder : str or None
        Checkpoints, seen by leader and workers.
    places : list of str
        Workers that hold the rows of each group already; "" where none does.
    """

    def __init__(
        self,
        client: Client,
        spec: LinearSpec,
        groups: Sequence[Sequence[Any]],
        seed: int,
        folder: str | None,
        places: Sequence[str] = (),
    ) -> None:
        self.client = client
        self.spec = spec
        self.groups = [list(group) for group in groups]
        self.n_shards = len(self.groups)
        self.seed = seed
        self.folder = folder
        self.places = list(places) or [""] * self.n_shards
        self.name = f"polymargin-{uuid.uuid4().hex}"
        self.home: dict[int, str] = {}
        self.losses: Counter[int] = Counter()
        self.rows: dict[int, int] = {}
        self.bytes_sent = 0
        self.sent_after: list[int] = []
        self.is_resumed = False

    # -- building ----------------------------------------------------------------------------

    def start(self) -> None:
        """Build every shard on its worker; a checkpoint of other rows is refused."""
        is_used = self.folder is not None and any(Path(self.folder).glob("shard-*.npz"))
        self.rebuild(range(self.n_shards))
        if is_used and not self.is_resumed:
            raise ValueError(
                f"checkpoint: {self.folder} has the dual variables of other data; name another "
                "folder or remove it."
            )

    @property
    def n_rows(self) -> int:
        """Rows with weight of all shards."""
        return sum(self.rows.values())

    def __enter__(self) -> DaskTeam:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(Exception):  # a cluster that is gone has forgotten its shards
            self.close()

    def rebuild(self, shards: Sequence[int]) -> None:
        lost = list(shards)
        while lost:
            lost = self._build(lost)

    def _build(self, shards: Sequence[int]) -> list[int]:
        """Build some shards; those whose worker was lost meanwhile come back."""
        for k in shards:
            self.losses[k] += 1
            if self.losses[k] > _MOST_LOSSES + 1:
                raise ClusterError(
                    f"shard {k} lost its worker {_MOST_LOSSES} times in a row; the worker may have "
                    "run out of memory: use more workers, more memory each, or smaller partitions."
                )
        addresses = self._free_workers(shards)
        futures: dict[int, Future[Any]] = {}
        for k, address in zip(shards, addresses, strict=True):
            self.home[k] = address
            task = dask.delayed(worker_shards.build, pure=False)(
                self._key(k), self.spec, self.groups[k], self.seed + k, self.folder
            )
            # another worker may take it: a partition that is bound to a worker that dies meanwhile
            # would wait for it for ever, because the scheduler knows partitions by name
            futures[k] = self.client.compute(task, workers=[address], allow_other_workers=True)
        answers = self._collect(futures)
        for k, answer in answers.items():
            if isinstance(answer, Built):
                self.rows[k] = answer.n_rows
                self.home[k] = answer.address
                self.is_resumed |= answer.is_resumed
        return [k for k in shards if not isinstance(answers[k], Built)]

    def _free_workers(self, shards: Sequence[int]) -> list[str]:
        """Addresses for new shards: their rows' own worker, else one with few shards a thread."""
        started = time.monotonic()
        while not (workers := self._workers()):
            if time.monotonic() - started > _PATIENCE:
                raise ClusterError(
                    f"the cluster has had no worker for {_PATIENCE:.0f} s; start workers and fit "
                    "again (a checkpoint goes on where it was)."
                )
            time.sleep(_POLL)
        load = Counter({address: 0 for address in workers})
        load.update(a for k, a in self.home.items() if a in workers and k not in shards)
        found = []
        for k in shards:
            address = self.places[k]
            if address not in workers or load[address] >= workers[address]:
                address = min(load, key=lambda one: (load[one] / workers[one], one))
            load[address] += 1
            found.append(address)
        return found

    def _workers(self) -> dict[str, int]:
        """Threads of every worker that takes tasks or will take them again, by address."""
        try:
            scheduler: Any = self.client.scheduler
            info = self.client.sync(scheduler.identity, n_workers=-1)
        except (OSError, TimeoutError, AttributeError) as error:
            raise self._gone() from error
        return {
            address: one["nthreads"]
            for address, one in info["workers"].items()
            if one.get("status", "running") in _TAKES_TASKS
        }

    def _gone(self) -> ClusterError:
        where = f" The checkpoint is in {self.folder}." if self.folder else ""
        return ClusterError(f"the scheduler does not answer any more; is the cluster up?{where}")

    def _key(self, k: int) -> str:
        return f"{self.name}-{k}"

    # -- verbs -------------------------------------------------------------------------------

    def advance(self, model: Prototypes, sigma: float, passes: int) -> list[LocalStep]:
        found = self._everywhere("advance", self._sent(model), sigma, passes)
        self.losses.clear()
        self.bytes_sent += self.n_shards * (_bytes(model) + _bytes(found[0].change))
        return found

    def settle(self, theta: float, beta: float) -> list[Prototypes]:
        found = self._everywhere("settle", theta, beta)
        if beta:
            self.bytes_sent += self.n_shards * _bytes(found[0])
        return found

    def sums(self, model: Prototypes) -> list[ShardSums]:
        return self._everywhere("sums", self._sent(model))

    def prototypes(self) -> list[Prototypes]:
        return self._everywhere("prototypes")

    def save(self) -> None:
        """Dual variables of every shard into the checkpoint folder."""
        self._everywhere("save")

    def note_round(self) -> int:
        """A round ended: note the bytes sent so far; how many rounds that makes."""
        self.sent_after.append(self.bytes_sent)
        return len(self.sent_after)

    def sent_per_round(self, n_rounds: int) -> np.ndarray:
        """Bytes sent by the end of every round; the last one counts the final certificate too."""
        noted = self.sent_after[: n_rounds - 1]
        return np.array(noted + [self.bytes_sent] * (n_rounds - len(noted)), dtype=np.int64)

    def each(self, verb: str, *arguments: Any) -> list[Any]:
        sent = [self._sent(one) if isinstance(one, Prototypes) else one for one in arguments]
        found = self._everywhere(verb, *sent)
        self.losses.clear()
        for one in (*arguments, *(getattr(answer, "change", None) for answer in found[:1])):
            if isinstance(one, Prototypes):
                self.bytes_sent += self.n_shards * _bytes(one)
        return found

    def close(self) -> None:
        """Forget the shards."""
        for k, address in self.home.items():
            self.client.submit(
                worker_shards.drop, self._key(k), workers=[address], pure=False, retries=0
            )

    def _sent(self, model: Prototypes) -> Any:
        if _bytes(model) < _LARGE:
            return model
        return self.client.scatter(model, broadcast=True, hash=False)

    def _everywhere(self, verb: str, *arguments: Any) -> list[Any]:
        """One task per shard; ShardsLostError names the shards that have no answer."""
        futures = {
            k: self.client.submit(
                worker_shards.call,
                self._key(k),
                verb,
                *arguments,
                workers=[self.home[k]],
                allow_other_workers=False,
                pure=False,
            )
            for k in range(self.n_shards)
        }
        answers = self._collect(futures)
        lost = [k for k in range(self.n_shards) if isinstance(answers[k], Lost)]
        if lost:
            raise ShardsLostError(lost)
        return [answers[k] for k in range(self.n_shards)]

    def _collect(self, futures: dict[int, Future[Any]]) -> dict[int, Any]:
        """Answers of tasks; ``Lost`` where the worker went away before it could answer."""
        answers: dict[int, Any] = {}
        open_ones = dict(futures)
        while open_ones:
            _wait_a_moment(list(open_ones.values()))
            workers = None
            for k, future in list(open_ones.items()):
                if future.status == "pending":
                    workers = self._workers() if workers is None else workers
                    if self.home[k] in workers:
                        continue
                    future.cancel()
                    answers[k] = Lost(self._key(k))
                else:
                    answers[k] = self._answer(k, future)
                del open_ones[k]
        return answers

    def _answer(self, k: int, future: Future[Any]) -> Any:
        """What a finished task says: its result, ``Lost``, or the error of its data."""
        if future.status == "finished":
            try:
                return future.result(timeout=_PATIENCE)
            except (OSError, TimeoutError, CancelledError):
                return Lost(self._key(k))
        if future.status in ("cancelled", "lost"):
            self._workers()  # raises where it is the scheduler that is gone
            return Lost(self._key(k))
        error = future.exception(timeout=_PATIENCE)
        if type(error).__name__ in ("KilledWorker", "FutureCancelledError"):
            return Lost(self._key(k))
        raise error


def _wait_a_moment(futures: list[Future[Any]]) -> None:
    try:
        wait(futures, timeout=_POLL)
    except TimeoutError:
        return
    except Exception as error:
        if "Cancelled" not in type(error).__name__:
            raise


def _bytes(model: Prototypes) -> int:
    return int(model.weights.nbytes + model.constant.nbytes)
