"""Temperatures: the least log loss, labels that never change, weights, cloning, files, exports."""

import subprocess
import warnings

import numpy as np
import pandas as pd
import pytest
from conftest import make_overlapping
from export_tools import FLAGS, compiler, predict_json
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax as scipy_log_softmax
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from polymargin import (
    ConvexHullSVC,
    ExportModel,
    MulticlassSVC,
    MultiPrototypeSVC,
    MultiPrototypeSVCCV,
    load,
    save,
    to_c,
    to_json,
    to_onnx,
)
from polymargin.estimators.inspection import class_scores
from polymargin.estimators.temperature import (
    expected_calibration_error,
    fit_temperature,
    log_loss_of,
    log_softmax,
)

X, Y = make_overlapping(n=120)
ASK = {"probabilities": "temperature"}
MODELS = {
    "cs": MulticlassSVC(**ASK, random_state=0),
    "ww": MulticlassSVC("ww", C=0.5, **ASK, random_state=0),
    "llw free": MulticlassSVC("llw", intercept="free", **ASK, random_state=0),
    "msvm2": MulticlassSVC("msvm2", **ASK, random_state=0),
    "cs rbf": MulticlassSVC(kernel="rbf", **ASK, random_state=0),
    "ww rbf": MulticlassSVC("ww", kernel="rbf", **ASK, random_state=0),
    "prototypes": MultiPrototypeSVC(2, C=0.2, **ASK, random_state=0),
    "rbf prototypes": MultiPrototypeSVC(2, kernel="rbf", **ASK, random_state=0),
    "hull": ConvexHullSVC(eta=0.1, **ASK),
    "linear hull": ConvexHullSVC(eta=0.1, kernel="linear", **ASK),
    "pipeline": make_pipeline(StandardScaler(), MulticlassSVC(**ASK, random_state=0)),
}


@pytest.mark.parametrize("seed", range(5))
def test_temperature_has_the_least_log_loss(seed):
    rng = np.random.default_rng(seed)
    n = 2000
    scores = 5.0 * rng.normal(size=(n, 4))
    p = np.exp(scipy_log_softmax(scores / 2.5, axis=1))
    label = (p.cumsum(axis=1) > rng.uniform(size=(n, 1))).argmax(axis=1)
    weight = rng.uniform(0.5, 2.0, size=n)
    found = fit_temperature(scores, label, weight)
    assert found == pytest.approx(2.5, rel=0.15)

    def loss(log_t):
        return -weight @ scipy_log_softmax(scores / np.exp(log_t), axis=1)[np.arange(n), label]

    best = minimize_scalar(loss, bounds=(-3.0, 5.0), method="bounded", options={"xatol": 1e-8})
    assert np.log(found) == pytest.approx(best.x, abs=2e-3)  # the doubt of a third of an example


def test_extreme_scores_have_a_finite_temperature():
    right = np.eye(3)[np.arange(30) % 3]
    assert 0.0 < fit_temperature(right, np.arange(30) % 3) < 1.0
    assert np.isfinite(fit_temperature(right, (np.arange(30) + 1) % 3))  # all wrong
    assert fit_temperature(np.zeros((9, 3)), np.arange(9) % 3) == 1.0
    assert np.isfinite(fit_temperature(1e300 * right, np.arange(30) % 3))
    a, b = (fit_temperature(s * right + right**2, np.arange(30) % 3) for s in (1.0, 1e-9))
    assert np.isfinite(a)
    assert np.isfinite(b)


def test_log_softmax_does_not_overflow():
    z = np.array([[1e308, -1e308, 0.0], [1.0, 2.0, 3.0]])
    np.testing.assert_allclose(log_softmax(z, 1.0)[1], scipy_log_softmax(z[1]))
    assert log_softmax(z[:, [0, 2]], 2.0)[0, 0] == 0.0


def test_figures_of_probabilities():
    P = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.45, 0.55]])
    label = np.array([0, 1, 1, 1])
    assert log_loss_of(P, label) == pytest.approx(log_loss(label, P))
    right = P.argmax(axis=1) == label
    expected = np.mean([0.1, 0.6, 0.2, 0.45])  # every row has its own bin
    assert expected_calibration_error(P, right, 20) == pytest.approx(expected)


