"""Workers that are killed, retired or added while a fit runs, and a scheduler that goes away."""

import os
import signal
import subprocess
import sys
import threading
import time
import traceback

import numpy as np
import pytest

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
import dask.array as da  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402

from polymargin import ClusterError, MulticlassSVC  # noqa: E402
from polymargin.dask import DaskMulticlassSVC  # noqa: E402

N, D, Q = 2000, 8, 5
KILLS = int(os.environ.get("POLYMARGIN_KILLS", "3"))
SECONDS = 240  # a hang ends here


def data():
    random = np.random.default_rng(0)
    y = random.integers(0, Q, N)
    return random.normal(size=(Q, D))[y] + random.normal(size=(N, D)), y


def within(seconds, work):
    """What ``work`` returns or raises; a test that hangs fails instead."""
    found = {}

    def run():
        try:
            found["value"] = work()
        except BaseException as error:
            found["error"] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        where = "".join(traceback.format_stack(sys._current_frames()[thread.ident]))
        pytest.fail(f"no end within {seconds} s; it is here:\n{where}")
    if "error" in found:
        raise found["error"]
    return found["value"]


class Disturbing(DaskMulticlassSVC):
    """Calls ``disturb`` at one round of the fit."""

    def _watch(self, team, one):
        self.seen = getattr(self, "seen", 0) + 1
        if self.seen == self.when:
            self.disturb()
            self.is_disturbed = True
        return super()._watch(team, one)


def fit(client, when, disturb, **options):
    X, y = data()
    model = Disturbing(C=0.05, intercept="penalized", client=client, tol=1e-3, **options)
    model.when, model.disturb = when, disturb
    return model.fit(da.from_array(X, chunks=(250, D)), da.from_array(y, chunks=250))


def optimum():
    return MulticlassSVC(C=0.05, intercept="penalized", tol=1e-6).fit(*data()).certificate_.primal


def kill_one(client):
    pids = client.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)


@pytest.mark.parametrize("when", np.random.default_rng(7).integers(1, 12, KILLS).tolist())
def test_a_killed_worker_costs_time_only(cluster, when):
    with Client(cluster) as client:
        model = within(SECONDS, lambda: fit(client, when, lambda: kill_one(client)))
    assert model.is_disturbed
    assert model.certificate_.relative_gap <= 1e-3
    assert model.certificate_.primal == pytest.approx(optimum(), rel=2e-3)


def test_a_retired_worker_and_a_new_one(cluster):
    with Client(cluster) as client:

        def retire():
            cluster.scale(3)
            client.retire_workers([next(iter(client.scheduler_info()["workers"]))])

        model = within(SECONDS, lambda: fit(client, 3, retire))
    assert model.is_disturbed
    assert model.certificate_.primal == pytest.approx(optimum(), rel=2e-3)


def test_a_scheduler_that_is_gone_is_a_clear_error(tmp_path):
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    ) as one:
        client = Client(one.scheduler_address, timeout=5)

        gone = []

        def leave():
            one.close(timeout=10)
            gone.append(time.monotonic())

        # round 5 writes the checkpoint
        with pytest.raises(ClusterError, match=r"scheduler|worker"):
            within(SECONDS, lambda: fit(client, 7, leave, checkpoint=tmp_path, machine="ww"))
        assert time.monotonic() - gone[0] <= 30.0
        client.close(timeout=1)
    assert list(tmp_path.glob("shard-*.npz"))


def test_data_that_were_lost_are_read_again(cluster, tmp_path):
    """Unpersisted Parquet: both workers die, the shards are built from the files again."""
    pandas = pytest.importorskip("pandas")
    import dask.dataframe as dd

    X, y = data()
    frame = pandas.DataFrame(X, columns=[f"f{k}" for k in range(D)])
    frame["kind"] = y
    for k, rows in enumerate(np.array_split(np.arange(N), 4)):
        frame.iloc[rows].to_parquet(tmp_path / f"{k}.parquet")
    table = dd.read_parquet(str(tmp_path / "*.parquet"))

    with Client(cluster) as client:

        def kill_all():
            for pid in client.run(os.getpid).values():
                os.kill(pid, signal.SIGKILL)

        model = Disturbing(C=0.05, intercept="penalized", client=client, tol=1e-3)
        model.when, model.disturb = 3, kill_all
        within(SECONDS, lambda: model.fit(table.drop(columns="kind"), table["kind"]))
    assert model.is_disturbed
    assert model.certificate_.primal == pytest.approx(optimum(), rel=2e-3)


LITTLE = 600_000_000  # bytes of a worker: its libraries fit, the block below does not


def too_much(X):
    """A block that a worker has no memory for."""
    held = np.ones(LITTLE // 8 * 2)
    time.sleep(20)  # until the worker is ended for it
    return X + 0.0 * held[: len(X), None]


@pytest.mark.parametrize("cluster", [{"memory_limit": LITTLE}], indirect=True)
def test_workers_without_enough_memory_are_a_clear_error(cluster):
    X, y = data()
    rows = da.from_array(X, chunks=(1000, D)).map_blocks(too_much, dtype=float, meta=X[:0])
    with Client(cluster) as client:
        model = DaskMulticlassSVC(C=0.05, client=client)
        with pytest.raises(ClusterError, match="memory"):
            within(SECONDS, lambda: model.fit(rows, da.from_array(y, chunks=1000)))


LEADER = """
import os, signal, sys
import dask.array as da, numpy as np
from distributed import Client
sys.path.insert(0, sys.argv[1])
from test_lost_workers import Disturbing, data, D
X, y = data()
model = Disturbing(C=0.05, intercept="penalized", client=Client(sys.argv[2]), tol=1e-9,
                   checkpoint=sys.argv[3])
model.when, model.disturb = 12, lambda: os.kill(os.getpid(), signal.SIGKILL)
model.fit(da.from_array(X, chunks=(250, D)), da.from_array(y, chunks=250))
"""


def test_a_leader_that_was_killed_goes_on(cluster, tmp_path):
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(
        [sys.executable, "-c", LEADER, here, cluster.scheduler_address, str(tmp_path)],
        timeout=SECONDS,
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert list(tmp_path.glob("shard-*.npz"))
    with Client(cluster) as client:
        again = within(SECONDS, lambda: fit(client, -1, None, checkpoint=tmp_path))
        fresh = within(SECONDS, lambda: fit(client, -1, None))
    assert again.certificate_.primal == pytest.approx(optimum(), rel=2e-3)
    assert again.history_["dual"][0] > fresh.history_["dual"][1]
