"""ConvexHullSVC: the model against independent answers, its parameters, its limits."""

import hull_reference as slow
import numpy as np
import pytest
import reference as ref
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, NuSVC

from polymargin import CollapsedModelWarning, ConvexHullSVC, IndefiniteKernelWarning, MulticlassSVC

KERNELS = {
    "linear": lambda A, B: A @ B.T,
    "rbf": lambda A, B: ref.rbf(A, B, 0.3),
    "poly": lambda A, B: (0.3 * A @ B.T + 1.0) ** 2,
}
PARAMETERS = {
    "linear": {"kernel": "linear"},
    "rbf": {"kernel": "rbf", "gamma": 0.3},
    "poly": {"kernel": "poly", "gamma": 0.3, "degree": 2, "coef0": 1.0},
}


def clouds(n=60, d=4, n_classes=3, seed=0, distance=1.5):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return distance * rng.normal(size=(n_classes, d))[y] + rng.normal(size=(n, d)), y


def two_clouds(distance=3.0):
    X, y = clouds(50, 3, 2, seed=3)
    return X + distance * y[:, None], y


# -- known answers -------------------------------------------------------------------------------


def test_miniature(miniature):
    X, y = miniature
    model = ConvexHullSVC(1.0, kernel="linear", tol=1e-12).fit(X, y)
    assert model.certificate_.primal == pytest.approx(34.0, rel=1e-11)
    expected = [1.38888889, 1.05555556, -2.44444444]
    np.testing.assert_allclose(model.decision_function(X)[6], expected, atol=1e-7)
    model = ConvexHullSVC(eta=0.6, kernel="linear", tol=1e-12).fit(X, y)
    assert model.certificate_.primal == pytest.approx(44.6, rel=1e-11)
    expected = [1.11111111, 0.83111111, -1.94222222]
    np.testing.assert_allclose(model.decision_function(X)[6], expected, atol=1e-7)


@pytest.mark.parametrize("eta", [1.0, 0.6])
def test_miniature_rbf(miniature, eta):
    X, y = miniature
    model = ConvexHullSVC(eta, gamma=0.5, tol=1e-12).fit(X, y)
    assert model.certificate_.primal == pytest.approx(3.5294649864, rel=1e-10)
    expected = [0.32757079, -0.09237071, -0.23520008]
    np.testing.assert_allclose(model.decision_function(X)[6], expected, atol=1e-7)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("eta", [1.0, 0.2, 0.06])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_qp_solver_agrees(kernel, eta, n_classes):
    X, y = clouds(n_classes=n_classes, d=6, distance=3.0, seed=n_classes)
    if eta * np.bincount(y).min() < 1:
        eta = 1.001 / np.bincount(y).min()
    K = KERNELS[kernel](X, X)
    caps = np.full(len(y), eta)
    u, value = slow.solve_qp(K, y, caps)
    model = ConvexHullSVC(eta, tol=1e-9, **PARAMETERS[kernel]).fit(X, y)
    certificate = model.certificate_
    assert certificate.primal == pytest.approx(value, rel=1e-7)
    assert certificate.dual <= value * (1 + 1e-9)
    scores = model.decision_function(X)
    expected = slow.centred_scores(u, K, y)
    if n_classes == 2:
        expected = expected[:, 1] - expected[:, 0]
    np.testing.assert_allclose(scores, expected, atol=2e-4 * np.abs(expected).max())


@pytest.mark.parametrize("eta", [1.0, 0.1])
def test_certificate_is_the_max_margin_problem(eta):
    """primal = f(u) pair by pair; dual = (7.4) of the same prototypes."""
    X, y = clouds()
    for tol in [0.3, 1e-3, 1e-9]:
        model = ConvexHullSVC(eta, gamma=0.3, tol=tol).fit(X, y)
        K, caps = ref.rbf(X, X, 0.3), np.full(len(y), eta)
        u = model.weights_
        assert model.certificate_.primal == pytest.approx(slow.sum_of_distances(u, K, y), rel=1e-9)
        dual = slow.max_margin_value(u, K, y, np.minimum(caps, 1.0))
        assert model.certificate_.dual == pytest.approx(dual, rel=1e-8, abs=1e-10)
        assert model.certificate_.relative_gap <= tol


