"""Fits that find assignments: annealing, greedy rounds, the global optimum of tiny problems."""

import functools
import itertools

import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping
from prototype_reference import check_model, slacks, static_optimum
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification

from polymargin import Annealing, MultiPrototypeSVC
from polymargin.problem.annealing import find_annealing

PROTOTYPE_CLASS = np.array([0, 0, 0, 1, 2, 2])
FIRST = np.array([0, 3, 4, 6])


@pytest.fixture(scope="module")
def data():
    return make_classification(
        150, 6, n_informative=4, n_classes=3, n_clusters_per_class=2, random_state=0
    )


# -- whole runs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("restoration", ["transfer", "zeroing"])
@pytest.mark.parametrize("sweeps", [1, 5, "descent"])
@pytest.mark.parametrize(
    "parameters",
    [{}, {"kernel": "rbf", "gamma": 0.2}, {"kernel": "rbf", "gamma": 0.2, "cache_mb": 0.02}],
    ids=["linear", "rbf", "few-rows"],
)
def test_every_restoration_ends_feasible(restoration, sweeps, parameters):
    X, y = make_overlapping(n=60)
    annealing = Annealing(2.0, 0.2, sweeps=sweeps, restoration=restoration)
    for form in [np.asarray, sparse.csr_array]:
        model = MultiPrototypeSVC(3, annealing=annealing, random_state=0, **parameters)
        model.fit(form(X), y)
        K = ref.rbf(X, X, 0.2) if parameters else ref.linear(X, X, 1.0)
        check_model(model, K, y, np.ones(60))
        assert model.status_ == "converged"


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_greedy_rounds_zero_where_asked(kernel):
    """Without annealing too; the courses differ, and either end is feasible and certified."""
    X, y = make_overlapping(n=60)
    K = ref.rbf(X, X, 0.2) if kernel == "rbf" else ref.linear(X, X, 1.0)
    duals = {}
    for restoration in ("transfer", "zeroing"):
        model = MultiPrototypeSVC(
            3, kernel=kernel, gamma=0.2, assignment="greedy", init="random", random_state=0,
            annealing=Annealing(restoration=restoration),
        ).fit(X, y)  # fmt: skip
        check_model(model, K, y, np.ones(60))
        assert model.status_ == "converged"
        duals[restoration] = model.history_["dual"].tolist()
    assert duals["transfer"] != duals["zeroing"]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("annealing", ["default", "thorough", "paper", Annealing(1.0, 0.5)])
def test_history(data, kernel, annealing):
    X, y = data
    C = 0.5
    model = MultiPrototypeSVC(2, C=C, kernel=kernel, annealing=annealing, random_state=0)
    history = model.fit(X, y).history_
    assert list(history) == [
        "seconds", "iteration", "primal", "dual", "relative_gap", "active", "steps",
        "temperature", "energy", "changed",
    ]  # fmt: skip
    assert len({len(column) for column in history.values()}) == 1
    for name, column in history.items():
        assert isinstance(column, np.ndarray), name
        assert column.ndim == 1, name
        assert np.isfinite(column).all(), name
    assert (np.diff(history["seconds"]) >= 0).all()
    assert (np.diff(history["iteration"]) >= 0).all()
    assert (np.diff(history["steps"]) >= 0).all()
    assert ((history["changed"] >= 0) & (history["changed"] <= 150)).all()
    assert ((history["active"] >= 0) & (history["active"] <= 150)).all()
    schedule = find_annealing(annealing).temperatures(C)
    hot = history["temperature"][history["temperature"] > 0]
    np.testing.assert_allclose(hot, schedule)
    assert history["temperature"][-1] == 0
    rounding = 1e-4 * history["primal"]
    assert (history["energy"] <= history["primal"] + rounding).all()
    assert (history["dual"] <= history["primal"] + rounding).all()
    assert history["energy"][-1] == model.energy_
    assert history["primal"][-1] == model.certificate_.primal
    assert history["relative_gap"][-1] <= model.tol
    assert history["iteration"][-1] == model.n_iter_
    # the first entry is the zero model: every slack is 1
    assert history["primal"][0] == pytest.approx(C * 150)
    assert history["energy"][0] == pytest.approx(C * 150)


def test_history_of_the_other_assignments(data):
    static = MultiPrototypeSVC(2, assignment="static", random_state=0).fit(*data).history_
    assert len(static["energy"]) >= 1
    assert not static["changed"].any()
    greedy = MultiPrototypeSVC(2, assignment="greedy", random_state=0).fit(*data).history_
    assert not greedy["temperature"].any()
    assert greedy["changed"][-1] == 0


def test_the_best_energy_is_not_given_away(data):
    """What is returned is no worse than what was seen on the way, up to the tolerance."""
    X, y = data
    for seed in range(5):
        for annealing in ["default", "thorough", "paper"]:
            model = MultiPrototypeSVC(3, annealing=annealing, random_state=seed).fit(X, y)
            seen = model.history_["energy"].min()
            assert model.energy_ <= seen * (1 + 3 * model.tol)