@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_labels_never_change(name, two):
    y = Y % 2 if two else Y
    model = clone(MODELS[name]).fit(X, y)
    P = model.predict_proba(X)
    assert P.shape == (len(X), len(model.classes_))
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), P)
    last = model[-1] if name == "pipeline" else model
    expected = scipy_log_softmax(class_scores(model, X) / last.temperature_, axis=1)
    np.testing.assert_allclose(model.predict_log_proba(X), expected, atol=1e-12)
    plain = clone(model)
    plain.set_params(**{key: None for key in plain.get_params() if key.endswith("probabilities")})
    np.testing.assert_array_equal(plain.fit(X, y).predict(X), model.predict(X))
    assert not hasattr(plain, "predict_proba")


@pytest.mark.parametrize("name", ["cs", "ww", "cs rbf"])
def test_temperature_is_that_of_folds_trained_from_nothing(name):
    model = clone(MODELS[name]).set_params(calibration_folds=4, tol=1e-8).fit(X, Y)
    fold = _folds_of(model, X)
    for k in range(4):
        cold = clone(model).set_params(probabilities=None, calibration_folds=None)
        cold.set_params(gamma=model.gamma_ if model.kernel == "rbf" else "scale")
        cold.fit(X[fold != k], Y[fold != k])
        np.testing.assert_allclose(
            cold.decision_function(X[fold == k]), model.out_of_fold_scores_[fold == k], atol=1e-3
        )
    assert model.temperature_ == pytest.approx(
        fit_temperature(model.out_of_fold_scores_, Y), rel=1e-9
    )


def _folds_of(model, X):
    """Which fold model made the score of a row: the one that repeats it."""
    made = np.stack([one.decision_function(X) for one in model._fold_models])
    distance = np.abs(made - model.out_of_fold_scores_).max(axis=2)
    assert (distance.min(axis=0) < 1e-10).all()
    return distance.argmin(axis=0)


def test_folds_are_stratified_and_no_row_is_scored_by_a_model_that_saw_it():
    rng = np.random.default_rng(0)
    noise, label = rng.normal(size=(90, 40)), rng.integers(3, size=90)
    model = MulticlassSVC(C=100.0, calibration_folds=5, random_state=0).fit(noise, label)
    assert (model.predict(noise) == label).mean() > 0.95
    guessed = (model.out_of_fold_scores_.argmax(axis=1) == label).mean()
    assert guessed < 0.6  # labels are noise: whoever has not seen them can only guess


@pytest.mark.parametrize("name", ["cs", "cs rbf", "prototypes", "hull"])
def test_rows_without_weight_do_not_count(name):
    model = clone(MODELS[name]).set_params(calibration_folds=5)
    weight = np.ones(len(X))
    weight[::7] = 0.0
    model.fit(X, Y, sample_weight=weight)
    kept = weight > 0.0
    assert np.isnan(model.out_of_fold_scores_[~kept]).all()
    assert np.isfinite(model.out_of_fold_scores_[kept]).all()
    without = clone(model).fit(X[kept], Y[kept])
    assert without.temperature_ == pytest.approx(model.temperature_, rel=0.2)


def test_weights_reach_the_temperature():
    scores = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    label = np.array([0, 1, 1, 0])  # two right, two wrong
    sure = fit_temperature(scores, label, np.array([9.0, 9.0, 1.0, 1.0]))
    assert sure < fit_temperature(scores, label, np.array([6.0, 6.0, 4.0, 4.0]))
    many, counts = 100, [900, 900, 100, 100]
    weighted = fit_temperature(
        np.repeat(scores, many, axis=0), np.repeat(label, many), np.repeat(counts, many)
    )
    repeated = fit_temperature(np.repeat(scores, counts, axis=0), np.repeat(label, counts))
    assert repeated == pytest.approx(weighted, rel=0.01)


@pytest.mark.parametrize("kind", ["sparse", "frame", "float32", "precomputed", "text labels"])
def test_kinds_of_input(kind):
    model, y, data = MulticlassSVC(**ASK, calibration_folds=3, random_state=0), Y, X
    if kind == "sparse":
        data = sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
    elif kind == "frame":
        data = pd.DataFrame(X, columns=list("abcde"))
    elif kind == "float32":
        data = X.astype(np.float32)
    elif kind == "precomputed":
        model.set_params(kernel="precomputed")
        data = X @ X.T
    else:
        y = np.array(list("wxyz"))[Y]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(data, y)
        P = model.predict_proba(data)
        sets = model.predict_set(data, 0.9)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    own = np.searchsorted(model.classes_, y)
    assert sets[np.arange(len(y)), own].mean() >= 0.8


