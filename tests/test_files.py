"""Model files: the same predictions after loading, and every refusal."""

import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import skops.io as skops_io
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, MinMaxScaler, StandardScaler

import polymargin
from polymargin import (
    MACHINES,
    Annealing,
    ConvexHullSVC,
    Machine,
    ModelFileError,
    MulticlassSVC,
    MultiPrototypeSVC,
    MultiPrototypeSVCCV,
    PatternSMO,
)
from polymargin.estimators.inspection import dissect
from polymargin.plots import HistoryDisplay
from polymargin.storage import model_file as model_files

MODELS = {
    "cs": MulticlassSVC(random_state=0),
    "cs-rbf": MulticlassSVC(kernel="rbf", random_state=0),
    "ww-poly": MulticlassSVC("ww", kernel="poly", coef0=1.0, degree=2, random_state=0),
    "llw": MulticlassSVC("llw", random_state=0),
    "msvm2-rbf": MulticlassSVC("msvm2", kernel="rbf", random_state=0),
    "adm": MulticlassSVC("adm", random_state=0),
    "pattern smo": MulticlassSVC(kernel="rbf", solver=PatternSMO(), random_state=0),
    "row of the table": MulticlassSVC(MACHINES["cs"], random_state=0),
    "own machine": MulticlassSVC(
        Machine(name="own", title="own", K1=1, K2=0.5, K3=1), random_state=0
    ),
    "prototypes": MultiPrototypeSVC(2, annealing=Annealing(), random_state=0),
    "prototypes-rbf": MultiPrototypeSVC(2, kernel="rbf", random_state=0),
    "random state": MultiPrototypeSVC(2, random_state=np.random.RandomState(0)),
    "tuned": MulticlassSVC("msvm2", C="radius-margin", kernel="rbf", random_state=0),
    "widths": MulticlassSVC(kernel="rbf", gamma=np.array([0.1, 0.2, 0.3, 0.4]), random_state=0),
    "hull": ConvexHullSVC(eta=0.1),
    "hull-linear": ConvexHullSVC(eta=0.1, kernel="linear"),
    "pipeline": make_pipeline(StandardScaler(), MultiPrototypeSVC(2, random_state=0)),
    "minmax": make_pipeline(MinMaxScaler(), MulticlassSVC(random_state=0)),
    "maxabs": make_pipeline(MaxAbsScaler(), MulticlassSVC(class_weight="balanced")),
    "search": MultiPrototypeSVCCV((1, 2), Cs=(0.1, 1.0), cv=2, random_state=0),
    "grid": GridSearchCV(MulticlassSVC(random_state=0), {"C": [0.1, 1.0]}, cv=2),
}


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture
def saved(iris, tmp_path):
    path = tmp_path / "model.pm"
    polymargin.save(MulticlassSVC(C=0.1, random_state=0).fit(*iris), path)
    return path


@pytest.mark.parametrize("name", MODELS)
def test_same_predictions_after_loading(name, iris, tmp_path):
    X, y = iris
    model = MODELS[name].fit(X, y)
    polymargin.save(model, tmp_path / "model")
    loaded = polymargin.load(str(tmp_path / "model"))
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert os.listdir(tmp_path) == ["model"]


def test_precomputed_and_sparse(iris, tmp_path):
    from scipy import sparse

    X, y = iris
    K = X @ X.T
    model = MulticlassSVC(kernel="precomputed", random_state=0).fit(K, y)
    polymargin.save(model, tmp_path / "a")
    np.testing.assert_array_equal(polymargin.load(tmp_path / "a").predict(K), model.predict(K))
    rows = sparse.csr_matrix(X)
    model = MulticlassSVC(kernel="rbf", random_state=0).fit(rows, y)
    polymargin.save(model, tmp_path / "b")
    np.testing.assert_array_equal(
        polymargin.load(tmp_path / "b").decision_function(rows), model.decision_function(rows)
    )


def test_data_frame_names_are_in_the_header(iris, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(iris[0], columns=list("abcd"))
    model = make_pipeline(StandardScaler(), MulticlassSVC(random_state=0)).fit(frame, iris[1])
    polymargin.save(model, tmp_path / "m")
    header = model_files.read_header(tmp_path / "m")
    assert header["feature_names"] == list("abcd")
    assert header["labels"] == ["setosa", "versicolor", "virginica"]
    assert header["library"] == polymargin.__version__
    assert header["format"] == 1
    assert header["estimator"] == ["StandardScaler", "MulticlassSVC"]
    assert list(polymargin.load(tmp_path / "m").feature_names_in_) == list("abcd")


def test_any_changed_byte_is_refused(saved):
    data = bytearray(saved.read_bytes())
    for place in [*range(0, len(data), 37), len(data) - 1]:
        data[place] ^= 0x40
        saved.write_bytes(data)
        with pytest.raises(ModelFileError) as caught:
            polymargin.load(saved)
        assert "\n" not in str(caught.value)
        assert str(saved) in str(caught.value)
        data[place] ^= 0x40


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.3, 0.9, 0.9999])
def test_truncated_is_refused(saved, share):
    data = saved.read_bytes()
    saved.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ModelFileError, match=r"truncated|damaged|empty|not a polymargin"):
        polymargin.load(saved)


def test_longer_is_refused(saved):
    saved.write_bytes(saved.read_bytes() + b"\0")
    with pytest.raises(ModelFileError, match="damaged"):
        polymargin.load(saved)


