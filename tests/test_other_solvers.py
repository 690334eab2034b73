"""Frank-Wolfe and cycles: the optimum of a QP solver; their linear programmes against HiGHS."""

import warnings

import numpy as np
import pytest
from conftest import make_overlapping, make_separable
from machine_reference import solve
from reference import rbf
from scipy.optimize import linprog, minimize
from sklearn.exceptions import ConvergenceWarning

from polymargin import MulticlassSVC
from polymargin.certificate.intercepts import (
    best_bias,
    column_bias,
    column_flow,
    flow_bias,
    quadratic_bias,
)
from polymargin.compiled.circulation import cheapest_circulation
from polymargin.problem.machines import MACHINES, quadratic_slacks
from polymargin.solvers.cycles import least_mean_cycle

SEEDS = range(25)


def problem(seed):
    rng = np.random.default_rng(seed)
    Q = int(rng.integers(2, 6))
    own = np.concatenate([np.arange(Q), rng.integers(Q, size=rng.integers(4, 25))])
    g = rng.normal(size=(len(own), Q)) - 0.3
    if seed % 3 == 0:
        g = np.round(4 * g) / 4  # ties
    cap = np.full(len(own), 1.5) if seed % 2 else rng.uniform(0.2, 2.0, len(own))
    return g, own, cap, Q


def cells(own, Q):
    return [(i, k) for i in range(len(own)) for k in range(Q) if k != own[i]]


def highs(g, own, cap, Q, rows):
    """min g.gamma over the box with balanced columns; ``rows[k]`` is the coefficient of k."""
    at = cells(own, Q)
    A = np.zeros((Q, len(at)))
    for j, (i, k) in enumerate(at):
        rows(A, j, i, k)
    found = linprog(
        [g[i, k] for i, k in at],
        A_eq=A[:-1],
        b_eq=np.zeros(Q - 1),
        bounds=[(0, cap[i]) for i, _ in at],
        method="highs",
    )
    return found.fun


@pytest.mark.parametrize("seed", SEEDS)
def test_circulation_against_highs(seed):
    g, own, cap, Q = problem(seed)

    def rows(A, j, i, k):
        A[own[i], j] += 1
        A[k, j] -= 1

    value = highs(g, own, cap, Q, rows)
    start = np.random.default_rng(seed).normal(size=Q) if seed % 4 == 0 else None
    found = cheapest_circulation(g, own, cap, start)
    assert (found.flow * g).sum() == pytest.approx(value, abs=1e-9)
    flow = np.zeros((Q, Q))
    np.add.at(flow, own, found.flow)
    np.testing.assert_allclose(flow.sum(axis=0), flow.sum(axis=1), atol=1e-9)

    def primal(b):
        rho = g + b[own][:, None] - b
        rho[np.arange(len(own)), own] = 0.0
        return (cap[:, None] * np.maximum(-rho, 0.0)).sum()

    assert primal(found.bias) == pytest.approx(-value, abs=1e-9)
    least = flow_bias(g, own, cap).b
    assert primal(least) == pytest.approx(-value, abs=1e-8)
    assert np.linalg.norm(least) <= np.linalg.norm(found.bias) + 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_against_highs(seed):
    g, own, cap, Q = problem(seed)

    def rows(A, j, i, k):
        A[:, j] -= 1.0 / Q
        A[k, j] += 1.0

    value = highs(g, own, cap, Q, rows)
    flow = column_flow(np.where(np.eye(Q, dtype=bool)[own], np.inf, g), own, cap)
    at = np.array(cells(own, Q)).T
    assert (flow[at[0], at[1]] * g[at[0], at[1]]).sum() == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(flow.sum(axis=0), flow.sum(axis=0).mean(), atol=1e-9)
    b = column_bias(np.where(np.eye(Q, dtype=bool)[own], np.inf, g), own, cap).b
    rho = np.where(np.eye(Q, dtype=bool)[own], 0.0, g - b)
    assert (cap[:, None] * np.maximum(-rho, 0.0)).sum() == pytest.approx(-value, abs=1e-8)
    assert abs(b.sum()) < 1e-12


@pytest.mark.parametrize("seed", range(8))
def test_quadratic_bias(seed):
    """A28 by its optimality conditions, A29 against BFGS."""
    g, own, cap, Q = problem(seed)
    slack, total = quadratic_slacks(-g, own)
    np.testing.assert_allclose(slack.sum(axis=1), total, atol=1e-12)

    def value(z):
        xi, t = quadratic_slacks(-g + np.r_[z, -z.sum()], own)
        return (cap * ((xi**2).sum(axis=1) + t**2)).sum()

    b = quadratic_bias(-g, own, cap).b
    best = minimize(value, np.zeros(Q - 1), method="BFGS", options={"gtol": 1e-9}).fun
    assert value(b[:-1]) <= best * (1 + 1e-10) + 1e-12


def test_least_mean_cycle():
    cost = np.full((4, 4), 5.0)
    cost[0, 1] = cost[1, 2] = cost[2, 0] = -1.0
    cost[3, 0], cost[0, 3] = -3.0, 2.5
    mean, nodes = least_mean_cycle(cost)
    assert mean == pytest.approx(-1.0)
    assert sorted(nodes) == [0, 1, 2]


