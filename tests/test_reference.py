"""The oracle itself: against the worked miniature, against itself, against brute force."""

import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping, make_separable

RNG_SEEDS = range(8)


def random_feasible(n, n_classes, y, cap, rng):
    tau = -rng.exponential(size=(n, n_classes)) * rng.integers(2, size=(n, n_classes))
    return ref.make_feasible(0.3 * tau, y, np.full(n, cap))


@pytest.mark.parametrize(
    ("kernel", "value", "last_row"),
    [
        (lambda X: X @ X.T, 65 / 54, [1 / 9, 1 / 9, -2 / 9]),
        (lambda X: ref.rbf(X, X, 0.5), 1.8020584577, [2 / 3, -1 / 3, -1 / 3]),
    ],
    ids=["linear", "rbf"],
)
@pytest.mark.parametrize("solver", ["dual", "primal", "descent"])
def test_worked_miniature(miniature, kernel, value, last_row, solver):
    X, y = miniature
    K, caps = kernel(X), np.ones(7)
    if solver == "primal":
        scores, primal = ref.solve_primal_qp(K, y, 3, caps)
        dual = primal
    elif solver == "dual":
        _, scores, primal, dual = ref.optimum(K, y, 3, caps)
    else:
        _, scores, primal, dual = ref.block_descent(K, y, 3, caps, tol=1e-11)
    np.testing.assert_allclose([primal, dual], value, atol=2e-10)
    np.testing.assert_allclose(scores[6], last_row, atol=1e-5)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_primal_and_dual_qp_agree(kernel, hard):
    X, y = make_separable(n=24, d=4)
    K = ref.linear(X, X) if kernel == "linear" else ref.rbf(X, X, 0.3)
    rng = np.random.default_rng(0)
    caps = np.full(24, np.inf) if hard else rng.uniform(0.2, 2, size=24)
    best = ref.optimum(K, y, 3, caps)
    scores, value = ref.solve_primal_qp(K, y, 3, caps)
    assert ref.infeasibility(best.tau, y, caps) < 1e-12
    assert 0 <= best.primal - best.dual < 1e-8 * best.primal
    assert value == pytest.approx(best.primal, rel=1e-8)
    np.testing.assert_allclose(best.scores, scores, atol=1e-4)


def test_not_separable_is_noticed():
    X = np.array([[1.0, 0], [1, 0], [0, 1]])
    assert ref.optimum(X @ X.T, np.array([0, 1, 2]), 3, np.inf) is None
    assert ref.solve_primal_qp(X @ X.T, np.array([0, 1, 2]), 3, np.full(3, np.inf))[0] is None


def test_weighted_value_is_the_sum_of_its_parts():
    X, y = make_overlapping(n=10)
    rng = np.random.default_rng(3)
    tau = random_feasible(10, 4, y, 1.0, rng)
    caps = rng.uniform(0.5, 2, size=10)
    W = tau.T @ X
    loss = ref.hinge(X @ W.T, y)
    expected = 0.5 * np.sum(W**2) + np.sum(caps * loss)
    assert ref.primal_value(tau, X @ X.T, y, caps) == pytest.approx(expected, rel=1e-12)
    slack = np.maximum(0, 1 - ref.margins(X @ W.T, y))
    np.testing.assert_allclose(loss, slack, atol=1e-12)


@pytest.mark.parametrize("seed", RNG_SEEDS)
def test_gap_is_the_sum_of_pattern_gaps(seed):
    """(1.10) at any feasible point; T10."""
    X, y = make_overlapping(n=15, seed=seed)
    rng = np.random.default_rng(seed)
    K = ref.rbf(X, X, 0.2)
    caps = rng.uniform(1.0, 3.0, size=15)
    tau = random_feasible(15, 4, y, 1.0, rng)
    assert ref.infeasibility(tau, y, caps) < 1e-15
    gaps = ref.pattern_gaps(tau, K, y, caps)
    difference = ref.primal_value(tau, K, y, caps) - ref.dual_value(tau, K, y, caps)
    assert gaps.min() >= 0
    assert gaps.sum() == pytest.approx(difference, rel=1e-12)
    best = ref.optimum(K, y, 4, caps)
    assert ref.dual_value(tau, K, y, caps) <= best.primal
    assert ref.primal_value(tau, K, y, caps) >= best.dual


