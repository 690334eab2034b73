"""Linear fits on two threads: shards of the rows give the start, the certificate is the same."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from polymargin import MulticlassSVC

N, D, Q, C = 40_000, 8, 4, 1e-3


def data(order="mixed", dtype=np.float32):
    rng = np.random.default_rng(3)
    y = rng.integers(Q, size=N)
    X = (rng.normal(size=(Q, D))[y] + rng.normal(size=(N, D))).astype(dtype)
    at = np.argsort(y, kind="stable") if order == "sorted" else np.arange(N)
    return X[at], y[at]


def fit(X, y, n_jobs, **parameters):
    return MulticlassSVC(C=C, n_jobs=n_jobs, random_state=0, **parameters).fit(X, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["mixed", "sorted"])
@pytest.mark.parametrize("intercept", ["none", "penalized"])
def test_two_threads_reach_the_optimum_of_one(order, dtype, intercept):
    X, y = data(order, dtype)
    weight = 1.0 + (np.arange(N) % 3)
    one, two = (
        MulticlassSVC(C=C, intercept=intercept, n_jobs=n_jobs, random_state=0).fit(X, y, weight)
        for n_jobs in (None, 2)
    )
    a, b = one.certificate_, two.certificate_
    assert two.status_ == "converged"
    assert b.relative_gap <= 1e-3
    assert b.dual <= a.primal
    assert a.dual <= b.primal
    # the point is there, feasible, and is that of the prototypes
    T = two.dual_coef_
    assert np.abs(T.sum(axis=1)).max() <= 1e-12
    assert T.max() <= C * weight.max() * (1 + 1e-12)
    np.testing.assert_allclose(
        two.coef_, T.T @ X[two.support_].astype(np.float64), rtol=1e-4, atol=1e-4
    )


def test_threads_share_the_rows():
    """Other bits than one thread, the same ones for the same number of threads."""
    X, y = data()
    one, two, again = (fit(X, y, n_jobs).coef_.tobytes() for n_jobs in (None, 2, 2))
    assert two == again
    assert one != two


def test_one_pass_is_not_shared():
    X, y = data()
    one, two = (fit(X, y, n_jobs, tol=0.1).coef_.tobytes() for n_jobs in (None, 2))
    assert one == two


def test_no_time_leaves_a_feasible_model(clock):
    X, y = data()
    fit(X, y, 2, max_time=1e9)
    looks = clock.looks
    for last in np.unique(np.linspace(2, looks, 12).astype(int)):
        clock.restart(last)
        model = MulticlassSVC(C=C, n_jobs=2, max_time=1e9, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        assert np.isfinite(model.decision_function(X[:5])).all()
        assert model.dual_coef_.max(initial=0.0) <= C * (1 + 1e-12)
