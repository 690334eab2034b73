"""Weights of examples and classes."""

import numpy as np
import pytest
from sklearn.base import clone

from polymargin import MulticlassSVC


def test_zero_weight_rows_are_absent(overlapping):
    X, y = overlapping
    weights = np.random.default_rng(0).uniform(0.5, 2, size=60)
    weights[::7] = 0
    keep = weights > 0
    for kernel in ["linear", "rbf"]:
        model = MulticlassSVC(kernel=kernel, tol=1e-9, random_state=0)
        whole = clone(model).fit(X, y, sample_weight=weights)
        part = clone(model).fit(X[keep], y[keep], sample_weight=weights[keep])
        np.testing.assert_allclose(whole.decision_function(X), part.decision_function(X), atol=1e-3)
        assert keep[whole.support_].all()
        np.testing.assert_array_equal(whole.support_vectors_, X[whole.support_])


def test_gamma_scale_ignores_zero_weight_rows(overlapping):
    """An outlier of weight zero must not change the width of the kernel."""
    X, y = overlapping
    far = np.vstack([X, np.full((1, 5), 1e3)])
    weights = np.append(np.ones(60), 0.0)
    model = MulticlassSVC(kernel="rbf", tol=1e-9)
    a = clone(model).fit(X, y).decision_function(X)
    b = clone(model).fit(far, np.append(y, 0), sample_weight=weights).decision_function(X)
    np.testing.assert_allclose(a, b, atol=1e-4)


@pytest.mark.parametrize("how", ["sample_weight", "class_weight"])
def test_class_without_weight_disappears(overlapping, how):
    X, y = overlapping
    if how == "sample_weight":
        model = MulticlassSVC().fit(X, y, sample_weight=(y != 2).astype(float))
    else:
        model = MulticlassSVC(class_weight={2: 0.0}).fit(X, y)
    np.testing.assert_array_equal(model.classes_, [0, 1, 3])
    assert model.decision_function(X).shape == (60, 3)
    other = MulticlassSVC().fit(X[y != 2], y[y != 2])
    np.testing.assert_allclose(model.certificate_.primal, other.certificate_.primal, rtol=2e-3)


def test_integer_weight_is_repetition(overlapping):
    X, y = overlapping
    weights = np.random.default_rng(1).integers(1, 4, size=60)
    weighted = MulticlassSVC(tol=1e-9).fit(X, y, sample_weight=weights)
    repeated = MulticlassSVC(tol=1e-9).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-3
    )
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-8)


def test_class_weight_balanced(overlapping):
    X, y = overlapping
    X, y = X[:50], np.where(y[:50] == 3, 0, y[:50])
    counts = np.bincount(y)
    by_class = {k: len(y) / (3 * counts[k]) for k in range(3)}
    scores = [
        MulticlassSVC(class_weight=weight, tol=1e-9, random_state=0).fit(X, y).decision_function(X)
        for weight in ["balanced", by_class]
    ]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-6)


def test_weights_multiply(overlapping):
    X, y = overlapping
    by_class = {0: 2.0, 1: 0.5}
    weights = np.random.default_rng(2).uniform(0.5, 2, size=60)
    both = MulticlassSVC(class_weight=by_class, tol=1e-9).fit(X, y, sample_weight=weights)
    product = weights * np.array([by_class.get(c, 1.0) for c in y])
    one = MulticlassSVC(tol=1e-9).fit(X, y, sample_weight=product)
    assert both.certificate_.primal == pytest.approx(one.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(both.decision_function(X), one.decision_function(X), atol=1e-3)
