"""The estimator: parameters, fitted attributes, prediction."""

import inspect
from collections.abc import Mapping

import numpy as np
import pytest
import reference as ref
from sklearn.base import clone
from sklearn.datasets import load_iris

from polymargin import MulticlassSVC

STATUSES = {"converged", "max_iter", "max_time", "interrupted", "not_separable", "stalled"}


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


# -- parameters --------------------------------------------------------------------------------


def test_parameters_and_defaults():
    expected = {
        "machine": "cs", "C": 1.0, "kernel": "linear", "gamma": "scale", "degree": 3,
        "coef0": 0.0, "intercept": "auto", "intercept_scaling": 1.0, "tol": 1e-3,
        "max_iter": 10000, "max_time": None, "solver": "auto", "cache_mb": 1000,
        "class_weight": None, "warm_start": False, "n_jobs": None, "random_state": None,
        "verbose": 0, "probabilities": None, "calibration_folds": None, "landmarks": None,
        "kernel_weights": None,
        "cost_matrix": None,
    }  # fmt: skip
    signature = inspect.signature(MulticlassSVC)
    assert {p.name: p.default for p in signature.parameters.values()} == expected
    assert MulticlassSVC().get_params() == expected


def test_fit_leaves_parameters_alone(iris):
    parameters = {"C": 0.5, "gamma": "scale", "intercept": "auto", "random_state": 3}
    model = MulticlassSVC(**parameters).fit(*iris)
    assert model.get_params() == MulticlassSVC(**parameters).get_params()


@pytest.mark.parametrize(("kernel", "scaling"), [("linear", 1.0), ("rbf", 0.0)])
def test_intercept_auto(overlapping, kernel, scaling):
    """Penalised with the linear kernel, none otherwise."""
    X, y = overlapping
    auto = MulticlassSVC(kernel=kernel, gamma=0.2, tol=1e-9, random_state=0).fit(X, y)
    named = {0.0: "none", 1.0: "penalized"}[scaling]
    explicit = clone(auto).set_params(intercept=named).fit(X, y)
    np.testing.assert_array_equal(auto.decision_function(X), explicit.decision_function(X))
    K = ref.linear(X, X, scaling) if kernel == "linear" else ref.rbf(X, X, 0.2)
    assert auto.certificate_.primal == pytest.approx(ref.optimum(K, y, 4, 1.0).primal, rel=1e-8)


# -- fitted attributes -------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", ["none", "penalized"])
def test_linear_attributes(iris, intercept):
    X, y = iris
    model = MulticlassSVC(intercept=intercept, intercept_scaling=2.0).fit(X, y)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert model.n_features_in_ == 4
    assert model.coef_.shape == (3, 4)
    assert model.intercept_.shape == (3,)
    if intercept == "none":
        assert not model.intercept_.any()
    else:
        assert model.intercept_.any()
    scores = model.decision_function(X)
    assert scores.shape == (150, 3)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(X @ model.coef_.T + model.intercept_, scores, atol=1e-10)
    np.testing.assert_array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])
    tau = ref.full_tau(model, 150)
    np.testing.assert_allclose(tau.T @ X, model.coef_, atol=1e-9)
    u = 4.0 if intercept == "penalized" else 0.0
    np.testing.assert_allclose(u * tau.sum(axis=0), model.intercept_, atol=1e-9)


def test_support(iris):
    X, y = iris
    for kernel in ["linear", "rbf"]:
        model = MulticlassSVC(kernel=kernel).fit(X, y)
        n_support = len(model.support_)
        assert 0 < n_support < 150
        assert model.support_.ndim == 1
        assert np.issubdtype(model.support_.dtype, np.integer)
        assert (np.diff(model.support_) > 0).all()
        assert model.support_vectors_.shape == (n_support, 4)
        np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
        assert model.dual_coef_.shape == (n_support, 3)
        assert np.abs(model.dual_coef_).max(axis=1).min() > 0
        np.testing.assert_allclose(model.dual_coef_.sum(axis=1), 0, atol=1e-12)