@pytest.mark.parametrize("machine", ["ww", "llw"])
@pytest.mark.parametrize("seed", range(5))
def test_frank_wolfe_gap_is_the_duality_gap(machine, seed):
    """T11: (4.10) at any point, the intercept being the best one."""
    g, own, cap, _ = problem(seed)
    row = MACHINES[machine]
    scores = g - g.mean(axis=1, keepdims=True)
    b = best_bias(row, scores, own, cap).b
    cost = -row.deficits(scores, own)
    vertex = cheapest_circulation(np.where(np.isfinite(cost), cost, 0.0), own, cap).flow
    if machine == "llw":
        vertex = column_flow(cost, own, cap)
    value = -(vertex * np.where(np.isfinite(cost), cost, 0.0)).sum()
    assert cap @ row.loss(scores + b, own) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("machine", ["ww", "llw", "msvm2"])
@pytest.mark.parametrize("solver", ["frank-wolfe", "cycles"])
def test_same_optimum(solver, machine, kernel):
    X, y = make_overlapping(30, 3, 3)
    K = X @ X.T if kernel == "linear" else rbf(X, X, 0.3)
    best = solve(machine, K, y, 3, 0.5, True)
    tol = 3e-2 if solver == "frank-wolfe" else 1e-7
    model = MulticlassSVC(
        machine=machine, solver=solver, kernel=kernel, gamma=0.3, C=0.5, tol=tol, max_iter=3000
    ).fit(X, y)
    assert model.status_ == "converged"
    assert (model.history_["dual"] <= best.value * (1 + 1e-8)).all()
    assert (model.history_["primal"] >= best.value * (1 - 1e-8)).all()
    assert model.certificate_.primal <= best.value * (1 + 1.1 * tol)
    assert len(model.history_["primal"]) == model.n_iter_ + 1


@pytest.mark.parametrize("machine", ["ww", "llw", "msvm2"])
@pytest.mark.parametrize("solver", ["frank-wolfe", "cycles"])
def test_without_a_kernel_matrix(solver, machine):
    """A18, A27: columns of the kernel on demand where the matrix does not fit."""
    X, y = make_overlapping(60, 3, 3)
    best = solve(machine, rbf(X, X, 0.3), y, 3, 0.5, True)
    model = MulticlassSVC(
        machine=machine, solver=solver, kernel="rbf", gamma=0.3, C=0.5, tol=3e-2, cache_mb=0.01
    ).fit(X, y)
    assert model.status_ == "converged"
    assert (model.history_["dual"] <= best.value * (1 + 1e-8)).all()
    assert model.certificate_.primal <= best.value * 1.04


@pytest.mark.parametrize("machine", ["ww", "llw", "msvm2"])
def test_small_working_sets(machine):
    """A working set of a fifth of the examples still reaches the optimum: its cycle rule works."""
    from polymargin.problem.kernels import Kernel
    from polymargin.problem.problem import Problem
    from polymargin.solvers.decomposition import Decomposed
    from polymargin.solvers.driver import drive
    from polymargin.solvers.run import Run, Stop

    X, y = make_overlapping(60, 3, 3)
    best = solve(machine, rbf(X, X, 0.3), y, 3, 0.5, True)
    cap, facts = np.full(60, 0.5), {"kernel_psd": True, "has_free_bias": True}
    task = Problem(MACHINES[machine], Kernel("rbf", 0.3), X, y, cap, y, np.arange(3), **facts)
    run = Run(Stop(5e-2, 2000))
    found = drive(Decomposed(task, run, size=12), run)
    assert found.status == "converged"
    assert found.judgement.certificate.primal <= best.value * 1.06
    assert found.judgement.certificate.dual <= best.value * (1 + 1e-8)


@pytest.mark.parametrize("machine", ["ww", "llw"])
def test_cycles_of_the_hard_margin(machine):
    X, y = make_separable(30, 5, 3)
    K = rbf(X, X, 0.5)
    best = solve(machine, K, y, 3, np.inf, True)
    model = MulticlassSVC(
        machine=machine, solver="cycles", kernel="rbf", gamma=0.5, C=np.inf, tol=1e-5
    ).fit(X, y)
    assert model.status_ == "converged"
    assert model.certificate_.primal == pytest.approx(best.value, rel=2e-5)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"machine": "cs", "intercept": "free"}, "other constraints"),
        ({"machine": "ww", "intercept": "none"}, "free intercept"),
        ({"machine": "ww", "C": np.inf}, "finite C"),
    ],
)
def test_refusals(parameters, words, overlapping):
    with pytest.raises(ValueError, match=words):
        MulticlassSVC(solver="frank-wolfe", **parameters).fit(*overlapping)


def test_unfinished_says_so(overlapping):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConvergenceWarning, match="max_iter"):
            MulticlassSVC(machine="ww", solver="frank-wolfe", max_iter=3).fit(*overlapping)
