"""MultiPrototypeSVC: the static problem, the hard margin, parameters, first assignments."""

import functools
import inspect
import warnings

import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping, make_separable
from prototype_reference import (
    assign,
    check_model,
    full_tau,
    static_optimum,
)
from scipy import sparse
from sklearn.exceptions import NotFittedError
from test_cells import inputs, names, points, weights_of

from polymargin import MulticlassSVC, MultiPrototypeSVC
from polymargin.exceptions import IndefiniteKernelWarning

SCALING = 1.5


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
        "random_state": None, "verbose": 0, "probabilities": None, "calibration_folds": None,
        "cost_matrix": None, "fit_into": None, "finish": None, "teacher": None,
        "gamma": "scale", "degree": 3, "coef0": 0.0,
        "intercept_scaling": 1.0, "cache_mb": 1000, "solver": "auto",
        "metric": "euclidean",
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


@pytest.mark.parametrize("count", [10**30, 10**400])
def test_counts_beyond_all_integers(overlapping, count):
    """They are cut to the examples that there are, as any count that is too large."""
    X, y = overlapping
    with pytest.warns(UserWarning, match="fewer than the"):
        model = MultiPrototypeSVC(count, assignment="static", random_state=0).fit(X[:12], y[:12])
    assert len(model.prototypes_) == 12
