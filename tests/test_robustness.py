"""Hard problems end honestly: any status, but no crash and no certificate that is not true."""

import warnings

import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification

from polymargin import MulticlassSVC, MultiPrototypeSVC
from polymargin.certificate.certificate import linear_primal
from polymargin.certificate.judge import judge
from polymargin.compiled.fields import SparseField
from polymargin.problem.point import DualPoint
from polymargin.solvers.linear import Sweeps

STATUSES = {"converged", "max_iter", "not_separable", "stalled"}


def awkward_problem(seed):
    """Few points, large C or a hard margin, features of all sizes, duplicates, zero weights."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 120)), int(rng.integers(1, 10))
    n_classes = int(rng.integers(2, min(n, 8) + 1))
    y = np.append(np.arange(n_classes), rng.integers(n_classes, size=n - n_classes))
    X = rng.normal(size=(n_classes, d))[y] + rng.normal(size=(n, d))
    if seed % 2:
        X = np.round(2 * X) / 2
    if seed % 3 == 0:
        X = X * 10.0 ** rng.integers(-3, 4, size=d)
    if seed % 5 == 0:
        X = X.astype(np.float32)
    C = [1e2, 1e4, 1e6, np.inf][seed % 4]
    weights = rng.choice([1.0, 2.0, 0.3], size=n) if seed % 7 == 0 else np.ones(n)
    return X, y, n_classes, C, weights


def kernel_of(field, X):
    """Parameters, input and kernel matrix of one way to train on X."""
    exact = X.astype(float)
    if field == "poly":
        gamma = 1.0 / (X.shape[1] * exact.var())
        K = (gamma * exact @ exact.T + 1.0) ** 2
        return {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": gamma}, X, K
    if field == "rows":
        return {"kernel": "rbf", "gamma": 0.5}, X, ref.rbf(X, X, 0.5)
    K = exact @ exact.T
    if field == "gram":
        return {"kernel": "precomputed"}, K, K
    return {"kernel": "linear"}, sparse.csr_array(X) if field == "csr" else X, K


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("field", ["dense", "csr", "gram", "rows", "poly"])
def test_ends_honestly(field, seed):
    X, y, _, C, weights = awkward_problem(seed)
    parameters, given, K = kernel_of(field, X)
    model = MulticlassSVC(
        C=C, tol=1e-8, max_iter=3000, intercept="none", random_state=seed, **parameters
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)  # not reached, not separable, collapsed
        model.fit(given, y, sample_weight=weights)
    certificate = model.certificate_
    assert model.status_ in STATUSES
    assert certificate.relative_gap >= 0
    assert (model.status_ == "converged") == (certificate.relative_gap <= 1e-8)
    assert (model.status_ == "not_separable") <= (certificate.primal == np.inf)
    scores = model.decision_function(given)
    assert np.isfinite(scores).all()

    caps = C * weights
    tau = ref.full_tau(model, len(y))
    assert ref.infeasibility(tau, y, caps) <= 1e-10 * np.abs(tau).max()
    if np.isinf(C):
        return  # values of a hard margin that is not there are nothing but rounding
    # the sums behind P and D cancel; their rounding is relative to what is summed
    size = np.sum(np.abs(tau) * (np.abs(K) @ np.abs(tau)))
    loss = ref.hinge(K @ tau, y) @ caps
    primal = 0.5 * ref.squared_norm(tau, K) + loss
    spread = caps.sum() * (np.abs(K) @ np.abs(tau)).max()
    assert certificate.primal == pytest.approx(primal, rel=1e-9, abs=1e-14 * (size + spread))
    room = 1e-14 * size + 1e-9 * primal
    assert ref.dual_value(tau, K, y, caps) <= certificate.primal + room
    assert certificate.dual <= certificate.primal


@pytest.mark.parametrize("C", [1e2, 1e4, 1e6, 1e8])
@pytest.mark.parametrize("field", ["dense", "csr", "gram", "rows"])
def test_large_c_on_overlapping_points(field, C):
    """Weights up to C among scores of order one; well scaled features must converge up to 1e6."""
    X, y = make_overlapping(n=60, d=6)
    parameters, given, _ = kernel_of(field, X)
    model = MulticlassSVC(C=C, tol=1e-4, intercept="none", random_state=0, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(given, y)
    assert model.status_ == "converged" or (C > 1e6 and model.status_ in STATUSES)
    tau = ref.full_tau(model, 60)
    assert ref.infeasibility(tau, y, np.full(60, C)) <= 1e-10 * np.abs(tau).max()


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_no_margin_with_a_definite_kernel(kernel, seed):
    """Weights grow until D passes its limit; their rounding must not look like an odd kernel."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(30, 1)), np.append(np.arange(6), rng.integers(6, size=24))
    if kernel == "rbf":
        X[1] = X[0]  # two classes at one point: no kernel separates them
    model = MulticlassSVC(
        C=np.inf, kernel=kernel, degree=2, coef0=1.0, intercept="penalized", random_state=seed
    )
    with pytest.warns(UserWarning, match=r"(?i)separa"):
        model.fit(X, y)
    assert model.status_ == "not_separable"
    assert model.certificate_.primal == np.inf


