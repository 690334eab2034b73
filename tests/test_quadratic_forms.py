"""Losses xi'M xi with any positive definite M, against a general QP solver."""

import clarabel
import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping
from machine_reference import features_of
from scipy import sparse

from polymargin import MACHINES, Machine, MulticlassSVC, load, regularization_path, save
from polymargin.problem.quadratic_forms import quadratic_form, quadratic_slacks

Q = 4


def definite(seed):
    """A random positive definite matrix whose entries have both signs."""
    A = np.random.default_rng(seed).normal(size=(Q, Q))
    M = A @ A.T + 0.3 * np.eye(Q)
    return 0.5 * (M + M.T)


def row(K1, loss_matrix):
    return Machine(
        "own",
        "A quadratic loss of one's own",
        K1=K1,
        K2=1.0 if K1 else None,
        K3=0,
        p=2,
        loss_matrix=loss_matrix,
    )


def solve_qp(P, A, b, n_equal):
    """min x'Px/2, A x = b in the first rows, A x <= b in the rest."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    cones = [clarabel.ZeroConeT(n_equal), clarabel.NonnegativeConeT(len(b) - n_equal)]
    upper = sparse.triu(sparse.csc_matrix(P), format="csc")
    A = sparse.csc_matrix(A)
    found = clarabel.DefaultSolver(upper, np.zeros(len(P)), A, b, cones, settings).solve()
    assert str(found.status) == "Solved"
    return found


def qp_optimum(machine, K, y, caps):
    """Value and scores of the primal problem with M itself, not the machine's functions."""
    word = machine.loss_matrix
    M = np.eye(Q) if isinstance(word, str) else np.array(word)
    phi = features_of(K)
    n, d = phi.shape
    m = Q - 1
    size = Q * d + n * m
    P = np.zeros((size, size))
    P[: Q * d, : Q * d] = np.eye(Q * d)
    A, b = [], []
    if not machine.K1:
        for t in range(d):
            line = np.zeros(size)
            line[t : Q * d : d] = 1.0
            A.append(line)
            b.append(0.0)
    n_equal = len(A)
    for i in range(n):
        rivals = [k for k in range(Q) if k != y[i]]
        at = Q * d + i * m + np.arange(m)
        P[np.ix_(at, at)] = 2 * caps[i] * M[np.ix_(rivals, rivals)]
        for j, k in enumerate(rivals):
            line = np.zeros(size)
            line[k * d : (k + 1) * d] = phi[i]
            if machine.K1:
                line[y[i] * d : (y[i] + 1) * d] = -phi[i]
            line[at[j]] = -1.0
            A.append(line)
            b.append(-1.0 if machine.K1 else -1.0 / (Q - 1))
    found = solve_qp(P, np.array(A), np.array(b), n_equal)
    return found.obj_val, phi @ np.array(found.x)[: Q * d].reshape(Q, d).T


@pytest.mark.parametrize("seed", range(3))
def test_slacks_are_the_cheapest(seed):
    """Against the QP of every single example."""
    M = definite(seed)
    rng = np.random.default_rng(10 + seed)
    lack, own = rng.normal(size=(12, Q)), rng.integers(Q, size=12)
    form = quadratic_form(tuple(map(tuple, M)), Q)
    slack = form.slacks(lack, own)
    cost = form.cost(slack, own)
    for i in range(len(own)):
        rivals = np.delete(np.arange(Q), own[i])
        best = solve_qp(2 * M[np.ix_(rivals, rivals)], -np.eye(Q - 1), -lack[i, rivals], 0)
        assert cost[i] == pytest.approx(best.obj_val, rel=1e-8, abs=1e-10)
        assert (slack[i, rivals] >= lack[i, rivals]).all()
        assert slack[i, own[i]] == 0.0


def test_the_matrix_of_msvm2():
    """M = I + 11' as a matrix gives what the closed form (6.7) gives."""
    rng = np.random.default_rng(2)
    lack, own = rng.normal(size=(30, Q)), rng.integers(Q, size=30)
    form = quadratic_form(tuple(map(tuple, np.eye(Q) + 1.0)), Q)
    np.testing.assert_allclose(form.slacks(lack, own), quadratic_slacks(lack, own)[0], atol=1e-10)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("K1", [0, 1])
@pytest.mark.parametrize("form", ["identity", "random"])
def test_machine_is_the_qp(form, K1, kernel):
    machine = row(K1, "identity" if form == "identity" else definite(K1))
    X, y = make_overlapping(28, 3, Q)
    w = np.random.default_rng(3).uniform(0.5, 2.0, len(y))
    intercept = "penalized" if K1 else "none"
    K = ref.linear(X, X) if kernel == "linear" else ref.rbf(X, X, 0.125)
    value, scores = qp_optimum(machine, K + (1.0 if K1 else 0.0), y, 0.5 * w)
    model = MulticlassSVC(machine, C=0.5, kernel=kernel, gamma=0.125, intercept=intercept, tol=1e-7)
    model.fit(X, y, sample_weight=w)
    assert model.status_ == "converged"
    assert model.certificate_.dual <= value * (1 + 1e-8)
    assert model.certificate_.primal >= value * (1 - 1e-8)
    assert model.certificate_.primal == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-2)


def test_same_as_msvm2(tmp_path):
    """The row of M-SVM^2 with its matrix spelled out; files know the matrix."""
    X, y = make_overlapping(40, 3, Q)
    settings = {"kernel": "rbf", "gamma": 0.2, "intercept": "none", "tol": 1e-8}
    known = MulticlassSVC("msvm2", **settings).fit(X, y)
    spelled = MulticlassSVC(row(0, np.eye(Q) + 1.0), **settings).fit(X, y)
    assert spelled.certificate_.primal == pytest.approx(known.certificate_.primal, rel=1e-7)
    np.testing.assert_allclose(spelled.slacks(X, y), known.slacks(X, y), atol=1e-4)
    save(spelled, tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.machine == spelled.machine
    np.testing.assert_array_equal(again.predict(X), spelled.predict(X))


def test_refusals():
    X, y = make_overlapping(20, 3, Q)
    with pytest.raises(ValueError, match="for 3 classes, but y has 4"):
        MulticlassSVC(row(0, np.eye(3))).fit(X, y)
    with pytest.raises(ValueError, match="intercept='free' is not available"):
        MulticlassSVC(row(0, "identity"), intercept="free").fit(X, y)
    with pytest.raises(ValueError, match="leave loss_matrix out"):
        regularization_path(X, y, machine=row(0, "identity"))
    assert MACHINES["msvm2"].loss_matrix is None
