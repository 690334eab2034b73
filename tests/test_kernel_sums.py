"""Sums of kernels: the same machine as with the summed matrix, and weights by the criterion."""

import json
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from machine_reference import solve
from reference import linear, rbf
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score

import polymargin
from polymargin import ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC, export_model
from polymargin.problem.kernel_sums import read_entries, sum_as_written, sum_kernel
from polymargin.problem.kernels import Kernel
from polymargin.radius_margin.bound import read_sample
from polymargin.radius_margin.criterion import Sample, Setting, evaluate
from polymargin.solvers.run import Run, Stop

SUM = {"linear": 0.3, "rbf": 0.7}
TERMS = [("rbf", {"gamma": 0.1}, 0.4), ("rbf", {}, 0.5), ("poly", {"degree": 2, "coef0": 1.0}, 0.1)]


@pytest.fixture(scope="module")
def data():
    X, y = load_iris(return_X_y=True)
    rows = np.random.default_rng(0).permutation(150)[:60]
    noise = np.random.default_rng(1).normal(size=(60, 3))
    return X[rows, :3] - 3.0 + 0.3 * noise, y[rows]


@pytest.fixture(scope="module")
def fitted(data):
    return MulticlassSVC(kernel=SUM, gamma=0.5, tol=1e-7, random_state=0).fit(*data)


def gram(X, Z):
    return 0.3 * linear(X, Z) + 0.7 * rbf(X, Z, 0.5)


def gram_of_terms(X):
    quadratic = (0.5 * linear(X, X) + 1.0) ** 2
    return 0.4 * rbf(X, X, 0.1) + 0.5 * rbf(X, X, 0.5) + 0.1 * quadratic


@pytest.mark.parametrize("machine", ["cs", "ww", "llw", "msvm2"])
def test_same_optimum_as_qp_and_summed_matrix(data, machine):
    X, y = data[0][:30], data[1][:30]
    K = gram(X, X)
    model = MulticlassSVC(machine, kernel=SUM, gamma=0.5, tol=1e-8, random_state=0).fit(X, y)
    given = MulticlassSVC(machine, kernel="precomputed", tol=1e-8, random_state=0).fit(K, y)
    assert model.certificate_.kernel_psd is True
    if machine != "msvm2":  # where the QP solver gives up on these data
        best = solve(machine, K, y, 3, np.ones(len(y)), machine != "cs").value
        assert model.certificate_.primal == pytest.approx(best, rel=1e-6)
    assert model.certificate_.primal == pytest.approx(given.certificate_.primal, rel=1e-7)
    np.testing.assert_allclose(model.decision_function(X), given.decision_function(K), atol=1e-3)


def test_terms_with_their_own_parameters(data):
    X, y = data
    model = MulticlassSVC(kernel=TERMS, gamma=0.5, tol=1e-5, random_state=0).fit(X, y)
    given = MulticlassSVC(kernel="precomputed", tol=1e-5, random_state=0).fit(gram_of_terms(X), y)
    assert model.certificate_.primal == pytest.approx(given.certificate_.primal, rel=2e-5)
    assert model.kernel_weights_.tolist() == [0.4, 0.5, 0.1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_are_dense_rows(data, fitted, dtype):
    X, y = data
    rows = sp.csr_matrix(X.astype(dtype))
    model = MulticlassSVC(kernel=SUM, gamma=0.5, tol=1e-7, random_state=0).fit(rows, y)
    assert model.certificate_.primal == pytest.approx(fitted.certificate_.primal, rel=1e-5)
    np.testing.assert_array_equal(model.predict(rows), fitted.predict(X))


def test_far_from_the_origin(data):
    """Float32 would lose the RBF term of rows that cannot be centred."""
    X, y = data
    model = MulticlassSVC(kernel={"rbf": 1.0}, gamma=0.5, random_state=0).fit(X + 1e4, y)
    plain = MulticlassSVC(kernel="rbf", gamma=0.5, random_state=0).fit(X, y)
    assert model.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=2e-3)


def test_other_machines(data):
    X, y = data
    hulls = ConvexHullSVC(kernel=TERMS, gamma=0.5, eta=0.2).fit(X, y)
    given = ConvexHullSVC(kernel="precomputed", eta=0.2).fit(gram_of_terms(X), y)
    assert hulls.certificate_.primal == pytest.approx(given.certificate_.primal, rel=1e-2)
    model = MultiPrototypeSVC(2, kernel=SUM, gamma=0.5, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8


def test_widths_per_feature_in_a_term(data):
    X, y = data
    widths = np.array([0.1, 0.5, 1.0])
    model = MulticlassSVC(kernel={"rbf": ({"gamma": widths}, 1.0)}, tol=1e-7).fit(X, y)
    plain = MulticlassSVC(kernel="rbf", gamma=widths, tol=1e-7).fit(X, y)
    assert model.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-6)


def test_scikit_learn(data):
    X, y = data
    model = MulticlassSVC(kernel=SUM, gamma=0.5)
    assert clone(model).get_params()["kernel"] == SUM
    grid = {"kernel": [SUM, TERMS, {"linear": 1.0}, "linear"], "C": [0.1, 1.0]}
    found = GridSearchCV(MulticlassSVC(gamma=0.5, random_state=0), grid, cv=3).fit(X, y)
    assert found.best_score_ > 0.7
    assert cross_val_score(model, X, y, cv=3).mean() > 0.7


