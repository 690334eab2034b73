"""Tuning by the radius-margin criterion: minima, plateaus, boxes, widths, estimator, picture."""

import numpy as np
import pytest
from conftest import make_overlapping
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from polymargin import MACHINES, MulticlassSVC, radius_margin_bound, tune_radius_margin
from polymargin.radius_margin.bound import read_sample
from polymargin.radius_margin.validation_refinement import CrossValidation, fold_of_each
from polymargin.solvers.run import Run, Stop


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), y


@pytest.fixture(scope="module")
def tuned(iris):
    return tune_radius_margin(*iris, refine=0)


# -- the minimum ------------------------------------------------------------------------------


def test_finds_a_minimum(iris, tuned):
    X, y = iris
    at = radius_margin_bound(X, y, C=tuned.C, gamma=tuned.gamma)
    assert tuned.status == "converged"
    assert tuned.value == pytest.approx(at.value, rel=1e-4)
    assert abs(at.gradient["C"]) <= 3e-3 * at.value
    assert abs(at.gradient["gamma"]) <= 3e-3 * at.value
    for factor in (0.7, 1.4):
        around = radius_margin_bound(X, y, C=tuned.C * factor, gamma=tuned.gamma, tol=1e-6)
        assert around.value > tuned.value
        around = radius_margin_bound(X, y, C=tuned.C, gamma=tuned.gamma * factor, tol=1e-6)
        assert around.value > tuned.value


def test_is_not_above_a_grid(iris, tuned):
    X, y = iris
    grid = [
        radius_margin_bound(X, y, C=C, gamma=gamma, tol=1e-4).value
        for C in (0.1, 1.0, 10.0)
        for gamma in (0.03, 0.3, 3.0)
    ]
    assert tuned.value <= min(grid)
    assert tuned.value < 0.6 * tuned.plateau


def test_record(iris, tuned):
    X, y = iris
    trace = tuned.trace
    assert set(trace) == {
        "seconds", "start", "n_examples", "C", "gamma", "coef0", "value", "slope",
    }  # fmt: skip
    assert len({len(column) for column in trace.values()}) == 1
    assert len(trace["C"]) == tuned.n_evaluations
    whole = trace["n_examples"] == len(y)
    assert trace["value"][whole].min() == pytest.approx(tuned.value)
    assert tuned.machine is tuned.estimator
    assert isinstance(tuned.machine, MulticlassSVC)
    assert tuned.machine.C_ == tuned.C
    assert tuned.machine.gamma_ == tuned.gamma
    assert tuned.machine.score(X, y) > 0.94
    assert set(tuned.minimum) == {"C", "gamma", "coef0", "value"}


def test_same_seed_same_answer(iris, tuned):
    again = tune_radius_margin(*iris, refine=0)
    assert len(tuned.refinement["C"]) == 0
    assert (again.C, again.gamma) == (tuned.C, tuned.gamma)


@pytest.mark.parametrize("start", [(1e-3, 100.0), (1000.0, 1e-3)])
def test_leaves_the_plateau(iris, tuned, start):
    """Starts where the criterion is flat, or steep and far away, end at the same minimum."""
    found = tune_radius_margin(*iris, C=start[0], gamma=start[1], refine=0)
    assert found.value == pytest.approx(tuned.value, rel=1e-3)


def test_part_of_the_examples_first():
    X, y = make_overlapping(900, 4, 3, seed=5)
    found = tune_radius_margin(X, y)
    counts = np.unique(found.trace["n_examples"])
    assert len(counts) == 2
    assert counts.max() == 900
    assert (found.trace["n_examples"] == 900).sum() <= 15
    assert found.trace["slope"][-1] <= 1e-2


# -- other parameters -------------------------------------------------------------------------


def test_one_parameter_at_a_time(iris, tuned):
    X, y = iris
    only_C = tune_radius_margin(X, y, parameters=("C",), gamma=tuned.gamma, refine=0)
    assert only_C.gamma == tuned.gamma
    assert pytest.approx(tuned.C, rel=0.05) == only_C.C
    only_gamma = tune_radius_margin(X, y, parameters=["gamma"], C=tuned.C, refine=0)
    assert only_gamma.C == tuned.C
    assert only_gamma.gamma == pytest.approx(tuned.gamma, rel=0.05)
    hard = tune_radius_margin(X[y < 2], y[y < 2], parameters=("gamma",), C=np.inf)
    assert np.inf == hard.machine.C_


