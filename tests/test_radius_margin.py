"""Radius-margin bounds against a QP solver, central differences, identities and leave-one-out."""

import numpy as np
import pytest
import radius_reference
from conftest import make_overlapping
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from test_sphere import gram

from polymargin import MulticlassSVC, radius_margin_bound
from polymargin.radius_margin.bound import bound_factor, read_sample
from polymargin.radius_margin.criterion import Setting, evaluate
from polymargin.radius_margin.search import plateau
from polymargin.solvers.run import Run, Stop

STEP = 1e-4


def small(n=24, d=3, n_classes=3, seed=0):
    return make_overlapping(n, d, n_classes, seed)


# -- the worked miniature ---------------------------------------------------------------------


def test_miniature(miniature):
    X, y = miniature
    hard = radius_margin_bound(X, y, C=np.inf, kernel="linear")
    assert hard.diameter2 == pytest.approx(40.0, rel=1e-8)
    assert hard.value == pytest.approx(1257.066667, rel=1e-8)
    assert hard.sharper == pytest.approx(922.488889, rel=1e-8)
    assert hard.one_vs_one == pytest.approx(36.355556, rel=1e-7)
    assert hard.tight == pytest.approx(518.9, rel=1e-7)
    assert hard.tight_value == pytest.approx(707.1, rel=1e-7)
    assert hard.gradient == {}
    soft = radius_margin_bound(X, y, C=1.0, gamma=0.5)
    assert soft.certificate.primal == pytest.approx(2.8433694438, rel=1e-9)
    assert soft.diameter2 == pytest.approx(4.8545973353, rel=1e-8)
    assert soft.value == pytest.approx(147.236413, rel=1e-8)
    assert soft.sharper == pytest.approx(78.572701, rel=1e-8)
    assert soft.one_vs_one == pytest.approx(32.322087, rel=1e-7)
    assert soft.gradient["C"] == pytest.approx(-10.189117, rel=1e-6)
    assert soft.gradient["gamma"] == pytest.approx(30.461943, rel=1e-6)
    linear = radius_margin_bound(X, y, C=1.0, kernel="linear")
    assert linear.value == pytest.approx(609.945610, rel=1e-8)
    assert linear.gradient == {"C": pytest.approx(259.185777, rel=1e-6)}
    rbf = radius_margin_bound(X, y, C=np.inf, gamma=0.5)
    assert rbf.value == pytest.approx(134.211505, rel=1e-7)
    assert rbf.sharper == pytest.approx(72.941297, rel=1e-7)
    assert rbf.one_vs_one == pytest.approx(28.797233, rel=1e-7)


# -- values -----------------------------------------------------------------------------------

