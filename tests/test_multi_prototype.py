"""MultiPrototypeSVC: the static problem, the energy, attributes, prediction, errors that help."""

import functools
import inspect
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
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from test_cells import inputs, names, points, weights_of

from polymargin import Annealing, MulticlassSVC, MultiPrototypeSVC
from polymargin.exceptions import CollapsedModelWarning, IndefiniteKernelWarning
from polymargin.scoring import PrototypeModel

SCALING = 1.5
ROUNDING = 1e-9


# -- the slow, obvious voice -----------------------------------------------------------------------


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


@pytest.fixture(scope="module")
def data():
    return make_classification(
        200, 6, n_informative=4, n_classes=3, n_clusters_per_class=2, random_state=0
    )


# -- the static problem against the oracle ---------------------------------------------------------


@functools.cache
def static_setting(field, dtype, intercept, weights, margin):
    X, y = points(margin)
    X, y = X[:36], y[:36]
    parameters, given_X, K = inputs(field, dtype, X)
    model_weights, fit_weights, w = weights_of(weights, np.append(y, np.zeros(24, dtype=int)))
    w = w[:36]
    fit_weights = {name: value[:36] for name, value in fit_weights.items()}
    parameters = parameters | model_weights | {"intercept": intercept}
    if intercept == "penalized":
        parameters["intercept_scaling"] = SCALING
        K = K + SCALING**2
    _, label = np.unique(names(y), return_inverse=True)
    counts = np.array([2, 3, 1, 2])[: label.max() + 1]
    own = assign(label, counts, seed=3)
    prototype_class = np.repeat(np.arange(len(counts)), counts)
    keep = w > 0
    caps = np.where(keep, np.inf if margin == "hard" else 0.5 * w, 0.0)
    value, _ = static_optimum(
        K[np.ix_(keep, keep)], own[keep], prototype_class, label[keep], caps[keep]
    )
    parameters |= {"C": np.inf if margin == "hard" else 0.5, "n_prototypes": counts, "init": own}
    return parameters, given_X, names(y), fit_weights, K, caps, own, value


