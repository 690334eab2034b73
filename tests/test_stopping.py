"""When fits end: budgets, Ctrl-C, warm starts, hard margins that do not exist, messages."""

import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest
import reference as ref
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from polymargin import MulticlassSVC

PROMPT = 2.0  # seconds; the promise is 0.5, a loaded machine gets some room


def compiled(**parameters):
    """The same model, after a small fit: what is timed is fitting, not compiling."""
    rng = np.random.default_rng(0)
    model = MulticlassSVC(**parameters)
    warm_up = clone(model).set_params(C=1.0, tol=1e-3)
    warm_up.fit(rng.normal(size=(50, 30)), np.arange(50) % 5)
    return model


# -- budgets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_max_iter(overlapping, kernel):
    X, y = overlapping
    model = MulticlassSVC(kernel=kernel, C=100, tol=1e-12, max_iter=2)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y)
    assert model.status_ == "max_iter"
    assert model.n_iter_ == 2
    assert model.certificate_.relative_gap > 1e-12
    assert model.predict(X).shape == (60,)
    text = str(caught[0].message)
    assert len(caught) == 1
    assert "max_iter" in text
    exponent = f"{model.certificate_.relative_gap:.0e}".partition("e")[2]
    shown = f"{model.certificate_.relative_gap:.1g}"
    assert f"e{exponent}" in text or shown in text or f"{float(shown):g}" in text


def test_warning_points_at_the_caller(overlapping):
    X, y = overlapping
    with pytest.warns(ConvergenceWarning) as caught:
        MulticlassSVC(C=100, tol=1e-12, max_iter=1).fit(X, y)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_max_time(hard_work, kernel):
    n = 20000 if kernel == "linear" else 3000
    parameters = hard_work.parameters | {"kernel": kernel, "max_time": 0.5}
    model = compiled(**parameters)
    start = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.fit(hard_work.X[:n], hard_work.y[:n])
    assert time.perf_counter() - start < 0.5 + PROMPT
    assert model.status_ == "max_time"
    assert 0 < model.certificate_.relative_gap <= 1
    assert model.predict(hard_work.X[:10]).shape == (10,)


def test_max_time_zero_still_gives_a_model(overlapping):
    X, y = overlapping
    model = MulticlassSVC(C=100, tol=1e-12, max_time=1e-9)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.fit(X, y)
    assert model.status_ == "max_time"
    assert model.predict(X).shape == (60,)


def test_converged_fit_does_not_warn(overlapping):
    X, y = overlapping
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kernel in ["linear", "rbf"]:
            MulticlassSVC(kernel=kernel).fit(X, y)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
@pytest.mark.parametrize("C", [10.0, np.inf])
def test_no_false_stall(kernel, C):
    """Three points, well scaled: every order of visits must reach a gap of 1e-10."""
    X = np.array([[2.0, 0], [-1, 1], [-1, -1]])
    given = X @ X.T if kernel == "precomputed" else X
    for seed in range(20):
        model = MulticlassSVC(kernel=kernel, intercept="none", C=C, tol=1e-10, random_state=seed)
        model.fit(given, [0, 1, 2])
        assert model.status_ == "converged"


# -- Ctrl-C --------------------------------------------------------------------------------------


