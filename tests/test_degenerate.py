"""Degenerate input: nothing hangs, nothing divides by zero, nothing is silent."""

import warnings

import numpy as np
import pytest
import reference as ref
from scipy import sparse

from polymargin import MulticlassSVC

pytestmark = [
    pytest.mark.filterwarnings("error::RuntimeWarning"),  # overflow, 0/0 and their kin
]

FORMS = [np.asarray, sparse.csr_array]
FORM_IDS = ["dense", "csr"]


def check_against_qp(model, K, y, C=1.0, tol=1e-7):
    caps = np.full(len(y), C)
    best = ref.optimum(K, y, y.max() + 1, caps)
    assert model.status_ == "converged"
    assert model.certificate_.primal == pytest.approx(best.primal, rel=tol)
    assert model.certificate_.dual == pytest.approx(best.dual, rel=tol)
    assert ref.infeasibility(ref.full_tau(model, len(y)), y, caps) <= 1e-12 * max(1, C)


@pytest.mark.parametrize("form", FORMS, ids=FORM_IDS)
@pytest.mark.parametrize("intercept", ["none", "penalized"])
def test_zero_rows(overlapping, form, intercept):
    """K_pp = 0: the pattern's variables go to a corner of the simplex."""
    X, y = overlapping
    X = X.copy()
    X[[0, 5, 22]] = 0
    model = MulticlassSVC(tol=1e-8, intercept=intercept, max_iter=10**5).fit(form(X), y)
    check_against_qp(model, ref.linear(X, X, float(intercept == "penalized")), y)


