"""Counts that bound leave-one-out errors, Lemma 1 behind them, and the slacks of M-SVM^2."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polymargin import (
    ConvexHullSVC,
    MulticlassSVC,
    MultiPrototypeSVC,
    leave_one_out,
    leave_one_out_count,
    radius_margin_bound,
)
from polymargin.radius_margin.lemma_counts import dual_error, lemma_counts


def clouds(n=36, Q=3, spread=2.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % Q
    return spread * np.eye(Q)[y] + rng.normal(size=(n, Q)), y


def errors_by_refitting(model, X, y):
    """Leave-one-out errors the slow way; ties are errors."""
    from sklearn.base import clone

    wrong = np.zeros(len(y), dtype=bool)
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        found = clone(model).fit(X[rest], y[rest])
        wrong[i] = found.predict_or_reject(X[i : i + 1], reject_label=-1)[0] != y[i]
    return wrong


def alpha_of(model, y):
    tau = np.zeros((len(y), len(model.classes_)))
    tau[model.support_] = model.dual_coef_
    return tau[np.arange(len(y)), y][:, None] - tau


@pytest.mark.parametrize(("C", "gamma", "spread"), [(1.0, 0.5, 2.0), (10.0, 0.1, 1.0), (3.0, 1, 3)])
def test_lemma_1(C, gamma, spread):
    """Every leave-one-out error has a dual variable at or above both thresholds."""
    X, y = clouds(spread=spread)
    model = MulticlassSVC("msvm2", C=C, kernel="rbf", gamma=gamma, tol=1e-9, random_state=0)
    wrong = errors_by_refitting(model, X, y)
    found = radius_margin_bound(X, y, C, gamma=gamma)
    largest = alpha_of(model.fit(X, y), y).max(axis=1)
    Q = 3
    assert wrong.any()
    lemma = Q / ((Q - 1) ** 3 * found.diameter2)
    K = rbf_kernel(X, gamma=gamma) + np.eye(len(y)) / (2 * C)
    diameter2 = (np.diag(K)[:, None] + np.diag(K)[None, :] - 2 * K)[
        ~np.eye(len(y), dtype=bool)
    ].max()
    sharper = 1.0 / ((Q - 1) * min((Q - 1) / 2 * diameter2, Q * found.radius2))
    assert sharper >= lemma
    assert (largest[wrong] >= sharper * (1 - 1e-6)).all()
    assert found.count == (largest >= lemma * (1 - 1e-4)).sum()
    assert wrong.sum() <= found.sharper_count <= found.count <= len(y)


def test_example_of_the_specification():
    """60 rows of iris: two errors; the counts are far below n, the bounds above it."""
    X, y = load_iris(return_X_y=True)
    rows = np.random.default_rng(0).permutation(150)[:60]
    found = radius_margin_bound(X[rows], y[rows], C=1.0, gamma=0.5)
    exact = leave_one_out(
        MulticlassSVC("msvm2", C=1.0, kernel="rbf", gamma=0.5, random_state=0), X[rows], y[rows]
    )
    assert exact.errors <= found.sharper_count <= found.count < 60 < found.one_vs_one
    assert not found.is_vacuous


def test_inexact_solutions_count_more():
    X, y = clouds()
    fine = radius_margin_bound(X, y, 1.0, gamma=0.5, tol=1e-10)
    coarse = radius_margin_bound(X, y, 1.0, gamma=0.5, tol=1e-4)
    assert coarse.sharper_count >= fine.sharper_count
    alpha = np.array([[0.0, 0.2, 0.1], [0.5, 0.0, 0.0]])
    # thresholds with R^2 = 1: 3 / 32 and 1 / 6
    assert lemma_counts(alpha, 1.0, 3.0, 0.0).sharper_count == 2
    assert lemma_counts(alpha - [[0.0], [0.4]], 1.0, 3.0, 0.0).sharper_count == 1
    assert lemma_counts(alpha - [[0.0], [0.4]], 1.0, 3.0, np.inf).sharper_count == 2
    assert dual_error(0.0, 0.0, 3) == 0.0
    assert dual_error(1e-6, 0.0, 3) == np.inf


def test_dual_error():
    """The true distance to the optimum is within the error."""
    X, y = clouds()

    def make(tol):
        return MulticlassSVC("msvm2", C=2.0, kernel="rbf", gamma=0.5, tol=tol, random_state=0)

    best = alpha_of(make(1e-12).fit(X, y), y)
    for tol in (1e-1, 1e-2, 1e-3):
        model = make(tol).fit(X, y)
        error = dual_error(model.certificate_.gap, 1 / (2 * 2.0), 3)
        assert np.abs(alpha_of(model, y) - best).max() <= error


def test_hard_margin_counts():
    X, y = clouds(spread=8.0)
    found = radius_margin_bound(X, y, np.inf, gamma=0.5)
    exact = leave_one_out(
        MulticlassSVC("llw", C=np.inf, kernel="rbf", gamma=0.5, random_state=0), X, y
    )
    assert exact.errors <= found.sharper_count <= found.count < len(y)


def test_slacks_of_msvm2_are_those_of_the_dual():
    """(6.3) xi* = H' alpha* = M^-1 alpha* / (2 C), (6.4) their sum, and (6.6)."""
    X, y = clouds()
    C, Q = 1.5, 3
    model = MulticlassSVC("msvm2", C=C, kernel="rbf", gamma=0.5, tol=1e-12, random_state=0)
    model.fit(X, y)
    alpha = alpha_of(model, y)
    assert alpha.min() >= -1e-12
    mean = alpha.sum(axis=1, keepdims=True) / Q
    expected = (alpha - mean) / (2 * C)
    expected[np.arange(len(y)), y] = 0.0
    slacks = model.slacks(X, y)
    np.testing.assert_allclose(slacks, expected, atol=2e-6)
    assert slacks.min() < 0.0  # they have no sign
    assert slacks.sum() == pytest.approx(alpha.sum() / (2 * C * Q), rel=1e-5)
    T = mean - alpha
    K = rbf_kernel(X, gamma=0.5) + np.eye(len(y)) / (2 * C)
    norm2 = np.sum(T * (K @ T))
    assert norm2 == pytest.approx(alpha.sum() / (Q - 1), rel=1e-6)
    assert norm2 == pytest.approx(2 * model.certificate_.primal, rel=1e-6)


