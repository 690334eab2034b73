"""Machines in the span of landmarks: ``MulticlassSVC(landmarks=...)``."""

import json
import warnings

import numpy as np
import pytest
import reference as ref
import scipy.sparse as sp
from click.testing import CliRunner
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

from polymargin import (
    MulticlassSVC,
    certified_radius,
    dual_variables,
    explain,
    gacv,
    leave_one_out,
    leave_one_out_count,
    load,
    regularization_path,
    save,
    to_c,
    to_json,
    to_onnx,
)
from polymargin.cli import main
from polymargin.estimators.landmark_training import count_landmarks
from polymargin.problem.kernels import Kernel
from polymargin.problem.machines import MACHINES
from polymargin.problem.problem import Problem
from polymargin.solvers import solve
from polymargin.solvers.landmarks import choose_landmarks, in_span
from polymargin.solvers.run import Run, Stop

IRIS = load_iris(return_X_y=True)
GAMMA = 0.5
RBF = {"kernel": "rbf", "gamma": GAMMA, "random_state": 0}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600] / 16.0, y[:600]


@pytest.fixture(scope="module")
def model(digits):
    return MulticlassSVC(C=10.0, landmarks=80, kernel="rbf", gamma=0.3, random_state=0).fit(*digits)


# -- the span ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_are_those_of_the_nystroem_formula(digits, dtype):
    X, y = digits
    problem = Problem(
        MACHINES["cs"], Kernel("rbf", 0.3, offset=2.0), X, y, np.ones(len(y)), y, np.arange(10)
    )
    found = choose_landmarks(problem, 300, dtype, 3)
    assert len(set(found.indices.tolist())) == 300
    K = ref.rbf(X, X, 0.3)
    near = K[:, found.indices] @ np.linalg.solve(
        K[np.ix_(found.indices, found.indices)], K[found.indices]
    )
    F = found.features.astype(np.float64)
    rounding = 2e-4 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(F @ F.T, near, atol=rounding)
    np.testing.assert_allclose(found.rest, 1.0 - np.diag(near), atol=rounding)
    W = np.random.default_rng(0).normal(size=(10, 300))
    np.testing.assert_allclose(
        K[:, found.indices] @ found.expansion(W), F @ W.T, atol=100 * rounding
    )


def test_choice_follows_the_rest():
    """Five tight clusters: one landmark in each, however small, leaves next to nothing."""
    rng = np.random.default_rng(0)
    sizes = [400, 30, 10, 3, 1]
    X = np.concatenate([10.0 * k + 1e-4 * rng.normal(size=(n, 2)) for k, n in enumerate(sizes)])
    y = np.arange(len(X)) % 2
    problem = Problem(MACHINES["cs"], Kernel("rbf", 1.0), X, y, np.ones(len(y)), y, np.arange(2))
    found = choose_landmarks(problem, 5, np.float64, 1)
    assert sorted(np.round(X[found.indices, 0] / 10.0).astype(int)) == [0, 1, 2, 3, 4]
    assert found.rest.max() < 1e-6


def test_a_guide_is_followed(digits):
    X, y = digits
    problem = Problem(MACHINES["cs"], Kernel("rbf", 1.0), X, y, np.ones(len(y)), y, np.arange(10))
    asked = []

    def guide(features):
        asked.append(features.shape)
        return np.where(np.arange(len(X)) < 200, 1.0, 0.0)

    found = choose_landmarks(problem, 120, np.float64, 0, guide=guide)
    ((n, first),) = asked
    assert n == 600
    assert 30 <= first < 60
    assert (found.indices[first:] < 200).all()
    assert (found.indices[:first] >= 200).any()


def test_guided_landmarks_lower_the_objective(digits):
    """Half of the rows are far from every border; landmarks there are wasted."""
    X, y = digits
    setting = dict(C=10.0, kernel="rbf", gamma=0.5, random_state=0)
    guided = MulticlassSVC(landmarks=120, **setting).fit(X, y)
    problem = Problem(
        MACHINES["cs"], Kernel("rbf", 0.5), X, y, np.full(len(y), 10.0), y, np.arange(10)
    )
    plain = in_span(problem, choose_landmarks(problem, 120, np.float64, 0))
    assert guided.certificate_.primal < solve(plain, Run(Stop(1e-3))).judgement.certificate.dual