def test_one_width_per_feature():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = np.concatenate([2.0 * np.eye(3)[y] + 0.5 * rng.normal(size=(120, 3)),
                        rng.normal(size=(120, 2))], axis=1)  # fmt: skip
    one = tune_radius_margin(X, y)
    found = tune_radius_margin(X, y, per_feature=True)
    assert found.gamma.shape == (5,)
    assert found.value < one.value
    assert found.gamma[3:].max() < 0.2 * found.gamma[:3].min()  # noise is switched off
    assert found.trace["gamma"].shape == (found.n_evaluations, 5)
    assert np.array_equal(found.machine.gamma_, found.gamma)
    begun = tune_radius_margin(X, y, gamma=np.full(5, one.gamma), C=one.C)
    assert begun.value == pytest.approx(found.value, rel=0.02)


def test_polynomial_and_linear(iris):
    X, y = iris
    poly = tune_radius_margin(
        X, y, kernel="poly", degree=2, parameters=("C", "gamma", "coef0"), coef0=1.0, refine=0
    )
    at = radius_margin_bound(
        X, y, C=poly.C, kernel="poly", gamma=poly.gamma, coef0=poly.coef0, degree=2
    )
    assert poly.value == pytest.approx(at.value, rel=1e-3)
    assert 0.0 <= poly.coef0 <= 10.0
    assert poly.machine.coef0 == poly.coef0
    linear = tune_radius_margin(X, y, kernel="linear", parameters=("C",), refine=0)
    assert linear.value == pytest.approx(
        radius_margin_bound(X, y, C=linear.C, kernel="linear").value, rel=1e-3
    )
    given = tune_radius_margin(X @ X.T, y, kernel="precomputed", parameters=("C",), refine=0)
    assert pytest.approx(linear.C, rel=0.05) == given.C


def test_weights_sparse_float32_and_words(iris, tuned):
    X, y = iris
    weight = np.ones(len(y))
    weight[::7] = 0.0
    a = tune_radius_margin(X, y, sample_weight=weight, refine=0)
    b = tune_radius_margin(X[weight > 0], y[weight > 0], refine=0)
    assert a.value == pytest.approx(b.value, rel=1e-3)
    thin = tune_radius_margin(sparse.csr_matrix(X), y, refine=0)
    assert thin.value == pytest.approx(tuned.value, rel=1e-4)
    words = tune_radius_margin(X.astype(np.float32), np.array(["a", "b", "c"])[y], refine=0)
    assert words.value == pytest.approx(tuned.value, rel=1e-3)
    assert set(words.machine.classes_) == {"a", "b", "c"}


# -- limits -----------------------------------------------------------------------------------


def test_bounds_are_kept(iris):
    X, y = iris
    found = tune_radius_margin(X, y, bounds={"C": (5.0, 50.0), "gamma": (0.01, 0.02)}, C=10.0)
    whole = found.trace["n_examples"] == len(y)
    assert found.trace["C"][whole].min() >= 5.0 * (1 - 1e-9)
    assert found.trace["gamma"][whole].max() <= 0.02 * (1 + 1e-9)
    assert found.status == "converged"


def test_bad_input(iris):
    X, y = iris
    for word, arguments in {
        "parameters": {"parameters": ("C", "width")},
        "each once": {"parameters": ("C", "C")},
        "one or more": {"parameters": ()},
        "no derivative": {"kernel": "linear"},
        "with respect to 'coef0'": {"parameters": ("coef0",)},
        "callable": {"kernel": lambda A, B: A @ B.T},
        "sigmoid": {"kernel": "sigmoid"},
        "outside its box": {"C": 1.0, "bounds": {"C": (2.0, 3.0)}},
        "gamma=1.0 lies outside": {"gamma": 1.0, "bounds": {"gamma": (2.0, 3.0)}},
        "low < high": {"bounds": {"C": (3.0, 2.0)}},
        "pair": {"bounds": {"C": 3.0}},
        "not among": {"bounds": {"coef0": (0.0, 1.0)}},
        "C must be finite": {"C": np.inf},
        "n_starts": {"n_starts": 0},
        "max_evaluations": {"max_evaluations": 0},
        "refine": {"refine": -1},
        "or 'auto'": {"refine": "always"},
        "n_folds": {"n_folds": 1},
        "tol": {"tol": 0.0},
        "max_time": {"max_time": -1.0},
        "per_feature": {"kernel": "poly", "per_feature": True},
    }.items():
        with pytest.raises(ValueError, match=word):
            tune_radius_margin(X, y, **arguments)
    lonely = y.copy()
    lonely[0] = 9
    with pytest.raises(ValueError, match="one example"):
        tune_radius_margin(X, lonely)


