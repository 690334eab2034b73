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
from polymargin.export import ExportModel
from polymargin.solvers import prototypes as alternation
from polymargin.solvers.metric_learning import Metric, prototype_metric
from polymargin.solvers.prototypes import solve_prototypes


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


class Recorder:
    """Notes what every solve was asked for and what came back."""

    def __init__(self, monkeypatch):
        self.calls = []
        monkeypatch.setattr(alternation, "solve_prototypes", self)

    def __call__(self, problem, run, schedule, is_static):
        begun, first = run.seconds, problem.own.copy()
        found = solve_prototypes(problem, run, schedule, is_static)
        temperatures = None if schedule is None else schedule.temperatures
        self.calls.append((begun, run.stop, temperatures, is_static, first, found))
        return found


def test_two_lessons_with_draws_in_between(digits, monkeypatch):
    recorder = Recorder(monkeypatch)
    model = machine(n_prototypes=5, tol=1e-5).fit(*digits)
    first, draws, second, last = recorder.calls
    assert [call[3] for call in recorder.calls] == [True, False, True, False]
    whole = Annealing().temperatures(0.1)
    np.testing.assert_array_equal(draws[2], whole[whole > 0.15])
    np.testing.assert_array_equal(last[2], whole[whole <= 0.15])
    np.testing.assert_array_equal(first[4], draws[4])
    np.testing.assert_array_equal(second[4], draws[5].own)
    np.testing.assert_array_equal(last[4], draws[5].own)
    assert (draws[4] != draws[5].own).any()
    # the metric that stays is that of the static problem without a metric
    plain = machine(
        n_prototypes=5, assignment="static", metric="euclidean", init=draws[5].own, tol=1e-8
    ).fit(*digits)
    expected = prototype_metric(plain.prototypes_).matrix
    np.testing.assert_allclose(model.metric_, expected, atol=1e-2 * np.abs(expected).max())
    assert model.history_["temperature"].max() <= 0.15


@pytest.mark.parametrize(
    "changes",
    [
        {"assignment": "static"},
        {"assignment": "greedy"},
        {"n_prototypes": 1},
        {"annealing": Annealing(initial_temperature=0.1)},
    ],
    ids=["static", "greedy", "one prototype", "cold"],
)
def test_one_lesson_without_hot_draws(digits, monkeypatch, changes):
    recorder = Recorder(monkeypatch)
    machine(**changes).fit(*digits)
    assert [call[3] for call in recorder.calls] == [True, changes.get("assignment") == "static"]
    np.testing.assert_array_equal(recorder.calls[0][4], recorder.calls[1][4])


def test_schedule_that_never_cools_down_so_far(digits):
    model = machine(annealing=Annealing(final_temperature=0.3)).fit(*digits)
    assert model.status_ == "converged"
    assert model.history_["temperature"].max() == 0.0


def test_further_restarts_anneal_from_the_start(digits, monkeypatch):
    recorder = Recorder(monkeypatch)
    machine(n_restarts=2).fit(*digits)
    assert len(recorder.calls) == 5
    assert max(recorder.calls[4][2]) == 0.5


def test_learning_takes_half_of_the_time_at_most(digits, monkeypatch):
    recorder = Recorder(monkeypatch)
    machine(max_time=100.0).fit(*digits)
    shares = [stop.max_time - begun for begun, stop, *_ in recorder.calls[:-1]]
    np.testing.assert_allclose(shares, [12.5, 25.0, 12.5], atol=0.5)
    assert recorder.calls[-1][1].max_time == 100.0


def test_passes_are_counted_over_all_lessons(digits, monkeypatch):
    recorder = Recorder(monkeypatch)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = machine(max_iter=80).fit(*digits)
    *lessons, last = recorder.calls
    assert [call[1].max_iter for call in lessons] == [10, 20, 10]
    used = sum(call[-1].solution.iterations for call in lessons)
    assert last[1].max_iter == 80 - used == model.n_iter_
    assert model.status_ == "max_iter"


def test_draws_of_a_lesson_are_shown(digits, capfd):
    model = machine(verbose=1).fit(*digits)
    lines = [line for line in "".join(capfd.readouterr()).splitlines() if "energy" in line]
    assert any("temperature 0.5000" in line for line in lines)
    seconds = [float(line.split()[1]) for line in lines]
    assert seconds == sorted(seconds)
    assert len(lines) > len(model.history_["energy"])


def test_interrupted_while_it_learns(digits, monkeypatch):
    def solve(problem, run, schedule, is_static):
        run.clock.interrupted = run.interrupted or is_static
        return solve_prototypes(problem, run, schedule, is_static)

    monkeypatch.setattr(alternation, "solve_prototypes", solve)
    model = machine()
    with pytest.raises(KeyboardInterrupt):
        model.fit(*digits)
    assert model.status_ == "interrupted"
    assert model.predict(digits[0]).shape == digits[1].shape


@pytest.mark.parametrize("lesson", [1, 2, 3], ids=["first static", "draws", "second static"])
def test_interrupted_lessons_keep_their_best_model(digits, monkeypatch, lesson):
    X, y = digits
    calls = []

    def solve(problem, run, schedule, is_static):
        calls.append(is_static)
        found = solve_prototypes(problem, run, schedule, is_static)
        run.clock.interrupted = len(calls) == lesson
        return found

    monkeypatch.setattr(alternation, "solve_prototypes", solve)
    model = machine()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert len(calls) == lesson
    assert model.status_ == "interrupted"
    assert model.score(X, y) > 0.97
    assert model.energy_ == pytest.approx(energy(model, X, y, 0.1), rel=1e-9)
    if lesson == 1:
        np.testing.assert_allclose(model.metric_, np.eye(64))


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
