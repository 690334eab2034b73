"""A fit that has to end at its k-th look at the clock, for every k, leaves a feasible model.

The clock is made up: time jumps past the limit, or Ctrl-C is pressed, at the k-th look.  All places
at which a solver can be told to end are visited in turn, so that a state that is not whole at one
of them shows, whatever the speed of the machine.
"""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from polymargin import ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC, PatternSMO

N, Q = 620, 3  # more patterns than a first working set has, so that sets grow
LIMIT = 1e9
BEFORE = 2  # looks before a fit can hold Ctrl-C back
MOST = 40
COMMON = {"tol": 0.05, "max_time": LIMIT, "random_state": 0}
ENDS = ["max_time", "interrupted"]


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(5)
    y = np.arange(N) % Q
    X = rng.normal(size=(N, 4)) + 1.2 * np.eye(Q, 4)[y]
    return X, y


def fit(model, X, y):
    """The fitted model, None where Ctrl-C came before there was anything to keep."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(X, y)
        except KeyboardInterrupt:
            return model if hasattr(model, "certificate_") else None
    return model


def check_every_look(clock, end, model, X, y, check):
    """Fit to the end, then up to every look; ``check(found, whole)`` judges the models.

    Fits with more than MOST looks, which repeat the same few places, are ended at MOST of them.
    """
    whole = fit(model, X, y)
    looks = clock.looks
    assert looks > 3
    ends = set()
    for last in np.unique(np.linspace(1, looks, min(looks, MOST)).astype(int)):
        clock.restart(last, end)
        found = fit(clone(model), X, y)
        if found is None:
            assert end == "interrupted", last
            assert last <= BEFORE, last
            continue
        ends.add(found.status_)
        assert np.isfinite(found.decision_function(X[:5])).all(), last
        check(found, whole)
    assert end in ends


def check_feasible(found, whole):
    """The values of the point bound the optimum, which those of the whole fit enclose."""
    ours, best = found.certificate_, whole.certificate_
    assert ours.dual <= best.primal * (1.0 + 1e-9)
    assert ours.primal >= best.dual * (1.0 - 1e-9)
    assert ours.dual <= ours.primal
    T = found.dual_coef_
    if np.isfinite(found.C) and found.machine != "msvm2":
        assert np.abs(T).max(initial=0.0) <= found.C * (Q - 1) * (1.0 + 1e-9)
    if found.intercept == "free":
        assert np.abs(T.sum(axis=0)).max() <= 1e-9 * max(np.abs(T).sum(), 1.0)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("intercept", ["none", "penalized", "free"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("machine", ["cs", "ww", "llw", "msvm2"])
def test_machines(clock, sample, machine, kernel, intercept, end):
    few = 200 if kernel == "linear" else N  # linear stages have all patterns from the start
    X, y = sample[0][:few], sample[1][:few]
    model = MulticlassSVC(machine, kernel=kernel, intercept=intercept, **COMMON)
    check_every_look(clock, end, model, X, y, check_feasible)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("machine", "intercept"), [("cs", "none"), ("cs", "free"), ("ww", "none")])
def test_scarce_rows(clock, sample, machine, intercept, end):
    """A cache that holds a part of the kernel rows fetches them while the clock runs."""
    X, y = sample
    model = MulticlassSVC(machine, kernel="rbf", intercept=intercept, cache_mb=0.3, **COMMON)
    check_every_look(clock, end, model, X, y, check_feasible)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("machine", "intercept"), [("cs", "penalized"), ("ww", "free")])
def test_given_matrix(clock, sample, machine, intercept, end):
    X, y = sample
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    model = MulticlassSVC(machine, kernel="precomputed", intercept=intercept, **COMMON)
    check_every_look(clock, end, model, K, y, check_feasible)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(("machine", "intercept"), [("cs", "none"), ("ww", "free")])
def test_hard_margin(clock, machine, intercept, kernel, end):
    """Points in tight groups: the float64 stage and the leap of the interior point take part."""
    rng = np.random.default_rng(1)
    y = np.arange(540) % Q
    X = 0.1 * rng.normal(size=(540, 3)) + 2.0 * np.eye(Q)[y]
    model = MulticlassSVC(machine, C=np.inf, kernel=kernel, intercept=intercept, **COMMON)
    check_every_look(clock, end, model, X, y, check_feasible)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("solver", ["frank-wolfe", "cycles"])
@pytest.mark.parametrize("machine", ["ww", "llw", "msvm2"])
def test_other_solvers(clock, sample, machine, solver, end):
    X, y = sample[0][:60], sample[1][:60]
    options = COMMON | {"tol": 0.1, "max_iter": 30}
    model = MulticlassSVC(machine, kernel="rbf", intercept="free", solver=solver, **options)
    check_every_look(clock, end, model, X, y, check_feasible)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("threshold", ["mean", "max", "log"])
def test_pattern_smo(clock, sample, threshold, kernel, end):
    X, y = sample[0][:60], sample[1][:60]
    options = COMMON | {"tol": 0.1}
    model = MulticlassSVC(kernel=kernel, solver=PatternSMO(threshold=threshold), **options)
    check_every_look(clock, end, model, X, y, check_feasible)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("solver", ["smo", "frank_wolfe"])
def test_hulls(clock, sample, solver, kernel, end):
    X, y = sample[0][:300], sample[1][:300]
    steps = 10**6 if solver == "smo" else 40
    model = ConvexHullSVC(
        eta=0.1, kernel=kernel, solver=solver, tol=0.1, max_iter=steps, max_time=LIMIT
    )

    def check(found, whole):
        ours, best = found.certificate_, whole.certificate_
        assert ours.primal >= best.dual - 1e-9 * best.primal
        assert ours.dual <= best.primal * (1.0 + 1e-9)

    check_every_look(clock, end, model, X, y, check)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("assignment", ["annealed", "greedy", "static"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_prototypes(clock, sample, kernel, assignment, end):
    X, y = sample[0][:80], sample[1][:80]
    model = MultiPrototypeSVC(
        n_prototypes=2, kernel=kernel, assignment=assignment, tol=0.05, max_iter=60,
        max_time=LIMIT, random_state=0,
    )  # fmt: skip

    def check(found, whole):
        T = found.dual_coef_
        assert np.abs(T.sum(axis=1)).max(initial=0.0) <= 1e-9
        assert T.max(initial=0.0) <= found.C * (1.0 + 1e-9)
        assert found.certificate_.dual <= found.certificate_.primal

    check_every_look(clock, end, model, X, y, check)


@pytest.mark.parametrize(
    "model",
    [
        MulticlassSVC("cs", random_state=0),
        MulticlassSVC("cs", kernel="rbf", random_state=0),
        MulticlassSVC("cs", solver=PatternSMO(), random_state=0),
        MulticlassSVC("ww", intercept="free", random_state=0),
        MulticlassSVC("ww", kernel="rbf", random_state=0),
        MulticlassSVC("msvm2", kernel="rbf", random_state=0),
        MultiPrototypeSVC(2, random_state=0),
        MultiPrototypeSVC(2, metric="learned", random_state=0),
        MultiPrototypeSVC(2, kernel="rbf", random_state=0),
        ConvexHullSVC(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("max_iter", [40, 3000])
def test_the_speed_of_the_clock_changes_no_bit(clock, sample, model, max_iter):
    """A machine that compiles or swaps meanwhile returns the same model, also at ``max_iter``."""
    X, y = sample[0][:80] + 100.0, sample[1][:80]  # far from the origin: linear fits take long
    found = []
    for look_seconds in (1e-9, 1e-3, 10.0):
        clock.restart(look_seconds=look_seconds)
        fitted = clone(model).set_params(max_iter=max_iter, tol=1e-7)
        scores = fit(fitted, X, y).decision_function(X)
        found.append((fitted.n_iter_, fitted.certificate_.dual, scores.tobytes()))
    assert found[0] == found[1] == found[2]
