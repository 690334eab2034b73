"""Models of MultiPrototypeSVC: attributes, prediction, pruning, saving, odd data."""

import io
import pickle
import warnings

import joblib
import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping, make_separable
from hypothesis import given, settings
from hypothesis import strategies as st
from prototype_reference import check_model, full_tau, slacks, squared_norm, static_optimum
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from polymargin import Annealing, MultiPrototypeSVC
from polymargin.exceptions import CollapsedModelWarning
from polymargin.problem.scoring import PrototypeModel

# -- fitted attributes -----------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", ["none", "penalized"])
@pytest.mark.parametrize("assignment", ["static", "greedy", "annealed"])
def test_linear_attributes(data, intercept, assignment):
    X, y = data
    model = MultiPrototypeSVC(
        3, assignment=assignment, intercept=intercept, intercept_scaling=2.0, random_state=0
    ).fit(X, y)
    scale = 2.0 if intercept == "penalized" else 0.0
    check_model(model, ref.linear(X, X, scale), y, np.ones(200))
    tau = full_tau(model, 200)
    np.testing.assert_allclose(tau.T @ X, model.prototypes_, atol=1e-8)
    np.testing.assert_allclose(scale**2 * tau.sum(axis=0), model.intercept_, atol=1e-8)
    np.testing.assert_allclose(model.prototypes_.sum(axis=0), 0, atol=1e-9)  # T13
    scores = model.prototype_scores(X)
    np.testing.assert_allclose(scores, X @ model.prototypes_.T + model.intercept_, atol=1e-10)
    norm2 = squared_norm(model, 2.0) if scale else np.sum(model.prototypes_**2)
    energy = 0.5 * norm2 + slacks(scores, y, np.repeat([0, 1, 2], 3)).min(axis=1).sum()
    assert model.energy_ == pytest.approx(energy, rel=1e-9)
    assert not hasattr(model, "coef_")
    assert model.n_features_in_ == 6
    assert isinstance(model.stationary_, bool)
    assert isinstance(model.energy_, float)
    assert isinstance(model.n_iter_, int)
    assert (np.diff(model.support_) > 0).all()
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    if intercept == "none":
        assert not model.intercept_.any()


def test_kernel_model_has_no_prototypes(data):
    X, y = data
    model = MultiPrototypeSVC(2, random_state=0).fit(X, y)
    assert model.prototypes_.shape == (6, 6)
    model.set_params(kernel="rbf").fit(X, y)
    assert not hasattr(model, "prototypes_")
    assert model.intercept_.shape == (6,)
    check_model(model, ref.rbf(X, X, 1 / (6 * X.var())), y, np.ones(200))


def test_feature_names(data):
    pandas = pytest.importorskip("pandas")
    X, y = data
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    model = MultiPrototypeSVC(2, random_state=0).fit(frame, y)
    assert list(model.feature_names_in_) == list("abcdef")
    with pytest.raises(ValueError, match="feature names"):
        model.nearest_prototype(frame[list("bacdef")])


def test_examples_without_weight_are_left_out(data):
    X, y = data
    w = np.ones(200)
    w[::3] = 0
    model = MultiPrototypeSVC(2, random_state=0).fit(X, y, sample_weight=w)
    less = MultiPrototypeSVC(2, random_state=0).fit(X[w > 0], y[w > 0])
    np.testing.assert_array_equal(model.prototypes_, less.prototypes_)
    np.testing.assert_array_equal(model.assignment_[w > 0], less.assignment_)
    assert (model.assignment_[w == 0] == -1).all()
    assert not np.isin(model.support_, np.flatnonzero(w == 0)).any()
    gone = MultiPrototypeSVC(2, class_weight={1: 0.0}, random_state=0).fit(X, y)
    np.testing.assert_array_equal(gone.classes_, [0, 2])
    assert (gone.assignment_[y == 1] == -1).all()


