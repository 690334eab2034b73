"""The learned metric of linear prototypes."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from prototype_reference import encoded, slacks
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score

from polymargin import Annealing, MultiPrototypeSVC, MultiPrototypeSVCCV, regularization_path
from polymargin.estimators.callbacks import watched
from polymargin.export import ExportModel
from polymargin.problem.kernels import Kernel
from polymargin.problem.machines import MACHINES
from polymargin.problem.problem import Problem
from polymargin.solvers import solve
from polymargin.solvers.metric_learning import Metric, learn_metric, prototype_metric
from polymargin.solvers.run import Run, Stop


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:700] / 16, y[:700]


@pytest.fixture(scope="module")
def fitted(digits):
    return machine().fit(*digits)


def machine(**changes):
    settings = {"n_prototypes": 3, "C": 0.1, "random_state": 0, "metric": "learned"}
    return MultiPrototypeSVC(**(settings | changes))


def energy(model, X, y, C, before=(0.0, 0.0)):
    """E in the metric, from its definition; ``before``: prototypes and intercepts of a centre."""
    M, b = model.prototypes_ - before[0], model.intercept_ - before[1]
    norm2 = np.trace(M @ np.linalg.inv(model.metric_) @ M.T) + (b**2).sum()
    label, prototype_class = encoded(model, y)
    slack = slacks(model.prototype_scores(X), label, prototype_class)
    return 0.5 * norm2 + C * slack.min(axis=1).sum()


# -- the matrix --------------------------------------------------------------------------------


def test_prototypes_cost_the_same_in_their_metric():
    W = np.random.default_rng(0).normal(size=(7, 20)) * np.geomspace(1.0, 100.0, 20)
    A = prototype_metric(W).matrix
    assert np.trace(W @ np.linalg.inv(A) @ W.T) == pytest.approx((W**2).sum())
    shape = 0.9 * W.T @ W / (W**2).sum() + 0.1 * np.eye(20) / 20
    np.testing.assert_allclose(A / np.trace(A), shape, atol=1e-12)


@pytest.mark.parametrize("factor", [1e-100, 1e-3, 1e100])
def test_scale_of_prototypes_does_not_matter(factor):
    W = np.random.default_rng(0).normal(size=(7, 5))
    np.testing.assert_allclose(
        prototype_metric(W).matrix, prototype_metric(factor * W).matrix, rtol=1e-9
    )


def test_no_prototypes_no_metric():
    np.testing.assert_array_equal(prototype_metric(np.zeros((4, 3))).matrix, np.eye(3))


def test_prototypes_there_and_back():
    rng = np.random.default_rng(1)
    metric, X, W = prototype_metric(rng.normal(size=(9, 6))), *rng.normal(size=(2, 8, 6))
    np.testing.assert_allclose(metric.root @ metric.root, metric.matrix, atol=1e-12)
    np.testing.assert_allclose(metric.on_features(metric.prototypes(W)), W)
    np.testing.assert_allclose(metric.rows(X) @ metric.prototypes(W).T, X @ W.T)
    np.testing.assert_allclose(metric.rows(sp.csr_array(X)), metric.rows(X))
    assert metric.rows(X.astype(np.float32)).dtype == np.float32


# -- the machine -------------------------------------------------------------------------------


def test_energy_is_that_of_the_metric(digits, fitted):
    assert fitted.energy_ == pytest.approx(energy(fitted, *digits, 0.1), rel=1e-9)
    assert fitted.certificate_.relative_gap <= 1e-3
    assert fitted.certificate_.primal >= fitted.energy_ * (1.0 - 1e-12)


def test_dual_variables_make_the_prototypes(fitted):
    M = fitted.dual_coef_.T @ fitted.support_vectors_ @ fitted.metric_
    np.testing.assert_allclose(fitted.prototypes_, M, atol=1e-9)


def test_is_the_plain_machine_on_mapped_rows(digits):
    X, y = digits
    model = machine(assignment="static", tol=1e-9).fit(X, y)
    metric = Metric.of(model.metric_)
    plain = MultiPrototypeSVC(3, C=0.1, assignment="static", init=model.assignment_, tol=1e-9).fit(
        metric.rows(X), y
    )
    assert not hasattr(plain, "metric_")
    np.testing.assert_allclose(model.prototypes_, metric.on_features(plain.prototypes_), atol=1e-4)
    assert model.energy_ == pytest.approx(plain.energy_, rel=1e-7)


def test_first_assignment_teaches_the_metric(digits):
    X, y = digits
    model = machine(assignment="static", tol=1e-8).fit(X, y)
    plain = machine(assignment="static", metric="euclidean", tol=1e-8).fit(X, y)
    np.testing.assert_array_equal(model.assignment_, plain.assignment_)
    expected = prototype_metric(plain.prototypes_).matrix
    np.testing.assert_allclose(model.metric_, expected, atol=1e-3 * np.abs(expected).max())


def test_finds_the_directions_that_matter():
    """Six clusters on a circle in the first two of 40 features; the others are noise."""
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 6, size=300)
    y = cluster % 3
    X = rng.normal(size=(300, 40))
    angle = np.pi / 3 * cluster
    X[:, :2] = 2.2 * np.column_stack([np.cos(angle), np.sin(angle)])
    X[:, :2] += 0.3 * rng.normal(size=(300, 2))
    known = {"n_prototypes": 2, "C": 1.0}
    plain = cross_val_score(machine(**known, metric="euclidean"), X, y, cv=3).mean()
    learned = cross_val_score(machine(**known), X, y, cv=3).mean()
    assert learned > plain + 0.02
    weight = np.diag(machine(**known).fit(X, y).metric_)
    assert weight[:2].min() > 1.5 * weight[2:].max()


def test_deterministic_and_restarts(digits, fitted):
    again = machine().fit(*digits)
    np.testing.assert_array_equal(again.prototypes_, fitted.prototypes_)
    best = machine(n_restarts=3, n_jobs=2).fit(*digits)
    assert best.energy_ <= fitted.energy_
    np.testing.assert_array_equal(best.metric_, fitted.metric_)


def test_sparse_rows_and_float32(digits, fitted):
    X, y = digits
    model = machine().fit(sp.csr_array(X), y)
    assert (model.predict(X) == fitted.predict(X)).mean() > 0.97
    # rounding changes draws, so that only metrics without draws can be compared
    dense, sparse = (
        machine(assignment="greedy").fit(rows, y).metric_ for rows in (X, sp.csr_array(X))
    )
    np.testing.assert_allclose(sparse, dense, atol=0.02 * dense.max())
    assert machine().fit(X.astype(np.float32), y).score(X, y) > 0.98


def test_fitting_again_without_it_forgets_it(digits):
    model = machine().fit(*digits)
    model.set_params(metric="euclidean").fit(*digits)
    assert not hasattr(model, "metric_")


def test_time_limit(digits):
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = machine(n_prototypes=20, max_time=1e-6).fit(*digits)
    assert model.status_ == "max_time"
    assert model.predict(digits[0]).shape == digits[1].shape


def task(digits, n_prototypes=3):
    """A problem with its first assignment, as ``learn_metric`` gets it."""
    X, y = digits
    own = y * n_prototypes + np.random.default_rng(0).integers(n_prototypes, size=len(y))
    prototype_class = np.repeat(np.arange(10), n_prototypes)
    kernel, cap = Kernel("linear", offset=1.0), np.full(len(y), 0.1)
    return Problem(MACHINES["cs"], kernel, X, y, cap, own, prototype_class)


def learn(problem, annealing, run):
    """What is learned, and the temperature of every check on the way (0 without draws)."""
    temperatures = []
    plan = None if annealing is None else annealing.schedule(0.1)
    watcher = lambda check, snapshot: bool(temperatures.append(check.temperature))  # noqa: E731
    return learn_metric(problem, run, plan, (watcher,)), np.array(temperatures)


def test_two_static_problems_with_draws_in_between(digits):
    problem = task(digits, 5)
    learned, temperatures = learn(problem, Annealing(), Run(Stop(1e-5)))
    whole = Annealing().temperatures(0.1)
    np.testing.assert_array_equal(temperatures[temperatures > 0.0], whole[whole > 0.15])
    assert (temperatures[0], temperatures[-1]) == (0.0, 0.0)
    np.testing.assert_array_equal(learned.schedule.temperatures, whole[whole <= 0.15])
    assert (learned.own != problem.own).any()
    # the metric that stays is that of the static problem without a metric
    plain = solve(problem.changed(own=learned.own), Run(Stop(1e-8))).judgement
    expected = prototype_metric(plain.W * plain.scale).matrix
    found = learned.metric.matrix
    np.testing.assert_allclose(found, expected, atol=1e-2 * np.abs(expected).max())


def test_the_fit_goes_on_with_the_draws_that_are_left(fitted):
    assert fitted.history_["temperature"].max() <= 0.15


@pytest.mark.parametrize(
    ("annealing", "count"),
    [(None, 3), (Annealing(), 1), (Annealing(initial_temperature=0.1), 3)],
    ids=["static or greedy", "one prototype", "cold"],
)
def test_one_static_problem_without_hot_draws(digits, annealing, count):
    problem = task(digits, count)
    learned, temperatures = learn(problem, annealing, Run(Stop(1e-3)))
    assert not temperatures.any()
    np.testing.assert_array_equal(learned.own, problem.own)
    if annealing is not None:
        np.testing.assert_array_equal(learned.schedule.temperatures, annealing.temperatures(0.1))


def test_schedule_that_never_cools_down_so_far(digits):
    model = machine(annealing=Annealing(final_temperature=0.3)).fit(*digits)
    assert model.status_ == "converged"
    assert model.history_["temperature"].max() == 0.0


def test_further_restarts_anneal_from_the_start(digits):
    hottest = []
    with watched(lambda check, snapshot: bool(hottest.append(check.temperature == 0.5))):
        machine(n_restarts=2).fit(*digits)
    assert sum(hottest) == 2  # while the metric was learned, and in the second restart


def test_learning_takes_half_of_the_time_at_most(digits, clock):
    clock.restart(look_seconds=0.1)
    run = Run(Stop(1e-14, max_time=100.0))
    learned, _ = learn(task(digits), Annealing(cooling=0.01), run)
    assert learned.found is None
    assert 40.0 < run.seconds < 55.0


def test_passes_are_counted_over_all_parts(digits):
    learned, _ = learn(task(digits), Annealing(), Run(Stop(1e-14, max_iter=80)))
    assert learned.passes == 10 + 20 + 10
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = machine(max_iter=80, tol=1e-14).fit(*digits)
    assert (model.n_iter_, model.status_) == (40, "max_iter")


def test_draws_of_a_lesson_are_shown(digits, capfd):
    model = machine(verbose=1).fit(*digits)
    lines = [line for line in "".join(capfd.readouterr()).splitlines() if "energy" in line]
    assert any("temperature 0.5000" in line for line in lines)
    seconds = [float(line.split()[1]) for line in lines]
    assert seconds == sorted(seconds)
    assert len(lines) > len(model.history_["energy"])


@pytest.mark.parametrize("part", ["first static", "draws", "second static"])
def test_interrupted_learning_keeps_its_best_model(digits, part, clock):
    """Ctrl-C at a look at the clock in each part; only draws are told to those who watch."""
    X, y = digits
    checks, looks = [], []

    def watch(check, snapshot):
        checks.append(check)
        looks.append(clock.looks)
        return False

    clock.restart()
    with watched(watch):
        machine().fit(X, y)
    first, last = (k for k, check in enumerate(checks) if check.iteration == 0)
    middle = {
        "first static": looks[first] // 2,
        "draws": looks[last - 1],
        "second static": (looks[last - 1] + looks[last]) // 2,
    }
    clock.restart(middle[part], "interrupted")
    model = machine()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.status_ == "interrupted"
    assert model.energy_ == pytest.approx(energy(model, X, y, 0.1), rel=1e-9)
    if part == "first static":
        np.testing.assert_allclose(model.metric_, np.eye(64))
    else:
        assert model.score(X, y) > 0.97
        assert np.abs(model.metric_ - np.eye(64)).max() > 0.1


# -- around it ---------------------------------------------------------------------------------


def test_prune_and_partial_fit_stay_in_the_metric(digits):
    X, y = digits
    model = machine(n_prototypes=12).fit(X, y)
    A = model.metric_
    model.prune()
    np.testing.assert_array_equal(model.metric_, A)
    assert model.energy_ == pytest.approx(energy(model, X, y, 0.1), rel=1e-9)
    step = machine().partial_fit(X[:400], y[:400])
    A, before = step.metric_, (step.prototypes_, step.intercept_)
    step.partial_fit(X[400:], y[400:])
    np.testing.assert_array_equal(step.metric_, A)
    assert step.energy_ == pytest.approx(energy(step, X[400:], y[400:], 0.1, before), rel=1e-6)


def test_files_export_and_search(digits, fitted):
    X, y = digits
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).metric_, fitted.metric_)
    scores = ExportModel.from_estimator(fitted).scores(X)
    np.testing.assert_allclose(scores, fitted.decision_function(X), atol=1e-9)
    search = MultiPrototypeSVCCV((1, 2), Cs=(0.1,), cv=2, estimator=machine(), random_state=0)
    assert search.fit(X[:300], y[:300]).metric_.shape == (64, 64)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"metric": "mahalanobis"}, "metric must be one of"),
        ({"metric": None}, "metric must be one of"),
        ({"kernel": "rbf"}, "metric='learned' needs kernel='linear'"),
        ({"kernel": lambda a, b: a @ b.T}, "metric='learned' needs kernel='linear'"),
    ],
)
def test_refusals(digits, changes, match):
    with pytest.raises(ValueError, match=match):
        machine(**changes).fit(*digits)


def test_too_many_features():
    X = np.eye(6, 4001)
    with pytest.raises(ValueError, match="at most 4000 features, X has 4001"):
        machine(n_prototypes=1).fit(X, [0, 1, 2] * 2)


def test_a_path_needs_one_problem(digits):
    with pytest.raises(ValueError, match="a path needs metric='euclidean'"):
        regularization_path(*digits, estimator=machine())
