"""The slow, obvious voice: Crammer-Singer in plain NumPy and a general QP solver.

Nothing here is fast, nothing here comes from the package. Symbols are those of the theory page:
``tau`` (n x Q) are the signed dual variables, ``caps`` the C_i = C * weight_i of every example
(``inf`` for the hard margin), ``K`` the kernel matrix, a penalised intercept included. Numbers in
parentheses are the labels of the theory page.
"""

from __future__ import annotations

from typing import NamedTuple

import clarabel
import numpy as np
from scipy import sparse


class Optimum(NamedTuple):
    """A nearly optimal point: ``dual <= optimal value <= primal``."""

    tau: np.ndarray
    scores: np.ndarray
    primal: float
    dual: float


# -- values of one point ------------------------------------------------------------------------


def one_hot(y, n_classes):
    return np.eye(n_classes)[np.asarray(y)]


def hinge(scores, y):
    """xi_i = [1 + max_{r != y_i} f_r - f_{y_i}]_+, one example and one class at a time (1.1)."""
    slack = np.zeros(len(y))
    for i, (f, label) in enumerate(zip(scores, y, strict=True)):
        for r in range(len(f)):
            if r != label:
                slack[i] = max(slack[i], 1.0 + f[r] - f[label])
    return slack


def margins(scores, y):
    """f_{y_i} - max_{r != y_i} f_r of every example."""
    scores = np.array(scores, dtype=float)
    own = scores[np.arange(len(y)), y].copy()
    scores[np.arange(len(y)), y] = -np.inf
    return own - scores.max(axis=1)


def squared_norm(tau, K):
    """||M||^2 = sum_r tau_r' K tau_r."""
    return float(np.sum(tau * (K @ tau)))


def primal_value(tau, K, y, caps):
    """P of the model M(tau): (1.1), or (1.12) for the hard margin (inf when not separating)."""
    scores = K @ tau
    norm2 = squared_norm(tau, K)
    if np.isinf(caps).any():
        rho = margins(scores, y).min()
        return norm2 / (2 * rho**2) if rho > 0 else np.inf
    return 0.5 * norm2 + float(np.dot(caps, hinge(scores, y)))


def dual_value(tau, K, y, caps):
    """D of a feasible tau: (1.2), or the best multiple of tau for the hard margin (1.12)."""
    total = float(tau[np.arange(len(y)), y].sum())
    norm2 = squared_norm(tau, K)
    if np.isinf(caps).any():
        return total**2 / (2 * norm2) if norm2 > 0 else 0.0
    return total - 0.5 * norm2


def infeasibility(tau, y, caps):
    """The largest violation of (1.2): signs, caps, rows that do not sum to zero."""
    n = len(y)
    own = tau[np.arange(n), y]
    others = tau.copy()
    others[np.arange(n), y] = 0.0
    return max(
        0.0,
        float(others.max(initial=0.0)),
        float((-own).max(initial=0.0)),
        float((own - caps).max(initial=0.0)),
        float(np.abs(tau.sum(axis=1)).max(initial=0.0)),
    )


def pattern_gaps(tau, K, y, caps):
    """gap_p of every pattern (1.9); their sum is P - D (1.10)."""
    n, n_classes = tau.shape
    F = K @ tau - one_hot(y, n_classes)
    delta = -tau
    delta[np.arange(n), y] += caps
    return np.sum(delta * (F.max(axis=1, keepdims=True) - F), axis=1)


def full_tau(model, n):
    """The tau matrix (n x Q) of a fitted estimator, zero rows for what is not a support vector."""
    tau = np.zeros((n, len(model.classes_)))
    tau[model.support_] = model.dual_coef_
    return tau


# -- whole problems by a general QP solver --------------------------------------------------------


