"""The compiled pattern step against the slow ones of the oracle (T12, 19.2)."""

import numpy as np
import pytest
import reference as ref
from conftest import from_python
from hypothesis import given, settings
from hypothesis import strategies as st

from polymargin.compiled.pattern_step import crammer_singer_step

step = from_python(crammer_singer_step)

SEEDS = range(40)


def fast_step(A, B, own, cap, tau=None, order=None):
    """The compiled step from any feasible tau, variables listed in any order, own class first."""
    k = len(B)
    tau = np.zeros(k) if tau is None else tau
    order = np.array([own, *np.delete(np.arange(k), own)]) if order is None else order
    F = (B + A * tau)[order]
    scratch, new = np.empty(k), np.empty(k)
    own_at = int(np.flatnonzero(order == own)[0])
    step(F, tau[order], k, own_at, cap, A, scratch, new)
    result = np.empty(k)
    result[order] = new
    return result


def random_pattern(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 12))
    B = rng.normal(size=k) * 10.0 ** rng.integers(-2, 3)
    if seed % 4 == 0:
        B = np.round(B)  # ties
    A, cap = rng.uniform(0.1, 5), rng.uniform(0.05, 4)
    own = int(rng.integers(k))
    start = ref.make_feasible(-rng.exponential(size=(1, k)), np.array([own]), np.array([cap]))[0]
    return A, B, own, cap, start


@pytest.mark.parametrize("seed", SEEDS)
def test_soft_step(seed):
    A, B, own, cap, start = random_pattern(seed)
    exact = ref.pattern_step(A, B, own, cap)
    scale = max(1.0, np.abs(B).max())
    for tau in [None, start]:
        new = fast_step(A, B, own, cap, tau)
        np.testing.assert_allclose(new, exact, atol=1e-12 * scale)
        assert ref.infeasibility(new[None], np.array([own]), np.array([cap])) <= 1e-13 * scale
    np.testing.assert_allclose(exact, ref.pattern_step_qp(A, B, own, cap), atol=1e-6 * scale)


@pytest.mark.parametrize("seed", SEEDS)
def test_hard_step(seed):
    A, B, own, _, start = random_pattern(seed)
    exact = ref.hard_pattern_step(A, B, own)
    scale = max(1.0, np.abs(B).max())
    for tau in [None, start]:
        new = fast_step(A, B, own, np.inf, tau)
        np.testing.assert_allclose(new, exact, atol=1e-12 * scale / A)


@pytest.mark.parametrize("seed", SEEDS)
def test_step_with_the_own_variable_held_at_its_cap(seed):
    """Without the own class in the list the others keep their sum: a projection (3.4)."""
    A, B, own, _, start = random_pattern(seed)
    if len(B) < 3 or start[own] == 0:
        return
    others = np.delete(np.arange(len(B)), own)
    tau, k = start[others], len(others)
    F = B[others] + A * tau
    scratch, new = np.empty(k), np.empty(k)
    step(F, tau.copy(), k, -1, np.inf, A, scratch, new)
    expected = -ref.project_simplex(B[others] / A, start[own])
    scale = max(1.0, np.abs(B).max())
    np.testing.assert_allclose(new, expected, atol=1e-12 * scale / A)
    assert new.sum() == pytest.approx(tau.sum(), abs=1e-12 * scale / A)


@pytest.mark.parametrize("seed", SEEDS)
def test_zero_diagonal(seed):
    """A = 0: everything on the worst class, or nothing; never a division."""
    _, B, own, cap, start = random_pattern(seed)
    new = fast_step(0.0, B, own, cap, start)
    np.testing.assert_allclose(new, ref.pattern_step(0.0, B, own, cap))


def test_list_order_does_not_matter():
    A, B, own, cap, start = random_pattern(3)
    a = fast_step(A, B, own, cap, start)
    rest = np.random.default_rng(0).permutation(np.delete(np.arange(len(B)), own))
    b = fast_step(A, B, own, cap, start, order=np.array([own, *rest]))
    np.testing.assert_allclose(a, b, atol=1e-13)


def test_second_step_changes_nothing():
    for seed in SEEDS:
        A, B, own, cap, start = random_pattern(seed)
        once = fast_step(A, B, own, cap, start)
        twice = fast_step(A, B, own, cap, once)
        np.testing.assert_allclose(once, twice, atol=1e-12 * max(1, np.abs(B).max()))


@settings(max_examples=200)
@given(
    st.lists(st.floats(-1e8, 1e8), min_size=2, max_size=8),
    st.floats(1e-8, 1e8),
    st.sampled_from([1e-8, 1.0, 1e8, np.inf]),
)
def test_any_numbers(B, A, cap):
    """Feasible and no worse than the oracle, however badly scaled the numbers are."""
    B = np.array(B)
    new = fast_step(A, B, 0, cap)
    exact = ref.pattern_step(A, B, 0, cap)
    size = np.abs(exact).max()
    assert np.isfinite(new).all()
    room = 1e-9 * (size + np.abs(B).max() / A * 1e-3)
    assert ref.infeasibility(new[None], np.array([0]), np.array([cap])) <= room
    value, best = ref.pattern_objective(new, A, B), ref.pattern_objective(exact, A, B)
    rounding = 1e-14 * np.abs(B).max() ** 2 / A  # of (theta - B_r) / A
    assert value <= best + rounding + 1e-9 * (abs(best) + np.abs(B * exact).sum())
