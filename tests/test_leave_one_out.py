"""Leave-one-out: equal to refitting, warm or not; T17; the GACV criterion."""

import itertools
import warnings

import machine_reference
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from polymargin import MACHINES, MulticlassSVC, gacv, leave_one_out, radius_margin_bound


def points(n=21, Q=3, seed=0, spread=1.1):
    rng = np.random.default_rng(seed)
    centres = np.array([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7], [0.0, 0.0]])[:Q]
    y = np.arange(n) % Q
    return centres[y] + spread * rng.normal(size=(n, 2)), np.array(["pear", "fig", "nut", "oat"])[y]


def refitted(estimator, X, y, weight=None):
    """The obvious way: predictions of n models trained from scratch."""
    labels = []
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        precomputed = estimator.kernel == "precomputed"
        X_rest = X[np.ix_(rest, rest)] if precomputed else X[rest]
        x = X[[i]][:, rest] if precomputed else X[[i]]
        given = None if weight is None else weight[rest]
        labels.append(clone(estimator).fit(X_rest, y[rest], sample_weight=given).predict(x)[0])
    return np.array(labels)


CASES = [
    (name, intercept, kernel)
    for name, machine in MACHINES.items()
    for intercept in machine.intercepts
    for kernel in ("linear", "rbf")
    if kernel == "linear" or name in ("cs", "ww", "llw", "msvm2")
]


@pytest.mark.parametrize(("machine", "intercept", "kernel"), CASES)
def test_equals_refitting(machine, intercept, kernel):
    X, y = points()
    estimator = MulticlassSVC(
        machine=machine,
        C=0.7,
        kernel=kernel,
        gamma=0.4,
        intercept=intercept,
        tol=1e-8,
        random_state=0,
    )
    record = leave_one_out(estimator, X, y)
    expected = refitted(estimator, X, y)
    np.testing.assert_array_equal(record.predictions, expected)
    assert record.errors == (expected != y).sum() + (record.ties & (expected == y)).sum()
    assert record.refits + record.skipped == len(y)
    assert record.known.all()
    assert record.status == "complete"
    assert record.relative_gap <= 1e-4
    assert record.error_rate == pytest.approx(record.errors / len(y))


@pytest.mark.parametrize("machine", ["cs", "ww", "llw"])
def test_skips_patterns_without_weight(machine):
    X, y = points(60, spread=0.6)
    record = leave_one_out(MulticlassSVC(machine=machine, C=10.0, random_state=0), X, y)
    assert record.skipped > 20


def test_precomputed_sparse_weights_and_balance():
    X, y = points(24)
    K = X @ X.T + 1.0
    weight = np.random.default_rng(1).uniform(0.3, 2.0, len(y))
    base = MulticlassSVC(C=0.5, tol=1e-8, random_state=0)
    for estimator, data in (
        (clone(base).set_params(kernel="precomputed"), K),
        (base, sparse.csr_array(X)),
        (clone(base).set_params(class_weight="balanced"), X),
        (clone(base).set_params(kernel="rbf"), X),  # gamma="scale" changes with the examples
        (clone(base).set_params(kernel="rbf", class_weight={"fig": 2.0}), X),
    ):
        record = leave_one_out(estimator, data, y, sample_weight=weight)
        np.testing.assert_array_equal(record.predictions, refitted(estimator, data, y, weight))
        expected = weight[record.wrong].sum() / weight.sum()
        assert record.error_rate == pytest.approx(expected)


def test_fixed_gamma_spares_refits():
    X, y = points(40, spread=0.6)
    estimator = MulticlassSVC(kernel="rbf", C=10.0, random_state=0)
    assert leave_one_out(estimator, X, y).skipped == 0
    assert leave_one_out(estimator, X, y, refit_gamma=False).skipped > 0


def test_hard_margin():
    X, y = points(30, spread=0.3)
    estimator = MulticlassSVC(C=np.inf, tol=1e-8, random_state=0)
    record = leave_one_out(estimator, X, y)
    np.testing.assert_array_equal(record.predictions, refitted(estimator, X, y))


