"""MultiPrototypeSVCCV: the choice, its table, its limits, its picture."""

import os
import signal
import threading
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from polymargin import Annealing, MultiPrototypeSVC, MultiPrototypeSVCCV
from polymargin.plots import SizeAccuracyDisplay

WEIGHTS = "folds are drawn by rows, so weight two is not the example twice"


@parametrize_with_checks(
    [MultiPrototypeSVCCV(n_prototypes=(1, 2), Cs=(0.1, 1.0), cv=2, random_state=0)],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
    },
    xfail_strict=False,  # the folds may happen to agree
)
def test_estimator_check(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return make_classification(
        240, 5, n_informative=4, n_redundant=0, n_classes=3, n_clusters_per_class=3, random_state=1
    )


@pytest.fixture(scope="module")
def search(data):
    return MultiPrototypeSVCCV((1, 4), Cs=(0.1, 1.0, 10.0), cv=3, random_state=0).fit(*data)


def test_table(search):
    results = search.results_
    assert results["n_prototypes"].tolist() == [1, 1, 1, 4, 4, 4]
    assert results["C"].tolist() == [0.1, 1.0, 10.0] * 2
    assert results["fold_errors"].shape == (6, 3)
    np.testing.assert_allclose(results["error"], results["fold_errors"].mean(axis=1))
    np.testing.assert_allclose(results["spread"], results["fold_errors"].std(axis=1))
    assert results["model_bytes"].tolist() == [4 * 3 * q * 6 for q in results["n_prototypes"]]
    assert (results["seconds"] > 0).all()


def test_choice(search, data):
    X, _ = data
    results = search.results_
    assert results["error"][search.best_index_] == results["error"].min()
    assert results["C"][search.best_index_] == search.C_
    assert results["n_prototypes"][search.best_index_] == search.n_prototypes_
    assert search.best_estimator_.C == search.C_
    assert len(search.prototypes_) == 3 * search.n_prototypes_
    assert search.certificate_.relative_gap <= 1e-3
    np.testing.assert_array_equal(search.predict(X), search.best_estimator_.predict(X))
    np.testing.assert_array_equal(
        search.decision_function(X).argmax(axis=1),
        np.searchsorted(search.classes_, search.predict(X)),
    )


def test_errors_are_those_of_the_folds(data):
    """Without a path (one C) a cell is an ordinary fit on the training part of the fold."""
    X, y = data
    cv = StratifiedKFold(3)
    search = MultiPrototypeSVCCV((2,), Cs=(1.0,), cv=cv, random_state=5).fit(X, y)
    for fold, (train, test) in enumerate(cv.split(X, y)):
        model = MultiPrototypeSVC(2, C=1.0, random_state=5).fit(X[train], y[train])
        error = np.mean(model.predict(X[test]) != y[test])
        assert search.results_["fold_errors"][0, fold] == pytest.approx(error)


def test_threads_and_repetition_do_not_matter(data, search):
    again = clone(search).set_params(n_jobs=2).fit(*data)
    np.testing.assert_array_equal(again.results_["fold_errors"], search.results_["fold_errors"])
    np.testing.assert_array_equal(again.prototypes_, search.prototypes_)


def test_auto_grid_follows_the_scale(data):
    X, y = data
    options = {"n_prototypes": (1,), "cv": 2, "random_state": 0}
    plain = MultiPrototypeSVC(intercept="none")
    small = MultiPrototypeSVCCV(estimator=plain, **options).fit(X, y)
    large = MultiPrototypeSVCCV(estimator=plain, **options).fit(10 * X, y)
    np.testing.assert_allclose(small.results_["C"], 100 * large.results_["C"])


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_kernels(data, kernel):
    X, y = data
    search = MultiPrototypeSVCCV(
        (1, 2), Cs=(1.0,), cv=2, estimator=MultiPrototypeSVC(kernel=kernel), random_state=0
    )
    data = X @ X.T + 1.0 if kernel == "precomputed" else X
    search.fit(data, y)
    assert search.predict(data).shape == y.shape


def test_sparse_and_weights(data):
    X, y = data
    weight = np.ones(len(y))
    weight[::7] = 0.0
    options = {"n_prototypes": (2,), "Cs": (0.5, 1.0), "cv": 2, "random_state": 0}
    dense = MultiPrototypeSVCCV(**options).fit(X, y, weight)
    sparse = MultiPrototypeSVCCV(**options).fit(sp.csr_matrix(X), y, weight)
    assert dense.results_["fold_errors"].shape == sparse.results_["fold_errors"].shape
    assert (dense.assignment_[::7] == -1).all()


def test_time_limit_keeps_what_is_known(data):
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the final fit may be cut, too
        search = MultiPrototypeSVCCV((1, 3, 5), cv=5, max_time=0.02, random_state=0).fit(X, y)
    assert np.isnan(search.results_["fold_errors"]).any()
    assert search.predict(X).shape == y.shape


@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name == "nt", reason="POSIX signals")
def test_interrupt_keeps_a_model(data):
    X, y = data
    X = np.tile(X, (10, 1)) + 0.01 * np.random.default_rng(0).standard_normal((2400, 5))
    search = MultiPrototypeSVCCV((5, 10, 20), cv=5, random_state=0)
    search.fit(X[:200], np.tile(y, 10)[:200])  # compiled
    for name in [name for name in vars(search) if name.endswith("_")]:
        delattr(search, name)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, np.tile(y, 10))
    assert search.predict(X[:5]).shape == (5,)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_prototypes": (0,)}, "n_prototypes"),
        ({"n_prototypes": ()}, "n_prototypes"),
        ({"n_prototypes": (1.5,)}, "n_prototypes"),
        ({"Cs": ()}, "Cs"),
        ({"Cs": (-1.0,)}, "Cs"),
        ({"Cs": "fine"}, "Cs"),
        ({"estimator": 3}, "estimator"),
        ({"max_time": 0.0}, "max_time"),
    ],
)
def test_refusals(data, parameters, message):
    with pytest.raises(ValueError, match=message):
        MultiPrototypeSVCCV(**parameters).fit(*data)


