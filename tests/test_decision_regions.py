"""Pictures of decision regions: which plane is shown, and what is drawn into it."""

import warnings

import numpy as np
import pytest
from conftest import make_overlapping
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from polymargin import ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC
from polymargin.plots import (
    DecisionRegionDisplay,
    MarginDistributionDisplay,
)
from polymargin.plots.planes import _main_directions

matplotlib = pytest.importorskip("matplotlib", reason="pictures need matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


@pytest.fixture(autouse=True)
def no_open_figures():
    yield
    plt.close("all")


def test_two_features_are_the_model_itself(iris):
    X, y = iris[0].iloc[:, 2:], iris[1]
    for last in (MulticlassSVC(), MultiPrototypeSVC(2, C=10, random_state=0), LinearSVC()):
        model = make_pipeline(StandardScaler(), last).fit(X, y)
        found = DecisionRegionDisplay.record(model, X, y, resolution=11)
        grid = np.stack(np.meshgrid(found.x, found.y), axis=-1).reshape(-1, 2)
        frame = type(X)(grid, columns=X.columns)
        np.testing.assert_array_equal(
            model.classes_[found.winner.ravel()], model.predict(frame), err_msg=str(last)
        )
        assert found.agreement == 1.0
        assert found.plane.held == ""
        assert found.plane.names == ("petal length (cm)", "petal width (cm)")


def test_held_features_are_at_their_median(iris):
    X, y = iris
    model = MulticlassSVC(kernel="rbf").fit(X, y)
    pair = ["sepal width (cm)", "petal width (cm)"]
    found = DecisionRegionDisplay.record(model, X, y, features=pair, resolution=7)
    rows = np.repeat(X.median().to_numpy()[None], 49, axis=0)
    grid = np.stack(np.meshgrid(found.x, found.y), axis=-1).reshape(-1, 2)
    rows[:, [1, 3]] = grid
    expected = model.predict(type(X)(rows, columns=X.columns))
    np.testing.assert_array_equal(model.classes_[found.winner.ravel()], expected)
    assert "2 features at their median" in found.plane.held
    np.testing.assert_array_equal(found.points, X[pair].to_numpy())


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_projection_evaluates_the_model_on_the_plane(kernel):
    X, y = make_overlapping()
    model = MulticlassSVC(kernel=kernel).fit(X, y)
    for given in (X, sparse.csr_array(X)):
        found = DecisionRegionDisplay.record(model, given, y, resolution=9)
        directions = PCA(2).fit(X).components_
        turn = np.abs(found.plane.directions @ directions.T)
        np.testing.assert_allclose(turn, np.eye(2), atol=1e-8)
        grid = np.stack(np.meshgrid(found.x, found.y), axis=-1).reshape(-1, 2)
        rows = X.mean(axis=0) + grid @ found.plane.directions
        np.testing.assert_array_equal(model.classes_[found.winner.ravel()], model.predict(rows))
        scores = np.sort(model.decision_function(rows), axis=1)
        np.testing.assert_allclose(
            found.lead.ravel(), scores[:, -1] - scores[:, -2], rtol=1e-6, atol=1e-9
        )
    assert found.agreement == np.mean(
        model.predict(X.mean(axis=0) + found.points @ found.plane.directions) == model.predict(X)
    )


def test_wide_data_use_the_iterative_directions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 1600)) * np.r_[5.0, 3.0, np.full(1598, 0.1)]
    found = _main_directions(sparse.csr_array(X), 2)
    expected = PCA(2, svd_solver="full").fit(X).components_
    np.testing.assert_allclose(np.abs(found @ expected.T), np.eye(2), atol=1e-6)


def test_of_very_many_examples_some_are_drawn():
    X, y = make_overlapping(n=6000, d=3)
    model = MulticlassSVC(max_iter=1000).fit(X, y)
    found = DecisionRegionDisplay.record(model, X, y, resolution=5)
    assert len(found.points) == len(found.own) == 5000


