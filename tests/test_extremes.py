"""Weights, widths and features at the ends of double precision: no warning of NumPy, one line."""

import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder fuzz lies beside the tests

import polymargin
from fuzz import fits
from polymargin import ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC, MultiPrototypeSVCCV
from polymargin.exceptions import shown
from polymargin.export.c_text import c_float

RNG = np.random.default_rng(0)
Y = np.arange(12) % 3
X = RNG.normal(size=(12, 2)) + np.eye(3)[:, :2][Y]
BROKEN_NAMES = np.array(["a", "b\n", "c"])[Y]
UNEQUAL = 10.0 ** RNG.integers(-200, 201, size=12)


@pytest.fixture(autouse=True)
def _numpy_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        yield


@pytest.mark.parametrize("rows", [X * 1e300, sparse.csr_matrix(X * 1e300)], ids=["dense", "sparse"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_features_whose_squares_overflow(rows, kernel):
    with pytest.raises(ValueError, match=r"^(X|kernel): .*scale the features"):
        MulticlassSVC(kernel=kernel).fit(rows, Y)


def test_prototypes_of_features_whose_products_overflow():
    rows = np.full((12, 9), 1.7e308) * np.sign(RNG.normal(size=(12, 9)))
    with pytest.raises(ValueError, match=r"^(X|kernel): "):
        MultiPrototypeSVC(2, kernel="rbf", gamma=1e-300).fit(rows, Y)


@pytest.mark.parametrize("scale", [1e-160, 1e154])
def test_a_variance_without_an_inverse(scale):
    with pytest.raises(ValueError, match=r"^X: gamma='scale' is 1 /"):
        MulticlassSVC(kernel="rbf").fit(X * scale, Y)


def test_widths_that_overflow():
    for kernel in ("rbf", {"linear": 0.0, "rbf": 0.7}):
        with pytest.raises(ValueError, match=r"^gamma: 1e\+300 times the largest squared norm"):
            MulticlassSVC(kernel=kernel, gamma=1e300).fit(X * 1e5, Y)


def test_widths_that_leave_no_digit():
    """The kernel of a row with itself would be 1 or 0 by chance, in a batch and alone."""
    with pytest.raises(ValueError, match=r"^gamma: .* above 1e15, where doubles hold no digit"):
        MulticlassSVC(kernel="rbf", gamma=1.0).fit(X + 1e8, Y)


def test_rows_beyond_single_precision():
    rows = X * 1e25
    model = MulticlassSVC(kernel="rbf", gamma=1e-40, random_state=0).fit(rows, Y)
    assert np.isfinite(model.decision_function(rows)).all()
    np.testing.assert_array_equal(model.predict(rows), Y)


def test_labels_of_rows_beyond_single_precision():
    rows = X * 1e100
    model = MultiPrototypeSVC(2, C=1e-200, random_state=0).fit(rows, Y)
    best = model.decision_function(rows).argmax(axis=1)
    np.testing.assert_array_equal(model.predict(rows), best)


@pytest.mark.parametrize(
    "model",
    [
        MulticlassSVC("msvm2", C=0.1),
        MulticlassSVC("msvm2", C=1e-300),
        MultiPrototypeSVC(2),
        ConvexHullSVC(eta=0.5, eta_scale="relative"),
        MulticlassSVC(probabilities="temperature", calibration_folds=2),
        MulticlassSVC(class_weight="balanced"),
    ],
    ids=["msvm2", "tiny", "prototypes", "hulls", "temperature", "balanced"],
)
def test_weights_of_any_size(model):
    for weight in (UNEQUAL, np.where(Y == 0, 1e-300, 1e300), np.where(Y == 0, 1e200, 1.0)):
        fitted = fits.refused(partial(model.fit, X, Y, sample_weight=weight))
        assert fitted is None or np.isfinite(fitted.decision_function(X)).all()


def test_partial_fit_with_weights_that_overflow():
    with pytest.raises(ValueError, match=r"^C: C times sample_weight overflows"):
        MultiPrototypeSVC(2, C=1e200).partial_fit(X, Y, sample_weight=np.full(12, 1e200))


def test_weights_that_are_all_zero_are_named():
    for model in (MulticlassSVC(), MultiPrototypeSVC(2), MultiPrototypeSVCCV(cv=2)):
        with pytest.raises(ValueError, match=r"^sample_weight"):
            model.fit(X, Y, sample_weight=np.zeros(12))


def test_dual_variables_of_vanishing_kernels():
    K = X @ X.T
    with pytest.raises(ValueError, match=r"^X: .*scale X up"):
        MulticlassSVC("mmr", C=np.inf, kernel="precomputed").fit(K * 1e-318, Y)


def test_a_finish_in_single_precision():
    with pytest.raises(ValueError, match=r"^X: finish works in single precision"):
        MultiPrototypeSVC(2, C=1e-200, finish=0.1).fit(X * 1e100, Y)
    model = MultiPrototypeSVC(2, intercept="none", finish=0.1, random_state=0).fit(X, Y)
    assert model.finish_["margin_objective"] < 1e6


def test_a_model_that_single_precision_cannot_hold():
    with pytest.raises(ValueError, match=r"^X: single precision, in which C code"):
        c_float(1e60)


def test_counts_need_dual_variables():
    model = MultiPrototypeSVC(fit_into=200, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match=r"^model: leave_one_out_count reads dual variables"):
        polymargin.leave_one_out_count(model, X, Y)


def test_auto_scales_features_whose_squares_overflow():
    with pytest.raises(ValueError, match=r"^X: feature 0 has values up to"):
        polymargin.AutoSVC(n_candidates=1, cv=2).fit(X * 1e200, Y)


def test_hulls_of_vanishing_size():
    model = ConvexHullSVC(kernel="linear", eta=1.0, tol=0.1).fit(np.sign(X) * 1e-155, Y)
    assert not np.isnan(model.certificate_.relative_gap)


def test_a_metric_of_vanishing_prototypes():
    model = MultiPrototypeSVC(2, C=1e-200, metric="learned", random_state=0).fit(X, Y)
    assert np.isfinite(model.metric_).all()


def test_a_device_keeps_single_precision():
    with pytest.raises(ValueError, match=r"^X: fit_into keeps means and spreads"):
        MultiPrototypeSVC(fit_into=100).fit(X * 10.0 ** np.array([-60, 60]), Y)


@pytest.mark.parametrize("degree", [2.5, 60])
def test_a_sound_model_is_stored_whatever_a_row_of_ones_would_score(degree, tmp_path):
    rows = np.abs(X) * [1.0, -1.0]
    model = MulticlassSVC(kernel="poly", degree=degree, gamma=1.0, C=1e-3, random_state=0)
    model.fit(rows * (1e-3 if degree == 60 else 1.0), Y)
    if degree == 60:
        model.dual_coef_ *= 1e300
        model.support_vectors_ *= 1e150
    polymargin.save(model, tmp_path / "a.pm")
    loaded = polymargin.load(tmp_path / "a.pm")
    np.testing.assert_array_equal(loaded.dual_coef_, model.dual_coef_)


def test_classes_of_one_example_each():
    with pytest.raises(ValueError, match=r"^probabilities: no class of y has two examples"):
        MulticlassSVC(probabilities="temperature").fit(np.eye(4), np.arange(4))
    with pytest.raises(ValueError, match=r"^cv: every class of y has a single example"):
        MultiPrototypeSVCCV(cv=2).fit(np.eye(4), np.arange(4))


@pytest.mark.parametrize(
    ("refused", "names"),
    [
        (lambda: MulticlassSVC(degree=np.ones((40, 3))).fit(X, Y), "degree"),
        (lambda: MulticlassSVC(gamma=np.full((40, 3), -1.0)).fit(X, Y), "gamma"),
        (lambda: polymargin.gacv(MultiPrototypeSVC(C=2, tol=0.1, metric="learned"), X, Y), "llw"),
        (
            lambda: MulticlassSVC(cost_matrix=np.ones((2, 2))).fit(
                X, np.array(["a", "b\n", "c"])[Y]
            ),
            "cost_matrix",
        ),
        (
            lambda: MulticlassSVC(
                "llw", solver=polymargin.PatternSMO("basic", "kkt", "log", cache_rows=2, theta0=3.0)
            ).fit(X, Y),
            "solver",
        ),
    ],
)
def test_refusals_are_one_short_line(refused, names):
    with pytest.raises(ValueError, match=names) as found:
        refused()
    assert "\n" not in str(found.value)
    assert len(str(found.value)) < 500


def test_values_without_a_repr():
    class Odd:
        def __repr__(self):
            raise KeyError("no")

    assert shown(Odd()) == "a Odd without a repr (KeyError)"
    assert shown("a\x1b[2J\n") == r"'a\x1b[2J\n'"
    assert len(shown(list(range(10**4)))) == 160


def test_fits_under_numpy_that_raises_for_everything():
    """Also for underflow, in which no fit differs from one without."""
    for model in (
        MulticlassSVC(random_state=0),
        MulticlassSVC("ww", kernel="rbf", gamma=300.0, random_state=0),
        MultiPrototypeSVC(2, random_state=0),
        ConvexHullSVC(eta=0.5),
    ):
        plain = model.fit(X, Y).decision_function(X)
        with np.errstate(all="raise"):
            again = model.fit(X, Y)
        np.testing.assert_array_equal(again.decision_function(X), plain)
