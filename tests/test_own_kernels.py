"""One kernel per prototype of a class: against a QP, and everything that a fitted model offers."""

import json

import clarabel
import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping
from machine_reference import features_of
from scipy import sparse

from polymargin import (
    Annealing,
    ExportModel,
    MulticlassSVC,
    MultiPrototypeSVC,
    load,
    save,
    to_c,
    to_json,
    to_onnx,
)
from polymargin.solvers.own_kernels import pattern_optimum

GAMMA = 0.3
LIST = ["linear", ("rbf", {"gamma": GAMMA})]


@pytest.fixture(scope="module")
def data():
    return make_overlapping(30, 3, 3)


@pytest.fixture(scope="module")
def model(data):
    return MultiPrototypeSVC(2, kernel=LIST, assignment="greedy", random_state=0).fit(*data)


def static_optimum(grams, kernel_of, owner, own, label, caps):
    """The primal problem of a fixed assignment, every prototype in its own feature space."""
    features = [features_of(grams[m]) for m in kernel_of]
    starts = np.concatenate([[0], np.cumsum([f.shape[1] for f in features])])
    n, size = len(label), starts[-1] + len(label)
    P = np.zeros(size)
    P[: starts[-1]] = 1.0
    q = np.concatenate([np.zeros(starts[-1]), caps])
    rows, bounds = [], []
    for i in range(n):
        slack = np.zeros(size)
        slack[starts[-1] + i] = -1.0
        rows.append(slack)
        bounds.append(0.0)
        for s in np.flatnonzero(owner != label[i]):
            line = slack.copy()
            a = own[i]
            line[starts[a] : starts[a + 1]] = -features[a][i]
            line[starts[s] : starts[s + 1]] = features[s][i]
            rows.append(line)
            bounds.append(-1.0)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    A = sparse.csc_matrix(np.array(rows))
    cones = [clarabel.NonnegativeConeT(len(bounds))]
    P = sparse.csc_matrix(np.diag(P))
    found = clarabel.DefaultSolver(P, q, A, np.array(bounds), cones, settings).solve()
    assert str(found.status) == "Solved"
    return found.obj_val


@pytest.mark.parametrize("seed", range(6))
def test_pattern_step_is_the_qp(seed):
    """min 1/2 sum_r A_r tau_r^2 + B . tau over the simplex of a pattern, by optimality."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 7))
    A, B, cap = rng.uniform(0.2, 3.0, k), rng.normal(size=k), float(rng.uniform(0.1, 2.0))
    own = int(rng.integers(k))
    tau = pattern_optimum(A, B, own, cap)
    assert tau.sum() == pytest.approx(0.0, abs=1e-12)
    assert 0.0 <= tau[own] <= cap * (1 + 1e-12)
    assert (np.delete(tau, own) <= 0.0).all()
    value = 0.5 * A @ tau**2 + B @ tau
    for _ in range(300):
        weight = rng.dirichlet(np.ones(k)) * cap
        other = -weight
        other[own] = 0.0
        other[own] = -other.sum()
        mixed = tau + rng.uniform() * (other - tau)
        assert 0.5 * A @ mixed**2 + B @ mixed >= value - 1e-10


def test_static_problem_is_the_qp(data):
    X, y = data
    own = 2 * y + np.arange(len(y)) // 3 % 2
    w = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    model = MultiPrototypeSVC(
        2, C=0.7, kernel=LIST, assignment="static", init=own, tol=1e-5, intercept="penalized"
    ).fit(X, y, sample_weight=w)
    grams = [ref.linear(X, X) + 1.0, ref.rbf(X, X, GAMMA) + 1.0]
    owner = np.repeat(np.arange(3), 2)
    value = static_optimum(grams, [0, 1] * 3, owner, own, y, 0.7 * w)
    assert model.status_ == "converged"
    assert model.certificate_.dual <= value * (1 + 1e-7)
    assert model.certificate_.primal == pytest.approx(value, rel=2e-5)
    tau = np.zeros((len(y), 6))
    tau[model.support_] = model.dual_coef_
    scores = np.column_stack([grams[r % 2] @ tau[:, r] for r in range(6)])
    np.testing.assert_allclose(model.prototype_scores(X), scores, atol=1e-9)


def test_equal_kernels_are_one_kernel(data):
    X, y = data
    own = 2 * y + np.arange(len(y)) // 3 % 2
    given = {"assignment": "static", "init": own, "tol": 1e-5, "intercept": "none"}
    twice = MultiPrototypeSVC(2, kernel=[LIST[1]] * 2, **given).fit(X, y)
    once = MultiPrototypeSVC(2, kernel="rbf", gamma=GAMMA, **given).fit(X, y)
    assert twice.certificate_.primal == pytest.approx(once.certificate_.primal, rel=2e-5)


@pytest.mark.parametrize(
    ("assignment", "annealing"),
    [
        ("annealed", Annealing(1.0, 0.4)),
        ("annealed", Annealing(2.0, 0.6, None, "descent", "zeroing", "absolute", 0.0)),
        ("greedy", "paper"),
    ],
)
def test_alternation_ends_certified(data, assignment, annealing):
    X, y = data
    model, again = (
        MultiPrototypeSVC(
            2, kernel=LIST, assignment=assignment, annealing=annealing, random_state=0
        ).fit(X, y)
        for _ in range(2)
    )
    assert model.status_ == "converged"
    assert model.stationary_
    assert model.certificate_.relative_gap <= 1e-3
    assert model.energy_ <= model.certificate_.primal * (1 + 1e-12)
    np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)


def test_files_and_json(data, model, tmp_path):
    X, _ = data
    save(model, tmp_path / "m")
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.prototype_scores(X), model.prototype_scores(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    found = json.loads(to_json(model))
    assert found["kernel"]["name"] == "each"
    assert [term["name"] for term in found["kernel"]["terms"]] == ["linear", "rbf"]
    record = ExportModel.from_estimator(model)
    np.testing.assert_allclose(record.scores(X), model.decision_function(X), atol=1e-9)
    with pytest.raises(ValueError, match="one kernel per prototype cannot be exported to C"):
        to_c(model)
    with pytest.raises(ValueError, match="one kernel per prototype cannot be exported to ONNX"):
        to_onnx(model)
    with pytest.raises(ValueError, match="a kernel of its own"):
        model.margins(X, model.predict(X))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"n_prototypes": 3}, "2 entries for classes of up to 3"),
        ({"kernel": []}, "empty"),
        ({"kernel": ["linear", "cosine"]}, "cosine"),
        ({"kernel": [("rbf", {"gamma": 1.0}, 0.5), "linear"]}, "each prototype"),
        ({"cost_matrix": 1.0 - np.eye(3)}, "cost_matrix=None"),
        ({"metric": "learned"}, "metric="),
        ({"C": np.inf, "assignment": "static"}, "finite C"),
        ({"cache_mb": 1e-3}, "cache_mb=0.001"),
    ],
)
def test_refusals(data, parameters, words):
    with pytest.raises(ValueError, match=words):
        MultiPrototypeSVC(**({"n_prototypes": 2, "kernel": LIST} | parameters)).fit(*data)


def test_lists_of_the_other_machines_are_sums(data):
    with pytest.raises(ValueError, match="weight"):
        MulticlassSVC(kernel=LIST).fit(*data)