def test_a_class_of_one_row():
    data = np.vstack([X, 9.0 + np.zeros((1, X.shape[1]))])
    y = np.append(Y, 7)
    for name in ("cs", "ww", "prototypes", "hull"):
        model = clone(MODELS[name]).set_params(calibration_folds=5)
        if name == "hull":
            model.set_params(eta=1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(data, y)
        assert 0.0 < model.temperature_ < np.inf
        assert np.isfinite(model.predict_proba(data)).all()
        assert model.predict_set(data).shape == (len(data), 5)


def test_clone_search_save(tmp_path):
    model = MulticlassSVC(**ASK, calibration_folds=3, random_state=0)
    search = GridSearchCV(model, {"C": [0.1, 1.0]}, scoring="neg_log_loss", cv=3).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    np.testing.assert_array_equal(search.predict_proba(X).argmax(axis=1), search.predict(X))
    for fitted in (
        search.best_estimator_,
        MultiPrototypeSVC(2, **ASK, calibration_folds=3, random_state=0).fit(X, Y),
        MulticlassSVC(kernel="precomputed", **ASK, calibration_folds=3).fit(X @ X.T, Y),
        MultiPrototypeSVCCV(
            (1, 2), Cs=[0.1], cv=2, estimator=MultiPrototypeSVC(**ASK, calibration_folds=3),
            random_state=0,
        ).fit(X, Y),
    ):  # fmt: skip
        data = X @ X.T if getattr(fitted, "kernel", "") == "precomputed" else X
        save(fitted, tmp_path / "model.pm")
        again = load(tmp_path / "model.pm")
        np.testing.assert_array_equal(again.predict_proba(data), fitted.predict_proba(data))
        np.testing.assert_array_equal(again.predict_set(data), fitted.predict_set(data))


def test_fit_again_forgets_the_old_calibration():
    model = MultiPrototypeSVC(2, **ASK, calibration_folds=3, random_state=0).fit(X, Y)
    model.calibrate(X, Y)
    model.partial_fit(X, Y)
    with pytest.raises(NotFittedError, match="call fit"):
        model.predict_proba(X)
    with pytest.raises(NotFittedError, match="calibration_folds=5"):
        model.predict_set(X)
    model.fit(X, Y)
    assert hasattr(model, "temperature_")
    assert not hasattr(model, "calibration_scores_")
    model.prune()
    assert not hasattr(model, "temperature_")


def test_time_limits_hold_for_folds_too():
    model = MulticlassSVC(**ASK, max_time=60.0, random_state=0).fit(X, Y)
    assert model.max_time == 60.0
    assert model._time_of_fit() == 30.0
    assert MulticlassSVC(max_time=60.0)._time_of_fit() == 60.0


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"probabilities": "platt"}, "probabilities must be None or 'temperature'"),
        ({"probabilities": True}, "probabilities must be None or 'temperature'"),
        ({"calibration_folds": 1}, "calibration_folds must be None or an integer >= 2"),
        ({"calibration_folds": 2.5}, "calibration_folds must be None or an integer >= 2"),
    ],
)
@pytest.mark.parametrize("kind", [MulticlassSVC, MultiPrototypeSVC, ConvexHullSVC])
def test_refusals(kind, parameters, words):
    with pytest.raises(ValueError, match=words):
        kind(**parameters).fit(X, Y)


def test_probabilities_are_there_only_if_asked_for():
    model = MulticlassSVC().fit(X, Y)
    with pytest.raises(AttributeError, match="no attribute 'predict_proba'") as caught:
        model.predict_proba(X)
    assert "probabilities='temperature' before fit" in str(caught.value.__cause__)
    assert not hasattr(model, "temperature_")
    with pytest.raises(NotFittedError):
        MulticlassSVC(**ASK).predict_proba(X)


def test_log_loss_is_that_of_a_good_calibration():
    data, y = load_digits(return_X_y=True)
    train, test = np.arange(len(y)) % 2 == 0, np.arange(len(y)) % 2 == 1
    model = MulticlassSVC(C=0.001, **ASK, random_state=0).fit(data[train], y[train])
    reached = log_loss(y[test], model.predict_proba(data[test]))
    scores = model.decision_function(data[test])
    best = fit_temperature(scores, y[test])
    assert reached <= 1.05 * log_loss(y[test], np.exp(log_softmax(scores, best)))


