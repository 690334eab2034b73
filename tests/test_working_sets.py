"""Working sets of Frank-Wolfe: size and rule as options, the same optimum, refusals."""

import numpy as np
import pytest

from polymargin import MulticlassSVC, WorkingSets, load, save


def clouds(n=60, Q=3, spread=2.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % Q
    return spread * np.eye(Q)[y] + rng.normal(size=(n, Q)), y


def fit(machine, solver, **more):
    X, y = clouds()
    parameters = {"C": 0.5, "kernel": "rbf", "gamma": 0.5, "tol": 0.02, "random_state": 0} | more
    return MulticlassSVC(machine, solver=solver, **parameters).fit(X, y)


@pytest.mark.parametrize("machine", ["ww", "llw", "msvm2"])
@pytest.mark.parametrize("size", [12, 40])
def test_same_optimum(machine, size):
    model = fit(machine, WorkingSets(size=size))
    best = fit(machine, "block", tol=1e-6)
    assert model.status_ == "converged"
    assert model.certificate_.dual <= best.certificate_.primal * (1 + 1e-6)
    assert model.certificate_.primal >= best.certificate_.dual * (1 - 1e-6)
    assert model.certificate_.relative_gap <= 0.02


def test_rule_of_the_gap():
    """Converges, or says that it stalled: a set may hold no feasible direction."""
    model = fit("ww", WorkingSets(size=30, rule="gap", inner_iterations=5), max_iter=300)
    assert model.status_ in ("converged", "stalled", "max_iter")
    assert model.certificate_.gap >= 0.0


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        (WorkingSets(size=1), "size must be an integer >= 2"),
        (WorkingSets(rule="largest"), "rule must be one of"),
        (WorkingSets(inner_iterations=0), "inner_iterations must be"),
    ],
)
def test_refusals(solver, words):
    with pytest.raises(ValueError, match=words):
        fit("ww", solver)


def test_other_machines_are_refused():
    with pytest.raises(ValueError, match="has other constraints"):
        fit("adm", WorkingSets())


def test_saved(tmp_path):
    model = fit("ww", WorkingSets(size=20))
    save(model, tmp_path / "m.pm")
    assert load(tmp_path / "m.pm").solver.size == 20
