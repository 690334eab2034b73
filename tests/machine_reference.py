"""Every machine as a primal QP in the feature space of its kernel: slow, and nothing of ours in it.

Variables are prototypes (Q x d), an unpenalised intercept (Q) and the slacks. Numbers in
parentheses are the labels of the theory pages.
"""

from typing import NamedTuple

import numpy as np
from reference import _qp
from scipy import sparse


class PrimalOptimum(NamedTuple):
    value: float
    scores: np.ndarray
    bias: np.ndarray


def features_of(K):
    values, vectors = np.linalg.eigh(np.asarray(K, dtype=float))
    keep = values > 1e-13 * values.max()
    return vectors[:, keep] * np.sqrt(values[keep])


def constraints_of(name, label, Q, costs=None):
    """(coefficients of the Q scores, margin asked, weight of the slack) of every constraint."""
    found = []
    for k in range(Q):
        a = np.zeros(Q)
        if name in ("cs", "ww"):
            if k != label:
                a[label], a[k] = 1.0, -1.0
                found.append((a, 1.0 if costs is None else costs[label][k], 1.0))
        elif name in ("llw", "msvm2"):
            if k != label:
                a[k] = -1.0
                found.append((a, 1.0 / (Q - 1), 1.0))
        elif name == "mmr":
            if k == label:
                a[k] = 1.0
                found.append((a, 1.0, 1.0))
        elif name == "adm":
            if k != label:
                a[k] = -1.0
                found.append((a, 1.0, 1.0))
        elif name in ("atm", "ats"):
            a[k] = 1.0 if k == label else -1.0
            found.append((a, 1.0, 1.0))
        elif name == "reinforced":
            a[k] = 1.0 if k == label else -1.0
            found.append((a, Q - 1.0 if k == label else 1.0, 0.5))
        else:
            raise KeyError(name)
    return found


def solve(name, K, y, Q, caps, free, costs=None):
    """The optimal value, scores and intercept of a machine by an interior point QP solver.

    ``costs`` (Q, Q) takes the place of the margin 1 of relative margins (24).
    """
    phi = features_of(K)
    n, d = phi.shape
    caps = np.broadcast_to(np.asarray(caps, dtype=float), (n,))
    hard = bool(np.isinf(caps).any())
    shared = name in ("cs", "atm", "adm")
    rows = [constraints_of(name, label, Q, costs) for label in y]
    slack_of, count = [], 0
    for cells in rows:
        slack_of.append(list(range(count, count + (1 if shared else len(cells)))))
        count += len(slack_of[-1])
    if hard:
        count = 0
    first_b = Q * d
    first_xi = first_b + (Q if free else 0)
    size = first_xi + count
    P = sparse.lil_matrix((size, size))
    P[np.arange(Q * d), np.arange(Q * d)] = 1.0
    q = np.zeros(size)
    equalities, upper, bounds = [], [], []
    if name not in ("cs", "ww"):
        for t in range(d):
            row = np.zeros(size)
            row[t : Q * d : d] = 1.0
            equalities.append(row)
    if free:
        row = np.zeros(size)
        row[first_b : first_b + Q] = 1.0
        equalities.append(row)
    for i, cells in enumerate(rows):
        own = slack_of[i]
        for j, (a, target, weight) in enumerate(cells):
            row = np.zeros(size)
            row[: Q * d] = -np.kron(a, phi[i])
            if free:
                row[first_b : first_b + Q] = -a
            if not hard:
                xi = first_xi + (own[0] if shared else own[j])
                row[xi] = -1.0
                if name != "msvm2" and not shared:
                    q[xi] = caps[i] * weight
            upper.append(row)
            bounds.append(-target)
        if hard:
            continue
        places = [first_xi + s for s in own]
        if shared:
            q[places[0]] = caps[i]
        if name == "msvm2":
            for s in places:
                for t in places:
                    P[s, t] = 2.0 * caps[i] * (1.0 + (s == t))
        else:
            for s in places:
                row = np.zeros(size)
                row[s] = -1.0
                upper.append(row)
                bounds.append(0.0)
    A = np.array(equalities + upper)
    b = np.concatenate([np.zeros(len(equalities)), bounds])
    solution = _qp(P.tocsc(), q, A, b, len(equalities))
    if "Infeasible" in str(solution.status):
        return None
    assert "Solved" in str(solution.status), f"the QP solver gave up: {solution.status}"
    x = np.array(solution.x)
    M = x[: Q * d].reshape(Q, d)
    bias = x[first_b : first_b + Q] if free else np.zeros(Q)
    return PrimalOptimum(solution.obj_val, phi @ M.T + bias, bias)
