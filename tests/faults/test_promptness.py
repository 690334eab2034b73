"""Fits under a real clock: a limit or Ctrl-C ends them soon, and the best model so far stays.

What a fit leaves behind at every place where it can be told to end is tested with a made-up clock
(``test_clock_looks.py``).  These tests measure what a made-up clock cannot: that the places lie
close together.  The promise is half a second; ``PROMPT`` allows for a busy machine.
"""

import os
import signal
import threading
import time
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from conftest import make_overlapping
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from polymargin import ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC, tune_radius_margin

LIMIT = 0.5
PROMPT = 2.0

MODELS = {
    "linear": MulticlassSVC(),
    "kernel": MulticlassSVC(kernel="rbf"),
    "linear ww": MulticlassSVC("ww"),
    "kernel ww": MulticlassSVC("ww", kernel="rbf"),
    "linear hulls": ConvexHullSVC(0.01, kernel="linear", solver="frank_wolfe", cache_mb=50),
    "kernel hulls": ConvexHullSVC(0.01, solver="frank_wolfe", cache_mb=50),
    **{
        f"{kernel} {assignment} prototypes": MultiPrototypeSVC(
            2, kernel=kernel, assignment=assignment
        )
        for kernel in ("linear", "rbf")
        for assignment in ("static", "greedy", "annealed")
    },
    "restarts": MultiPrototypeSVC(2, n_restarts=50),
    "restarts on two cores": MultiPrototypeSVC(2, n_restarts=50, n_jobs=2),
}


def endless(model, hard_work):
    """The compiled model with parameters that keep it busy for minutes, and the data for it."""
    n = 10_000 if "linear" in model.get_params()["kernel"] else 3000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = clone(model).set_params(tol=0.1)
        if "n_restarts" in small.get_params():
            small.set_params(n_restarts=1)
        small.fit(hard_work.X[:600], hard_work.y[:600])
    known = model.get_params()
    given = {name: value for name, value in hard_work.parameters.items() if name in known}
    X, y = hard_work.X[:n], hard_work.y[:n]
    if isinstance(model, ConvexHullSVC):
        X = X + 5.0 * np.eye(5, X.shape[1])[y]  # hulls of noise meet at once
    return clone(model).set_params(**given), X, y


@contextmanager
def at_most(seconds):
    started = time.perf_counter()
    yield
    assert time.perf_counter() - started < seconds


@contextmanager
def ctrl_c(delay):
    """Send SIGINT to this process after ``delay`` seconds; the work inside ends promptly."""
    sent = []

    def press():
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(delay, press)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
        assert time.perf_counter() - sent[0] < PROMPT
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGINT, previous)


def assert_usable(model, X, status):
    assert model.status_ == status
    certificate = model.certificate_
    assert 0 < certificate.relative_gap <= 1
    assert certificate.dual <= certificate.primal
    assert model.predict(X[:10]).shape == (10,)
    assert len({len(column) for column in model.history_.values()}) == 1


@pytest.mark.parametrize("name", MODELS)
def test_max_time(hard_work, name):
    model, X, y = endless(MODELS[name], hard_work)
    model.set_params(max_time=LIMIT)
    with at_most(LIMIT + PROMPT), pytest.warns(ConvergenceWarning, match="max_time"):
        model.fit(X, y)
    assert_usable(model, X, "max_time")


@pytest.mark.parametrize("name", MODELS)
def test_ctrl_c(hard_work, name):
    model, X, y = endless(MODELS[name], hard_work)
    with ctrl_c(LIMIT), pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert_usable(model, X, "interrupted")


@pytest.mark.parametrize("name", ["linear", "linear annealed prototypes"])
def test_ctrl_c_stops_a_search(hard_work, name):
    """A swallowed interrupt would make the search go on with its next candidate."""
    model, X, y = endless(MODELS[name], hard_work)
    search = GridSearchCV(model, {"C": [100.0, 1000.0]}, cv=2)
    with ctrl_c(LIMIT), pytest.raises(KeyboardInterrupt):
        search.fit(X[:3000], y[:3000])


def test_warm_start_after_ctrl_c(hard_work):
    model, X, y = endless(MODELS["linear"], hard_work)
    model.set_params(warm_start=True)
    with ctrl_c(LIMIT), pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    reached = model.certificate_.dual
    with pytest.warns(ConvergenceWarning):
        model.set_params(max_iter=1).fit(X, y)
    assert model.certificate_.dual >= reached


def test_ctrl_c_stops_partial_fit(hard_work):
    X, y = hard_work.X[:10_000], hard_work.y[:10_000]
    model = MultiPrototypeSVC(2).partial_fit(X[:200], y[:200])
    model.set_params(**hard_work.parameters)
    with ctrl_c(LIMIT), pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, y)
    assert model.status_ == "interrupted"
    assert model.predict(X[:10]).shape == (10,)


def test_restarts_that_time_allows():
    """Restarts that fit into the limit count; the best of them is kept."""
    X, y = make_overlapping(n=300, d=8)
    model = MultiPrototypeSVC(3, C=0.1, random_state=0)
    one = clone(model).fit(X, y)
    many = clone(model).set_params(n_restarts=10_000, max_time=LIMIT)
    with at_most(LIMIT + PROMPT), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        many.fit(X, y)
    assert many.energy_ <= one.energy_ * (1 + 1e-9)


def test_a_certificate_that_takes_too_long_is_left_out():
    """Kernel values of all examples would take seconds: the limit holds, the gap is unknown."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12000, 600)).astype(np.float32)
    y = rng.integers(10, size=12000)
    MulticlassSVC(kernel="rbf", tol=0.5).fit(X[:600], y[:600])  # compile
    model = MulticlassSVC(kernel="rbf", C=10.0, max_time=LIMIT)
    message = pytest.warns(ConvergenceWarning, match="certificate could be computed")
    with at_most(LIMIT + PROMPT), message:
        model.fit(X, y)
    assert model.status_ == "max_time"
    assert model.certificate_.relative_gap == np.inf
    assert model.certificate_.dual >= 0.0
    assert model.predict(X[:50]).shape == (50,)


def test_tuning_ends_after_the_point_it_is_at():
    X, y = make_overlapping(3000, 10, 6, seed=0)
    with at_most(20.0), pytest.warns(ConvergenceWarning, match="max_time"):
        found = tune_radius_margin(X, y, max_time=1.0)
    assert found.machine.score(X, y) > 0.3


def test_ctrl_c_keeps_the_best_point_of_a_tuning():
    X, y = make_overlapping(2500, 10, 6, seed=0)
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    found = tune_radius_margin(X, y, tol=1e-12)
    assert found.status == "interrupted"
    assert found.machine.score(X, y) > 0.3
