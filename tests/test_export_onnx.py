"""ONNX files, run by onnxruntime; Pipelines through skl2onnx."""

import json

import numpy as np
import pytest
from conftest import make_overlapping
from export_tools import class_scores, lead, run_onnx
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from polymargin import ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC, MultiPrototypeSVCCV
from polymargin.export import register_skl2onnx, to_onnx

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

X, Y = make_overlapping(n=90, d=6)
X32 = X.astype(np.float32)
MODELS = {
    "linear": MulticlassSVC(C=0.5),
    "free": MulticlassSVC("llw", C=0.5),
    "rbf": MulticlassSVC(kernel="rbf"),
    "poly": MulticlassSVC(kernel="poly", coef0=1.0),
    "sigmoid": MulticlassSVC(kernel="sigmoid", gamma=0.01, max_iter=20),
    "prototypes": MultiPrototypeSVC(3, C=0.5, random_state=0),
    "rbf prototypes": MultiPrototypeSVC(2, kernel="rbf", random_state=0),
    "unequal prototypes": MultiPrototypeSVC("unequal", C=0.5, random_state=0),
    "hull": ConvexHullSVC(eta=0.2),
    "linear hull": ConvexHullSVC(eta=0.2, kernel="linear"),
}


def fitted(name, y, scaler=None):
    model = MODELS[name]
    if "unequal" in name:
        model.set_params(n_prototypes=np.arange(1, len(np.unique(y)) + 1))
    model = model if scaler is None else make_pipeline(scaler, model)
    return model.fit(X, y)


def agree(model, values, found, tolerance=1e-5):
    labels, scores = found
    expected = class_scores(model, values)
    size = np.abs(expected).max()
    assert scores.shape == expected.shape
    np.testing.assert_allclose(scores, expected, rtol=0, atol=tolerance * size)
    clear = lead(expected) >= 1e-5
    np.testing.assert_array_equal(labels[clear], model.predict(values)[clear])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_every_model(name, two):
    model = fitted(name, Y % 2 if two else Y, StandardScaler())
    values = X32.astype(np.float64)
    agree(model, values, run_onnx(model, X32))
    agree(model, values, run_onnx(model, X32, arithmetic="float32"), 1e-4)
    labels, scores = run_onnx(model, X, dtype="float64")
    assert scores.dtype == np.float64
    agree(model, X, (labels, scores), 1e-12)


@pytest.mark.parametrize("scaler", [MinMaxScaler((-1, 1)), MinMaxScaler(clip=True), MaxAbsScaler()])
@pytest.mark.parametrize("name", ["linear", "rbf", "prototypes"])
def test_scalers(name, scaler):
    model = fitted(name, Y, scaler)
    outside = 2.0 * X32.astype(np.float64)
    agree(model, outside, run_onnx(model, outside))
    agree(model, outside, run_onnx(model, outside, arithmetic="float32"), 1e-4)


def test_far_from_zero():
    """Features of mean 1000 and spread 1: what is folded must not cost the digits."""
    far = (X + 1000.0).astype(np.float32).astype(np.float64)
    for name in ("linear", "rbf"):
        model = make_pipeline(StandardScaler(), MODELS[name]).fit(far, Y)
        agree(model, far, run_onnx(model, far))
        agree(model, far, run_onnx(model, far, arithmetic="float32"), 1e-4)


@pytest.mark.parametrize("opset", [13, 15, 18, 21])
def test_opsets(opset):
    model = fitted("prototypes", Y)
    proto = to_onnx(model, opset=opset)
    assert proto.opset_import[0].version == opset
    agree(model, X32.astype(np.float64), run_onnx(proto, X32))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.array(["ä", "b", 'c"', "日本"]), None),
        (np.array([5, -3, 2**40, 0]), np.int64),
        (np.array([1.0, 2.0, 3.0, 4.0]), np.int64),
        (np.array([True, False, True, False]), np.int64),
        (np.array([2**63, 1, 2, 3], dtype=np.uint64), None),
    ],
)
def test_labels(labels, expected):
    model = MulticlassSVC().fit(X, labels[Y])
    found, _ = run_onnx(model, X32)
    wanted = model.predict(X32)
    if expected is None:
        assert found.tolist() == [str(label) for label in wanted]
    else:
        assert found.dtype == expected
        assert found.tolist() == wanted.astype(expected).tolist()


