"""The interior point alone, on every row of the table: the judge certifies the end of its path."""

import numpy as np
import pytest

from polymargin import MACHINES
from polymargin.certificate.judge import judge
from polymargin.problem.kernels import Kernel
from polymargin.problem.problem import Problem
from polymargin.solvers.interior_point import CentralPath, features, follow
from polymargin.solvers.interior_switch import InteriorPointSwitch

N, D, Q = 60, 4, 3
TOL = 1e-8


def make_problem(name, kernel="linear", free=False, C=0.5, spread=1.0, counts=None):
    random = np.random.default_rng(7)
    y = np.arange(N) % Q
    X = spread * random.normal(size=(Q, D))[y] + random.normal(size=(N, D))
    own, classes = y, np.arange(Q)
    if counts is not None:
        classes = np.repeat(np.arange(Q), counts)
        first = np.searchsorted(classes, np.arange(Q))
        own = first[y] + random.integers(0, 1_000, N) % np.asarray(counts)[y]
    offset = 0.0 if free else 1.0
    return Problem(
        MACHINES[name],
        Kernel(kernel, 0.3, 3.0, 0.0, offset if kernel == "linear" else 0.0, None),
        X,
        y,
        np.full(N, C),
        own,
        classes,
        has_free_bias=free,
    )


def best_gap(problem, cap=None):
    path = CentralPath(problem, features(problem), problem.cap if cap is None else cap, 1.0)
    points, iterations = follow(path, 0.01 * TOL, lambda: None)
    assert iterations < 60
    return min(judge(problem, point).certificate.relative_gap for point in points)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("name", sorted(MACHINES))
def test_every_machine(name, kernel):
    assert best_gap(make_problem(name, kernel)) <= TOL


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("name", [n for n in MACHINES if "free" in MACHINES[n].intercepts])
def test_free_intercept(name, kernel):
    assert best_gap(make_problem(name, kernel, free=True)) <= TOL


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_hard_margin(name):
    assert best_gap(make_problem(name, C=np.inf, spread=20.0)) <= TOL


@pytest.mark.parametrize("C", [1e-6, 1e-2, 1e4])
@pytest.mark.parametrize("name", ["cs", "ww", "llw", "msvm2"])
def test_extreme_costs(name, C):
    assert best_gap(make_problem(name, C=C, spread=1.5)) <= 1e-6


def test_several_prototypes_of_a_class():
    assert best_gap(make_problem("cs", counts=[2, 1, 3])) <= TOL


def test_a_prototype_without_examples():
    """An assignment may leave a prototype empty; the path goes on all the same."""
    problem = make_problem("cs", counts=[2, 1, 3])
    own = np.where(problem.own == 4, 3, problem.own)
    assert best_gap(problem.changed(own=own)) <= TOL


@pytest.mark.parametrize("name", ["cs", "ww", "llw"])
@pytest.mark.parametrize("free", [False, True])
def test_a_path_from_a_near_point_is_shorter(name, free):
    """It begins beside a point with a gap of 2 %, and ends where the path from the middle ends."""
    problem = make_problem(name, free=free, C=300.0)
    X = features(problem)
    path = CentralPath(problem, X, problem.cap, 1.0)
    while not path.is_within(0.02):
        assert path.advance()
    near = path.point(path.alpha)
    lengths = []
    for start in (None, near):
        path = CentralPath(problem, X, problem.cap, 1.0, start)
        points, iterations = follow(path, 0.01 * TOL, lambda: None)
        assert min(judge(problem, point).certificate.relative_gap for point in points) <= TOL
        lengths.append(iterations)
    assert lengths[1] < lengths[0]


def test_caps_that_the_solution_does_not_reach():
    """Where C is huge, the path between smaller caps ends at the solution of the problem."""
    problem = make_problem("cs", C=1e9, spread=20.0)
    assert best_gap(problem, np.full(N, 10.0)) <= TOL


def test_a_failing_decomposition_means_no_point(monkeypatch):
    problem = make_problem("cs", "rbf")

    def fails(*arguments, **keywords):
        raise np.linalg.LinAlgError

    class Progress:
        class stop:  # noqa: N801
            tol = TOL

    monkeypatch.setattr(np.linalg, "eigh", fails)
    assert InteriorPointSwitch(problem, Progress).point(0.0, 1.0) is None
