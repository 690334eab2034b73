"""Equal to others and to itself: T1, T19, T20, the decision graph (T21), the network (T22)."""

import numpy as np
import pytest
import reference as ref
from hypothesis import given, settings
from hypothesis import strategies as st
from prototype_reference import assign
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification

from polymargin import Annealing, MulticlassSVC, MultiPrototypeSVC


@pytest.fixture(scope="module")
def data():
    return make_classification(
        120, 6, n_informative=4, n_classes=3, n_clusters_per_class=2, random_state=0
    )


def static(own, C=0.2, **parameters):
    return MultiPrototypeSVC(
        2, C=C, assignment="static", init=own, tol=1e-8, random_state=0, **parameters
    )


# -- one prototype per class: T1 -------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"intercept": "none"},
        {"intercept_scaling": 3.0, "class_weight": "balanced"},
        {"kernel": "rbf"},
        {"kernel": "poly", "coef0": 1.0},
    ],
    ids=["linear", "none", "balanced", "rbf", "poly"],
)
@pytest.mark.parametrize("assignment", ["static", "greedy", "annealed"])
def test_one_prototype_per_class_is_crammer_singer(data, parameters, assignment):
    X, y = data
    one = MultiPrototypeSVC(1, assignment=assignment, tol=1e-8, random_state=0, **parameters)
    one.fit(X, y)
    cs = MulticlassSVC(tol=1e-8, random_state=0, **parameters).fit(X, y)
    assert one.energy_ == pytest.approx(cs.certificate_.primal, rel=1e-7)
    assert one.stationary_
    assert one.energy_ == pytest.approx(one.certificate_.primal, rel=1e-12)
    np.testing.assert_allclose(one.decision_function(X), cs.decision_function(X), atol=1e-3)
    top = np.sort(cs.decision_function(X), axis=1)
    clear = top[:, -1] - top[:, -2] > 1e-2
    np.testing.assert_array_equal(one.predict(X)[clear], cs.predict(X)[clear])
    np.testing.assert_array_equal(one.prototype_classes_, cs.classes_)
    np.testing.assert_array_equal(one.assignment_, y)


def test_one_prototype_per_class_of_two(data):
    X, y = data
    X, y = X[y < 2], y[y < 2]
    one = MultiPrototypeSVC(1, tol=1e-8).fit(X, y)
    cs = MulticlassSVC(tol=1e-8).fit(X, y)
    np.testing.assert_allclose(one.decision_function(X), cs.decision_function(X), atol=1e-3)
    np.testing.assert_allclose(np.diff(one.prototypes_, axis=0), cs.coef_, atol=1e-3)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_hard_margin_of_one_prototype_per_class(separable, kernel):
    X, y = separable
    one = MultiPrototypeSVC(1, C=np.inf, assignment="static", kernel=kernel, tol=1e-8).fit(X, y)
    cs = MulticlassSVC(C=np.inf, kernel=kernel, tol=1e-8).fit(X, y)
    assert one.certificate_.primal == pytest.approx(cs.certificate_.primal, rel=1e-7)


def test_other_prototypes_of_the_own_class_are_no_rivals(data):
    """As classes of their own they would be: the value could only be higher."""
    X, y = data
    own = assign(y, [2, 2, 2])
    a = static(own).fit(X, y)
    b = MulticlassSVC(C=0.2, tol=1e-8).fit(X, own)
    assert a.certificate_.primal < b.certificate_.dual


# -- invariances: T19, T20 -------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_permuted_examples(data, kernel):
    X, y = data
    own = assign(y, [2, 2, 2])
    order = np.random.default_rng(0).permutation(120)
    a = static(own, kernel=kernel).fit(X, y)
    b = static(own[order], kernel=kernel).fit(X[order], y[order])
    np.testing.assert_allclose(a.prototype_scores(X), b.prototype_scores(X), atol=1e-3)
    assert a.energy_ == pytest.approx(b.energy_, rel=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_permuted_classes_and_prototypes(data, kernel):
    X, y = data
    own = assign(y, [2, 2, 2])
    classes = np.array([2, 0, 1])
    prototypes = np.array([4, 5, 1, 0, 2, 3])  # the same classes, and two prototypes of one swapped
    a = static(own, kernel=kernel).fit(X, y)
    b = static(prototypes[own], kernel=kernel).fit(X, classes[y])
    np.testing.assert_allclose(
        a.prototype_scores(X), b.prototype_scores(X)[:, prototypes], atol=1e-3
    )
    two = np.sort(a.decision_function(X), axis=1)[:, -2:]
    clear = two[:, 1] - two[:, 0] > 2e-3  # a tie goes to the first class, and their order changed
    np.testing.assert_array_equal(classes[a.predict(X)][clear], b.predict(X)[clear])


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_orthogonal_transform(data, kernel):
    X, y = data
    own = assign(y, [2, 2, 2])
    Q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))
    a = static(own, kernel=kernel, gamma=0.2).fit(X, y)
    b = static(own, kernel=kernel, gamma=0.2).fit(X @ Q, y)
    np.testing.assert_allclose(a.prototype_scores(X), b.prototype_scores(X @ Q), atol=1e-3)