@pytest.mark.parametrize(
    ("model", "n", "attribute"),
    [
        (MulticlassSVC(random_state=0), 3000, "coef_"),
        (MultiPrototypeSVC(3, random_state=0), 3000, "prototypes_"),
        (MulticlassSVC("ww", random_state=0), 3000, "coef_"),
        (MulticlassSVC("ww", kernel="rbf", random_state=0), 600, "dual_coef_"),
    ],
    ids=["cs", "prototypes", "ww", "ww-rbf"],
)
def test_bits_do_not_depend_on_the_clock(clock, model, n, attribute):
    """Compiled calls end after a budget that follows the clock; where must not matter."""
    X, y = make_classification(n, 8, n_informative=6, n_classes=4, random_state=0)
    found, looks = [], []
    for look_seconds in (1e-6, 10.0):
        clock.restart(look_seconds=look_seconds)
        found.append(getattr(clone(model).fit(X, y), attribute))
        looks.append(clock.looks)
    assert looks[1] > looks[0], "a slow machine must look at the clock more often"
    np.testing.assert_array_equal(*found)


# -- kernel values of very different size ---------------------------------------------------------


def raw(n, Q, d, seed, scales=(0.0, 0.0), offset=0.0, distance=1.0):
    """Clouds whose features span magnitudes or lie far from the origin."""
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(Q), rng.integers(0, Q, n - Q)]
    X = rng.normal(size=(n, d)) + distance * rng.normal(size=(Q, d))[y]
    return X * 10.0 ** rng.uniform(*scales, size=d) + offset, y


@pytest.mark.parametrize(
    ("parameters", "data"),
    [
        ({"C": np.inf}, raw(60, 3, 3, 8, (-2, 2), distance=8.0)),
        ({"machine": "llw", "C": 100.0, "intercept": "penalized"}, raw(9, 3, 11, 1, offset=20.0)),
        ({"machine": "ww", "C": 100.0}, raw(40, 4, 5, 2, (-2, 2))),
        ({"C": 100.0, "kernel": "poly", "gamma": 0.5, "degree": 2}, raw(47, 3, 3, 3, (-1, 1))),
    ],
    ids=["hard", "far", "free", "poly"],
)
def test_the_last_digits_where_kernel_values_are_large(parameters, data):
    X, y = data
    model = MulticlassSVC(tol=1e-7, random_state=0, **parameters).fit(X, y)
    assert model.status_ == "converged"
    assert model.certificate_.relative_gap <= 1e-7


def test_an_interior_point_beyond_float64_is_left_alone():
    """Its equations overflow on the way to the last digits; descent goes on from where it was."""
    rng = np.random.default_rng(362415)
    n, Q = 24, int(rng.integers(2, 5))
    y = np.r_[np.arange(Q), rng.integers(0, Q, n - Q)]
    X = rng.normal(size=(n, 3)) + rng.normal(size=(Q, 3))[y]
    w = rng.integers(1, 3, size=n).astype(float)
    model = MulticlassSVC("ww", C=0.5, tol=1e-9, random_state=0, max_iter=100_000)
    assert model.fit(X, y, sample_weight=w).certificate_.relative_gap <= 1e-9


