"""Training on a real cluster of processes on this machine."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
import dask.array as da  # noqa: E402

from polymargin import MulticlassSVC  # noqa: E402
from polymargin.dask import DaskMulticlassSVC  # noqa: E402
from polymargin.estimators.from_parts import linear_spec  # noqa: E402

N, D, Q = 600, 5, 4


def data(seed=0):
    random = np.random.default_rng(seed)
    y = random.integers(0, Q, N)
    return random.normal(size=(Q, D))[y] + random.normal(size=(N, D)), y


def fitted(client, X, y, **options):
    return DaskMulticlassSVC(C=0.05, intercept="penalized", client=client, **options).fit(X, y)


def reference(X, y, machine="cs"):
    model = MulticlassSVC(machine, C=0.05, intercept="penalized", tol=1e-6).fit(X, y)
    return model.certificate_.primal


@pytest.mark.parametrize("machine", ["cs", "llw"])
def test_the_model_of_one_process(client, machine):
    X, y = data()
    model = fitted(
        client, da.from_array(X, chunks=(150, D)), da.from_array(y, chunks=150), machine=machine
    )
    assert model.certificate_.relative_gap <= 1e-3
    assert model.certificate_.primal == pytest.approx(reference(X, y, machine), rel=2e-3)
    local = model.to_local()
    assert type(local) is MulticlassSVC
    lazy = model.predict(da.from_array(X, chunks=(100, D)))
    assert np.array_equal(lazy.compute(), local.predict(X))
    scores = model.decision_function(da.from_array(X, chunks=(100, D)))
    assert np.allclose(scores.compute(), local.decision_function(X))
    with pytest.raises(AttributeError, match="parts of the data"):
        _ = local.dual_coef_


def test_sorted_rows_unequal_and_empty_partitions(client):
    X, y = data(1)
    order = np.argsort(y, kind="stable")
    chunks = (1, 0, 399, 200)
    model = fitted(
        client,
        da.from_array(X[order], chunks=(chunks, D)),
        da.from_array(y[order], chunks=(chunks,)),
    )
    assert model.certificate_.primal == pytest.approx(reference(X, y), rel=2e-3)


def test_sparse_chunks_of_unknown_size_and_text_labels(client):
    X, y = data(2)
    names = np.array(["a", "b", "c", "d"])[y]
    blocks = [dask.delayed(sp.csr_matrix)(part) for part in np.array_split(X, 3)]
    rows = da.concatenate(
        [da.from_delayed(block, (np.nan, D), float) for block in blocks],
        allow_unknown_chunksizes=True,
    )
    labels = da.concatenate(
        [
            da.from_delayed(dask.delayed(part), (np.nan,), names.dtype)
            for part in np.array_split(names, 3)
        ],
        allow_unknown_chunksizes=True,
    )
    model = fitted(client, rows, labels)
    assert model.classes_.tolist() == ["a", "b", "c", "d"]
    assert model.certificate_.primal == pytest.approx(reference(X, y), rel=2e-3)


def test_a_checkpoint_goes_on_and_belongs_to_one_problem(client, tmp_path):
    X, y = data(3)
    Xd, yd = da.from_array(X, chunks=(150, D)), da.from_array(y, chunks=150)
    with pytest.warns(UserWarning, match="max_iter"):
        fitted(client, Xd, yd, checkpoint=tmp_path, max_iter=5, tol=1e-6)
    again = fitted(client, Xd, yd, checkpoint=tmp_path, tol=1e-3)
    fresh = fitted(client, Xd, yd, tol=1e-3)
    assert again.history_["dual"][0] > fresh.history_["dual"][1]
    with pytest.raises(ValueError, match="another problem"):
        fitted(client, Xd, yd, checkpoint=tmp_path, machine="ww")


def test_rows_that_workers_hold_stay_there(client):
    X, y = data(6)
    addresses = sorted(client.scheduler_info()["workers"])
    homes = [addresses[k % 2] for k in range(4)]
    parts = [
        client.scatter(part, workers=[home])
        for part, home in zip(np.array_split(X, 4), homes, strict=True)
    ]
    rows = da.concatenate([da.from_delayed(part, (150, D), float) for part in parts])
    rows = client.persist(rows)
    distributed.wait(rows)
    model = DaskMulticlassSVC(C=0.05, intercept="penalized", client=client)
    held = model._look(rows, da.from_array(y, chunks=150), None)
    owners = client.who_has(distributed.futures_of(rows)).values()
    assert sorted(held.places) == sorted(min(one) for one in owners)
    spec = linear_spec(model, held.classes, held.mass, held.n_features)
    with model._team(held, spec, 0) as team:
        team.start()
        if held.places == homes:  # a busy scheduler may have moved them
            assert team.places == addresses
        assert set(team.home.values()) <= set(addresses)
    model.fit(rows, da.from_array(y, chunks=150))
    assert model.certificate_.primal == pytest.approx(reference(X, y), rel=2e-3)


def test_a_pickled_estimator_has_no_client(client):
    X, y = data(4)
    model = fitted(client, da.from_array(X, chunks=(300, D)), da.from_array(y, chunks=300))
    copy = pickle.loads(pickle.dumps(model))
    assert copy.client is None
    assert np.array_equal(copy.to_local().predict(X), model.to_local().predict(X))
    again = copy.fit(da.from_array(X, chunks=(300, D)), da.from_array(y, chunks=300))
    # by the client of the moment
    assert again.certificate_.primal == pytest.approx(model.certificate_.primal, rel=2e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"machine": "ww", "intercept": "auto"}, "intercept='penalized'"),
        ({"kernel": "rbf"}, "kernel='linear'"),
        ({"C": np.inf}, "finite"),
    ],
)
def test_refusals_name_the_way_out(client, options, message):
    X, y = data(5)
    with pytest.raises(ValueError, match=message):
        DaskMulticlassSVC(client=client, **options).fit(
            da.from_array(X, chunks=(300, D)), da.from_array(y, chunks=300)
        )