# -- prediction ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "precomputed"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_prediction_agrees_with_scores(data, n_classes, kernel, dtype):
    X, y = data
    X, y = X[y < n_classes].astype(dtype), np.array(["b", "c", "a"])[y[y < n_classes]]
    train, test = (X[:80], X[80:]) if kernel != "precomputed" else (X[:80] @ X[:80].T, None)
    if test is None:
        test = X[80:] @ X[:80].T
    model = MultiPrototypeSVC(2, kernel=kernel, random_state=0).fit(train, y[:80])
    scores = model.prototype_scores(test)
    assert scores.shape == (len(test), 2 * n_classes)
    assert scores.dtype == np.float64
    winner = scores.argmax(axis=1)
    np.testing.assert_array_equal(model.nearest_prototype(test), winner)
    np.testing.assert_array_equal(model.predict(test), model.prototype_classes_[winner])
    best = scores.reshape(-1, n_classes, 2).max(axis=2)
    found = model.decision_function(test)
    if n_classes == 2:
        np.testing.assert_allclose(found, best[:, 1] - best[:, 0], atol=1e-12)
        np.testing.assert_array_equal(model.predict(test), model.classes_[(found > 0).astype(int)])
    else:
        np.testing.assert_array_equal(found, best)
        np.testing.assert_array_equal(model.predict(test), model.classes_[best.argmax(axis=1)])
    if kernel in ("linear", "rbf"):
        rows = sparse.csr_array(test)
        np.testing.assert_allclose(model.prototype_scores(rows), scores, atol=1e-9)
        np.testing.assert_array_equal(model.predict(rows), model.predict(test))


def test_ties_go_to_the_lowest_number():
    X = np.array([[1.0, 1], [-1, -1], [1, -1], [-1, 1]])
    model = MultiPrototypeSVC(
        2, C=10.0, intercept="none", assignment="static", init=np.arange(4), tol=1e-10
    ).fit(X, ["p", "p", "n", "n"][::-1])
    origin = np.zeros((1, 2))
    assert not model.prototype_scores(origin).any()
    for form in [np.asarray, sparse.csr_array, np.float32]:
        assert model.nearest_prototype(form(origin))[0] == 0
        assert model.predict(form(origin))[0] == model.classes_[0]
    assert model.decision_function(origin)[0] == 0


