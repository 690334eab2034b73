"""When multi-prototype fits end: budgets, restarts, seeds, threads, callbacks, messages."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping, moved
from prototype_reference import check_model, static_optimum
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from polymargin import MACHINES, Annealing, MultiPrototypeSVC

ASSIGNMENTS = ["static", "greedy", "annealed"]


# -- budgets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("max_iter", [1, 7, 60])
def test_max_iter(kernel, assignment, max_iter):
    X, y = make_overlapping(n=60)
    model = MultiPrototypeSVC(
        2, C=100, kernel=kernel, gamma=0.2, assignment=assignment, tol=1e-12, max_iter=max_iter,
        random_state=0,
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning, match="max_iter") as caught:
        model.fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert model.status_ == "max_iter"
    assert model.certificate_.relative_gap > 1e-12
    assert not model.stationary_
    # a stage asks after its passes: at most those of one temperature too many
    assert model.n_iter_ <= max_iter + 20
    K = ref.linear(X, X, 1.0) if kernel == "linear" else ref.rbf(X, X, 0.2)
    check_model(model, K, y, np.full(60, 100.0))


def test_annealing_leaves_passes_for_the_static_problem():
    """All draws would take more passes than there are."""
    X, y = make_overlapping(n=60)
    whole = MultiPrototypeSVC(2, random_state=0).fit(X, y)
    draws = np.flatnonzero(whole.history_["temperature"])
    most = int(whole.history_["iteration"][draws[-1]])
    model = MultiPrototypeSVC(2, max_iter=most, random_state=0).fit(X, y)
    assert model.status_ == "converged"
    assert 0 < np.count_nonzero(model.history_["temperature"]) < len(draws)


def test_a_tiny_fit_far_from_the_origin_converges():
    """Descent alone spends 100,000 passes here, and one prototype has no example."""
    rng = np.random.default_rng(42)
    X, y = rng.normal(100.0, size=(80, 2)), rng.integers(0, 3, 80)
    model = MultiPrototypeSVC(tol=1e-8, random_state=0).fit(X, y)
    assert model.status_ == "converged"
    assert np.bincount(model.assignment_, minlength=15).min() == 0
    owner = model.prototype_classes_
    value, _ = static_optimum(ref.linear(X, X, 1.0), model.assignment_, owner, y, 1.0)
    assert model.certificate_.primal == pytest.approx(value, rel=1e-5)


def test_a_cut_run_keeps_the_better_of_two_points():
    """Energies noted on the way are older than the points: they do not decide."""
    from polymargin.problem.point import DualPoint
    from polymargin.solvers.prototypes import _Alternation

    X, y = make_overlapping(n=60)
    model = MultiPrototypeSVC(2, C=1.0, random_state=0)
    ready = model._prepare(MACHINES["cs"], X, y, None)
    label = np.searchsorted(np.unique(y), y)
    own = 2 * label + np.arange(60) % 2
    Q = int(label.max()) + 1
    problem = model._problem(MACHINES["cs"], ready, own, np.repeat(np.arange(Q), 2))
    found = {}
    for which in ("present", "snapshot"):
        work = _Alternation(problem, model._run((), seed=0), model._check_parameters())
        work.begin()
        zero = DualPoint.zero(work.problem)
        work.anneal()
        if which == "present":  # the snapshot is worse than its note
            work.snapshot = (-np.inf, own.copy(), zero)
        else:  # the present point is worse than its note
            work.snapshot = (np.inf, work.own.copy(), work.stage.point())
            work.stage.place(zero)
            work.energy_now = -np.inf
        found[which] = work.interrupted("max_time")
    zero_energy = 60.0
    assert found["present"].energy.value < 0.9 * zero_energy
    assert found["snapshot"].energy.value == pytest.approx(found["present"].energy.value)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("max_time", [1e-9, 1e-3])
def test_hardly_any_time_still_gives_a_model(kernel, assignment, max_time):
    X, y = make_overlapping(n=60)
    given = X @ X.T if kernel == "precomputed" else X
    model = MultiPrototypeSVC(
        2, C=100, kernel=kernel, assignment=assignment, tol=1e-12, max_time=max_time, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.fit(given, y)
    assert model.status_ == "max_time"
    assert np.isfinite(model.prototype_scores(given)).all()
    assert model.predict(given).shape == (60,)
    assert model.assignment_.shape == (60,)
    assert model.alive_.shape == (8,)
    assert model.energy_ > 0


def test_advice_names_what_exists(hard_work):
    """A message must not recommend a parameter that this estimator does not have."""
    X, y = hard_work.X[:500], hard_work.y[:500]
    model = MultiPrototypeSVC(2, max_time=1e-9)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y)
    text = str(caught[0].message)
    assert "max_time" in text
    assert "warm_start" not in text


def test_enough_time_and_passes_change_nothing():
    X, y = make_overlapping(n=60)
    a = MultiPrototypeSVC(2, random_state=0).fit(X, y)
    b = MultiPrototypeSVC(2, random_state=0, max_time=100.0, max_iter=10**8).fit(X, y)
    np.testing.assert_array_equal(a.prototypes_, b.prototypes_)


# -- the same for a seed, any number of threads ----------------------------------------------------


def same(a, b):
    np.testing.assert_array_equal(a.assignment_, b.assignment_)
    np.testing.assert_array_equal(a.support_, b.support_)
    np.testing.assert_array_equal(a.dual_coef_, b.dual_coef_)
    assert a.energy_ == b.energy_
    assert a.certificate_ == b.certificate_
    assert a.n_iter_ == b.n_iter_
    for name in set(a.history_) - {"seconds"}:
        np.testing.assert_array_equal(a.history_[name], b.history_[name])


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("n_restarts", [1, 3])
def test_threads_do_not_matter(kernel, assignment, n_restarts):
    X, y = make_overlapping(n=80)
    model = MultiPrototypeSVC(
        3, kernel=kernel, assignment=assignment, n_restarts=n_restarts, random_state=5,
        annealing=Annealing(cooling=0.2), init="random",
    )  # fmt: skip
    first = clone(model).fit(X, y)
    for n_jobs in [1, 2, 3, -1]:
        same(first, clone(model).set_params(n_jobs=n_jobs).fit(X, y))


def test_same_seed_same_model_other_seed_other_model():
    X, y = make_overlapping(n=80)
    model = MultiPrototypeSVC(3, init="random", random_state=1)
    same(clone(model).fit(X, y), clone(model).fit(X, y))
    refitted = clone(model).fit(X, y)
    same(refitted, clone(model).fit(X, y))
    same(refitted.fit(X, y), clone(model).fit(X, y))
    energies = {clone(model).set_params(random_state=s).fit(X, y).energy_ for s in range(5)}
    assert len(energies) > 1


@pytest.mark.usefixtures("even_blas")
@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
@pytest.mark.parametrize("tol", [1e-3, 1e-5])
def test_where_the_data_lie_in_memory_does_not_matter(kernel, tol):
    """The same numbers at other addresses: rounding must not depend on alignment."""
    X, y = make_overlapping(n=120, d=6, n_classes=3)
    given = X @ X.T if kernel == "precomputed" else X
    model = MultiPrototypeSVC(2, kernel=kernel, init="random", tol=tol, random_state=0)
    first = clone(model).fit(given, y)
    for offset in range(1, 8):
        same(first, clone(model).fit(moved(given, offset), y))


FRESH = """
import numpy as np
from polymargin import MultiPrototypeSVC
rng = np.random.default_rng(0)
y = np.arange(120) % 3
X = rng.normal(size=(3, 6))[y] + rng.normal(size=(120, 6))
for kernel, Z in [("linear", X), ("rbf", X), ("precomputed", X @ X.T)]:
    for tol in [1e-3, 1e-5]:
        model = MultiPrototypeSVC(2, kernel=kernel, init="random", tol=tol, random_state=0)
        print(model.fit(Z, y).energy_.hex())
