"""Kernels: each equals its precomputed matrix; prediction in blocks; matrices that are not PSD."""

import tracemalloc
import warnings

import numpy as np
import pytest
import reference as ref
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels

from polymargin import MulticlassSVC
from polymargin.problem.kernels import dense_scores


@pytest.fixture
def halves():
    """Few points in many dimensions, so that the sigmoid matrix is positive definite too."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 3
    X = rng.normal(size=(3, 60))[y] + rng.normal(size=(40, 60))
    return X[:25], y[:25], X[25:]


KERNELS = [
    ({"kernel": "rbf", "gamma": 0.02}, "rbf", {"gamma": 0.02}),
    ({"kernel": "rbf", "gamma": "auto"}, "rbf", {"gamma": 1 / 60}),
    ({"kernel": "poly", "gamma": 0.1, "coef0": 0.5, "degree": 2}, "poly",
     {"gamma": 0.1, "coef0": 0.5, "degree": 2}),
    ({"kernel": "poly", "gamma": 0.05}, "poly", {"gamma": 0.05, "coef0": 0.0, "degree": 3}),
    ({"kernel": "sigmoid", "gamma": 0.002, "coef0": 0.01}, "sigmoid",
     {"gamma": 0.002, "coef0": 0.01}),
    ({"kernel": "linear", "intercept": "none"}, "linear", {}),
]  # fmt: skip


@pytest.mark.parametrize("sparse_input", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize(("parameters", "metric", "arguments"), KERNELS)
def test_kernel_equals_precomputed(halves, parameters, metric, arguments, sparse_input):
    X, y, Z = halves
    K = pairwise_kernels(X, metric=metric, **arguments)
    assert np.linalg.eigvalsh(K).min() > -1e-10
    form = sparse.csr_array if sparse_input else np.asarray
    model = MulticlassSVC(tol=1e-9, max_iter=10**5, random_state=0)
    named = clone(model).set_params(**parameters).fit(form(X), y)
    given = clone(model).set_params(kernel="precomputed").fit(K, y)
    best = ref.optimum(K, y, 3, 1.0)
    for fitted in [named, given]:
        assert fitted.status_ == "converged"
        assert fitted.certificate_.primal == pytest.approx(best.primal, rel=2e-9)
    expected = given.decision_function(pairwise_kernels(Z, X, metric=metric, **arguments))
    np.testing.assert_allclose(named.decision_function(form(Z)), expected, atol=1e-3)


def test_gamma_scale(halves):
    X, y, Z = halves
    model = MulticlassSVC(kernel="rbf", tol=1e-9, random_state=0)
    scale = clone(model).fit(X, y)
    for form in [np.asarray, sparse.csr_array]:
        named = clone(model).set_params(gamma=1 / (60 * X.var())).fit(form(X), y)
        np.testing.assert_allclose(
            scale.decision_function(Z), named.decision_function(form(Z)), atol=1e-3
        )


def test_callable_kernel(halves):
    X, y, Z = halves

    def laplace(A, B):
        return pairwise_kernels(A, B, metric="laplacian", gamma=0.01)

    model = MulticlassSVC(kernel=laplace, tol=1e-9).fit(X, y)
    best = ref.optimum(laplace(X, X), y, 3, 1.0)
    assert model.certificate_.primal == pytest.approx(best.primal, rel=2e-9)
    assert model.certificate_.kernel_psd is True
    np.testing.assert_allclose(model.decision_function(Z), laplace(Z, X) @ best.tau, atol=1e-3)


@pytest.mark.parametrize("result", [lambda A, B: np.ones(3), lambda A, B: "no matrix"])
def test_callable_kernel_with_a_wrong_result(halves, result):
    X, y, _ = halves
    with pytest.raises((ValueError, TypeError), match="kernel"):
        MulticlassSVC(kernel=result).fit(X, y)


@pytest.mark.parametrize("intercept", ["none", "penalized"])
def test_penalized_intercept_is_a_constant_in_the_kernel(halves, intercept):
    X, y, Z = halves
    u = 4.0 if intercept == "penalized" else 0.0
    model = MulticlassSVC(
        kernel="rbf", gamma=0.02, intercept=intercept, intercept_scaling=2.0, tol=1e-9
    ).fit(X, y)
    best = ref.optimum(ref.rbf(X, X, 0.02) + u, y, 3, 1.0)
    assert model.certificate_.primal == pytest.approx(best.primal, rel=2e-9)
    expected = (ref.rbf(Z, X, 0.02) + u) @ best.tau
    np.testing.assert_allclose(model.decision_function(Z), expected, atol=1e-3)


# -- prediction ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_prediction_in_blocks(kernel):
    """Many points at once need no matrix of all kernel values, and change nothing."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(400, 3)), rng.normal(size=(40000, 3)).astype(np.float32)
    y = rng.integers(3, size=400)
    model = MulticlassSVC(kernel=kernel, gamma=1.0, coef0=1.0, tol=0.05, C=0.1).fit(X, y)
    n_support = len(model.support_)
    whole = n_support * len(Z) * 8
    assert whole > 80e6
    model.decision_function(Z[:10])
    for method in [model.decision_function, model.predict]:
        tracemalloc.start()
        result = method(Z)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.6 * whole
        assert len(result) == len(Z)
    scores = model.decision_function(Z)
    some = rng.integers(len(Z), size=50)
    np.testing.assert_allclose(scores[some], model.decision_function(Z[some]), atol=1e-12)
    kernel_values = pairwise_kernels(
        Z[some].astype(float), X[model.support_], metric=kernel, gamma=1.0,
        **({"coef0": 1.0, "degree": 3} if kernel == "poly" else {}),
    )  # fmt: skip
    np.testing.assert_allclose(scores[some], kernel_values @ model.dual_coef_, atol=1e-8)
    np.testing.assert_array_equal(model.predict(Z), model.classes_[scores.argmax(axis=1)])