def test_progress_lines(data, capsys):
    MultiPrototypeSVCCV((1,), Cs=(0.1, 1.0), cv=2, verbose=1, random_state=0).fit(*data)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert "4/4" in lines[-1]


def test_warm_start_is_cooler(data):
    """Later fits of a path start from the assignment before, at a lower temperature."""
    estimator = MultiPrototypeSVC(annealing=Annealing(1.0, 0.2, 0.05, 2))
    search = MultiPrototypeSVCCV(
        (3,), Cs=(0.1, 1.0), cv=2, warm_start=True, estimator=estimator, random_state=0
    ).fit(*data)
    if search.C_ == 1.0:
        assert search.history_["temperature"].max() <= 0.2


def test_picture(search):
    pytest.importorskip("matplotlib").use("Agg")
    record = SizeAccuracyDisplay.record(search)
    assert record.n_prototypes.tolist() == [1, 4]
    by_size = search.results_["error"].reshape(2, 3).min(axis=1)
    np.testing.assert_allclose(record.error, by_size)
    assert record.n_prototypes[record.chosen] == search.n_prototypes_
    drawn = SizeAccuracyDisplay.from_estimator(search)
    assert drawn.ax_.get_ylabel() == "validation error (%)"


HOPELESS = {"C": 1000.0, "tol": 1e-13, "max_iter": 5000, "random_state": 0}


def test_a_fit_of_the_search_ends_with_its_time(hard_work, clock):
    """The first fit of this grid would look at the clock hundreds of times."""
    clock.restart(look_seconds=0.02)
    base = MultiPrototypeSVC(**HOPELESS)
    search = MultiPrototypeSVCCV((2,), [1000.0], max_time=1.0, estimator=base)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(hard_work.X[:2000], hard_work.y[:2000])
    assert clock.now < 2.0


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_ctrl_c_ends_a_fit_of_the_search(hard_work, clock, n_jobs):
    clock.restart(last=100, end="interrupted")
    search = MultiPrototypeSVCCV((2,), [1000.0], estimator=MultiPrototypeSVC(**HOPELESS))
    search.set_params(n_jobs=n_jobs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.raises(KeyboardInterrupt):
            search.fit(hard_work.X[:2000], hard_work.y[:2000])
    assert clock.looks < 150
    assert search.predict(hard_work.X[:3]).shape == (3,)