def test_hard_binary_machine_is_the_hard_svm():
    """T6."""
    X, y = two_clouds()
    model = ConvexHullSVC(1.0, kernel="linear", tol=1e-11).fit(X, y)
    svc = SVC(kernel="linear", C=1e8, tol=1e-10).fit(X, y)
    value = model.certificate_.primal
    assert value == pytest.approx(4 / (svc.coef_**2).sum(), rel=1e-5)
    for offset in ["center", "kkt"]:
        model = ConvexHullSVC(1.0, kernel="linear", tol=1e-11, offset=offset).fit(X, y)
        expected = 0.5 * value * svc.decision_function(X)
        np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("eta", [0.3, 0.08])
def test_soft_binary_machine_is_the_nu_svm(eta):
    """T7: the direction always, the offset with offset="kkt"."""
    X, y = two_clouds(1.0)
    svc = NuSVC(nu=2 / (eta * len(y)), kernel="linear", tol=1e-10).fit(X, y)
    model = ConvexHullSVC(eta, kernel="linear", tol=1e-11, offset="kkt").fit(X, y)
    ratio = model.coef_[0] / svc.coef_[0]
    np.testing.assert_allclose(ratio, ratio.mean(), rtol=1e-4)
    expected = ratio.mean() * svc.decision_function(X)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-3)


def test_smallest_eta_gives_class_means():
    X, y = clouds(63)
    model = ConvexHullSVC(1 / 21, kernel="linear").fit(X, y)
    means = np.array([X[y == k].mean(axis=0) for k in range(3)])
    np.testing.assert_allclose(model.prototypes_, means)
    np.testing.assert_allclose(model.weights_, 1 / 21)


def test_separable_but_misclassified():
    """AD-14: the middle of three classes on a line never wins, although a line separates them."""
    X, y = np.array([[0.0], [1.5], [2.5], [4.0]]), [0, 1, 1, 2]
    assert MulticlassSVC(C=1e3).fit(X, y).score(X, y) == 1.0
    model = ConvexHullSVC(1.0, kernel="linear").fit(X, y)
    np.testing.assert_allclose(model.prototypes_.ravel(), [0, 2, 4], atol=1e-5)
    np.testing.assert_array_equal(model.predict(X), [0, 0, 2, 2])
    assert ConvexHullSVC(1.0, gamma=1.0).fit(X, y).score(X, y) == 1.0


# -- what is fitted ------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", ["center", "kkt"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_attributes(n_classes, offset):
    X, y = clouds(n_classes=n_classes, distance=3.0)
    linear = ConvexHullSVC(0.2, kernel="linear", offset=offset).fit(X, y)
    np.testing.assert_allclose(
        np.squeeze(X @ linear.coef_.T + linear.intercept_), linear.decision_function(X)
    )
    np.testing.assert_allclose(linear.center_, linear.prototypes_.mean(axis=0))
    rbf = ConvexHullSVC(0.2, offset=offset).fit(X, y)
    for model in (linear, rbf):
        assert model.weights_.shape == (60,)
        np.testing.assert_array_equal(model.support_, np.flatnonzero(model.weights_))
        np.testing.assert_allclose(np.bincount(y, model.weights_), 1.0)
        assert model.weights_.min() >= 0
        assert model.weights_.max() <= 0.2
        np.testing.assert_allclose(model.dual_coef_.sum(axis=1), 0, atol=1e-15)
        assert len({len(column) for column in model.history_.values()}) == 1
        labels = model.predict(X)
        if n_classes > 2:
            np.testing.assert_array_equal(labels, model.decision_function(X).argmax(axis=1))
    assert not hasattr(rbf, "prototypes_")
    again = linear.set_params(kernel="rbf").fit(X, y)
    assert not hasattr(again, "coef_")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("solver", ["smo", "frank_wolfe"])
