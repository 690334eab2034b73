"""Properties of fits with any parameters on any small data: a sound model, or one clear line.

``ESTIMATOR_EXAMPLES`` sets the number of fits of each property (``make fuzz`` sets thousands).
"""

import os
import time
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from polymargin import ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC
from polymargin.problem.machines import MACHINES

EXAMPLES = int(os.environ.get("ESTIMATOR_EXAMPLES", "25"))
HAS_CLOCK = EXAMPLES > 25
"""Only ``make fuzz`` looks at the clock: ordinary tests may run on a busy machine."""
ALLOWANCE = 0.5

bounded = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=not HAS_CLOCK,
    database=None,
    suppress_health_check=list(HealthCheck),
)

magnitudes = st.sampled_from([1e-300, 1e-120, 1e-30, 1e-5, 0.1, 1.0, 10.0, 1e5, 1e30, 1e120, 1e300])
kernels = st.fixed_dictionaries(
    {
        "kernel": st.sampled_from(["linear", "linear", "rbf", "poly", "sigmoid"]),
        "gamma": st.sampled_from(["scale", "auto", 1e-9, 0.5, 1e9]),
        "degree": st.sampled_from([1, 2, 3, 2.5, 60]),
        "coef0": st.sampled_from([0.0, 1.0, -1.0, 1e9]),
    }
)
limits = {"max_time": st.just(1.0), "max_iter": st.just(500)}


