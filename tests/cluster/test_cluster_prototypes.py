"""The multi-prototype machine and the command line on a real cluster of processes."""

import json
import pickle

import numpy as np
import pytest

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
import dask.array as da  # noqa: E402
from click.testing import CliRunner  # noqa: E402

from polymargin import Annealing, MulticlassSVC, MultiPrototypeSVC  # noqa: E402
from polymargin.cli import main  # noqa: E402
from polymargin.dask import DaskMulticlassSVC, DaskMultiPrototypeSVC  # noqa: E402

C, COUNT = 0.1, 2
SHORT = Annealing(cooling=0.4)


def data(n=400, seed=0):
    """Three classes of two groups each."""
    random = np.random.default_rng(seed)
    group = random.integers(0, 6, n)
    angle = np.pi / 3 * group
    X = 4 * np.c_[np.cos(angle), np.sin(angle)] + 0.7 * random.normal(size=(n, 2))
    return X, group % 3


def fitted(client, X, y, **options):
    model = DaskMultiPrototypeSVC(
        COUNT, C=C, annealing=SHORT, random_state=0, client=client, **options
    )
    return model.fit(da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100))


def test_as_good_as_one_process_and_the_same_for_a_seed(client, tmp_path):
    X, y = data()
    local = MultiPrototypeSVC(COUNT, C=C, annealing=SHORT, random_state=0).fit(X, y)
    model = fitted(client, X, y, checkpoint=tmp_path)
    assert model.certificate_.relative_gap <= 1e-3
    assert model.energy_ <= 1.05 * local.energy_
    assert len(model.history_["theta"]) == model.n_iter_
    assert (np.diff(model.history_["bytes_sent"]) >= 0).all()
    assert model.history_["bytes_sent"][-1] > 0
    again = fitted(client, X, y)
    assert np.array_equal(again.prototypes_, model.prototypes_)
    lazy = model.predict(da.from_array(X, chunks=(100, 2)))
    plain = model.to_local()
    assert type(plain) is MultiPrototypeSVC
    assert np.array_equal(lazy.compute(), plain.predict(X))
    scores = model.decision_function(da.from_array(X, chunks=(100, 2)))
    assert np.allclose(scores.compute(), plain.decision_function(X))
    assert pickle.loads(pickle.dumps(model)).client is None
    resumed = fitted(client, X, y, checkpoint=tmp_path)
    assert resumed.energy_ <= 1.05 * local.energy_
    with pytest.raises(ValueError, match="other data"):
        fitted(client, X + 1, y, checkpoint=tmp_path)


def test_two_fits_at_once_on_one_client(client):
    X, y = data(seed=1)
    Xd, yd = da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100)
    models = [
        DaskMulticlassSVC(machine, C=C, intercept="penalized", client=client)
        for machine in ("cs", "llw")
    ]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda model: model.fit(Xd, yd), models))
    for model in models:
        alone = MulticlassSVC(model.machine, C=C, intercept="penalized", tol=1e-6).fit(X, y)
        assert model.certificate_.primal == pytest.approx(alone.certificate_.primal, rel=2e-3)


def test_categories_a_missing_class_and_large_partitions(client):
    pandas = pytest.importorskip("pandas")
    import dask.dataframe as dd

    X, y = data(n=100_001, seed=2)
    order = np.argsort(y, kind="stable")  # a shard lacks a class
    frame = pandas.DataFrame(X[order], columns=["a", "b"])
    frame["kind"] = pandas.Categorical(np.array(["x", "y", "z"])[y[order]])
    parts = [dask.delayed(frame.iloc[rows]) for rows in (slice(0, 1), slice(1, None))]
    table = dd.from_delayed(parts, meta=frame.iloc[:0])
    model = DaskMulticlassSVC(C=1e-3, client=client, tol=1e-2).fit(table[["a", "b"]], table["kind"])
    assert model.classes_.tolist() == ["x", "y", "z"]
    whole = MulticlassSVC(C=1e-3, tol=1e-3).fit(X, y)
    assert model.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=1e-2)


@pytest.mark.parametrize("machine", ["CS", "MP"])
def test_the_command_line(client, machine, tmp_path):
    X, y = data(seed=3)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    address = client.scheduler.address if machine == "MP" else "local:1"
    command = ["train", str(tmp_path / "X.npy"), "-l", str(tmp_path / "y.npy"), "-m", machine]
    command += ["-c", "0.1", "--cluster", address, "--scratch", str(tmp_path / "blocks"), "--json"]
    command += ["--assignment", "greedy", "-p", "2"] if machine == "MP" else []
    found = CliRunner().invoke(main, [*command, "-o", str(tmp_path / "model.pm")])
    assert found.exit_code == 0, found.output
    record = json.loads(found.stdout)
    assert record["trained_rows"] == len(y)
    assert record["certificate"]["relative_gap"] <= 1e-3
