"""PatternSMO: every combination against the QP oracle, cache counts by hand, honest endings."""

import warnings
from collections import OrderedDict

import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping, make_separable
from prototype_reference import check_model
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from polymargin import FitMonitor, MulticlassSVC, MultiPrototypeSVC, PatternSMO
from polymargin.compiled.totals import STEPS
from polymargin.solvers.smo.pattern_smo import PATTERNS, SELECTIONS
from polymargin.solvers.smo.rounds import EMPTY_ROUNDS, PatternRounds
from polymargin.solvers.smo.row_cache import row_capacity

GAMMA = 0.3
COUNTS = ["gap", "kernel_rows", "cache_hits", "cache_misses", "patterns"]


def rbf_model(solver, **options):
    given = {"kernel": "rbf", "gamma": GAMMA, "C": 1.0, "tol": 1e-6, "random_state": 0}
    return MulticlassSVC(solver=solver, **(given | options))


@pytest.fixture(scope="module")
def task():
    X, y = make_overlapping(60, 5, 4)
    return X, y, ref.optimum(ref.rbf(X, X, GAMMA), y, 4, 1.0)


def assert_optimal(model, best, tol=1e-6):
    assert model.status_ == "converged"
    assert model.certificate_.relative_gap <= tol
    assert model.certificate_.dual <= best.primal * (1 + 1e-9)
    assert best.dual * (1 - 1e-9) <= model.certificate_.primal <= best.primal * (1 + 1.01 * tol)


# -- the optimum --------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", ["mean", "max"])
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_same_optimum(pattern, selection, threshold, task):
    X, y, best = task
    for rows in (None, 7):
        model = rbf_model(PatternSMO(pattern, selection, threshold, cache_rows=rows)).fit(X, y)
        assert_optimal(model, best)
        history = model.history_
        assert (np.diff(history["dual"]) >= -1e-9).all()
        assert (history["dual"] <= best.primal * (1 + 1e-9)).all()
        assert (history["primal"] >= best.dual * (1 - 1e-9)).all()
        np.testing.assert_allclose(history["gap"], history["primal"] - history["dual"], atol=1e-9)
        assert history["cache_hits"][-1] + history["cache_misses"][-1] == history["patterns"][-1]


@pytest.mark.parametrize("mu", [0.0, 0.9, 1.0])
def test_mu(mu, task):
    X, y, best = task
    assert_optimal(rbf_model(PatternSMO(threshold="max", mu=mu)).fit(X, y), best)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_tolerances(pattern, tol, task):
    """Coarse inner tolerances do not keep the outer one from being reached."""
    X, y, best = task
    model = rbf_model(PatternSMO(pattern, pattern_tol=1e-2), tol=tol).fit(X, y)
    assert_optimal(model, best, tol)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("kind", ["linear", "csr", "precomputed", "callable", "poly", "float32"])
def test_kernels_and_data(pattern, kind):
    X, y = make_overlapping(60, 5, 4)
    X = np.round(X * 8) / 8
    options, data, K = {"kernel": "linear"}, X, X @ X.T
    if kind == "csr":
        X[np.abs(X) < 0.4] = 0.0
        data, K = sparse.csr_array(X), X @ X.T
    elif kind == "precomputed":
        options, data = {"kernel": "precomputed"}, K
    elif kind == "callable":
        options, K = {"kernel": lambda a, b: ref.rbf(a, b, GAMMA)}, ref.rbf(X, X, GAMMA)
    elif kind == "poly":
        options = {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.2}
        K = (0.2 * X @ X.T + 1.0) ** 2
    elif kind == "float32":
        data = X.astype(np.float32)
    best = ref.optimum(K + 0.25, y, 4, 0.3)
    model = MulticlassSVC(
        C=0.3, intercept="penalized", intercept_scaling=0.5, tol=1e-4, random_state=0,
        solver=PatternSMO(pattern, cache_rows=20), **options,
    ).fit(data, y)  # fmt: skip
    assert_optimal(model, best, 1e-4)
    if kind in ("linear", "csr"):
        assert model.coef_.shape == (4, 5)
        plain = MulticlassSVC(C=0.3, intercept_scaling=0.5, tol=1e-9).fit(data, y)
        scores = plain.decision_function(data)
        np.testing.assert_allclose(model.decision_function(data), scores, atol=0.1)