@pytest.mark.parametrize("intercept", ["none", "penalized"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("field", ["dense", "csr", "gram", "rows", "few-rows", "rbf-gram"])
@pytest.mark.parametrize(
    ("margin", "weights"),
    [
        ("soft", "unweighted"),
        ("soft", "sample_weight"),
        ("soft", "class_weight"),
        ("hard", "unweighted"),
    ],
)
def test_static_problem(field, dtype, intercept, weights, margin):
    parameters, given_X, labels, fit_weights, K, caps, own, value = static_setting(
        field, dtype, intercept, weights, margin
    )
    model = MultiPrototypeSVC(assignment="static", tol=1e-8, random_state=0, **parameters)
    model.fit(given_X, labels, **fit_weights)
    assert model.status_ == "converged"
    assert 0 <= model.certificate_.relative_gap <= 1e-8
    np.testing.assert_array_equal(model.assignment_, np.where(caps > 0, own, -1))
    check_model(model, K, labels, caps)
    assert model.certificate_.primal == pytest.approx(value, rel=3e-8)
    assert model.certificate_.dual <= value * (1 + 1e-8)
    scores = model.prototype_scores(given_X)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, K @ full_tau(model, len(labels)), atol=1e-8)
    np.testing.assert_array_equal(model.nearest_prototype(given_X), scores.argmax(axis=1))


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize("kernel", ["poly", "callable"])
def test_static_problem_of_other_kernels(kernel, tol):
    X, y = make_overlapping(n=30, n_classes=3)
    X = X / 3
    own = assign(y, [2, 2, 2])
    if kernel == "poly":
        parameters = {"kernel": "poly", "degree": 2, "gamma": 0.5, "coef0": 1.0}
        K = (0.5 * X @ X.T + 1.0) ** 2
    else:
        parameters = {"kernel": lambda a, b: ref.rbf(a, b, 0.3)}
        K = ref.rbf(X, X, 0.3)
    model = MultiPrototypeSVC(2, C=2.0, assignment="static", init=own, tol=tol, **parameters)
    model.fit(X, y)
    check_model(model, K, y, np.full(30, 2.0))
    value, _ = static_optimum(K, own, np.repeat([0, 1, 2], 2), y, 2.0)
    assert model.certificate_.dual <= value * (1 + 1e-8)
    assert value * (1 - 1e-8) <= model.certificate_.primal <= value * (1 + tol + 1e-8)


def test_indefinite_kernel_warns(data):
    X, y = data
    for assignment in ["static", "greedy", "annealed"]:
        model = MultiPrototypeSVC(2, kernel="sigmoid", assignment=assignment, random_state=0)
        with pytest.warns(IndefiniteKernelWarning):
            model.set_params(gamma=0.01, tol=0.1).fit(X, y)
        assert model.certificate_.kernel_psd is False
        assert np.isfinite(model.prototype_scores(X)).all()


@pytest.mark.parametrize("assignment", ["greedy", "annealed"])
@pytest.mark.parametrize("parameters", [{}, {"kernel": "rbf", "gamma": 0.2}], ids=["linear", "rbf"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("tol", [1e-3, 1e-7])
def test_final_model_solves_its_static_problem(assignment, parameters, form, dtype, tol):
    X, y = make_overlapping(n=40)
    X = X.astype(dtype)
    w = np.random.default_rng(0).uniform(0.3, 2.0, size=40)
    w[[2, 11]] = 0.0
    model = MultiPrototypeSVC(2, assignment=assignment, tol=tol, random_state=1, **parameters)
    model.fit(form(X), y, sample_weight=w)
    K = ref.rbf(X, X, 0.2) if parameters else ref.linear(X, X, 1.0)
    check_model(model, K, y, w)
    keep = w > 0
    value, _ = static_optimum(
        K[np.ix_(keep, keep)], model.assignment_[keep], np.repeat(np.arange(4), 2), y[keep], w[keep]
    )
    assert model.status_ == "converged"
    assert model.certificate_.dual <= value * (1 + 1e-8)
    assert value * (1 - 1e-8) <= model.certificate_.primal <= value * (1 + tol + 1e-8)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_final_models_are_stationary_at_a_tight_tolerance(data, kernel):
    """Greedy rounds end where nothing moves, unless their number is used up."""
    X, y = data
    for assignment in ["greedy", "annealed"]:
        model = MultiPrototypeSVC(2, kernel=kernel, assignment=assignment, random_state=0)
        assert model.fit(X, y).stationary_


# -- the hard margin -------------------------------------------------------------------------------


@pytest.mark.parametrize("assignment", ["greedy", "annealed"])
def test_hard_margin_is_for_static_assignments(data, assignment):
    model = MultiPrototypeSVC(2, C=np.inf, assignment=assignment)
    with pytest.raises(ValueError, match="assignment='static'"):
        model.fit(*data)


def test_hard_margin_of_what_one_prototype_cannot_separate():
    """XOR: two prototypes per class separate it through 0, one does not."""
    X = np.array([[1.0, 1], [-1, -1], [1, -1], [-1, 1]])
    y = np.array([0, 0, 1, 1])
    model = MultiPrototypeSVC(
        2, C=np.inf, assignment="static", init=np.arange(4), intercept="none", tol=1e-9
    ).fit(X, y)
    assert model.score(X, y) == 1
    value, _ = static_optimum(X @ X.T, np.arange(4), np.array([0, 0, 1, 1]), y, np.inf)
    assert model.certificate_.primal == pytest.approx(value, rel=1e-8)
    assert model.energy_ == pytest.approx(value, rel=1e-8)
    assert model.stationary_
    with pytest.warns(UserWarning, match=r"(?i)separa"):
        one = MultiPrototypeSVC(1, C=np.inf, assignment="static").fit(X, y)
    assert one.status_ == "not_separable"
    assert one.certificate_.primal == np.inf
    assert one.energy_ == np.inf
    assert not one.stationary_
    assert np.isfinite(one.prototype_scores(X)).all()


def test_hard_margin_is_the_limit_of_large_c():
    X, y = make_separable(n=30)
    own = assign(y, [2, 2, 2])
    hard, soft = (
        MultiPrototypeSVC(2, C=C, assignment="static", init=own, tol=1e-8).fit(X, y)
        for C in [np.inf, 1e6]
    )
    assert hard.certificate_.primal == pytest.approx(soft.certificate_.primal, rel=1e-6)


# -- parameters ------------------------------------------------------------------------------------


def test_parameters_and_defaults():
    expected = {
        "n_prototypes": 5, "C": 1.0, "kernel": "linear", "intercept": "auto",
        "assignment": "annealed", "annealing": "default", "n_restarts": 1, "init": "auto",
        "tol": 1e-3, "max_iter": 100000, "max_time": None, "class_weight": None, "n_jobs": None,
        "random_state": None, "verbose": 0, "gamma": "scale", "degree": 3, "coef0": 0.0,
        "intercept_scaling": 1.0, "cache_mb": 1000, "solver": "auto",
    }  # fmt: skip
    signature = inspect.signature(MultiPrototypeSVC)
    assert {p.name: p.default for p in signature.parameters.values()} == expected
    assert MultiPrototypeSVC().get_params() == expected


def test_fit_leaves_parameters_alone(data):
    counts, init = [2, 2, 2], assign(data[1], [2, 2, 2])
    kept = init.copy()
    model = MultiPrototypeSVC(counts, init=init, random_state=0).fit(*data)
    assert model.n_prototypes is counts
    assert model.init is init
    assert counts == [2, 2, 2]
    np.testing.assert_array_equal(init, kept)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"assignment": "anneal"}, "assignment must be one of"),
        ({"n_restarts": 0}, "n_restarts must be an integer >= 1"),
        ({"n_restarts": 1.5}, "n_restarts must be an integer >= 1"),
        ({"annealing": "slow"}, "annealing must be one of"),
        ({"annealing": None}, "annealing must be one of"),
        ({"n_prototypes": 0}, "n_prototypes must be an integer >= 1"),
        ({"n_prototypes": 2.0}, "n_prototypes must be an integer >= 1"),
        ({"n_prototypes": True}, "n_prototypes must be an integer >= 1"),
        ({"n_prototypes": [2, 2]}, "n_prototypes has 2 counts for 3 classes"),
        ({"n_prototypes": [2, 2, 0]}, "n_prototypes must be an integer >= 1"),
        ({"n_prototypes": [[2, 2, 2]]}, "n_prototypes"),
        ({"n_prototypes": {0: 1, 1: 2}}, "n_prototypes has no count for class 2"),
        ({"n_prototypes": {0: 1, 1: 2, 2: 1, 7: 1}}, "n_prototypes names 7"),
        ({"n_prototypes": "two"}, "n_prototypes"),
        ({"n_prototypes": None}, "n_prototypes"),
        ({"init": "k-means"}, "init must be"),
        ({"init": np.zeros(7, dtype=int)}, "init has 7 prototype numbers for 200 examples"),
        ({"init": np.full(200, 0.5)}, "init must have one prototype number per example"),
        ({"init": np.zeros(200, dtype=int)}, "init assigns example"),
        ({"init": np.full(200, -1)}, "init assigns example"),
        ({"init": np.zeros((5, 6))}, r"init: an array of prototypes must have shape \(15, 6\)"),
        ({"init": np.full((15, 6), np.nan)}, "init: the prototypes have NaN"),
        ({"init": np.zeros((2, 2, 2))}, "init"),
        ({"init": None}, "init"),
        ({"C": 0}, "C must be"),
        ({"C": np.nan}, "C must be"),
        ({"C": "1"}, "C must be"),
        ({"tol": 0}, "tol must be"),
        ({"tol": np.inf}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"max_time": -1}, "max_time must be"),
        ({"n_jobs": 1.5}, "n_jobs must be"),
        ({"kernel": "cosine"}, "kernel must be"),
        ({"gamma": -1, "kernel": "rbf"}, "gamma must be"),
        ({"intercept": "free"}, "intercept='free'"),
        ({"intercept_scaling": 0}, "intercept_scaling must be"),
        ({"class_weight": "even"}, "class_weight must be"),
        ({"random_state": "seven"}, "seven"),
    ],
)
def test_bad_parameters(data, parameters, message):
    with pytest.raises(ValueError, match=message):
        MultiPrototypeSVC(**parameters).fit(*data)