def test_rows_without_weight_are_not_counted():
    X, y = points(30)
    weight = np.ones(30)
    weight[[2, 5]] = 0.0
    estimator = MulticlassSVC(C=0.7, random_state=0)
    record = leave_one_out(estimator, X, y, sample_weight=weight)
    alone = leave_one_out(estimator, X[weight > 0], y[weight > 0])
    assert record.errors == alone.errors
    np.testing.assert_array_equal(record.predictions[weight > 0], alone.predictions)
    assert not record.known[[2, 5]].any()


def test_ties_are_errors():
    # copies of a pair of points with swapped labels: nothing tells the classes apart
    X = np.array([[1.0, 0.0]] * 4 + [[-1.0, 0.0]] * 4)
    y = np.array([0, 1] * 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record = leave_one_out(MulticlassSVC(C=1e-3, intercept="none", random_state=0), X, y)
    # leaving one out leaves a majority of the other class at its place
    assert record.errors == 8
    X = np.concatenate([X, np.zeros((2, 2))])  # a zero vector scores the same for every class
    y = np.append(y, [0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record = leave_one_out(MulticlassSVC(C=1e-3, intercept="none", random_state=0), X, y)
    assert record.ties[8:].all()
    assert record.wrong[8:].all()


def test_interruption_keeps_what_is_known(clock):
    X, y = points(60)
    model = MulticlassSVC(C=1.0, random_state=0)
    whole = leave_one_out(model, X, y)
    clock.restart(clock.looks // 2, "interrupted")
    with pytest.warns(UserWarning, match="ended early"):
        record = leave_one_out(model, X, y)
    assert record.status == "interrupted"
    assert 0 < record.known.sum() < 60
    np.testing.assert_array_equal(record.wrong[record.known], whole.wrong[record.known])


def test_time_limit_keeps_what_is_known():
    X, y = points(60)
    with pytest.warns(UserWarning, match="max_time"):
        record = leave_one_out(MulticlassSVC(C=1.0, random_state=0), X, y, max_time=1e-3)
    assert record.status == "max_time"
    assert len(record.predictions) == 60


def test_other_classifiers_are_refitted():
    X, y = points(20)
    record = leave_one_out(KNeighborsClassifier(1), X, y)
    distance = ((X[:, None] - X[None]) ** 2).sum(axis=2) + 1e9 * np.eye(20)
    np.testing.assert_array_equal(record.predictions, y[distance.argmin(axis=1)])
    assert leave_one_out(LinearSVC(random_state=0), X, y).refits == 20


def test_bad_input():
    X, y = points(20)
    single = y.copy().astype("<U8")
    single[0] = "single"
    with pytest.raises(ValueError, match="'single' has a single example"):
        leave_one_out(MulticlassSVC(), X, single)
    with pytest.raises(ValueError, match="max_time"):
        leave_one_out(MulticlassSVC(), X, y, max_time=-1)
    with pytest.raises(ValueError, match="estimator must be a classifier"):
        leave_one_out("svm", X, y)
    with pytest.raises(ValueError, match="C must be"):
        leave_one_out(MulticlassSVC(C=-1), X, y)


# -- T17: the count and its bounds, computed by an independent QP solver --------------------------


def sphere(K):
    """R^2 of the smallest sphere (8.1) by brute projected steps; small K only."""
    import clarabel

    n = len(K)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    A = sparse.vstack([np.ones((1, n)), -sparse.identity(n)], format="csc")
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(n)]
    right = np.append(1.0, np.zeros(n))
    P = sparse.triu(2.0 * K, format="csc")
    solved = clarabel.DefaultSolver(P, -np.diag(K), A, right, cones, settings).solve()
    return -solved.obj_val


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("seed", [0, 1])
def test_count_is_below_the_bounds(kernel, seed):
    """T17 for M-SVM^2: L <= (9.7) <= (30) <= (28)."""
    X, y = points(24, seed=seed)
    label = np.unique(y, return_inverse=True)[1]
    C, Q, n = 1.0, 3, len(y)
    K = X @ X.T if kernel == "linear" else np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    estimator = MulticlassSVC(
        machine="msvm2", C=C, kernel=kernel, gamma=0.5, intercept="free", tol=1e-10, random_state=0
    )
    L = leave_one_out(estimator, X, y).errors
    model = clone(estimator).fit(X, y)
    T = np.zeros((n, Q))
    T[model.support_] = model.dual_coef_
    alpha = T[np.arange(n), label][:, None] - T
    N = 2.0 * model.certificate_.primal
    assert alpha.sum() / (Q - 1) == pytest.approx(N, rel=1e-5)  # (9.3)
    ridged = K + np.eye(n) / (2.0 * C)
    R2 = sphere(ridged)
    diagonal = np.diag(ridged)
    diameter2 = (diagonal[:, None] + diagonal[None, :] - 2.0 * ridged).max()
    B = min(0.5 * (Q - 1) * diameter2, Q * R2)
    largest = alpha.max(axis=1).sum()
    tight = (Q - 1) * B * largest
    sharper = (Q - 1) ** 3 / Q * 4.0 * R2 * largest
    whole = (Q - 1) ** 4 / Q * 4.0 * R2 * N
    assert L <= tight <= sharper * (1 + 1e-9) <= whole * (1 + 1e-9)
    assert model.certificate_.relative_gap <= 1e-10
    if kernel == "linear":
        best = machine_reference.solve("msvm2", K, label, Q, C, True)
        assert model.certificate_.primal == pytest.approx(best[0], rel=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_count_of_one_versus_one_is_below_its_bound(seed):
    """T17: L_ovo <= (31); for two classes M-SVM^2 decides as the binary 2-norm machine does."""
    X, y = points(21, seed=seed)
    C, gamma = 1.0, 0.5
    classes = np.unique(y)
    wrong = 0
    for left in range(len(y)):
        others = np.arange(len(y)) != left
        wins = dict.fromkeys(classes, 0)
        for a, b in itertools.combinations(classes, 2):
            pair = others & ((y == a) | (y == b))
            machine = MulticlassSVC("msvm2", C=C, kernel="rbf", gamma=gamma, tol=1e-8)
            wins[machine.fit(X[pair], y[pair]).predict(X[left : left + 1])[0]] += 1
        rivals = max(count for k, count in wins.items() if k != y[left])
        wrong += wins[y[left]] <= rivals
    assert wrong <= radius_margin_bound(X, y, C=C, kernel="rbf", gamma=gamma).one_vs_one


# -- GACV ------------------------------------------------------------------------------------------


def test_gacv_of_two_classes_is_the_binary_one():
    X, y = points(30, Q=2)
    model = MulticlassSVC(
        machine="llw", C=0.5, kernel="rbf", gamma=0.5, tol=1e-10, random_state=0
    ).fit(X, y)
    found = gacv(model, X, y)
    sign = np.where(y == model.classes_[1], 1.0, -1.0)
    f = 0.5 * model.decision_function(X)
    weight = np.zeros(len(y))
    weight[model.support_] = np.abs(model.dual_coef_[:, 1])  # f = sum sign_i weight_i kappa + b
    margin = sign * f
    multiple = np.where(margin <= -1.0, 2.0, np.where(weight > 1e-9, 1.0, 0.0))
    expected = np.maximum(0.0, 1.0 - margin).mean() + (multiple * weight).mean()  # kappa = 1
    assert found.value == pytest.approx(expected, rel=1e-8)
    assert found.value == pytest.approx(found.observed + found.correction)


def test_gacv_follows_the_left_out_loss():
    """Not an identity: close to the left-out loss in the middle, pessimistic where C is large."""
    X, y = points(45, spread=0.9)
    label = np.unique(y, return_inverse=True)[1]
    criterion, left_out = [], []
    for C in (1e-3, 0.3, 100.0):
        estimator = MulticlassSVC(machine="llw", C=C, kernel="rbf", gamma=0.5, random_state=0)
        criterion.append(gacv(estimator, X, y).value)
        scores = leave_one_out(estimator, X, y).scores
        left_out.append(MACHINES["llw"].loss(scores, label).mean())
    assert np.argmin(criterion) == 1
    assert left_out[1] < 0.5 * left_out[0]
    assert criterion[1] == pytest.approx(left_out[1], rel=0.5)
    assert criterion[2] > left_out[2]


def test_gacv_refuses_other_machines():
    X, y = points(20)
    with pytest.raises(ValueError, match="machine='llw'"):
        gacv(MulticlassSVC(), X, y)
    with pytest.raises(ValueError, match="finite C"):
        gacv(MulticlassSVC(machine="llw", C=np.inf), X, y)
    model = MulticlassSVC(machine="llw", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="trained on 20"):
        gacv(model, X[:10], y[:10])