def test_rank_ends_the_choice():
    X = np.repeat(np.eye(4), 25, axis=0)
    model = MulticlassSVC(landmarks=50, **RBF).fit(X, np.repeat(np.arange(4), 25))
    assert len(model.landmark_indices_) == 4
    assert model.exact_kernel_.rest < 1e-5


# -- all landmarks: the exact machine ------------------------------------------------------------


@pytest.mark.parametrize("C", [1.0, np.inf])
@pytest.mark.parametrize("intercept", ["none", "penalized", "free"])
@pytest.mark.parametrize("machine", ["cs", "ww", "llw", "msvm2", "reinforced"])
def test_all_rows_are_the_exact_machine(machine, intercept, C):
    if machine == "reinforced" and intercept == "free":
        pytest.skip("it knows no free intercept")
    X, y = IRIS[0][::2], IRIS[1][::2]
    gamma = GAMMA if C == 1.0 else 5.0
    weight = np.where(np.arange(len(y)) % 3, 1.0, 2.0)
    setting = dict(machine=machine, intercept=intercept, C=C, kernel="rbf", gamma=gamma, tol=1e-5)
    exact = MulticlassSVC(random_state=0, **setting).fit(X, y, weight)
    span = MulticlassSVC(random_state=0, landmarks=len(y), **setting).fit(X, y, weight)
    assert span.status_ == "converged"
    assert span.certificate_.relative_gap <= 1e-5
    assert span.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=2e-5)
    bounds = span.exact_kernel_
    assert bounds.dual <= exact.certificate_.primal * (1 + 1e-9)
    assert bounds.relative_gap <= 2e-5
    np.testing.assert_allclose(span.decision_function(X), exact.decision_function(X), atol=2e-2)


# -- some landmarks ------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", ["cs", "ww", "llw", "msvm2"])
def test_bounds_enclose_the_exact_optimum(digits, machine):
    X, y = digits[0][:300], digits[1][:300]
    setting = dict(machine=machine, C=2.0, kernel="rbf", gamma=0.3, random_state=0)
    exact = MulticlassSVC(tol=1e-4, **setting).fit(X, y)
    model = MulticlassSVC(landmarks=60, **setting).fit(X, y)
    bounds = model.exact_kernel_
    assert model.certificate_.relative_gap <= 1e-3
    assert bounds.primal == model.certificate_.primal
    assert bounds.dual <= exact.certificate_.primal
    assert exact.certificate_.dual <= bounds.primal
    assert 0.0 < bounds.relative_gap < 1.0
    assert bounds.score_rounding < 1e-3


def test_primal_is_that_of_the_exact_kernel(model, digits):
    """P of the stored expansion by K itself is the certified value."""
    X, y = digits
    S = model.landmarks_
    K = ref.rbf(S, S, 0.3)
    norm2 = float((model.dual_coef_ * (K @ model.dual_coef_)).sum())
    slack = model.slacks(X, y)
    assert 0.5 * norm2 + 10.0 * slack.sum() == pytest.approx(model.certificate_.primal, rel=1e-4)


def test_attributes(model, digits):
    X, _ = digits
    assert len(model.landmark_indices_) == 80
    assert (np.diff(model.landmark_indices_) > 0).all()
    np.testing.assert_array_equal(model.landmarks_, X[model.landmark_indices_])
    scores = ref.rbf(X, model.landmarks_, 0.3) @ model.dual_coef_ + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-9)
    plain = MulticlassSVC().fit(*IRIS)
    with pytest.raises(AttributeError, match="not fitted with landmarks"):
        _ = plain.landmarks_