def test_bad_data(data):
    X, y = data
    model = MultiPrototypeSVC(2)
    broken = X.copy()
    broken[3, 4] = np.nan
    with pytest.raises(ValueError, match="column 4"):
        model.fit(broken, y)
    with pytest.raises(ValueError, match="number of classes"):
        model.fit(X, np.zeros(200))
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X, y, sample_weight=-np.ones(200))
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        model.fit(X, y, sample_weight=np.zeros(200))
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match="square"):
        MultiPrototypeSVC(2, kernel="precomputed").fit(X, y)
    with pytest.raises(ValueError, match="kmeans"):
        MultiPrototypeSVC(2, kernel="precomputed", init="kmeans").fit(X @ X.T, y)


@pytest.mark.parametrize(
    "method", ["predict", "nearest_prototype", "prototype_scores", "decision_function"]
)
def test_bad_data_for_prediction(data, method):
    X, y = data
    model = MultiPrototypeSVC(2)
    with pytest.raises(NotFittedError):
        getattr(model, method)(X)
    with pytest.raises(NotFittedError):
        model.prune()
    model.fit(X, y)
    with pytest.raises(ValueError, match="features"):
        getattr(model, method)(X[:, :3])
    with pytest.raises(ValueError, match="column 0"):
        getattr(model, method)(np.full((1, 6), np.inf))


