"""Passes of the multi-prototype machine on two threads: halves of the classes."""

import numpy as np
import pytest
from scipy import sparse

from polymargin import MultiPrototypeSVC
from polymargin.problem.kernels import Kernel
from polymargin.problem.machines import MACHINES
from polymargin.problem.problem import Problem
from polymargin.solvers.class_halves import ClassHalves
from polymargin.solvers.linear import Sweeps
from polymargin.solvers.run import Run, Stop

N, D, CLASSES, EACH, C = 400, 6, 6, 3, 0.05
LONG = 1.0  # nominal seconds of a pass


def data(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=N)
    return rng.normal(size=(CLASSES, D))[y] + rng.normal(size=(N, D)), y


def sweeps_of(X, y, each=EACH):
    classes = int(y.max()) + 1
    own = y * each + np.random.default_rng(1).integers(each, size=len(y))
    prototype_class = np.repeat(np.arange(classes), each)
    caps = np.full(len(y), C)
    problem = Problem(MACHINES["cs"], Kernel("linear"), X, y, caps, own, prototype_class)
    sweeps = Sweeps(problem, Run(Stop(tol=1e-6), seed=0))
    sweeps.start(sweeps.progress)
    sweeps.check()  # writes the lists
    return sweeps


def halves_of(sweeps, seed=0):
    return ClassHalves(sweeps.problem, sweeps.duals, seed)


def go(sweeps, most=30, budget=1 << 40):
    halves = halves_of(sweeps)
    queue = sweeps.queue[: sweeps.end].copy()
    return halves.passes(sweeps.field, queue, most, 1.4, budget, lambda: None)


def classes_of(sweeps, i):
    active = sweeps.duals.active[i, : sweeps.duals.n_active[i]]
    return {int(c) for c in sweeps.problem.prototype_class[active]}


def test_halves_share_no_class():
    sweeps = sweeps_of(*data())
    patterns = sweeps.queue[: sweeps.end].copy()
    sweeps.duals.n_active[patterns[:100]] = 2  # few variables, as later in a run
    one, other, rest = halves_of(sweeps).divide(patterns)
    assert sorted([*one, *other, *rest]) == sorted(patterns)
    of_one, of_other = (
        set().union(*(classes_of(sweeps, i) for i in part)) for part in (one, other)
    )
    assert of_one
    assert of_other
    assert not of_one & of_other
    for i in rest:
        assert len(classes_of(sweeps, i)) > 1


def test_passes_keep_the_point_feasible_and_raise_the_dual_value():
    sweeps = sweeps_of(*data())
    before = sweeps.check()
    made, steps, visits = go(sweeps)
    assert 0 < made <= 30
    assert visits >= steps > 0
    tau, X = sweeps.duals.tau.copy(), sweeps.problem.X
    np.testing.assert_allclose(sweeps.field.W, tau.T @ X, atol=1e-5)
    assert np.abs(tau.sum(axis=1)).max() <= 1e-12
    own = sweeps.duals.own
    assert tau[np.arange(N), own].max() <= C
    tau[np.arange(N), own] = 0.0
    assert tau.max() <= 0.0
    after = sweeps.check()
    assert after.dual > before.dual
    assert after.relative_gap < 0.2


def test_the_same_bits_wherever_compiled_pieces_end():
    found = []
    for budget in (7, 1 << 40, 1 << 40):
        sweeps = sweeps_of(*data())
        go(sweeps, budget=budget)
        found.append(sweeps.duals.tau.tobytes())
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("X", "each", "seconds", "reason"),
    [
        (None, EACH, LONG, None),
        (None, EACH, 1e-4, "short"),
        ("sparse", EACH, LONG, "sparse rows"),
        ("two classes", EACH, LONG, "classes"),
    ],
)
def test_why_passes_stay_on_one_thread(X, each, seconds, reason):
    rows, y = data()
    if X == "sparse":
        rows = sparse.csr_array(rows)
    if X == "two classes":
        y = y % 2
    sweeps = sweeps_of(rows, y, each)
    found = halves_of(sweeps).why_not(sweeps.field, seconds)
    assert found is None if reason is None else reason in found


def test_fits_on_two_threads_repeat_and_find_as_low_an_energy():
    rng = np.random.default_rng(2)
    y = rng.integers(5, size=6000)
    X = 0.4 * rng.normal(size=(5, 300))[y] + rng.normal(size=(6000, 300))

    def fit(n_jobs):
        model = MultiPrototypeSVC(
            2, C=0.01, tol=0.01, annealing="default", n_jobs=n_jobs, random_state=0
        )
        return model.fit(X, y)

    one, two, again = fit(None), fit(2), fit(2)
    assert two.status_ == "converged"
    assert two.prototypes_.tobytes() == again.prototypes_.tobytes()
    assert two.prototypes_.tobytes() != one.prototypes_.tobytes()  # passes were shared
    assert two.energy_ <= 1.02 * one.energy_
