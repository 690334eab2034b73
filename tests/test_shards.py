"""Shards: one dual on many parts of the rows (MATH 20): same optimum, monotone, faults of data."""

import numpy as np
import pytest
import scipy.sparse as sp

from polymargin import MACHINES, MulticlassSVC
from polymargin.problem.kernels import Kernel
from polymargin.problem.problem import Problem
from polymargin.solvers.shards.leader import Rounds, line_search, total
from polymargin.solvers.shards.local import LocalTeam
from polymargin.solvers.shards.shard import Shard, why_not_sharded

N, D, Q, C = 300, 6, 4, 0.05


def data(seed=0, dtype=np.float64):
    random = np.random.default_rng(seed)
    y = random.integers(0, Q, N)
    X = random.normal(size=(Q, D))[y] + random.normal(size=(N, D))
    return X.astype(dtype), y


def problem(name, X, y, rows, weight=None):
    cap = np.full(len(y), C) if weight is None else C * weight
    kernel = Kernel("linear", 1.0, 3.0, 0.0, 1.0, None)
    own = y[rows]
    return Problem(MACHINES[name], kernel, X[rows], own, cap[rows], own, np.arange(Q))


def team(name, X, y, divided, weight=None):
    return LocalTeam(
        [Shard(problem(name, X, y, rows, weight), k) for k, rows in enumerate(divided)]
    )


def thirds():
    return np.array_split(np.random.default_rng(5).permutation(N), 3)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", sorted(MACHINES))
def test_every_machine_reaches_the_optimum_of_one_process(name, sparse):
    X, y = data()
    whole = MulticlassSVC(name, C=C, intercept="penalized", tol=1e-7).fit(X, y).certificate_
    found = Rounds(team(name, sp.csr_matrix(X) if sparse else X, y, thirds()), (Q, D), 1e-4).run()
    assert found.status == "converged"
    assert found.certificate.relative_gap <= 1e-4
    assert found.certificate.dual <= whole.primal * (1 + 1e-9)
    assert found.certificate.primal >= whole.dual * (1 - 1e-9)


DIVISIONS = {
    "one": lambda y: [np.arange(N)],
    "two": lambda y: np.array_split(np.arange(N), 2),
    "sixteen": lambda y: np.array_split(np.arange(N), 16),
    "sorted by label": lambda y: np.array_split(np.argsort(y, kind="stable"), 4),
    "an empty one": lambda y: [np.arange(N), np.arange(0)],
    "very different sizes": lambda y: np.split(np.arange(N), [1, 3, 250]),
}


@pytest.mark.parametrize("name", ["cs", "msvm2"])
@pytest.mark.parametrize("division", DIVISIONS)
def test_the_optimum_does_not_depend_on_the_division(name, division):
    X, y = data(1)
    whole = MulticlassSVC(name, C=C, intercept="penalized", tol=1e-7).fit(X, y).certificate_
    found = Rounds(team(name, X, y, DIVISIONS[division](y)), (Q, D), 1e-3).run()
    assert found.certificate.relative_gap <= 1e-3
    assert found.certificate.primal <= whole.primal * (1 + 2e-3)


@pytest.mark.parametrize("name", ["cs", "ww", "llw", "msvm2"])
def test_a_round_without_momentum_never_lowers_the_dual_value(name):
    X, y = data(2)
    rounds = Rounds(team(name, X, y, thirds()), (Q, D), 1e-9)
    rounds.momentum.beta = lambda: 0.0
    for _ in range(15):
        rounds.round()
    duals = [one.dual for one in rounds.rounds]
    assert (np.diff(duals) >= -1e-9 * duals[-1]).all()


@pytest.mark.parametrize("name", ["cs", "llw", "msvm2"])
def test_the_line_search_is_exact(name):
    """D along the joined change, computed from the variables alone, is largest at theta."""
    X, y = data(3)
    for theta_off in (0.0, -0.05, 0.05):
        one = team(name, X, y, thirds())
        rounds = Rounds(one, (Q, D), 1e-9)
        rounds.round()
        steps = one.advance(rounds.model, 1.0, 5)
        join = line_search(rounds.model, steps)
        half = 0.5 * rounds.model.norm2
        one.settle(min(join.theta + theta_off, 1.0), 0.0)
        rounds.refresh()
        sums = one.sums(rounds.model)
        dual = sum(s.reward - 0.5 * s.ridge for s in sums) - 0.5 * rounds.model.norm2
        before = sum(s.before.reward - 0.5 * s.before.ridge for s in steps) - half
        if theta_off == 0.0:
            best = dual
        else:
            assert dual <= best + 1e-9 * abs(best)
    assert best > before


def test_weights_count_as_copies():
    X, y = data(4)
    weight = np.random.default_rng(0).integers(1, 4, N).astype(float)
    copies = np.repeat(np.arange(N), weight.astype(int))
    weighted = Rounds(team("cs", X, y, thirds(), weight), (Q, D), 1e-4).run()
    whole = MulticlassSVC("cs", C=C, intercept="penalized", tol=1e-6).fit(X[copies], y[copies])
    assert weighted.certificate.primal == pytest.approx(whole.certificate_.primal, rel=2e-4)


def test_a_shard_that_loses_its_variables_starts_again():
    """V_k = 0 and W - W_k is a feasible point: only time is lost."""
    X, y = data(5)
    undisturbed = Rounds(team("ww", X, y, thirds()), (Q, D), 1e-4).run()
    one = team("ww", X, y, thirds())
    rounds = Rounds(one, (Q, D), 1e-4)
    for _ in range(3):
        rounds.round()
    one.shards[1] = Shard(problem("ww", X, y, thirds()[1]), 9)
    found = rounds.run(warm=True)
    assert found.certificate.primal == pytest.approx(undisturbed.certificate.primal, rel=2e-4)


def test_the_same_seed_gives_the_same_bits():
    X, y = data(6)
    first, second = (Rounds(team("cs", X, y, thirds()), (Q, D), 1e-3).run() for _ in range(2))
    assert np.array_equal(first.model.weights, second.model.weights)


def test_the_leader_keeps_the_sum_of_the_shards():
    X, y = data(7)
    one = team("atm", X, y, thirds())
    rounds = Rounds(one, (Q, D), 1e-9)
    for _ in range(5):
        rounds.round()
    assert np.allclose(rounds.model.weights, total(one.prototypes()).weights, atol=1e-9)


def test_a_reason_to_stop_ends_with_a_certificate():
    X, y = data(8)
    reasons = iter([None, None, "max_time"])
    found = Rounds(team("cs", X, y, thirds()), (Q, D), 1e-9, why_stop=lambda: next(reasons)).run()
    assert found.status == "max_time"
    assert len(found.rounds) == 3
    assert np.isfinite(found.certificate.relative_gap)


def test_refusals_name_the_way_out():
    X, y = data(9)
    one = problem("cs", X, y, np.arange(N))
    assert why_not_sharded(one) is None
    hard = Problem(one.machine, one.kernel, X, y, np.full(N, np.inf), y, np.arange(Q))
    assert "finite C" in why_not_sharded(hard)