@pytest.mark.parametrize("c", [0.01, 7.0, 1e5])
def test_scaled_kernel(data, c):
    """T19: (K -> cK, C -> C/c) keeps the scores and divides P, D and E by c."""
    X, y = data
    own = assign(y, [2, 2, 2])
    K = ref.rbf(X, X, 0.3)
    a = static(own, kernel="precomputed", C=0.5).fit(K, y)
    b = static(own, kernel="precomputed", C=0.5 / c).fit(c * K, y)
    np.testing.assert_allclose(a.prototype_scores(K), b.prototype_scores(c * K), atol=1e-3)
    assert b.certificate_.primal * c == pytest.approx(a.certificate_.primal, rel=3e-8)
    assert b.certificate_.dual * c == pytest.approx(a.certificate_.dual, rel=3e-8)
    assert b.energy_ * c == pytest.approx(a.energy_, rel=1e-4)


@pytest.mark.parametrize("c", [0.25, 16.0])
@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
def test_scaled_data_anneal_alike(data, c, kernel):
    """Temperatures count in multiples of C: scaled by a power of two, the same draws."""
    X, y = data
    scale = np.sqrt(c)
    given_a, given_b = (X, scale * X) if kernel == "linear" else (X @ X.T, c * X @ X.T)
    model = MultiPrototypeSVC(2, intercept="none", kernel=kernel, init="random", random_state=0)
    a = clone(model).fit(given_a, y)
    b = clone(model).set_params(C=1.0 / c).fit(given_b, y)
    np.testing.assert_array_equal(a.assignment_, b.assignment_)
    assert b.energy_ * c == pytest.approx(a.energy_, rel=1e-5)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_examples_twice(data, kernel):
    """T20 for the static problem: everything twice with C/2, and everything twice is weight two."""
    X, y = data
    own = assign(y, [2, 2, 2])
    twice, labels, owns = np.vstack([X, X]), np.append(y, y), np.append(own, own)
    once = static(own, kernel=kernel, gamma=0.3, C=0.2).fit(X, y)
    halved = static(owns, kernel=kernel, gamma=0.3, C=0.1).fit(twice, labels)
    weighted = static(own, kernel=kernel, gamma=0.3, C=0.1).fit(X, y, np.full(120, 2.0))
    for other in [halved, weighted]:
        assert once.certificate_.primal == pytest.approx(other.certificate_.primal, rel=3e-8)
        np.testing.assert_allclose(once.prototype_scores(X), other.prototype_scores(X), atol=1e-3)


