"""Exports of models of real data: the same labels elsewhere, and what integers cost."""

import numpy as np
import pytest
from conftest import data_file
from export_tools import class_scores, lead, run_c, run_onnx
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polymargin import MulticlassSVC, MultiPrototypeSVC

MODELS = {
    "linear": MulticlassSVC(C=0.01, random_state=0),
    "prototypes": MultiPrototypeSVC(5, C=0.05, random_state=0),
    "rbf": MulticlassSVC(kernel="rbf", C=10.0, random_state=0),
}
MOST_ROWS = {"rbf": 1000}


@pytest.fixture(scope="module")
def split():
    def read(name):
        with np.load(data_file(name)) as z:
            X, y = z["X"].astype(np.float64), z["y"]
            train, test = z["train_idx"], z["test_idx"][:2000]
        return X[train], y[train], X[test], y[test]

    return read


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", ["usps", "letter", "satimage"])
def test_real_data(name, kind, split, tmp_path):
    X_train, y_train, X_test, y_test = split(name)
    rows = slice(MOST_ROWS.get(kind))
    model = make_pipeline(StandardScaler(), MODELS[kind]).fit(X_train[rows], y_train[rows])
    values = X_test.astype(np.float32).astype(np.float64)
    expected, wanted = class_scores(model, values), model.predict(values)
    clear = lead(expected) >= 1e-5
    size = np.abs(expected).max()

    labels, scores = run_onnx(model, values)
    np.testing.assert_array_equal(labels[clear], wanted[clear])
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)

    number, scores = run_c(model, values, tmp_path)
    np.testing.assert_array_equal(model.classes_[number][clear], wanted[clear])
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5 * size)

    exact = np.mean(wanted == y_test)
    for dtype in ("int16", "int8"):
        number, _ = run_c(model, values, tmp_path, dtype)
        assert exact - np.mean(model.classes_[number] == y_test) < 0.005