def test_any_number_of_rows():
    model = fitted("prototypes", Y)
    for rows in (0, 1, 7):
        labels, scores = run_onnx(model, X32[:rows])
        assert labels.shape == (rows,)
        assert scores.shape == (rows, 4)


def test_metadata(tmp_path):
    model = fitted("rbf", Y)
    path = tmp_path / "model.onnx"
    to_onnx(model, path)
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    assert proto.producer_name == "polymargin"
    properties = {one.key: one.value for one in proto.metadata_props}
    gap = json.loads(properties["certificate"])["relative_gap"]
    assert gap == model.certificate_.relative_gap
    assert json.loads(properties["labels"]) == [0, 1, 2, 3]


def test_options_are_checked():
    model = fitted("linear", Y)
    with pytest.raises(ValueError, match="dtype"):
        to_onnx(model, dtype="float16")
    with pytest.raises(ValueError, match="arithmetic"):
        to_onnx(model, arithmetic="int8")
    with pytest.raises(ValueError, match="opset"):
        to_onnx(model, opset=9)
    huge = MulticlassSVC().fit(X, Y)
    huge.coef_ = huge.coef_ * 1e60
    with pytest.raises(ValueError, match="range of float32"):
        to_onnx(huge, arithmetic="float32")


def test_a_missing_library_is_named(monkeypatch):
    import importlib

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"\[onnx\]"):
        to_onnx(fitted("linear", Y))
    with pytest.raises(ImportError, match=r"\[onnx\]"):
        register_skl2onnx()


def test_digits():
    X, y = load_digits(return_X_y=True)
    train, test = np.arange(len(y)) % 3 > 0, np.arange(len(y)) % 3 == 0
    for model in (
        MultiPrototypeSVC(5, C=0.01, random_state=0),
        make_pipeline(MinMaxScaler(), MulticlassSVC(kernel="rbf", C=10.0)),
    ):
        model.fit(X[train], y[train])
        agree(model, X[test], run_onnx(model, X[test]))


# -- skl2onnx ----------------------------------------------------------------------------------


@pytest.fixture
def skl2onnx():
    module = pytest.importorskip("skl2onnx")
    register_skl2onnx()
    return module


TRANSFORMERS = {
    "pca": PCA(4, random_state=0),
    "columns": ColumnTransformer(
        [("a", StandardScaler(), [0, 1, 2]), ("b", MinMaxScaler(), [3, 5])]
    ),
}
ESTIMATORS = [
    MultiPrototypeSVC(2, C=0.5, random_state=0),
    MulticlassSVC(kernel="rbf"),
    ConvexHullSVC(eta=0.2),
    MultiPrototypeSVCCV((1, 2), Cs=[0.5], cv=2, random_state=0),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("labels", [np.array(list("abcd")), np.arange(4), np.arange(4) > 1])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("transformer", TRANSFORMERS)
def test_pipelines_of_skl2onnx(skl2onnx, transformer, estimator, labels):
    model = make_pipeline(TRANSFORMERS[transformer], estimator).fit(X, labels[Y])
    proto = skl2onnx.to_onnx(model, X32[:1])
    assert [one.name for one in proto.graph.output] == ["label", "scores"]
    agree(model, X32.astype(np.float64), run_onnx(proto, X32))


def test_double_input_and_options_of_skl2onnx(skl2onnx):
    model = make_pipeline(PCA(4), MulticlassSVC(kernel="rbf")).fit(X, Y)
    proto = skl2onnx.to_onnx(model, X[:1])
    agree(model, X, run_onnx(proto, X), 1e-12)
    options = {id(model[-1]): {"arithmetic": "float32", "zipmap": False}}
    single = skl2onnx.to_onnx(model, X32[:1], options=options, target_opset=15)
    assert not any(one.data_type == onnx.TensorProto.DOUBLE for one in single.graph.initializer)
    agree(model, X32.astype(np.float64), run_onnx(single, X32), 1e-4)
    alone = skl2onnx.to_onnx(model[-1], X32[:1, :4])
    assert [one.name for one in alone.graph.output] == ["label", "scores"]