CASES = [
    {"kernel": "linear"},
    {"kernel": "rbf", "gamma": 0.4},
    {"kernel": "rbf", "gamma": np.array([0.1, 0.6, 1.5])},
    {"kernel": "poly", "gamma": 0.3, "degree": 2, "coef0": 1.0},
    {"kernel": "poly", "gamma": 0.2, "degree": 3, "coef0": 0.5},
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("C", [0.2, 5.0])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_values_equal_a_qp_solver(case, C, n_classes):
    X, y = small(n_classes=n_classes, seed=n_classes)
    weight = np.random.default_rng(1).uniform(0.3, 3.0, size=len(y))
    found = radius_margin_bound(X, y, C=C, sample_weight=weight, **case)
    wanted = radius_reference.bounds(gram(X, **case), y, C * weight)
    for name in ("value", "sharper", "one_vs_one", "radius2"):
        assert getattr(found, name) == pytest.approx(wanted[name], rel=1e-5), name
    assert 2.0 * found.certificate.primal == pytest.approx(wanted["norm2"], rel=1e-6)
    assert found.tight <= found.sharper * (1 + 1e-12)
    assert found.sharper <= found.value * (1 + 1e-9)
    assert found.tight_value <= found.value * (1 + 1e-12)
    assert found.tight <= found.tight_value * (1 + 1e-9)


def test_hard_margin_equals_a_qp_solver():
    rng = np.random.default_rng(0)
    y = np.arange(18) % 3
    X = 6.0 * np.eye(3)[y] + rng.normal(size=(18, 3))
    found = radius_margin_bound(X, y, C=np.inf, kernel="linear", tol=1e-8)
    wanted = radius_reference.bounds(X @ X.T, y, np.inf)
    assert found.value == pytest.approx(wanted["value"], rel=1e-5)
    assert found.one_vs_one == pytest.approx(wanted["one_vs_one"], rel=1e-5)


def test_precomputed_and_sparse_agree():
    X, y = small()
    wanted = radius_margin_bound(X, y, gamma=0.4)
    K = gram(X, "rbf", 0.4)
    given = radius_margin_bound(K, y, kernel="precomputed")
    assert given.value == pytest.approx(wanted.value, rel=1e-8)
    assert given.one_vs_one == pytest.approx(wanted.one_vs_one, rel=1e-8)
    assert set(given.gradient) == {"C"}
    assert given.gradient["C"] == pytest.approx(wanted.gradient["C"], rel=1e-6)
    widths = np.array([0.4, 0.4, 0.4])
    thin = radius_margin_bound(sparse.csr_matrix(X), y, gamma=widths)
    assert thin.value == pytest.approx(wanted.value, rel=1e-8)
    assert thin.gradient["gamma"].sum() == pytest.approx(wanted.gradient["gamma"], rel=1e-6)


def test_zero_weight_is_absence():
    X, y = small()
    weight = np.ones(len(y))
    weight[[0, 5]] = 0.0
    kept = weight > 0
    a = radius_margin_bound(X, y, gamma=0.3, sample_weight=weight)
    b = radius_margin_bound(X[kept], y[kept], gamma=0.3)
    assert a.value == pytest.approx(b.value, rel=1e-10)
    assert a.n_examples == kept.sum()


def test_labels_may_be_words():
    X, y = small()
    a = radius_margin_bound(X, np.array(["red", "green", "blue"])[y], gamma=0.3)
    assert a.value == pytest.approx(radius_margin_bound(X, y, gamma=0.3).value, rel=1e-9)


# -- gradients --------------------------------------------------------------------------------


def without_pairs(X, y, C, gamma=1.0, kernel="rbf", degree=3, coef0=0.0, sample_weight=None, tol=0):
    """``value`` alone, at any tolerance: what the machines of all pairs cost is saved."""
    sample = read_sample(X, y, kernel, degree, sample_weight)
    found = evaluate(sample, Setting(C, gamma, coef0), tol, tol, Run(Stop(tol, 10**9)))
    return bound_factor(sample.n_classes) * np.exp(found.log_product)


def difference(arguments, name, at=None):
    """Central difference of ``value`` in log C, log gamma (or one width) or coef0, extrapolated."""

    def value(step):
        moved = {key: held for key, held in arguments.items() if key != "tol"}
        if name == "coef0":
            moved[name] = arguments[name] + step
        elif at is None:
            moved[name] = arguments[name] * np.exp(step)
        else:
            moved[name] = arguments[name].copy()
            moved[name][at] *= np.exp(step)
        return without_pairs(**moved, tol=arguments.get("tol", 1e-11))

    def slope(h):
        return (value(h) - value(-h)) / (2.0 * h)

    return (4.0 * slope(STEP) - slope(2.0 * STEP)) / 3.0


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_equal_central_differences(case, weighted):
    X, y = small(seed=3)
    weight = np.random.default_rng(2).uniform(0.5, 2.0, size=len(y)) if weighted else None
    arguments = {"X": X, "y": y, "C": 1.5, "sample_weight": weight, **case}
    found = radius_margin_bound(**arguments).gradient
    assert found["C"] == pytest.approx(difference(arguments, "C"), rel=1e-5)
    if case["kernel"] == "linear":
        assert set(found) == {"C"}
        return
    if np.ndim(case["gamma"]):
        assert found["gamma"].shape == (3,)
        for at in range(3):
            wanted = difference(arguments, "gamma", at)
            assert found["gamma"][at] == pytest.approx(wanted, rel=1e-5)
    else:
        assert found["gamma"] == pytest.approx(difference(arguments, "gamma"), rel=1e-5)
    if case["kernel"] == "poly":
        assert found["coef0"] == pytest.approx(difference(arguments, "coef0"), rel=1e-5)
    else:
        assert "coef0" not in found


def test_hard_margin_gradient():
    X, y = small(seed=3)
    arguments = {"X": X, "y": y, "C": np.inf, "gamma": 0.8, "tol": 1e-9}
    found = radius_margin_bound(**arguments).gradient
    assert set(found) == {"gamma"}
    assert found["gamma"] == pytest.approx(difference(arguments, "gamma"), rel=1e-4)


def test_larger_problem_without_polish():
    """More variables than the last-digits solver takes: gaps and gradients are still small."""
    X, y = make_overlapping(400, 6, 5, seed=0)
    arguments = {"X": X, "y": y, "C": 1.0, "gamma": 0.1, "tol": 1e-10}
    found = radius_margin_bound(**arguments)
    assert found.certificate.relative_gap <= 1e-9
    assert found.sphere.relative_gap <= 1e-9
    wanted = difference({**arguments, "tol": 1e-12}, "gamma")
    assert found.gradient["gamma"] == pytest.approx(wanted, rel=1e-4)


# -- what theory says -------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_plateau(n_classes):
    X, y = small(n=24, n_classes=n_classes)
    level = 4.0 * (n_classes - 1) ** 3 * (len(y) - 1)
    assert bound_factor(n_classes) * np.exp(plateau(y, n_classes)) == pytest.approx(level)
    assert radius_margin_bound(X, y, C=1e-7, gamma=0.5).value == pytest.approx(level, rel=1e-4)
    assert radius_margin_bound(X, y, gamma=1e6).value == pytest.approx(level, rel=1e-8)
    uneven = np.where(np.arange(len(y)) < 12, 0, y)
    value = radius_margin_bound(X, uneven, gamma=1e6).value
    assert bound_factor(n_classes) * np.exp(plateau(uneven, n_classes)) == pytest.approx(value)


def test_leave_one_out_errors_are_below_every_bound():
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    X = 2.5 * np.eye(3)[y] + rng.normal(size=(30, 3))
    errors = 0
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        model = MulticlassSVC("msvm2", C=1.0, kernel="rbf", gamma=0.2, tol=1e-6, random_state=0)
        errors += int(model.fit(X[rest], y[rest]).predict(X[i : i + 1])[0] != y[i])
    found = radius_margin_bound(X, y, C=1.0, gamma=0.2)
    assert 0 < errors <= min(found.tight, found.sharper, found.value)
    assert errors <= found.sharper_count <= found.count <= 30
    least = min(found.tight, found.sharper, found.one_vs_one, found.sharper_count)
    assert found.is_vacuous == (least >= 30)


# -- input ------------------------------------------------------------------------------------


def test_bad_input():
    X, y = small()
    for word, arguments in {
        "C must": {"C": 0.0},
        "kernel must": {"kernel": "nothing"},
        "callable": {"kernel": lambda A, B: A @ B.T},
        "sigmoid": {"kernel": "sigmoid"},
        "gamma": {"gamma": -1.0},
        "width": {"kernel": "poly", "gamma": np.ones(3)},
        "shape": {"gamma": np.ones(2)},
        "degree": {"kernel": "poly", "degree": 0},
        "coef0": {"kernel": "poly", "coef0": np.nan},
        "tol": {"tol": -1.0},
        "max_time": {"max_time": 0.0},
        "random_state": {"random_state": -3},
        "square": {"kernel": "precomputed"},
    }.items():
        with pytest.raises(ValueError, match=word):
            radius_margin_bound(X, y, **arguments)
    lonely = y.copy()
    lonely[0] = 7
    with pytest.raises(ValueError, match="one example"):
        radius_margin_bound(X, lonely)
    with pytest.raises(ValueError, match="greater than one"):
        radius_margin_bound(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match="cannot be separated"):
        radius_margin_bound(np.repeat(X[:8], 3, axis=0), np.arange(24) % 3, C=np.inf)
    with pytest.raises(ValueError, match="overflow"):
        radius_margin_bound(1e160 * X, y, kernel="linear")
    with pytest.raises(ValueError, match="NaN"):
        radius_margin_bound(np.full((6, 2), np.nan), np.arange(6) % 2)


def test_time_and_progress(capsys):
    X, y = make_overlapping(600, 5, 4)
    radius_margin_bound(X[:60], y[:60], verbose=1)
    assert "classes 0 and 1" in capsys.readouterr().out
    with pytest.warns(ConvergenceWarning, match="max_time"):
        found = radius_margin_bound(X, y, C=10.0, gamma=0.05, max_time=1e-4, tol=1e-12)
    assert found.status == "max_time"
    assert found.value > radius_margin_bound(X, y, C=10.0, gamma=0.05, tol=1e-3).value
    assert np.isnan(found.one_vs_one)