def test_weights(task):
    X, y, _ = task
    weight = np.random.default_rng(5).uniform(0.3, 3.0, size=60)
    weight[[3, 17]] = 0.0
    kept = weight > 0
    K = ref.rbf(X[kept], X[kept], GAMMA)
    best = ref.optimum(K, y[kept], 4, weight[kept])
    model = rbf_model(PatternSMO()).fit(X, y, sample_weight=weight)
    assert_optimal(model, best)


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("pattern", [name for name in PATTERNS if name != "fixed-point"])
def test_hard_margin(pattern, selection):
    X, y = make_separable(40, 5, 3)
    best = ref.optimum(ref.rbf(X, X, 0.5), y, 3, np.inf)
    solver = PatternSMO(pattern, selection)
    model = rbf_model(solver, gamma=0.5, C=np.inf, tol=1e-4, max_iter=50_000).fit(X, y)
    assert model.status_ == "converged"
    assert model.certificate_.primal == pytest.approx(best.primal, rel=1e-4)


def test_two_classes_and_warm_start():
    X, y = make_overlapping(40, 3, 2)
    model = rbf_model(PatternSMO(), warm_start=True).fit(X, y)
    first = model.decision_function(X)
    assert first.shape == (40,)
    model.fit(X, y)
    assert model.history_["patterns"][-1] == 0
    assert model.history_["kernel_rows"][-1] == len(model.support_)  # behind the first scores
    np.testing.assert_allclose(model.decision_function(X), first)


def test_zero_vectors():
    X, y = make_overlapping(40, 3, 3)
    X[[1, 5]] = 0.0
    best = ref.optimum(X @ X.T, y, 3, 1.0)
    for pattern in PATTERNS:
        model = MulticlassSVC(
            intercept="none", tol=1e-6, solver=PatternSMO(pattern), random_state=0
        ).fit(X, y)
        assert_optimal(model, best)


# -- several prototypes per class ---------------------------------------------------------------


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_static_multi_prototype(pattern, kernel):
    X, y = make_overlapping(60, 4, 3)
    given = {
        "n_prototypes": 2, "C": 0.5, "kernel": kernel, "gamma": GAMMA, "assignment": "static",
        "tol": 1e-6, "random_state": 0, "init": (2 * y + np.arange(60) // 3 % 2),
    }  # fmt: skip
    plain = MultiPrototypeSVC(**given).fit(X, y)
    model = MultiPrototypeSVC(solver=PatternSMO(pattern, cache_rows=30), **given).fit(X, y)
    assert model.status_ == "converged"
    np.testing.assert_array_equal(model.assignment_, plain.assignment_)
    assert model.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=2e-6)
    assert model.energy_ == pytest.approx(plain.energy_, rel=1e-3)
    np.testing.assert_allclose(model.prototype_scores(X), plain.prototype_scores(X), atol=0.02)
    assert set(COUNTS) <= set(model.history_)


@pytest.mark.parametrize(
    ("kernel", "assignment", "annealing", "solver"),
    [
        ("rbf", "annealed", "paper", PatternSMO("basic", "kkt", "max", cache_rows=10)),
        ("rbf", "annealed", "default", PatternSMO("exact", "core")),
        ("rbf", "greedy", "paper", PatternSMO("opt-kkt", "bmg", "mean")),
        ("linear", "annealed", "default", PatternSMO("all-pairs", "amg", "mean")),
        ("linear", "greedy", "default", PatternSMO("opt-kkt", "kkt", "log")),
    ],
)
def test_inner_solver_of_the_alternation(kernel, assignment, annealing, solver):
    """Static problems between reassignments: the end is certified by arithmetic of the test."""
    X, y = make_overlapping(45, 4, 3)
    given = {
        "n_prototypes": 2, "kernel": kernel, "gamma": GAMMA, "assignment": assignment,
        "annealing": annealing, "random_state": 0, "intercept": "none",
    }  # fmt: skip
    model = MultiPrototypeSVC(solver=solver, **given)
    if solver.threshold == "log":  # what was reached is certified all the same
        with pytest.warns(ConvergenceWarning, match="logarithmic threshold"):
            assert model.fit(X, y).certificate_.relative_gap < 0.5
        return
    model.fit(X, y)
    K = ref.rbf(X, X, GAMMA) if kernel == "rbf" else ref.linear(X, X)
    check_model(model, K, y, np.ones(45))
    assert model.status_ == "converged"
    assert model.stationary_
    plain = MultiPrototypeSVC(**given).fit(X, y)
    assert model.energy_ == pytest.approx(plain.energy_, rel=0.1)
    assert (np.diff(model.history_["seconds"]) >= 0).all()
    assert {"temperature", "energy", "changed"} <= set(model.history_)