@pytest.mark.parametrize("eta", [1.0, 0.1])
def test_every_kind_of_data(kernel, solver, eta):
    X, y = clouds(distance=4.0)
    X[np.abs(X) < 0.3] = 0.0
    tol = 1e-8 if solver == "smo" else 3e-3
    parameters = {"eta": eta, "tol": tol, "solver": solver}
    scores = {}
    for name, given in {
        "dense": X,
        "float32": X.astype(np.float32),
        "csr": sparse.csr_array(X),
    }.items():
        model = ConvexHullSVC(**parameters, **PARAMETERS[kernel]).fit(given, y)
        assert model.status_ == "converged"
        assert model.certificate_.relative_gap <= tol
        scores[name] = model.decision_function(given)
    function = KERNELS[kernel]
    model = ConvexHullSVC(kernel="precomputed", **parameters).fit(function(X, X), y)
    scores["precomputed"] = model.decision_function(function(X, X))
    model = ConvexHullSVC(kernel=function, **parameters).fit(X, y)
    scores["callable"] = model.decision_function(X)
    size = np.abs(scores["dense"]).max()
    for found in scores.values():
        np.testing.assert_allclose(found, scores["dense"], atol=size * 2 * np.sqrt(tol))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_new_examples_of_a_precomputed_kernel(n_classes):
    X, y = clouds(90, n_classes=n_classes, distance=3.0)
    old, new = X[:60], X[60:]
    given = ConvexHullSVC(0.1, kernel="precomputed", tol=1e-9).fit(ref.rbf(old, old, 0.3), y[:60])
    named = ConvexHullSVC(0.1, gamma=0.3, tol=1e-9).fit(old, y[:60])
    K = ref.rbf(new, old, 0.3)
    np.testing.assert_allclose(given.decision_function(K), named.decision_function(new), atol=1e-5)
    np.testing.assert_array_equal(given.predict(K), named.predict(new))
    assert named.score(new, y[60:]) > 0.7


def test_more_rows_than_the_working_set():
    """Linear data beyond one working set; the same on kernel rows, few of them in memory."""
    X, y = clouds(3000, 5)
    linear = ConvexHullSVC(0.01, kernel="linear", tol=1e-8).fit(X, y)
    rows = ConvexHullSVC(0.01, kernel="poly", degree=1, gamma=1.0, tol=1e-8, cache_mb=0.5).fit(X, y)
    assert linear.status_ == rows.status_ == "converged"
    for cache_mb in (1000, 0.5):
        csr = ConvexHullSVC(0.01, kernel="linear", tol=1e-8, cache_mb=cache_mb)
        csr.fit(sparse.csr_array(X), y)
        assert csr.certificate_.primal == pytest.approx(linear.certificate_.primal, rel=1e-7)
    assert linear.certificate_.primal == pytest.approx(rows.certificate_.primal, rel=1e-7)
    np.testing.assert_allclose(linear.decision_function(X), rows.decision_function(X), atol=1e-2)


