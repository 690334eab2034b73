"""Equal to others and to itself: liblinear, the binary SVM, T2, T13, T19, T20, warm and cold."""

import warnings

import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping
from scipy import sparse
from sklearn.base import clone
from sklearn.svm import LinearSVC

from polymargin import MulticlassSVC


def liblinear(**parameters):
    return LinearSVC(
        multi_class="crammer_singer", tol=1e-10, max_iter=10**6, random_state=0, **parameters
    )


def quietly(model, *arguments, **keywords):
    """Fit liblinear; its Crammer-Singer solver warns falsely."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*arguments, **keywords)


def ours(**parameters):
    return MulticlassSVC(tol=1e-9, max_iter=10**5, random_state=0, **parameters)


@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
def test_liblinear_without_intercept(overlapping, C, form):
    X, y = overlapping
    theirs = quietly(liblinear(C=C, fit_intercept=False), form(X), y)
    model = ours(C=C, intercept="none").fit(form(X), y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-3)
    scores = theirs.decision_function(X)
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-3)
    value = 0.5 * np.sum(theirs.coef_**2) + C * ref.hinge(scores, y).sum()
    assert model.certificate_.primal == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize("scaling", [0.5, 1.0, 3.0])
def test_liblinear_with_intercept(overlapping, scaling):
    X, y = overlapping
    theirs = quietly(liblinear(C=2.0, intercept_scaling=scaling), X, y)
    for intercept in ["auto", "penalized"]:
        model = ours(C=2.0, intercept=intercept, intercept_scaling=scaling).fit(X, y)
        np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-3)
        np.testing.assert_allclose(model.intercept_, theirs.intercept_, atol=1e-3)


def test_liblinear_with_weights(overlapping):
    X, y = overlapping
    weights = np.random.default_rng(0).uniform(0.2, 2, size=60)
    by_class = {0: 2.0, 3: 0.5}
    theirs = quietly(liblinear(class_weight=by_class), X, y, sample_weight=weights)
    model = ours(class_weight=by_class).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(model.intercept_, theirs.intercept_, atol=1e-3)


@pytest.mark.parametrize("name", ["satimage", "pendigits", "vehicle"])
def test_liblinear_on_real_data(real_data, name):
    X, y = real_data(name)
    X, y = X[:2000], y[:2000]
    theirs = quietly(liblinear(C=0.1), X, y)
    model = MulticlassSVC(C=0.1, tol=1e-6).fit(X, y)
    W = np.column_stack([theirs.coef_, theirs.intercept_])
    encoded = np.searchsorted(theirs.classes_, y)
    slack = ref.hinge(theirs.decision_function(X), encoded)
    value = 0.5 * np.sum(W**2) + 0.1 * slack.sum()
    assert model.certificate_.primal == pytest.approx(value, rel=2e-6)
    assert model.certificate_.dual <= value * (1 + 1e-12)
    assert (model.predict(X) == theirs.predict(X)).mean() > 0.995


def test_sparse_text(real_data):
    X, y = real_data("reuters_r8")
    X = X[:1000]
    X.data = np.log1p(X.data)
    norms = np.sqrt(X.multiply(X).sum(axis=1))
    X = sparse.csr_array(X.multiply(1 / norms[:, None]))
    model = MulticlassSVC(tol=1e-4).fit(X, y[:1000])
    assert model.status_ == "converged"
    assert model.score(X, y[:1000]) > 0.97
    theirs = quietly(liblinear(), sparse.csr_matrix(X), y[:1000])
    W = np.column_stack([theirs.coef_, theirs.intercept_])
    encoded = np.searchsorted(theirs.classes_, y[:1000])
    value = 0.5 * np.sum(W**2) + ref.hinge(theirs.decision_function(X), encoded).sum()
    assert model.certificate_.primal == pytest.approx(value, rel=2e-4)


@pytest.mark.parametrize("C", [0.1, 2.0])
def test_binary_svm(C):
    """T2: f_1 - f_0 is the binary SVM without bias and with 2C; P is half of its value."""
    X, y = make_overlapping(n=40, n_classes=2, seed=6)
    theirs = LinearSVC(
        loss="hinge", C=2 * C, fit_intercept=False, tol=1e-12, max_iter=10**7, random_state=0
    )
    theirs.fit(X, y)
    model = ours(C=C, intercept="none").fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(model.decision_function(X), theirs.decision_function(X), atol=1e-3)
    slack = np.maximum(0, 1 - (2 * y - 1) * theirs.decision_function(X))
    value = 0.5 * np.sum(theirs.coef_**2) + 2 * C * slack.sum()
    assert model.certificate_.primal == pytest.approx(value / 2, rel=2e-9)


def test_binary_kernel_svm():
    """T2 with a kernel; the binary SVM without bias is a QP of its own."""
    X, y = make_overlapping(n=30, n_classes=2, seed=7)
    K = ref.rbf(X, X, 0.3)
    sign = 2.0 * y - 1
    solution = ref._qp(
        K * np.outer(sign, sign), -np.ones(30), np.vstack([np.eye(30), -np.eye(30)]),
        np.concatenate([np.full(30, 2.0), np.zeros(30)]), 0,
    )  # fmt: skip
    model = ours(C=1.0, kernel="rbf", gamma=0.3).fit(X, y)
    np.testing.assert_allclose(
        model.decision_function(X), K @ (sign * np.array(solution.x)), atol=1e-3
    )
    assert model.certificate_.primal == pytest.approx(-solution.obj_val / 2, rel=1e-8)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [1.0, np.inf])
def test_prototypes_sum_to_zero(separable, kernel, C):
    """T13, for scores: the sum over classes is zero everywhere, converged or not."""
    X, y = separable
    model = MulticlassSVC(kernel=kernel, C=C).fit(X, y)
    Z = np.random.default_rng(0).normal(size=(30, 5))
    np.testing.assert_allclose(model.decision_function(Z).sum(axis=1), 0, atol=1e-9)
    if kernel == "linear":
        np.testing.assert_allclose(model.coef_.sum(axis=0), 0, atol=1e-10)
        np.testing.assert_allclose(model.intercept_.sum(), 0, atol=1e-10)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_permuted_examples(overlapping, kernel):
    X, y = overlapping
    order = np.random.default_rng(0).permutation(60)
    model = ours(kernel=kernel, gamma=0.3)
    a = clone(model).fit(X, y).decision_function(X)
    b = clone(model).fit(X[order], y[order]).decision_function(X)
    np.testing.assert_allclose(a, b, atol=1e-3)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_permuted_classes(overlapping, kernel):
    X, y = overlapping
    order = np.array([2, 0, 3, 1])
    model = ours(kernel=kernel, gamma=0.3)
    a = clone(model).fit(X, y).decision_function(X)
    b = clone(model).fit(X, order[y]).decision_function(X)
    np.testing.assert_allclose(a, b[:, order], atol=1e-3)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_orthogonal_transform(overlapping, kernel):
    X, y = overlapping
    Q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))
    model = ours(kernel=kernel, gamma=0.3)
    a = clone(model).fit(X, y).decision_function(X)
    b = clone(model).fit(X @ Q, y).decision_function(X @ Q)
    np.testing.assert_allclose(a, b, atol=1e-3)


@pytest.mark.parametrize("c", [0.01, 7.0, 1e6])
def test_scaled_kernel(overlapping, c):
    """T19: (K -> cK, C -> C/c) keeps the scores and divides P and D by c."""
    X, y = overlapping
    K = ref.rbf(X, X, 0.3)
    a = ours(kernel="precomputed", C=2.0).fit(K, y)
    b = ours(kernel="precomputed", C=2.0 / c).fit(c * K, y)
    np.testing.assert_allclose(a.decision_function(K), b.decision_function(c * K), atol=1e-3)
    assert b.certificate_.primal * c == pytest.approx(a.certificate_.primal, rel=2e-9)
    assert b.certificate_.dual * c == pytest.approx(a.certificate_.dual, rel=2e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_duplicated_examples(overlapping, kernel):
    """T20: everything twice with C/2; and everything twice is weight two."""
    X, y = overlapping
    twice, labels = np.vstack([X, X]), np.append(y, y)
    once = ours(kernel=kernel, gamma=0.3, C=2.0).fit(X, y)
    halved = ours(kernel=kernel, gamma=0.3, C=1.0).fit(twice, labels)
    np.testing.assert_allclose(once.decision_function(X), halved.decision_function(X), atol=1e-3)
    assert once.certificate_.primal == pytest.approx(halved.certificate_.primal, rel=2e-9)
    weighted = ours(kernel=kernel, gamma=0.3, C=1.0).fit(X, y, sample_weight=np.full(60, 2.0))
    np.testing.assert_allclose(
        weighted.decision_function(X), halved.decision_function(X), atol=1e-3
    )


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_warm_equals_cold(overlapping, kernel):
    X, y = overlapping
    warm = ours(kernel=kernel, gamma=0.3, warm_start=True)
    for C in [0.1, 3.0, 0.5]:
        warm.set_params(C=C).fit(X, y)
        cold = clone(warm).fit(X, y)
        np.testing.assert_allclose(warm.decision_function(X), cold.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_seed_does_not_matter(overlapping, seed):
    X, y = overlapping
    a = ours(C=3.0).fit(X, y).decision_function(X)
    b = ours(C=3.0).set_params(random_state=seed).fit(X, y).decision_function(X)
    np.testing.assert_allclose(a, b, atol=1e-3)


def test_linear_is_poly_of_degree_one(overlapping):
    X, y = overlapping
    a = ours(kernel="linear", intercept="penalized").fit(X, y)
    b = ours(kernel="poly", degree=1, gamma=1.0, coef0=1.0).fit(X, y)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_slow_solver(seed):
    """The compiled solver against the one of the oracle."""
    X, y = make_overlapping(n=30, seed=seed)
    K = ref.rbf(X, X, 0.2)
    slow = ref.block_descent(K, y, 4, 1.5, tol=1e-10)
    fast = ours(kernel="rbf", gamma=0.2, C=1.5).fit(X, y)
    assert fast.certificate_.primal == pytest.approx(slow.primal, rel=2e-9)
    np.testing.assert_allclose(fast.decision_function(X), slow.scores, atol=1e-3)