# -- any fitted machine --------------------------------------------------------------------------

MODELS = {
    "cs": MulticlassSVC("cs", kernel="rbf", gamma=0.5, tol=1e-8, random_state=0),
    "cs linear": MulticlassSVC("cs", C=0.3, tol=1e-8, random_state=0),
    "ww": MulticlassSVC("ww", kernel="rbf", gamma=0.5, tol=1e-8, random_state=0),
    "llw": MulticlassSVC("llw", kernel="rbf", gamma=0.5, tol=1e-8, random_state=0),
    "msvm2": MulticlassSVC("msvm2", kernel="rbf", gamma=0.5, tol=1e-8, random_state=0),
    "hull": ConvexHullSVC(eta=0.3, gamma=0.5, tol=1e-9),
}


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_count_bounds_errors(name, spread):
    X, y = clouds(spread=spread)
    wrong = errors_by_refitting(MODELS[name], X, y)
    found = leave_one_out_count(MODELS[name].fit(X, y), X, y)
    assert wrong.sum() <= found.count <= found.n_examples == len(y)
    assert found.is_strict or name in ("ww", "llw")  # a free intercept may not be unique
    assert str(found).startswith(f"at most {found.count} leave-one-out errors of {len(y)}")
    assert found.error_rate == found.count / len(y)


def test_lemma_is_used_where_support_vectors_are_many():
    X, y = load_iris(return_X_y=True)
    model = MulticlassSVC("msvm2", kernel="rbf", gamma=0.5, tol=1e-8, random_state=0).fit(X, y)
    found = leave_one_out_count(model, X, y)
    assert found.method == "Lemma 1"
    assert found.count < found.support_vectors
    bound = radius_margin_bound(X, y, 1.0, gamma=0.5)
    assert bound.sharper_count <= found.count <= bound.count
    # with sample weights the ridge of every example differs: the support vectors are counted
    model.fit(X, y, sample_weight=np.linspace(0.5, 2.0, 150))
    assert leave_one_out_count(model, X, y).method == "support vectors"


def test_static_prototypes():
    """Within one assignment the argument holds; otherwise the record says so."""
    X, y = clouds(n=60, spread=2.0)
    own = np.arange(60) // 30 + 2 * y
    model = MultiPrototypeSVC(
        2, C=1.0, assignment="static", init=own, tol=1e-8, random_state=0
    ).fit(X, y)
    found = leave_one_out_count(model, X, y)
    errors = 0
    for i in range(60):
        rest = np.arange(60) != i
        other = MultiPrototypeSVC(
            2, C=1.0, assignment="static", init=own[rest], tol=1e-8, random_state=0
        ).fit(X[rest], y[rest])
        errors += other.predict(X[i : i + 1])[0] != y[i]
    assert errors <= found.count
    assert found.is_strict
    annealed = leave_one_out_count(MultiPrototypeSVC(2, random_state=0).fit(X, y), X, y)
    assert "another" in annealed.caveats[0]


def test_caveats():
    X, y = clouds()
    model = MulticlassSVC("cs", kernel="rbf", class_weight="balanced", random_state=0).fit(X, y)
    found = leave_one_out_count(model, X, y)
    assert any("gamma='scale'" in text for text in found.caveats)
    assert any("balanced" in text for text in found.caveats)
    piped = make_pipeline(StandardScaler(), MODELS["cs"]).fit(X, y)
    found = leave_one_out_count(piped, X, y)
    assert found.caveats == ("the steps before the machine were fitted with every example",)


def test_bad_input():
    X, y = clouds()
    model = MODELS["cs"].fit(X, y)
    with pytest.raises(ValueError, match="must be the 36 training examples, got 30 labels"):
        leave_one_out_count(model, X[:30], y[:30])
    from sklearn.svm import SVC

    with pytest.raises(ValueError, match="model must be a fitted MulticlassSVC"):
        leave_one_out_count(SVC().fit(X, y), X, y)