@pytest.mark.parametrize("form", FORMS, ids=FORM_IDS)
def test_only_zero_rows(form):
    X, y = np.zeros((6, 3)), np.array([0, 0, 1, 1, 2, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = MulticlassSVC(intercept="none").fit(form(X), y)
    assert not model.decision_function(form(X)).any()
    assert (model.predict(form(X)) == 0).all()
    assert model.certificate_.primal == pytest.approx(6)
    assert model.certificate_.relative_gap <= 1e-3


def test_zero_rows_precomputed(overlapping):
    X, y = overlapping
    X = X.copy()
    X[[1, 8]] = 0
    K = X @ X.T
    model = MulticlassSVC(kernel="precomputed", tol=1e-8, max_iter=10**5).fit(K, y)
    check_against_qp(model, K, y)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_contradictory_duplicates(overlapping, kernel):
    X, y = overlapping
    X, y = np.vstack([X, X[:20]]), np.append(y, (y[:20] + 1) % 4)
    parameters = {"kernel": kernel, "gamma": 0.3, "intercept": "none"}
    model = MulticlassSVC(tol=1e-8, max_iter=10**5, **parameters).fit(X, y)
    K = ref.linear(X, X) if kernel == "linear" else ref.rbf(X, X, 0.3)
    check_against_qp(model, K, y)


@pytest.mark.parametrize("value", [0.0, 1.0, -7.0, 1e3])
def test_constant_features(overlapping, value):
    X, y = overlapping
    X = np.column_stack([X, np.full(60, value)])
    model = MulticlassSVC(tol=1e-8, max_iter=10**5, C=0.1).fit(X, y)
    check_against_qp(model, ref.linear(X, X, 1.0), y, C=0.1)


def test_all_features_constant():
    X, y = np.ones((9, 2)), np.array([0, 0, 0, 0, 0, 1, 1, 2, 2])
    for kernel in ["linear", "rbf"]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = MulticlassSVC(kernel=kernel).fit(X, y)
        assert (model.predict(X) == 0).all()


def test_classes_with_one_example():
    X = np.random.default_rng(0).normal(size=(12, 3))
    y = np.arange(12)
    for kernel in ["linear", "rbf"]:
        model = MulticlassSVC(kernel=kernel, gamma=0.5, intercept="none", tol=1e-8, C=3,
                              max_iter=10**5).fit(X, y)  # fmt: skip
        K = ref.linear(X, X) if kernel == "linear" else ref.rbf(X, X, 0.5)
        check_against_qp(model, K, y, C=3.0)


def test_two_examples():
    model = MulticlassSVC(tol=1e-10, intercept="none").fit([[1.0], [-1.0]], [0, 1])
    assert model.certificate_.primal == pytest.approx(0.25)  # w_1 = 1/2, w_2 = -1/2
    np.testing.assert_allclose(model.coef_, [[-1.0]], atol=1e-6)


def test_more_features_than_examples():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(10, 200)), np.arange(10) % 3
    model = MulticlassSVC(tol=1e-8, C=1.0).fit(X, y)
    check_against_qp(model, ref.linear(X, X, 1.0), y)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_thousand_classes(kernel):
    rng = np.random.default_rng(0)
    y = np.arange(2500) % 1000
    X = rng.normal(size=(1000, 8))[y] + 0.05 * rng.normal(size=(2500, 8))
    model = MulticlassSVC(kernel=kernel, tol=0.05, max_iter=200, C=1.0)
    model.fit(X, y)
    assert model.status_ == "converged"
    assert model.decision_function(X).shape == (2500, 1000)
    tau = ref.full_tau(model, 2500)
    assert ref.infeasibility(tau, y, np.ones(2500)) < 1e-12
    assert (model.predict(X) == y).mean() > 0.2


@pytest.mark.parametrize("form", FORMS, ids=FORM_IDS)
@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
def test_extreme_values(overlapping, form, scale):
    """Data times s with C / s^2 is the same machine (T19); with C = 1 it must at least behave."""
    X, y = overlapping
    plain = MulticlassSVC(intercept="none", tol=1e-6, random_state=0).fit(form(X), y)
    scaled = MulticlassSVC(intercept="none", tol=1e-6, C=scale**-2, random_state=0)
    scaled.fit(form(X * scale), y)
    assert scaled.status_ == "converged"
    np.testing.assert_allclose(
        scaled.decision_function(form(X * scale)), plain.decision_function(form(X)), atol=2e-2
    )
    assert scaled.certificate_.primal * scale**2 == pytest.approx(
        plain.certificate_.primal, rel=3e-6
    )

    behaved = MulticlassSVC(intercept="none", max_iter=200)
    if scale == 1e150:  # C times K_ii = 1e300: no sum of squares of such numbers is finite
        with pytest.raises(ValueError, match=r"^X: the largest kernel value.* is above 1e\+100"):
            behaved.fit(form(X * scale), y)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", RuntimeWarning)
        behaved.fit(form(X * scale), y)
    assert np.isfinite(behaved.decision_function(form(X * scale))).all()
    assert np.isfinite(behaved.certificate_.primal)
    assert behaved.certificate_.relative_gap >= 0


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_extreme_values_rbf(overlapping, scale):
    X, y = overlapping
    plain = MulticlassSVC(kernel="rbf", tol=1e-6).fit(X, y)
    scaled = MulticlassSVC(kernel="rbf", tol=1e-6).fit(X * scale, y)  # gamma="scale" follows
    np.testing.assert_allclose(
        scaled.decision_function(X * scale), plain.decision_function(X), atol=1e-2
    )


@pytest.mark.filterwarnings("ignore:.*zero is optimal")
@pytest.mark.parametrize("C", [1e-300, 1e-12, 1e-6, 1e8, 1e99])
def test_extreme_c(overlapping, C):
    X, y = overlapping
    model = MulticlassSVC(C=C, kernel="rbf", gamma=2.0, tol=1e-6, max_iter=10**5).fit(X, y)
    K = ref.rbf(X, X, 2.0)
    if C > 1:  # the cap is out of reach: the hard margin
        best = ref.optimum(K, y, 4, np.inf)
        assert best.tau.max() < C
        value = best.primal
    else:  # (K, C) has the value of (C K, 1) times C (T19)
        value = C * ref.optimum(C * K, y, 4, 1.0).primal
    assert model.status_ == "converged"
    assert model.certificate_.primal == pytest.approx(value, rel=2e-6)
    assert ref.infeasibility(ref.full_tau(model, 60), y, np.full(60, C)) <= 1e-12 * min(C, 10)


@pytest.mark.filterwarnings("ignore:.*zero is optimal")
def test_tiny_c_is_not_called_optimal_untrained(overlapping):
    """The relative gap is (P - D) / P, so a small C n does not make everything optimal."""
    X, y = overlapping
    model = MulticlassSVC(C=1e-9, intercept="none").fit(X, y)
    assert len(model.support_) > 0
    assert model.certificate_.relative_gap <= 1e-3
    assert model.score(X, y) > 0.4


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_collapse_is_told(kernel, n_classes):
    """Classes without a majority anywhere: W = 0, and the user hears which machine to take."""
    X = np.tile([[1.0, 2.0], [0.5, -1.0]], (n_classes, 1))
    y = np.repeat(np.arange(n_classes), 2)
    with pytest.warns(UserWarning, match=r"(?i)ww|weston"):
        model = MulticlassSVC(kernel=kernel).fit(X, y)
    assert model.status_ == "converged"
    reach = np.sqrt(2 * model.certificate_.gap) * 2 * np.sqrt((X**2).sum(axis=1).max() + 1)
    np.testing.assert_allclose(model.decision_function(X), 0, atol=reach + 1e-12)


def test_no_false_collapse(overlapping):
    X, y = overlapping
    for C in [0.01, 1.0]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            MulticlassSVC(C=C).fit(X, y)


def test_empty_rows_and_columns_of_csr(overlapping):
    X, y = overlapping
    X = sparse.lil_array(X)
    X[4] = 0
    X[:, 2] = 0
    X = sparse.csr_array(X)
    X.eliminate_zeros()
    model = MulticlassSVC(tol=1e-8, max_iter=10**5).fit(X, y)
    dense = X.toarray()
    check_against_qp(model, ref.linear(dense, dense, 1.0), y)
    assert not model.coef_[:, 2].any()


def test_csr_with_explicit_zeros_and_unsorted_indices(overlapping):
    X, y = overlapping
    dense = np.where(np.abs(X) < 0.3, 0, X)
    whole = sparse.csr_array(X)
    whole.data[np.abs(whole.data) < 0.3] = 0  # stored zeros
    for i in range(60):
        row = slice(whole.indptr[i], whole.indptr[i + 1])
        whole.indices[row] = whole.indices[row][::-1].copy()
        whole.data[row] = whole.data[row][::-1].copy()
    whole.has_sorted_indices = False
    model = MulticlassSVC(tol=1e-8, max_iter=10**5).fit(whole, y)
    check_against_qp(model, ref.linear(dense, dense, 1.0), y)


def test_csr_with_duplicate_entries(overlapping):
    X, y = overlapping
    rows, columns = np.nonzero(X)
    values = X[rows, columns]
    twice = sparse.coo_array(
        (np.tile(values / 2, 2), (np.tile(rows, 2), np.tile(columns, 2))), shape=X.shape
    )
    order = np.argsort(twice.row, kind="stable")
    counts = np.bincount(twice.row, minlength=60)
    doubled = sparse.csr_array(
        (twice.data[order], twice.col[order], np.append(0, np.cumsum(counts))), shape=X.shape
    )
    assert not doubled.has_canonical_format
    model = MulticlassSVC(tol=1e-8, max_iter=10**5).fit(doubled, y)
    check_against_qp(model, ref.linear(X, X, 1.0), y)


@pytest.mark.parametrize("length", [1e-8, 1e-14, 1e-23])
def test_rows_of_next_to_no_length(length):
    """K_pp of some rows vanishes beside the scores: their weights still sum up to the caps."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = X.argmax(axis=1)
    X[::3] *= length
    model = MulticlassSVC(C=1.0, intercept="none", tol=1e-5, random_state=0).fit(X, y)
    X[::3] = 0.0
    without = MulticlassSVC(C=1.0, intercept="none", tol=1e-5, random_state=0).fit(X, y)
    assert model.status_ == without.status_ == "converged"
    assert model.certificate_.primal == pytest.approx(without.certificate_.primal, rel=1e-4)