def test_one_prototype_per_class_is_crammer_singer(task):
    X, y, best = task
    model = MultiPrototypeSVC(
        1, kernel="rbf", gamma=GAMMA, assignment="static", tol=1e-6, solver=PatternSMO()
    ).fit(X, y)
    assert_optimal(model, best)
    model.prune()
    assert model.status_ == "converged"


# -- endings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", ["kkt", "amg", "bmg"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_log_stalls_honestly(pattern, selection, task):
    X, y, best = task
    model = rbf_model(PatternSMO(pattern, selection, "log"))
    with pytest.warns(ConvergenceWarning, match=r"stalled.*threshold='mean'"):
        model.fit(X, y)
    assert model.status_ == "stalled"
    certificate = model.certificate_
    assert 1e-6 < certificate.relative_gap < 0.5
    assert certificate.dual <= best.primal <= certificate.primal


@pytest.mark.parametrize(("selection", "theta0"), [("kkt", 1e-4), ("bmg", 1e-9)])
def test_log_with_a_small_start_converges(selection, theta0, task):
    X, y, best = task
    model = rbf_model(PatternSMO("exact", selection, "log", theta0=theta0), tol=1e-4).fit(X, y)
    assert_optimal(model, best, 1e-4)


def test_log_law():
    """theta_0 / log10(t + 10), rounds that select nothing only counted, an end after many."""
    run = object.__new__(PatternRounds)
    run.values, run.theta0, run.round = np.array([0.2, 0.5, 1.0]), None, 0
    chosen = run.cool()  # 1 / log10(10) = 1: nothing is above, 1 / log10(11): the last one
    assert (run.theta0, run.round) == (1.0, 1)
    np.testing.assert_array_equal(chosen, [2])
    run.values = np.array([0.2, 0.5, 0.0])
    np.testing.assert_array_equal(run.cool(), [1])
    assert run.round == 91  # log10(101) > 2
    run.values = np.array([0.2, 0.0, 0.0])
    assert run.cool() is None
    assert run.round == 91 + EMPTY_ROUNDS


def test_max_iter(task):
    X, y, _ = task
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = rbf_model(PatternSMO(), max_iter=2).fit(X, y)
    assert model.status_ == "max_iter"
    assert model.n_iter_ == 2
    assert model.certificate_.gap < np.inf


def noise():
    rng = np.random.default_rng(0)
    return rng.normal(size=(4000, 20)), rng.integers(5, size=4000)


@pytest.mark.parametrize("rows", [None, 50])
def test_max_time(rows, clock):
    X, y = noise()
    clock.restart(look_seconds=0.01)
    model = rbf_model(PatternSMO(cache_rows=rows), tol=1e-12, C=100.0, max_time=1.0, max_iter=10**9)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.fit(X, y)
    assert model.status_ == "max_time"
    assert model.history_["seconds"][-1] < 1.5
    assert 0 < model.certificate_.dual < model.certificate_.primal


def test_interrupt_keeps_the_model(clock):
    X, y = noise()
    model = rbf_model(PatternSMO("exact"), tol=1e-12, C=100.0, max_iter=10**9)
    clock.restart(last=20, end="interrupted")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.status_ == "interrupted"
    assert model.predict(X[:3]).shape == (3,)


# -- counts, bits, history ------------------------------------------------------------------------


def count_by_hand(sequence, capacity):
    """Hits and misses of a least-recently-used cache."""
    cache, hits, misses = OrderedDict(), 0, 0
    for p in sequence:
        if p in cache:
            hits += 1
            cache.move_to_end(p)
            continue
        misses += 1
        if len(cache) == capacity:
            cache.popitem(last=False)
        cache[p] = True
    return hits, misses


