"""partial_fit: the proximal problem against the QP, classes to come, what it refuses."""

import pickle
import warnings

import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping
from prototype_reference import full_tau, slacks, static_optimum
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from polymargin import MultiPrototypeSVC

LABELS = np.repeat([0, 1, 2, 3], 2)


def halves():
    X, y = make_overlapping(n=80)
    return X[:40], y[:40], X[40:], y[40:]


def new_model(**parameters):
    return MultiPrototypeSVC(
        2, **({"C": 0.5, "tol": 1e-8, "random_state": 0, "intercept_scaling": 1.5} | parameters)
    )


def check_step(before, model, X, y, weight, scaling):
    """The step from ``before`` solves 1/2 ||M - M_old||^2 + losses for its assignment."""
    C, n = model.C, len(y)
    keep = weight > 0
    label = np.searchsorted(model.classes_, y)
    K = ref.linear(X, X, scaling)
    own = model.assignment_
    assert (own[~keep] == -1).all()
    tau = full_tau(model, n)
    old = before.prototype_scores(X)
    scores = old + K @ tau
    np.testing.assert_allclose(model.prototype_scores(X), scores, atol=1e-8)
    np.testing.assert_allclose(model.prototypes_, before.prototypes_ + tau.T @ X, atol=1e-9)
    np.testing.assert_allclose(
        model.intercept_, before.intercept_ + scaling**2 * tau.sum(axis=0), atol=1e-9
    )
    xi = slacks(scores[keep], label[keep], LABELS)
    distance2 = ref.squared_norm(tau, K)
    at = np.arange(keep.sum())
    cap = C * weight[keep]
    certificate = model.certificate_
    primal = 0.5 * distance2 + cap @ xi[at, own[keep]]
    assert certificate.primal == pytest.approx(primal, rel=1e-9)
    # D = sum_i tau_{i,a_i} - <M - M_old, M_old> - 1/2 ||M - M_old||^2
    cross = np.sum((tau.T @ X) * before.prototypes_)
    if scaling:
        cross += np.sum(tau.sum(axis=0) * before.intercept_)
    dual = tau[keep][at, own[keep]].sum() - cross - 0.5 * distance2
    assert certificate.dual == pytest.approx(dual, abs=1e-8 * max(primal, 1.0))
    assert model.energy_ == pytest.approx(0.5 * distance2 + cap @ xi.min(axis=1), rel=1e-8)
    assert model.energy_ <= primal * (1 + 1e-12)
    value, best = static_optimum(
        K[np.ix_(keep, keep)], own[keep], LABELS, label[keep], cap, old[keep]
    )
    assert model.status_ == "converged"
    assert certificate.dual <= value * (1 + 1e-8) + 1e-9
    assert certificate.primal == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(scores[keep], best, atol=2e-3)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", ["none", "penalized"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("start", ["fit", "partial_fit"])
def test_proximal_problem(weighted, intercept, form, dtype, start):
    X1, y1, X2, y2 = halves()
    X1, X2 = X1.astype(dtype), X2.astype(dtype)
    weight = np.ones(40)
    if weighted:
        weight = np.random.default_rng(0).uniform(0.3, 2.0, size=40)
        weight[[3, 8]] = 0.0
    before = getattr(new_model(intercept=intercept), start)(form(X1), y1)
    model = pickle.loads(pickle.dumps(before))
    given = {"sample_weight": weight} if weighted else {}
    assert model.partial_fit(form(X2), y2, **given) is model
    scaling = 1.5 if intercept == "penalized" else 0.0
    check_step(before, model, X2.astype(float), y2, weight, scaling)
    assert model.stationary_


def test_many_steps():
    """Every step of a stream is the proximal problem of its chunk."""
    X, y = make_overlapping(n=160)
    model = new_model(C=0.2).partial_fit(X[:40], y[:40])
    for start in range(40, 160, 20):
        chunk = slice(start, start + 20)
        before = pickle.loads(pickle.dumps(model))
        model.partial_fit(X[chunk], y[chunk])
        check_step(before, model, X[chunk], y[chunk], np.ones(20), 1.5)
        assert model.assignment_.shape == (20,)
    assert model.score(X, y) > 0.5