def test_same_seed_same_bits(model, digits):
    again = clone(model).fit(*digits)
    np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)
    np.testing.assert_array_equal(again.landmark_indices_, model.landmark_indices_)
    threads = clone(model).set_params(n_jobs=2).fit(*digits)
    np.testing.assert_array_equal(threads.dual_coef_, model.dual_coef_)
    other = clone(model).set_params(random_state=1).fit(*digits)
    assert not np.array_equal(other.landmark_indices_, model.landmark_indices_)


def test_sparse_rows_and_single_precision(model, digits):
    X, y = digits
    sparse = clone(model).fit(sp.csr_matrix(X), y)
    assert sp.issparse(sparse.landmarks_)
    assert sparse.certificate_.primal == pytest.approx(model.certificate_.primal, rel=3e-2)
    assert (sparse.predict(sp.csr_matrix(X)) == model.predict(X)).mean() > 0.97
    single = clone(model).fit(X.astype(np.float32), y)
    assert single.landmarks_.dtype == np.float32
    assert single.certificate_.primal == pytest.approx(model.certificate_.primal, rel=3e-2)


@pytest.mark.parametrize(
    "kernel",
    [{"kernel": "poly", "coef0": 1.0}, {"kernel": lambda A, B: (0.05 * (A @ B.T) + 1.0) ** 2}],
)
def test_other_kernels(kernel):
    X, y = IRIS
    span = MulticlassSVC(landmarks=1.0, tol=1e-4, random_state=0, **kernel).fit(X, y)
    exact = MulticlassSVC(tol=1e-4, random_state=0, **kernel).fit(X, y)
    assert len(span.landmark_indices_) < 40  # the rank of the polynomials
    # rounding decides where the rank ends; what is left out can only raise the value
    assert span.certificate_.primal >= exact.certificate_.dual
    assert span.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=1e-2)


def test_two_classes_and_one_width_per_feature():
    X, y = IRIS[0][:100], np.where(IRIS[1][:100] == 0, "a", "b")
    model = MulticlassSVC(landmarks=30, kernel="rbf", gamma=np.array([0.1, 0.2, 0.3, 0.4])).fit(
        X, y
    )
    assert model.decision_function(X).shape == (100,)
    assert (model.predict(X) == y).all()


def test_warm_start_goes_on(digits):
    model = MulticlassSVC(
        C=1.0, landmarks=60, kernel="rbf", gamma=0.3, warm_start=True, random_state=0, tol=1e-4
    ).fit(*digits)
    cold = model.n_iter_
    first = model.history_["relative_gap"][0]
    model.fit(*digits)
    assert model.n_iter_ < cold
    assert model.history_["relative_gap"][0] < 0.1 * first
    exact = model.set_params(landmarks=None).fit(*digits)
    assert not hasattr(exact, "exact_kernel_")


