"""Steps of one pattern's block against the general QP solver."""

import numpy as np
import pytest
from reference import _qp

from polymargin.solvers.block_steps import box_step, simplex_step


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
    t = box_step(-B / A, low, high, 0, m, kappa, u, float(rng.normal()), new)
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
    simplex_step(G, v, sign, 0, m, cap, A, kappa, new)
    assert (sign * new >= 0).all()
    assert np.abs(new).sum() <= cap * (1 + 1e-12)
    H = A * (np.eye(m) + kappa)
    q = G - H @ v
    rows = np.vstack([-np.diag(sign), sign])
    best = np.array(_qp(H, q, rows, np.append(np.zeros(m), cap), 0).x)

    def objective(x):
        return 0.5 * x @ H @ x + q @ x

    assert objective(new) <= objective(best) + 1e-6 * (1 + abs(objective(best)))
