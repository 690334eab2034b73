"""Machine x intercept x kernel x margin x weights: every cell against a QP solver."""

import functools

import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping, make_separable
from machine_reference import solve

from polymargin import MulticlassSVC

GAMMA = 0.125
SCALING = 1.5
MACHINES = ["ww", "llw", "msvm2", "cs"]


@functools.cache
def setting(machine, intercept, kernel, margin, weighted):
    X, y = make_separable(36, 4, 3) if margin == "hard" else make_overlapping(36, 4, 4)
    K = ref.linear(X, X) if kernel == "linear" else ref.rbf(X, X, GAMMA)
    if intercept == "penalized":
        K = K + SCALING**2
    w = np.random.default_rng(5).uniform(0.3, 3.0, size=len(y)) if weighted else np.ones(len(y))
    w = np.where(np.arange(len(y)) % 11 == 5, 0.0, w) if weighted else w
    keep = w > 0
    C = np.inf if margin == "hard" else 0.5
    caps = np.full(keep.sum(), np.inf) if margin == "hard" else C * w[keep]
    best = solve(machine, K[np.ix_(keep, keep)], y[keep], y.max() + 1, caps, intercept == "free")
    return X, y, K, w if weighted else None, keep, C, caps, best


def fit(machine, intercept, kernel, C, X, y, w, **more):
    model = MulticlassSVC(
        machine=machine,
        kernel=kernel,
        gamma=GAMMA,
        C=C,
        intercept=intercept,
        intercept_scaling=SCALING,
        tol=more.pop("tol", 1e-7),
        random_state=0,
        max_iter=100_000,
        **more,
    )
    return model.fit(X, y, sample_weight=w)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("margin", ["soft", "hard"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("intercept", ["none", "penalized", "free"])
@pytest.mark.parametrize("machine", MACHINES)
def test_cell(machine, intercept, kernel, margin, weighted):
    X, y, K, w, keep, C, _, best = setting(machine, intercept, kernel, margin, weighted)
    if best is None:
        with pytest.warns(UserWarning, match="separated"):
            model = fit(machine, intercept, kernel, C, X, y, w)
        assert model.status_ == "not_separable"
        return
    model = fit(machine, intercept, kernel, C, X, y, w)
    certificate = model.certificate_
    assert model.status_ == "converged"
    assert 0 <= certificate.relative_gap <= 1e-7
    assert certificate.dual <= best.value * (1 + 1e-8)
    assert certificate.primal >= best.value * (1 - 1e-8)
    assert certificate.primal == pytest.approx(best.value, rel=1e-6)
    scores = model.decision_function(X)[keep]
    reach = 2 * np.sqrt(2 * certificate.gap * K.diagonal().max()) + 1e-5
    if intercept == "free" and not model.bias_is_unique_:
        scores, expected = scores - model.intercept_, best.scores - best.bias
    else:
        expected = best.scores
    np.testing.assert_allclose(scores, expected, atol=10 * reach)
