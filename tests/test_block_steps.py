"""Steps of one pattern's block against the general QP solver."""

from types import SimpleNamespace

import numpy as np
import pytest
from conftest import from_python
from reference import _qp

from polymargin.compiled.block_lists import enlist, examine_sums
from polymargin.compiled.block_steps import box_step, simplex_step
from polymargin.compiled.block_variables import make_blocks
from polymargin.problem.machines import MACHINES

compiled_box_step, compiled_simplex_step = from_python(box_step), from_python(simplex_step)


def value(v, A, kappa, u, B):
    return 0.5 * A * (v @ v + kappa * (u + v.sum()) ** 2) + B @ v


def draw(seed):
    rng = np.random.default_rng(seed)
    Q = int(rng.integers(2, 9))
    relative = bool(seed % 2)
    m = Q - 1 if relative else int(rng.integers(1, Q))
    A = float(rng.uniform(0.2, 3.0))
    return rng, Q, m, 1.0 if relative else -1.0 / Q, A


@pytest.mark.parametrize("seed", range(60))
def test_box_step(seed):
    rng, _, m, kappa, A = draw(seed)
    cap = np.inf if seed % 5 == 0 else float(rng.uniform(0.1, 2.0))
    B = rng.normal(size=m) * 2
    u = -float(rng.uniform(0, 1)) if seed % 3 else 0.0
    low, high = np.full(m, -cap), np.zeros(m)
    new = np.empty(m)
    t = compiled_box_step(-B / A, low, high, 0, m, kappa, u, float(rng.normal()), new)
    assert (new >= low).all()
    assert (new <= high).all()
    assert t == pytest.approx(u + new.sum(), abs=1e-12)
    P = A * (np.eye(m) + kappa)
    rows, right = [np.eye(m)], [np.zeros(m)]
    if np.isfinite(cap):
        rows.append(-np.eye(m))
        right.append(np.full(m, cap))
    q = B + A * kappa * u
    best = np.array(_qp(P, q, np.vstack(rows), np.concatenate(right), 0).x)
    np.testing.assert_allclose(new, best, atol=1e-6 * (1 + np.abs(best).max()))
    assert value(new, A, kappa, u, B) <= value(np.clip(best, low, high), A, kappa, u, B) + 1e-10


@pytest.mark.parametrize("seed", range(40))
def test_simplex_step(seed):
    """The generic step of rows with one shared slack: signs given, sum of sizes at most the cap."""
    rng, Q, m, kappa, A = draw(seed)
    sign = np.full(m, -1.0)
    if kappa < 0:
        m = Q
        sign = np.full(m, -1.0)
        sign[0] = 1.0
    cap = float(rng.uniform(0.1, 2.0))
    start = rng.uniform(size=m)
    v = sign * start * cap / max(start.sum(), 1.0)
    G = rng.normal(size=m) * 2
    new = np.empty(m)
    compiled_simplex_step(G, v, sign, 0, m, cap, A, kappa, new)
    assert (sign * new >= 0).all()
    assert np.abs(new).sum() <= cap * (1 + 1e-12)
    H = A * (np.eye(m) + kappa)
    q = G - H @ v
    rows = np.vstack([-np.diag(sign), sign])
    best = np.array(_qp(H, q, rows, np.append(np.zeros(m), cap), 0).x)

    def objective(x):
        return 0.5 * x @ H @ x + q @ x

    assert objective(new) <= objective(best) + 1e-6 * (1 + abs(objective(best)))


# -- one pass that makes a whole check -------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_examine_sums_is_enlist_and_the_values_of_the_table(seed):
    rng = np.random.default_rng(seed)
    n, Q = 40, 5
    X = rng.normal(size=(n, 3))
    y = np.r_[np.arange(Q), rng.integers(0, Q, n - Q)]
    machine = MACHINES["ww"]
    cap = rng.uniform(0.5, 2.0, size=n)
    V = -rng.uniform(0.0, 1.0, size=(n, Q)) * rng.integers(0, 2, size=(n, Q)) * cap[:, None]
    V[rng.random((n, Q)) < 0.2] = -1.0
    V = np.maximum(V, -cap[:, None])
    V[np.arange(n), y] = 0.0
    scores = rng.normal(size=(n, Q))
    problem = SimpleNamespace(
        machine=machine, n_prototypes=Q, diagonal=(X * X).sum(axis=1), cap=cap, own=y
    )
    everyone = np.arange(n)
    slow, fast = (make_blocks(problem, everyone, V.copy(), 0.0) for _ in range(2))
    queues, found = np.empty((2, n), dtype=np.int64), np.zeros(2)
    G = scores - scores[everyone, y][:, None] + 1.0
    end = enlist(G, slow, queues[0])
    assert examine_sums(scores, fast, queues[1], found) == end
    np.testing.assert_array_equal(queues[0, :end], queues[1, :end])
    np.testing.assert_array_equal(slow.n_active, fast.n_active)
    for p in everyone:
        count = slow.n_active[p]
        np.testing.assert_array_equal(slow.active[p, :count], fast.active[p, :count])
    np.testing.assert_allclose(fast.total, V.sum(axis=1), atol=1e-14)
    assert found[0] == pytest.approx(cap @ machine.loss(scores, y), rel=1e-12)
    assert found[1] == pytest.approx(machine.reward(V, y), rel=1e-12)
