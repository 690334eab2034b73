"""Problems of any size: solved in units without extremes, or refused with one clear line."""

import warnings

import numpy as np
import pytest
from conftest import make_overlapping, make_separable
from scipy import sparse
from threadpoolctl import threadpool_limits

from polymargin import ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC
from polymargin.certificate.certificate import certify

MACHINES = ["cs", "ww", "llw", "msvm2"]
TWO = np.array([[1.0], [-1.0]]), np.array([0, 1])

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::polymargin.exceptions.CollapsedModelWarning"),
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("intercept", ["none", "free", "penalized"])
@pytest.mark.parametrize("size", [1e-100, 1e-5, 1e-3, 1.0, 1e5, 1e100])
def test_hard_margin_of_any_size(machine, intercept, size):
    """x = +-s: w1 - w0 = 1/s for relative margins, w = 1/s for absolute ones."""
    X, y = TWO
    X = X * size
    model = MulticlassSVC(machine, C=np.inf, intercept=intercept, tol=1e-6, random_state=0)
    if intercept == "penalized" and size < 1e-8:
        with pytest.raises(ValueError, match=r"^X: its rows .* vanish beside the constant"):
            model.fit(X, y)
        return
    model.fit(X, y)
    assert model.status_ == "converged"
    assert (model.predict(X) == y).all()
    best = (0.25 if machine in ("cs", "ww") else 1.0) / size / size
    assert model.certificate_.primal == pytest.approx(best, rel=1e-5)
    assert model.certificate_.dual == pytest.approx(best, rel=1e-5)
    half = 0.5 if machine in ("cs", "ww") else 1.0  # classes_[1] has the negative row
    np.testing.assert_allclose(model.decision_function(X), 2 * half * np.array([-1.0, 1.0]), 1e-5)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("size", [2.0**-200, 2.0**-30, 2.0**30, 2.0**200])
@pytest.mark.parametrize("kernel", ["linear", "precomputed", "csr"])
def test_units_change_no_bit(machine, size, kernel):
    """X times s with C / s^2 (s a power of two, T19): the same scores, coefficients times 1/s^2."""
    X, y = make_overlapping()
    form = {"linear": np.asarray, "csr": sparse.csr_array, "precomputed": lambda X: X @ X.T}[kernel]
    name = "precomputed" if kernel == "precomputed" else "linear"
    parameters = dict(machine=machine, kernel=name, random_state=0, max_iter=300)

    def fit(s):
        model = MulticlassSVC(C=0.5 / s / s, intercept_scaling=s, **parameters)
        return model.fit(form(X * s), y)

    # both are solved in units of their own: neither is of usual size
    here, there = fit(size), fit(size * 2.0**100 if size > 1 else size * 2.0**-100)
    factor = 2.0**100 if size > 1 else 2.0**-100
    np.testing.assert_array_equal(here.support_, there.support_)
    np.testing.assert_array_equal(here.dual_coef_, there.dual_coef_ * factor * factor)
    np.testing.assert_array_equal(here.intercept_, there.intercept_)
    assert here.certificate_.primal == there.certificate_.primal * factor * factor
    assert here.certificate_.dual == there.certificate_.dual * factor * factor
    np.testing.assert_array_equal(
        here.history_["primal"], there.history_["primal"] * factor * factor
    )
    scores = here.decision_function(form(X * size))
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("machine", MACHINES)
def test_tiny_c_converges(machine):
    X, y = make_overlapping()
    for C in (1e-300, 1e-100):
        model = MulticlassSVC(machine=machine, C=C, max_time=20).fit(X, y)
        assert model.status_ == "converged"
        assert model.certificate_.dual > 0
        assert np.isfinite(model.decision_function(X)).all()


def test_warm_start_in_units():
    X, y = make_overlapping()
    X = X * 2.0**60
    model = MulticlassSVC(C=2.0**-120, warm_start=True, tol=1e-6).fit(X, y)
    first = model.certificate_.primal
    model.fit(X, y)
    assert model.n_iter_ <= 20
    assert model.certificate_.primal == pytest.approx(first, rel=1e-5)


def test_watchers_see_the_users_units(capsys):
    X, y = make_overlapping()
    size = 2.0**50
    MulticlassSVC(C=1.0 / size**2, verbose=1, random_state=0).fit(X * size, y)
    primal = float(capsys.readouterr().out.split("primal ")[1].split()[0])
    assert primal < 1e-25