def test_first_call_is_a_greedy_fit():
    X, y, _, _ = halves()
    first = new_model().partial_fit(X, y)
    greedy = new_model(assignment="greedy").fit(X, y)
    assert first.energy_ == pytest.approx(greedy.energy_, rel=1e-7)
    np.testing.assert_array_equal(first.assignment_, greedy.assignment_)
    np.testing.assert_allclose(first.prototypes_, greedy.prototypes_, atol=1e-4)


def test_a_learnt_example_changes_nothing():
    """No loss, no step."""
    X = np.array([[3.0, 0], [-3, 0], [0, 3], [0, -3]])
    y = np.array([0, 0, 1, 1])
    model = MultiPrototypeSVC(2, C=10.0, random_state=0).fit(X, y)
    before = model.prototypes_.copy(), model.intercept_.copy()
    model.partial_fit(3 * X, y)
    np.testing.assert_array_equal(model.prototypes_, before[0])
    np.testing.assert_array_equal(model.intercept_, before[1])
    assert model.energy_ == 0
    assert model.certificate_.relative_gap == 0
    assert model.status_ == "converged"


def test_a_small_c_stays_close():
    X1, y1, X2, y2 = halves()
    moves = []
    for C in [1e-6, 1e-3, 1.0]:
        model = new_model(C=0.5).fit(X1, y1)
        before = model.prototypes_.copy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.set_params(C=C).partial_fit(X2, y2)
        moves.append(np.linalg.norm(model.prototypes_ - before))
    assert moves[0] < 1e-3
    assert moves[0] < moves[1] < moves[2]


def test_it_learns_new_examples():
    X1, y1, X2, y2 = halves()
    model = new_model().fit(X1, y1)
    before = model.score(X2, y2)
    assert model.partial_fit(X2, y2).score(X2, y2) > before


# -- classes -------------------------------------------------------------------------------------


def test_classes_that_come_later():
    X, y = make_overlapping(n=80)
    names = np.array(["d", "b", "a", "c"])
    model = new_model()
    seen = y < 2
    model.partial_fit(X[seen], names[y[seen]], classes=["d", "c", "b", "a"])
    np.testing.assert_array_equal(model.classes_, ["a", "b", "c", "d"])
    np.testing.assert_array_equal(model.prototype_classes_, np.repeat(["a", "b", "c", "d"], 2))
    assert set(model.predict(X[seen])) <= {"b", "d"}
    before = pickle.loads(pickle.dumps(model))
    model.partial_fit(X[~seen], names[y[~seen]])
    check_step(before, model, X[~seen], names[y[~seen]], np.ones(40), 1.5)
    model.partial_fit(X[:1], names[y[:1]])  # a single example, of one class
    assert model.assignment_.shape == (1,)


def test_classes_may_be_repeated():
    X1, y1, X2, y2 = halves()
    model = new_model().partial_fit(X1, y1, classes=[3, 2, 1, 0])
    model.partial_fit(X2, y2, classes=[0, 1, 2, 3])
    with pytest.raises(ValueError, match="classes lack some of the first call"):
        model.partial_fit(X2, y2, classes=[0, 1, 2])


def test_a_class_can_be_added():
    X, y = make_overlapping(n=120)
    names = np.array(["d", "b", "a", "c"])
    seen = y < 3
    model = new_model().partial_fit(X[seen], names[y[seen]])
    old = {name: model.prototypes_[model.prototype_classes_ == name] for name in "abd"}
    rows = np.flatnonzero(~seen)
    model.partial_fit(X[rows], names[y[rows]], classes=["a", "b", "c", "d"])
    np.testing.assert_array_equal(model.classes_, ["a", "b", "c", "d"])
    np.testing.assert_array_equal(model.prototype_classes_, np.repeat(["a", "b", "c", "d"], 2))
    assert set(model.prototype_classes_[model.assignment_]) == {"c"}
    assert (model.predict(X[rows]) == "c").mean() > 0.7
    for name, before in old.items():
        after = model.prototypes_[model.prototype_classes_ == name]
        assert after.shape == before.shape
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X[:2], ["z", "z"])


def test_unknown_label():
    X1, y1, X2, y2 = halves()
    model = new_model().partial_fit(X1, y1)
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X2, y2 + 7)
    with pytest.raises(ValueError, match="not among the classes"):
        new_model().partial_fit(X1, y1, classes=[0, 1])
    with pytest.raises(ValueError, match="classes"):
        new_model().partial_fit(X1, np.zeros(40))