def _qp(P, q, A, b, n_equalities):
    """Solve min x'Px/2 + q'x, A x = b in the first rows, A x <= b in the rest."""
    cones = [
        clarabel.ZeroConeT(n_equalities),
        clarabel.NonnegativeConeT(A.shape[0] - n_equalities),
    ]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    upper = sparse.triu(sparse.csc_matrix(P), format="csc")
    return clarabel.DefaultSolver(upper, q, sparse.csc_matrix(A), b, cones, settings).solve()


def solve_dual_qp(K, y, n_classes, caps):
    """tau of the dual QP (1.2), or None when it is unbounded (data that cannot be separated)."""
    K = np.asarray(K, dtype=float)
    y = np.asarray(y)
    n = len(y)
    own = one_hot(y, n_classes).T.ravel()  # class-major: variable r * n + i is tau_ir
    eye = sparse.identity(n * n_classes, format="csc")
    row_sums = sparse.hstack([sparse.identity(n)] * n_classes)
    bounds = np.where(own > 0, np.tile(caps, n_classes), 0.0)
    finite = np.isfinite(bounds)
    A = sparse.vstack([row_sums, eye[finite]])
    b = np.concatenate([np.zeros(n), bounds[finite]])
    solution = _qp(sparse.block_diag([K] * n_classes), -own, A, b, n)
    if "Infeasible" in str(solution.status):
        return None
    tau = np.array(solution.x).reshape(n_classes, n).T
    return make_feasible(tau, y, caps)


def solve_primal_qp(K, y, n_classes, caps):
    """Scores and optimal value of the primal QP (1.1) in the feature space of K = Phi Phi'."""
    K = np.asarray(K, dtype=float)
    y = np.asarray(y)
    n = len(y)
    values, vectors = np.linalg.eigh(K)
    keep = values > 1e-12 * values.max()
    features = vectors[:, keep] * np.sqrt(values[keep])
    d = features.shape[1]
    hard = bool(np.isinf(caps).any())
    n_variables = n_classes * d + (0 if hard else n)
    rows, b = [], []
    for i in range(n):
        for r in range(n_classes):
            if r == y[i]:
                continue
            row = np.zeros(n_variables)  # f_r - f_y - xi <= -1
            row[r * d : (r + 1) * d] = features[i]
            row[y[i] * d : (y[i] + 1) * d] = -features[i]
            if not hard:
                row[n_classes * d + i] = -1.0
            rows.append(row)
            b.append(-1.0)
    if not hard:
        for i in range(n):
            row = np.zeros(n_variables)
            row[n_classes * d + i] = -1.0
            rows.append(row)
            b.append(0.0)
    curvature = np.zeros(n_variables)
    curvature[: n_classes * d] = 1.0
    q = np.zeros(n_variables)
    if not hard:
        q[n_classes * d :] = caps
    solution = _qp(sparse.diags(curvature), q, np.array(rows), np.array(b), 0)
    if "Infeasible" in str(solution.status):
        return None, np.inf
    M = np.array(solution.x)[: n_classes * d].reshape(n_classes, d)
    return features @ M.T, solution.obj_val


def make_feasible(tau, y, caps):
    """The nearby feasible point: signs first, then the caps; rows sum to zero exactly enough."""
    alpha = np.maximum(-tau, 0.0)
    alpha[np.arange(len(y)), y] = 0.0
    total = alpha.sum(axis=1)
    with np.errstate(invalid="ignore"):
        shrink = np.where(total > caps, caps / np.where(total > 0, total, 1.0), 1.0)
    alpha *= shrink[:, None]
    tau = -alpha
    tau[np.arange(len(y)), y] = alpha.sum(axis=1)
    return tau


def optimum(K, y, n_classes, caps, sweeps=20):
    """The optimum by the dual QP, polished by a few sweeps of exact pattern steps.

    ``y`` holds class indices, ``caps`` a number or one per example; examples with cap zero must
    have been dropped. Returns None when a hard margin does not exist.
    """
    K = np.asarray(K, dtype=float)
    y = np.asarray(y)
    caps = np.broadcast_to(np.asarray(caps, dtype=float), y.shape)
    tau = solve_dual_qp(K, y, n_classes, caps)
    if tau is None:
        return None
    for _ in range(sweeps):
        sweep(tau, K, y, caps)
    return Optimum(tau, K @ tau, primal_value(tau, K, y, caps), dual_value(tau, K, y, caps))