@pytest.mark.parametrize("capacity", [1, 2, 10, 25, 60])
@pytest.mark.parametrize("selection", ["kkt", "bmg", "core"])
def test_cache_counts(capacity, selection, task, put_method):
    """The rows asked for, one after the other, through a cache simulated by hand."""
    X, y, _ = task
    asked = []

    class OneStep(PatternRounds):
        """Returns after every step."""

        def optimise(self, queue):
            every, self.every = self.every, 1
            self.checked_at, checked_at = int(self.counters[STEPS]), self.checked_at
            is_done = super().optimise(queue)
            if self.counters[STEPS] > self.checked_at:
                asked.append(int(queue[self.begin - 1]))
            self.every, self.checked_at = every, checked_at
            if self.progress.why_stop() or self.counters[STEPS] - checked_at >= every:
                return is_done
            return self.begin >= len(queue) or self.optimise(queue)

    put_method("PatternSMO", OneStep)
    model = rbf_model(PatternSMO("exact", selection, cache_rows=capacity), tol=1e-4).fit(X, y)
    hits, misses = count_by_hand(asked, capacity)
    history = model.history_
    assert history["patterns"][-1] == len(asked)
    assert history["cache_hits"][-1] == hits
    assert history["cache_misses"][-1] == history["kernel_rows"][-1] == misses
    put_method("PatternSMO", PatternRounds)
    again = rbf_model(PatternSMO("exact", selection, cache_rows=capacity), tol=1e-4).fit(X, y)
    assert again.history_["cache_hits"][-1] == hits


def test_capacity():
    assert row_capacity(5000, 4.0) == 100
    assert row_capacity(5000, 1000.0) == 5000
    assert row_capacity(5000, 0.01) == 2
    assert row_capacity(5000, 0.01, 100) == 100
    assert row_capacity(50, 0.01, 100) == 50


def test_the_cache_does_not_change_the_result(task):
    X, y, _ = task
    models = [
        rbf_model(PatternSMO("exact", cache_rows=rows), cache_mb=mb).fit(X, y)
        for rows, mb in [(None, 1000.0), (None, 0.001), (3, 1000.0), (60, 0.001)]
    ]
    for other in models[1:]:
        np.testing.assert_array_equal(models[0].dual_coef_, other.dual_coef_)
    rows = [model.history_["kernel_rows"][-1] for model in models]
    assert rows[0] == rows[3] <= 60
    assert rows[2] > 3 * rows[0]