def test_reject_option(data):
    X, y = data
    model = MultiPrototypeSVC(2, random_state=0).fit(X, y)
    scores = np.sort(model.decision_function(X), axis=1)
    lead = scores[:, -1] - scores[:, -2]
    margin = float(np.median(lead))
    labels = model.predict_or_reject(X, margin=margin, reject_label=-1)
    np.testing.assert_array_equal(labels, np.where(lead > margin, model.predict(X), -1))


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 40),
    exponent=st.integers(-12, -2),
    size=st.integers(-20, 20),
    offset=st.sampled_from([0.0, 1.0, 1e4]),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_fast_winner_is_the_float64_winner(seed, d, exponent, size, offset, dtype):
    """Prototypes that differ by next to nothing: float32 alone would err, float64 decides."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=d)
    M = (base + 10.0**exponent * rng.normal(size=(6, d))) * 2.0**size
    M[3] = M[1]  # and exact copies
    b = offset * 2.0**size + 10.0**exponent * 2.0**size * rng.normal(size=6)
    b[3] = b[1]
    X = rng.normal(size=(50, d)).astype(dtype)
    X[0] = 0
    exact = X.astype(np.float64) @ M.T + b
    winner = PrototypeModel(M, b).argmax(X)
    at = np.arange(50)
    lost = exact.max(axis=1) - exact[at, winner]
    # the order of the sums may differ: by rounding of float64, never by that of float32
    reach = 1e-15 * (d + 4) * (np.abs(X.astype(np.float64)) @ np.abs(M).T + np.abs(b)).max(axis=1)
    assert (lost <= reach).all()
    clear = np.sort(exact, axis=1)
    clear = clear[:, -1] - clear[:, -2] > 2 * reach
    np.testing.assert_array_equal(winner[clear], exact.argmax(axis=1)[clear])


def test_fast_winner_of_extreme_numbers():
    """float32 overflows or vanishes; the winner stays that of float64."""
    rng = np.random.default_rng(0)
    for size in [1e-60, 1e-42, 1e-30, 1e25, 1e39, 1e60]:
        M = size * rng.normal(size=(5, 4))
        X = rng.normal(size=(30, 4))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            winner = PrototypeModel(M, np.zeros(5)).argmax(X)
        np.testing.assert_array_equal(winner, (X @ M.T).argmax(axis=1), err_msg=str(size))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            winner = PrototypeModel(M / size, np.zeros(5)).argmax(size * X)
        np.testing.assert_array_equal(winner, (X @ M.T).argmax(axis=1), err_msg=str(size))


# -- dropping dead prototypes ----------------------------------------------------------------------


def with_dead_prototypes(kernel="linear", assignment="annealed"):
    """Two clusters and four prototypes per class: some win nothing."""
    X, y = make_separable(n=40)
    own = 4 * y + (np.arange(40) % 2 if assignment == "static" else 0)
    parameters = {"kernel": kernel, "assignment": assignment, "random_state": 0}
    model = MultiPrototypeSVC(4, C=0.3, init=own, **parameters)
    return model.fit(X, y), X, y


@pytest.mark.parametrize("assignment", ["static", "greedy", "annealed"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_prune(kernel, assignment):
    model, X, y = with_dead_prototypes(kernel, assignment)
    before = clone(model).fit(X, y)
    assert not model.alive_.all()
    assert model.prune() is model
    counts = np.bincount(before.prototype_classes_[before.alive_], minlength=3)
    counts = np.maximum(counts, 1)
    np.testing.assert_array_equal(model.prototype_classes_, np.repeat([0, 1, 2], counts))
    assert len(model.alive_) == counts.sum() < 12
    assert model.status_ == "converged"
    assert model.certificate_.relative_gap <= model.tol
    K = ref.linear(X, X, 1.0) if kernel == "linear" else ref.rbf(X, X, 1 / (5 * X.var()))
    check_model(model, K, y, np.full(40, 0.3))
    value, _ = static_optimum(
        K, model.assignment_, np.repeat([0, 1, 2], counts), y, 0.3
    )  # fmt: skip
    assert value * (1 - 1e-8) <= model.certificate_.primal <= value * (1 + 1.01e-3)
    assert model.prototype_scores(X).shape == (40, counts.sum())
    np.testing.assert_array_equal(model.nearest_prototype(X), model.prototype_scores(X).argmax(1))
    assert len(model.get_params()) == len(before.get_params())
    assert model.n_prototypes == 4


def test_prune_again_and_again():
    """Until all are alive; and with weights, also rows without one."""
    X, y = make_overlapping(n=60, n_classes=3)
    w = np.random.default_rng(0).uniform(0.5, 2, size=60)
    w[:4] = 0
    model = MultiPrototypeSVC(6, C=0.05, random_state=0).fit(X, y, sample_weight=w)
    sizes = [len(model.alive_)]
    while not model.alive_.all() and len(sizes) < 10:
        model.prune()
        check_model(model, ref.linear(X, X, 1.0), y, 0.05 * w)
        sizes.append(len(model.alive_))
        if sizes[-1] == sizes[-2]:
            break  # a class that wins nothing keeps one prototype
    assert sizes[-1] < 18


def test_prune_needs_the_data():
    model, X, y = with_dead_prototypes()
    for loaded in [pickle.loads(pickle.dumps(model)), clone(model).partial_fit(X, y)]:
        with pytest.raises(ValueError, match="prune needs the training data"):
            loaded.prune()
    pickle.loads(pickle.dumps(model)).fit(X, y).prune()


# -- saving ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_pickle_and_joblib(data, kernel):
    X, y = data
    X = X @ X.T if kernel == "precomputed" else X
    model = MultiPrototypeSVC(2, kernel=kernel, random_state=0).fit(X, y)
    stream = io.BytesIO()
    joblib.dump(model, stream)
    stream.seek(0)
    for copied in [pickle.loads(pickle.dumps(model)), joblib.load(stream)]:
        np.testing.assert_array_equal(copied.prototype_scores(X), model.prototype_scores(X))
        np.testing.assert_array_equal(copied.predict(X), model.predict(X))
        np.testing.assert_array_equal(copied.alive_, model.alive_)
        assert copied.certificate_ == model.certificate_
        assert copied.energy_ == model.energy_
        assert set(copied.history_) == set(model.history_)


def test_pickle_does_not_carry_the_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20))
    y = X[:, :3].argmax(axis=1)
    model = MultiPrototypeSVC(2, C=1.0, random_state=0).fit(X, y)
    support = model.support_vectors_.nbytes + model.dual_coef_.nbytes + model.support_.nbytes
    assert len(pickle.dumps(model)) < 1.5 * support + model.assignment_.nbytes + 50_000
    assert not hasattr(pickle.loads(pickle.dumps(model)), "_training")


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_skops(data, kernel):
    skops_io = pytest.importorskip("skops.io")
    X, y = data
    model = MultiPrototypeSVC(2, kernel=kernel, random_state=0).fit(X, y)
    saved = skops_io.dumps(model)
    trusted = skops_io.get_untrusted_types(data=saved)
    assert all(name.startswith("polymargin.") for name in trusted), trusted
    loaded = skops_io.loads(saved, trusted=trusted)
    np.testing.assert_array_equal(loaded.prototype_scores(X), model.prototype_scores(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.fit(X, y).predict(X), model.predict(X))


# -- odd data --------------------------------------------------------------------------------------


@pytest.mark.parametrize("assignment", ["static", "greedy", "annealed"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_one_example_per_class(kernel, assignment):
    X = np.array([[2.0, 0], [-1, 1], [-1, -1]])
    with pytest.warns(UserWarning, match="fewer"):
        model = MultiPrototypeSVC(3, kernel=kernel, assignment=assignment).fit(X, [0, 1, 2])
    np.testing.assert_array_equal(model.predict(X), [0, 1, 2])
    np.testing.assert_array_equal(model.assignment_, [0, 1, 2])


@pytest.mark.parametrize("assignment", ["static", "greedy", "annealed"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_many_classes(kernel, assignment):
    X, y = make_overlapping(n=180, d=6, n_classes=60, seed=4)
    annealing = Annealing(cooling=0.3, sweeps=2)
    model = MultiPrototypeSVC(
        2, kernel=kernel, gamma=0.1, assignment=assignment, annealing=annealing, random_state=0
    )
    model.fit(3 * X, y)
    K = ref.linear(3 * X, 3 * X, 1.0) if kernel == "linear" else ref.rbf(3 * X, 3 * X, 0.1)
    assert model.status_ == "converged"
    check_model(model, K, y, np.ones(180))
    assert len(model.alive_) == 120


@pytest.mark.parametrize("assignment", ["static", "greedy", "annealed"])
@pytest.mark.parametrize(
    "parameters",
    [{}, {"intercept": "none"}, {"kernel": "rbf", "gamma": 0.3}],
    ids=["penalized", "none", "rbf"],
)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_duplicates_contradictions_and_zero_rows(assignment, parameters, form):
    X, y = make_overlapping(n=40)
    X = np.vstack([X, X, X[:4], np.zeros((5, 5))])
    y = np.r_[y, y, (y[:4] + 1) % 4, [0, 0, 1, 2, 2]]
    model = MultiPrototypeSVC(2, assignment=assignment, random_state=0, tol=1e-5, **parameters)
    model.fit(form(X), y)
    scale = 1.0 if not parameters else 0.0
    K = ref.rbf(X, X, 0.3) if "kernel" in parameters else ref.linear(X, X, scale)
    assert model.status_ == "converged"
    check_model(model, K, y, np.ones(len(y)))
    if assignment == "static":  # equal rows of a class start together
        np.testing.assert_array_equal(model.assignment_[:40], model.assignment_[40:80])


def test_all_rows_equal():
    """Nothing to learn: one prototype per class, a warning for that and for the zero model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapsedModelWarning)
        with pytest.warns(UserWarning, match="fewer"):
            model = MultiPrototypeSVC(2, random_state=0).fit(np.ones((6, 3)), [0, 0, 0, 1, 1, 1])
    assert len(model.alive_) == 2
    assert np.isfinite(model.decision_function(np.ones((1, 3)))).all()


