"""Life with others: scikit-learn's tools, pickle, skops, callbacks."""

import copy
import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from polymargin import MulticlassSVC


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_clone(iris):
    model = MulticlassSVC(C=2, kernel="rbf", class_weight={0: 2.0}, random_state=1).fit(*iris)
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    assert not hasattr(copied, "classes_")


def test_is_a_classifier_with_tags():
    model = MulticlassSVC()
    assert is_classifier(model)
    tags = get_tags(model)
    assert tags.input_tags.sparse
    assert tags.classifier_tags.multi_class


def test_grid_search(iris):
    X, y = iris
    grid = {"C": [0.1, 1.0], "kernel": ["linear", "rbf"]}
    search = GridSearchCV(MulticlassSVC(random_state=0), grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    assert search.best_estimator_.status_ == "converged"


def test_pipeline(iris):
    X, y = iris
    model = make_pipeline(StandardScaler(), MulticlassSVC(C=10)).fit(X, y)
    assert model.score(X, y) > 0.95
    assert cross_val_score(model, X, y, cv=3).mean() > 0.9


def test_metadata_routing(iris, routing):
    """A weight of zero for every third example must reach fit through search and pipeline."""
    X, y = iris
    weights = np.where(np.arange(150) % 3 == 0, 0.0, 1.0)
    base = MulticlassSVC(C=1.0, random_state=0, tol=1e-8)
    direct = clone(base).fit(X, y, sample_weight=weights)

    routed = clone(base).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    search = GridSearchCV(routed, {"C": [1.0]}, cv=3).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(
        search.best_estimator_.decision_function(X), direct.decision_function(X)
    )
    pipeline = Pipeline([("model", routed)]).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(pipeline.decision_function(X), direct.decision_function(X))


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_pickle(iris, kernel):
    X, y = iris
    X = X @ X.T if kernel == "precomputed" else X
    model = MulticlassSVC(kernel=kernel, random_state=0).fit(X, y)
    for copied in [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]:
        np.testing.assert_array_equal(copied.decision_function(X), model.decision_function(X))
        assert copied.certificate_ == model.certificate_
        assert copied.status_ == model.status_
        assert set(copied.history_) == set(model.history_)


def test_pickle_does_not_carry_the_data():
    """A linear model of many points weighs what its support weighs, not what X weighs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20))
    y = X[:, :3].argmax(axis=1)
    model = MulticlassSVC(C=1.0).fit(X, y)
    support = model.support_vectors_.nbytes + model.dual_coef_.nbytes + model.support_.nbytes
    assert len(pickle.dumps(model)) < 1.5 * support + 50_000


def test_warm_start_survives_pickle(iris):
    X, y = iris
    model = MulticlassSVC(C=1.0, tol=1e-8, warm_start=True, max_iter=10**5).fit(X, y)
    reached = model.certificate_.dual
    copied = pickle.loads(pickle.dumps(model)).fit(X, y)
    assert copied.history_["dual"][0] >= reached * (1 - 1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_skops(iris, kernel):
    skops_io = pytest.importorskip("skops.io")
    X, y = iris
    model = MulticlassSVC(kernel=kernel, random_state=0).fit(X, y)
    data = skops_io.dumps(model)
    trusted = skops_io.get_untrusted_types(data=data)
    assert all(name.startswith("polymargin.") for name in trusted), trusted
    loaded = skops_io.loads(data, trusted=trusted)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.certificate_.relative_gap == model.certificate_.relative_gap
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.fit(X, y).predict(X), model.predict(X))


@pytest.mark.parametrize("two_classes", [False, True])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_temperature_calibration_keeps_the_argmax(iris, kernel, two_classes):
    from sklearn.calibration import CalibratedClassifierCV

    X, y = iris
    if two_classes:
        X, y = X[y > 0], y[y > 0]
    model = MulticlassSVC(kernel=kernel, C=0.1, random_state=0).fit(X, y)
    calibrated = CalibratedClassifierCV(FrozenEstimator(model), method="temperature").fit(X, y)
    probabilities = calibrated.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))
    np.testing.assert_array_equal(calibrated.predict(X), model.predict(X))
    whole = CalibratedClassifierCV(
        MulticlassSVC(kernel=kernel, random_state=0), method="temperature", cv=3
    )
    assert whole.fit(X, y).score(X, y) > 0.85


def test_repr():
    assert repr(MulticlassSVC(C=2)) == "MulticlassSVC(C=2)"


# -- callbacks (scikit-learn 1.9 and later) -------------------------------------------------------


def callback_module():
    return pytest.importorskip("sklearn.callback")


class Recorder:
    """A callback that writes down what it is told."""

    def __init__(self):
        self.events = []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.events.append("begin")

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.events.append("end")
        if fitted_estimator is not None:
            self.last = fitted_estimator


def test_callback_protocol(iris):
    callback_module()
    X, y = iris
    recorder = Recorder()
    model = MulticlassSVC(C=10, tol=1e-6, random_state=0).set_callbacks(recorder).fit(X, y)
    assert recorder.events[0] == "setup"
    assert recorder.events[-1] == "teardown"
    assert recorder.events.count("begin") == recorder.events.count("end") >= 2
    assert recorder.last.predict(X).shape == (150,)
    plain = MulticlassSVC(C=10, tol=1e-6, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), plain.decision_function(X))


def test_scoring_monitor(iris):
    callback = callback_module()
    X, y = iris
    monitor = callback.ScoringMonitor(scoring="accuracy")
    MulticlassSVC(C=10, tol=1e-6).set_callbacks(monitor).fit(X, y)
    scores = [row["accuracy"] for row in monitor.get_logs().data if "accuracy" in row]
    assert scores
    assert all(0 <= score <= 1 for score in scores)
    assert scores[-1] > 0.9


def test_progress_bar(iris):
    callback = callback_module()
    pytest.importorskip("rich")
    X, y = iris
    model = MulticlassSVC(C=10, tol=1e-6).set_callbacks(callback.ProgressBar()).fit(X, y)
    assert model.status_ == "converged"
