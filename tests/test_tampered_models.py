"""Model files whose arrays or numbers were changed and whose checksum was redone.

Each is refused with one line, or loads and predicts finite scores as if nothing had happened.
"""

import hashlib
import io
import json
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import polymargin
from polymargin import (
    ConvexHullSVC,
    ModelFileError,
    MulticlassSVC,
    MultiPrototypeSVC,
    MultiPrototypeSVCCV,
)
from polymargin.storage import model_file

X, Y = load_iris(return_X_y=True)
X, Y = X[::3], Y[::3]
ROWS = sparse.csr_matrix(np.where(X > 1.0, X, 0.0))
TWO = Y < 2

MODELS = {
    "linear": (MulticlassSVC(random_state=0), X, Y),
    "two classes": (MulticlassSVC(random_state=0), X[TWO], Y[TWO]),
    "rbf": (MulticlassSVC(kernel="rbf", random_state=0), X, Y),
    "sparse rbf": (MulticlassSVC("ww", kernel="rbf", random_state=0), ROWS, Y),
    "sparse linear": (MulticlassSVC(random_state=0), ROWS, Y),
    "precomputed": (MulticlassSVC(kernel="precomputed", random_state=0), X @ X.T, Y),
    "prototypes": (MultiPrototypeSVC(2, metric="learned", random_state=0), X, Y),
    "prototypes rbf": (MultiPrototypeSVC(2, kernel="rbf", random_state=0), ROWS, Y),
    "prototypes cv": (MultiPrototypeSVCCV((2,), Cs=(1.0,), cv=2, random_state=0), X, Y),
    "hull": (ConvexHullSVC(eta=0.3), X, Y),
    "hull linear": (ConvexHullSVC(eta=0.3, kernel="linear"), X, Y),
    "pipeline": (make_pipeline(StandardScaler(), MulticlassSVC(kernel="rbf")), X, Y),
    "grid": (GridSearchCV(MulticlassSVC(random_state=0), {"C": [1.0]}, cv=2), X, Y),
}


def split(data):
    """Front with header, and the files of the archive."""
    _, _, length = model_file._FRONT.unpack_from(data)
    body = model_file._FRONT.size + length
    with zipfile.ZipFile(io.BytesIO(data[body:-32])) as archive:
        return data[:body], {name: archive.read(name) for name in archive.namelist()}


def join(front, files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    data = front + buffer.getvalue()
    return data + hashlib.sha256(data).digest()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def with_number(array, where, value):
    array = array.copy()
    array.flat[where] = value
    return array


def array_changes(a):
    """The array with one thing wrong; shapes, dtypes, single numbers."""
    yield a[..., None]
    yield a.ravel()
    yield a.T
    yield a.astype(np.float32)
    yield a.astype(np.complex128) if a.dtype.kind in "biuf" else a.astype("S3")
    yield a.astype(str)
    yield a.astype(np.longdouble) if a.dtype.kind == "f" else a
    if not a.size or not a.ndim:
        return
    yield a[:-1]
    yield a[:0]
    yield np.concatenate([a, a[-1:]])
    if a.ndim == 2:
        yield a[:, :-1]
        yield np.concatenate([a, a[:, -1:]], axis=1)
    yield a[::-1]
    if a.dtype.kind == "f":
        for value in (np.nan, np.inf, -np.inf):
            yield with_number(a, -1, value)
        yield (1000 * a).astype(np.int64)
        yield np.zeros_like(a)
    if a.dtype.kind == "i":
        for value in (-1, int(a.max()) + 1, -(10**9), 10**9, np.iinfo(a.dtype).max):
            yield with_number(a, -1, value)
        yield a.astype(np.uint64)
        yield a.astype(np.float64)


def npz_changes(content):
    """One part of a stored CSR matrix with something wrong."""
    with np.load(io.BytesIO(content)) as archive:
        parts = {name: archive[name] for name in archive.files}
    for name in ("data", "indices", "indptr", "shape"):
        for changed in array_changes(parts[name]):
            buffer = io.BytesIO()
            np.savez(buffer, **{**parts, name: changed})
            yield buffer.getvalue()


JSON = ("null", "true", "0", "-1", "5", "1000000000000", "NaN", "1e400", '"x"', "[]", "{}", "[[1]]")


def changes(files):
    """Every tampered set of files, with words for the message of a failing test."""
    for name, content in files.items():
        if name.endswith(".npy"):
            for k, array in enumerate(array_changes(np.load(io.BytesIO(content)))):
                yield f"{name} change {k}", {**files, name: npy(array)}
        elif name.endswith(".npz"):
            for k, changed in enumerate(npz_changes(content)):
                yield f"{name} change {k}", {**files, name: changed}
    text = files["schema.json"].decode()
    count = sum("content" in n for n in json_nodes(json.loads(text)))
    step = 6 if count < 100 else 12  # one or two of the values at each place: minutes otherwise
    for place in range(count):
        for value in JSON[place % step :: step]:
            schema = json.loads(text)
            node = json_nodes(schema)[place]
            where = f"content {place} {node['content']} -> {value}"
            node["content"] = value
            yield where, {**files, "schema.json": json.dumps(schema).encode()}


def json_nodes(schema):
    """The numbers and words of a schema."""
    found = [n for n in model_file.nodes(schema) if n.get("__loader__") == "JsonNode"]
    return [n for n in found if isinstance(n.get("content"), str)]


@pytest.mark.parametrize("name", MODELS)
def test_tampered_is_refused_or_predicts(name, tmp_path):
    model, data, labels = MODELS[name]
    path = tmp_path / "model.pm"
    refused = total = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        polymargin.save(model.fit(data, labels), path)
        front, files = split(path.read_bytes())
        for where, changed in changes(files):
            path.write_bytes(join(front, changed))
            total += 1
            try:
                loaded = polymargin.load(path)
            except ModelFileError as error:
                refused += 1
                assert "\n" not in str(error), where  # noqa: PT017
                continue
            try:
                scores = loaded.decision_function(data)
                assert len(loaded.predict(data)) == len(labels)
            except Exception as error:
                raise AssertionError(f"{where}: {error!r}") from error
            assert np.isfinite(scores).all(), where
    assert 50 < refused < total


def tampered(path, change):
    front, files = split(path.read_bytes())
    change(files)
    path.write_bytes(join(front, files))


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.pm"
    polymargin.save(MulticlassSVC(kernel="rbf", random_state=0).fit(ROWS, Y), path)
    return path


def test_an_index_beyond_the_features_is_refused(saved):
    def change(files):
        (name,) = (name for name in files if name.endswith(".npz"))
        with np.load(io.BytesIO(files[name])) as archive:
            parts = {part: archive[part] for part in archive.files}
        parts["indices"][0] = 4
        buffer = io.BytesIO()
        np.savez(buffer, **parts)
        files[name] = buffer.getvalue()

    tampered(saved, change)
    with pytest.raises(ModelFileError, match="indices must lie between 0 and 3"):
        polymargin.load(saved)


def test_what_unpacks_to_too_much_is_refused_before_it_is_unpacked(saved):
    def change(files):
        (name,) = (name for name in files if name.endswith(".npz"))
        buffer = io.BytesIO()
        np.savez_compressed(buffer, data=np.zeros(20_000_000))
        files[name] = buffer.getvalue()

    good = saved.read_bytes()
    tampered(saved, change)
    assert len(saved.read_bytes()) < 100_000
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="max_bytes"):
        polymargin.load(saved)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000
    with pytest.raises(ModelFileError, match="cannot be restored"):
        polymargin.load(saved, max_bytes=1 << 30)
    saved.write_bytes(good)
    polymargin.load(saved)
    with pytest.raises(ModelFileError, match="max_bytes"):
        polymargin.load(saved, max_bytes=1000)