def test_a_refused_step_leaves_the_model_as_it_was():
    X1, y1, X2, y2 = halves()
    model = new_model().partial_fit(X1, y1)
    before = model.prototype_scores(X2)
    for wrong in [(X2, y2 + 7), (X2[:, :3], y2), (np.full_like(X2, np.nan), y2)]:
        with pytest.raises(ValueError, match=r"."):
            model.partial_fit(*wrong)
    np.testing.assert_array_equal(model.prototype_scores(X2), before)
    model.partial_fit(X2, y2)


def test_n_prototypes_belong_to_the_first_call():
    X1, y1, X2, y2 = halves()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # few examples yet: more will come
        model = new_model().set_params(n_prototypes=[5, 1, 2, 3]).partial_fit(X1[:8], y1[:8])
    np.testing.assert_array_equal(model.prototype_classes_, np.repeat([0, 1, 2, 3], [5, 1, 2, 3]))
    model.partial_fit(X2, y2)
    assert model.prototypes_.shape == (11, 5)


# -- refusals and ends -----------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "poly", "precomputed", lambda a, b: a @ b.T])
def test_linear_kernel_only(kernel):
    model = MultiPrototypeSVC(2, kernel=kernel)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit"):
        model.partial_fit(np.eye(4), [0, 0, 1, 1])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": np.inf, "assignment": "static"}, "finite C"),
        ({"class_weight": "balanced"}, "class_weight='balanced'"),
        ({"n_prototypes": 0}, "n_prototypes"),
        ({"assignment": "none"}, "assignment"),
        ({"init": "best"}, "init"),
    ],
)
def test_refused(parameters, message):
    X, y, _, _ = halves()
    with pytest.raises(ValueError, match=message):
        new_model().set_params(**parameters).partial_fit(X, y)


def test_other_numbers_of_features():
    X1, y1, X2, y2 = halves()
    model = new_model().partial_fit(X1, y1)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X2[:, :4], y2)


def test_weights_of_zero():
    X1, y1, X2, y2 = halves()
    model = new_model().partial_fit(X1, y1)
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        model.partial_fit(X2, y2, sample_weight=np.zeros(40))
    with pytest.raises(ValueError, match="sample_weight"):
        model.partial_fit(X2, y2, sample_weight=-np.ones(40))


def test_class_weight():
    X1, y1, X2, y2 = halves()
    by_class = {0: 2.0, 2: 0.5}
    a = new_model(class_weight=by_class).partial_fit(X1, y1).partial_fit(X2, y2)
    each = np.array([2.0, 1.0, 0.5, 1.0])
    b = new_model().partial_fit(X1, y1, sample_weight=each[y1])
    b.partial_fit(X2, y2, sample_weight=each[y2])
    np.testing.assert_allclose(a.prototypes_, b.prototypes_, atol=1e-9)


def test_budget():
    X1, y1, X2, y2 = halves()
    before = new_model(C=100.0, tol=1e-3).fit(X1, y1)
    for budget in [{"max_iter": 1}, {"max_time": 1e-9}]:
        model = pickle.loads(pickle.dumps(before)).set_params(**budget, tol=1e-10)
        with pytest.warns(ConvergenceWarning, match=next(iter(budget))):
            model.partial_fit(X2, y2)
        assert model.status_ == next(iter(budget))
        assert np.isfinite(model.prototypes_).all()
        tau = full_tau(model, 40)
        np.testing.assert_allclose(model.prototypes_, before.prototypes_ + tau.T @ X2, atol=1e-8)


def test_fit_starts_anew():
    X1, y1, X2, y2 = halves()
    model = new_model().partial_fit(X1, y1)
    fresh = new_model().fit(X2, y2)
    np.testing.assert_array_equal(model.fit(X2, y2).prototypes_, fresh.prototypes_)
    model.prune()
    assert model.certificate_.relative_gap <= 1e-8


def test_deterministic():
    X1, y1, X2, y2 = halves()
    a, b = (new_model().partial_fit(X1, y1).partial_fit(X2, y2) for _ in range(2))
    np.testing.assert_array_equal(a.prototypes_, b.prototypes_)
    assert clone(a).get_params() == a.get_params()
