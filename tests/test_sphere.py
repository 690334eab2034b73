"""The smallest enclosing sphere against a QP solver, geometry and its own certificate."""

import numpy as np
import pytest
import radius_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from polymargin import smallest_enclosing_sphere
from polymargin.exceptions import IndefiniteKernelWarning


def gram(X, kernel, gamma=1.0, degree=3, coef0=0.0):
    X = np.asarray(X, dtype=float)
    if kernel == "linear":
        return X @ X.T
    if kernel == "poly":
        return (gamma * X @ X.T + coef0) ** degree
    D = ((X[:, None, :] - X[None, :, :]) ** 2 * np.asarray(gamma)).sum(axis=2)
    return np.exp(-D)


CASES = [
    {"kernel": "linear"},
    {"kernel": "rbf", "gamma": 0.3},
    {"kernel": "rbf", "gamma": 20.0},
    {"kernel": "rbf", "gamma": 1e-7},
    {"kernel": "rbf", "gamma": np.array([0.1, 0.5, 2.0, 0.01])},
    {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0},
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("ridge", [0.0, 0.05])
def test_equals_a_qp_solver(case, ridge):
    X = np.random.default_rng(0).normal(size=(40, 4))
    found = smallest_enclosing_sphere(X, ridge=ridge, **case)
    assert found.status == "converged"
    assert found.relative_gap <= 1e-8
    R2, _ = radius_reference.sphere(gram(X, **case) + ridge * np.eye(40))
    if case.get("gamma") is not None and np.max(case["gamma"]) < 1e-6:
        assert found.radius2 == pytest.approx(R2, abs=1e-8)  # the reference has no more digits
    else:
        assert found.radius2 == pytest.approx(R2, rel=1e-7)


@pytest.mark.parametrize("n", [10, 399, 900])
def test_certified_both_sides(n):
    X = np.random.default_rng(n).normal(size=(n, 3)) + 50.0
    found = smallest_enclosing_sphere(X)
    inside = ((X - found.center) ** 2).sum(axis=1)
    assert inside.max() <= found.radius2 * (1 + 1e-12)
    beta = found.weights
    assert beta.min() >= 0.0
    assert beta.sum() == pytest.approx(1.0, abs=1e-12)
    lower = beta @ ((X - X.mean(axis=0)) ** 2).sum(axis=1)
    lower -= ((beta @ (X - X.mean(axis=0))) ** 2).sum()
    assert found.radius2_lower == pytest.approx(lower, rel=1e-10)
    assert found.radius2 - lower <= 1.01e-8 * found.radius2
    assert np.array_equal(found.support, np.flatnonzero(beta))
    assert found.distances2() == pytest.approx(inside, rel=1e-9)
    assert found.diameter2 == 4.0 * found.radius2


def test_sparse_precomputed_float32_and_lists_agree():
    X = np.random.default_rng(3).normal(size=(60, 5)).round(2)
    wanted = smallest_enclosing_sphere(X, kernel="rbf", gamma=0.2).radius2
    K = gram(X, "rbf", 0.2)
    assert smallest_enclosing_sphere(K, kernel="precomputed").radius2 == pytest.approx(wanted)
    assert smallest_enclosing_sphere(
        sparse.csr_matrix(X), kernel="rbf", gamma=0.2
    ).radius2 == pytest.approx(wanted)
    assert smallest_enclosing_sphere(
        X.astype(np.float32), kernel="rbf", gamma=0.2
    ).radius2 == pytest.approx(wanted, rel=1e-5)
    assert smallest_enclosing_sphere(
        X.tolist(), kernel=lambda A, B: gram(np.concatenate([A, B]), "rbf", 0.2)[: len(A), len(A) :]
    ).radius2 == pytest.approx(wanted)


def test_large_set():
    X = np.random.default_rng(5).normal(size=(20000, 8))
    found = smallest_enclosing_sphere(X, kernel="rbf", gamma=0.02)
    assert found.relative_gap <= 1e-8
    D = ((X[found.support][:, None] - X[found.support][None]) ** 2).sum(axis=2)
    some = smallest_enclosing_sphere(np.exp(-0.02 * D), kernel="precomputed")
    assert some.radius2 == pytest.approx(found.radius2, rel=1e-7)


@settings(max_examples=30)
@given(st.integers(1, 12), st.integers(0, 10**6), st.integers(0, 3))
def test_moving_and_scaling(n, seed, copies):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    X = np.concatenate([X, X[rng.integers(n, size=copies)]])
    R2 = smallest_enclosing_sphere(X).radius2
    moved = smallest_enclosing_sphere(3.0 * X + 7.0).radius2
    assert moved == pytest.approx(9.0 * R2, rel=1e-6, abs=1e-12)


def test_one_point_and_copies():
    assert smallest_enclosing_sphere([[3.0, 4.0]]).radius2 == 0.0
    found = smallest_enclosing_sphere(np.full((7, 2), 5.0))
    assert found.radius2 == 0.0
    assert found.status == "converged"
    two = smallest_enclosing_sphere([[0.0], [4.0]])
    assert two.radius2 == pytest.approx(4.0)
    assert two.center == pytest.approx([2.0])
    assert two.radius == pytest.approx(2.0)


def test_limits_and_progress(capsys):
    X = np.random.default_rng(0).normal(size=(3000, 30))
    with pytest.warns(UserWarning, match="max_iter"):
        found = smallest_enclosing_sphere(X, kernel="rbf", max_iter=1, verbose=1)
    assert found.status == "max_iter"
    assert found.radius2_lower <= found.radius2
    assert "radius^2" in capsys.readouterr().out
    with pytest.warns(UserWarning, match="max_time"):
        smallest_enclosing_sphere(X, max_time=1e-6)


def test_bad_input():
    X = np.eye(3)
    for word, arguments in {
        "kernel": {"kernel": "nothing"},
        "gamma": {"kernel": "rbf", "gamma": -1.0},
        "width": {"kernel": "poly", "gamma": np.ones(3)},
        "shape": {"kernel": "rbf", "gamma": np.ones(2)},
        "ridge": {"ridge": [1.0, 2.0]},
        "negative": {"ridge": -1.0},
        "tol": {"tol": 0.0},
        "max_iter": {"max_iter": 0},
        "max_time": {"max_time": -1},
        "degree": {"kernel": "poly", "degree": -2},
    }.items():
        with pytest.raises(ValueError, match=word):
            smallest_enclosing_sphere(X, **arguments)
    with pytest.raises(ValueError, match="square"):
        smallest_enclosing_sphere(X[:2], kernel="precomputed")
    with pytest.raises(ValueError, match="symmetric"):
        smallest_enclosing_sphere(np.triu(np.ones((3, 3))), kernel="precomputed")
    with pytest.raises(ValueError, match="NaN"):
        smallest_enclosing_sphere([[np.nan]])
    with pytest.warns(IndefiniteKernelWarning):
        smallest_enclosing_sphere(np.array([[1.0, 3.0], [3.0, 1.0]]), kernel="precomputed")
