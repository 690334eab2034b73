"""Margins and slacks of multi-prototype machines and hulls, and the separability condition."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel

from polymargin import ConvexHullSVC, MultiPrototypeSVC, margin_record


def clouds(n=60, Q=3, spread=4.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % Q
    return spread * np.eye(Q)[y] + rng.normal(size=(n, Q)), y


# -- multi-prototype machine ---------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_energy_is_norm_plus_slacks(kernel):
    X, y = load_iris(return_X_y=True)
    model = MultiPrototypeSVC(2, C=3.0, kernel=kernel, gamma=0.5, random_state=0).fit(X, y)
    slacks = model.slacks(X, y)
    assert slacks.shape == (150,)
    if kernel == "linear":
        norm2 = (model.prototypes_**2).sum() + (model.intercept_**2).sum()
    else:
        K = rbf_kernel(model.support_vectors_, gamma=0.5)
        norm2 = np.sum(model.dual_coef_ * (K @ model.dual_coef_))
    assert model.energy_ == pytest.approx(0.5 * norm2 + 3.0 * slacks.sum(), rel=1e-6)


def test_margins_are_distances_to_borders():
    """By hand: the border between the winning prototypes of two classes."""
    X, y = clouds(spread=9.0)
    model = MultiPrototypeSVC(2, C=10.0, random_state=0).fit(X, y)
    found = model.margins(X, y)
    scores = model.prototype_scores(X)
    owner = np.searchsorted(model.classes_, model.prototype_classes_)
    expected = np.full((3, 3), np.inf)
    for i, k in enumerate(y):
        for l in set(range(3)) - {k}:
            r = max(np.flatnonzero(owner == k), key=lambda r: scores[i, r])
            s = max(np.flatnonzero(owner == l), key=lambda s: scores[i, s])
            apart = np.linalg.norm(model.prototypes_[r] - model.prototypes_[s])
            distance = (scores[i, r] - scores[i, s]) / apart
            expected[k, l] = expected[l, k] = min(expected[k, l], distance)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_allclose(margin_record(model, X, y).geometric, found, rtol=1e-9)


def test_wrong_examples_have_no_margins():
    X, y = clouds(spread=0.5)
    model = MultiPrototypeSVC(2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="examples are not classified correctly"):
        model.margins(X, y)
    with pytest.raises(ValueError, match="labels that the model does not know"):
        model.slacks(X, y + 1)


# -- hulls ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("Q", [2, 3])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_margins_of_hulls(Q, kernel):
    X, y = clouds(Q=Q, spread=7.0)
    data = rbf_kernel(X, gamma=0.1) if kernel == "precomputed" else X
    model = ConvexHullSVC(0.5, kernel=kernel, gamma=0.1).fit(data, y)
    u = model.weights_
    K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.1)
    V = np.eye(Q)[y] * u[:, None]
    G = V.T @ K @ V
    values = K @ V  # <v_k, phi(x)>
    centre = G.mean(axis=1)
    scores = values - centre
    expected = np.full((Q, Q), np.inf)
    for i, k in enumerate(y):
        for l in set(range(Q)) - {k}:
            apart = np.sqrt(G[k, k] + G[l, l] - 2 * G[k, l])
            expected[k, l] = min(expected[k, l], (scores[i, k] - scores[i, l]) / apart)
    expected = np.minimum(expected, expected.T)
    np.testing.assert_allclose(model.margins(data, y), expected, rtol=1e-6)
    record = margin_record(model, data, y)
    np.testing.assert_allclose(record.geometric, expected, rtol=1e-6)
    assert record.errors == 0


@pytest.mark.parametrize("Q", [2, 3])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_slacks_of_hulls_are_those_of_the_max_margin_form(Q, kernel):
    """(7.4): at W = Q (v_k - c) the value is 2 sum (rho_k - eta sum xi) - ||W||^2 / Q = f."""
    X, y = clouds(n=90, Q=Q, spread=4.0)
    eta = 0.15
    model = ConvexHullSVC(eta, kernel=kernel, gamma=0.1, tol=1e-10).fit(X, y)
    record = margin_record(model, X, y)
    K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.1)
    V = np.eye(Q)[y] * model.weights_[:, None]
    T = V - V.sum(axis=1, keepdims=True) / Q
    own = Q * (K @ T)[np.arange(len(y)), y]
    xi = Q * record.slacks
    rho = [(own + xi)[(y == k) & (xi > 1e-9)].mean() for k in range(Q)]
    value = 2 * (sum(rho) - eta * xi.sum()) - Q * np.sum(T * (K @ T))
    assert value == pytest.approx(model.certificate_.primal, rel=1e-5)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_separability_condition(kernel, spread):
    X, y = clouds(n=30, spread=spread, seed=2)
    data = rbf_kernel(X, gamma=0.02) if kernel == "precomputed" else X
    model = ConvexHullSVC(1.0, kernel=kernel, gamma=0.02).fit(data, y)
    found = model.separability(data, y)
    K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.02)
    c = model.weights_ / 3
    centred = K - (K @ c)[:, None] - (K @ c)[None, :] + c @ K @ c
    for i in range(30):
        own, others = centred[y == y[i], i], centred[y != y[i], i]
        assert found.gaps[i] == pytest.approx(own.min() - others.max(), rel=1e-8, abs=1e-8)
    assert found.holds == (found.gaps > 0).all()
    assert sum(found.per_class.values()) == len(found.violating)
    assert str(found).startswith("the separability condition")
    if found.holds:
        assert (model.predict(data) == y).all()
    assert found.holds == (spread == 30.0)


def test_middle_class_violates_the_condition():
    """Separable data on a line that AD-SVM misclassifies (erratum AD-14)."""
    X, y = np.array([[0.0], [1.5], [2.5], [4.0]]), np.array([0, 1, 1, 2])
    model = ConvexHullSVC(kernel="linear", eta=1.0).fit(X, y)
    found = model.separability(X, y)
    assert not found.holds
    assert set(found.violating) >= set(np.flatnonzero(model.predict(X) != y))


# -- the published algorithm in one word ---------------------------------------------------------


def test_paper_starts_at_random():
    X, y = load_iris(return_X_y=True)
    one = MultiPrototypeSVC(3, annealing="paper", random_state=3).fit(X, y)
    two = MultiPrototypeSVC(3, annealing="paper", init="random", random_state=3).fit(X, y)
    np.testing.assert_array_equal(one.prototypes_, two.prototypes_)
    three = MultiPrototypeSVC(3, annealing="paper", init="kmeans", random_state=3).fit(X, y)
    assert not np.array_equal(one.prototypes_, three.prototypes_)