def test_newer_is_refused(saved):
    data = bytearray(saved.read_bytes())
    struct.pack_into("<I", data, len(model_files.MAGIC), model_files.FORMAT_VERSION + 1)
    saved.write_bytes(data)
    with pytest.raises(ModelFileError, match="newer"):
        polymargin.load(saved)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "x").write_text("a,b\n1,2\n")
    with pytest.raises(ModelFileError, match="not a polymargin model"):
        polymargin.load(tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        polymargin.load(tmp_path / "none")


def forge(path, payload):
    """A file with everything right but the payload."""
    header = json.dumps({"labels": None}).encode()
    data = model_files._FRONT.pack(model_files.MAGIC, 1, len(header)) + header + payload
    path.write_bytes(data + hashlib.sha256(data).digest())


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/should-not-exist",)


@pytest.mark.parametrize(
    "content",
    [os.system, Evil(), [np.sin, 1], FunctionTransformer(np.log1p), type("Local", (), {})],
    ids=lambda value: str(value)[:20],
)
def test_strange_content_is_refused(content, tmp_path):
    try:
        payload = skops_io.dumps(content)
    except Exception as error:
        pytest.skip(f"skops does not write it: {error}")
    forge(tmp_path / "evil", payload)
    with pytest.raises(ModelFileError, match="not on the list"):
        polymargin.load(tmp_path / "evil")


def test_forged_schema_is_refused(tmp_path):
    for schema in ("{}", "[", json.dumps({"__loader__": "MethodNode", "__class__": "x"})):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("schema.json", schema)
        forge(tmp_path / "evil", buffer.getvalue())
        with pytest.raises(ModelFileError):
            polymargin.load(tmp_path / "evil")
    forge(tmp_path / "evil", b"no archive")
    with pytest.raises(ModelFileError, match="skops"):
        polymargin.load(tmp_path / "evil")


def linear_kernel(A, B):
    return A @ B.T


def test_a_function_as_kernel_is_refused(iris, tmp_path):
    model = make_pipeline(StandardScaler(), MulticlassSVC(kernel=linear_kernel)).fit(*iris)
    with pytest.raises(ModelFileError, match="kernel"):
        polymargin.save(model, tmp_path / "m")
    assert not os.listdir(tmp_path)


class OwnEstimator(MulticlassSVC):
    pass


def test_own_classes_and_unfitted_models_are_refused(iris, tmp_path):
    with pytest.raises(ModelFileError, match="OwnEstimator"):
        polymargin.save(OwnEstimator().fit(*iris), tmp_path / "m")
    with pytest.raises(ModelFileError, match="fit"):
        polymargin.save(MulticlassSVC(), tmp_path / "m")
    with pytest.raises(ModelFileError, match="fit"):
        polymargin.save({"a": 1}, tmp_path / "m")
    assert not os.listdir(tmp_path)


def test_a_failed_write_leaves_the_old_file(saved, iris):
    before = saved.read_bytes()
    with pytest.raises(RuntimeError), model_files.atomic_file(saved) as file:  # noqa: PT012
        file.write(b"half")
        raise RuntimeError
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]
    with pytest.raises(OSError, match="folder"):
        polymargin.save(MulticlassSVC(random_state=0).fit(*iris), saved.parent)


def test_links_and_devices(saved, iris, tmp_path):
    model = MulticlassSVC(random_state=0).fit(*iris)
    link = tmp_path / "link"
    link.symlink_to(saved)
    polymargin.save(model, link)
    assert link.is_symlink()
    polymargin.load(saved)
    polymargin.save(model, os.devnull)
    assert not os.path.isfile(os.devnull)


def test_a_transformer_alone(iris, tmp_path):
    scaler = StandardScaler().fit(iris[0])
    polymargin.save(scaler, tmp_path / "m")
    np.testing.assert_array_equal(polymargin.load(tmp_path / "m").mean_, scaler.mean_)


@pytest.mark.skipif(os.name != "posix", reason="processes are asked for by signal 0")
def test_what_a_killed_save_left_behind_is_removed_by_the_next(saved, iris):
    code = """
import os, signal, sys
from polymargin.storage.atomic import atomic_file
with atomic_file(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    before = saved.read_bytes()
    subprocess.run([sys.executable, "-c", code, str(saved)], check=False)
    assert len(os.listdir(saved.parent)) == 2
    assert saved.read_bytes() == before
    with model_files.atomic_file(saved) as slow:  # alive: stays
        slow.write(b"whole")
        polymargin.save(MulticlassSVC(random_state=0).fit(*iris), saved)
        assert len(os.listdir(saved.parent)) == 2
    assert os.listdir(saved.parent) == [saved.name]
    assert saved.read_bytes() == b"whole"


@pytest.mark.parametrize(
    "model",
    [
        MulticlassSVC("ww", kernel="rbf", random_state=0),
        MultiPrototypeSVC(2, random_state=0),
        make_pipeline(StandardScaler(), MulticlassSVC(random_state=0)),
    ],
    ids=["kernel", "prototypes", "pipeline"],
)
def test_two_fits_of_one_seed_give_the_same_bytes(tmp_path, iris, model):
    contents = []
    for name in ("first.pm", "second.pm"):
        polymargin.save(clone(model).fit(*iris), tmp_path / name)
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]
    loaded = polymargin.load(tmp_path / "first.pm")
    history = dissect(loaded).last.history_
    assert "seconds" not in history
    assert len(history["dual"])
    assert HistoryDisplay.record(loaded).seconds is None
    assert HistoryDisplay.record(loaded).chart("gap")
