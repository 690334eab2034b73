"""The parts of the hull solvers, their invariances, and when they end."""

import threading
import warnings

import hull_reference as slow
import numpy as np
import pytest
import reference as ref
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning
from test_convex_hull import clouds

from polymargin import CollapsedModelWarning, ConvexHullSVC
from polymargin.certificate.hull_gap import class_members, linear_minimum, thresholds
from polymargin.solvers.hulls.free_weights import descend_on_face
from polymargin.solvers.hulls.hull_interior_point import interior_point

FIT = {"gamma": 0.3, "tol": 1e-8}


# -- parts ---------------------------------------------------------------------------------------


def feasible(rng, y, caps):
    """A random feasible point: the average of random vertices."""
    members = class_members(y, y.max() + 1)
    return np.mean(
        [linear_minimum(rng.normal(size=len(y)), caps, members) for _ in range(5)], axis=0
    )


@given(st.integers(0, 10**6), st.integers(2, 5))
@settings(max_examples=30)
def test_kbar(seed, n_classes):
    """T14, and Kbar = K o A with A the Gram matrix of codes: positive semi-definite."""
    rng = np.random.default_rng(seed)
    X, y = clouds(20, 3, n_classes, seed)
    K = ref.rbf(X, X, 0.3)
    codes = np.full((n_classes, n_classes), -1 / np.sqrt(n_classes))
    np.fill_diagonal(codes, (n_classes - 1) / np.sqrt(n_classes))
    bar = slow.kbar(K, y)
    np.testing.assert_allclose(bar, K * (codes @ codes.T)[y][:, y])
    assert np.linalg.eigvalsh(bar)[0] >= -1e-12
    u = feasible(rng, y, np.full(20, 0.4))
    V = np.array([np.where(y == k, u, 0.0) for k in range(n_classes)])
    D = V - V.mean(axis=0)
    value = u @ bar @ u
    assert value == pytest.approx(slow.sum_of_distances(u, K, y))
    assert value == pytest.approx(n_classes * np.einsum("ki,ij,kj->", D, K, D))


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_linear_minimum(seed):
    """A32 against a linear program."""
    rng = np.random.default_rng(seed)
    y = np.arange(15) % 3
    g, caps = rng.normal(size=15), rng.uniform(0.21, 0.6, size=15)
    s = linear_minimum(g, caps, class_members(y, 3))
    A = np.array([(y == k).astype(float) for k in range(3)])
    best = linprog(g, A_eq=A, b_eq=np.ones(3), bounds=np.c_[np.zeros(15), caps])
    assert g @ s == pytest.approx(best.fun, abs=1e-9)
    np.testing.assert_allclose(A @ s, 1.0)


def test_thresholds():
    members = [np.arange(3), np.arange(3, 6)]
    g = np.array([1.0, 2, 3, 4, 5, 6])
    u, caps = np.array([0.5, 0.4, 0.1, 0.5, 0.5, 0]), np.full(6, 0.5)
    np.testing.assert_allclose(thresholds(g, u, caps, members), [2.5, 5.5])
    np.testing.assert_allclose(
        thresholds(g, np.array([1.0, 0, 0, 1, 0, 0]), np.ones(6), members), [1, 4]
    )
    np.testing.assert_allclose(thresholds(g, np.full(6, 1 / 3), np.full(6, 1 / 3), members), [3, 6])


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_face(seed):
    """Class sums stay, bounds hold, f falls; without bounds in the way it is the minimum."""
    rng = np.random.default_rng(seed)
    y = np.arange(12) % 3
    X = rng.normal(size=(12, 20))
    H = 2 * slow.kbar(X @ X.T, y)
    u = np.full(12, 0.25)
    new = descend_on_face(H, H @ u, u, np.ones(12), y)
    np.testing.assert_allclose(np.bincount(y, new), 1.0)
    assert new.min() >= 0
    assert new.max() <= 1
    assert new @ H @ new <= u @ H @ u + 1e-12
    wide = descend_on_face(H, H @ u, u + 100, np.full(12, 1e3), y) - 100
    gradient = H @ wide
    for k in range(3):
        np.testing.assert_allclose(np.ptp(gradient[y == k]), 0, atol=1e-8)


def test_large_face():
    """More free weights than an eigendecomposition is worth."""
    X, y = clouds(400, 400)
    H = 2 * slow.kbar(X @ X.T, y)
    u = 1.0 / np.bincount(y)[y]
    wide = descend_on_face(H, H @ u, u + 100, np.full(400, 1e3), y) - 100
    gradient = H @ wide
    assert max(np.ptp(gradient[y == k]) for k in range(3)) < 1e-6 * np.abs(H @ u).max()


@pytest.mark.parametrize("cap", [1.0, 0.15])
def test_interior_point(cap):
    """Near the optimum of a general QP solver; no interior or no time: no point."""
    X, y = clouds(45, 3)
    K, caps = ref.rbf(X, X, 0.3), np.full(45, cap)
    H = 2 * slow.kbar(K, y)
    u = interior_point(H, caps, y, 3, lambda value: 1e-8 * value, lambda: None)
    _, value = slow.solve_qp(K, y, caps)
    assert 0.5 * u @ H @ u == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(np.bincount(y, u), 1.0)
    assert u.min() == 0
    assert u.max() <= cap
    assert interior_point(H, np.full(45, 1 / 15), y, 3, lambda value: 0.0, lambda: None) is None
    assert interior_point(H, caps, y, 3, lambda value: 0.0, lambda: "max_time") is None


