"""The slow, obvious voice of convex-hull prototypes: plain NumPy loops and a general QP solver.

``u`` are the weights, ``caps`` their upper bounds, ``K`` the kernel matrix. Numbers in parentheses
are the labels of the theory page.
"""

import numpy as np
import reference as ref


def kbar(K, y):
    """(Q - 1) K_ij within a class, -K_ij between classes (7.1)."""
    n_classes = len(np.unique(y))
    same = np.equal.outer(y, y)
    return np.where(same, n_classes - 1.0, -1.0) * K


def sum_of_distances(u, K, y):
    """sum_{m<l} ||v_m - v_l||^2, pair by pair."""
    classes = np.unique(y)
    total = 0.0
    for a, m in enumerate(classes):
        for l in classes[a + 1 :]:
            d = np.where(y == m, u, 0.0) - np.where(y == l, u, 0.0)
            total += d @ K @ d
    return total


def solve_qp(K, y, caps):
    """u of (7.1) by a general QP solver, and the optimal value."""
    n, classes = len(y), np.unique(y)
    sums = np.array([(y == k).astype(float) for k in classes])
    A = np.vstack([sums, np.eye(n), -np.eye(n)])
    b = np.concatenate([np.ones(len(classes)), np.minimum(caps, 1.0), np.zeros(n)])
    u = np.array(ref._qp(2 * kbar(K, y), np.zeros(n), A, b, len(classes)).x)
    return u, u @ kbar(K, y) @ u


def centred_scores(u, K, y, K_new=None):
    """<v_k - c, phi(x) - c> of every class (7.3); K_new are rows against the training examples."""
    K_new = K if K_new is None else K_new
    V = np.array([np.where(y == k, u, 0.0) for k in np.unique(y)])  # coefficients of v_k
    D = V - V.mean(axis=0)
    return K_new @ D.T - D @ K @ V.mean(axis=0)


def max_margin_value(u, K, y, caps):
    """(7.4) at W = Q (v_k - c) with the best thresholds rho_k, by trying all that can be best."""
    classes = np.unique(y)
    Q = len(classes)
    V = np.array([np.where(y == k, u, 0.0) for k in classes])
    W = Q * (V - V.mean(axis=0))
    value = -np.einsum("ki,ij,kj->", W, K, W) / Q
    for k, name in enumerate(classes):
        own = y == name
        outputs = (K @ W[k])[own]
        value += 2 * max(rho - caps[own] @ np.maximum(rho - outputs, 0.0) for rho in outputs)
    return value