def test_progress_and_limits(iris, capsys):
    X, y = iris
    with pytest.warns(ConvergenceWarning, match="max_evaluations"):
        found = tune_radius_margin(X, y, max_evaluations=1, n_starts=1, tol=1e-9, verbose=1)
    assert found.status == "max_evaluations"
    assert "bound" in capsys.readouterr().out
    with pytest.warns(ConvergenceWarning, match="max_time"):
        found = tune_radius_margin(X, y, max_time=1e-3)
    assert found.status == "max_time"
    assert found.machine.score(X, y) > 0.3


# -- refinement -------------------------------------------------------------------------------


def test_refinement_compares_settings_by_cross_validation():
    X, y = make_overlapping(150, 4, 3, seed=2)
    found = tune_radius_margin(X, y, refine=6, n_folds=4)
    table = found.refinement
    assert 1 <= len(table["error"]) <= 6
    assert table["error"].min() <= table["error"][0]
    best = int(np.argmin(table["error"]))
    assert table["C"][best] == found.C
    assert found.gamma == table["gamma"][best]
    at = radius_margin_bound(X, y, C=found.C, gamma=found.gamma)
    assert found.value == pytest.approx(at.value, rel=2e-3)
    assert found.minimum["value"] <= found.value * (1 + 1e-9)
    assert table["C"][0] == found.minimum["C"]


def test_settings_are_compared_where_the_machine_errs():
    """By itself the refinement begins only with training errors; the estimator does the same."""
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    known = tune_radius_margin(X, y)
    assert known.minimum["C"] == known.C
    assert len(known.refinement["C"]) == 0
    assert known.machine.score(X, y) == 1.0
    y = y.copy()
    y[:6] = 2  # wrong labels, far from their class
    y[-6:] = 0
    found = tune_radius_margin(X, y)
    alone = tune_radius_margin(X, y, refine=0)
    assert alone.machine.score(X, y) < 1.0
    assert found.minimum["C"] == alone.C
    assert len(found.refinement["C"]) >= 5
    model = MulticlassSVC("msvm2", "radius-margin", "rbf", gamma="radius-margin", random_state=0)
    model.fit(X, y)
    assert pytest.approx(found.C, rel=1e-6) == model.C_
    assert model.gamma_ == pytest.approx(found.gamma, rel=1e-6)
    table = tune_radius_margin(X @ X.T, y, kernel="precomputed", parameters=("C",)).refinement
    assert len(table["C"]) >= 2


def test_cross_validated_error_is_that_of_the_estimator():
    X, y = make_overlapping(90, 4, 3, seed=2)
    sample = read_sample(X, y, "rbf", 3, None)
    setting = tune_radius_margin(X, y)
    fold = fold_of_each(y, 5, 0)
    assert np.bincount(fold).min() >= 17
    wrong = 0
    for number in range(5):
        train = fold != number
        model = MulticlassSVC("msvm2", C=setting.C, kernel="rbf", gamma=setting.gamma, tol=1e-3)
        model.fit(X[train], y[train])
        wrong += int((model.predict(X[~train]) != y[~train]).sum())
    validation = CrossValidation(sample, 5, Run(Stop(1e-3, 10**9)))
    from polymargin.radius_margin.criterion import Setting

    error = validation.error(Setting(setting.C, setting.gamma))
    assert error == pytest.approx(wrong / 90, abs=2.1 / 90)
    assert validation.error(Setting(setting.C, setting.gamma), limit=0.0) == np.inf


# -- inside the estimator ---------------------------------------------------------------------


def test_estimator_tunes(iris):
    X, y = iris
    # one example lies so close to its border that rounding decides whether folds are asked, too
    tuned = tune_radius_margin(X, y, random_state=0)
    model = MulticlassSVC(
        machine="msvm2", C="radius-margin", kernel="rbf", gamma="radius-margin", random_state=0
    )
    assert clone(model).get_params() == model.get_params()
    model.fit(X, y)
    assert model.C == "radius-margin"
    assert pytest.approx(tuned.C, rel=1e-6) == model.C_
    assert model.gamma_ == pytest.approx(tuned.gamma, rel=1e-6)
    assert model.certificate_.relative_gap <= 1e-3
    plain = MulticlassSVC("msvm2", C=model.C_, kernel="rbf", gamma=model.gamma_).fit(X, y)
    assert model.decision_function(X) == pytest.approx(plain.decision_function(X), abs=0.1)
    assert (model.predict(X) == plain.predict(X)).mean() > 0.98


