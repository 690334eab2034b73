"""The factors between other libraries' C and ours that the pages under docs/migrate state."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale
from sklearn.svm import SVC, LinearSVC

from polymargin import MulticlassSVC

C = 0.3


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return scale(X), y


@pytest.fixture(scope="module")
def two_classes(wine):
    """Classes 1 and 2: they overlap enough for the hinge to matter."""
    X, y = wine
    rows = np.flatnonzero(y > 0)
    rng = np.random.default_rng(0)
    return X[rows, :4] + 0.3 * rng.normal(size=(len(rows), 4)), y[rows]


def quietly(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an iteration limit that liblinear's solver never sees
        return estimator.fit(X, y)


def ours(machine="cs", **parameters):
    return MulticlassSVC(machine, tol=1e-9, random_state=0, **parameters)


@pytest.mark.parametrize("scaling", [None, 1.0, 3.0])
def test_linear_crammer_singer(wine, scaling):
    X, y = wine
    there = {"fit_intercept": False} if scaling is None else {"intercept_scaling": scaling}
    here = {"intercept": "none"} if scaling is None else {"intercept_scaling": scaling}
    svc = LinearSVC(multi_class="crammer_singer", C=C, tol=1e-9, random_state=0, **there)
    theirs = quietly(svc, X, y).decision_function(X)
    np.testing.assert_allclose(ours(C=C, **here).fit(X, y).decision_function(X), theirs, atol=1e-4)


def test_linear_hinge_of_two_classes(two_classes):
    X, y = two_classes
    svc = LinearSVC(
        loss="hinge", C=C, fit_intercept=False, tol=1e-9, max_iter=10**6, random_state=0
    )
    theirs = quietly(svc, X, y).decision_function(X)
    model = ours(C=C / 2, intercept="none").fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), theirs, atol=1e-4)
    other = ours(C=C, intercept="none").fit(X, y)
    assert abs(other.decision_function(X) - theirs).max() > 1e-2  # the factor matters


def test_linear_squared_hinge_of_two_classes(two_classes):
    X, y = two_classes
    svc = LinearSVC(loss="squared_hinge", C=C, fit_intercept=False, tol=1e-9, random_state=0)
    theirs = quietly(svc, X, y).decision_function(X)
    model = ours("msvm2", C=C, intercept="none").fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), 2 * theirs, atol=1e-4)


@pytest.mark.parametrize(("machine", "factor", "times"), [("ww", 0.5, 1.0), ("llw", 2.0, 2.0)])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_libsvm_of_two_classes(two_classes, machine, factor, times, kernel):
    X, y = two_classes
    theirs = SVC(C=C, kernel=kernel, gamma=0.2, tol=1e-8).fit(X, y).decision_function(X)
    model = ours(machine, C=factor * C, kernel=kernel, gamma=0.2, intercept="free").fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), times * theirs, atol=1e-3)


@pytest.mark.parametrize("gamma", ["scale", "auto"])
def test_gamma_means_the_same(two_classes, gamma):
    X, y = two_classes
    theirs = SVC(C=C, gamma=gamma, tol=1e-8).fit(X, y).decision_function(X)
    model = ours("ww", C=C / 2, kernel="rbf", gamma=gamma, intercept="free").fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), theirs, atol=1e-3)


def test_margin_two_of_weston_watkins(wine):
    """The report of 1998 asks for margin 2: its model with C is twice ours with C / 2."""
    from polymargin import Machine

    X, y = wine
    wide = Machine("ww2", "Weston-Watkins, margin 2", K1=1, K2=2.0, K3=0, intercepts=("none",))
    a = ours(wide, C=C, intercept="none").fit(X, y)
    b = ours("ww", C=C / 2, intercept="none").fit(X, y)
    np.testing.assert_allclose(a.decision_function(X), 2 * b.decision_function(X), atol=1e-3)
    assert a.certificate_.primal == pytest.approx(4 * b.certificate_.primal, rel=1e-6)


def test_liblinear_itself(wine):
    """liblinear's own Python interface, where it is installed (liblinear-official)."""
    liblinear = pytest.importorskip("liblinear.liblinearutil")
    X, y = wine
    trained = liblinear.train(y.tolist(), X.tolist(), f"-s 4 -c {C} -B 1 -e 1e-9 -q")
    order = np.argsort(trained.get_labels())
    rows = np.array([trained.get_decfun(int(k))[0] for k in order])
    bias = np.array([trained.get_decfun(int(k))[1] for k in order])
    model = ours(C=C).fit(X, y)
    np.testing.assert_allclose(model.coef_, rows, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, bias, atol=1e-4)
