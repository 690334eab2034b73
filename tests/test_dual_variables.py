"""Dual variables: feasible, of the certified value, with the gradient of central differences."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from polymargin import MulticlassSVC
from polymargin.problem.machines import MACHINES, find_machine
from polymargin.selection.dual_variables import dual_variables

C, GAMMA = 2.0, 0.5


def clouds(n=36, Q=3, spread=2.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % Q
    return spread * np.eye(Q)[y] + rng.normal(size=(n, Q)), y


def objective(name, alpha, K, y):
    """J_d of the papers from alpha alone."""
    Q = alpha.shape[1]
    own = np.eye(Q)[y]
    if name == "ww":
        T = own * alpha.sum(axis=1, keepdims=True) - alpha
        return 0.5 * np.sum(T * (K @ T)) - alpha.sum()
    T = alpha.sum(axis=1, keepdims=True) / Q - alpha
    if name == "msvm2":
        K = K + np.eye(len(y)) / (2 * C)
    return 0.5 * np.sum(T * (K @ T)) - alpha.sum() / (Q - 1)


@pytest.mark.parametrize("name", ["ww", "llw", "msvm2"])
def test_dual_variables(name):
    X, y = clouds()
    model = MulticlassSVC(name, C=C, kernel="rbf", gamma=GAMMA, tol=1e-9, random_state=0).fit(X, y)
    found = dual_variables(model, X, y)
    K = rbf_kernel(X, gamma=GAMMA)
    assert (found.alpha[np.arange(len(y)), y] == 0).all()
    if name != "msvm2":
        assert found.alpha.max() <= C * (1 + 1e-9)
    assert found.value == pytest.approx(model.certificate_.dual, rel=1e-6)
    assert found.value == pytest.approx(-objective(name, found.alpha, K, y), rel=1e-6)
    step = 1e-5
    for i, k in [(0, 1), (4, 2), (11, 0), (20, 1)]:
        if k == y[i]:
            continue
        up, down = found.alpha.copy(), found.alpha.copy()
        up[i, k] += step
        down[i, k] -= step
        slope = (objective(name, up, K, y) - objective(name, down, K, y)) / (2 * step)
        assert found.gradient[i, k] == pytest.approx(slope, abs=1e-6)
    assert find_machine(name).name == name


@pytest.mark.parametrize(("name", "cost"), [("msvm2", C), ("llw", np.inf)])
def test_margins_of_the_quadratic_machine(name, cost):
    """(9.3): N = (d^2 / Q) sum ((1 + d_kl) / gamma_kl)^2 with kappa~; Proposition 2."""
    X, y = clouds()
    model = MulticlassSVC(name, C=cost, kernel="rbf", gamma=GAMMA, tol=1e-8, random_state=0)
    found = dual_variables(model.fit(X, y), X, y)
    Q = 3
    pairs = np.triu_indices(Q, 1)
    total = np.sum(((1 + found.excess[pairs]) / found.margins[pairs]) ** 2)
    N = 2 * model.certificate_.primal
    assert found.functional**2 / Q * total == pytest.approx(N, rel=1e-5)
    assert found.alpha.sum() / (Q - 1) == pytest.approx(N, rel=1e-5)
    assert found.functional >= Q / (Q - 1) * (1 - 1e-6)
    assert found.excess[pairs].min() == pytest.approx(0.0, abs=1e-12)


def test_refusals():
    X, y = clouds()
    with pytest.raises(ValueError, match="a machine of"):
        dual_variables(MulticlassSVC("cs", random_state=0).fit(X, y), X, y)
    model = MulticlassSVC("ww", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="must be the 36 training examples"):
        dual_variables(model, X[:9], y[:9])


@pytest.mark.parametrize("name", ["cs", "ww", "llw"])
def test_clipped_variables_reach_their_caps_and_no_more(name):
    rng = np.random.default_rng(0)
    own, cap = rng.integers(4, size=50), rng.uniform(0.5, 2.0, size=50)
    machine = MACHINES[name]
    V = np.abs(machine.feasible(-5.0 * rng.random((50, 4)), own, cap))
    most = V.sum(axis=1) if machine.K3 else V.max(axis=1)
    assert (most <= cap * (1 + 1e-12)).all()
    assert most.max() > 0.5 * cap.min()
    if machine.K3:
        np.testing.assert_allclose(most, cap, rtol=1e-12)
