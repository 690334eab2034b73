"""Sparse matrices from outside: damaged parts are refused in one line, odd ones read rightly."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from polymargin import (
    ConvexHullSVC,
    DataFileError,
    MulticlassSVC,
    MultiPrototypeSVC,
    MultiPrototypeSVCCV,
    radius_margin_bound,
    smallest_enclosing_sphere,
)
from polymargin.datasets import read_data

N, D = 60, 4


def parts():
    """A CSR matrix with two entries a row, and labels."""
    rng = np.random.default_rng(0)
    y = np.arange(N) % 3
    indices = np.stack([y, np.full(N, 3)], axis=1).ravel()
    return {
        "data": 1.0 + rng.random(2 * N),
        "indices": indices,
        "indptr": 2 * np.arange(N + 1),
        "shape": np.array([N, D]),
    }, y


def changed(name, place, value):
    def change(found):
        found[name] = found[name].copy()
        found[name][place] = value

    return change


def replaced(name, make):
    def change(found):
        found[name] = make(found[name])

    return change


DAMAGE = {
    "index far out": changed("indices", 7, 10**9),
    "index one out": changed("indices", 7, D),
    "index negative": changed("indices", 7, -1),
    "indptr not from 0": changed("indptr", 0, 1),
    "indptr negative": changed("indptr", 5, -3),
    "indptr decreases": changed("indptr", 5, 90),
    "indptr ends late": changed("indptr", -1, 2 * N + 1),
    "indptr far out": changed("indptr", 30, 10**9),
    "indptr short": replaced("indptr", lambda a: a[:-1]),
    "indptr long": replaced("indptr", lambda a: np.append(a, a[-1])),
    "indptr empty": replaced("indptr", lambda a: a[:0]),
    "indices short": replaced("indices", lambda a: a[:-1]),
    "data short": replaced("data", lambda a: a[:-1]),
    "indices of floats": replaced("indices", lambda a: a + 0.5),
    "indptr of floats": replaced("indptr", lambda a: a.astype(float)),
    "indices in two dimensions": replaced("indices", lambda a: a.reshape(-1, 2)),
    "data in two dimensions": replaced("data", lambda a: a.reshape(-1, 2)),
    "not finite": changed("data", 7, np.nan),
}
IN_FILES_ONLY = {
    "indptr ends early": changed("indptr", -1, 2 * N - 1),
    "three dimensions": replaced("shape", lambda a: np.append(a, 1)),
    "a narrower shape": replaced("shape", lambda a: a - [0, 1]),
    "a shorter shape": replaced("shape", lambda a: a - [1, 0]),
    "a negative shape": replaced("shape", lambda a: -a),
    "a shape of floats": replaced("shape", lambda a: a + 0.5),
    "text as data": replaced("data", lambda a: a.astype(str)),
    "infinite": changed("data", 7, np.inf),
}
FORMATS = [sparse.csr_matrix, sparse.csr_array]


def damaged(name, make=sparse.csr_matrix):
    """A matrix whose parts were changed after SciPy looked at them."""
    found, y = parts()
    X = make(sparse.csr_matrix((found["data"], found["indices"], found["indptr"]), shape=(N, D)))
    kept = {"data": X.data, "indices": X.indices, "indptr": X.indptr}
    DAMAGE[name](kept)
    X.data, X.indices, X.indptr = kept["data"], kept["indices"], kept["indptr"]
    return X, y


@pytest.mark.parametrize("make", FORMATS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", DAMAGE)
def test_fit_refuses_damaged_parts(name, make):
    X, y = damaged(name, make)
    with pytest.raises(ValueError, match=r"X: a damaged|X contains NaN"):
        MulticlassSVC().fit(X, y)


MODELS = [
    MulticlassSVC(random_state=0),
    MulticlassSVC(kernel="rbf", random_state=0),
    MultiPrototypeSVC(2, random_state=0),
    ConvexHullSVC(),
    MultiPrototypeSVCCV((1,), Cs=(1.0,), cv=2, random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_every_way_in_refuses(model):
    found, y = parts()
    good = sparse.csr_matrix((found["data"], found["indices"], found["indptr"]), shape=(N, D))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(good, y)
    ways = [model.predict, model.decision_function, model.predict_or_reject]
    ways += [lambda X: model.score(X, y), lambda X: model.fit(X, y)]
    if hasattr(model, "partial_fit"):
        ways.append(lambda X: model.partial_fit(X, y))
    for name in ("index one out", "index far out", "indptr decreases", "indptr far out"):
        for way in ways:
            with pytest.raises(ValueError, match="X: a damaged CSR matrix") as caught:
                way(damaged(name)[0])
            assert "\n" not in str(caught.value)


def test_functions_refuse():
    X, y = damaged("index one out")
    with pytest.raises(ValueError, match="X: a damaged CSR matrix"):
        radius_margin_bound(X, y, C=1.0)
    with pytest.raises(ValueError, match="X: a damaged CSR matrix"):
        smallest_enclosing_sphere(X)


def test_other_formats_are_refused_too():
    found, y = parts()
    good = sparse.csr_matrix((found["data"], found["indices"], found["indptr"]), shape=(N, D))
    coo = good.copy().tocoo()
    coo.col[3] = D
    bsr = good.tobsr((2, 2))
    bsr.indices[3] = D
    dia = good.todia()
    dia.offsets = dia.offsets[:-1]
    lil = good.tolil()
    lil.rows[3][0] = 10**6
    csc, ends = good.tocsc(), good.tocsc()
    csc.indices[3] = N
    ends.indptr[2] = 10**6
    for X in (coo, bsr, dia, lil, csc, ends):
        with pytest.raises(ValueError, match="X: a damaged"):
            MulticlassSVC().fit(X, y)


def test_unsorted_repeated_and_spare_entries_are_read_rightly():
    found, y = parts()
    X = sparse.csr_matrix((found["data"], found["indices"], found["indptr"]), shape=(N, D))
    dense = X.toarray()
    fitted = MulticlassSVC(random_state=0).fit(X, y)
    assert X.has_canonical_format
    order = np.arange(2 * N).reshape(-1, 2)[:, ::-1].ravel()
    X.data, X.indices = X.data[order], X.indices[order]  # SciPy still believes it sorted
    halves = sparse.csr_matrix((N, D))
    halves.data = np.repeat(0.5 * found["data"], 2)
    halves.indices = np.repeat(found["indices"], 2).astype(np.int32)
    halves.indptr = (2 * found["indptr"]).astype(np.int32)
    spare = sparse.csr_matrix((N, D))
    spare.data = np.append(found["data"], [np.nan] * 5)
    spare.indices = np.append(found["indices"], [10**6] * 5).astype(np.int32)
    spare.indptr = found["indptr"].astype(np.int32)
    for odd in (X, halves, spare):
        before = odd.data.copy()
        model = MulticlassSVC(random_state=0).fit(odd, y)
        np.testing.assert_allclose(model.coef_, fitted.coef_, atol=1e-12)
        np.testing.assert_allclose(
            model.decision_function(odd), fitted.decision_function(dense), atol=1e-12
        )
        np.testing.assert_array_equal(odd.data, before)


def test_a_sum_of_repeated_entries_that_overflows_is_refused():
    X = sparse.csr_matrix(([1e308, 1e308, 1.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    with pytest.raises(ValueError, match="overflows"):
        MulticlassSVC().fit(X, [0, 1])


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*DAMAGE, *IN_FILES_ONLY])
def test_npz_refuses_damaged_parts(name, tmp_path):
    found, y = parts()
    {**DAMAGE, **IN_FILES_ONLY}[name](found)
    path = str(tmp_path / "bad.npz")
    np.savez(path, y=y, **found)
    with pytest.raises(DataFileError) as caught:
        read_data(path)
    assert path in str(caught.value)
    assert "\n" not in str(caught.value)


def test_npz_of_repeated_entries_and_other_formats(tmp_path):
    found, y = parts()
    path = str(tmp_path / "data.npz")
    rows = sparse.csr_matrix((found["data"], found["indices"], found["indptr"]), shape=(N, D))
    for name in ("data", "indices"):
        found[name] = np.repeat(found[name], 2)
    found["indptr"] = 2 * found["indptr"]
    np.savez(path, y=y, **found)
    np.testing.assert_array_equal(read_data(path).X.toarray(), 2 * rows.toarray())
    sparse.save_npz(path, rows)
    np.testing.assert_array_equal(read_data(path, need_label=False).X.toarray(), rows.toarray())
    sparse.save_npz(path, rows.tocsc())
    with pytest.raises(DataFileError, match="csc"):
        read_data(path, need_label=False)


X2 = np.eye(4)
ODD = {
    "0-d X": {"X": 3.0, "y": [0]},
    "1-d X": {"X": [1.0, 2.0], "y": [0, 1]},
    "0-d y": {"X": X2, "y": 0},
    "dates as y": {"X": X2, "y": np.arange(4).astype("M8[s]")},
    "complex y": {"X": X2, "y": np.arange(4) * 1j},
    "records as y": {"X": X2, "y": np.zeros(4, dtype=[("a", int)])},
    "complex X": {"X": X2 * 1j, "y": range(4)},
    "records as X": {"X": np.zeros((4, 2), dtype=[("a", int)]), "y": range(4)},
    "0-d names": {"X": X2, "y": range(4), "feature_names": "abcd"},
    "few names": {"X": X2, "y": range(4), "feature_names": ["a"]},
    "row beyond": {"X": X2, "y": range(4), "train_idx": [0, 4]},
    "row negative": {"X": X2, "y": range(4), "train_idx": [0, -1]},
    "rows of floats": {"X": X2, "y": range(4), "train_idx": [0.5]},
    "0-d rows": {"X": X2, "y": range(4), "train_idx": 1},
    "2-d rows": {"X": X2, "y": range(4), "train_idx": [[1, 2]]},
    "short mask": {"X": X2, "y": range(4), "train_idx": [True]},
    "no rows": {"X": X2, "y": range(4), "train_idx": []},
    "text as rows": {"X": X2, "y": range(4), "train_idx": ["a"]},
}


@pytest.mark.parametrize("name", ODD)
def test_odd_npz_is_refused_in_one_line(name, tmp_path):
    path = str(tmp_path / "odd.npz")
    np.savez(path, **ODD[name])
    with pytest.raises(DataFileError) as caught:
        read_data(path, part="train" if "train_idx" in ODD[name] else None)
    assert path in str(caught.value)
    assert "\n" not in str(caught.value)


def test_npz_that_declares_more_than_it_holds(tmp_path):
    """A header that promises terabytes is refused, whether the archive agrees with it or not."""
    import io
    import struct
    import zipfile

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
    )
    path = str(tmp_path / "huge.npz")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", header.getvalue() + bytes(1000))
    with pytest.raises(DataFileError):
        read_data(path, need_label=False)
    np.savez_compressed(path, X=X2)
    data = bytearray((tmp_path / "huge.npz").read_bytes())
    struct.pack_into("<I", data, data.index(b"PK\1\2") + 24, 0xFFFFFFF0)
    (tmp_path / "huge.npz").write_bytes(data)
    with pytest.raises(DataFileError, match="damaged"):
        read_data(path, need_label=False)
