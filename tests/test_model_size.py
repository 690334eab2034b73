"""Two classes with one prototype each: one vector in figures of size, files and exports."""

import json
import pickle

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polymargin import (
    ConvexHullSVC,
    ExportModel,
    MulticlassSVC,
    MultiPrototypeSVC,
    load,
    save,
    to_json,
)
from polymargin.cli.single_fit import model_bytes
from polymargin.estimators.model_size import classifier_size, vectors_needed
from polymargin.storage.model_file import read_header


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 6))
    X[:, 3] = 0.0  # a feature without weight: zeros have signs
    return X, np.where(X[:, 0] + 0.4 * rng.normal(size=60) > 0, "yes", "no")


@pytest.fixture(scope="module")
def single(data):
    return MultiPrototypeSVC(1, random_state=0).fit(*data)


def test_prototypes_of_two_classes_are_opposite(single):
    """sum_r M_r = 0 for the static problem, so w_1 = -w_2 to the last bit."""
    np.testing.assert_array_equal(single.prototypes_[0], -single.prototypes_[1])
    assert np.abs(single.prototypes_).max() > 0.1


def test_sizes_count_one_vector(data, single):
    assert vectors_needed(single) == 1
    assert classifier_size(single) == (4 * 7, 7)
    assert model_bytes(single) == 8 * 7
    for model in (MulticlassSVC(random_state=0), ConvexHullSVC(kernel="linear")):
        assert classifier_size(model.fit(*data)) == (4 * 7, 7)
    several = MultiPrototypeSVC(2, assignment="static", random_state=0).fit(*data)
    assert classifier_size(several) == (4 * 4 * 7, 4 * 7)
    kernel = MulticlassSVC(kernel="rbf", random_state=0).fit(*data)
    n = len(kernel.support_)
    assert classifier_size(kernel) == (4 * (6 * n + n + 1), 7 * n + 1 + 20 * n)


def test_files_keep_one_vector(data, single, tmp_path):
    """Scores come back to the last bit, alone, in a Pipeline, and through pickle."""
    X, y = data
    path = tmp_path / "m"
    for model in (single, make_pipeline(StandardScaler(), single).fit(X, y)):
        save(model, path)
        assert read_header(path)["format"] == 2
        np.testing.assert_array_equal(load(path).decision_function(X), model.decision_function(X))
    again = pickle.loads(pickle.dumps(single))
    np.testing.assert_array_equal(again.prototypes_, single.prototypes_)
    state = single.__getstate__()
    assert "prototypes_" not in state
    assert state["_opposite_prototype"].shape == (6,)
    save(MultiPrototypeSVC(2, assignment="static", random_state=0).fit(X, y), path)
    assert read_header(path)["format"] == 1


def test_exports_write_one_vector(data, single):
    record = ExportModel.from_estimator(single)
    assert record.is_difference
    document = json.loads(to_json(single))
    assert len(document["vectors"]) == len(document["intercepts"]) == 1
    np.testing.assert_allclose(
        record.scores(data[0])[:, 1], single.decision_function(data[0]), rtol=1e-12, atol=1e-12
    )
