"""The cell test: field x dtype x intercept x weights x margin x tolerance, none left out.

Every cell must end "converged" with a certificate that an independent computation confirms. The
points lie on a grid of 1/8, so the linear Gram matrix is exact in float32 too, and float32 cells
are judged, like all others, by float64 arithmetic on exactly the numbers the model was given.
"""

import functools

import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping, make_separable
from scipy import sparse

from polymargin import MulticlassSVC

GAMMA = 0.125
SCALING = 1.5
ROUNDING = 1e-9  # float64 sums in another order, relative to the size of what is summed

LINEAR_FIELDS = ["dense", "csr", "gram"]
RBF_FIELDS = ["rows", "few-rows", "rbf-gram"]
FIELDS = LINEAR_FIELDS + RBF_FIELDS
DTYPES = [np.float64, np.float32]
INTERCEPTS = ["none", "penalized"]
WEIGHTS = ["unweighted", "sample_weight", "class_weight"]
MARGINS = ["soft", "hard"]
TOLERANCES = [1e-3, 1e-6, 1e-8]


@functools.cache
def points(margin):
    X, y = make_separable() if margin == "hard" else make_overlapping()
    X = np.round(X * 8) / 8
    X[np.abs(X) < 0.4] = 0.0  # zeros for the sparse cells
    assert (np.abs(X) < 8).all()
    if margin == "hard":
        assert ref.optimum(X @ X.T, y, y.max() + 1, np.inf) is not None
    return X, y


def names(y):
    """Class names whose order is not the order of the numbers."""
    return np.array(["pear", "fig", "apple", "quince"])[y]


def weights_of(weights, y):
    """Keyword arguments for the model, for fit, and the weight of every example."""
    if weights == "sample_weight":
        w = np.random.default_rng(5).uniform(0.3, 3.0, size=len(y))
        w[[3, 17, 40]] = 0.0
        return {}, {"sample_weight": w}, w
    if weights == "class_weight":
        by_name = {"pear": 0.5, "fig": 2.0, "apple": 1.25}
        each = np.array([by_name.get(name, 1.0) for name in names(y)])
        return {"class_weight": by_name}, {}, each
    return {}, {}, np.ones(len(y))


def inputs(field, dtype, X):
    """Model parameters, what fit is given, and the kernel matrix it means (no intercept)."""
    X = X.astype(dtype)
    if field == "dense":
        return {"kernel": "linear"}, X, ref.linear(X, X)
    if field == "csr":
        return {"kernel": "linear"}, sparse.csr_array(X), ref.linear(X, X)
    if field == "gram":
        K = ref.linear(X, X).astype(dtype)
        return {"kernel": "precomputed"}, K, K.astype(float)
    if field == "rows":
        return {"kernel": "rbf", "gamma": GAMMA}, X, ref.rbf(X, X, GAMMA)
    if field == "few-rows":  # room for about twenty of sixty rows
        return {"kernel": "rbf", "gamma": GAMMA, "cache_mb": 0.01}, X, ref.rbf(X, X, GAMMA)
    K = ref.rbf(X, X, GAMMA).astype(dtype)
    return {"kernel": "precomputed"}, K, K.astype(float)


@functools.cache
def setting(field, dtype, intercept, weights, margin):
    """Everything about a cell but its tolerance; the QP is solved once for all tolerances."""
    X, y = points(margin)
    parameters, given, K = inputs(field, dtype, X)
    model_weights, fit_weights, w = weights_of(weights, y)
    parameters = parameters | model_weights | {"intercept": intercept}
    if intercept == "penalized":
        parameters["intercept_scaling"] = SCALING
        K = K + SCALING**2
    classes, encoded = np.unique(names(y), return_inverse=True)
    keep = w > 0
    caps = np.where(keep, np.inf if margin == "hard" else 0.5 * w, 0.0)
    best = ref.optimum(K[np.ix_(keep, keep)], encoded[keep], len(classes), caps[keep])
    assert best.primal - best.dual < 1e-9 * best.primal
    parameters["C"] = np.inf if margin == "hard" else 0.5
    return parameters, given, names(y), fit_weights, K, encoded, keep, caps, best


