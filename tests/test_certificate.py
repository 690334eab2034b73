"""The judge of the package against the oracle, at points that no solver has seen."""

import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping, make_separable
from scipy import sparse

from polymargin.certificate.certificate import linear_primal
from polymargin.certificate.judge import judge
from polymargin.problem.kernels import Kernel
from polymargin.problem.machines import MACHINES
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem


def make_problem(kind, y, caps, X, dtype=np.float64, offset=0.0):
    """A problem and its kernel matrix, offset included."""
    n_classes = int(y.max()) + 1
    kernels = {
        "dense": Kernel("linear", offset=offset),
        "csr": Kernel("linear", offset=offset),
        "rbf": Kernel("rbf", gamma=0.2, offset=offset),
        "gram": Kernel("precomputed", offset=offset),
    }
    X = X.astype(dtype)
    linear, rbf = ref.linear(X, X), ref.rbf(X, X, 0.2)
    data = {"dense": X, "csr": sparse.csr_array(X), "rbf": X, "gram": linear.astype(dtype)}
    K = rbf if kind == "rbf" else np.asarray(data["gram"] if kind == "gram" else linear, float)
    problem = Problem(
        machine=MACHINES["cs"],
        kernel=kernels[kind],
        X=data[kind],
        label=y,
        cap=caps,
        own=y,
        prototype_class=np.arange(n_classes),
        kernel_psd=True,
    )
    return problem, K + offset


def point_of(problem, tau):
    return DualPoint.from_dense(problem, problem.machine.signed(tau, problem.own))


def random_point(y, n_classes, caps, seed):
    rng = np.random.default_rng(seed)
    n = len(y)
    tau = -rng.exponential(size=(n, n_classes)) * rng.integers(2, size=(n, n_classes))
    tau[rng.integers(n, size=n // 3)] = 0
    tau = ref.make_feasible(0.2 * tau, y, caps)
    return tau


@pytest.mark.parametrize("offset", [0.0, 2.25])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["dense", "csr", "rbf", "gram"])
def test_soft_margin(kind, dtype, offset):
    X, y = make_overlapping()
    caps = np.random.default_rng(0).uniform(0.3, 2.0, size=60)
    problem, K = make_problem(kind, y, caps, X, dtype, offset)
    for seed in range(3):
        tau = random_point(y, 4, caps, seed)
        certificate = judge(problem, point_of(problem, tau)).certificate
        assert certificate.primal == pytest.approx(ref.primal_value(tau, K, y, caps), rel=1e-12)
        assert certificate.dual == pytest.approx(ref.dual_value(tau, K, y, caps), rel=1e-11)
        assert certificate.gap == pytest.approx(ref.pattern_gaps(tau, K, y, caps).sum(), rel=1e-11)
        assert certificate.relative_gap == pytest.approx(certificate.gap / certificate.primal)


@pytest.mark.parametrize("kind", ["dense", "csr", "rbf", "gram"])
def test_hard_margin(kind):
    X, y = make_separable()
    caps = np.full(60, np.inf)
    problem, K = make_problem(kind, y, caps, X)
    best = ref.optimum(K, y, 3, caps)
    for factor in [1.0, 0.2, 17.0]:  # (1.12) does not depend on the scale of tau
        certificate = judge(problem, point_of(problem, factor * best.tau)).certificate
        assert certificate.primal == pytest.approx(best.primal, rel=1e-9)
        assert certificate.dual == pytest.approx(best.dual, rel=1e-9)
    tau = random_point(y, 3, caps, 0)
    certificate = judge(problem, point_of(problem, tau)).certificate
    assert certificate.primal == pytest.approx(ref.primal_value(tau, K, y, caps), rel=1e-9)
    assert certificate.dual == pytest.approx(ref.dual_value(tau, K, y, caps), rel=1e-9)


@pytest.mark.parametrize("kind", ["dense", "csr", "rbf", "gram"])
def test_nothing_trained(kind):
    """tau = 0: D = 0, P = sum of the caps, relative gap 1."""
    X, y = make_overlapping()
    caps = np.full(60, 1e-6)
    problem, _ = make_problem(kind, y, caps, X)
    certificate = judge(problem, DualPoint.zero(problem)).certificate
    assert certificate.primal == pytest.approx(6e-5)
    assert certificate.dual == 0
    assert certificate.relative_gap == 1


@pytest.mark.parametrize("change", ["cap", "sign", "own"])
def test_infeasible_points_are_refused(change):
    X, y = make_overlapping()
    caps = np.ones(60)
    problem, _ = make_problem("dense", y, caps, X)
    tau = random_point(y, 4, caps, 0)
    i, own = 5, y[5]
    other = (own + 1) % 4
    V = point_of(problem, tau).dense(problem)
    V[i] = 0
    V[i, own], V[i, other] = {"cap": (0, -2), "sign": (0, 0.5), "own": (0.5, -0.4)}[change]
    with pytest.raises((FloatingPointError, ValueError), match="feasible"):
        judge(problem, DualPoint.from_dense(problem, V))


def test_small_violations_of_small_problems_are_refused():
    """A point is judged in units of its own size, not of 1."""
    X, y = make_overlapping()
    caps = np.full(60, 1e-9)
    problem, _ = make_problem("dense", y, caps, X)
    tau = random_point(y, 4, caps, 0)
    tau[3] = 0
    tau[3, y[3]], tau[3, (y[3] + 1) % 4] = 1.5e-9, -1.5e-9
    with pytest.raises((FloatingPointError, ValueError), match="feasible"):
        judge(problem, point_of(problem, tau))


@pytest.mark.parametrize("scaling", [None, 1.0, 2.0])
def test_linear_primal(scaling):
    """The value of anybody's linear model."""
    X, y = make_overlapping()
    rng = np.random.default_rng(0)
    coef, intercept = rng.normal(size=(4, 5)), rng.normal(size=4)
    caps = rng.uniform(size=60)
    expected = 0.5 * np.sum(coef**2) + caps @ ref.hinge(X @ coef.T + intercept, y)
    if scaling:
        expected += 0.5 * np.sum((intercept / scaling) ** 2)
    for form in [np.asarray, sparse.csr_array]:
        value = linear_primal(coef, intercept, form(X), y, caps, scaling)
        assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_slow_voice_of_the_machine_table(seed):
    """Loss and feasibility of the machine's row against the oracle's."""
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=30)
    machine = MACHINES["cs"]
    scores = rng.normal(size=(30, 4))
    np.testing.assert_allclose(machine.loss(scores, y), ref.hinge(scores, y), atol=1e-14)
    caps = rng.uniform(0.1, 1, size=30)
    tau = random_point(y, 4, caps, seed)
    assert machine.violation(tau, y, caps) <= 1e-15
    bad = tau + 0.1 * rng.normal(size=tau.shape)
    assert machine.violation(bad, y, caps) == pytest.approx(ref.infeasibility(bad, y, caps))
