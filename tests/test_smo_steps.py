"""Pattern optimisers of the SMO-like family against slow NumPy and against the exact step."""

import numpy as np
import pytest
import reference as ref
from conftest import from_python
from hypothesis import given, settings
from hypothesis import strategies as st

from polymargin.compiled.pattern_descent import make_duals
from polymargin.compiled.smo_selection import AMG, BMG, KKT, NOTHING, survey
from polymargin.compiled.smo_steps import CODES, best_pair, optimise_pattern
from polymargin.compiled.totals import GAP, LOSS, MARGIN, NORM, OWN, empty_totals
from polymargin.problem.kernels import Kernel
from polymargin.problem.machines import MACHINES
from polymargin.problem.problem import Problem

SEEDS = range(30)
WHOLE = ["all-pairs", "opt-kkt", "fixed-point", "exact"]  # solve the pattern fully


def random_block(seed, hard=False):
    """Scores and variables, the own prototype first, of a pattern anywhere in its simplex."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 9))
    A, cap = rng.uniform(0.2, 4.0), rng.uniform(0.1, 3.0)
    alpha = np.where(rng.uniform(size=k) < 0.5, 0.0, rng.exponential(size=k))
    alpha[0] = 0.0
    if alpha.sum() > 0.0:
        alpha *= cap * rng.choice([0.4, 1.0]) / alpha.sum()
    alpha[0] = min(alpha.sum(), cap)
    f = rng.normal(size=k)
    if seed % 5 == 0:
        f = np.round(f)
    return f, alpha, (np.inf if hard else cap), A


def tau_of(alpha):
    tau = -alpha
    tau[0] = alpha[0]
    return tau


def optimise(name, f, alpha, cap, A, phi):
    """The compiled optimiser on copies: new alpha, gain in D."""
    f, alpha = f.copy(), alpha.copy()
    gain = optimise_pattern(CODES[name], f, alpha, len(f), cap, A, phi, np.empty((4, 128)))
    return alpha, gain


def exact(f, alpha, cap, A):
    """A7 by the reference, as alpha."""
    B = f - A * tau_of(alpha)
    B[0] -= 1.0
    tau = ref.pattern_step(A, B, 0, cap)
    return tau_of(tau)


def block_gain(f, alpha, new, A):
    """Gain in D of a change of one pattern: -F.dtau - 1/2 A ||dtau||^2."""
    F = f.copy()
    F[0] -= 1.0
    change = tau_of(new) - tau_of(alpha)
    return -F @ change - 0.5 * A * change @ change


def pairs_by_hand(f, alpha, cap, A):
    """Gain in 2D of every canonical pair with its clipped step."""
    found = []
    for a, b in ref.canonical_pairs(0, len(f)):
        v = ref.basic_step(alpha, f, 0, a, b, A, cap)
        found.append((ref.basic_gain(f, 0, a, b, v, A), a, b, v))
    return found


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", WHOLE)
def test_whole_optimisers_reach_the_exact_step(name, seed):
    f, alpha, cap, A = random_block(seed)
    new, gain = optimise(name, f, alpha, cap, A, 1e-18)
    best = exact(f, alpha, cap, A)
    np.testing.assert_allclose(new, best, atol=1e-7)
    assert gain == pytest.approx(block_gain(f, alpha, best, A), abs=1e-9)
    assert (new >= 0).all()
    assert new[0] <= cap
    assert new[0] == pytest.approx(new[1:].sum(), rel=1e-14)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["all-pairs", "opt-kkt", "exact"])
def test_hard_margin(name, seed):
    f, alpha, cap, A = random_block(seed, hard=True)
    new, _ = optimise(name, f, alpha, cap, A, 1e-18)
    np.testing.assert_allclose(new, exact(f, alpha, cap, A), atol=1e-7)


@pytest.mark.parametrize("seed", SEEDS)
def test_basic_takes_the_best_pair(seed):
    f, alpha, cap, A = random_block(seed)
    V, a, b, v = max(pairs_by_hand(f, alpha, cap, A), key=lambda pair: pair[0])
    found, _, _ = from_python(best_pair)(f, alpha, len(f), cap, A)
    assert found == pytest.approx(V, abs=1e-14)
    new, gain = optimise("basic", f, alpha, cap, A, 1e-6)
    expected, scores = alpha.copy(), f.copy()
    if V > 1e-14:
        ref.basic_update(expected, scores, 0, a, b, v, A)
        np.testing.assert_allclose(new, expected, atol=1e-13)
    assert gain == pytest.approx(V / 2, abs=1e-14)
    assert gain == pytest.approx(block_gain(f, alpha, new, A), abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_sweep_of_all_pairs(seed):
    f, alpha, cap, A = random_block(seed)
    new, gain = optimise("all-pairs", f, alpha, cap, A, np.inf)
    expected, scores, total = alpha.copy(), f.copy(), 0.0
    for a, b in ref.canonical_pairs(0, len(f)):
        v = ref.basic_step(expected, scores, 0, a, b, A, cap)
        total += ref.basic_gain(scores, 0, a, b, v, A)
        ref.basic_update(expected, scores, 0, a, b, v, A)
    np.testing.assert_allclose(new, expected, atol=1e-13)
    assert gain == pytest.approx(total / 2, abs=1e-14)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_pair_of_opt_kkt(seed):
    """The three candidates with the right sign of the third gain (MP-4)."""
    f, alpha, cap, A = random_block(seed)
    rivals = np.arange(1, len(f))
    r1 = rivals[f[rivals].argmax()]
    candidates = [(0, r1)]
    weighted = rivals[alpha[rivals] > 0]
    if len(weighted):
        r2, r3 = weighted[f[weighted].argmax()], weighted[f[weighted].argmin()]
        candidates += [(0, r2)] + ([(r1, r3)] if r1 != r3 else [])
    gains = []
    for a, b in candidates:
        v = ref.basic_step(alpha, f, 0, a, b, A, cap)
        gains.append(ref.basic_gain(f, 0, a, b, v, A))
    new, gain = optimise("opt-kkt", f, alpha, cap, A, np.inf)
    assert gain == pytest.approx(max(gains) / 2, abs=1e-14)
    assert block_gain(f, alpha, new, A) == pytest.approx(gain, abs=1e-12)


def test_third_move_is_made():
    """Weight on the wrong rival and the sum at its cap: only two rivals can exchange (MP-4)."""
    f, alpha = np.array([0.0, 2.0, 0.0]), np.array([1.0, 0.0, 1.0])
    new, _ = optimise("opt-kkt", f, alpha, 1.0, 1.0, 1e-18)
    np.testing.assert_allclose(new, exact(f, alpha, 1.0, 1.0), atol=1e-9)
    assert new[1] > 0.9


@pytest.mark.parametrize("name", ["basic", *WHOLE])
def test_zero_diagonal(name):
    """A zero vector under the kernel: everything on the worst rival, or nothing."""
    f, alpha = np.array([0.0, -0.5, 0.3]), np.array([0.7, 0.7, 0.0])
    new, _ = optimise(name, f, alpha, 2.0, 0.0, 1e-12)
    if name == "basic":
        assert block_gain(f, alpha, new, 0.0) > 0
    else:
        np.testing.assert_allclose(new, [2.0, 0.0, 2.0], atol=1e-12)
    done = np.array([3.0, 0.5, 0.1])
    new, _ = optimise("exact", done, alpha, 2.0, 0.0, 1e-12)
    np.testing.assert_allclose(new, 0.0)


@settings(max_examples=150)
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=6),
    st.floats(1e-4, 1e4),
    st.sampled_from([1e-4, 1.0, 1e4]),
    st.sampled_from(["basic", *WHOLE]),
)
def test_any_numbers(f, A, cap, name):
    """Feasible, and the dual never falls."""
    f, alpha = np.array(f), np.zeros(len(f))
    for _ in range(3):
        new, gain = optimise(name, f, alpha, cap, A, 1e-6)
        assert (new >= 0).all()
        assert new[0] <= cap
        assert new[0] == pytest.approx(new[1:].sum(), rel=1e-12, abs=1e-300)
        assert gain >= -1e-12 * cap * (1 + np.abs(f).max())
        f = f + A * (tau_of(new) - tau_of(alpha))
        alpha = new


# -- values ---------------------------------------------------------------------------------------


def small_problem(seed, counts=(1, 1, 1), C=0.8):
    """A random feasible point of a static problem and its scores."""
    rng = np.random.default_rng(seed)
    prototype_class = np.repeat(np.arange(len(counts)), counts)
    n, R = 12, len(prototype_class)
    label = np.arange(n) % len(counts)
    own = np.array([rng.choice(np.flatnonzero(prototype_class == c)) for c in label])
    X = rng.normal(size=(n, 3))
    cap = C * rng.uniform(0.5, 2.0, size=n)
    task = Problem(MACHINES["cs"], Kernel("rbf", 0.4), X, label, cap, own, prototype_class)
    alpha = np.where(rng.uniform(size=(n, R)) < 0.5, 0.0, rng.exponential(size=(n, R)))
    alpha[prototype_class[None, :] == label[:, None]] = 0.0
    total = alpha.sum(axis=1)
    room = rng.choice([0.5, 1.0], size=n) * cap
    alpha *= (room / np.where(total > 0, total, 1.0))[:, None]
    tau = -alpha
    tau[np.arange(n), own] = np.minimum(alpha.sum(axis=1), cap)
    return task, tau, ref.rbf(X, X, 0.4)


@pytest.mark.parametrize("counts", [(1, 1, 1), (2, 1, 3)])
@pytest.mark.parametrize("seed", range(8))
def test_values(seed, counts):
    """KKT, AMG and BMG by their definitions; the sums of the certificate."""
    task, tau, K = small_problem(seed, counts)
    F = np.ascontiguousarray((K @ tau).T)
    duals = make_duals(task, slice(None), tau)
    found = {code: np.empty(12) for code in (KKT, AMG, BMG)}
    for code, values in found.items():
        sums = empty_totals()
        survey(F, duals, code, 0.0, values, sums)
    gap = loss = 0.0
    for p in range(12):
        rivals = np.flatnonzero(task.prototype_class != task.label[p])
        at = np.concatenate([[task.own[p]], rivals])
        f, cap, A = F[at, p], task.cap[p], K[p, p]
        alpha = tau_of(tau[p, at])
        delta = alpha.copy()
        delta[0] = cap - alpha[0]
        G = f - np.eye(len(at))[0]
        psi = G.max() - G[delta > 1e-12 * cap].min()
        assert found[KKT][p] == pytest.approx(psi, abs=1e-12)
        amg = max(V for V, *_ in pairs_by_hand(f, alpha, cap, A))
        assert found[AMG][p] == pytest.approx(amg, abs=1e-12)
        bmg = 2 * block_gain(f, alpha, exact(f, alpha, cap, A), A)
        assert found[BMG][p] == pytest.approx(bmg, abs=1e-12)
        assert found[AMG][p] <= found[BMG][p] + 1e-12  # clipped first (MP-8)
        gap += float(delta @ (G.max() - G))
        loss += cap * (G.max() - G[0])
    assert sums[GAP] == pytest.approx(gap)
    assert sums[LOSS] == pytest.approx(loss)
    assert sums[NORM] == pytest.approx(ref.squared_norm(tau, K))
    own = tau[np.arange(12), task.own].sum()
    assert sums[OWN] == pytest.approx(own)
    # (1.10)
    assert 0.5 * sums[NORM] + sums[LOSS] - (own - 0.5 * sums[NORM]) == pytest.approx(gap)
    again = empty_totals()
    survey(F, duals, NOTHING, 0.0, np.empty(0), again)
    assert again[MARGIN] == sums[MARGIN]