def test_files_and_json(data, fitted, tmp_path):
    X, y = data
    for model in (fitted, MulticlassSVC(kernel=TERMS, random_state=0).fit(X, y)):
        polymargin.save(model, tmp_path / "sum.pmm")
        again = polymargin.load(tmp_path / "sum.pmm")
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
        export_model(model, tmp_path / "sum.json")
        read = json.loads((tmp_path / "sum.json").read_text(encoding="utf-8"))
        np.testing.assert_allclose(scores_of(read, X), model.decision_function(X), atol=1e-9)


def scores_of(read, X):
    """What another language makes of the document."""
    V = np.array(read["vectors"])
    K = 0.0
    for term in read["kernel"]["terms"]:
        G = X @ V.T
        if term["name"] == "rbf":
            values = rbf(X, V, term["gamma"])
        elif term["name"] == "poly":
            values = (term["gamma"] * G + term["coef0"]) ** term["degree"]
        else:
            values = G
        K = K + term["weight"] * values
    return K @ np.array(read["coefficients"]) + np.array(read["intercepts"])


@pytest.mark.parametrize("suffix", ["h", "onnx"])
def test_other_formats_refuse(fitted, tmp_path, suffix):
    if suffix == "onnx":
        pytest.importorskip("onnx")
    with pytest.raises(ValueError, match=r"a sum of kernels cannot be exported to (C|ONNX)"):
        export_model(fitted, tmp_path / f"sum.{suffix}")
    assert not list(tmp_path.iterdir())


def test_calibration_keeps_the_sum(data):
    X, y = data
    model = MulticlassSVC(kernel=SUM, probabilities="temperature", random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_a_sum_is_written_as_it_is_read(data):
    X = data[0]
    shared = Kernel("sum", "scale", 3.0, 0.0)
    for written in (SUM, TERMS):
        kernel = sum_kernel(read_entries(written), X, None, shared)
        again = sum_kernel(read_entries(sum_as_written(kernel)), X, None, shared)
        assert again == kernel


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ({}, "needs a weight > 0"),
        ({"linear": 0.0}, "needs a weight > 0"),
        ([], "needs a weight > 0"),
        ({"linear": -1.0}, "weight of 'linear' must be a finite number >= 0"),
        ({"linear": "much"}, "weight of 'linear' must be a finite number >= 0"),
        ({"rbf": np.nan}, "weight of 'rbf' must be a finite number"),
        ({"laplace": 1.0}, "a sum is made of"),
        ({"precomputed": 1.0}, "a sum is made of"),
        ([("rbf", 1.0)], r"\(name, parameters, weight\)"),
        (["rbf"], r"\(name, parameters, weight\)"),
        ([("rbf", {"width": 1.0}, 1.0)], "parameters of 'rbf'"),
        ([("rbf", {"gamma": -1.0}, 1.0)], "gamma must be a finite number > 0"),
        ([("poly", {"gamma": [1.0, 1.0, 1.0]}, 1.0)], "one width per feature"),
        ([("poly", {"degree": 0}, 1.0)], "degree of 'poly'"),
    ],
)
def test_refusals(data, kernel, words):
    with pytest.raises(ValueError, match=words) as caught:
        MulticlassSVC(kernel=kernel).fit(*data)
    assert "\n" not in str(caught.value)


# -- weights by the radius-margin criterion ------------------------------------------------------


def criterion(data, weights):
    X, y = data
    sample = read_sample(X, y, "linear", 3.0, None)
    terms = sum_kernel(read_entries(SUM), sample.X, None, Kernel("sum", 0.5, 3.0, 0.0))
    sample = Sample(**{**vars(sample), "kernel": "sum", "terms": terms})
    setting = Setting(2.0, weights=np.asarray(weights))
    return evaluate(sample, setting, 1e-10, 1e-10, Run(Stop(1e-10, 10**6, None)))


def test_weight_slopes_equal_central_differences(data):
    logs = np.log([0.2, 0.8])
    found = criterion(data, np.exp(logs)).slopes["weights"]
    for m in range(2):
        values = []
        for step in (1e-4, -1e-4):
            moved = logs.copy()
            moved[m] += step
            weights = np.exp(moved) / np.exp(moved).sum()
            values.append(criterion(data, weights).log_product)
        assert found[m] == pytest.approx((values[0] - values[1]) / 2e-4, rel=1e-3, abs=1e-6)


def test_tuned_weights_are_the_lowest(data):
    """A line of weights has nothing lower than the weights that were found."""
    X, y = data
    model = MulticlassSVC(
        "msvm2", C=2.0, kernel=SUM, gamma=0.5, kernel_weights="radius-margin", random_state=0
    ).fit(X, y)
    found = model.kernel_weights_
    assert found.sum() == pytest.approx(1.0)
    at = criterion(data, np.maximum(found, 1e-12)).log_product
    line = [criterion(data, [w, 1.0 - w]).log_product for w in (0.001, 0.1, 0.3, 0.5, 0.7, 0.9)]
    assert at <= min(line) + 1e-3
    assert model.certificate_.relative_gap <= 1e-3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"machine": "cs"}, "kernel_weights='radius-margin' needs machine='msvm2'"),
        ({"kernel": "rbf"}, "tunes the weights of a sum"),
        ({"kernel": {"rbf": 1.0}}, "tunes the weights of a sum"),
        ({"kernel_weights": "best"}, "kernel_weights must be None or 'radius-margin'"),
        ({"gamma": "radius-margin"}, "no width that could be tuned"),
    ],
)
def test_tuning_refusals(data, settings, words):
    settings = {
        "machine": "msvm2", "kernel": SUM, "kernel_weights": "radius-margin", **settings
    }  # fmt: skip
    with warnings.catch_warnings(), pytest.raises(ValueError, match=words):
        MulticlassSVC(**settings).fit(*data)