# -- numbers of prototypes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "n_prototypes",
    [2, np.int64(2), [1, 2, 3], (1, 2, 3), np.array([1, 2, 3]), {"c": 3, "a": 1, "b": 2}],
    ids=["int", "numpy", "list", "tuple", "array", "mapping"],
)
@pytest.mark.parametrize("assignment", ["static", "annealed"])
def test_numbers_of_prototypes(data, n_prototypes, assignment):
    X, y = data
    model = MultiPrototypeSVC(n_prototypes, assignment=assignment, random_state=0)
    model.fit(X, np.array(["a", "b", "c"])[y])
    counts = [1, 2, 3] if np.ndim(n_prototypes) or isinstance(n_prototypes, dict) else [2, 2, 2]
    np.testing.assert_array_equal(model.prototype_classes_, np.repeat(["a", "b", "c"], counts))
    R = sum(counts)
    assert model.prototypes_.shape == (R, 6)
    assert model.intercept_.shape == model.alive_.shape == (R,)
    assert model.alive_.dtype == bool
    assert model.dual_coef_.shape == (len(model.support_), R)
    check_model(model, ref.linear(X, X, 1.0), np.array(["a", "b", "c"])[y], np.ones(200))


def test_a_small_class_gets_fewer_prototypes():
    X, y = make_overlapping(n=40, n_classes=2)
    X, y = np.vstack([X, X[:3], X[:3], 5 + X[:1]]), np.r_[y, [2] * 6, 3]
    with pytest.warns(UserWarning, match="fewer") as caught:
        model = MultiPrototypeSVC(5, random_state=0).fit(X, np.array(["a", "b", "c", "d"])[y])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "'c' has 3" in str(caught[0].message)  # six examples, three of them different
    assert "1 more class" in str(caught[0].message)
    np.testing.assert_array_equal(
        model.prototype_classes_, np.repeat(["a", "b", "c", "d"], [5, 5, 3, 1])
    )