def sweep(tau, K, y, caps):
    """One cyclic sweep of exact pattern steps, in place; D never falls."""
    n_classes = tau.shape[1]
    for p in range(len(y)):
        f = K[p] @ tau
        B = f - K[p, p] * tau[p] - np.eye(n_classes)[y[p]]
        tau[p] = pattern_step(K[p, p], B, y[p], caps[p])


def block_descent(K, y, n_classes, caps, tol=1e-10, max_sweeps=100_000):
    """A10 with cyclic selection and the exact pattern step: a solver of thirteen lines."""
    caps = np.broadcast_to(np.asarray(caps, dtype=float), np.shape(y))
    tau = np.zeros((len(y), n_classes))
    for _ in range(max_sweeps):
        sweep(tau, K, y, caps)
        primal, dual = primal_value(tau, K, y, caps), dual_value(tau, K, y, caps)
        if primal - dual <= tol * primal:
            return Optimum(tau, K @ tau, primal, dual)
    raise AssertionError("block descent did not reach the gap")


# -- the problem of one pattern (3.2) -------------------------------------------------------------


def project_simplex(z, size):
    """Euclidean projection onto {d >= 0, sum d = size} by sorting (3.4)."""
    z = z - z.max()  # else a small size drowns in the rounding of a large z
    u = np.sort(z)[::-1]
    excess = (np.cumsum(u) - size) / np.arange(1, len(z) + 1)
    theta = excess[np.flatnonzero(u - excess > 0)[-1]]
    return np.maximum(z - theta, 0.0)


def pattern_step(A, B, own, cap):
    """The new row tau_p: A7 for a finite cap, 19.2 for the hard margin, the line on A = 0."""
    if np.isinf(cap):
        return hard_pattern_step(A, B, own)
    n_classes = len(B)
    alpha = np.zeros(n_classes)
    if A > 0:
        z = B / A + cap * np.eye(n_classes)[own]
        alpha = project_simplex(z, cap)
    else:
        others = np.delete(np.arange(n_classes), own)
        best = others[np.argmax(B[others])]
        if B[best] - B[own] > 0:
            alpha[best] = cap
    alpha[own] = 0.0
    tau = -alpha
    tau[own] = alpha.sum()
    return tau


def hard_pattern_step(A, B, own):
    """19.2: theta is the mean of B_own and of the largest other B_r, those above theta."""
    others = np.sort(np.delete(B, own))[::-1]
    theta, rho = B[own], 0
    while rho < len(others) and others[rho] > theta:
        rho += 1
        theta = (B[own] + others[:rho].sum()) / (1 + rho)
    tau = np.minimum(0.0, (theta - B) / A)
    tau[own] = 0.0
    tau[own] = -tau.sum()
    return tau


def pattern_step_fixed_point(A, B, own, cap, eps=1e-15, max_iterations=1_000_000):
    """A6: the fixed point (3.3), from above."""
    k = len(B)
    z = B / A + cap * np.eye(k)[own]
    theta = z.max()
    for _ in range(max_iterations):
        new = np.maximum(theta, z).mean() - cap / k
        if abs(new - theta) <= eps * max(1.0, abs(theta)):
            break
        theta = new
    alpha = np.maximum(z - theta, 0.0)
    alpha[own] = 0.0
    tau = -alpha
    tau[own] = alpha.sum()
    return tau


def pattern_step_qp(A, B, own, cap):
    """(3.2) by the general QP solver."""
    k = len(B)
    bounds = np.where(np.arange(k) == own, cap, 0.0)
    finite = np.isfinite(bounds)
    rows = np.vstack([np.ones((1, k)), np.eye(k)[finite]])
    b = np.concatenate([[0.0], bounds[finite]])
    return np.array(_qp(A * np.eye(k), np.asarray(B, dtype=float), rows, b, 1).x)