# -- exports -----------------------------------------------------------------------------------


EXPORTED = ["cs", "ww rbf", "prototypes", "hull", "pipeline"]


@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("name", EXPORTED)
def test_json_and_record(name, two):
    model = clone(MODELS[name]).fit(X, Y % 2 if two else Y)
    record = ExportModel.from_estimator(model)
    np.testing.assert_allclose(record.probabilities(X), model.predict_proba(X), atol=1e-9)
    text = to_json(model)
    _, scores = predict_json(text, X[0].tolist())
    import json

    z = np.array(scores) / json.loads(text)["temperature"]
    np.testing.assert_allclose(np.exp(scipy_log_softmax(z)), model.predict_proba(X[:1])[0])
    plain = clone(model)
    plain.set_params(**{key: None for key in plain.get_params() if key.endswith("probabilities")})
    plain.fit(X, Y)
    assert "temperature" not in json.loads(to_json(plain))
    with pytest.raises(ValueError, match="no probabilities"):
        ExportModel.from_estimator(plain).probabilities(X)


@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("name", EXPORTED)
def test_onnx(name, two):
    runtime = pytest.importorskip("onnxruntime")
    model = clone(MODELS[name]).fit(X, Y % 2 if two else Y)
    proto = to_onnx(model, dtype="float64")
    session = runtime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    label, P = session.run(["label", "probabilities"], {"X": X})
    np.testing.assert_allclose(P, model.predict_proba(X), atol=1e-9)
    np.testing.assert_array_equal(label, model.predict(X))


def test_skl2onnx():
    skl2onnx = pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    from polymargin.export import register_skl2onnx

    register_skl2onnx()
    model = clone(MODELS["pipeline"]).fit(X, Y)
    proto = skl2onnx.to_onnx(model, X[:1])
    session = runtime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    assert [one.name for one in session.get_outputs()] == ["label", "scores", "probabilities"]
    P = session.run(["probabilities"], {session.get_inputs()[0].name: X})[0]
    np.testing.assert_allclose(P, model.predict_proba(X), atol=1e-9)


PROGRAM = """
#include <stdio.h>
#include "model.h"

int main(void)
{
    static float x[%(d)d];
    static float p[%(Q)d];
    while (fread(x, sizeof(float), %(d)d, stdin) == %(d)d) {
        if (model_probabilities(x, p) != model_predict(x)) return 3;
        fwrite(p, sizeof(float), %(Q)d, stdout);
    }
    return 0;
}
"""


@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("name", EXPORTED)
def test_c(name, two, tmp_path):
    gcc = compiler()
    model = clone(MODELS[name]).fit(X, Y % 2 if two else Y)
    to_c(model, tmp_path / "model.h", name="model")
    Q = len(model.classes_)
    (tmp_path / "main.c").write_text(PROGRAM % {"d": X.shape[1], "Q": Q})
    build = [gcc, *FLAGS, "-O2", "-o", tmp_path / "main", tmp_path / "main.c", "-lm"]
    subprocess.run(list(map(str, build)), check=True, timeout=60)
    rows = np.ascontiguousarray(X, dtype=np.float32)
    out = subprocess.run(
        [str(tmp_path / "main")], input=rows.tobytes(), capture_output=True, check=True, timeout=60
    )
    P = np.frombuffer(out.stdout, dtype=np.float32).reshape(-1, Q)
    np.testing.assert_allclose(P, model.predict_proba(rows), atol=2e-4)


# -- scikit-learn ------------------------------------------------------------------------------


def exempted(estimator):
    reason = "copies of a row may fall into other folds than a row of weight two"
    return {
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
    }


@parametrize_with_checks(
    [
        MulticlassSVC(**ASK, calibration_folds=3, tol=1e-8),
        MultiPrototypeSVC(2, assignment="static", **ASK, tol=1e-8),
        ConvexHullSVC(eta=0.3, eta_scale="relative", **ASK, tol=1e-12),
    ],
    expected_failed_checks=exempted,
)
def test_estimator_check(estimator, check):
    check(estimator)


def test_iris_is_sure_of_what_it_knows():
    data, y = load_iris(return_X_y=True)
    P = MulticlassSVC(**ASK, random_state=0).fit(data, y).predict_proba(data)
    assert P[y == 0, 0].min() > 0.9
