"""Contributions, certified radii and counterfactuals: sums, closed forms, a QP solver, sampling."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn.datasets import load_iris, make_classification
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from polymargin import (
    ConvexHullSVC,
    MulticlassSVC,
    MultiPrototypeSVC,
    MultiPrototypeSVCCV,
    certified_radius,
    counterfactual,
    explain,
)
from polymargin.estimators.inspection import class_scores
from polymargin.explanation.nearest_point import nearest_step, step_length

NORMS = (1, 2, "inf")
SCALERS = [None, StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler()]


def random_data(seed, n=40, d=4, n_classes=3):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n_classes, d))[y] * 1.5 + rng.normal(size=(n, d))
    return X * np.exp(rng.normal(size=d)) + 10.0 * rng.normal(size=d), y


def random_model(seed, kernel="linear"):
    """Linear, prototype and hull models of two to four classes, with and without scalers."""
    kinds = [
        MulticlassSVC(kernel=kernel, C=0.5, random_state=seed),
        MultiPrototypeSVC(n_prototypes=3, kernel=kernel, C=0.5, random_state=seed),
        MulticlassSVC(machine="ww", kernel=kernel, C=0.5, random_state=seed),
        ConvexHullSVC(eta=0.2, kernel=kernel),
    ]
    X, y = random_data(seed, n_classes=2 + seed % 3)
    scaler = SCALERS[seed % len(SCALERS)]
    last = kinds[seed % len(kinds)]
    return (last if scaler is None else make_pipeline(scaler, last)).fit(X, y), X, y


def norm_of(rows, norm):
    return np.linalg.norm(rows, np.inf if norm == "inf" else norm, axis=1)


def directions(rng, n, d, norm):
    """Steps of length one, many of them towards corners and axes."""
    steps = rng.normal(size=(n, d)) * np.exp(2.0 * rng.normal(size=(n, d)))
    if norm == "inf":
        steps[::2] = np.sign(steps[::2])
    return steps / norm_of(steps, norm)[:, None]


# -- contributions -----------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("seed", range(12))
def test_contributions_sum_to_the_lead(kernel, seed):
    model, X, _ = random_model(seed, kernel)
    found = explain(model, X)
    scores = np.sort(class_scores(model, X), axis=1)
    lead = scores[:, -1] - scores[:, -2]
    np.testing.assert_allclose(found.lead, lead, atol=1e-10)
    np.testing.assert_allclose(found.contributions.sum(axis=1) + found.constant, lead, atol=1e-10)
    np.testing.assert_array_equal(found.label, model.predict(X))
    order = np.argsort(class_scores(model, X), axis=1)
    np.testing.assert_array_equal(found.runner_up, model.classes_[order[:, -2]])
    assert found.kind == ("features" if kernel == "linear" else "support vectors")
    assert found.contributions.shape[1] == len(found.feature_names)


def test_contributions_of_a_linear_model_are_weight_times_feature():
    X, y = random_data(3)
    model = MulticlassSVC(random_state=0).fit(X, y)
    found = model.explain(X)
    r = np.searchsorted(model.classes_, found.label)
    s = np.searchsorted(model.classes_, found.runner_up)
    np.testing.assert_allclose(found.contributions, X * (model.coef_[r] - model.coef_[s]))


def test_reference_row_gives_the_constant():
    model, X, _ = random_model(5)
    mean = X.mean(axis=0)
    found = explain(model, X, reference=mean)
    np.testing.assert_allclose(found.contributions.sum(axis=1) + found.constant, found.lead)
    at_mean = explain(model, mean[None, :], reference=mean)
    np.testing.assert_allclose(at_mean.contributions, 0.0, atol=1e-12)
    np.testing.assert_allclose(at_mean.constant, at_mean.lead)


def test_sparse_rows_have_sparse_contributions():
    X, y = make_classification(80, 30, n_informative=6, n_classes=3, random_state=0)
    X[np.abs(X) < 0.8] = 0.0
    for model in (MulticlassSVC(), MultiPrototypeSVC(n_prototypes=2, random_state=0)):
        model = make_pipeline(MaxAbsScaler(), model).fit(sp.csr_matrix(X), y)
        thin, dense = explain(model, sp.csr_array(X)), explain(model, X)
        assert sp.issparse(thin.contributions)
        np.testing.assert_allclose(thin.contributions.toarray(), dense.contributions)
        assert [name for name, _ in thin.top(3, 4)] == [name for name, _ in dense.top(3, 4)]
        radius = certified_radius(model, sp.csr_array(X)).radius
        np.testing.assert_allclose(radius, certified_radius(model, X).radius)
        rows = counterfactual(model, sp.csr_array(X)[:5]).rows
        np.testing.assert_allclose(rows, counterfactual(model, X[:5]).rows)


def test_frames_and_names():
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), MulticlassSVC(random_state=0)).fit(X, y)
    found = explain(model, X.iloc[:3])
    assert found.feature_names == tuple(X.columns)
    top = found.top(0, 2)
    assert len(top) == 2
    assert abs(top[0][1]) >= abs(top[1][1])
    changed = counterfactual(model, X.iloc[:3], fixed=["sepal width (cm)"])
    assert changed.feature_names == tuple(X.columns)
    np.testing.assert_array_equal(changed.rows[:, 1], X.iloc[:3, 1])
    frame = pd.DataFrame(changed.rows, columns=X.columns)
    np.testing.assert_array_equal(model.predict(frame), changed.target)


def test_any_steps_may_stand_in_front_of_contributions():
    X, y = random_data(7)
    model = make_pipeline(PCA(2), MulticlassSVC()).fit(X, y)
    found = explain(model, X)
    assert found.contributions.shape == (len(X), 2)
    np.testing.assert_allclose(found.contributions.sum(axis=1) + found.constant, found.lead)
    with pytest.raises(ValueError, match=r"PCA.*cannot be folded into the certified radius"):
        certified_radius(model, X)
    with pytest.raises(ValueError, match=r"PCA.*a counterfactual"):
        counterfactual(model, X)


# -- certified radius --------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:eta. the convex hulls")
@pytest.mark.parametrize("seed", range(100))
def test_no_label_changes_inside_the_radius_and_one_does_at_it(seed):
    norm = NORMS[seed % 7 % 3]
    model, X, _ = random_model(seed)
    rng = np.random.default_rng(seed)
    X = X[:5]
    units = ("input", "scaled")[seed % 2]
    found = certified_radius(model, X, norm, units)
    assert found.is_exact
    nearest = counterfactual(model, X, norm=norm, units=units)
    reachable = np.isfinite(found.radius)
    np.testing.assert_allclose(nearest.distance, found.radius, rtol=1e-8, atol=1e-10)
    # at the radius there is a row of another label: no larger radius would be right
    if reachable.any():
        new = model.predict(nearest.rows[reachable])
        np.testing.assert_array_equal(new, nearest.target[reachable])
    assert (nearest.target[reachable] != found.label[reachable]).all()
    to_input = np.ones(X.shape[1])
    if units == "scaled" and hasattr(model, "steps"):
        to_input = 1.0 / (model[:-1].transform(X[:1] + 1.0) - model[:-1].transform(X[:1]))[0]
    steps = directions(rng, 400, X.shape[1], norm) * to_input
    for row, radius, label in zip(X, found.radius, found.label, strict=True):
        length = min(radius, 1e6) * (1.0 - 1e-9)
        assert (model.predict(row + length * steps) == label).all()


@pytest.mark.parametrize("norm", NORMS)
def test_radius_of_two_classes_is_score_over_norm(norm):
    X, y = random_data(11, n_classes=2)
    model = MulticlassSVC(random_state=0).fit(X, y)
    dual = {1: np.inf, 2: 2, "inf": 1}[norm]
    expected = np.abs(model.decision_function(X)) / np.linalg.norm(model.coef_[0], dual)
    np.testing.assert_allclose(model.certified_radius(X, norm), expected, rtol=1e-10)


@pytest.mark.parametrize("seed", range(30))
def test_gaussian_radius_is_never_violated(seed):
    norm = NORMS[seed % 7 % 3]
    model, X, _ = random_model(seed, "rbf")
    rng = np.random.default_rng(seed)
    X = X[:8]
    found = certified_radius(model, X, norm, "input")
    assert not found.is_exact
    steps = directions(rng, 400, X.shape[1], norm)
    for row, radius, label in zip(X, found.radius, found.label, strict=True):
        length = min(radius, 1e6) * (1.0 - 1e-9)
        rows = np.concatenate([row + length * steps, row + length * rng.uniform() * steps])
        assert (model.predict(rows) == label).all()


def test_gaussian_radius_is_the_formula():
    X, y = random_data(4)
    model = MulticlassSVC(kernel="rbf", gamma=0.3, random_state=0).fit(X, y)
    sv, tau = model.support_vectors_, model.dual_coef_
    K = np.exp(-0.3 * ((sv[:, None] - sv[None]) ** 2).sum(axis=2))
    f = model.decision_function(X)
    expected = np.full(len(X), np.inf)
    for i, y_i in enumerate(f.argmax(axis=1)):
        for s in range(3):
            if s != y_i:
                t = tau[:, y_i] - tau[:, s]
                rho2 = (f[i, y_i] - f[i, s]) ** 2 / (t @ K @ t)
                if rho2 < 2.0:
                    expected[i] = min(expected[i], np.sqrt(-np.log(1.0 - rho2 / 2.0) / 0.3))
    np.testing.assert_allclose(model.certified_radius(X), expected, rtol=1e-9)


def test_one_width_per_feature():
    X, y = random_data(6)
    gamma = np.array([0.1, 0.4, 0.2, 0.05])
    wide = MulticlassSVC(kernel="rbf", gamma=gamma, random_state=0).fit(X, y)
    same = MulticlassSVC(kernel="rbf", gamma=1.0, random_state=0).fit(X * np.sqrt(gamma), y)
    inside = same.certified_radius(X * np.sqrt(gamma))
    np.testing.assert_allclose(wide.certified_radius(X), inside / np.sqrt(0.4), rtol=1e-6)
    np.testing.assert_allclose(
        wide.certified_radius(X, norm="inf"), inside / np.sqrt(gamma.sum()), rtol=1e-6
    )


def test_clipping_scalers_have_a_bound():
    X, y = random_data(8)
    model = make_pipeline(MinMaxScaler(clip=True), MulticlassSVC()).fit(X[:20], y[:20])
    found = certified_radius(model, X)
    assert not found.is_exact
    rng = np.random.default_rng(0)
    steps = directions(rng, 300, 4, 2)
    for row, radius, label in zip(X, found.radius, found.label, strict=True):
        assert (model.predict(row + (1 - 1e-9) * radius * steps) == label).all()
    with pytest.raises(ValueError, match="clip=True"):
        counterfactual(model, X)


def test_units_of_one_scale_for_all():
    X, y = random_data(9)
    model = make_pipeline(StandardScaler(with_std=False), MulticlassSVC()).fit(X, y)
    a, b = (certified_radius(model, X, units=units).radius for units in ("input", "scaled"))
    np.testing.assert_allclose(a, b)


# -- counterfactuals ---------------------------------------------------------------------------


def quadratic_programme(G, h, low, high):
    """min ||d||^2 subject to G d >= h and bounds, by an interior-point solver."""
    clarabel = pytest.importorskip("clarabel")
    k = G.shape[1]
    finite_low, finite_high = np.isfinite(low), np.isfinite(high)
    A = np.vstack([-G, -np.eye(k)[finite_low], np.eye(k)[finite_high]])
    b = np.concatenate([-h, -low[finite_low], high[finite_high]])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(len(b))]
    solver = clarabel.DefaultSolver(
        sp.csc_matrix(np.eye(k)), np.zeros(k), sp.csc_matrix(A), b, cones, settings
    )
    found = solver.solve()
    return np.array(found.x) if str(found.status) == "Solved" else None


@pytest.mark.parametrize("seed", range(60))
def test_nearest_step_equals_a_quadratic_programme(seed):
    rng = np.random.default_rng(seed)
    m, k = rng.integers(1, 9), rng.integers(1, 7)
    G, h = rng.normal(size=(m, k)), rng.normal(size=m)
    low, high = np.full(k, -np.inf), np.full(k, np.inf)
    if seed % 3:
        low, high = -rng.uniform(0.0, 1.0, size=k), rng.uniform(0.0, 1.0, size=k)
    if seed % 3 == 2:
        low, high = low + 0.3, high + 0.3  # some steps are forced
    found = nearest_step(G, h, 2, low, high)
    expected = quadratic_programme(G, h, low, high)
    assert (found is None) == (expected is None)
    if found is not None:
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert (G @ found >= h - 1e-8).all()


@pytest.mark.parametrize("norm", [1, "inf"])
@pytest.mark.parametrize("seed", range(30))
def test_nearest_step_equals_a_linear_programme(seed, norm):
    """The dual programme, written down independently, has the same value."""
    rng = np.random.default_rng(seed)
    m, k = rng.integers(1, 9), rng.integers(1, 7)
    G, h = rng.normal(size=(m, k)), rng.normal(size=m)
    found = nearest_step(G, h, norm)
    # max h'u subject to u >= 0 and the dual norm of G'u <= 1
    if norm == 1:
        A, b, cost = np.vstack([G.T, -G.T]), np.ones(2 * k), -h
        dual = linprog(cost, A_ub=A, b_ub=b)
    else:
        A = np.vstack([np.hstack([G.T, -np.eye(k)]), np.hstack([-G.T, -np.eye(k)])])
        A = np.vstack([A, np.append(np.zeros(m), np.ones(k))])
        b = np.append(np.zeros(2 * k), 1.0)
        dual = linprog(np.append(-h, np.zeros(k)), A_ub=A, b_ub=b)
    if found is None:
        assert not dual.success  # unbounded: the primal has no point
    else:
        assert step_length(found, norm) == pytest.approx(-dual.fun, abs=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_counterfactuals_reach_their_target(seed):
    norm = NORMS[seed % 7 % 3]
    model, X, _ = random_model(seed)
    X = X[:6]
    low, high = X.min(axis=0) - 1.0, X.max(axis=0) + 1.0
    fixed = [seed % 4]
    for target in model.classes_:
        found = counterfactual(model, X, target, norm=norm, fixed=fixed, bounds=(low, high))
        good = np.isfinite(found.distance)
        assert all((reason == "") == ok for reason, ok in zip(found.reason, good, strict=True))
        assert np.isnan(found.rows[~good]).all()
        if good.any():
            assert (model.predict(found.rows[good]) == target).all()
        rows = found.rows[good]
        assert (rows >= low).all()
        assert (rows <= high).all()
        np.testing.assert_array_equal(rows[:, fixed], X[good][:, fixed])
        np.testing.assert_allclose(norm_of(rows - X[good], norm), found.distance[good], atol=1e-9)
        free = counterfactual(model, X, target, norm=norm)
        assert (free.distance <= found.distance * (1 + 1e-9) + 1e-9).all()


@pytest.mark.parametrize("seed", range(20))
def test_no_sampled_row_of_the_target_is_nearer(seed):
    model, X, _ = random_model(seed)
    rng = np.random.default_rng(seed)
    steps = directions(rng, 3000, X.shape[1], 2) * rng.uniform(size=(3000, 1))
    for row in X[:3]:
        low, high = row - rng.uniform(size=4), row + rng.uniform(size=4)
        target = model.classes_[model.classes_ != model.predict(row[None])[0]][0]
        found = counterfactual(model, row[None], target, bounds=(low, high))
        longest = min(float(found.distance[0]), 10.0)
        near = np.clip(row + longest * steps, low, high)
        hits = model.predict(near) == target
        if hits.any():
            assert norm_of(near[hits] - row, 2).min() >= found.distance[0] * (1 - 1e-9)


def test_a_margin_is_kept():
    model, X, _ = random_model(2)
    found = counterfactual(model, X[:5], margin=0.5)
    scores = np.sort(class_scores(model, found.rows), axis=1)
    np.testing.assert_allclose(scores[:, -1] - scores[:, -2], 0.5, atol=1e-8)
    np.testing.assert_array_equal(found.margin, 0.5)


def test_own_class_as_target_is_no_change():
    model, X, _ = random_model(1)
    labels = model.predict(X[:4])
    found = counterfactual(model, X[:4], target=labels)
    np.testing.assert_array_equal(found.rows, X[:4])
    np.testing.assert_array_equal(found.distance, 0.0)
    wide = counterfactual(model, X[:4], target=labels, margin=50.0)
    scores = np.sort(class_scores(model, wide.rows), axis=1)
    reached = np.isfinite(wide.distance)
    assert (scores[reached, -1] - scores[reached, -2] >= 50.0 - 1e-6).all()


def test_infeasible_rows_say_why():
    model, X, _ = random_model(0)
    stuck = counterfactual(model, X[:2], fixed=range(4))
    assert np.isnan(stuck.rows).all()
    assert np.isinf(stuck.distance).all()
    assert "fixed features" in stuck.reason[0]
    outside = counterfactual(model, X[:2], fixed=[0], bounds={0: (1e6, 2e6)})
    assert "outside its bounds" in outside.reason[0]
    line = ConvexHullSVC(1.0, kernel="linear").fit([[0.0], [1.5], [2.5], [4.0]], [0, 1, 1, 2])
    never = counterfactual(line, [[0.0]], target=1)  # the class in the middle never wins
    assert never.reason == ("no row at all is predicted as the target",)
    assert line.certified_radius([[0.0]])[0] == pytest.approx(2.0)  # the border with class 2


def test_rows_outside_their_bounds_are_brought_inside():
    model, X, _ = random_model(4)
    row = X[:1].copy()
    low, high = X.min(axis=0), X.max(axis=0)
    row[0, 0] = high[0] + 5.0
    for norm in NORMS:
        found = counterfactual(model, row, model.classes_[0], norm=norm, bounds=(low, high))
        if found.reason[0] == "":
            assert (found.rows <= high).all()
            assert (found.rows >= low).all()
            assert model.predict(found.rows)[0] == model.classes_[0]


# -- models and refusals -----------------------------------------------------------------------


def test_searches_and_other_linear_models():
    X, y = random_data(12)
    for model in (
        GridSearchCV(make_pipeline(StandardScaler(), MulticlassSVC()), {"multiclasssvc__C": [1.0]}),
        MultiPrototypeSVCCV((2,), Cs=[0.1], cv=2, random_state=0),
        LogisticRegression(max_iter=10000),
    ):
        model.fit(X, y)
        found = explain(model, X)
        np.testing.assert_allclose(found.contributions.sum(axis=1) + found.constant, found.lead)
        rows = counterfactual(model, X[:3])
        np.testing.assert_array_equal(model.predict(rows.rows), rows.target)
        np.testing.assert_allclose(rows.distance, certified_radius(model, X[:3]).radius, atol=1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kernel", ["poly", "sigmoid", "precomputed"])
@pytest.mark.parametrize("function", [explain, certified_radius, counterfactual])
def test_other_kernels_are_refused(kernel, function):
    X, y = random_data(13)
    X = X @ X.T if kernel == "precomputed" else 0.1 * X
    model = MulticlassSVC(kernel=kernel, tol=0.1)
    model.fit(X, y)
    with pytest.raises(ValueError, match=f"kernel='{kernel}'"):
        function(model, X)


def test_refusals_name_the_argument():
    model, X, _ = random_model(1)
    rbf, _, _ = random_model(1, "rbf")
    for call, words in (
        (lambda: certified_radius(model, X, norm=3), "norm must be 1, 2 or 'inf'"),
        (lambda: certified_radius(model, X, units="metres"), "units must be 'input'"),
        (lambda: counterfactual(model, X, margin=0.0), "margin must be a finite number > 0"),
        (lambda: counterfactual(model, X, target="nobody"), "target"),
        (lambda: counterfactual(model, X, target=[0, 1]), "target must be one label"),
        (lambda: counterfactual(model, X, fixed=["colour"]), "fixed: 'colour' is no feature"),
        (lambda: counterfactual(model, X, fixed=[99]), "fixed: 99 is no feature"),
        (lambda: counterfactual(model, X, bounds=(1, 0)), "bounds: every low"),
        (lambda: counterfactual(model, X, bounds=3), "bounds must be a pair"),
        (lambda: counterfactual(model, X, bounds=([1, 2], 3)), "bounds: low and high"),
        (lambda: counterfactual(rbf, X), "counterfactual needs a linear"),
        (lambda: explain(model, X, reference=[1.0]), "reference must be one row of 4"),
        (lambda: explain(rbf, X, reference=X[0]), "reference is for linear"),
        (lambda: explain(model, X[:0]), "X has no rows"),
        (lambda: explain(KNeighborsClassifier().fit(X, np.arange(len(X)) % 2), X), "needs a lin"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(ValueError, match="NaN"):
        explain(model, np.full_like(X, np.nan))
