"""The slow, obvious voice for several prototypes per class: a QP solver and plain loops."""

import numpy as np
import pytest
import reference as ref
from scipy import sparse

ROUNDING = 1e-9


def static_optimum(K, own, prototype_class, label, caps, centre_scores=None):
    """Optimal value and scores of the static problem by a general QP solver, K = Phi Phi'.

    Variables are D = M - M_0 in the coordinates of Phi and the slacks; ``centre_scores`` (n, R) are
    the scores of M_0 (0 if left out), and the value is 1/2 ||M - M_0||^2 + sum_i C_i xi_i.
    """
    n, R = len(label), len(prototype_class)
    caps = np.broadcast_to(np.asarray(caps, dtype=float), (n,))
    values, vectors = np.linalg.eigh(np.asarray(K, dtype=float))
    keep = values > 1e-13 * values.max()
    features = vectors[:, keep] * np.sqrt(values[keep])
    d = features.shape[1]
    hard = bool(np.isinf(caps).any())
    before = np.zeros((n, R)) if centre_scores is None else centre_scores
    n_variables = R * d + (0 if hard else n)
    rows, b = [], []
    for i in range(n):
        for s in np.flatnonzero(prototype_class != label[i]):
            row = np.zeros(n_variables)  # f_s - f_a - xi <= -1
            row[s * d : (s + 1) * d] = features[i]
            row[own[i] * d : (own[i] + 1) * d] = -features[i]
            if not hard:
                row[R * d + i] = -1.0
            rows.append(row)
            b.append(-1.0 - before[i, s] + before[i, own[i]])
    curvature = np.zeros(n_variables)
    curvature[: R * d] = 1.0
    q = np.zeros(n_variables)
    if not hard:
        slacks = np.zeros((n, n_variables))
        slacks[np.arange(n), R * d + np.arange(n)] = -1.0
        rows.extend(slacks)
        b.extend(np.zeros(n))
        q[R * d :] = caps
    solution = ref._qp(sparse.diags(curvature), q, np.array(rows), np.array(b), 0)
    M = np.array(solution.x)[: R * d].reshape(R, d)
    return float(solution.obj_val), features @ M.T + before


def slacks(scores, label, prototype_class):
    """xi_i^r of (2.1), one example and one prototype at a time; inf for the other classes."""
    xi = np.full(scores.shape, np.inf)
    for i, f in enumerate(scores):
        rival = max(f[s] for s in range(len(f)) if prototype_class[s] != label[i])
        for r in range(len(f)):
            if prototype_class[r] == label[i]:
                xi[i, r] = max(0.0, 1.0 + rival - f[r])
    return xi


def full_tau(model, n):
    tau = np.zeros((n, len(model.prototype_classes_)))
    tau[model.support_] = model.dual_coef_
    return tau


def squared_norm(model, scaling=1.0):
    """||M||^2 of a linear model with a penalised intercept of that scaling."""
    return np.sum(model.prototypes_**2) + np.sum(model.intercept_**2) / scaling**2


def encoded(model, y):
    """Class numbers of the examples and of the prototypes."""
    return np.searchsorted(model.classes_, y), np.searchsorted(
        model.classes_, model.prototype_classes_
    )


def check_model(model, K, y, caps):
    """Certificate, energy, stationary_ and alive_ by arithmetic of our own; rows without weight
    have cap 0."""
    n = len(y)
    keep = np.asarray(caps) > 0
    label, prototype_class = encoded(model, y)
    own = model.assignment_
    assert (own[~keep] == -1).all()
    assert (prototype_class[own[keep]] == label[keep]).all()
    tau = full_tau(model, n)
    assert not tau[~keep].any()
    size = max(1.0, np.abs(tau).max())
    assert ref.infeasibility(tau[keep], own[keep], caps[keep]) <= 1e-11 * size
    mine = prototype_class[None, :] == label[:, None]
    mine[np.flatnonzero(keep), own[keep]] = False
    assert not tau[mine].any()  # (2.2): the other prototypes of the own class stay out
    scores = K @ tau
    xi = slacks(scores[keep], label[keep], prototype_class)
    norm2 = ref.squared_norm(tau, K)
    at = np.arange(keep.sum())
    certificate = model.certificate_
    if np.isinf(caps).any():
        assert certificate.primal == pytest.approx(0.5 * norm2, rel=1e-8)
        assert xi[at, own[keep]].max() <= 1e-8
        assert model.energy_ == pytest.approx(0.5 * norm2, rel=1e-8)
    else:
        primal = 0.5 * norm2 + caps[keep] @ xi[at, own[keep]]
        assert certificate.primal == pytest.approx(primal, rel=ROUNDING)
        # a separating model may have been scaled up, its dual point not
        if np.isclose(primal, 0.5 * norm2, rtol=1e-9):
            assert certificate.dual <= primal * (1 + 1e-12)
        else:
            dual = tau[keep][at, own[keep]].sum() - 0.5 * norm2
            if model.status_ == "converged":
                assert certificate.dual == pytest.approx(dual, abs=ROUNDING * primal)
            assert certificate.dual >= dual - ROUNDING * primal  # an earlier one may be better
        energy = 0.5 * norm2 + caps[keep] @ xi.min(axis=1)
        assert model.energy_ == pytest.approx(energy, rel=ROUNDING)
    assert model.energy_ <= certificate.primal * (1 + 1e-12)
    assert certificate.gap == pytest.approx(
        certificate.primal - certificate.dual, abs=ROUNDING * certificate.primal
    )
    if model.stationary_:
        assert model.status_ == "converged"
        excess = xi[at, own[keep]] - xi.min(axis=1)
        assert excess.max() <= 2 * model.tol + 1e-9
    wins = np.zeros(len(prototype_class), dtype=bool)
    wins[scores[keep].argmax(axis=1)] = True
    lead = np.sort(scores[keep], axis=1)
    if (lead[:, -1] - lead[:, -2]).min() > 1e-9:
        np.testing.assert_array_equal(model.alive_, wins)


def assign(y, counts, seed=0):
    """A random assignment of labels 0, 1, ... to prototypes numbered class by class."""
    rng = np.random.default_rng(seed)
    first = np.concatenate([[0], np.cumsum(counts)])
    return np.array([rng.integers(first[c], first[c + 1]) for c in y])