"""


@pytest.mark.usefixtures("even_blas")
def test_another_process_finds_the_same():
    """Addresses of all arrays differ from process to process; the model must not."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "ignore", "-c", FRESH]
    found = {
        subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout
        for _ in range(4)
    }
    assert len(found) == 1


def test_random_state_objects():
    X, y = make_overlapping(n=60)
    a = MultiPrototypeSVC(3, random_state=np.random.RandomState(7)).fit(X, y)
    b = MultiPrototypeSVC(3, random_state=np.random.RandomState(7)).fit(X, y)
    same(a, b)
    MultiPrototypeSVC(3).fit(X, y)  # no seed at all


def test_the_generator_of_numpy_is_left_alone():
    X, y = make_overlapping(n=60)
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    MultiPrototypeSVC(3, random_state=0, n_restarts=2).fit(X, y)
    assert np.random.random() == expected  # noqa: NPY002


def test_fits_in_threads():
    """Several fits at once, none of them in the main thread."""
    X, y = make_overlapping(n=80)
    model = MultiPrototypeSVC(2, n_restarts=2, n_jobs=2, random_state=0)
    expected = clone(model).fit(X, y)
    found = [None] * 4

    def fit(k):
        found[k] = clone(model).fit(X, y)

    threads = [threading.Thread(target=fit, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for one in found:
        same(one, expected)


# -- what is printed, who watches ------------------------------------------------------------------


@pytest.mark.parametrize("n_restarts", [1, 2])
def test_verbose(capfd, n_restarts):
    X, y = make_overlapping(n=60)
    model = MultiPrototypeSVC(2, n_restarts=n_restarts, n_jobs=2, random_state=0)
    clone(model).fit(X, y)
    capfd.readouterr()
    clone(model).fit(X, y)
    silent = capfd.readouterr()
    assert silent.out + silent.err == ""
    loud = clone(model).set_params(verbose=1).fit(X, y)
    lines = "".join(capfd.readouterr()).splitlines()
    lines = [line for line in lines if line.strip()]
    assert len(lines) >= len(loud.history_["energy"]) - 1
    assert all("energy" in line and "temperature" in line for line in lines)