def test_same_seed_same_bits(task):
    X, y, _ = task
    a, b = (rbf_model(PatternSMO("all-pairs", "amg", "max")).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(a.dual_coef_, b.dual_coef_)
    for name in ("dual", "primal", *COUNTS):
        np.testing.assert_array_equal(a.history_[name], b.history_[name])


def test_history(task, capsys):
    X, y, _ = task
    history = rbf_model(PatternSMO(cache_rows=10), verbose=1).fit(X, y).history_
    assert list(history)[:7] == [
        "seconds", "iteration", "primal", "dual", "relative_gap", "active", "steps",
    ]  # fmt: skip
    assert list(history)[7:] == COUNTS
    assert len({len(column) for column in history.values()}) == 1
    for name in ("seconds", "kernel_rows", "cache_hits", "cache_misses", "patterns"):
        assert (np.diff(history[name]) >= 0).all()
    assert "rows" in capsys.readouterr().out


# -- life with others -----------------------------------------------------------------------------


def test_parameters():
    solver = PatternSMO()
    assert solver.get_params() == {
        "pattern": "opt-kkt", "selection": "bmg", "threshold": "mean", "mu": 0.5, "theta0": None,
        "pattern_tol": 1e-6, "cache_rows": None,
    }  # fmt: skip
    model = MulticlassSVC(solver=PatternSMO("basic", cache_rows=5))
    copy = clone(model)
    assert copy.solver is not model.solver
    assert copy.get_params()["solver__pattern"] == "basic"
    assert copy.set_params(solver__mu=0.1).solver.mu == 0.1
    assert model.solver.mu == 0.5


def test_grid_search(task):
    X, y, _ = task
    search = GridSearchCV(
        rbf_model(PatternSMO(), tol=1e-3), {"solver__pattern": ["exact", "basic"]}, cv=2
    ).fit(X, y)
    np.testing.assert_allclose(*search.cv_results_["mean_test_score"], atol=0.05)


def test_callbacks_see_the_decision_function(task):
    pytest.importorskip("sklearn.callback")
    X, y, _ = task
    seen = []

    def error(model):
        seen.append(model.decision_function(X))
        return 1.0 - model.score(X, y)

    monitor = FitMonitor(error)
    model = rbf_model(PatternSMO(), tol=1e-4).set_callbacks(monitor).fit(X, y)
    curves = monitor.as_arrays()
    assert len(seen) == len(curves["value"]) >= len(model.history_["dual"]) - 1
    np.testing.assert_array_equal(curves["dual"][:-1], model.history_["dual"][: len(seen) - 1])
    assert curves["value"][-1] == 1.0 - model.score(X, y)
    np.testing.assert_allclose(seen[-1], model.decision_function(X), atol=1e-9)
    assert (np.diff(curves["seconds"]) >= 0).all()
    assert set(COUNTS) <= set(curves)


def test_monitor_of_other_estimators(task):
    pytest.importorskip("sklearn.callback")
    X, y, _ = task
    for model in (rbf_model("auto"), MultiPrototypeSVC(2, random_state=0)):
        monitor = FitMonitor(lambda model: model.score(X, y))
        model.set_callbacks(monitor).fit(X, y)
        assert monitor.as_arrays()["value"][-1] > 0.5


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        ({"pattern": "newton"}, "pattern must be one of"),
        ({"selection": "gap"}, "selection must be one of"),
        ({"threshold": 3}, "threshold must be one of"),
        ({"mu": 1.5}, "mu must be in"),
        ({"mu": "a"}, "mu must be in"),
        ({"theta0": 0.0}, "theta0 must be"),
        ({"pattern_tol": -1.0}, "pattern_tol must be"),
        ({"cache_rows": 0}, "cache_rows must be"),
        ({"cache_rows": 2.5}, "cache_rows must be"),
    ],
)
def test_refused_parameters(solver, words, task):
    X, y, _ = task
    for model in (
        MulticlassSVC(solver=PatternSMO(**solver)),
        MultiPrototypeSVC(assignment="static", solver=PatternSMO(**solver)),
    ):
        with pytest.raises(ValueError, match=words):
            model.fit(X, y)


def test_refused_combinations(task):
    X, y, _ = task
    for model, words in [
        (MulticlassSVC(machine="ww", solver=PatternSMO()), "other constraints"),
        (MulticlassSVC(intercept="free", solver=PatternSMO()), "free intercept"),
        (MulticlassSVC(C=np.inf, solver=PatternSMO("fixed-point")), "finite C"),
        (MulticlassSVC(solver=PatternSMO), "a PatternSMO or a WorkingSets"),
        (MulticlassSVC(solver=3), "a PatternSMO or a WorkingSets"),
        (MultiPrototypeSVC(metric="learned", solver=PatternSMO()), "metric='euclidean'"),
        (MultiPrototypeSVC(solver=PatternSMO(), cost_matrix=1.0 - np.eye(4)), "cost_matrix="),
        (MultiPrototypeSVC(solver="block"), "'auto' or a PatternSMO"),
    ]:
        with pytest.raises(ValueError, match=words):
            model.fit(X, y)
    model = MultiPrototypeSVC(assignment="static", solver=PatternSMO())
    with pytest.raises(ValueError, match="partial_fit needs solver='auto'"):
        model.partial_fit(X, y)


def test_not_separable():
    X = np.array([[0.0], [0.0], [1.0], [1.0]])
    y = np.array([0, 1, 0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MulticlassSVC(C=np.inf, solver=PatternSMO("exact"), max_iter=10**6).fit(X, y)
    assert model.status_ == "not_separable"


@pytest.mark.parametrize("selection", ["bmg", "core"])
def test_real_data(selection, real_data):
    X, y = real_data("satimage")
    X, y = X[:1500], y[:1500]
    given = {"gamma": 1.0, "C": 10.0, "tol": 1e-3}
    plain = rbf_model("auto", **given).fit(X, y)
    model = rbf_model(PatternSMO("exact", selection), **given).fit(X, y)
    assert model.status_ == "converged"
    assert model.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=2e-3)