@st.composite
def tables(draw):
    """A few rows of any size: repeated, constant, zero, sparse, single or double precision."""
    n, d = draw(st.integers(2, 24)), draw(st.integers(1, 5))
    classes = draw(st.integers(2, min(n, 5)))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    y = np.append(np.arange(classes), rng.integers(classes, size=n - classes))
    X = (
        rng.normal(size=(n, d))
        + draw(st.sampled_from([0.0, 2.0])) * rng.normal(size=(classes, d))[y]
    )
    shape = draw(st.sampled_from(["plain", "whole", "constant", "twins", "columns"]))
    if shape == "whole":
        X = np.round(X)
    elif shape == "constant":
        X[:] = X[0]
    elif shape == "twins":
        X[n // 2 :] = X[: n - n // 2]
    elif shape == "columns":
        X = X * 10.0 ** rng.integers(-12, 13, size=d)
    with np.errstate(over="ignore", under="ignore"):
        X = X * draw(st.sampled_from([1.0, 1.0, 1.0, 1e-8, 1e8, 1e-100, 1e100]))
        if draw(st.booleans()) and np.abs(X).max() < 1e38:
            X = X.astype(np.float32)
    weight = draw(st.sampled_from([None, "some", "many"]))
    if weight is not None:
        weight = rng.choice([0.0, 1.0, 2.5], size=n) if weight == "some" else np.full(n, 1e6)
    return (sparse.csr_matrix(X) if draw(st.booleans()) else X), y, weight


machines = st.builds(
    lambda kernel, rest: MulticlassSVC(**kernel, **rest, random_state=0),
    kernels,
    st.fixed_dictionaries(
        {
            "machine": st.sampled_from(sorted(MACHINES)),
            "C": st.one_of(magnitudes, st.just(np.inf)),
            "intercept": st.sampled_from(["auto", "none", "penalized", "free"]),
            "tol": st.sampled_from([1e-1, 1e-3, 1e-9]),
            "class_weight": st.sampled_from([None, "balanced"]),
            **limits,
        }
    ),
)
prototypes = st.builds(
    lambda kernel, rest: MultiPrototypeSVC(**kernel, **rest, random_state=0),
    kernels,
    st.fixed_dictionaries(
        {
            "n_prototypes": st.integers(1, 3),
            "C": magnitudes,
            "assignment": st.sampled_from(["annealed", "greedy", "static"]),
            **limits,
        }
    ),
)
hulls = st.builds(
    lambda kernel, rest: ConvexHullSVC(**kernel, **rest),
    kernels,
    st.fixed_dictionaries(
        {
            "eta": st.sampled_from([0.3, 0.7, 1.0]),
            "eta_scale": st.just("relative"),
            "offset": st.sampled_from(["center", "kkt"]),
            "max_time": st.just(1.0),
        }
    ),
)
estimators = st.one_of(machines, machines, prototypes, hulls)


def fitted(model, X, y, weight):
    """The model, or None where it was refused with one line; no other error, no numeric warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        begun = time.perf_counter()
        try:
            model.fit(X, y, weight)
        except ValueError as refusal:
            text = str(refusal)
            assert text.strip()
            assert "\n" not in text
            return None
        finally:
            seconds = time.perf_counter() - begun
            assert not HAS_CLOCK or seconds <= model.max_time + ALLOWANCE, seconds
    return model


def scores_of(model, X):
    """Scores (n, n_classes) of a fitted model; None where they overflow, told in one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            scores = model.decision_function(X)
        except ValueError as refusal:
            if str(refusal).startswith(("X: the scores of row", "degree:")):
                return None
            raise
    if scores.ndim == 1:
        scores = np.column_stack([np.zeros(len(scores)), scores])
    return scores


@bounded
@given(estimators, tables())
def test_finite_scores_or_a_refusal(model, table):
    X, y, weight = table
    if fitted(model, X, y, weight) is None:
        return
    certificate = model.certificate_
    assert not np.isnan([certificate.primal, certificate.dual, certificate.gap]).any()
    assert certificate.gap >= 0
    assert certificate.relative_gap >= 0
    scores = scores_of(model, X)
    if scores is None:
        return
    assert np.isfinite(scores).all()
    labels = model.predict(X)
    two_best = np.sort(scores, axis=1)[:, -2:]
    clear = two_best[:, 1] - two_best[:, 0] > 1e-9 * np.abs(scores).max()
    np.testing.assert_array_equal(labels[clear], model.classes_[scores.argmax(axis=1)][clear])


@bounded
@given(estimators, tables())
def test_the_same_seed_gives_the_same_bits(model, table):
    X, y, weight = table
    model.set_params(max_time=None)
    if isinstance(model, ConvexHullSVC):
        model.set_params(max_iter=2000)
    if fitted(model, X, y, weight) is None:
        return
    first = {k: v for k, v in vars(model).items() if isinstance(v, np.ndarray)}
    value = model.certificate_
    assert fitted(model, X, y, weight) is not None
    for name, array in first.items():
        np.testing.assert_array_equal(array, getattr(model, name), err_msg=name)
    assert model.certificate_ == value


def slow_primal(model, X, y, weight):
    """P of a linear machine from its fitted attributes by loops over rows and classes.

    The machines' definitions (1.1), (4.1), (5.1), (6.1) word by word; None for others.
    """
    X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
    Q = len(model.classes_)
    W = np.zeros((Q, X.shape[1]))
    for tau, x in zip(model.dual_coef_, model.support_, strict=True):
        W += np.outer(tau, X[x])
    if model.machine in ("llw", "msvm2"):
        W -= W.mean(axis=0)
    penalty = float((W * W).sum())
    b = model.intercept_ if Q > 2 else np.array([-0.5, 0.5]) * model.intercept_
    loss = 0.0
    for x, label, c in zip(X, y, weight, strict=True):
        f = W @ x + b
        rivals = [k for k in range(Q) if k != label]
        if model.machine == "cs":
            loss += c * max(0.0, 1.0 + max(f[k] for k in rivals) - f[label])
        elif model.machine == "ww":
            loss += c * sum(max(0.0, 1.0 + f[k] - f[label]) for k in rivals)
        else:
            loss += c * sum(max(0.0, 1.0 / (Q - 1) + f[k]) for k in rivals)
    return 0.5 * penalty + loss


@bounded
@given(
    st.sampled_from(["cs", "ww", "llw"]),
    st.sampled_from([1e-3, 0.1, 1.0, 30.0]),
    st.sampled_from(["none", "free"]),
    tables(),
)
def test_certificate_by_a_slow_path(machine, C, intercept, table):
    X, y, weight = table
    weight = np.ones(len(y)) if weight is None else np.minimum(weight, 3.0)
    if len(np.unique(y[weight > 0])) < 2 or len(np.unique(y[weight > 0])) < len(np.unique(y)):
        return
    largest = float(abs(X).max())
    if not 1e-6 < largest < 1e6:
        return
    model = MulticlassSVC(machine, C=C, intercept=intercept, random_state=0, max_time=2.0)
    if fitted(model, X, y, weight) is None:
        return
    primal = slow_primal(model, X, y, C * weight)
    value = model.certificate_.primal
    if np.isinf(value):  # there was no time for a certificate
        return
    # the judge may scale a separating model to margin 1; its coefficients are scaled, too
    assert value == pytest.approx(primal, rel=1e-7)
    assert model.certificate_.dual <= primal * (1 + 1e-9) + 1e-12