@pytest.mark.parametrize("init", ["kmeans", "random"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_weight_is_repetition(data, init, kernel, form):
    """The first assignment and the static problem cannot tell an example of weight two from two."""
    X, y = data
    weight = np.random.default_rng(0).integers(0, 4, size=120)
    model = MultiPrototypeSVC(
        2, C=0.3, kernel=kernel, gamma=0.3, init=init, assignment="static", tol=1e-8, random_state=0
    )
    a = clone(model).fit(form(X), y, sample_weight=weight)
    b = clone(model).fit(form(np.repeat(X, weight, axis=0)), np.repeat(y, weight))
    np.testing.assert_array_equal(np.repeat(a.assignment_, weight), b.assignment_)
    assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=3e-8)
    np.testing.assert_allclose(a.prototype_scores(X), b.prototype_scores(X), atol=1e-3)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_weight_is_repetition_for_greedy_rounds_where_nothing_is_close(kernel):
    """Clusters that k-means finds: greedy rounds have one way to go."""
    rng = np.random.default_rng(0)
    X = np.repeat([[4.0, 4], [-4, -4], [4, -4], [-4, 4]], 10, axis=0)
    X, y = X + 0.4 * rng.normal(size=(40, 2)), np.repeat([0, 0, 1, 1], 10)
    weight = rng.integers(1, 4, size=40)
    model = MultiPrototypeSVC(
        2, kernel=kernel, gamma=0.1, assignment="greedy", init="kmeans", tol=1e-8, random_state=0
    )
    a = clone(model).fit(X, y, sample_weight=weight)
    b = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_array_equal(np.repeat(a.assignment_, weight), b.assignment_)
    assert a.energy_ == pytest.approx(b.energy_, rel=1e-6)
    np.testing.assert_allclose(a.prototype_scores(X), b.prototype_scores(X), atol=1e-3)


def test_class_weight_is_sample_weight(data):
    X, y = data
    by_class = {0: 2.0, 1: 0.5, 2: 1.0}
    weight = np.array([2.0, 0.5, 1.0])[y]
    for assignment in ["static", "greedy", "annealed"]:
        model = MultiPrototypeSVC(2, assignment=assignment, random_state=0)
        a = clone(model).set_params(class_weight=by_class).fit(X, y)
        b = clone(model).fit(X, y, sample_weight=weight)
        np.testing.assert_array_equal(a.prototypes_, b.prototypes_)


# -- the same data in other forms ------------------------------------------------------------------


def test_linear_forms(data):
    """Dense, CSR, CSC, the Gram matrix, float32, other memory orders: one static problem."""
    X, y = data
    X = np.round(8 * X) / 8  # exact in float32
    own = assign(y, [2, 2, 2])
    reference = static(own, C=0.02, intercept="none").fit(X, y)
    scores = reference.prototype_scores(X)
    forms = {
        "csr": sparse.csr_array(X), "csc": sparse.csc_array(X), "float32": X.astype(np.float32),
        "csr32": sparse.csr_array(X.astype(np.float32)), "fortran": np.asfortranarray(X),
        "view": np.repeat(X, 2, axis=0)[::2], "list": X.tolist(),
    }  # fmt: skip
    for name, form in forms.items():
        model = static(own, C=0.02, intercept="none").fit(form, y)
        assert model.energy_ == pytest.approx(reference.energy_, rel=1e-5), name
        np.testing.assert_allclose(model.prototype_scores(form), scores, atol=1e-3, err_msg=name)
    K = X @ X.T
    for kernel in ["precomputed", lambda a, b: a @ b.T]:
        model = static(own, C=0.02, kernel=kernel).fit(K if kernel == "precomputed" else X, y)
        assert model.certificate_.primal == pytest.approx(reference.certificate_.primal, rel=3e-8)
        found = model.prototype_scores(K if kernel == "precomputed" else X)
        np.testing.assert_allclose(found, scores, atol=1e-3)


def test_rbf_forms(data):
    X, y = data
    own = assign(y, [2, 2, 2])
    reference = static(own, kernel="rbf", gamma=0.2).fit(X, y)
    scores = reference.prototype_scores(X)
    others = [
        (static(own, kernel="rbf", gamma=0.2), sparse.csr_array(X)),
        (static(own, kernel="rbf", gamma=0.2, cache_mb=0.02), X),
        (static(own, kernel="precomputed"), ref.rbf(X, X, 0.2)),
        (static(own, kernel=lambda a, b: ref.rbf(a, b, 0.2)), X),
    ]
    for model, form in others:
        model.fit(form, y)
        assert model.certificate_.primal == pytest.approx(reference.certificate_.primal, rel=3e-8)
        np.testing.assert_allclose(model.prototype_scores(form), scores, atol=1e-3)


def test_linear_is_poly_of_degree_one(data):
    X, y = data
    own = assign(y, [2, 2, 2])
    a = static(own).fit(X, y)
    b = static(own, kernel="poly", degree=1, gamma=1.0, coef0=1.0).fit(X, y)
    np.testing.assert_allclose(a.prototype_scores(X), b.prototype_scores(X), atol=1e-3)


@pytest.mark.parametrize("assignment", ["greedy", "annealed"])
def test_dense_and_sparse_find_equally_good_assignments(data, assignment):
    """In the mean of seeds: rounding decides in which of several optima a single fit ends.

    Energies of single fits differ by 10 % (standard deviation), the means by 3 %; the random
    assignment that all of them begin with has 60 % more.
    """
    X, y = data
    energies, scores = [], []
    for form in (X, sparse.csr_array(X)):
        model = MultiPrototypeSVC(2, assignment=assignment, init="random")
        fits = [clone(model).set_params(random_state=seed).fit(form, y) for seed in range(20)]
        energies.append(np.mean([fit.energy_ for fit in fits]))
        scores.append(np.mean([fit.score(form, y) for fit in fits]))
    assert energies[0] == pytest.approx(energies[1], rel=0.15)
    assert scores[0] == pytest.approx(scores[1], abs=0.05)


@pytest.mark.parametrize("seed", range(2))
def test_memory_for_kernel_rows_does_not_matter(data, seed):
    X, y = data
    model = MultiPrototypeSVC(2, kernel="rbf", random_state=seed, annealing=Annealing(cooling=0.3))
    a, b = clone(model).fit(X, y), clone(model).set_params(cache_mb=0.02).fit(X, y)
    assert a.energy_ == pytest.approx(b.energy_, rel=0.05)


def test_one_of_several_restarts_is_the_best(data):
    """The first restart is the fit without restarts; more restarts are never worse."""
    X, y = data
    for assignment in ["greedy", "annealed"]:
        gains = []
        for seed in range(4):
            model = MultiPrototypeSVC(3, assignment=assignment, random_state=seed)
            one, two, four = (
                clone(model).set_params(n_restarts=n).fit(X, y).energy_ for n in [1, 2, 4]
            )
            assert one >= two >= four
            gains.append(one - four)
        assert max(gains) > 0


# -- other forms of the classifier: T21, T22 -------------------------------------------------------


def decision_graph(f, prototype_class):
    """T21: compare the first candidate with the last, drop the loser, until one class is left."""
    r, s = 0, len(f) - 1
    while prototype_class[r] != prototype_class[s]:
        if f[r] > f[s]:
            s -= 1
        else:
            r += 1
    return prototype_class[r]


def network(f, prototype_class):
    """T22 in the corrected form: comparisons, conjunctions (0 or 1), disjunctions."""
    R = len(f)
    pairs = {
        (r, s): np.sign(f[r] - f[s])
        for r in range(R)
        for s in range(R)
        if prototype_class[r] < prototype_class[s]
    }
    conjunctions = np.zeros(R)
    for v in range(R):
        wins = sum(o for (r, _), o in pairs.items() if r == v)
        wins -= sum(o for (_, s), o in pairs.items() if s == v)
        conjunctions[v] = wins > np.sum(prototype_class != prototype_class[v]) - 0.5
    n_classes = prototype_class.max() + 1
    outputs = [conjunctions[prototype_class == c].sum() > 0.5 for c in range(n_classes)]
    return np.flatnonzero(outputs)


@settings(max_examples=100)
@given(counts=st.lists(st.integers(1, 4), min_size=2, max_size=5), seed=st.integers(0, 10**6))
def test_graph_and_network_are_the_classifier(counts, seed):
    prototype_class = np.repeat(np.arange(len(counts)), counts)
    f = np.random.default_rng(seed).normal(size=len(prototype_class))
    best = prototype_class[f.argmax()]
    assert decision_graph(f, prototype_class) == best
    np.testing.assert_array_equal(network(f, prototype_class), [best])


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_graph_and_network_of_a_trained_model(data, kernel):
    X, y = data
    model = MultiPrototypeSVC([1, 3, 2], kernel=kernel, random_state=0)
    model.fit(X, np.array(["b", "a", "c"])[y])
    prototype_class = np.searchsorted(model.classes_, model.prototype_classes_)
    assert (np.diff(prototype_class) >= 0).all()
    Z = np.random.default_rng(0).normal(size=(100, 6))
    scores, labels = model.prototype_scores(Z), model.predict(Z)
    for f, label in zip(scores, labels, strict=True):
        assert model.classes_[decision_graph(f, prototype_class)] == label
        np.testing.assert_array_equal(model.classes_[network(f, prototype_class)], [label])


def test_graph_has_a_node_per_pair_of_classes():
    q, n_classes = 3, 4
    prototype_class = np.repeat(np.arange(n_classes), q)
    nodes = set()
    todo = [(0, q * n_classes - 1)]
    while todo:
        r, s = todo.pop()
        if (r, s) in nodes or prototype_class[r] == prototype_class[s]:
            continue
        nodes.add((r, s))
        todo += [(r + 1, s), (r, s - 1)]
    assert len(nodes) == q**2 * n_classes * (n_classes - 1) // 2


def test_more_prototypes_may_cost_more():
    """Four points on a line, C = 10: the energy is 0.25 with one prototype per class, 0.5 with two
    that are both used."""
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    y = np.array([0, 0, 1, 1])
    one = MultiPrototypeSVC(1, C=10.0, intercept="none", tol=1e-9).fit(X, y)
    assert one.energy_ == pytest.approx(0.25, rel=1e-6)
    own = np.array([0, 1, 2, 3])
    two = static(own, C=10.0, intercept="none").fit(X, y)
    assert two.certificate_.primal == pytest.approx(0.5, rel=1e-6)