@pytest.mark.parametrize("n", [0, 1])
def test_prediction_of_hardly_anything(halves, n):
    X, y, Z = halves
    for kernel in ["linear", "rbf"]:
        model = MulticlassSVC(kernel=kernel).fit(X, y)
        if n == 0:
            with pytest.raises(ValueError, match="0 sample"):
                model.predict(Z[:0])
        else:
            assert model.decision_function(Z[:1]).shape == (1, 3)


@pytest.mark.parametrize("train", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("test", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_train_and_predict_on_different_forms(halves, train, test, kernel):
    X, y, Z = halves
    model = MulticlassSVC(kernel=kernel, gamma=0.02, random_state=0)
    expected = clone(model).fit(X, y).decision_function(Z)
    scores = clone(model).fit(train(X), y).decision_function(test(Z))
    np.testing.assert_allclose(scores, expected, atol=0.2)
    mixed = clone(model).fit(train(X), y)
    np.testing.assert_allclose(mixed.decision_function(test(Z)), mixed.decision_function(Z))


def test_float32_predicts_the_labels_of_float64_scores(overlapping):
    X, y = overlapping
    model = MulticlassSVC(kernel="rbf", gamma=0.3, C=10).fit(X.astype(np.float32), y)
    Z = np.random.default_rng(7).normal(size=(5000, 5)).astype(np.float32)
    scores = model.decision_function(Z)
    assert scores.dtype == np.float64
    exact = ref.rbf(Z, X.astype(np.float32)[model.support_], 0.3) @ model.dual_coef_
    np.testing.assert_allclose(scores, exact, atol=1e-9)
    np.testing.assert_array_equal(model.predict(Z), model.classes_[scores.argmax(axis=1)])


# -- precomputed matrices ------------------------------------------------------------------------


def test_precomputed_shapes(halves):
    X, y, Z = halves
    model = MulticlassSVC(kernel="precomputed").fit(X @ X.T, y)
    assert model.n_features_in_ == 25
    assert model.decision_function(Z @ X.T).shape == (15, 3)
    with pytest.raises(ValueError, match="15"):
        model.predict(Z @ Z.T)
    with pytest.raises(ValueError, match=r"(?i)square|precomputed"):
        MulticlassSVC(kernel="precomputed").fit(X, y)


def test_precomputed_with_zero_weights(halves):
    """Dropped rows are dropped columns too; prediction still takes all columns."""
    X, y, Z = halves
    weights = np.ones(25)
    weights[[2, 3, 11]] = 0
    keep = weights > 0
    model = MulticlassSVC(kernel="precomputed", tol=1e-9).fit(X @ X.T, y, sample_weight=weights)
    plain = MulticlassSVC(kernel="precomputed", tol=1e-9).fit(X[keep] @ X[keep].T, y[keep])
    assert keep[model.support_].all()
    np.testing.assert_allclose(
        model.decision_function(Z @ X.T), plain.decision_function(Z @ X[keep].T), atol=1e-3
    )


def test_precomputed_must_be_symmetric(halves):
    X, y, _ = halves
    K = X @ X.T
    K[3, 8] += 1.0
    with pytest.raises(ValueError, match="symmetric"):
        MulticlassSVC(kernel="precomputed").fit(K, y)


def test_precomputed_in_cross_validation(halves):
    from sklearn.model_selection import cross_val_score
    from sklearn.utils import get_tags

    X, y, _ = halves
    assert get_tags(MulticlassSVC(kernel="precomputed")).input_tags.pairwise
    assert not get_tags(MulticlassSVC(kernel="rbf")).input_tags.pairwise
    a = cross_val_score(MulticlassSVC(kernel="precomputed"), X @ X.T, y, cv=3)
    b = cross_val_score(MulticlassSVC(intercept="none"), X, y, cv=3)
    np.testing.assert_allclose(a, b)


# -- kernels that are not positive semi-definite (19.6) -------------------------------------------


def indefinite(X, depth=0.05):
    """An RBF matrix with its smallest eigenvalue pushed below zero; the diagonal stays positive."""
    values, vectors = np.linalg.eigh(ref.rbf(X, X, 0.3))
    values[0] = -depth
    K = (vectors * values) @ vectors.T
    assert (K.diagonal() > 0).all()
    return (K + K.T) / 2


def test_indefinite_precomputed(overlapping):
    X, y = overlapping
    K = indefinite(X)
    model = MulticlassSVC(kernel="precomputed", max_iter=200)
    with pytest.warns(UserWarning, match=r"(?i)positive semi-?definite"):
        model.fit(K, y)
    assert model.certificate_.kernel_psd is False
    assert np.isfinite(model.decision_function(K)).all()


def test_indefinite_callable(overlapping):
    X, y = overlapping

    def distance(A, B):
        return 3.0 - np.abs(A[:, None] - B[None]).sum(axis=2) ** 2 / 40

    assert np.linalg.eigvalsh(distance(X, X)).min() < -0.1
    with pytest.warns(UserWarning, match=r"(?i)positive semi-?definite"):
        model = MulticlassSVC(kernel=distance, max_iter=200, C=0.01).fit(X, y)
    assert model.certificate_.kernel_psd is False


def test_indefinite_sigmoid(overlapping):
    X, y = overlapping
    assert np.linalg.eigvalsh(pairwise_kernels(X, metric="sigmoid", gamma=0.1)).min() < -0.01
    with pytest.warns(UserWarning, match=r"(?i)positive semi-?definite"):
        model = MulticlassSVC(kernel="sigmoid", gamma=0.1, C=0.1, max_iter=200).fit(X, y)
    assert model.certificate_.kernel_psd is False


def test_rank_deficient_is_not_indefinite(overlapping):
    """Rounding pushes zero eigenvalues below zero; that is no reason to warn."""
    X, y = overlapping
    for K in [X @ X.T, (X @ X.T).astype(np.float32), np.ones((60, 60)) + 1e-3 * X @ X.T]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = MulticlassSVC(kernel="precomputed", tol=1e-3).fit(K, y)
        assert model.certificate_.kernel_psd is True


def test_negative_diagonal_is_an_error(overlapping):
    X, y = overlapping
    K = ref.rbf(X, X, 0.3)
    K[4, 4] = -0.1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=r"(?i)diagonal|negative"):
            MulticlassSVC(kernel="precomputed").fit(K, y)


def test_strongly_indefinite_ends(overlapping):
    """Negative curvature everywhere: an error or an honest certificate, never a hang."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(60, 60))
    K = A + A.T
    np.fill_diagonal(K, 0.1)
    model = MulticlassSVC(kernel="precomputed", max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(K, overlapping[1])
        except ValueError as error:
            assert "definite" in str(error)  # noqa: PT017
        else:
            assert model.certificate_.kernel_psd is False


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(7, 3), (700, 600), (65, 2000), (0, 600)])
def test_scores_of_long_rows_in_pieces_are_the_product(shape, dtype):
    random = np.random.default_rng(0)
    X, W = random.normal(size=(2 * shape[0], shape[1])), random.normal(size=(5, shape[1]))
    X, W = X.astype(dtype)[::2], W.astype(dtype)  # rows that do not lie side by side
    found = dense_scores(W, X)
    assert found.dtype == dtype
    assert found.flags.c_contiguous
    np.testing.assert_allclose(
        found, W @ X.T, rtol=1e-4 if dtype == np.float32 else 1e-11, atol=1e-4
    )