@pytest.mark.parametrize(
    ("parameters", "factor", "weight", "message"),
    [
        ({"C": 1e300}, 1e60, None, "^X: the largest kernel value"),
        ({"C": 1e300, "machine": "ww"}, 1e60, None, "^X: the largest kernel value"),
        ({"C": 1e300}, 1.0, 1e20, "^C: C times sample_weight overflows"),
        ({"C": 1e-300}, 1.0, 1e-100, "^C: C times sample_weight vanishes"),
        ({}, 1e-200, None, "^X: the squares of its values vanish"),
        ({"kernel": "rbf"}, 1e-200, None, "^X: the squares of its values vanish"),
        ({"kernel": "poly", "degree": 2.5, "gamma": 1.0}, 1.0, None, "^degree: .* whole degree"),
        ({"kernel": "poly", "degree": 400, "gamma": 1.0}, 9.0, None, "overflows"),
    ],
)
def test_what_no_double_can_hold_is_refused(parameters, factor, weight, message):
    X, y = make_overlapping()
    weights = None if weight is None else np.full(len(y), weight)
    with pytest.raises(ValueError, match=message) as refusal:
        MulticlassSVC(**parameters).fit(X * factor, y, weights)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("kind", [MulticlassSVC, MultiPrototypeSVC, ConvexHullSVC])
@pytest.mark.parametrize("size", [1e-60, 1e-12, 1e12, 1e45])
def test_other_machines_of_any_size(kind, kernel, size):
    X, y = make_separable()
    model = kind(kernel=kernel, max_time=10).fit(X * size, y)
    assert np.isfinite(model.decision_function(X * size)).all()
    assert 0 <= model.certificate_.relative_gap <= 1


def test_scores_that_overflow_are_refused():
    X, y = make_overlapping()
    model = MulticlassSVC(kernel="poly", degree=9).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for ask in (model.predict, model.decision_function):
            with pytest.raises(ValueError, match=r"^X: the scores of row 1 overflow"):
                ask(np.vstack([X[:1], X[1:2] * 1e200]))


def test_fractional_degree_of_positive_products():
    """A fractional power is a number where the products are positive, and refused where not."""
    X, y = make_overlapping()
    model = MulticlassSVC(kernel="poly", degree=1.5, gamma=1.0).fit(np.abs(X), y)
    assert np.isfinite(model.decision_function(np.abs(X))).all()
    with pytest.raises(ValueError, match=r"^degree: "):
        model.predict(-np.abs(X))


def test_no_certificate_of_nothing():
    for values in ((np.nan, 0.0), (1.0, np.nan)):
        with pytest.raises(FloatingPointError):
            certify(*values, True)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_hulls_do_not_depend_on_library_threads(kernel):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(900, 60)), rng.integers(0, 3, 900)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            model = ConvexHullSVC(kernel=kernel, eta=0.02, tol=1e-3).fit(X, y)
        found.append((model.dual_coef_, model.intercept_, model.certificate_.primal))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("C", [1e45, 1e90])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_costs_beyond_single_precision(C, kernel):
    """Dual variables up to C must not be cast to float32; no RuntimeWarning is raised."""
    X, y = np.array([[0.0], [-0.0], [1.0], [1.0]], dtype=np.float32), [0, 1, 0, 1]
    for model in (MulticlassSVC(C=C, kernel=kernel), MultiPrototypeSVC(1, C=C, kernel=kernel)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            model.set_params(max_iter=300, max_time=5.0).fit(X, y)
            assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("scale", [1e-160, 1e-19, 1e19, 1e40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_any_size_start_prototypes_and_kernels(scale, dtype):
    """Their squares leave the range of single or double precision: no warning, no crash."""
    X, y = make_overlapping(n=40)
    if scale > 1e30 and dtype is np.float32:
        pytest.skip("these are no float32 numbers")
    X = (scale * X).astype(dtype)
    gamma = 0.5 / max(1.0, scale**2)  # wider, and doubles would hold no digit of the kernel
    for model in (MultiPrototypeSVC(2, C=1e-9), MultiPrototypeSVC(2, kernel="rbf", gamma=gamma)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            model.set_params(max_iter=200, random_state=0).fit(X, y)
            assert np.isfinite(model.decision_function(X)).all()