def test_the_same_file_named_often_counts_often(saved):
    def change(files):
        schema = json.loads(files["schema.json"])
        files["big.npy"] = npy(np.zeros(1_000_000))
        big = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode"}
        big |= {"type": "numpy", "file": "big.npy"}
        schema["content"]["content"] |= {f"a{k}": {**big, "__id__": -k} for k in range(1, 400)}
        files["schema.json"] = json.dumps(schema).encode()

    tampered(saved, change)
    with pytest.raises(ModelFileError, match="max_bytes"):
        polymargin.load(saved)


def test_save_stays_below_the_limit_of_load(tmp_path):
    """A model of mostly zeros packs so well that it is stored unpacked."""
    data = np.zeros((30, 500_000), dtype=np.float32)
    data[np.arange(30), np.arange(30)] = 1.0
    model = MulticlassSVC(random_state=0).fit(data, np.arange(30) % 3)
    polymargin.save(model, tmp_path / "m")
    assert (tmp_path / "m").stat().st_size > 1 << 26
    np.testing.assert_array_equal(
        polymargin.load(tmp_path / "m").predict(data), model.predict(data)
    )


@pytest.mark.parametrize("damage", [b"schema.json", b"PK\3\4", b"PK\1\2", b"PK\5\6"])
def test_damaged_archives_are_refused(saved, damage):
    """Errors of zipfile and zlib of all kinds, at every byte behind a mark."""
    good = saved.read_bytes()
    start = good.rindex(damage)
    for place in range(start, min(start + 60, len(good) - 32)):
        for flip in (0x01, 0x80):
            data = bytearray(good[:-32])
            data[place] ^= flip
            saved.write_bytes(bytes(data) + hashlib.sha256(data).digest())
            try:
                polymargin.load(saved).predict(ROWS)
            except ModelFileError as error:
                assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    "entry", [{"labels": 3}, {"feature_names": "abcd"}, {"n_features": "4"}, {"label_name": [1]}]
)
def test_a_header_of_wrong_types_is_refused(saved, entry):
    front, files = split(saved.read_bytes())
    header = json.dumps(json.loads(front[model_file._FRONT.size :]) | entry).encode()
    front = model_file._FRONT.pack(model_file.MAGIC, 1, len(header)) + header
    saved.write_bytes(join(front, files))
    with pytest.raises(ModelFileError, match="header"):
        polymargin.load(saved)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_model_gives_the_same_bytes(name, tmp_path):
    import copy

    model, data, labels = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data, labels)
    polymargin.save(model, tmp_path / "a")
    polymargin.save(copy.deepcopy(model), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    polymargin.save(polymargin.load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
