"""The regularisation path: every point certified, equal to single fits, whatever the machine."""

from types import SimpleNamespace

import numpy as np
import pytest
from conftest import make_overlapping, make_separable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from polymargin import MACHINES, MulticlassSVC, MultiPrototypeSVC, regularization_path
from polymargin.plots import RegularizationPathDisplay
from polymargin.selection.path.walk import Walk
from polymargin.solvers.run import Run, Stop
from polymargin.solvers.sessions import open_session

CS = np.geomspace(0.01, 3.0, 7)
SETTINGS = [
    (machine, kernel, intercept)
    for machine in ("cs", "ww", "llw", "msvm2")
    for kernel in ("linear", "rbf")
    for intercept in ("none", "penalized", "free")
]


def single(X, y, C, **parameters):
    return MulticlassSVC(C=C, tol=1e-8, max_iter=10**6, random_state=0, **parameters).fit(X, y)


@pytest.mark.parametrize(("machine", "kernel", "intercept"), SETTINGS)
def test_values_bracket_those_of_single_fits(machine, kernel, intercept):
    X, y = make_overlapping(n=48)
    parameters = {"machine": machine, "kernel": kernel, "gamma": 0.2, "intercept": intercept}
    path = regularization_path(X, y, Cs=CS, random_state=0, **parameters)
    assert path.status == "complete"
    assert (path.relative_gap <= 1e-3).all()
    np.testing.assert_allclose(path.gap, path.primal - path.dual, atol=1e-12)
    for at in (0, 3, 6):
        model = single(X, y, CS[at], **parameters)
        certificate = model.certificate_
        assert path.dual[at] <= certificate.primal * (1 + 1e-9)
        assert certificate.dual <= path.primal[at] * (1 + 1e-9)
        # primal is the value of exactly the model of the point
        mine = path.model(at)
        loss = MACHINES[machine].loss(*mine._labelled_scores(X, y))
        value = 0.5 * path.norm2[at] + CS[at] * loss.sum()
        assert value == pytest.approx(path.primal[at], rel=1e-7)
        assert mine.certificate_.relative_gap <= 1e-3
        error = 1.0 - mine.score(X, y)
        assert error == pytest.approx(path.training_error[at])


@pytest.mark.parametrize("machine", ["adm", "atm", "ats", "mmr", "reinforced"])
def test_other_machines(machine):
    X, y = make_overlapping(n=40)
    path = regularization_path(X, y, machine=machine, Cs=CS, random_state=0)
    assert (path.relative_gap <= 1e-3).all()
    best = single(X, y, CS[3], machine=machine).certificate_
    assert path.dual[3] <= best.primal * (1 + 1e-9)
    assert best.dual <= path.primal[3] * (1 + 1e-9)


def test_mixtures_are_certified_without_a_solve():
    X, y = make_overlapping(n=60)
    path = regularization_path(X, y, Cs=np.geomspace(0.1, 0.2, 30), random_state=0)
    assert (path.relative_gap <= 1e-3).all()
    assert path.solved.sum() < 15
    at = int(np.flatnonzero(~path.solved)[0])
    mine = path.model(at)
    scores = X @ path.coef[at].T + path.intercept[at]
    np.testing.assert_allclose(mine.decision_function(X), scores, rtol=1e-10, atol=1e-10)
    T = path.dual_coef[at]
    np.testing.assert_allclose(T.T @ X, path.coef[at], rtol=1e-9, atol=1e-11)
    assert MACHINES["cs"].violation(T, y, np.full(len(y), path.Cs[at])) <= 1e-12
    assert np.count_nonzero(T.any(axis=1)) == path.n_support[at]


def test_data_paths_agree():
    X, y = make_overlapping(n=48)
    y = np.array(["a", "b", "c", "d"])[y]
    dense = regularization_path(X, y, Cs=CS, tol=1e-6, random_state=0)
    csr = regularization_path(sparse.csr_array(X), y, Cs=CS, tol=1e-6, random_state=0)
    gram = regularization_path(
        X @ X.T + 1.0, y, Cs=CS, kernel="precomputed", tol=1e-6, random_state=0
    )
    for other in (csr, gram):
        np.testing.assert_allclose(other.primal, dense.primal, rtol=3e-6)
    # a kernel matrix that does not fit is not kept
    tight = regularization_path(
        X, y, Cs=CS, kernel="rbf", gamma=0.2, cache_mb=0.005, random_state=0
    )
    assert (tight.relative_gap <= 1e-3).all()


def test_kept_kernel_rows():
    """Rows are computed as patterns get weight, and give the scores of all patterns."""
    X, y = make_overlapping(n=40)
    problem = MulticlassSVC(kernel="rbf", gamma=0.3)
    machine = problem._check_parameters()
    ready = problem._prepare(machine, X.astype(np.float32), y, None)
    plain = problem._problem(machine, ready, ready.label, np.arange(4))
    kept = open_session(plain, 1000.0)
    K = rbf_kernel(X.astype(np.float32).astype(float), gamma=0.3)
    rng = np.random.default_rng(0)
    for support in (np.array([3, 30, 7]), np.arange(5, 35, 3), np.array([3])):
        tau = rng.normal(size=(len(support), 4))
        found = kept.known_rows.scores(support, tau)
        np.testing.assert_allclose(found, (K[:, support] @ tau).T, atol=1e-12)
    assert kept.known_rows.count == len({3, 30, 7, *range(5, 35, 3)})
    assert open_session(plain, 1e-3).known_rows is None


