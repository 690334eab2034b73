"""Generalisation bounds against hand computations, margins against definitions, their pictures."""

import numpy as np
import pytest
from conftest import make_overlapping, make_separable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polymargin import (
    MulticlassSVC,
    MultiPrototypeSVC,
    growth_bound,
    margin_bound,
    margin_record,
)
from polymargin.plots import PairMarginsDisplay, SlackDistributionDisplay


@pytest.fixture(scope="module")
def separated():
    X, y = make_separable(n=80)
    model = MultiPrototypeSVC(
        n_prototypes=2, C=1000.0, assignment="greedy", tol=1e-6, random_state=0
    ).fit(X, y)
    return model, X, y


def test_margin_bound_by_hand(separated):
    model, X, y = separated
    n, q, Q, delta = len(y), 2, 3, 0.1
    bound = margin_bound(model, X, y, delta=delta, radius=3.0, log_base=np.e)
    norm2 = (model.prototypes_**2).sum() + (model.intercept_**2).sum()
    nodes = q * q * Q * (Q - 1) // 2
    logs = np.log(4 * np.e * n) * np.log(4 * n)
    confidence = np.log(2.0 / delta) + nodes * np.log(2.0 * n)
    expected = (130 * 9.0 * q * (Q - 1 + q) * norm2 * logs + confidence) / n
    ours = (130 * 9.0 * q * Q * norm2 * logs + confidence) / n
    assert bound.value == pytest.approx(expected, rel=1e-12)
    assert bound.ours == pytest.approx(ours, rel=1e-12)
    assert bound.ours < bound.value
    both = 130 * 9.0 * (q * (Q - 1 + q) * norm2 * logs + confidence) / n
    assert bound.terms["value_both_terms"] == pytest.approx(both, rel=1e-12)
    # (10.2): the sum over pairs is at most qQ ||M||^2, and margins are at least 1 / ||M_r - M_s||
    M = np.column_stack([model.prototypes_, model.intercept_])
    label = model._prototype_class
    pairs = sum(
        ((M[r] - M[s]) ** 2).sum() for r in range(6) for s in range(6) if label[r] < label[s]
    )
    per_class = sum((M[label == c].sum(axis=0) ** 2).sum() for c in range(Q))
    assert bound.terms["pair_sum"] == pytest.approx(pairs, rel=1e-9)
    assert pairs == pytest.approx(q * (Q - 1) * norm2 + per_class, rel=1e-6)
    assert bound.terms["margin_sum"] <= pairs * (1 + 1e-9) <= q * Q * norm2 * (1 + 1e-6)
    in_base_2 = margin_bound(model, X, y, delta=delta, radius=3.0)
    assert in_base_2.terms["log_base"] == 2.0
    assert in_base_2.terms["capacity"] == pytest.approx(
        bound.terms["capacity"] / np.log(2.0) ** 2, rel=1e-12
    )


def test_margin_bound_says_what_it_assumes(separated):
    model, X, y = separated
    bound = margin_bound(model, X, y)
    assert bound.assumptions[0].holds is True
    assert bound.holds
    assert bound.vacuous
    assert "Vacuous" in bound.sentence
    assert "theorem 4" in bound.reference
    assert "q(Q-1+q)" in bound.form
    assert bound.sentence in str(bound)
    X, y = make_overlapping()
    soft = MultiPrototypeSVC(n_prototypes=2, C=0.1, random_state=0).fit(X, y)
    failing = margin_bound(soft, X, y)
    assert failing.assumptions[0].holds is False
    assert not failing.holds
    assert failing.vacuous
    assert "No bound" in failing.sentence
    assert np.isfinite(failing.value)
    # a narrow ball and many copies: not vacuous
    many = np.repeat(X[:2] * 0.0 + np.array([[1.0], [-1.0]]), 50_000, axis=0)[:, :1]
    y = np.repeat([0, 1], 50_000)
    model = MulticlassSVC(C=1.0, intercept="none", random_state=0).fit(many, y)
    good = margin_bound(model, many, y)
    assert not good.vacuous
    assert "error is at most" in good.sentence


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_radius_of_the_sample(kernel):
    X, y = make_separable(n=60)
    K = {
        "linear": X @ X.T,
        "precomputed": X @ X.T,
        "rbf": np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2)),
    }[kernel]
    data = K if kernel == "precomputed" else X
    model = MulticlassSVC(C=10.0, kernel=kernel, gamma=0.3, random_state=0).fit(data, y)
    radius2 = margin_bound(model, data, y).terms["radius2"]
    from test_leave_one_out import sphere

    assert radius2 == pytest.approx(sphere(K), rel=1e-6)


def test_growth_bound_by_hand(separated):
    model, X, y = separated
    n, d, q, Q, delta = len(y), 6, 2, 3, 0.05  # the constant feature is a dimension
    bound = growth_bound(model, X, y)
    bracket = (
        1
        + (q * Q + 0.5) * np.log(q * Q)
        + d * q * q * Q * (Q - 1) / 2 * np.log(2 * np.e * n / d)
        - np.log(delta / 4)
    )
    error = 1.0 - model.score(X, y)
    assert bound.value == pytest.approx(error + np.sqrt(4 * bracket / n) + 1 / n, rel=1e-12)
    assert bound.vacuous
    assert "Vacuous" in bound.sentence
    assert bound.ours is None
    assert "theorem 5" in bound.reference
    few = growth_bound(model, X[:4], y[:4])
    assert next(a for a in few.assumptions if a.name == "n >= d").holds is False
    assert "No bound" in few.sentence
    kernel = MulticlassSVC(kernel="rbf", random_state=0).fit(X, y)
    assert growth_bound(kernel, X, y).value == np.inf