def test_no_warning_when_all_is_well(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kernel in ["linear", "rbf"]:
            for assignment in ["static", "greedy", "annealed"]:
                MultiPrototypeSVC(3, kernel=kernel, assignment=assignment).fit(*data)


def test_too_many_prototypes():
    with pytest.raises(ValueError, match="at most 32767"):
        MultiPrototypeSVC(20000).partial_fit([[0.0], [1.0]], [0, 1])


# -- first assignments -----------------------------------------------------------------------------


@pytest.mark.parametrize("init", ["auto", "kmeans", "random"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_every_prototype_starts_with_an_example(data, init, kernel, form):
    X, y = data
    model = MultiPrototypeSVC(4, kernel=kernel, init=init, assignment="static", random_state=0)
    model.fit(form(X), y)
    assert set(model.assignment_) == set(range(12))
    np.testing.assert_array_equal(model.assignment_ // 4, y)


def test_kmeans_finds_clusters():
    centres = np.array([[4.0, 4], [-4, -4], [4, -4], [-4, 4]])
    X = np.repeat(centres, 10, axis=0) + 0.3 * np.random.default_rng(0).normal(size=(40, 2))
    y = np.repeat([0, 0, 1, 1], 10)
    model = MultiPrototypeSVC(2, init="kmeans", assignment="static").fit(X, y)
    blocks = model.assignment_.reshape(4, 10)
    assert (blocks == blocks[:, :1]).all()
    assert len(set(blocks[:, 0])) == 4
    assert model.score(X, y) == 1


def test_auto_is_kmeans_for_vectors_and_random_for_a_matrix(data):
    X, y = data
    a, b = (
        MultiPrototypeSVC(3, init=init, assignment="static", random_state=4).fit(X, y).assignment_
        for init in ["auto", "kmeans"]
    )
    np.testing.assert_array_equal(a, b)
    a, b = (
        MultiPrototypeSVC(
            3, init=init, kernel="precomputed", assignment="static", random_state=4
        ).fit(X @ X.T, y).assignment_
        for init in ["auto", "random"]
    )  # fmt: skip
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_prototypes_as_first_guess(data, form, kernel):
    X, y = data
    M = np.random.default_rng(0).normal(size=(6, 6))
    model = MultiPrototypeSVC(2, kernel=kernel, init=M, assignment="static").fit(form(X), y)
    scores = (X @ M.T).reshape(200, 3, 2)[np.arange(200), y]
    np.testing.assert_array_equal(model.assignment_, 2 * y + scores.argmax(axis=1))


def test_given_assignment_may_be_a_list_and_leave_a_prototype_empty(data):
    X, y = data
    model = MultiPrototypeSVC(2, init=(2 * y).tolist(), assignment="static", tol=1e-8).fit(X, y)
    cs = MulticlassSVC(tol=1e-8).fit(X, y)
    # an empty prototype is a rival that scores what its class's opponents push it to: not 0
    assert model.certificate_.primal >= cs.certificate_.primal * (1 - 1e-7)
    check_model(model, ref.linear(X, X, 1.0), y, np.ones(200))


def test_given_assignment_of_examples_without_weight(data):
    X, y = data
    own = assign(y, [2, 2, 2])
    w = np.ones(200)
    w[:7] = 0
    own[:7] = -5  # nobody looks
    model = MultiPrototypeSVC(2, init=own, assignment="static").fit(X, y, sample_weight=w)
    np.testing.assert_array_equal(model.assignment_, np.r_[[-1] * 7, own[7:]])


def test_seeds_give_other_first_assignments(data):
    X, y = data
    found = {
        tuple(
            MultiPrototypeSVC(3, init="random", assignment="static", random_state=seed)
            .fit(X, y)
            .assignment_
        )
        for seed in range(3)
    }
    assert len(found) == 3


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


@settings(max_examples=60, deadline=None)
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