def test_greedy_never_climbs(data):
    """From one assignment: static value >= energy >= greedy energy, up to the tolerance."""
    X, y = data
    for kernel in ["linear", "rbf"]:
        for seed in range(3):
            model = MultiPrototypeSVC(3, kernel=kernel, tol=1e-5, random_state=seed)
            static = clone(model).set_params(assignment="static").fit(X, y)
            greedy = clone(model).set_params(assignment="greedy", init=static.assignment_)
            greedy.fit(X, y)
            assert greedy.energy_ <= static.energy_ * (1 + 1e-4)
            assert greedy.stationary_


def test_annealing_beats_greedy_on_average(data):
    X, y = data
    energies = {
        assignment: np.mean(
            [
                MultiPrototypeSVC(
                    3, assignment=assignment, init="random", annealing="thorough", random_state=seed
                ).fit(X, y).energy_
                for seed in range(5)
            ]
        )
        for assignment in ["static", "greedy", "annealed"]
    }  # fmt: skip
    assert energies["annealed"] < energies["greedy"] < energies["static"]


def test_a_hot_end_leaves_the_initial_assignment(data):
    """At a high temperature the draws forget where they came from."""
    X, y = data
    model = MultiPrototypeSVC(2, init=2 * y, annealing=Annealing(100.0, 0.9, 50.0), random_state=0)
    model.fit(X, y)
    assert len(set(model.assignment_)) > 3


def test_stationary_is_said_only_of_what_is(data):
    """A static model of a poor assignment is solved, and not stationary."""
    X, y = data
    rng = np.random.default_rng(0)
    own = 2 * y + rng.integers(2, size=150)
    model = MultiPrototypeSVC(2, init=own, assignment="static", tol=1e-6).fit(X, y)
    xi = slacks(model.prototype_scores(X), y, np.repeat([0, 1, 2], 2))
    excess = (xi[np.arange(150), own] - xi.min(axis=1)).max()
    assert excess > 2e-6
    assert model.status_ == "converged"
    assert not model.stationary_
    assert model.energy_ < model.certificate_.primal


# -- the global optimum of tiny problems: T18 ------------------------------------------------------


def assignments(label, counts):
    """All of them, the first example of each class at its first prototype."""
    first = np.concatenate([[0], np.cumsum(counts)])
    choices = []
    for i, c in enumerate(label):
        is_first = not (label[:i] == c).any()
        choices.append([first[c]] if is_first else range(first[c], first[c + 1]))
    return [np.array(own) for own in itertools.product(*choices)]


def tiny(name):
    if name == "xor":
        X = np.array([[1.0, 1], [-1, -1], [1, -1], [-1, 1]])
        X = np.vstack([X, 1.4 * X + [0.1, -0.05]])
        return X, np.array([0, 0, 1, 1] * 2), [2, 2], 1.0
    seed = int(name[-1])
    rng = np.random.default_rng(seed)
    n_classes = 3 if seed == 1 else 2
    counts = [2] * n_classes
    n = 9 if seed == 1 else 8
    X = rng.normal(size=(n, 2))
    return X, np.arange(n) % n_classes, counts, [0.3, 1.0, 5.0][seed]


@functools.cache
def global_optimum(name, kernel):
    X, y, counts, C = tiny(name)
    K = ref.linear(X, X, 1.0) if kernel == "linear" else ref.rbf(X, X, 0.5)
    prototype_class = np.repeat(np.arange(len(counts)), counts)
    return min(static_optimum(K, own, prototype_class, y, C)[0] for own in assignments(y, counts))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("name", ["xor", "random0", "random1", "random2"])
def test_global_optimum(name, kernel):
    """T18: nine of ten seeds reach it, and nobody goes below."""
    X, y, counts, C = tiny(name)
    best = global_optimum(name, kernel)
    energies = np.array(
        [
            MultiPrototypeSVC(
                counts, C=C, kernel=kernel, gamma=0.5, annealing="thorough", n_restarts=5,
                tol=1e-6, random_state=seed,
            ).fit(X, y).energy_
            for seed in range(10)
        ]
    )  # fmt: skip
    assert energies.min() >= best * (1 - 1e-7)
    assert np.sum(energies <= best * (1 + 1e-5)) >= 9


def test_symmetry_removed_loses_nothing():
    """Every assignment is a renumbering of an enumerated one: the values are the same."""
    X, y, counts, C = tiny("xor")
    X, y = X[:5], y[:5]
    K = ref.linear(X, X, 1.0)
    everything = itertools.product(*[range(2 * c, 2 * c + 2) for c in y])
    values = [
        static_optimum(K, np.array(own), np.array([0, 0, 1, 1]), y, C)[0] for own in everything
    ]
    few = [
        static_optimum(K, own, np.array([0, 0, 1, 1]), y, C)[0] for own in assignments(y, counts)
    ]
    assert len(few) == len(values) // 4
    assert min(values) == pytest.approx(min(few), rel=1e-9)
