"""Properties that hold for any data, tried by hypothesis on small problems."""

import warnings

import numpy as np
import pytest
import reference as ref
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

from polymargin import MulticlassSVC

quick = settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

TOL = 1e-9


@st.composite
def problems(draw, max_n=14):
    """Points on a coarse grid (zero rows, duplicates and ties happen), labels, a value of C."""
    n_classes = draw(st.integers(2, 4))
    n = draw(st.integers(n_classes, max_n))
    d = draw(st.integers(1, 4))
    grid = st.lists(st.integers(-4, 4), min_size=n * d, max_size=n * d)
    X = np.array(draw(grid), dtype=float).reshape(n, d) / 2
    labels = st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n)
    y = np.array(draw(labels))
    y[:n_classes] = np.arange(n_classes)
    C = draw(st.sampled_from([0.01, 0.3, 1.0, 5.0]))
    return X, y, n_classes, C


def fit(X, y, tol=TOL, **parameters):
    parameters = {"max_iter": 10**5, "random_state": 0, "intercept": "none"} | parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # some of these collapse to W = 0
        return MulticlassSVC(tol=tol, **parameters).fit(X, y)


def scores_of(model, X):
    """One column per class, also for two classes, where the columns sum to zero."""
    f = model.decision_function(X)
    return np.column_stack([-f / 2, f / 2]) if f.ndim == 1 else f


def reach(*models, X=None):
    """How far apart the scores of models of one problem may be (strong convexity of P)."""
    radius = sum(np.sqrt(2 * m.certificate_.gap) + 1e-7 for m in models)
    size = 1.0 if X is None else np.sqrt((X**2).sum(axis=1).max() + 1)
    return 2 * radius * size + 1e-9


@quick
@given(problems(), st.randoms(use_true_random=False), st.sampled_from(["linear", "rbf"]))
def test_permuting_patterns_changes_nothing(problem, random, kernel):
    X, y, _, C = problem
    order = list(range(len(y)))
    random.shuffle(order)
    a = fit(X, y, C=C, kernel=kernel, gamma=0.4)
    b = fit(X[order], y[order], C=C, kernel=kernel, gamma=0.4)
    np.testing.assert_allclose(
        a.decision_function(X), b.decision_function(X), atol=reach(a, b, X=X)
    )


@quick
@given(problems(), st.randoms(use_true_random=False), st.sampled_from(["linear", "rbf"]))
def test_permuting_classes_changes_nothing(problem, random, kernel):
    X, y, n_classes, C = problem
    order = list(range(n_classes))
    random.shuffle(order)
    a = fit(X, y, C=C, kernel=kernel, gamma=0.4)
    b = fit(X, np.array(order)[y], C=C, kernel=kernel, gamma=0.4)
    np.testing.assert_allclose(scores_of(a, X), scores_of(b, X)[:, order], atol=reach(a, b, X=X))


@quick
@given(problems(), st.sampled_from([1e-1, 1e-3, 1e-6, 1e-9]), st.sampled_from(["linear", "rbf"]))
def test_gap_is_honest(problem, tol, kernel):
    """Never negative, never below the truth, and D <= D* <= P whatever the tolerance."""
    X, y, n_classes, C = problem
    model = fit(X, y, tol=tol, C=C, kernel=kernel, gamma=0.4)
    K = ref.linear(X, X) if kernel == "linear" else ref.rbf(X, X, 0.4)
    best = ref.optimum(K, y, n_classes, C)
    certificate = model.certificate_
    assert 0 <= certificate.relative_gap <= tol
    assert certificate.dual <= best.primal * (1 + 1e-11)
    assert certificate.primal >= best.dual * (1 - 1e-11)
    tau = ref.full_tau(model, len(y))
    caps = np.full(len(y), C)
    assert ref.infeasibility(tau, y, caps) <= 1e-12
    assert certificate.primal == pytest.approx(ref.primal_value(tau, K, y, caps), rel=1e-10)
    assert certificate.dual == pytest.approx(ref.dual_value(tau, K, y, caps), rel=1e-9, abs=1e-12)