class CtrlC:
    """Send ourselves SIGINT after a while; remember when."""

    def __init__(self, delay):
        self.sent = None
        self._timer = threading.Timer(delay, self._send)

    def _send(self):
        self.sent = time.perf_counter()
        os.kill(os.getpid(), signal.SIGINT)

    def __enter__(self):
        self._previous = signal.signal(signal.SIGINT, signal.default_int_handler)
        self._timer.start()
        return self

    def __exit__(self, *exc):
        self._timer.cancel()
        self._timer.join()
        self.restored = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, self._previous)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_ctrl_c(hard_work, kernel):
    n = 20000 if kernel == "linear" else 3000
    model = compiled(kernel=kernel, **hard_work.parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with CtrlC(0.7) as press, pytest.raises(KeyboardInterrupt):
            model.fit(hard_work.X[:n], hard_work.y[:n])
        stopped = time.perf_counter()
        assert press.restored
    assert stopped - press.sent < PROMPT
    assert model.status_ == "interrupted"
    assert 0 < model.certificate_.relative_gap <= 1
    assert model.predict(hard_work.X[:10]).shape == (10,)
    assert len(set(map(len, model.history_.values()))) == 1


def test_ctrl_c_stops_a_search(hard_work):
    """A swallowed interrupt would make the search go on with its next candidate."""
    X, y = hard_work.X[:3000], hard_work.y[:3000]
    model = compiled(**hard_work.parameters)
    search = GridSearchCV(model, {"C": [100.0, 1000.0]}, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with CtrlC(0.5) as press, pytest.raises(KeyboardInterrupt):
            search.fit(X, y)
        stopped = time.perf_counter()
    assert stopped - press.sent < PROMPT


def test_signal_handler_is_left_alone(overlapping):
    X, y = overlapping
    before = signal.getsignal(signal.SIGINT)
    MulticlassSVC().fit(X, y)
    assert signal.getsignal(signal.SIGINT) is before


# -- the hard margin -----------------------------------------------------------------------------


def contradictory():
    """The same point in two classes: no margin, whatever the kernel."""
    X = np.array([[1.0, 0.2], [1.0, 0.2], [0.1, 1.0], [-1.0, -1.0], [-1.2, -0.4], [0.2, 1.4]])
    return X, np.array([0, 1, 1, 2, 2, 1])


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_not_separable(kernel):
    X, y = contradictory()
    given = ref.rbf(X, X, 0.5) if kernel == "precomputed" else X
    model = MulticlassSVC(C=np.inf, kernel=kernel)
    with pytest.warns(UserWarning, match=r"(?i)separa"):
        model.fit(given, y)
    assert model.status_ == "not_separable"
    assert model.certificate_.primal == np.inf
    assert np.isfinite(model.decision_function(given)).all()
    assert np.isin(model.predict(given), [0, 1, 2]).all()


def test_not_separable_in_general_position():
    """No contradiction between two points, yet no linear separation either."""
    X = np.random.default_rng(0).normal(size=(80, 2))
    y = np.arange(80) % 3
    model = MulticlassSVC(C=np.inf)
    with pytest.warns(UserWarning, match=r"(?i)separa"):
        model.fit(X, y)
    assert model.status_ == "not_separable"
    assert model.certificate_.primal == np.inf


def test_zero_row_has_no_hard_margin():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    model = MulticlassSVC(C=np.inf, intercept="none")
    with pytest.warns(UserWarning, match=r"(?i)separa"):
        model.fit(X, [0, 1, 2])
    assert model.status_ == "not_separable"
    assert np.isfinite(model.decision_function(X)).all()


def test_hard_margin_is_the_limit_of_large_c(separable):
    X, y = separable
    hard = MulticlassSVC(C=np.inf, tol=1e-8, max_iter=10**5).fit(X, y)
    soft = MulticlassSVC(C=1e5, tol=1e-8, max_iter=10**5).fit(X, y)
    assert hard.status_ == soft.status_ == "converged"
    assert hard.score(X, y) == 1
    assert hard.certificate_.primal == pytest.approx(soft.certificate_.primal, rel=1e-6)
    np.testing.assert_allclose(hard.decision_function(X), soft.decision_function(X), atol=5e-3)
    assert ref.margins(hard.decision_function(X), y).min() >= 1 - 1e-9


# -- warm starts ---------------------------------------------------------------------------------


def agree(a, b, X):
    """Two models of one problem, as far apart as their gaps allow."""
    gap = a.certificate_.gap + b.certificate_.gap
    reach = np.sqrt(2 * gap) * 2 * np.sqrt((X**2).sum(axis=1).max() + 1)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=reach + 1e-9)
    assert a.certificate_.primal == pytest.approx(
        b.certificate_.primal, abs=gap + 1e-12 * a.certificate_.primal
    )


KINDS = [
    {"kernel": "linear"},
    {"kernel": "rbf", "gamma": 0.2},
    {"kernel": "rbf", "gamma": 0.2, "cache_mb": 0.01},
]


@pytest.mark.parametrize("parameters", KINDS, ids=["linear", "rows", "few-rows"])
def test_warm_start_resumes(overlapping, parameters):
    X, y = overlapping
    cold = MulticlassSVC(C=10, tol=1e-8, random_state=0, **parameters)
    warm = clone(cold).set_params(warm_start=True, max_iter=3)
    with pytest.warns(ConvergenceWarning):
        warm.fit(X, y)
    reached = warm.certificate_.dual
    warm.set_params(max_iter=10**5).fit(X, y)
    cold.set_params(max_iter=10**5).fit(X, y)
    assert warm.status_ == "converged"
    assert warm.history_["dual"][0] >= reached * (1 - 1e-9)
    agree(warm, cold, X)


@pytest.mark.parametrize("parameters", KINDS, ids=["linear", "rows", "few-rows"])
@pytest.mark.parametrize(("before", "after"), [(1.0, 20.0), (20.0, 1.0), (1.0, 1e-4), (5.0, 5.0)])
def test_warm_start_after_c_changed(overlapping, parameters, before, after):
    X, y = overlapping
    warm = MulticlassSVC(C=before, tol=1e-8, max_iter=10**5, warm_start=True, **parameters)
    warm.fit(X, y)
    previous = warm.certificate_.dual
    warm.set_params(C=after).fit(X, y)
    cold = clone(warm).fit(X, y)
    assert warm.status_ == "converged"
    assert ref.infeasibility(ref.full_tau(warm, 60), y, np.full(60, after)) < 1e-10
    agree(warm, cold, X)
    if after >= before:
        assert warm.history_["dual"][0] >= previous * (1 - 1e-9)
    if after == before:
        assert warm.n_iter_ <= cold.n_iter_


def test_warm_start_after_weights_changed(overlapping):
    X, y = overlapping
    rng = np.random.default_rng(0)
    for kernel in ["linear", "rbf"]:
        warm = MulticlassSVC(kernel=kernel, C=5, tol=1e-8, max_iter=10**5, warm_start=True)
        warm.fit(X, y, sample_weight=rng.uniform(0.5, 2, size=60))
        weights = rng.uniform(0.1, 3, size=60)
        warm.fit(X, y, sample_weight=weights)
        cold = clone(warm).fit(X, y, sample_weight=weights)
        assert ref.infeasibility(ref.full_tau(warm, 60), y, 5 * weights) < 1e-10
        agree(warm, cold, X)


def test_warm_start_after_a_weight_became_zero(overlapping):
    X, y = overlapping
    weights = np.ones(60)
    warm = MulticlassSVC(C=5, tol=1e-8, max_iter=10**5, warm_start=True).fit(X, y)
    weights[warm.support_[:5]] = 0
    warm.fit(X, y, sample_weight=weights)
    cold = clone(warm).fit(X, y, sample_weight=weights)
    assert not np.isin(np.flatnonzero(weights == 0), warm.support_).any()
    agree(warm, cold, X)


@pytest.mark.parametrize(("before", "after"), [(np.inf, 2.0), (2.0, np.inf)])
def test_warm_start_between_hard_and_soft(separable, before, after):
    X, y = separable
    warm = MulticlassSVC(C=before, tol=1e-8, max_iter=10**5, warm_start=True).fit(X, y)
    warm.set_params(C=after).fit(X, y)
    cold = clone(warm).fit(X, y)
    assert warm.status_ == cold.status_ == "converged"
    agree(warm, cold, X)


def test_warm_start_after_labels_changed(overlapping):
    """The same n and the same classes, other labels: made feasible, then the same optimum."""
    X, y = overlapping
    warm = MulticlassSVC(C=2, tol=1e-8, max_iter=10**5, warm_start=True).fit(X, y)
    warm.fit(X, y[::-1])
    cold = clone(warm).fit(X, y[::-1])
    assert warm.status_ == "converged"
    agree(warm, cold, X)


def test_warm_start_after_ctrl_c(hard_work):
    X, y = hard_work.X[:3000], hard_work.y[:3000]
    model = compiled(warm_start=True, **hard_work.parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with CtrlC(0.3), pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    reached = model.certificate_.dual
    with pytest.warns(ConvergenceWarning):
        model.set_params(max_time=0.3).fit(X, y)
    assert model.certificate_.dual >= reached * (1 - 1e-9)


@pytest.mark.parametrize("change", ["n", "classes", "features"])
def test_warm_start_goes_cold(overlapping, change):
    X, y = overlapping
    model = MulticlassSVC(tol=1e-8, max_iter=10**5, warm_start=True, random_state=0).fit(X, y)
    if change == "n":
        X, y = X[:50], y[:50]
    elif change == "classes":
        y = np.where(y == 3, 7, y)
    else:
        X = X[:, :4]
    cold = clone(model).set_params(warm_start=False).fit(X, y)
    if change == "features":  # the dual variables still fit; the optimum must be that of the data
        model.fit(X, y)
        agree(model, cold, X)
        return
    with pytest.warns(UserWarning, match="warm_start"):
        model.fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), cold.decision_function(X))