def pattern_objective(tau, A, B):
    return 0.5 * A * float(tau @ tau) + float(B @ tau)


# -- pairs of variables of one pattern: A1, A4, A5 ------------------------------------------------


def basic_step(alpha, f, own, ra, rb, A, cap):
    """A1: the clipped step v along the canonical pair (ra, rb), rb never the own class."""
    d = 1.0 if ra == own else 0.0
    numerator = d - f[ra] + f[rb]
    low = -alpha[rb]
    high = cap - alpha[own] if ra == own else alpha[ra]
    v = numerator / (2 * A) if A > 0 else np.copysign(np.inf, numerator) * (numerator != 0)
    return min(max(v, low), high)


def basic_gain(f, own, ra, rb, v, A):
    """(3.1): the gain in 2D of the clipped step v."""
    d = 1.0 if ra == own else 0.0
    return 2 * v * (d - f[ra] + f[rb] - v * A)


def basic_update(alpha, f, own, ra, rb, v, A):
    """A2 on row p only, in place."""
    alpha[ra] += v if ra == own else -v
    alpha[rb] += v
    f[ra] += v * A
    f[rb] -= v * A


def canonical_pairs(own, k):
    others = [r for r in range(k) if r != own]
    pairs = [(own, rb) for rb in others]
    pairs += [(others[a], others[b]) for a in range(len(others)) for b in range(a + 1, len(others))]
    return pairs


def pattern_step_all_pairs(A, B, own, cap, phi=1e-18, max_rounds=200_000):
    """A4: all pairs in turn until the gain of a round is at most phi."""
    k = len(B)
    alpha = np.zeros(k)
    f = B + np.eye(k)[own]
    for _ in range(max_rounds):
        total = 0.0
        for ra, rb in canonical_pairs(own, k):
            v = basic_step(alpha, f, own, ra, rb, A, cap)
            total += basic_gain(f, own, ra, rb, v, A)
            basic_update(alpha, f, own, ra, rb, v, A)
        if total <= phi:
            break
    return _signed(alpha, own)


def pattern_step_three_candidates(A, B, own, cap, phi=1e-18, max_rounds=200_000):
    """A5: the best of the three candidate pairs of the optimality conditions."""
    k = len(B)
    alpha = np.zeros(k)
    f = B + np.eye(k)[own]
    others = np.delete(np.arange(k), own)
    for _ in range(max_rounds):
        r1 = others[np.argmax(f[others])]
        candidates = [(own, r1)]
        if alpha[own] > 0:
            support = others[alpha[others] > 0]
            r2, r3 = support[np.argmax(f[support])], support[np.argmin(f[support])]
            candidates.append((own, r2))
            if r1 != r3:
                candidates.append((r1, r3))
        steps = [(basic_step(alpha, f, own, ra, rb, A, cap), ra, rb) for ra, rb in candidates]
        gains = [basic_gain(f, own, ra, rb, v, A) for v, ra, rb in steps]
        best = int(np.argmax(gains))
        v, ra, rb = steps[best]
        basic_update(alpha, f, own, ra, rb, v, A)
        if gains[best] <= phi:
            break
    return _signed(alpha, own)


def _signed(alpha, own):
    tau = -alpha
    tau[own] = alpha[own]
    return tau


# -- kernels --------------------------------------------------------------------------------------


def rbf(X, Z, gamma):
    """exp(-gamma ||x - z||^2), differences first: no cancellation."""
    X, Z = np.asarray(X, dtype=float), np.asarray(Z, dtype=float)
    return np.exp(-gamma * np.array([((Z - x) ** 2).sum(axis=1) for x in X]))


def linear(X, Z, intercept_scaling=0.0):
    return np.asarray(X, dtype=float) @ np.asarray(Z, dtype=float).T + intercept_scaling**2