def test_one_prototype_per_class_is_the_same_machine():
    X, y = make_separable(n=60)
    one = MulticlassSVC(C=100.0, tol=1e-8, random_state=0).fit(X, y)
    same = MultiPrototypeSVC(n_prototypes=1, C=100.0, tol=1e-8, random_state=0).fit(X, y)
    for function in (margin_bound, growth_bound):
        assert function(one, X, y).value == pytest.approx(function(same, X, y).value, rel=1e-5)


def test_bad_input(separated):
    model, X, y = separated
    for delta in (0.0, 1.0, -1.0, np.nan, "x"):
        with pytest.raises(ValueError, match="delta"):
            margin_bound(model, X, y, delta=delta)
    with pytest.raises(ValueError, match="radius"):
        margin_bound(model, X, y, radius=0.0)
    with pytest.raises(ValueError, match="labels that the model does not know"):
        growth_bound(model, X, y + 7)
    with pytest.raises(ValueError, match="machine='cs'"):
        margin_bound(MulticlassSVC(machine="ww").fit(X, y), X, y)
    with pytest.raises(ValueError, match="intercept"):
        margin_bound(MulticlassSVC(intercept="free").fit(X, y), X, y)
    with pytest.raises(ValueError, match="model must be"):
        margin_record("model", X, y)


# -- margins ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", ["cs", "ww", "llw", "msvm2"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_pair_margins_are_those_of_the_definition(machine, kernel):
    X, y = make_overlapping()
    model = MulticlassSVC(machine=machine, kernel=kernel, gamma=0.2, random_state=0).fit(X, y)
    record = margin_record(model, X, y)
    right = model.predict(X) == y
    assert record.errors == (~right).sum()
    np.testing.assert_allclose(
        record.geometric, model.margins(X[right], y[right]), rtol=1e-9, atol=1e-12
    )
    k, l = 0, 1
    i = record.closest[k, l]
    assert y[i] in (k, l)
    assert right[i]
    assert record.distances[i, l if y[i] == k else k] == pytest.approx(record.geometric[k, l])
    np.testing.assert_allclose(record.slacks, model.slacks(X, y))
    assert record.functional == record.margins.min()
    assert record.quantiles()["margins"][0] == record.functional


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**6), Q=st.integers(2, 4), q=st.integers(1, 3))
def test_distances_are_distances(seed, Q, q):
    """Moving an example by its distance along the normal of a border puts it on the border."""
    rng = np.random.default_rng(seed)
    n = 12 * Q
    X, y = rng.normal(size=(n, 3)), np.arange(n) % Q
    model = MultiPrototypeSVC(n_prototypes=q, C=1.0, assignment="greedy", random_state=0).fit(X, y)
    record = margin_record(model, X, y)
    scores, label = model.prototype_scores(X), model._prototype_class
    i = int(rng.integers(n))
    for other in set(range(Q)) - {y[i]}:
        mine = np.flatnonzero(label == y[i])
        theirs = np.flatnonzero(label == other)
        r, s = mine[scores[i, mine].argmax()], theirs[scores[i, theirs].argmax()]
        normal = model.prototypes_[r] - model.prototypes_[s]
        if not np.linalg.norm(normal) > 1e-9:
            continue
        moved = X[i] - record.distances[i, other] * normal / np.linalg.norm(normal)
        gap = moved @ normal + model.intercept_[r] - model.intercept_[s]
        assert abs(gap) <= 1e-9 * (1.0 + np.linalg.norm(normal))


def test_pictures():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    X, y = make_overlapping()
    model = MulticlassSVC(random_state=0).fit(X, y)
    pairs = PairMarginsDisplay.from_estimator(model, X, y)
    np.testing.assert_array_equal(pairs.geometric, margin_record(model, X, y).geometric)
    assert pairs.figure_ is pairs.ax_.figure
    slack = SlackDistributionDisplay.record(model, X, y)
    np.testing.assert_allclose(slack.losses, model.slacks(X, y))
    assert slack.plot().ax_.get_yscale() == "log"


@pytest.mark.parametrize("display", [PairMarginsDisplay, SlackDistributionDisplay])
def test_pictures_of_a_pipeline(display):
    """The margins are those of the features that reach the machine."""
    X, y = make_overlapping()
    whole = make_pipeline(StandardScaler(), MulticlassSVC(random_state=0)).fit(X, y)
    alone = display.record(whole[-1], whole[0].transform(X), y)
    search = GridSearchCV(whole, {"multiclasssvc__C": [1.0]}, cv=2).fit(X, y)
    for model in (whole, search):
        for name, values in vars(display.record(model, X, y)).items():
            np.testing.assert_allclose(values, getattr(alone, name))