def test_first_warm_fit_is_silent(overlapping):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MulticlassSVC(warm_start=True).fit(*overlapping)


# -- what is printed -----------------------------------------------------------------------------


def test_verbose(overlapping, capfd):
    X, y = overlapping
    MulticlassSVC().fit(X, y)
    capfd.readouterr()
    MulticlassSVC(C=10, tol=1e-6).fit(X, y)
    silent = capfd.readouterr()
    assert silent.out + silent.err == ""
    model = MulticlassSVC(C=10, tol=1e-6, verbose=1).fit(X, y)
    printed = "".join(capfd.readouterr())
    lines = [line for line in printed.splitlines() if line.strip()]
    assert len(lines) >= len(model.history_["dual"])
    assert "gap" in printed


def test_max_time_leaves_out_a_certificate_that_takes_too_long():
    """Kernel values of all examples would take seconds: the limit holds, the gap is unknown."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12000, 600)).astype(np.float32)
    y = rng.integers(10, size=12000)
    MulticlassSVC(kernel="rbf", tol=0.5).fit(X[:600], y[:600])  # compile
    model = MulticlassSVC(kernel="rbf", C=10.0, max_time=0.5)
    start = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match="certificate could be computed"):
        model.fit(X, y)
    assert time.perf_counter() - start < 2.5  # half a second and slack for a slow machine
    assert model.status_ == "max_time"
    assert model.certificate_.relative_gap == np.inf
    assert model.certificate_.dual >= 0.0
    assert model.predict(X[:50]).shape == (50,)
