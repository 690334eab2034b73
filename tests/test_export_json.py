"""JSON: the document alone suffices, and keeps to its schema."""

import json
from importlib.resources import files

import numpy as np
import pytest
from conftest import make_overlapping
from export_tools import class_scores, predict_json
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from polymargin import ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC
from polymargin.export import to_json

X, Y = make_overlapping()
MODELS = [
    MulticlassSVC(),
    MulticlassSVC("ww", kernel="rbf"),
    make_pipeline(StandardScaler(), MulticlassSVC(kernel="poly", degree=2, coef0=1.0)),
    make_pipeline(MinMaxScaler(clip=True), MulticlassSVC(kernel="sigmoid", gamma=0.1, max_iter=20)),
    MultiPrototypeSVC([2, 1], random_state=0),
    MultiPrototypeSVC(2, kernel="rbf", random_state=0),
    make_pipeline(StandardScaler(), ConvexHullSVC(eta=0.2)),
    ConvexHullSVC(eta=0.2, kernel="linear"),
]
SCHEMA = json.loads(files("polymargin.export").joinpath("schema.json").read_text())


def check(value, schema, where="document"):
    """The few words of JSON Schema that ours uses."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    kinds = {
        "object": dict,
        "array": list,
        "string": str,
        "number": (int, float),
        "integer": int,
        "boolean": bool,
        "null": type(None),
    }
    if "type" in schema:
        allowed = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        good = any(
            isinstance(value, kinds[one]) and (one == "boolean" or not isinstance(value, bool))
            for one in allowed
        )
        assert good, f"{where}: {value!r} is not {allowed}"
    if "enum" in schema:
        assert value in schema["enum"], where
    if "const" in schema:
        assert value == schema["const"], where
    if isinstance(value, dict) and "properties" in schema:
        assert set(schema.get("required", ())) <= set(value), where
        if schema.get("additionalProperties") is False:
            assert set(value) <= set(schema["properties"]), where
        for name, one in value.items():
            check(one, schema["properties"].get(name, {}), f"{where}.{name}")
    if isinstance(value, list) and "items" in schema:
        assert len(value) >= schema.get("minItems", 0)
        for one in value:
            check(one, schema["items"], f"{where}[]")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("model", MODELS, ids=lambda one: repr(one)[:40])
def test_the_document_suffices(model, two):
    y = Y % 2 if two else Y
    if isinstance(model, MultiPrototypeSVC) and not isinstance(model.n_prototypes, int):
        model.set_params(n_prototypes=[2, 1] if two else [2, 1, 3, 1])
    model.fit(X, np.array(list("abcd"))[y])
    text = to_json(model)
    expected = class_scores(model, X)
    for x, label, scores in zip(X[:10], model.predict(X), expected, strict=False):
        found, values = predict_json(text, x.tolist())
        assert found == label
        np.testing.assert_allclose(values, scores, atol=1e-9 * np.abs(expected).max())
    check(json.loads(text), SCHEMA)


def test_every_digit_is_kept(tmp_path):
    model = MulticlassSVC().fit(X, Y)
    path = tmp_path / "model.json"
    text = to_json(model, path, indent=1)
    assert path.read_text(encoding="utf-8") == text
    assert np.array_equal(json.loads(text)["vectors"], model.coef_)


def test_labels_keep_their_type():
    for labels in (
        np.array(['q"\\', "ü\n", "</script>", "d"]),
        np.arange(4) * 10,
        np.arange(4) > 1,
    ):
        document = json.loads(to_json(MulticlassSVC().fit(X, labels[Y])))
        assert document["labels"] == np.unique(labels).tolist()
    floats = json.loads(to_json(MulticlassSVC().fit(X, (Y + 1.0))))
    assert floats["label_type"] == "float"
    assert all(isinstance(one, float) for one in floats["labels"])


@pytest.mark.filterwarnings("ignore")
def test_unknown_certificate_is_null():
    model = MulticlassSVC().fit(X, Y)
    model.certificate_ = type(model.certificate_)(np.inf, 1.0, np.inf, np.inf)
    assert json.loads(to_json(model))["metadata"]["certificate"]["gap"] is None