def test_estimator_tunes_either(iris):
    X, y = iris
    # the criterion is flat at its minimum: another seed may end a percent away
    tuned = {"C": "radius-margin", "kernel": "rbf", "gamma": 0.3, "random_state": 0}
    model = MulticlassSVC("msvm2", **tuned).fit(X, y)
    assert model.gamma_ == 0.3
    assert (
        pytest.approx(tune_radius_margin(X, y, parameters=("C",), gamma=0.3).C, rel=1e-2)
        == model.C_
    )
    model = MulticlassSVC("msvm2", C=2.0, kernel="rbf", gamma="radius-margin").fit(X, y)
    assert model.C_ == 2.0
    assert 0.01 < model.gamma_ < 10.0
    model = MulticlassSVC(machine="msvm2", C="radius-margin", gamma="radius-margin").fit(X, y)
    assert model.C_ > 0.0  # the linear kernel has no gamma
    weight = np.where(y == 0, 0.5, 2.0)
    MulticlassSVC("msvm2", C="radius-margin", kernel="poly", degree=2, coef0=1.0).fit(
        X, y, sample_weight=weight
    )


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_numbers_are_reported_by_every_machine(iris, name):
    X, y = iris
    model = MulticlassSVC(name, C=2.5, kernel="rbf", gamma=0.4, tol=1e-2).fit(X[::3], y[::3])
    assert model.C_ == 2.5
    assert model.gamma_ == 0.4
    model = MulticlassSVC(name, kernel="rbf", tol=1e-2).fit(X[::3], y[::3])
    assert model.gamma_ == pytest.approx(1.0 / (4 * X[::3].var()))
    if name != "msvm2":
        with pytest.raises(ValueError, match="msvm2"):
            MulticlassSVC(name, C="radius-margin", kernel="rbf").fit(X, y)


def test_estimator_refuses(iris):
    X, y = iris
    for word, arguments in {
        "C must be": {"C": "radius"},
        "gamma must be": {"gamma": "radius", "kernel": "rbf"},
        "intercept": {"C": "radius-margin", "intercept": "none"},
        "no width": {"gamma": "radius-margin", "kernel": "precomputed"},
        "rbf": {"gamma": np.ones(4), "kernel": "poly"},
    }.items():
        with pytest.raises(ValueError, match=word):
            MulticlassSVC("msvm2", **arguments).fit(X, y)


def test_estimator_with_time_and_warm_start(iris):
    X, y = iris
    model = MulticlassSVC("msvm2", "radius-margin", "rbf", max_time=30.0, warm_start=True)
    model.set_params(random_state=0)
    first = model.fit(X, y).C_
    assert pytest.approx(first) == model.fit(X, y).C_
    model.set_params(C=3.0).fit(X, y)
    assert model.C_ == 3.0


def test_widths_per_feature_in_the_estimator(iris):
    X, y = iris
    widths = np.array([0.1, 0.2, 0.3, 0.4])
    model = MulticlassSVC("msvm2", kernel="rbf", gamma=widths, tol=1e-8).fit(X, y)
    Z = X * np.sqrt(widths)
    plain = MulticlassSVC("msvm2", kernel="rbf", gamma=1.0, tol=1e-8).fit(Z, y)
    assert model.decision_function(X) == pytest.approx(plain.decision_function(Z), abs=1e-6)
    assert np.array_equal(model.predict(X), plain.predict(Z))
    thin = MulticlassSVC("cs", kernel="rbf", gamma=widths, tol=1e-6).fit(sparse.csr_matrix(X), y)
    dense = MulticlassSVC("cs", kernel="rbf", gamma=widths, tol=1e-6).fit(X, y)
    assert thin.decision_function(sparse.csr_matrix(X)) == pytest.approx(
        dense.decision_function(X), abs=1e-2
    )
    assert clone(model).gamma is not None


# -- the picture ------------------------------------------------------------------------------


def test_display():
    pytest.importorskip("matplotlib").use("Agg")
    from polymargin.plots import CriterionDisplay

    X, y = load_wine(return_X_y=True)
    tuning = tune_radius_margin(scale(X), y, n_starts=1)
    display = CriterionDisplay.record(tuning, n_grid=5)
    assert display.ratio.shape == (5, 5)
    assert np.nanmin(display.ratio) >= 0.98 * tuning.value / tuning.plateau
    assert display.path_ratio.min() == pytest.approx(tuning.value / tuning.plateau)
    assert display.C.min() <= tuning.C <= display.C.max()
    assert display.plot().ax_.get_xlabel() == "C"
    single = tune_radius_margin(scale(X), y, parameters=("gamma",), C=1.0, n_starts=1)
    drawn = CriterionDisplay.from_tuning(single, n_grid=4)
    assert drawn.ratio.shape == (4,)
    assert drawn.ax_.get_xlabel() == "gamma"
    wide = tune_radius_margin(scale(X), y, per_feature=True, max_evaluations=30, tol=0.05)
    with pytest.raises(ValueError, match="width per feature"):
        CriterionDisplay.record(wide)