def fit(parameters, given, labels, fit_weights, tol):
    model = MulticlassSVC(tol=tol, max_iter=100_000, random_state=0, **parameters)
    return model.fit(given, labels, **fit_weights)


def check_certificate(model, K, y, caps, keep):
    """The certificate is that of the returned coefficients, by arithmetic of our own."""
    certificate = model.certificate_
    tau = ref.full_tau(model, len(y))
    assert not tau[~keep].any()
    scale = max(1.0, np.abs(tau).max())
    assert ref.infeasibility(tau, y, caps) <= 1e-12 * scale
    assert np.abs(tau.sum(axis=1)).max() <= 1e-12 * scale

    kept = tau[keep], K[np.ix_(keep, keep)], y[keep], caps[keep]
    primal, dual = ref.primal_value(*kept), ref.dual_value(*kept)
    assert certificate.primal == pytest.approx(primal, rel=ROUNDING)
    assert certificate.dual == pytest.approx(dual, rel=ROUNDING)
    assert certificate.gap >= 0
    assert certificate.gap == pytest.approx(primal - dual, abs=ROUNDING * primal)
    assert certificate.relative_gap == pytest.approx(certificate.gap / certificate.primal)
    assert certificate.kernel_psd is True
    if np.isfinite(caps).all():
        gaps = ref.pattern_gaps(*kept)  # (1.10)
        assert certificate.gap == pytest.approx(gaps.sum(), abs=ROUNDING * primal)
    else:
        assert ref.margins(K @ tau, y)[keep].min() >= 1 - 1e-9


def distance(model, best, K):
    """|f - f*| at most: P is strongly convex, so ||M - M*||^2 <= 2 gap; both points count."""
    radius = np.sqrt(2 * model.certificate_.gap) + np.sqrt(2 * (best.primal - best.dual))
    return (radius + 1e-9) * np.sqrt(K.diagonal()).max()


@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])
@pytest.mark.parametrize("field", FIELDS)
def test_cell(field, dtype, intercept, weights, margin, tol):
    parameters, given, labels, fit_weights, K, y, keep, caps, best = setting(
        field, dtype, intercept, weights, margin
    )
    model = fit(parameters, given, labels, fit_weights, tol)
    certificate = model.certificate_
    assert model.status_ == "converged"
    assert 0 <= certificate.relative_gap <= tol
    check_certificate(model, K, y, caps, keep)

    assert certificate.dual <= best.primal * (1 + 1e-12)
    assert certificate.primal >= best.dual * (1 - 1e-12)
    assert certificate.primal - best.dual <= (tol + 1e-9) * certificate.primal

    scores = model.decision_function(given)
    assert scores.dtype == np.float64
    tau = ref.full_tau(model, len(y))
    np.testing.assert_allclose(scores, K @ tau, rtol=0, atol=ROUNDING * (1 + np.abs(scores).max()))
    np.testing.assert_allclose(scores[keep], best.scores, rtol=0, atol=distance(model, best, K))
    np.testing.assert_array_equal(model.predict(given), model.classes_[scores.argmax(axis=1)])


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])
@pytest.mark.parametrize("fields", [LINEAR_FIELDS, RBF_FIELDS], ids=["linear", "rbf"])
def test_fields_agree(fields, dtype, intercept, weights, margin):
    """One problem, three data paths, the same scores; a rounded Gram matrix is another problem."""
    found = []
    for field in fields:
        if field == "rbf-gram" and dtype == np.float32:
            continue
        parameters, given, labels, fit_weights, K, *_, best = setting(
            field, dtype, intercept, weights, margin
        )
        model = fit(parameters, given, labels, fit_weights, 1e-8)
        assert model.status_ == "converged"
        found.append((model.decision_function(given), distance(model, best, K)))
    for scores, reach in found[1:]:
        np.testing.assert_allclose(scores, found[0][0], rtol=0, atol=reach + found[0][1])


