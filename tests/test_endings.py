"""Sentences about how a training ended are true."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from polymargin import ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC
from polymargin.estimators.endings import ending, unfinished

TOL = 0.05


@pytest.mark.parametrize(
    "model",
    [
        MulticlassSVC(tol=TOL, max_time=1e9),
        MulticlassSVC("ww", kernel="rbf", intercept="free", tol=TOL, max_time=1e9),
        ConvexHullSVC(eta=0.2, tol=TOL, max_time=1e9),
        MultiPrototypeSVC(n_prototypes=2, tol=TOL, max_iter=60, max_time=1e9, random_state=0),
    ],
    ids=["cs", "ww", "hulls", "prototypes"],
)
def test_warnings_are_true_at_every_look_at_the_clock(clock, model):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 4)) + 1.5 * np.eye(3, 4)[y]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    looks = clock.looks
    for last in np.unique(np.linspace(1, looks, min(looks, 60)).astype(int)):
        clock.restart(last)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, y)
        text = " ".join(str(w.message) for w in caught if w.category is ConvergenceWarning)
        gap, is_cut = model.certificate_.relative_gap, model.status_ != "converged"
        assert ("above tol" in text) == (is_cut and TOL < gap < np.inf)
        assert ("within tol" in text) == (is_cut and gap <= TOL)
        assert ("Training ended" in text) == is_cut
        if not isinstance(model, MultiPrototypeSVC) and gap <= TOL:
            assert model.status_ == "converged"


@pytest.mark.parametrize("status", ["max_time", "max_iter"])
def test_a_gap_within_tol_is_not_called_above(status):
    text = unfinished(status, 4.81e-05, 1e-3, "Increase everything.")
    assert "above" not in text
    assert "4.81e-05" in text
    assert f"Increase {status}." in text
    assert "before the gap" not in ending(status, 4.81e-05, 1e-3)
    assert "above tol=0.001" in unfinished(status, 2e-3, 1e-3, "Increase everything.")
    assert "before the gap" in ending(status, 2e-3, 1e-3)
    assert "unknown" in unfinished(status, np.inf, 1e-3, "Increase everything.")