@pytest.mark.parametrize("intercept", ["none", "penalized"])
def test_kernel_path_on_few_rows_at_a_time(intercept):
    """A working set that lasts, without and with its rows kept: the same brackets."""
    X, y = make_overlapping(n=300, d=6, seed=5)
    settings = {"kernel": "rbf", "gamma": 0.2, "intercept": intercept, "random_state": 0}
    Cs = np.geomspace(0.05, 50.0, 12)
    whole = regularization_path(X, y, Cs=Cs, **settings)
    scarce = regularization_path(X, y, Cs=Cs, cache_mb=0.2, **settings)
    for found in (whole, scarce):
        assert (found.relative_gap <= 1e-3).all()
        for C, primal, dual in zip(Cs[::4], found.primal[::4], found.dual[::4], strict=True):
            single = MulticlassSVC(C=C, tol=1e-6, **settings).fit(X, y).certificate_
            assert dual <= single.primal * (1 + 1e-9)
            assert single.dual <= primal * (1 + 1e-9)


@pytest.mark.parametrize(
    ("lost", "steps", "length", "share"),
    [(0.2e-3, 4, 3, 0.97), (15e-3, 10, 3, 0.84), (10e-3, 3, 1, 0.98), (1e-3, 2, 1, 0.98)],
)
def test_plan(lost, steps, length, share):
    """How far apart points are solved, and how well, by what mixtures lose."""
    walk = SimpleNamespace(path_run=Run(Stop(1e-3, 100, None)), full=1.3, power=2.9)
    found = Walk.plan(walk, lost, steps)
    assert found == (length, pytest.approx(share, abs=0.01))


def test_weights():
    X, y = make_overlapping(n=48)
    weight = np.random.default_rng(0).uniform(0.2, 2.0, len(y))
    weight[[3, 9]] = 0.0
    for machine in ("cs", "msvm2"):
        path = regularization_path(
            X,
            y,
            machine=machine,
            Cs=CS,
            sample_weight=weight,
            class_weight={1: 2.0},
            random_state=0,
        )
        model = MulticlassSVC(
            machine=machine, C=CS[4], tol=1e-8, class_weight={1: 2.0}, random_state=0
        ).fit(X, y, sample_weight=weight)
        assert path.dual[4] <= model.certificate_.primal * (1 + 1e-9)
        assert model.certificate_.dual <= path.primal[4] * (1 + 1e-9)
        assert path.dual_coef.shape == (7, 48, 4)
        assert not path.dual_coef[:, [3, 9]].any()


def test_static_problem_of_several_prototypes():
    X, y = make_overlapping(n=60, n_classes=3)
    init = 2 * y + (X[:, 0] > 0)
    path = regularization_path(X, y, Cs=CS, n_prototypes=2, init=init, random_state=0)
    assert (path.relative_gap <= 1e-3).all()
    assert path.coef.shape == (7, 6, 5)
    fitted = MultiPrototypeSVC(
        n_prototypes=2, C=CS[4], init=init, assignment="static", tol=1e-8, random_state=0
    ).fit(X, y)
    assert path.dual[4] <= fitted.certificate_.primal * (1 + 1e-9)
    assert fitted.certificate_.dual <= path.primal[4] * (1 + 1e-9)
    model = path.model(4)
    assert model.prototypes_.shape == (6, 5)
    np.testing.assert_array_equal(model.assignment_, init)
    assert model.score(X, y) == pytest.approx(1.0 - path.training_error[4])
    # the assignment of a fitted machine
    free = MultiPrototypeSVC(n_prototypes=2, C=1.0, kernel="rbf", random_state=0).fit(X, y)
    path = regularization_path(X, y, Cs=[0.5, 1.0, 2.0], estimator=free, random_state=0)
    assert path.dual[1] <= free.certificate_.primal * (1 + 1e-9)
    assert free.certificate_.dual <= path.primal[1] * (1 + 1e-9)


def test_automatic_range():
    X, y = make_separable(n=90)
    path = regularization_path(X, y, Cs="wide", n_points=12, random_state=0)
    assert len(path) == 12
    assert (path.relative_gap <= 1e-3).all()
    np.testing.assert_allclose(np.diff(np.log(path.Cs)), np.log(path.Cs[1] / path.Cs[0]))
    # at its end the losses hardly count, at its beginning nearly every example has its full weight
    own = path.dual_coef[0][np.arange(len(y)), y]
    assert (own > 0.999 * path.Cs[0]).mean() > 0.8
    assert 0.5 * path.norm2[-1] >= 0.9 * path.primal[-1]
    # the default: two decades, up to where the losses are a third
    last = regularization_path(X, y, random_state=0)
    assert len(last) == 50
    assert last.Cs[-1] / last.Cs[0] == pytest.approx(100.0)
    assert last.Cs[-1] <= path.Cs[-1] * (1 + 1e-9)
    assert 0.5 * last.norm2[-1] >= 0.6 * last.primal[-1]
    for machine in ("ww", "llw", "msvm2"):
        other = regularization_path(
            X, y, machine=machine, kernel="rbf", gamma=0.3, n_points=6, random_state=0
        )
        assert (other.relative_gap <= 1e-3).all()