def test_kernel_model_has_no_coef(iris):
    model = MulticlassSVC(kernel="rbf").fit(*iris)
    assert not hasattr(model, "coef_")


def test_two_classes(overlapping):
    X, y = overlapping
    X, y = X[y < 2], np.array(["no", "yes"])[y[y < 2]]
    n = len(y)
    for parameters in [{}, {"intercept": "none"}, {"kernel": "rbf"}]:
        model = MulticlassSVC(**parameters).fit(X, y)
        scores = model.decision_function(X)
        assert scores.shape == (n,)
        assert model.dual_coef_.shape == (len(model.support_), 2)
        np.testing.assert_array_equal(model.predict(X), np.where(scores > 0, "yes", "no"))
        assert model.score(X, y) > 0.7
        if "kernel" not in parameters:
            assert model.coef_.shape == (1, 5)
            assert model.intercept_.shape == (1,)
            np.testing.assert_allclose(X @ model.coef_[0] + model.intercept_[0], scores, atol=1e-10)
            tau = ref.full_tau(model, n)
            W = tau.T @ X
            np.testing.assert_allclose(model.coef_[0], W[1] - W[0], atol=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_certificate(iris, kernel):
    model = MulticlassSVC(kernel=kernel).fit(*iris)
    certificate = model.certificate_
    for name in ["primal", "dual", "gap", "relative_gap"]:
        assert isinstance(getattr(certificate, name), float), name
    assert certificate.primal >= certificate.dual > 0
    assert certificate.gap == pytest.approx(certificate.primal - certificate.dual)
    assert certificate.relative_gap == pytest.approx(certificate.gap / certificate.primal)
    assert certificate.relative_gap <= 1e-3
    assert certificate.kernel_psd is True


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_status_and_history(iris, kernel):
    model = MulticlassSVC(kernel=kernel, tol=1e-6, C=10).fit(*iris)
    assert model.status_ == "converged"
    assert model.status_ in STATUSES
    assert isinstance(model.n_iter_, int)
    assert model.n_iter_ >= 1
    history = model.history_
    assert isinstance(history, Mapping)
    assert {"seconds", "iteration", "primal", "dual", "relative_gap", "active"} <= set(history)
    lengths = {len(np.asarray(column)) for column in history.values()}
    assert len(lengths) == 1
    assert lengths.pop() >= 1
    for name, column in history.items():
        assert isinstance(column, np.ndarray), name
        assert column.ndim == 1, name
    assert (history["seconds"] >= 0).all()
    assert (np.diff(history["seconds"]) >= 0).all()
    assert (np.diff(history["iteration"]) >= 0).all()
    assert (history["active"] >= 0).all()
    assert (history["active"] <= 150).all()
    assert history["iteration"][-1] <= model.n_iter_
    assert (history["relative_gap"] >= 0).all()
    assert history["relative_gap"][-1] <= 1e-6
    slack = 1e-10 * model.certificate_.primal
    assert (np.diff(history["dual"]) >= -slack).all()
    assert history["dual"][-1] == pytest.approx(model.certificate_.dual, rel=1e-8)
    assert history["dual"].max() <= model.certificate_.primal + slack


def test_feature_names(iris):
    pandas = pytest.importorskip("pandas")
    X, y = iris
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    model = MulticlassSVC().fit(frame, y)
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c", "d"]])
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")


def test_fit_returns_self_and_can_be_repeated(iris):
    X, y = iris
    model = MulticlassSVC(random_state=0)
    assert model.fit(X, y) is model
    first = model.decision_function(X)
    model.fit(X[:, :2], y)
    assert model.n_features_in_ == 2
    np.testing.assert_array_equal(model.fit(X, y).decision_function(X), first)


# -- prediction --------------------------------------------------------------------------------


def tied_model():
    """Three classes; on (0, 0) all scores are equal, on (-1, 0) the last two are."""
    X = np.array([[2.0, 0], [-1, 1], [-1, -1]])
    return MulticlassSVC(intercept="none", tol=1e-10, C=10).fit(X, ["a", "b", "c"])


def test_ties_go_to_the_lowest_index():
    model = tied_model()
    assert model.predict([[0.0, 0.0]])[0] == "a"
    assert not model.decision_function([[0.0, 0.0]]).any()
    binary = MulticlassSVC(intercept="none").fit([[1.0], [-1.0]], [5, 3])
    assert binary.decision_function([[0.0]])[0] == 0
    assert binary.predict([[0.0]])[0] == 3


def test_exact_tie_with_a_kernel():
    """Far from all support vectors every kernel value is exactly zero."""
    X = np.array([[-1.0], [1.0], [3.0]])
    for labels in [[7, 4, 7], [7, 4, 5]]:
        model = MulticlassSVC(kernel="rbf", gamma=0.5).fit(X, labels)
        assert not model.decision_function([[1e6]]).any()
        assert model.predict([[1e6]])[0] == 4
        assert model.predict_or_reject([[1e6]], reject_label=0)[0] == 0


def test_predict_or_reject(overlapping):
    X, y = overlapping
    model = MulticlassSVC().fit(X, y)
    scores = np.sort(model.decision_function(X), axis=1)
    lead = scores[:, -1] - scores[:, -2]
    np.testing.assert_array_equal(model.predict_or_reject(X, reject_label=-1), model.predict(X))
    margin = np.median(lead)
    labels = model.predict_or_reject(X, margin=margin, reject_label=-1)
    np.testing.assert_array_equal(labels == -1, lead <= margin)
    np.testing.assert_array_equal(labels[lead > margin], model.predict(X)[lead > margin])
    assert (model.predict_or_reject(X, margin=1e9, reject_label=-1) == -1).all()


def test_reject_on_exact_ties():
    model = tied_model()
    labels = model.predict_or_reject([[0.0, 0.0], [2.0, 0.0]], reject_label="unknown")
    assert list(labels) == ["unknown", "a"]  # not cut to the length of the class names


def test_reject_label_none_by_default():
    labels = tied_model().predict_or_reject([[0.0, 0.0], [2.0, 0.0]])
    assert labels[0] is None
    assert labels[1] == "a"


def test_reject_two_classes(overlapping):
    X, y = overlapping
    X, y = X[y < 2], y[y < 2]
    model = MulticlassSVC().fit(X, y)
    scores = model.decision_function(X)
    margin = np.median(np.abs(scores))
    labels = model.predict_or_reject(X, margin=margin, reject_label=9)
    np.testing.assert_array_equal(labels == 9, np.abs(scores) <= margin)


@pytest.mark.parametrize("label", ["a", np.str_("b")])
def test_reject_label_must_not_be_a_class(label):
    with pytest.raises(ValueError, match="reject_label"):
        tied_model().predict_or_reject([[0.0, 0.0]], reject_label=label)


def test_score(iris):
    X, y = iris
    model = MulticlassSVC().fit(X, y)
    assert model.score(X, y) == np.mean(model.predict(X) == y)
    weights = np.arange(150)
    assert model.score(X, y, weights) == pytest.approx(
        np.average(model.predict(X) == y, weights=weights)
    )
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("method", ["predict", "decision_function", "predict_or_reject", "score"])
def test_not_fitted(iris, method):
    from sklearn.exceptions import NotFittedError

    X, y = iris
    arguments = (X, y) if method == "score" else (X,)
    with pytest.raises(NotFittedError):
        getattr(MulticlassSVC(), method)(*arguments)


@pytest.mark.parametrize(
    "labels",
    [["b", "a", "c"], [30, 10, 20], [-1.0, 2.0, 1.0], np.array(["x", "y", "z"], dtype=object)],
    ids=["str", "int", "float", "object"],
)
def test_label_types(iris, labels):
    X, y = iris
    named = np.asarray(labels)[y]
    model = MulticlassSVC(random_state=0).fit(X, named)
    np.testing.assert_array_equal(model.classes_, np.unique(named))
    assert model.predict(X).dtype == named.dtype
    assert model.score(X, named) > 0.9


def test_boolean_labels(iris):
    X, y = iris
    model = MulticlassSVC().fit(X, y == 0)
    assert model.predict(X).dtype == bool
    assert model.score(X, y == 0) == 1
