"""Machine x intercept x kernel x margin x weights: every cell against a QP solver."""

import functools

import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping, make_separable
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_reference import solve

from polymargin import MulticlassSVC

GAMMA = 0.125
SCALING = 1.5
MACHINES = ["ww", "llw", "msvm2", "cs"]


@functools.cache
def setting(machine, intercept, kernel, margin, weighted):
    X, y = make_separable(36, 4, 3) if margin == "hard" else make_overlapping(36, 4, 4)
    K = ref.linear(X, X) if kernel == "linear" else ref.rbf(X, X, GAMMA)
    if intercept == "penalized":
        K = K + SCALING**2
    w = np.random.default_rng(5).uniform(0.3, 3.0, size=len(y)) if weighted else np.ones(len(y))
    w = np.where(np.arange(len(y)) % 11 == 5, 0.0, w) if weighted else w
    keep = w > 0
    C = np.inf if margin == "hard" else 0.5
    caps = np.full(keep.sum(), np.inf) if margin == "hard" else C * w[keep]
    best = solve(machine, K[np.ix_(keep, keep)], y[keep], y.max() + 1, caps, intercept == "free")
    return X, y, K, w if weighted else None, keep, C, caps, best


def fit(machine, intercept, kernel, C, X, y, w, **more):
    model = MulticlassSVC(
        machine=machine,
        kernel=kernel,
        gamma=GAMMA,
        C=C,
        intercept=intercept,
        intercept_scaling=SCALING,
        tol=more.pop("tol", 1e-7),
        random_state=0,
        max_iter=100_000,
        **more,
    )
    return model.fit(X, y, sample_weight=w)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("margin", ["soft", "hard"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("intercept", ["none", "penalized", "free"])
@pytest.mark.parametrize("machine", MACHINES)
def test_cell(machine, intercept, kernel, margin, weighted):
    X, y, K, w, keep, C, _, best = setting(machine, intercept, kernel, margin, weighted)
    if best is None:
        with pytest.warns(UserWarning, match="separated"):
            model = fit(machine, intercept, kernel, C, X, y, w)
        assert model.status_ == "not_separable"
        return
    model = fit(machine, intercept, kernel, C, X, y, w)
    certificate = model.certificate_
    assert model.status_ == "converged"
    assert 0 <= certificate.relative_gap <= 1e-7
    assert certificate.dual <= best.value * (1 + 1e-8)
    assert certificate.primal >= best.value * (1 - 1e-8)
    assert certificate.primal == pytest.approx(best.value, rel=1e-6)
    scores = model.decision_function(X)[keep]
    reach = 2 * np.sqrt(2 * certificate.gap * K.diagonal().max()) + 1e-5
    if intercept == "free" and not getattr(model, "bias_is_unique_", True):
        scores, expected = scores - model.intercept_, best.scores - best.bias
    else:
        expected = best.scores
    np.testing.assert_allclose(scores, expected, atol=10 * reach)


# -- the proof of every round -----------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("machine", MACHINES)
def test_every_round_bounds_the_optimum(machine, kernel):
    """19.4: D only at repaired points, so D <= P* <= P from the first check to the last."""
    X, y, _, w, _, C, _, best = setting(machine, "free", kernel, "soft", True)
    model = fit(machine, "free", kernel, C, X, y, w, tol=1e-8)
    assert len(model.history_["dual"]) > 2
    assert (model.history_["dual"] <= best.value * (1 + 1e-8)).all()
    assert (model.history_["primal"] >= best.value * (1 - 1e-8)).all()


@pytest.mark.parametrize("machine", MACHINES)
def test_coefficients_are_balanced(machine):
    """T13: prototypes sum to zero; with a free intercept so do the coefficients of each class."""
    X, y = make_overlapping()
    model = fit(machine, "free", "linear", 0.5, X, y, None)
    assert np.abs(model.coef_.sum(axis=0)).max() < 1e-9
    assert abs(model.intercept_.sum()) < 1e-9
    total = np.abs(model.dual_coef_).sum()
    assert np.abs(model.dual_coef_.sum(axis=0)).max() < 1e-11 * total
    assert np.abs(model.dual_coef_.sum(axis=1)).max() < 1e-11 * total


@pytest.mark.parametrize("machine", ["ww", "llw", "msvm2"])
def test_worked_miniature(miniature, machine):
    X, y = miniature
    value = {"ww": 56 / 95, "llw": 1.7638081395, "msvm2": 1.3935187212}[machine]
    model = MulticlassSVC(machine=machine, tol=1e-9).fit(X, y)
    assert model.certificate_.primal == pytest.approx(value, abs=5e-9)
    bias = {
        "ww": [0.58245614, -0.56491228, -0.01754386],
        "llw": [0.16279070, -0.5, 0.33720930],
        "msvm2": [0.35264311, -0.44633640, 0.09369329],
    }[machine]
    np.testing.assert_allclose(model.intercept_, bias, atol=1e-5)


# -- equivalences -----------------------------------------------------------------------------


def binary():
    X, y = make_overlapping(50, 3, 2, seed=6)
    return X, y


@pytest.mark.parametrize(
    ("machine", "C", "factor"), [("ww", 2.0, 1.0), ("llw", 0.5, 2.0)], ids=["ww", "llw"]
)
def test_two_classes_are_the_binary_svm(machine, C, factor):
    """T3, T4 with the scales of 19.8."""
    from sklearn.svm import SVC

    X, y = binary()
    model = MulticlassSVC(machine=machine, kernel="rbf", gamma=0.3, tol=1e-9).fit(X, y)
    svc = SVC(C=C, gamma=0.3, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(
        model.decision_function(X), factor * svc.decision_function(X), atol=1e-4
    )


def test_two_classes_of_the_quadratic_machine():
    """T5: twice the 2-norm SVM, which is a hard-margin SVM on K + I / (2C)."""
    from sklearn.svm import SVC

    X, y = binary()
    K = ref.rbf(X, X, 0.3)
    model = MulticlassSVC(machine="msvm2", kernel="rbf", gamma=0.3, C=0.7, tol=1e-9).fit(X, y)
    svc = SVC(C=1e8, kernel="precomputed", tol=1e-10).fit(K + np.eye(len(y)) / 1.4, y)
    coefficients = np.zeros(len(y))
    coefficients[svc.support_] = svc.dual_coef_[0]
    expected = 2 * (K @ coefficients + svc.intercept_)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-4)


@pytest.mark.parametrize("intercept", ["none", "free"])
def test_quadratic_machine_is_a_hard_margin(intercept):
    """T8: M-SVM^2 with C = hard Lee-Lin-Wahba on K + I / (2C)."""
    X, y = make_overlapping(40, 3, 3)
    K = ref.rbf(X, X, 0.5)
    soft = MulticlassSVC(machine="msvm2", kernel="precomputed", intercept=intercept, tol=1e-8)
    hard = MulticlassSVC(
        machine="llw", kernel="precomputed", intercept=intercept, C=np.inf, tol=1e-8
    )
    soft.fit(K, y)
    hard.fit(K + np.eye(len(y)) / 2, y)
    assert soft.certificate_.primal == pytest.approx(hard.certificate_.primal, rel=1e-7)
    np.testing.assert_allclose(soft.intercept_, hard.intercept_, atol=1e-4)


def test_quadratic_machine_becomes_hard(separable):
    """T9: M-SVM^2 with a huge C, and with an infinite one, is hard Lee-Lin-Wahba."""
    X, y = separable
    hard = fit("llw", "free", "rbf", np.inf, X, y, None).certificate_.primal
    assert fit("msvm2", "free", "rbf", np.inf, X, y, None).certificate_.primal == pytest.approx(
        hard, rel=1e-6
    )
    assert fit("msvm2", "free", "rbf", 1e7, X, y, None).certificate_.primal == pytest.approx(
        hard, rel=1e-3
    )


def test_hard_machines_agree(separable):
    """Hard Crammer-Singer and hard Weston-Watkins have the same constraints."""
    X, y = separable
    for intercept in ("none", "free"):
        a = fit("cs", intercept, "linear", np.inf, X, y, None)
        b = fit("ww", intercept, "linear", np.inf, X, y, None)
        assert a.certificate_.primal == pytest.approx(b.certificate_.primal, rel=1e-6)


@pytest.mark.parametrize("machine", MACHINES)
def test_invariances(machine):
    """T19, T20: order of examples and classes, scale of the kernel, duplicates for weights."""
    X, y = make_overlapping(40, 4, 3)
    base = fit(machine, "free", "linear", 0.5, X, y, None, tol=1e-8)
    scores = base.decision_function(X)
    order = np.random.default_rng(0).permutation(len(y))
    other = fit(machine, "free", "linear", 0.5, X[order], y[order], None, tol=1e-8)
    np.testing.assert_allclose(other.decision_function(X), scores, atol=2e-4)
    renamed = fit(machine, "free", "linear", 0.5, X, 2 - y, None, tol=1e-8)
    np.testing.assert_allclose(renamed.decision_function(X)[:, ::-1], scores, atol=2e-4)
    scaled = fit(machine, "free", "linear", 0.5 / 9, 3 * X, y, None, tol=1e-8)
    np.testing.assert_allclose(scaled.decision_function(3 * X), scores, atol=2e-4)
    assert scaled.certificate_.primal == pytest.approx(base.certificate_.primal / 9, rel=1e-7)
    twice = fit(machine, "free", "linear", 0.25, np.r_[X, X], np.r_[y, y], None, tol=1e-8)
    assert twice.certificate_.primal == pytest.approx(base.certificate_.primal, rel=1e-7)


# -- weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", ["free", "penalized"])
@pytest.mark.parametrize("machine", MACHINES)
def test_class_weights_are_weights_of_examples(machine, intercept, overlapping):
    X, y = overlapping
    weight = {0: 2.0, 1: 0.5, 2: 1.0, 3: 3.0}
    by_class = fit(machine, intercept, "rbf", 0.5, X, y, None, class_weight=weight, tol=1e-9)
    w = np.array([weight[k] for k in y])
    by_example = fit(machine, intercept, "rbf", 0.5, X, y, w, tol=1e-9)
    assert by_class.certificate_.primal == pytest.approx(by_example.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(
        by_class.decision_function(X), by_example.decision_function(X), atol=1e-3
    )


@given(st.integers(0, 10**6), st.sampled_from(MACHINES), st.sampled_from(["free", "none"]))
@settings(max_examples=25)
def test_twice_is_weight_two_in_any_order(seed, machine, intercept):
    """A repeated example is one of weight two; order and names of classes change nothing."""
    rng = np.random.default_rng(seed)
    n, Q = 24, int(rng.integers(2, 5))
    y = np.r_[np.arange(Q), rng.integers(0, Q, n - Q)]
    X = rng.normal(size=(n, 3)) + rng.normal(size=(Q, 3))[y]
    w = rng.integers(1, 3, size=n).astype(float)
    weighted = fit(machine, intercept, "linear", 0.5, X, y, w, tol=1e-9)
    rows = rng.permutation(np.repeat(np.arange(n), w.astype(int)))
    names = np.array([f"class {k}" for k in rng.permutation(Q)])
    repeated = fit(machine, intercept, "linear", 0.5, X[rows], names[y[rows]], None, tol=1e-9)
    value = weighted.certificate_.primal
    assert repeated.certificate_.primal == pytest.approx(value, rel=1e-7)
    assert weighted.certificate_.dual <= value * (1 + 1e-12)
    if Q > 2 and getattr(weighted, "bias_is_unique_", True):
        place = np.argsort(np.argsort(names))
        scores = repeated.decision_function(X)[:, place]
        np.testing.assert_allclose(scores, weighted.decision_function(X), atol=2e-3)


# -- an intercept that is not unique -------------------------------------------------------------


@pytest.mark.parametrize("machine", ["ww", "llw"])
def test_minimum_norm_intercept(machine):
    """Two points per class at tiny C: every variable is at its cap and b has room; 19.9."""
    X = np.array([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.1], [-1.0, 0.0], [-1.0, 0.1]])
    y = np.array([0, 0, 1, 1, 2, 2])
    model = fit(machine, "free", "linear", 1e-3, X, y, None, tol=1e-9)
    assert model.bias_is_unique_ is False
    order = [5, 3, 1, 4, 2, 0]
    again = fit(machine, "free", "linear", 1e-3, X[order], y[order], None, tol=1e-9)
    np.testing.assert_allclose(model.intercept_, again.intercept_, atol=1e-6)
    value = model.certificate_.primal
    for shift in np.eye(3) - 1 / 3:
        # nearer to zero P is worse, or b would not be of least norm
        b = model.intercept_
        if abs(b @ shift) < 1e-6:
            continue
        nearer = b - 0.1 * (b @ shift) / (shift @ shift) * shift
        assert np.linalg.norm(nearer) < np.linalg.norm(b)
        lack = (X @ model.coef_.T + nearer) - (
            (X @ model.coef_.T + nearer)[np.arange(6), y][:, None] if machine == "ww" else 0.0
        )
        lack += 1.0 if machine == "ww" else 0.5
        lack[np.arange(6), y] = 0.0
        other = 0.5 * (model.coef_**2).sum() + 1e-3 * np.maximum(lack, 0).sum()
        assert other >= value * (1 - 1e-9)


def test_unique_intercept(overlapping):
    X, y = overlapping
    assert fit("ww", "free", "linear", 0.5, X, y, None).bias_is_unique_
    assert not hasattr(fit("ww", "none", "linear", 0.5, X, y, None), "bias_is_unique_")


# -- slacks and margins -------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", ["none", "free"])
@pytest.mark.parametrize("machine", MACHINES)
def test_slacks_make_the_primal_value(machine, intercept, overlapping):
    X, y = overlapping
    model = fit(machine, intercept, "linear", 0.5, X, y, None)
    slack = model.slacks(X, y)
    if machine == "cs":
        assert slack.shape == (len(y),)
        loss = slack.sum()
    else:
        assert slack.shape == (len(y), 4)
        assert not slack[np.arange(len(y)), y].any()
        loss = slack.sum()
        if machine == "msvm2":
            assert slack.min() < 0
            loss = (slack**2).sum() + (slack.sum(axis=1) ** 2).sum()
    value = 0.5 * (model.coef_**2).sum() + 0.5 * loss
    assert model.certificate_.primal == pytest.approx(value, rel=1e-9)
    with pytest.raises(ValueError, match="labels that the model does not know"):
        model.slacks(X, y + 7)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_margins(kernel, separable):
    """T15, Propositions 2 to 4 of the hard Lee-Lin-Wahba machine."""
    X, y = separable
    X = X + 4 * np.eye(3, 5)[y]  # linear absolute margins need more than a winner
    given = ref.rbf(X, X, GAMMA) if kernel == "precomputed" else X
    model = fit("llw", "free", kernel, np.inf, given, y, None, tol=1e-9)
    scores = model.decision_function(given)
    Q, rows = 3, np.arange(len(y))
    lead = scores[rows, y][:, None] - scores
    lead[rows, y] = np.inf
    assert lead.min() >= Q / (Q - 1) - 1e-6  # Proposition 2
    others = np.where(np.eye(Q, dtype=bool)[y], -np.inf, scores)
    np.testing.assert_allclose(others.max(axis=0), -1 / (Q - 1), atol=1e-4)  # Proposition 3
    gamma = model.margins(given, y)
    assert (gamma == gamma.T).all()
    assert np.isinf(np.diag(gamma)).all()
    total = 0.0
    for k in range(Q):
        for m in range(k):
            at = (y == k) | (y == m)
            total += (np.abs(scores[at, k] - scores[at, m]).min() / gamma[k, m]) ** 2
    assert total / Q == pytest.approx(2 * model.certificate_.primal, rel=1e-5)  # (9.3)
    bad = y.copy()
    bad[:3] = (bad[:3] + 1) % 3
    with pytest.raises(ValueError, match="3 of 60 examples are not classified correctly"):
        model.margins(given, bad)


# -- refusals -----------------------------------------------------------------------------------


def test_free_intercept_of_several_prototypes_is_refused(overlapping):
    from polymargin import MultiPrototypeSVC

    with pytest.raises(ValueError, match="intercept='free' is not available"):
        MultiPrototypeSVC(intercept="free").fit(*overlapping)


@pytest.mark.parametrize("machine", ["ww", "llw", "msvm2"])
def test_time_limit_keeps_a_model(machine, hard_work):
    from sklearn.exceptions import ConvergenceWarning

    MulticlassSVC(machine=machine).fit(hard_work.X[:100], hard_work.y[:100])  # loads what it runs
    model = MulticlassSVC(machine=machine, max_time=0.5, **hard_work.parameters)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.fit(hard_work.X[:4000], hard_work.y[:4000])  # a first round of some .05 s
    assert model.status_ == "max_time"
    assert model.history_["seconds"][-1] < 4.0
    assert 0 < model.certificate_.dual <= model.certificate_.primal


@pytest.mark.parametrize("machine", MACHINES)
def test_warm_start(machine, overlapping):
    X, y = overlapping
    model = fit(machine, "free", "linear", 0.5, X, y, None, tol=1e-6, warm_start=True)
    first = model.certificate_.primal
    model.fit(X, y)
    assert model.certificate_.primal == pytest.approx(first, rel=1e-6)
    model.set_params(C=0.25).fit(X, y)
    cold = fit(machine, "free", "linear", 0.25, X, y, None, tol=1e-6)
    assert model.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=2e-6)


# -- data paths ---------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", ["penalized", "free"])
@pytest.mark.parametrize("machine", MACHINES)
def test_fields_agree(machine, intercept):
    """Dense, CSR and Gram; float64 and float32; all kernel rows or few of them: one optimum."""
    from scipy import sparse

    X, y = make_overlapping(60, 5, 3)
    X = np.round(8 * X) / 8
    K = ref.linear(X, X)
    more = {"tol": 1e-6}
    values = [
        fit(machine, intercept, "linear", 0.5, X, y, None, **more),
        fit(machine, intercept, "linear", 0.5, X.astype(np.float32), y, None, **more),
        fit(machine, intercept, "linear", 0.5, sparse.csr_array(X), y, None, **more),
        fit(machine, intercept, "precomputed", 0.5, K, y, None, **more),
        fit(machine, intercept, lambda A, B: A @ B.T, 0.5, X, y, None, cache_mb=0.01, **more),
    ]
    for model in values:
        assert model.status_ == "converged"
        assert model.certificate_.primal == pytest.approx(values[0].certificate_.primal, rel=2e-6)
    np.testing.assert_allclose(
        values[3].decision_function(K), values[0].decision_function(X), atol=1e-2
    )


@pytest.mark.parametrize("cache_mb", [100.0, 2.0])
@pytest.mark.parametrize("machine", MACHINES)
def test_larger_problem(machine, cache_mb):
    """Large enough for working sets that grow and for kernel rows that come and go."""
    X, y = make_overlapping(n=1200, d=8, n_classes=5, seed=4)
    model = fit(machine, "free", "rbf", 0.5, X, y, None, tol=1e-3, cache_mb=cache_mb)
    assert model.status_ == "converged"
    assert model.certificate_.relative_gap <= 1e-3
    rounding = 1 + 1e-6  # checks on the way are made in single precision
    assert (model.history_["dual"] <= model.certificate_.primal * rounding).all()


def test_callbacks_see_the_intercept(overlapping):
    """The model that a watcher scores is the one of that moment, its free intercept included."""
    pytest.importorskip("sklearn.callback")
    X, y = overlapping
    seen = []

    class Watch:
        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if fitted_estimator is not None:
                seen.append(fitted_estimator.intercept_)

        def teardown(self, estimator, context):
            pass

    MulticlassSVC(machine="ww", tol=1e-5).set_callbacks(Watch()).fit(X, y)
    assert any(np.abs(b).max() > 1e-3 for b in seen)


@pytest.mark.parametrize("machine", ["ww", "llw", "msvm2"])
@pytest.mark.parametrize("tol", [0.5, 1e-2])
def test_gap_is_a_sum_of_terms(machine, tol):
    """T10: (4.9), (5.8), (6.9) at points far from and near to the optimum."""
    X, y = make_overlapping(40, 4, 4)
    K, C, n, Q = ref.linear(X, X), 0.7, 40, 4
    model = fit(machine, "free", "linear", C, X, y, None, tol=tol)
    T = ref.full_tau(model, n)
    rows = np.arange(n)
    alpha = -T if machine == "ww" else T[rows, y][:, None] - T
    rival = ~np.eye(Q, dtype=bool)[y]
    alpha[~rival] = 0.0
    h = K @ T + model.intercept_
    if machine == "msvm2":
        r = np.where(rival, h + 1 / (Q - 1), 0.0)
        xi = model.slacks(X, y)
        e = np.where(rival, xi - (alpha - alpha.sum(axis=1, keepdims=True) / Q) / (2 * C), 0.0)
        terms = C * ((e**2).sum() + (e.sum(axis=1) ** 2).sum()) + (alpha * (xi - r)).sum()
    else:
        rho = h[rows, y][:, None] - h - 1 if machine == "ww" else -h - 1 / (Q - 1)
        cells = (C - alpha) * np.maximum(-rho, 0) + alpha * np.maximum(rho, 0)
        terms = cells[rival].sum()
    assert model.certificate_.gap == pytest.approx(terms, abs=1e-9 * model.certificate_.primal)
    assert model.certificate_.gap >= 0