@pytest.mark.parametrize("machine", ["cs", "ww", "llw", "msvm2"])
@pytest.mark.parametrize("n_points", [3, 5, 9])
def test_ranges_whose_ends_the_search_has_met(machine, n_points):
    """Labels at random: losses always count, and the ends are steps that were solved roughly."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.random.default_rng(1).integers(3, size=60)
    options = {"machine": machine, "kernel": "rbf", "gamma": 0.1, "random_state": 0}
    lowest = regularization_path(X, y, Cs="wide", n_points=2, **options).Cs[0]
    weight = np.full(60, lowest / 0.01)  # then the search begins at C = .01
    for Cs, low in (("auto", 1.0), ("wide", 0.01)):
        path = regularization_path(X, y, Cs=Cs, n_points=n_points, sample_weight=weight, **options)
        assert len(path.Cs) == n_points
        np.testing.assert_allclose(path.Cs[[0, -1]], [low, 100.0])
        assert (path.relative_gap <= 1e-3).all()


def test_validation_and_picture():
    X, y = make_overlapping(n=120)
    path = regularization_path(
        X[:80], y[:80], kernel="rbf", Cs=CS, X_val=X[80:], y_val=y[80:], random_state=0
    )
    for at in range(len(CS)):
        expected = 1.0 - path.model(at).score(X[80:], y[80:])
        assert path.validation_error[at] == pytest.approx(expected)
    assert path.validation_error[path.best()] == path.validation_error.min()
    record = RegularizationPathDisplay.record(path)
    np.testing.assert_array_equal(record.Cs, path.Cs)
    np.testing.assert_allclose(record.support_share, path.n_support / 80)
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    display = path.plot()
    assert display.ax_.get_xscale() == "log"
    assert display.figure_ is display.ax_.figure


def test_interruption(clock):
    X, y = make_overlapping(n=60)
    settings = {"Cs": np.geomspace(1e-3, 10.0, 9), "random_state": 0}
    regularization_path(X, y, **settings)
    clock.restart(clock.looks // 2, "interrupted")
    with pytest.warns(UserWarning, match="ended early"):
        path = regularization_path(X, y, **settings)
    assert path.status == "interrupted"
    assert len(path) == 9
    assert (path.dual <= path.primal).all()
    assert path.converged.any()
    assert not path.converged.all()


def test_time_limit():
    X, y = make_overlapping(n=60)
    with pytest.warns(UserWarning, match="ended early"):
        path = regularization_path(X, y, max_time=1e-4, random_state=0)
    assert path.status == "max_time"
    assert len(path) == 50


def test_bad_input():
    X, y = make_overlapping(n=40)
    for Cs in ("some", [], [1.0, -1.0], [1.0, np.inf], [np.nan], ["a"]):
        with pytest.raises(ValueError, match="Cs must be"):
            regularization_path(X, y, Cs=Cs)
    with pytest.raises(ValueError, match="n_points"):
        regularization_path(X, y, n_points=1)
    with pytest.raises(ValueError, match="machine"):
        regularization_path(X, y, machine="svm")
    with pytest.raises(ValueError, match="tol"):
        regularization_path(X, y, tol=0.0)
    with pytest.raises(ValueError, match="X_val and y_val"):
        regularization_path(X, y, X_val=X)
    with pytest.raises(ValueError, match="y_val has"):
        regularization_path(X, y, X_val=X, y_val=y[:3])
    with pytest.raises(ValueError, match="n_prototypes"):
        regularization_path(X, y, machine="ww", n_prototypes=2)
    with pytest.raises(ValueError, match="estimator"):
        regularization_path(X, y, estimator="svm")
    with pytest.raises(AttributeError, match="dual_coef"):
        regularization_path(X, y, kernel="rbf", Cs=[1.0]).coef  # noqa: B018
    with pytest.raises(ValueError, match="X_val"):
        regularization_path(X, y, Cs=[1.0]).best()


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(8, 30),
    Q=st.integers(2, 4),
    machine=st.sampled_from(["cs", "ww", "llw", "msvm2"]),
    low=st.floats(1e-3, 1.0),
    factor=st.floats(1.0, 100.0),
)
def test_every_point_is_certified(seed, n, Q, machine, low, factor):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 2)), np.arange(n) % Q
    Cs = np.unique(np.geomspace(low, low * factor, 6))
    path = regularization_path(X, y, machine=machine, Cs=Cs, random_state=0)
    assert (path.relative_gap <= 1e-3).all()
    assert (path.dual <= path.primal * (1 + 1e-12)).all()
    # P*(C) is concave and does not fall: no certified interval may contradict that
    assert (path.dual[:-1] <= path.primal[1:] * (1 + 1e-12)).all()
