"""When fits end: budgets, warm starts, hard margins that do not exist, messages."""

import signal
import warnings

import numpy as np
import pytest
import reference as ref
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from polymargin import MulticlassSVC

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
