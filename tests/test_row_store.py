"""Rows in blocks on disk: what goes in comes out, and training sees all of it."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from polymargin import MACHINES, DataFileError, MulticlassSVC
from polymargin.datasets.row_store import RowStore, bytes_of
from polymargin.solvers.shards.blockwise import Blockwise
from polymargin.solvers.shards.part import LinearSpec
from polymargin.tables.large_tables import open_rows

N, D, Q, C = 400, 5, 3, 0.05


def data(seed=0):
    random = np.random.default_rng(seed)
    y = random.integers(0, Q, N)
    X = random.normal(size=(Q, D))[y] + random.normal(size=(N, D))
    return X.astype(np.float32), y


def stored_npy(tmp_path, X, y, **options):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    return open_rows(tmp_path / "X.npy", label=tmp_path / "y.npy", **options)


def everything(rows):
    blocks = list(rows.blocks())
    stack = sp.vstack if sp.issparse(blocks[0][0]) else np.concatenate
    return stack([X for X, _ in blocks]), np.concatenate([y for _, y in blocks])


@pytest.mark.parametrize(
    ("text", "size"), [("1GB", 10**9), ("512MiB", 512 << 20), ("2k", 2000), (77, 77)]
)
def test_sizes(text, size):
    assert bytes_of(text) == size


def test_a_size_that_is_none():
    with pytest.raises(ValueError, match="memory"):
        bytes_of("much")


def test_npy_comes_back(tmp_path):
    X, y = data()
    names = np.array(["c", "a", "b"])[y]
    with stored_npy(tmp_path, X, names) as rows:
        back, labels = everything(rows)
        folder = rows.folder
    assert np.array_equal(back, X)
    assert np.array_equal(labels, names)
    assert rows.classes.tolist() == ["a", "b", "c"]
    assert not folder.exists()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_come_back(tmp_path, suffix):
    pandas = pytest.importorskip("pandas")
    X, y = data(1)
    frame = pandas.DataFrame(X, columns=list("abcde"))
    frame.insert(2, "kind", np.array(["x", "y", "z"])[y])
    path = tmp_path / f"table.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    with open_rows(path, label="kind", dtype=np.float64) as rows:
        back, labels = everything(rows)
    assert np.allclose(back, X, rtol=1e-6)
    assert labels.tolist() == frame["kind"].tolist()


def test_libsvm_comes_back(tmp_path):
    X, y = data(2)
    X[X < 0.5] = 0.0
    dump_svmlight_file(X, y, str(tmp_path / "rows.svm"), zero_based=False)
    with open_rows(tmp_path / "rows.svm", memory="1MB") as rows:
        back, labels = everything(rows)
    assert np.allclose(back.toarray(), X, atol=1e-6)
    assert np.array_equal(labels, y)


def test_a_scratch_folder_is_used_again_until_the_source_changes(tmp_path):
    X, y = data(3)
    scratch = tmp_path / "scratch"
    stored_npy(tmp_path, X, y, scratch=scratch).close()
    written = (scratch / "rows.json").stat().st_mtime_ns
    stored_npy_again = open_rows(tmp_path / "X.npy", tmp_path / "y.npy", scratch=scratch)
    assert (scratch / "rows.json").stat().st_mtime_ns == written
    assert stored_npy_again.n_rows == N
    changed = stored_npy(tmp_path, X[:100], y[:100], scratch=scratch)
    assert changed.n_rows == 100


def test_standardised_rows(tmp_path):
    X, y = data(4)
    with stored_npy(tmp_path, 7 * X + 3, y) as rows:
        Z, _ = everything(rows.standardized())
    assert np.allclose(Z.mean(axis=0), 0, atol=1e-5)
    assert np.allclose(Z.std(axis=0), 1, atol=1e-5)


@pytest.mark.parametrize("name", ["cs", "ww", "msvm2"])
def test_blocks_one_after_another_reach_the_optimum(tmp_path, name):
    X, y = data(5)
    whole = MulticlassSVC(name, C=C, intercept="penalized", tol=1e-6).fit(X, y).certificate_
    with stored_npy(tmp_path, X, y) as rows:
        spec = LinearSpec(MACHINES[name], 1.0, C, rows.classes, np.ones(Q), D)
        many = Many(rows, 7)
        found = Blockwise(many, spec, 1e-3).run()
    assert found.status == "converged"
    assert found.certificate.relative_gap <= 1e-3
    assert found.certificate.primal == pytest.approx(whole.primal, rel=2e-3)


class Many:
    """The rows of a store in more blocks than it has."""

    def __init__(self, rows, n_blocks):
        self.X, self.y = everything(rows)
        self.n_blocks = n_blocks

    def load(self, k):
        some = slice(k, None, self.n_blocks)
        return self.X[some], self.y[some]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, y: (np.where(X > 2, np.nan, X), y), "missing or infinite"),
        (lambda X, y: (X, y[:-1]), "there are 400 rows"),
        (lambda X, y: (X[:0], y[:0]), "no rows"),
    ],
)
def test_bad_rows_are_refused_in_one_line(tmp_path, spoil, message):
    with pytest.raises(DataFileError, match=message):
        stored_npy(tmp_path, *spoil(*data(6)))


def test_a_damaged_store_is_refused(tmp_path):
    X, y = data(7)
    scratch = tmp_path / "scratch"
    stored_npy(tmp_path, X, y, scratch=scratch)
    facts = json.loads((scratch / "rows.json").read_text())
    (scratch / "rows.json").write_text(json.dumps({"version": facts["version"]}))
    with pytest.raises(DataFileError, match="no folder of packed rows"):
        RowStore(scratch)


def test_an_estimator_trains_and_predicts_on_a_store(tmp_path):
    X, y = data(8)
    whole = MulticlassSVC(C=C, tol=1e-6).fit(X, y)
    with stored_npy(tmp_path, X, y) as rows:
        model = MulticlassSVC(C=C).fit(rows)
        assert model.certificate_.relative_gap <= 1e-3
        assert model.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=2e-3)
        assert np.array_equal(model.predict(rows), model.predict(X))
        assert model.score(rows) == pytest.approx(model.score(X, y))
    with pytest.raises(AttributeError, match="parts of the data"):
        _ = model.dual_coef_


def test_a_free_intercept_is_refused_with_the_way_out(tmp_path):
    with (
        stored_npy(tmp_path, *data(9)) as rows,
        pytest.raises(ValueError, match="intercept='penalized'"),
    ):
        MulticlassSVC("ww").fit(rows)