@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize("field", ["dense", "csr", "rows", "few-rows"])
def test_rounded_float32_points(field, tol):
    """Points that float32 has to round: the model of the rounded points, to full precision."""
    X, y = make_overlapping(n=60, seed=11)
    parameters, given, K = inputs(field, np.float32, X)
    assert (X.astype(np.float32) != X).any()
    model = fit(parameters | {"intercept": "none", "C": 2.0}, given, y, {}, tol)
    best = ref.optimum(K, y, 4, 2.0)
    assert model.status_ == "converged"
    assert model.certificate_.relative_gap <= tol
    check_certificate(model, K, y, np.full(60, 2.0), np.full(60, True))
    assert model.certificate_.dual <= best.primal * (1 + 1e-12)
    assert model.certificate_.primal - best.dual <= (tol + 1e-9) * model.certificate_.primal


@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize("C", [1.0, 30.0, 1e4])
@pytest.mark.parametrize("field", FIELDS)
def test_soft_margin_on_separable_points(field, C, tol):
    """Nearly no slack: whatever the solver makes of that, P is the value of what it returns."""
    X, y = points("hard")
    parameters, given, K = inputs(field, np.float64, X)
    model = fit(parameters | {"intercept": "none", "C": C}, given, y, {}, tol)
    certificate = model.certificate_
    assert model.status_ == "converged"
    assert 0 <= certificate.relative_gap <= tol
    tau = ref.full_tau(model, len(y))
    caps = np.full(len(y), C)
    assert ref.infeasibility(tau, y, caps) <= 1e-12 * max(1.0, np.abs(tau).max())
    value = 0.5 * ref.squared_norm(tau, K) + C * ref.hinge(model.decision_function(given), y).sum()
    assert certificate.primal == pytest.approx(value, rel=ROUNDING)
    np.testing.assert_allclose(model.decision_function(given), K @ tau, atol=1e-9)
    best = ref.optimum(K, y, 3, np.inf)
    if best.tau.max() > C:
        best = ref.optimum(K, y, 3, C)
    assert certificate.dual <= best.primal * (1 + 1e-11)
    assert certificate.primal >= best.dual * (1 - 1e-11)


@pytest.mark.parametrize("n_classes", [2, 7, 60])
@pytest.mark.parametrize("field", ["dense", "csr", "gram", "rows", "few-rows"])
def test_larger_problem(field, n_classes):
    """Large enough for shrinking, for working sets that grow, for rows that come and go."""
    n = 1200
    X, y = make_overlapping(n=n, d=12, n_classes=n_classes, seed=4)
    parameters, given, K = inputs(field, np.float64, X)
    if field == "few-rows":
        parameters["cache_mb"] = 2.0  # about two hundred rows
    model = fit(parameters | {"intercept": "none", "C": 0.5}, given, y, {}, 1e-5)
    assert model.status_ == "converged"
    assert model.certificate_.relative_gap <= 1e-5
    check_certificate(model, K, y, np.full(n, 0.5), np.full(n, True))
    scores = model.decision_function(given)
    expected = K @ ref.full_tau(model, n)
    if n_classes == 2:
        expected = expected[:, 1] - expected[:, 0]
    np.testing.assert_allclose(scores, expected, atol=1e-8)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_worked_miniature(miniature, kernel):
    X, y = miniature
    model = MulticlassSVC(kernel=kernel, gamma=0.5, intercept="none", tol=1e-9)
    model.fit(X, y)
    value = {"linear": 65 / 54, "rbf": 1.8020584577}[kernel]
    last = {"linear": [1 / 9, 1 / 9, -2 / 9], "rbf": [2 / 3, -1 / 3, -1 / 3]}[kernel]
    assert model.certificate_.primal == pytest.approx(value, abs=4e-9)
    assert model.certificate_.dual == pytest.approx(value, abs=4e-9)
    np.testing.assert_allclose(model.decision_function(X)[6], last, atol=1e-3)
