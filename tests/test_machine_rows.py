"""Rows of the table beyond the four classical machines, and rows of one's own, against a QP."""

import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping, make_separable
from machine_reference import features_of, solve
from scipy import sparse

from polymargin import MACHINES, Machine, MulticlassSVC

FURTHER = ["adm", "atm", "ats", "mmr", "reinforced"]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("intercept", ["none", "penalized"])
@pytest.mark.parametrize("machine", FURTHER)
def test_further_losses(machine, intercept, kernel):
    X, y = make_overlapping(40, 4, 4)
    K = ref.linear(X, X) if kernel == "linear" else ref.rbf(X, X, 0.125)
    K = K + 1.0 if intercept == "penalized" else K
    w = np.random.default_rng(3).uniform(0.5, 2.0, len(y))
    best = solve(machine, K, y, 4, 0.5 * w, False)
    model = MulticlassSVC(
        machine=machine, kernel=kernel, gamma=0.125, intercept=intercept, C=0.5, tol=1e-7
    )
    model.fit(X, y, sample_weight=w)
    assert model.status_ == "converged"
    assert model.certificate_.dual <= best.value * (1 + 1e-8)
    assert model.certificate_.primal == pytest.approx(best.value, rel=1e-6)
    np.testing.assert_allclose(model.decision_function(X), best.scores, atol=1e-2)
    assert (model.history_["dual"] <= best.value * (1 + 1e-8)).all()


@pytest.mark.parametrize("machine", FURTHER)
def test_hard_margin(machine):
    X, y = make_separable(30, 5, 3)
    K = ref.rbf(X, X, 0.5)
    best = solve(machine, K, y, 3, np.inf, False)
    model = MulticlassSVC(
        machine=machine, kernel="rbf", gamma=0.5, intercept="none", C=np.inf, tol=1e-7
    ).fit(X, y)
    assert model.status_ == "converged"
    assert model.certificate_.primal == pytest.approx(best.value, rel=1e-6)


@pytest.mark.parametrize("machine", FURTHER)
def test_free_intercept_is_refused(machine, overlapping):
    with pytest.raises(ValueError, match=r"intercept='free' is not available for machine"):
        MulticlassSVC(machine=machine, intercept="free").fit(*overlapping)


def generic_value(machine, K, y, Q, C):
    """(11.1) by a general QP solver from the row's (M, p, K1, K2, K3) alone."""
    import clarabel

    phi = features_of(K)
    n, d = phi.shape
    m = Q - 1
    size = Q * d + n * m
    lam = 1.0 / (2.0 * C)
    M = machine.mixing(Q)
    P = np.zeros((size, size))
    P[: Q * d, : Q * d] = 2 * lam * np.eye(Q * d)
    q = np.zeros(size)
    for i in range(n):
        at = slice(Q * d + i * m, Q * d + (i + 1) * m)
        if machine.p == 2:
            P[at, at] = 2 * M.T @ M
        else:
            q[at] = M.sum(axis=0)
    equal, upper, bound = [], [], []
    if machine.K1 == 0:
        for t in range(d):
            row = np.zeros(size)
            row[t : Q * d : d] = 1.0
            equal.append(row)
    for i in range(n):
        rivals = [k for k in range(Q) if k != y[i]]
        for j, k in enumerate(rivals):
            row = np.zeros(size)
            row[k * d : (k + 1) * d] += phi[i]
            row[y[i] * d : (y[i] + 1) * d] -= machine.K1 * phi[i]
            row[Q * d + i * m + j] = -1.0
            upper.append(row)
            bound.append(-machine.rival_target(Q))
            if machine.p == 1:
                row = np.zeros(size)
                row[Q * d + i * m + j] = -1.0
                upper.append(row)
                bound.append(0.0)
            if machine.K3 and j:
                row = np.zeros(size)
                row[Q * d + i * m + j], row[Q * d + i * m] = 1.0, -1.0
                equal.append(row)
    A = sparse.csc_matrix(np.array(equal + upper))
    b = np.concatenate([np.zeros(len(equal)), bound])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    cones = [clarabel.ZeroConeT(len(equal)), clarabel.NonnegativeConeT(len(upper))]
    upper_P = sparse.triu(sparse.csc_matrix(P), format="csc")
    return clarabel.DefaultSolver(upper_P, q, A, b, cones, settings).solve().obj_val


@pytest.mark.parametrize("name", ["cs", "ww", "llw", "msvm2"])
def test_generic_model(name):
    """The numbers of the row, put into (11.1), give 2 lambda P of the machine."""
    X, y = make_overlapping(24, 3, 3)
    K, C = ref.rbf(X, X, 0.3), 0.7
    model = MulticlassSVC(
        machine=name, kernel="rbf", gamma=0.3, intercept="none", C=C, tol=1e-9
    ).fit(X, y)
    value = generic_value(MACHINES[name], K, y, 3, C)
    assert value == pytest.approx(model.certificate_.primal / C, rel=1e-7)


def test_row_of_ones_own(overlapping):
    """Weston-Watkins with margin 2 at C is four times that with margin 1 at C / 2."""
    X, y = overlapping
    mine = Machine("ww2", "Weston-Watkins, margin 2", K1=1, K2=2.0, K3=0, intercepts=("free",))
    model = MulticlassSVC(machine=mine, intercept="free", C=1.0, tol=1e-8).fit(X, y)
    plain = MulticlassSVC(machine="ww", C=0.5, tol=1e-8).fit(X, y)
    assert model.certificate_.primal == pytest.approx(4 * plain.certificate_.primal, rel=1e-7)
    np.testing.assert_allclose(
        model.decision_function(X), 2 * plain.decision_function(X), atol=1e-3
    )


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"K1": 2, "K2": 1.0, "K3": 0}, "K1 and K3"),
        ({"K1": 1, "K2": 1.0, "K3": 0, "own_target": 1.0}, "own_target needs K1=0"),
        ({"K1": 0, "K2": 1.0, "K3": 0, "has_rivals": False}, "no constraint at all"),
        ({"K1": 1, "K2": 1.0, "K3": 0, "p": 2}, "quadratic loss"),
        ({"K1": 0, "K2": 1.0, "K3": 1, "p": 2}, "quadratic loss"),
        ({"K1": 0, "K2": 1.0, "K3": 0, "loss_matrix": "identity"}, "p=2"),
        ({"K1": 0, "K2": 1.0, "K3": 0, "p": 2, "loss_matrix": "unit"}, "'identity' or a matrix"),
        ({"K1": 0, "K2": 1.0, "K3": 0, "p": 2, "loss_matrix": [[1, 2], [0, 1]]}, "symmetric"),
        ({"K1": 0, "K2": 1.0, "K3": 0, "p": 2, "loss_matrix": [[1, 2], [2, 1]]}, "definite"),
        ({"K1": 0, "K2": 1.0, "K3": 1, "intercepts": ("free",)}, "free intercept"),
        ({"K1": 0, "K2": 1.0, "K3": 0, "own_share": 0.5}, "own_share"),
        ({"K1": 1, "K2": 0.0, "K3": 0}, "K2 must be"),
        ({"K1": 0, "K2": 1.0, "K3": 0, "own_target": "many"}, "own_target"),
    ],
)
def test_impossible_rows_are_refused(facts, words):
    with pytest.raises(ValueError, match=words):
        Machine("odd", "Odd", **facts)