@quick
@given(problems(), st.sampled_from([np.float64, np.float32]))
def test_linear_fields_agree(problem, dtype):
    X, y, _, C = problem
    K = (X @ X.T).astype(dtype)
    dense = fit(X.astype(dtype), y, C=C)
    csr = fit(sparse.csr_array(X.astype(dtype)), y, C=C)
    gram = fit(K, y, C=C, kernel="precomputed")
    rows = fit(X.astype(dtype), y, C=C, kernel="poly", degree=1, gamma=1.0, cache_mb=0.0005)
    scores = [dense.decision_function(X), csr.decision_function(X), gram.decision_function(K),
              rows.decision_function(X)]  # fmt: skip
    for other in scores[1:]:
        np.testing.assert_allclose(other, scores[0], atol=reach(dense, csr, gram, rows, X=X))


@quick
@given(problems())
def test_kernel_fields_agree(problem):
    X, y, _, C = problem
    K = ref.rbf(X, X, 0.4)
    models = [
        (fit(X, y, C=C, kernel="rbf", gamma=0.4), X),
        (fit(X, y, C=C, kernel="rbf", gamma=0.4, cache_mb=0.0005), X),
        (fit(sparse.csr_array(X), y, C=C, kernel="rbf", gamma=0.4), X),
        (fit(K, y, C=C, kernel="precomputed"), K),
    ]
    first = models[0][0].decision_function(X)
    for model, data in models[1:]:
        np.testing.assert_allclose(
            model.decision_function(data), first, atol=reach(models[0][0], model)
        )


@quick
@given(problems(max_n=30), st.sampled_from(["linear", "rbf"]), st.sampled_from([1.0, 100.0]))
def test_dual_never_falls(problem, kernel, factor):
    X, y, _, C = problem
    model = fit(X, y, tol=1e-9, C=C * factor, kernel=kernel, gamma=0.4)
    dual = model.history_["dual"]
    assert (np.diff(dual) >= -1e-10 * model.certificate_.primal).all()
    assert (model.history_["relative_gap"] >= 0).all()


@quick
@given(problems(), st.integers(0, 2**31 - 1))
def test_weight_two_is_a_duplicate(problem, seed):
    X, y, _, C = problem
    times = np.random.default_rng(seed).integers(1, 3, size=len(y))
    repeated = fit(np.repeat(X, times, axis=0), np.repeat(y, times), C=C)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        weighted = MulticlassSVC(C=C, intercept="none", tol=TOL, max_iter=10**5).fit(
            X, y, sample_weight=times
        )
    np.testing.assert_allclose(
        weighted.decision_function(X),
        repeated.decision_function(X),
        atol=reach(weighted, repeated, X=X),
    )


@quick
@given(problems())
def test_hard_margin_or_not_separable(problem):
    """The QP decides whether a margin exists; fit must agree, and certify the margin it finds."""
    X, y, n_classes, _ = problem
    K = ref.rbf(X, X, 0.8)
    best = ref.optimum(K, y, n_classes, np.inf)
    labelled = {(*row, k) for row, k in zip(X, y, strict=True)}
    distinct = len({tuple(row) for row in X}) == len(labelled)
    assume((best is not None) == distinct)  # the QP solver itself may be unsure
    model = fit(X, y, tol=1e-6, C=np.inf, kernel="rbf", gamma=0.8)
    if best is None:
        assert model.status_ == "not_separable"
        assert model.certificate_.primal == np.inf
    else:
        assert model.status_ == "converged"
        assert model.certificate_.primal == pytest.approx(best.primal, rel=1e-5)
        assert model.score(X, y) == 1


@quick
@given(problems())
def test_scores_sum_to_zero(problem):
    X, y, n_classes, C = problem
    assume(n_classes > 2)
    model = fit(X, y, tol=1e-2, C=C)
    np.testing.assert_allclose(model.decision_function(X).sum(axis=1), 0, atol=1e-9)