def test_time_limit_keeps_a_model(digits):
    model = MulticlassSVC(landmarks=500, kernel="rbf", gamma=0.3, max_time=1e-4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(*digits)
    assert 1 <= len(model.landmark_indices_) < 500
    assert model.predict(digits[0]).shape == (600,)
    assert model.exact_kernel_.dual is None


# -- the parameter -------------------------------------------------------------------------------


def test_counts():
    assert count_landmarks(0.25, 1000, 4, 1000.0) == 250
    assert count_landmarks(5000, 1000, 4, 1000.0) == 1000
    assert count_landmarks("auto", 10_000, 4, 1000.0) == 1000
    assert count_landmarks("auto", 581_000, 4, 1000.0) == 430  # what the memory holds
    with pytest.raises(ValueError, match="need 2324 MB, more than cache_mb=1000"):
        count_landmarks(1000, 581_012, 4, 1000.0)


@pytest.mark.parametrize("landmarks", [0, -3, 0.0, 1.5, True, "many", [3]])
def test_bad_numbers_are_refused(landmarks):
    with pytest.raises(ValueError, match=r"^landmarks must be None, an integer >= 1"):
        MulticlassSVC(landmarks=landmarks, **RBF).fit(*IRIS)


def test_what_is_refused_by_name(model, digits):
    X, y = IRIS
    with pytest.raises(ValueError, match=r"^landmarks: a linear kernel"):
        MulticlassSVC(landmarks=5).fit(X, y)
    with pytest.raises(ValueError, match=r"^landmarks: kernel='precomputed'"):
        MulticlassSVC(landmarks=5, kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(ValueError, match=r"^landmarks: the radius-margin bound"):
        MulticlassSVC("msvm2", C="radius-margin", kernel="rbf", landmarks=5).fit(X, y)
    small = MulticlassSVC("llw", landmarks=20, **RBF).fit(X, y)
    for use in (gacv, leave_one_out, leave_one_out_count, dual_variables):
        with pytest.raises(ValueError, match=r"^landmarks=20: .* use landmarks=None"):
            use(small, X, y)


# -- around the estimator ------------------------------------------------------------------------


def test_path_in_the_span(digits):
    X, y = digits[0][:300], digits[1][:300]
    Cs = np.array([0.3, 1.0, 3.0])
    estimator = MulticlassSVC(landmarks=40, kernel="rbf", gamma=0.3, random_state=0)
    path = regularization_path(
        X,
        y,
        estimator=estimator,
        Cs=Cs,
        X_val=digits[0][300:],
        y_val=digits[1][300:],
        random_state=0,
    )
    at = int(np.argmin(np.abs(path.Cs - 1.0)))
    direct = clone(estimator).set_params(C=float(path.Cs[at])).fit(X, y)
    assert path.primal[at] == pytest.approx(direct.certificate_.primal, rel=3e-3)
    found = path.model(at)
    assert len(found.landmark_indices_) == 40
    error = (found.predict(digits[0][300:]) != digits[1][300:]).mean()
    assert error == pytest.approx(path.validation_error[at], abs=1e-9)


def test_files_and_exports(model, digits, tmp_path):
    X, _ = digits
    save(model, tmp_path / "a.pm")
    loaded = load(tmp_path / "a.pm")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.exact_kernel_ == model.exact_kernel_
    np.testing.assert_array_equal(loaded.landmark_indices_, model.landmark_indices_)
    record = json.loads(to_json(model))
    assert len(record["vectors"]) == 80
    assert "expf" in to_c(model)
    pytest.importorskip("onnx")
    to_onnx(model)


def test_explanations_work(model, digits):
    X, _ = digits
    lead = np.diff(np.sort(model.decision_function(X[:3]), axis=1)[:, -2:])[:, 0]
    found = explain(model, X[:3])
    np.testing.assert_allclose(found.lead, lead, rtol=1e-6)
    np.testing.assert_allclose(found.contributions.sum(axis=1) + found.constant, lead, rtol=1e-6)
    assert (certified_radius(model, X[:3]).radius > 0.0).all()


def test_probabilities(digits):
    X, y = digits[0][:300], digits[1][:300]
    model = MulticlassSVC(
        landmarks=40, kernel="rbf", gamma=0.3, random_state=0, probabilities="temperature"
    ).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@parametrize_with_checks([MulticlassSVC(kernel="rbf", landmarks=1.0, tol=1e-8)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_command_line(tmp_path):
    X, y = IRIS
    np.savetxt(
        tmp_path / "iris.csv", np.column_stack([X, y]), delimiter=",", fmt=["%g"] * 4 + ["%d"]
    )
    data, out = str(tmp_path / "iris.csv"), str(tmp_path / "m.pm")

    def run(*arguments):
        return CliRunner().invoke(main, ["train", data, "-c", "1", "-q", *arguments])

    done = run("-m", "CS", "-k", "rbf", "--landmarks", "25", "-o", out)
    assert done.exit_code == 0, done.output
    assert load(out)[-1].landmarks == 25
    described = json.loads(CliRunner().invoke(main, ["info", out, "--json"]).stdout)
    assert described["n_landmarks"] == 25
    for arguments, said in (
        (("-m", "MP", "-k", "rbf", "--landmarks", "5"), "not -m MP"),
        (("-m", "CS", "--landmarks", "5"), "add -k rbf"),
        (("-m", "CS", "-k", "rbf", "--landmarks", "2.5"), "a whole number or a part"),
    ):
        refused = run(*arguments)
        assert refused.exit_code == 2
        assert said in refused.output