@pytest.mark.parametrize("offset", [0.0, 2.0, 1000.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("machine", ["cs", "ww"])
def test_packed_rows(machine, offset, dtype):
    """Long rows are packed as float32 where scores are moderate; the judge sees no difference.

    Below the tolerance of single precision no row is packed.
    """
    X, y = make_overlapping(n=3000, d=80, n_classes=5, seed=3)
    X = (X + offset).astype(dtype)
    settings = {"machine": machine, "C": 0.01, "intercept": "penalized", "random_state": 0}
    model = MulticlassSVC(**settings).fit(X, y)
    assert model.status_ == "converged"
    assert model.certificate_.relative_gap <= 1e-3
    if offset > 100.0:  # nothing is packed, and the last digits are beyond single precision
        return
    plain = MulticlassSVC(**settings, tol=1e-7, max_iter=10**6).fit(X, y)
    assert plain.certificate_.relative_gap <= 1e-7
    assert model.certificate_.dual <= plain.certificate_.primal
    assert plain.certificate_.dual <= model.certificate_.primal


# -- large data -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_judge_as_last_check(dtype):
    """On large data (ten million numbers) the judge's scores are the last check."""
    X, y = make_overlapping(25_100, 400, 4, seed=3)
    X = X.astype(dtype)
    model = MulticlassSVC(C=1e-5, random_state=0).fit(X, y)
    assert model.status_ == "converged"
    assert model.certificate_.relative_gap <= 1e-3
    value = linear_primal(model.coef_, model.intercept_, X, y, 1e-5, 1.0)
    assert model.certificate_.primal == pytest.approx(value, rel=1e-9)
    W = np.linalg.norm(model.coef_) ** 2 + np.linalg.norm(model.intercept_) ** 2
    assert 0.5 * W < value < 1e-5 * len(y)  # neither all of it nor nothing was learned


def test_a_cheap_round_more(put_method):
    """A fit that has arrived makes one more round where that costs little, and none on a path."""
    X, y = make_overlapping(900, 6, 5, seed=1)
    gaps = {}

    class Plain(Sweeps):
        gives_extra = False

    for extra, kind in ((True, Sweeps), (False, Plain)):
        put_method("sweeps", kind)
        fits = [MulticlassSVC(C=0.3, random_state=seed).fit(X, y) for seed in range(8)]
        assert all(fit.status_ == "converged" for fit in fits)
        gaps[extra] = np.mean([fit.certificate_.relative_gap for fit in fits])
    assert gaps[True] < 0.9 * gaps[False] <= 0.9e-3
    put_method("sweeps", Sweeps)
    stopped = MulticlassSVC(C=0.3, random_state=0, max_iter=fits[0].n_iter_).fit(X, y)
    assert stopped.status_ == "converged"
    assert stopped.n_iter_ == fits[0].n_iter_


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_the_extra_round_ends_in_the_middle(kind, put_method):
    """Its point is feasible, known to the field, and no worse than the mean of both ends."""
    X, y = make_overlapping(900, 6, 5, seed=1)
    seen = []

    class Watched(Sweeps):
        def make_extra_round(self, checked):
            before = self.duals.tau.copy()
            super().make_extra_round(checked)
            middle = self.duals.tau.copy()
            if isinstance(self.field, SparseField):
                W = self.field.V[self.place, : middle.shape[1]].T
            else:
                W = self.field.W
            np.testing.assert_allclose(W, middle.T @ X, rtol=1e-4, atol=1e-5)
            points = [
                DualPoint.from_dense(self.problem, self.problem.machine.signed(tau, y))
                for tau in (before, middle, 2.0 * middle - before)
            ]
            seen.append([judge(self.problem, point).certificate for point in points])

    put_method("sweeps", Watched)
    for seed in range(4):
        model = MulticlassSVC(C=0.3, random_state=seed).fit(kind(X), y)
        assert model.history_["primal"][-1] == pytest.approx(model.certificate_.primal)
    assert seen
    for first, middle, last in seen:
        assert middle.primal <= 0.5 * (first.primal + last.primal) * (1.0 + 1e-9)
        assert middle.dual >= 0.5 * (first.dual + last.dual) * (1.0 - 1e-9)
