"""cost_matrix: margins that differ from rival to rival, against a QP solver and by identities."""

import numpy as np
import pytest
import scipy.sparse as sp
from machine_reference import solve as solve_qp
from prototype_reference import assign, static_optimum
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polymargin import (
    MulticlassSVC,
    MultiPrototypeSVC,
    PatternSMO,
    dual_variables,
    leave_one_out,
    load,
    margin_bound,
    margin_record,
    open_rows,
    regularization_path,
    save,
)

COSTS = np.array([[0.0, 1.0, 7.0], [0.3, 0.0, 2.0], [5.0, 0.5, 0.0]])


def blobs(n=60, Q=3, d=4, seed=0):
    rng = np.random.default_rng(seed)
    centre = 1.2 * rng.standard_normal((Q, d))
    y = rng.integers(0, Q, n)
    y[:Q] = np.arange(Q)
    return centre[y] + rng.standard_normal((n, d)), y


@pytest.fixture(scope="module")
def data():
    return blobs()


def kernel_of(kernel, X):
    if kernel == "linear":
        return X @ X.T
    return np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(axis=2))


@pytest.mark.parametrize("machine", ["cs", "ww"])
@pytest.mark.parametrize("intercept", ["none", "penalized", "free"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_value_and_scores_of_a_qp(data, machine, intercept, kernel):
    X, y = data
    weight = np.random.default_rng(1).uniform(0.2, 2.0, len(y))
    K = kernel_of(kernel, X) + (1.0 if intercept == "penalized" else 0.0)
    free = intercept == "free"
    best = solve_qp(machine, K, y, 3, 0.7 * weight, free, COSTS)
    model = MulticlassSVC(
        machine,
        C=0.7,
        kernel=kernel,
        gamma=0.2,
        intercept=intercept,
        tol=1e-7,
        cost_matrix=COSTS,
        random_state=0,
    ).fit(X, y, sample_weight=weight)
    certificate = model.certificate_
    assert model.status_ == "converged"
    assert certificate.relative_gap <= 1e-7
    assert certificate.primal == pytest.approx(best.value, rel=2e-7)
    assert certificate.dual == pytest.approx(best.value, rel=2e-7)
    scores, known = model.decision_function(X), best.scores
    if free:  # several intercepts may be as good
        scores, known = scores - model.intercept_, known - best.bias
    centred = scores - scores.mean(axis=1, keepdims=True)
    assert np.abs(centred - (known - known.mean(axis=1, keepdims=True))).max() < 3e-3
    # the loss that the slacks show is the loss of the certificate
    slack = model.slacks(X, y)
    losses = slack if slack.ndim == 1 else slack.sum(axis=1)
    assert np.allclose(margin_record(model, X, y).losses, losses)


@pytest.mark.parametrize("machine", ["cs", "ww"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_equal_costs_are_another_C(data, machine, kernel):
    X, y = data
    settings = {"kernel": kernel, "gamma": 0.2, "tol": 1e-8, "random_state": 0}
    c = 3.0
    costs = c * (1.0 - np.eye(3))
    a = MulticlassSVC(machine, C=1.5, cost_matrix=costs, **settings).fit(X, y)
    b = MulticlassSVC(machine, C=0.5, **settings).fit(X, y)
    assert a.certificate_.primal == pytest.approx(c**2 * b.certificate_.primal, rel=1e-7)
    assert np.abs(a.decision_function(X) - c * b.decision_function(X)).max() < 2e-3


def test_unit_costs_are_none(data):
    X, y = data
    a = MulticlassSVC(tol=1e-8, cost_matrix=1.0 - np.eye(3), random_state=0).fit(X, y)
    b = MulticlassSVC(tol=1e-8, random_state=0).fit(X, y)
    assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=1e-8)
    assert np.allclose(a.coef_, b.coef_, atol=1e-4)


@pytest.mark.parametrize("machine", ["cs", "ww"])
def test_rows_of_all_kinds_are_one_model(data, machine):
    X, y = data
    X = np.where(np.abs(X) < 0.8, 0.0, X)
    settings = {"tol": 1e-8, "cost_matrix": COSTS, "random_state": 0, "intercept": "penalized"}
    dense = MulticlassSVC(machine, **settings).fit(X, y)
    csr = MulticlassSVC(machine, **settings).fit(sp.csr_matrix(X), y)
    matrix = MulticlassSVC(machine, kernel="precomputed", **settings).fit(X @ X.T, y)
    for other in (csr, matrix):
        assert other.certificate_.primal == pytest.approx(dense.certificate_.primal, rel=1e-7)
    assert np.allclose(csr.coef_, dense.coef_, atol=1e-3)
    single = MulticlassSVC(machine, **{**settings, "tol": 1e-4}).fit(X.astype(np.float32), y)
    assert single.certificate_.primal == pytest.approx(dense.certificate_.primal, rel=2e-4)


def test_landmarks_ask_for_costs_too(data):
    X, y = data
    settings = {"kernel": "rbf", "gamma": 0.2, "tol": 1e-6, "cost_matrix": COSTS}
    exact = MulticlassSVC(**settings).fit(X, y)
    spanned = MulticlassSVC(landmarks=len(y), random_state=0, **settings).fit(X, y)
    assert spanned.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=1e-4)


def test_two_classes():
    X, y = blobs(Q=2, seed=3)
    costs = np.array([[0.0, 4.0], [0.5, 0.0]])
    for machine in ("cs", "ww"):
        best = solve_qp(machine, X @ X.T, y, 2, 1.0, False, costs)
        model = MulticlassSVC(machine, intercept="none", tol=1e-7, cost_matrix=costs).fit(X, y)
        assert model.certificate_.primal == pytest.approx(best.value, rel=2e-7)
        assert model.decision_function(X).shape == (len(y),)
    # the dear mistake is made less often than without costs
    X, y = blobs(n=300, Q=2, d=1, seed=3)
    plain = MulticlassSVC().fit(X, y).predict(X)
    careful = MulticlassSVC(cost_matrix=costs).fit(X, y).predict(X)
    assert ((careful == 1) & (y == 0)).sum() < ((plain == 1) & (y == 0)).sum()


def test_many_classes_hard_to_separate():
    """The interior point, single precision, shrinking and packed rows all see the costs."""
    X, y = blobs(n=400, Q=6, d=30, seed=5)
    rng = np.random.default_rng(0)
    costs = rng.uniform(0.5, 4.0, (6, 6)) * (1.0 - np.eye(6))
    for machine, kernel in (("cs", "linear"), ("ww", "linear"), ("cs", "rbf"), ("ww", "rbf")):
        rough = MulticlassSVC(
            machine, kernel=kernel, C=100.0, cost_matrix=costs, random_state=0, tol=1e-3
        ).fit(X, y)
        fine = clone(rough).set_params(tol=1e-6).fit(X, y)
        assert rough.status_ == fine.status_ == "converged"
        low, high = fine.certificate_.dual, fine.certificate_.primal
        assert rough.certificate_.dual <= high * (1 + 1e-9)
        assert rough.certificate_.primal >= low * (1 - 1e-9)


# -- prototypes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_static_prototypes(data, kernel):
    X, y = data
    counts = [2, 1, 3]
    own = assign(y, counts)
    model = MultiPrototypeSVC(
        counts,
        C=0.7,
        kernel=kernel,
        gamma=0.2,
        intercept="none",
        assignment="static",
        init=own,
        tol=1e-7,
        cost_matrix=COSTS,
    ).fit(X, y)
    owner = np.repeat(np.arange(3), counts)
    raised = np.where(owner == y[:, None], 0.0, COSTS[y][:, owner] - 1.0)
    best, _ = static_optimum(kernel_of(kernel, X), own, owner, y, 0.7, raised)
    assert model.certificate_.primal == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("assignment", ["annealed", "greedy"])
def test_energy_of_prototypes(data, kernel, assignment):
    X, y = data
    model = MultiPrototypeSVC(
        2, C=0.5, kernel=kernel, assignment=assignment, cost_matrix=COSTS, random_state=0
    ).fit(X, y)
    # by hand: the best prototype of the own class against rivals raised by their costs
    scores = model.prototype_scores(X)
    mine = model._prototype_class[None, :] == y[:, None]
    own = np.where(mine, scores, -np.inf).max(axis=1)
    rival = np.where(mine, -np.inf, scores + COSTS[y][:, model._prototype_class]).max(axis=1)
    slack = np.maximum(0.0, rival - own)
    assert np.allclose(model.slacks(X, y), slack)
    K = kernel_of("linear", X) + 1.0 if kernel == "linear" else None
    if K is not None:
        tau = np.zeros((len(y), len(model._prototype_class)))
        tau[model.support_] = model.dual_coef_
        norm2 = float((tau * (K @ tau)).sum())
        assert model.energy_ == pytest.approx(0.5 * norm2 + 0.5 * slack.sum(), rel=1e-6)
    static = model.certificate_.primal
    assert model.energy_ <= static * (1 + 1e-9)
    assert model.history_["relative_gap"].min() >= 0.0


def test_prune_and_partial_fit(data):
    X, y = data
    model = MultiPrototypeSVC(3, C=0.1, cost_matrix=COSTS, random_state=0).fit(X, y)
    assert model.prune().status_ == "converged"
    online = MultiPrototypeSVC(2, C=0.1, cost_matrix=COSTS, random_state=0)
    online.partial_fit(X[:30], y[:30]).partial_fit(X[30:], y[30:])
    assert online.certificate_.relative_gap <= 1e-3


# -- what it meets ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("costs", "says"),
    [
        (np.ones((3, 3)), "diagonal must be 0"),
        (np.zeros((3, 3)), r"cost_matrix\[0, 1\] is 0; .* > 0"),
        (-COSTS, r"cost_matrix\[0, 1\] is -1"),
        (np.where(COSTS == 7.0, np.inf, COSTS), r"cost_matrix\[0, 2\] is inf"),
        (np.where(COSTS == 7.0, np.nan, COSTS), r"cost_matrix\[0, 2\] is nan"),
        (np.eye(2), r"shape \(3, 3\), .* 0, 1, 2, got shape \(2, 2\)"),
        ("balanced", "square array of numbers"),
        ([[0, 1], [1]], "square array of numbers"),
    ],
)
def test_what_is_no_cost_matrix(data, costs, says):
    for model in (MulticlassSVC(cost_matrix=costs), MultiPrototypeSVC(cost_matrix=costs)):
        with pytest.raises(ValueError, match=says):
            model.fit(*data)


def test_refused_by_name(data, tmp_path):
    X, y = data
    for machine in ("llw", "msvm2", "adm", "mmr"):
        with pytest.raises(ValueError, match="cost_matrix needs relative margins"):
            MulticlassSVC(machine, cost_matrix=COSTS).fit(X, y)
    with pytest.raises(ValueError, match="cost_matrix needs a finite C"):
        MulticlassSVC(C=np.inf, cost_matrix=COSTS).fit(X, y)
    with pytest.raises(ValueError, match="cost_matrix needs a finite C"):
        MultiPrototypeSVC(C=np.inf, assignment="static", cost_matrix=COSTS).fit(X, y)
    with pytest.raises(ValueError, match="cost_matrix needs relative margins"):
        MulticlassSVC("msvm2", C="radius-margin", cost_matrix=COSTS).fit(X, y)
    for machine, solver in (("cs", PatternSMO()), ("ww", "frank-wolfe"), ("ww", "cycles")):
        with pytest.raises(ValueError, match="same margin, which cost_matrix= does not"):
            MulticlassSVC(machine, solver=solver, cost_matrix=COSTS).fit(X, y)
    for stage in ({"fit_into": "8kB"}, {"finish": "auto"}, {"teacher": MulticlassSVC()}):
        with pytest.raises(ValueError, match="cost_matrix cannot be combined with"):
            MultiPrototypeSVC(cost_matrix=COSTS, **stage).fit(X, y)
    with pytest.raises(ValueError, match="path mixes points by the margin 1"):
        regularization_path(X, y, estimator=MulticlassSVC(cost_matrix=COSTS))
    model = MulticlassSVC(cost_matrix=COSTS).fit(X, y)
    with pytest.raises(ValueError, match="train without cost_matrix"):
        margin_bound(model, X, y)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    rows = open_rows(tmp_path / "X.npy", label=tmp_path / "y.npy")
    with pytest.raises(ValueError, match="cost_matrix cannot be trained in parts"):
        MulticlassSVC(cost_matrix=COSTS).fit(rows)


def test_leave_one_out(data):
    X, y = data
    X, y = X[:25], y[:25]
    for machine, intercept in (("cs", "penalized"), ("ww", "free")):
        model = MulticlassSVC(machine, intercept=intercept, C=0.3, cost_matrix=COSTS)
        found = leave_one_out(model, X, y)
        slow = clone(model).set_params(tol=1e-8)
        for i in range(0, 25, 4):
            rest = np.delete(np.arange(25), i)
            assert slow.fit(X[rest], y[rest]).predict(X[i : i + 1])[0] == found.predictions[i]


def test_dual_variables(data):
    X, y = data
    model = MulticlassSVC("ww", tol=1e-8, cost_matrix=COSTS).fit(X, y)
    assert dual_variables(model, X, y).value == pytest.approx(model.certificate_.dual, rel=1e-7)


def test_warm_start_clone_search_save(data, tmp_path):
    X, y = data
    model = MulticlassSVC(cost_matrix=COSTS.tolist(), warm_start=True, tol=1e-6, random_state=0)
    first = model.fit(X, y).certificate_.primal
    assert model.fit(X, y).certificate_.primal == pytest.approx(first, rel=1e-5)
    assert np.array_equal(clone(model).cost_matrix, COSTS)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), MulticlassSVC(cost_matrix=COSTS)),
        {"multiclasssvc__C": [0.1, 1.0], "multiclasssvc__cost_matrix": [None, COSTS]},
        cv=2,
    ).fit(X, y)
    assert search.best_score_ > 0.4
    save(model, tmp_path / "costs.pm")
    again = load(tmp_path / "costs.pm")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.array_equal(again.cost_matrix, COSTS)
    assert again.set_params(warm_start=False).fit(X, y).status_ == "converged"


def test_probabilities_and_sets_with_costs(data):
    X, y = data
    rare = np.r_[np.flatnonzero(y != 2), np.flatnonzero(y == 2)[:1]]  # folds that lack a class
    for kind in (MulticlassSVC, MultiPrototypeSVC):
        model = kind(
            cost_matrix=COSTS, probabilities="temperature", calibration_folds=4, random_state=0
        ).fit(X[rare], y[rare])
        assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)
        assert model.predict_set(X).shape == (len(y), 3)


def test_costs_lower_the_mean_cost():
    """On the problem they are made for: what training minimises bounds the mean cost."""
    X, y = blobs(n=600, seed=11)
    X, y, T, t = X[:300], y[:300], X[300:], y[300:]
    plain = MulticlassSVC(C=0.1).fit(X, y)
    careful = MulticlassSVC(C=0.1, cost_matrix=COSTS).fit(X, y)
    assert COSTS[t, careful.predict(T)].mean() < COSTS[t, plain.predict(T)].mean()