def test_many_classes():
    """More classes than one working set has room for."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(400), 4)
    X = 5.0 * rng.normal(size=(400, 10))[y] + rng.normal(size=(1600, 10))
    linear = ConvexHullSVC(0.5, kernel="linear").fit(X, y)
    assert linear.status_ == "converged"
    rows = ConvexHullSVC(0.5, kernel="poly", degree=1, gamma=1.0).fit(X, y)
    assert linear.certificate_.primal == pytest.approx(rows.certificate_.primal, rel=2e-6)


def test_examples_of_the_documentation():
    import doctest

    from polymargin.estimators import convex_hull

    assert doctest.testmod(convex_hull).failed == 0


def test_data_far_from_the_origin():
    X, y = clouds(distance=3.0)
    near = ConvexHullSVC(0.1, kernel="linear", tol=1e-9).fit(X, y)
    far = ConvexHullSVC(0.1, kernel="linear", tol=1e-9).fit(X + 1e5, y)
    assert far.status_ == "converged"
    assert far.certificate_.primal == pytest.approx(near.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(far.decision_function(X + 1e5), near.decision_function(X), atol=1e-4)


# -- eta and weights -----------------------------------------------------------------------------


def test_infeasible_eta_names_the_smallest():
    X, y = clouds(31)  # 11, 10, 10
    with pytest.raises(ValueError, match=r"eta=0\.05.*class 1 .* smallest feasible eta is 0\.1\."):
        ConvexHullSVC(0.05).fit(X, y)
    assert ConvexHullSVC(0.1).fit(X, y).eta_ == 0.1


def test_relative_eta():
    X, y = clouds(30)
    etas = [
        ConvexHullSVC(eta, eta_scale="relative").fit(X, y).eta_ for eta in [1e-9, 0.25, 0.5, 1.0]
    ]
    np.testing.assert_allclose(etas, [0.1, 10**-0.75, 10**-0.5, 1.0])
    search = GridSearchCV(
        ConvexHullSVC(eta_scale="relative"), {"eta": [0.1, 0.5, 1.0]}, error_score="raise"
    )
    assert search.fit(X, y).best_score_ > 0.4
    single = ConvexHullSVC(0.5, eta_scale="relative").fit(X[:4], [0, 1, 1, 0], [0.5, 1, 1, 0.2])
    assert single.eta_ == pytest.approx(1 / 0.7)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("eta", [1.0, 0.15, 0.05])
def test_weight_two_is_the_example_twice(kernel, eta):
    X, y = clouds()
    weight = np.random.default_rng(0).integers(0, 4, size=len(y))
    assert eta * np.bincount(y, weight).min() >= 1
    parameters = {"eta": eta, "kernel": kernel, "gamma": 0.3, "tol": 1e-10}
    weighted = ConvexHullSVC(**parameters).fit(X, y, sample_weight=weight)
    repeated = ConvexHullSVC(**parameters).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-9)
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-4
    )
    assert (weighted.weights_[weight == 0] == 0).all()


def test_qp_solver_agrees_on_weights():
    X, y = clouds(40)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, size=len(y))
    K = ref.rbf(X, X, 0.3)
    _, value = slow.solve_qp(K, y, 0.12 * weight)
    model = ConvexHullSVC(0.12, gamma=0.3, tol=1e-9).fit(X, y, sample_weight=weight)
    assert model.certificate_.primal == pytest.approx(value, rel=1e-7)
    assert (model.weights_ <= 0.12 * weight + 1e-15).all()


# -- hulls that meet -----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [40, 4000])
def test_hulls_that_meet(n):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 2)), np.arange(n) % 3
    with pytest.warns(CollapsedModelWarning, match="smaller eta"):
        model = ConvexHullSVC(1.0, kernel="linear").fit(X, y)
    assert model.status_ == "hulls_meet"
    assert not model.decision_function(X).any()
    assert set(model.predict_or_reject(X, reject_label=-1)) == {-1}
    assert set(model.predict(X)) == {0}
    apart = ConvexHullSVC(0.5, kernel="linear", eta_scale="relative")
    if n == 40:
        assert apart.set_params(eta=0.02).fit(X, y).status_ == "converged"


def test_the_same_example_in_two_classes():
    X = np.array([[0.0, 0], [1, 0], [0, 0], [0, 1]])
    for kernel in ["linear", "rbf"]:
        with pytest.warns(CollapsedModelWarning):
            model = ConvexHullSVC(1.0, kernel=kernel).fit(X, [0, 0, 1, 1])
        assert not model.decision_function(X).any()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_one_example_per_class(kernel):
    X = np.array([[0.0, 0], [1, 0], [0, 1]])
    model = ConvexHullSVC(1.0, kernel=kernel).fit(X, [0, 1, 2])
    assert model.status_ == "converged"
    np.testing.assert_array_equal(model.predict(X), [0, 1, 2])
    np.testing.assert_array_equal(model.weights_, 1.0)


def test_constant_features():
    with pytest.warns(CollapsedModelWarning):
        ConvexHullSVC(1.0, kernel="linear").fit(np.zeros((4, 2)), [0, 0, 1, 1])
    with pytest.warns(CollapsedModelWarning):
        ConvexHullSVC(1.0).fit(np.zeros((4, 2)), [0, 0, 1, 1])


# -- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"eta": 0}, "eta must be"),
        ({"eta": np.nan}, "eta must be"),
        ({"eta": True}, "eta must be"),
        ({"eta": 1.5, "eta_scale": "relative"}, r"eta must be in \(0, 1\]"),
        ({"eta_scale": "log"}, "eta_scale must be"),
        ({"offset": "mean"}, "offset must be"),
        ({"solver": "block"}, "solver must be"),
        ({"tol": 0}, "tol must be"),
        ({"kernel": "cubic"}, "kernel must be"),
    ],
)
def test_refusals_name_the_argument(parameters, text):
    X, y = clouds()
    with pytest.raises(ValueError, match=text):
        ConvexHullSVC(**parameters).fit(X, y)


def test_indefinite_kernel():
    K = np.array([[1.0, 2, 0, 0], [2, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    with pytest.warns(IndefiniteKernelWarning):
        model = ConvexHullSVC(0.8, kernel="precomputed").fit(K, [0, 0, 1, 1])
    assert model.certificate_.kernel_psd is False
    with pytest.warns(IndefiniteKernelWarning), pytest.raises(ValueError, match="negative"):
        ConvexHullSVC(0.8, kernel="precomputed").fit(K, [0, 1, 0, 1])


def test_clone_and_parameters():
    model = ConvexHullSVC(0.3, kernel="linear", offset="kkt")
    assert clone(model).get_params() == model.get_params()
    assert "C" not in model.get_params()
