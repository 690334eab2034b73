"""What MulticlassSVC refuses: every error names the argument and the way out."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from polymargin import MulticlassSVC


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"C": 0.0}, ["C"]),
        ({"C": -1.0}, ["C"]),
        ({"C": np.nan}, ["C"]),
        ({"C": "much"}, ["C"]),
        ({"kernel": "gaussian"}, ["kernel", "rbf"]),
        ({"kernel": 3}, ["kernel"]),
        ({"machine": "svm"}, ["machine", "cs"]),
        ({"solver": "magic"}, ["solver", "auto"]),
        ({"intercept": "yes"}, ["intercept", "penalized", "none"]),
        ({"intercept_scaling": 0.0}, ["intercept_scaling"]),
        ({"intercept_scaling": np.inf}, ["intercept_scaling"]),
        ({"gamma": -1.0, "kernel": "rbf"}, ["gamma"]),
        ({"gamma": "wide", "kernel": "rbf"}, ["gamma", "scale"]),
        ({"degree": -1, "kernel": "poly"}, ["degree"]),
        ({"coef0": np.nan, "kernel": "poly"}, ["coef0"]),
        ({"tol": 0.0}, ["tol"]),
        ({"tol": -1e-3}, ["tol"]),
        ({"tol": np.nan}, ["tol"]),
        ({"max_iter": 0}, ["max_iter"]),
        ({"max_iter": -1}, ["max_iter"]),
        ({"max_iter": 2.5}, ["max_iter"]),
        ({"max_time": -1.0}, ["max_time"]),
        ({"max_time": "1s"}, ["max_time"]),
        ({"cache_mb": 0}, ["cache_mb"]),
        ({"cache_mb": -5}, ["cache_mb"]),
        ({"n_jobs": "all"}, ["n_jobs"]),
        ({"class_weight": "equal"}, ["class_weight", "balanced"]),
        ({"class_weight": {0: -1.0}}, ["class_weight"]),
        ({"class_weight": {0: np.nan}}, ["class_weight"]),
        ({"random_state": "seed"}, ["seed"]),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_bad_parameter(iris, parameters, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        MulticlassSVC(**parameters).fit(*iris)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_bad_number_names_the_column(iris, value):
    X, y = iris
    X = X.copy()
    X[17, 2] = value
    expected = "NaN" if np.isnan(value) else "inf"
    with pytest.raises(ValueError, match=r"(?i)(column|feature)\D{0,20}2\b") as caught:
        MulticlassSVC().fit(X, y)
    assert expected in str(caught.value)


def test_bad_number_names_the_column_of_a_frame(iris):
    pandas = pytest.importorskip("pandas")
    X, y = iris
    frame = pandas.DataFrame(X, columns=["a", "b", "petal width", "d"])
    frame.loc[3, "petal width"] = np.nan
    with pytest.raises(ValueError, match="petal width"):
        MulticlassSVC().fit(frame, y)


def test_bad_number_in_sparse_input(iris):
    from scipy import sparse

    X, y = iris
    X = X.copy()
    X[17, 2] = np.nan
    with pytest.raises(ValueError, match=r"(?i)(column|feature)\D{0,20}2\b"):
        MulticlassSVC().fit(sparse.csr_array(X), y)


def test_bad_number_at_prediction(iris):
    X, y = iris
    model = MulticlassSVC().fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        model.predict([[1.0, 2.0, np.nan, 3.0]])


def test_one_class(iris):
    X, _ = iris
    with pytest.raises(ValueError, match="class"):
        MulticlassSVC().fit(X, np.zeros(150))


def test_one_class_left_after_zero_weights(iris):
    X, y = iris
    with pytest.raises(ValueError, match="class"):
        MulticlassSVC().fit(X, y, sample_weight=(y == 1).astype(float))


@pytest.mark.parametrize(
    "weights",
    [np.full(150, -1.0), np.full(150, np.nan), np.full(150, np.inf), np.ones(149), np.zeros(150)],
    ids=["negative", "nan", "inf", "too short", "all zero"],
)
def test_bad_sample_weight(iris, weights):
    with pytest.raises(ValueError, match=r"(?i)sample.?weight"):
        MulticlassSVC().fit(*iris, sample_weight=weights)


def test_one_negative_weight(iris):
    weights = np.ones(150)
    weights[7] = -0.5
    with pytest.raises(ValueError, match="sample_weight"):
        MulticlassSVC().fit(*iris, sample_weight=weights)


def test_wrong_lengths(iris):
    X, y = iris
    with pytest.raises(ValueError, match="inconsistent"):
        MulticlassSVC().fit(X, y[:-1])


def test_continuous_targets(iris):
    X, _ = iris
    with pytest.raises(ValueError, match=r"(?i)label type"):
        MulticlassSVC().fit(X, np.linspace(0, 1, 150))


@pytest.mark.parametrize("margin", [-1.0, np.nan, "big"])
def test_bad_reject_margin(iris, margin):
    X, y = iris
    model = MulticlassSVC().fit(X, y)
    with pytest.raises((ValueError, TypeError), match="margin"):
        model.predict_or_reject(X, margin=margin)