def test_infeasibility_sees_every_violation():
    y, caps = np.array([0, 1]), np.array([1.0, 2.0])
    good = np.array([[1.0, -1.0, 0.0], [-2.0, 2.0, 0.0]])
    assert ref.infeasibility(good, y, caps) == 0
    for i, r, change in [(0, 2, 0.1), (0, 0, 0.1), (1, 0, -0.1), (1, 1, 0.1)]:
        bad = good.copy()
        bad[i, r] += change
        assert ref.infeasibility(bad, y, caps) > 0.05
    flipped = np.array([[-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert ref.infeasibility(flipped, y, caps) == 1


@pytest.mark.parametrize("seed", RNG_SEEDS)
def test_pattern_steps_agree(seed):
    """T12: A7 against the QP, A4, A5 and A6 against A7."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 8))
    A, cap, own = rng.uniform(0.2, 4), rng.uniform(0.1, 3), int(rng.integers(k))
    B = rng.normal(size=k) * 2
    exact = ref.pattern_step(A, B, own, cap)
    np.testing.assert_allclose(ref.pattern_step_qp(A, B, own, cap), exact, atol=1e-8)
    np.testing.assert_allclose(ref.pattern_step_fixed_point(A, B, own, cap), exact, atol=1e-11)
    np.testing.assert_allclose(ref.pattern_step_all_pairs(A, B, own, cap), exact, atol=1e-6)
    np.testing.assert_allclose(ref.pattern_step_three_candidates(A, B, own, cap), exact, atol=1e-6)


@pytest.mark.parametrize("seed", RNG_SEEDS)
def test_hard_pattern_step(seed):
    """19.2 against the QP, and as the limit of A7 for a large cap."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 8))
    A, own = rng.uniform(0.2, 4), int(rng.integers(k))
    B = rng.normal(size=k) * 2
    exact = ref.hard_pattern_step(A, B, own)
    np.testing.assert_allclose(ref.pattern_step_qp(A, B, own, np.inf), exact, atol=1e-8)
    np.testing.assert_allclose(ref.pattern_step(A, B, own, 1e4), exact, atol=1e-9)


@pytest.mark.parametrize("seed", RNG_SEEDS)
def test_gain_formula(seed):
    """(3.1) against the difference of 2D."""
    rng = np.random.default_rng(seed)
    X, y = make_overlapping(n=8, seed=seed)
    K, cap, p = X @ X.T, 1.0, int(rng.integers(8))
    tau = random_feasible(8, 4, y, cap, rng)
    caps = np.full(8, cap)
    for ra, rb in ref.canonical_pairs(y[p], 4):
        alpha, f = np.abs(tau[p]), K[p] @ tau
        v = ref.basic_step(alpha, f, y[p], ra, rb, K[p, p], cap)
        gain = ref.basic_gain(f, y[p], ra, rb, v, K[p, p])
        ref.basic_update(alpha, f, y[p], ra, rb, v, K[p, p])
        moved = tau.copy()
        moved[p] = ref._signed(alpha, y[p])
        assert ref.infeasibility(moved, y, caps) < 1e-14
        change = 2 * (ref.dual_value(moved, K, y, caps) - ref.dual_value(tau, K, y, caps))
        assert gain == pytest.approx(change, abs=1e-12)
        assert gain >= 0
        np.testing.assert_allclose(f, K[p] @ moved, atol=1e-12)


def test_zero_diagonal_pattern_step():
    """A7, last line: all of the cap on the worst class, or nothing."""
    np.testing.assert_array_equal(
        ref.pattern_step(0.0, np.array([0.2, -1.0, 0.7]), 1, 2.0), [0.0, 2.0, -2.0]
    )
    np.testing.assert_array_equal(
        ref.pattern_step(0.0, np.array([-2.0, -1.0, -3.0]), 1, 2.0), np.zeros(3)
    )