@pytest.mark.parametrize("size", [1e-6, 1e6])
@pytest.mark.parametrize("assignment", ["static", "annealed"])
def test_badly_scaled_features(data, size, assignment):
    X, y = data
    C = 1.0 / size**2
    model = MultiPrototypeSVC(2, C=C, intercept="none", assignment=assignment, random_state=0)
    model.fit(size * X, y)
    assert model.status_ == "converged"
    check_model(model, ref.linear(size * X, size * X), y, np.full(200, C))


@pytest.mark.parametrize("C", [1e-6, 30.0])
def test_small_and_large_c(data, C):
    X, y = data
    model = MultiPrototypeSVC(2, C=C, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapsedModelWarning)  # a tiny C collapses, and says so
        model.fit(X, y)
    check_model(model, ref.linear(X, X, 1.0), y, np.full(200, C))
    assert model.status_ == "converged"


def test_huge_c_ends_with_an_honest_certificate(data):
    X, y = data
    model = MultiPrototypeSVC(2, C=1e5, max_iter=3000, random_state=0)
    with pytest.warns(ConvergenceWarning, match="duality gap of"):
        model.fit(X, y)
    check_model(model, ref.linear(X, X, 1.0), y, np.full(200, 1e5))


def test_input_is_not_written_to(data):
    X, y = data[0].copy(), data[1].copy()
    X.flags.writeable = y.flags.writeable = False
    for kernel in ["linear", "rbf"]:
        MultiPrototypeSVC(2, kernel=kernel, random_state=0).fit(X, y).prune()
    K = X @ X.T
    K.flags.writeable = False
    MultiPrototypeSVC(2, kernel="precomputed", random_state=0).fit(K, y).predict(K)
