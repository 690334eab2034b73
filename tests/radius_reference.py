"""Spheres, M-SVM^2 duals and radius-margin bounds by a general QP solver: nothing of ours in it."""

from itertools import combinations

import numpy as np
from machine_reference import solve
from reference import _qp
from scipy import sparse


def sphere(K):
    """R^2 and beta of (8.1)."""
    n, scale = len(K), np.trace(K) / len(K)
    K = K / scale
    A = np.concatenate([np.ones((1, n)), -np.eye(n)])
    b = np.concatenate([[1.0], np.zeros(n)])
    found = _qp(sparse.csc_matrix(2.0 * K), -np.diag(K).copy(), A, b, 1)
    return -found.obj_val * scale, np.array(found.x)


def dual(K, y, Q):
    """Value and alpha (n, Q) of the hard-margin Lee-Lin-Wahba dual (5.2)."""
    n = len(y)
    scale = np.trace(K) / n  # the solver wants entries of order one
    K = K / scale
    cells = [(i, k) for i in range(n) for k in range(Q) if k != y[i]]
    i, k = np.array(cells).T
    H = ((k[:, None] == k[None, :]) - 1.0 / Q) * K[np.ix_(i, i)]
    sums = (k[None, :] == np.arange(Q)[:, None]).astype(float)
    A = np.concatenate([sums[1:] - sums[:1], -np.eye(len(i))])
    b = np.zeros(len(A))
    q = np.full(len(i), -1.0 / (Q - 1))
    found = _qp(sparse.csc_matrix(H), q, A, b, Q - 1)
    alpha = np.zeros((n, Q))
    alpha[i, k] = np.array(found.x) / scale
    return -found.obj_val / scale, alpha


def bounds(K, y, caps):
    """(28), (30), (31) and R^2, N for the kernel matrix K and caps C_i (inf: hard margin)."""
    y, n = np.asarray(y), len(y)
    Q = int(y.max()) + 1
    K = K + np.diag(np.broadcast_to(0.5 / np.asarray(caps, dtype=float), (n,)))
    R2, _ = sphere(K)
    J, alpha = dual(K, y, Q)
    N = 2.0 * J
    pairs = 0.0
    for k, m in combinations(range(Q), 2):
        rows = np.flatnonzero((y == k) | (y == m))
        part = K[np.ix_(rows, rows)]
        w2 = solve("llw", part, (y[rows] == m).astype(int), 2, np.inf, True).value
        pairs += 4.0 * sphere(part)[0] * w2
    factor = (Q - 1.0) ** 3 / Q * 4.0 * R2
    return {
        "value": factor * (Q - 1.0) * N,
        "sharper": factor * alpha.max(axis=1).sum(),
        "one_vs_one": pairs,
        "radius2": R2,
        "norm2": N,
    }