def test_cells_of_prototypes(digits):
    X, y = digits
    model = MultiPrototypeSVC(3, C=0.3, random_state=0).fit(X, y)
    found = DecisionRegionDisplay.from_estimator(
        model, X, y, projection="prototypes", resolution=40
    )
    owner = np.searchsorted(model.classes_, model.prototype_classes_)
    np.testing.assert_array_equal(owner[found.cell], found.winner)
    winners = np.unique(model.nearest_prototype(X))
    assert len(found.prototype_points) == len(winners)
    np.testing.assert_array_equal(found.prototype_owner, owner[winners])
    assert "prototypes" in found.plane.names[0]


def test_hull_prototypes_lie_where_they_are(iris):
    X, y = iris[0].iloc[:, :2], iris[1]
    model = make_pipeline(StandardScaler(), ConvexHullSVC(kernel="linear", eta=0.05)).fit(X, y)
    found = DecisionRegionDisplay.record(model, X, y, resolution=5)
    expected = model[0].inverse_transform(model[1].prototypes_)
    np.testing.assert_allclose(found.prototype_points, expected)


def test_support_vectors_of_kernels(iris):
    X, y = iris[0].iloc[:, :2], iris[1]
    model = make_pipeline(StandardScaler(), MulticlassSVC(kernel="rbf")).fit(X, y)
    found = DecisionRegionDisplay.record(model, X, y, resolution=5)
    rows = X.to_numpy()[model[1].support_]
    order = np.argsort(-np.abs(model[1].dual_coef_).max(axis=1), kind="stable")
    np.testing.assert_allclose(found.support, rows[order])
    assert not len(found.prototype_points)


@pytest.mark.parametrize("columns", ["polars", "pandas", "sparse"])
def test_kinds_of_tables(columns):
    X, y = make_overlapping()
    names = list("abcde")
    if columns == "sparse":
        table = sparse.csr_matrix(X)
    else:
        module = pytest.importorskip(columns)
        table = module.DataFrame(dict(zip(names, X.T, strict=True)))
    model = make_pipeline(StandardScaler(with_mean=False), MulticlassSVC()).fit(table, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = DecisionRegionDisplay.record(model, table, y, features=(1, 3), resolution=5)
        DecisionRegionDisplay.record(model, table, y, resolution=5)
    assert found.plane.names == (("feature 1", "feature 3") if columns == "sparse" else ("b", "d"))


def test_words_stay_at_their_most_frequent_value():
    pandas = pytest.importorskip("pandas")
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder

    X, y = make_overlapping()
    frame = pandas.DataFrame(X[:, :3], columns=["a", "b", "c"])
    frame["colour"] = np.where(y == 0, "red", "blue")
    steps = make_column_transformer(
        (StandardScaler(), ["a", "b", "c"]), (OneHotEncoder(), ["colour"])
    )
    model = make_pipeline(steps, MulticlassSVC()).fit(frame, y)
    found = DecisionRegionDisplay.record(model, frame, y, features=("a", "c"), resolution=5)
    assert found.plane.typical["colour"][0] == "blue"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": (0,)}, "features must be two"),
        ({"features": (0, 0)}, "two different"),
        ({"features": (0, 9)}, "features: 9"),
        ({"features": ("nothing", "a")}, "no feature 'nothing'"),
        ({"projection": "tsne"}, "projection must be one of"),
        ({"projection": "prototypes"}, "needs a linear kernel"),
        ({"resolution": 1}, "resolution"),
        ({"feature_names": ["a"]}, "feature_names has 1 names for 5 features"),
    ],
)
def test_wrong_planes(options, message):
    X, y = make_overlapping()
    model = MulticlassSVC(kernel="rbf").fit(X, y)
    with pytest.raises(ValueError, match=message):
        DecisionRegionDisplay.record(model, X, y, **options)


def test_precomputed_kernels_have_no_plane():
    X, y = make_overlapping()
    model = MulticlassSVC(kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(ValueError, match="precomputed"):
        DecisionRegionDisplay.record(model, X @ X.T, y)
    assert MarginDistributionDisplay.record(model, X @ X.T, y).n_unknown == 0
