"""Kernel rows that do not all fit: what is fetched, what is kept, and the same optimum."""

import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping

from polymargin import MulticlassSVC
from polymargin.problem.kernels import Kernel
from polymargin.problem.machines import MACHINES
from polymargin.problem.problem import OutOfTimeError, Problem
from polymargin.solvers.kernel_rows import KernelRows

GAMMA = 0.2


def make_rows(capacity, n=40, why_stop=None):
    X, y = make_overlapping(n, 4, 3)
    task = Problem(MACHINES["cs"], Kernel("rbf", GAMMA), X, y, np.ones(n), y, np.arange(3))
    rows = KernelRows(task, np.float64, (capacity + 0.1) * n * 8e-6, why_stop)
    rows.open(np.arange(n))
    return rows, ref.rbf(X, X, GAMMA)


def test_hold():
    """All rows asked for are there, those at hand do not leave for the others."""
    rows, K = make_rows(10)
    assert rows.capacity == 10
    for start in (0, 5, 3, 20):
        wanted = np.arange(start, start + 10)
        before = rows.slot[wanted] >= 0
        rows.hold(wanted)
        assert (rows.slot[wanted] >= 0).all()
        np.testing.assert_allclose(rows.rows[rows.slot[wanted]], K[wanted], atol=1e-12)
        assert rows.misses >= (~before).sum()
    assert rows.misses == 10 + 5 + 2 + 10


def test_hold_ends_in_time():
    rows, _ = make_rows(10, why_stop=lambda: "max_time")
    with pytest.raises(OutOfTimeError):
        rows.hold(np.arange(10))
    rows.fetch(np.arange(3))
    assert (rows.slot[:3] >= 0).all()


@pytest.mark.parametrize("cache_mb", [0.0003, 0.005, 0.03])
@pytest.mark.parametrize("tol", [1e-3, 1e-7])
def test_same_optimum(cache_mb, tol):
    X, y = make_overlapping(80, 5, 4)
    best = ref.optimum(ref.rbf(X, X, GAMMA), y, 4, 2.0)
    model = MulticlassSVC(
        kernel="rbf", gamma=GAMMA, C=2.0, tol=tol, cache_mb=cache_mb, random_state=0
    ).fit(X, y)
    assert model.status_ == "converged"
    assert model.certificate_.primal <= best.primal * (1 + 1.01 * tol)
    assert model.certificate_.dual <= best.primal * (1 + 1e-9)


def test_rows_are_used_several_times():
    """Fewer rows than steps, though there is room for few of them."""
    X, y = make_overlapping(400, 5, 4)
    asked = []

    def kernel(a, b):
        asked.append(len(a) * len(b) / len(X))
        return ref.rbf(a, b, GAMMA)

    model = MulticlassSVC(kernel=kernel, C=2.0, tol=1e-3, cache_mb=0.05, random_state=0).fit(X, y)
    assert model.status_ == "converged"
    assert 2 * sum(asked) < model.history_["steps"][-1]
