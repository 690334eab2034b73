"""The best intercept of Crammer-Singer: the linear programme, and the element of minimum norm."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from polymargin import MulticlassSVC
from polymargin.certificate.shared_intercept import shared_bias


def value(cost, own, cap, b):
    terms = b - b[own][:, None] - cost
    terms[np.arange(len(own)), own] = 0.0
    return float(cap @ terms.max(axis=1))


def whole_programme(cost, own, cap):
    """The least value, with a slack for every example and all constraints at once."""
    n, Q = cost.shape
    rows, rivals = np.nonzero(np.arange(Q) != own[:, None])
    A = np.zeros((len(rows), Q + n))
    at = np.arange(len(rows))
    A[at, rivals] = 1.0
    A[at, own[rows]] = -1.0
    A[at, Q + rows] = -1.0
    bounds = [(None, None)] * Q + [(0.0, None)] * n
    return linprog(np.r_[np.zeros(Q), cap], A, cost[rows, rivals], bounds=bounds).fun


@given(st.integers(0, 10**6), st.integers(2, 5), st.booleans(), st.booleans())
@settings(max_examples=60)
def test_the_least_value_of_least_norm(seed, Q, is_degenerate, has_weights):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 60))
    own = rng.integers(0, Q, n)
    cost = rng.normal(size=(n, Q)) * rng.choice([0.1, 1.0, 10.0])
    if is_degenerate:
        cost = np.round(cost)
    cap = rng.choice([0.5, 1.0, 2.0], n) if has_weights else np.ones(n)
    found = shared_bias(cost, own, cap, 3.0 * rng.normal(size=Q))
    least = whole_programme(cost, own, cap)
    assert value(cost, own, cap, found.b) == pytest.approx(least, rel=1e-7, abs=1e-7)
    assert abs(found.b.sum()) < 1e-9 * (1.0 + np.abs(found.b).max())
    again = shared_bias(cost, own, cap)
    np.testing.assert_allclose(again.b, found.b, atol=1e-5 * (1.0 + np.abs(cost).max()))
    for _ in range(20):
        # between the found b and any other, every point nearer to zero is worse
        nearer = found.b * (1.0 - 1e-3) + 1e-3 * rng.normal(size=Q) * np.abs(found.b).max()
        nearer -= nearer.mean()
        if np.linalg.norm(nearer) < np.linalg.norm(found.b) * (1.0 - 1e-6):
            assert value(cost, own, cap, nearer) > least - 1e-9
    if found.width == 0.0 and not is_degenerate:
        polished = minimize(
            lambda b: value(cost, own, cap, b - b.mean()), found.b, method="Nelder-Mead"
        )
        assert polished.fun >= least - 1e-7 * (1.0 + least)


def test_the_order_of_examples_does_not_matter():
    """Two points per class at tiny C: b has room (19.9)."""
    X = np.array([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.1], [-1.0, 0.0], [-1.0, 0.1]])
    y = np.array([0, 0, 1, 1, 2, 2])
    order = [5, 3, 1, 4, 2, 0]
    model = MulticlassSVC(C=1e-3, intercept="free", tol=1e-9).fit(X, y)
    again = MulticlassSVC(C=1e-3, intercept="free", tol=1e-9).fit(X[order], y[order])
    assert model.bias_is_unique_ is False
    np.testing.assert_allclose(model.intercept_, again.intercept_, atol=1e-6)


def test_a_unique_intercept_is_called_unique(overlapping):
    X, y = overlapping
    assert MulticlassSVC(C=0.5, intercept="free", tol=1e-8).fit(X, y).bias_is_unique_ is True
    assert not hasattr(MulticlassSVC(intercept="none").fit(X, y), "bias_is_unique_")


def test_the_intercept_is_the_best_of_its_prototypes(overlapping):
    X, y = overlapping
    model = MulticlassSVC(C=0.5, intercept="free", tol=1e-2).fit(X, y)
    _, own = np.unique(y, return_inverse=True)
    scores = X @ model.coef_.T
    cost = scores[np.arange(len(own)), own][:, None] - scores - 1.0
    cap = np.full(len(own), 0.5)
    least = whole_programme(cost, own, cap)
    assert value(cost, own, cap, model.intercept_) == pytest.approx(least, rel=1e-9)