def test_noise_with_a_smooth_kernel():
    """Hulls that almost meet: the interior point shows that they do, within rounding."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 2)), np.arange(500) % 2
    with pytest.warns(CollapsedModelWarning):
        model = ConvexHullSVC(1.0, gamma=0.3).fit(X, y)
    assert model.status_ == "hulls_meet"


def test_out_of_precision():
    """A gap below rounding ends as stalled, soon, with the gap in the warning."""
    X, y = clouds(100, 4, 2, seed=5, distance=0.5)
    model = ConvexHullSVC(1.0, gamma=0.3, tol=1e-15)
    with pytest.warns(ConvergenceWarning, match="stalled"):
        model.fit(X, y)
    assert model.n_iter_ < 500_000


def test_scattered_examples_share_the_weight():
    """A narrow kernel: Kbar is diagonal within classes, so equal weights are optimal at once."""
    X, y = clouds(120)
    model = ConvexHullSVC(1.0, gamma=1e3, tol=1e-6).fit(X, y)
    assert model.n_iter_ <= 1  # as reported: at least one
    assert model.weights_ == pytest.approx(1.0 / np.bincount(y)[y])


def test_creeping_pairs():
    """Nearly parallel examples: pairs alone would need a million steps."""
    X, y = clouds(200, 2, 2, seed=5, distance=0.5)
    model = ConvexHullSVC(1.0, gamma=0.5, tol=1e-6, max_iter=200_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    assert model.status_ in ("converged", "hulls_meet")


# -- invariances ---------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.sampled_from(["linear", "rbf"]), st.sampled_from([1.0, 0.15]))
@settings(max_examples=15)
def test_order_and_names_do_not_matter(seed, kernel, eta):
    rng = np.random.default_rng(seed)
    X, y = clouds(45, 6, seed=seed, distance=2.0)
    order = rng.permutation(45)
    names = np.array(["c", "a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = ConvexHullSVC(eta, kernel=kernel, **FIT).fit(X, y)
        two = ConvexHullSVC(eta, kernel=kernel, **FIT).fit(X[order], names[y[order]])
    scores = one.decision_function(X)
    other = two.decision_function(X)[:, [2, 0, 1]]
    np.testing.assert_allclose(other, scores, atol=3e-4 * max(np.abs(scores).max(), 1e-3))


def test_constants_and_factors():
    """A constant added to the kernel changes nothing; a factor multiplies f (T19)."""
    X, y = clouds()
    K = ref.rbf(X, X, 0.3)
    one = ConvexHullSVC(0.2, kernel="precomputed", tol=1e-9).fit(K, y)
    more = ConvexHullSVC(0.2, kernel="precomputed", tol=1e-9).fit(K + 5.0, y)
    larger = ConvexHullSVC(0.2, kernel="precomputed", tol=1e-9).fit(7.0 * K, y)
    assert more.certificate_.primal == pytest.approx(one.certificate_.primal, rel=1e-8)
    assert larger.certificate_.primal == pytest.approx(7 * one.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(more.decision_function(K + 5.0), one.decision_function(K), atol=1e-5)


def test_history_descends():
    X, y = clouds(400)
    history = ConvexHullSVC(0.05, tol=1e-9).fit(X, y).history_
    assert (np.diff(history["primal"]) <= 1e-12).all()
    assert (history["dual"] <= history["primal"][-1] + 1e-12).all()
    assert history["relative_gap"][-1] <= 1e-9
    assert history["active"][-1] < 400


def test_small_cache_changes_nothing():
    X, y = clouds(300)
    models = [ConvexHullSVC(0.05, cache_mb=mb, **FIT).fit(X, y) for mb in (1000, 0.02)]
    np.testing.assert_allclose(
        models[0].decision_function(X), models[1].decision_function(X), atol=1e-4
    )


# -- the end -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("solver", ["smo", "frank_wolfe"])
def test_max_iter(kernel, solver):
    X, y = clouds(200)
    model = ConvexHullSVC(0.04, kernel=kernel, solver=solver, max_iter=3, tol=1e-10)
    with pytest.warns(ConvergenceWarning, match="max_iter") as caught:
        model.fit(X, y)
    assert caught[0].filename == __file__
    assert model.status_ == "max_iter"
    assert model.n_iter_ == 3
    assert 1e-10 < model.certificate_.relative_gap < np.inf


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_no_time_at_all(kernel):
    X, y = clouds(200)
    model = ConvexHullSVC(0.1, kernel=kernel, max_time=1e-9)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.fit(X, y)
    np.testing.assert_allclose(np.bincount(y, model.weights_), 1.0)


def test_threads():
    """Fits in threads, where Ctrl-C is nobody's business."""
    X, y = clouds(100)
    found = []

    def work():
        found.append(ConvexHullSVC(0.1).fit(X, y).certificate_.primal)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]


def test_verbose(capsys):
    X, y = clouds()
    ConvexHullSVC(0.1, verbose=1).fit(X, y)
    assert "gap" in capsys.readouterr().out


@pytest.mark.parametrize("parameters", [{}, {"kernel": "linear"}, {"offset": "kkt"}])
def test_callbacks_see_the_model(parameters):
    callback = pytest.importorskip("sklearn.callback")
    X, y = clouds()
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = ConvexHullSVC(0.1, **parameters).set_callbacks(monitor).fit(X, y)
    scores = [row["accuracy"] for row in monitor.get_logs().data if "accuracy" in row]
    assert scores[-1] == model.score(X, y)


def test_real_data(real_data):
    X, y = real_data("satimage")
    model = ConvexHullSVC(0.02, gamma=1.0).fit(X, y)
    assert model.status_ == "converged"
    assert model.certificate_.relative_gap <= 1e-6
    assert model.score(X, y) > 0.75
