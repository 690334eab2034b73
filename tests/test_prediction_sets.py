"""Sets of labels and rejection: coverage on exchangeable rows, brute force, curves, the tool."""

import csv
import io
import itertools
import json

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import make_overlapping
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polymargin import (
    ConvexHullSVC,
    MulticlassSVC,
    MultiPrototypeSVC,
    calibrate,
    coverage_promise,
    load,
    predict_set,
    risk_coverage,
    save,
)
from polymargin.cli import main
from polymargin.estimators.calibration import nonconformity
from polymargin.estimators.inspection import class_scores

X, Y = make_overlapping(n=160)
MODELS = {
    "cs": MulticlassSVC(C=0.1, calibration_folds=5, random_state=0),
    "rbf": MulticlassSVC(kernel="rbf", calibration_folds=5, random_state=0),
    "prototypes": MultiPrototypeSVC(2, C=0.1, calibration_folds=5, random_state=0),
    "hull": ConvexHullSVC(eta=0.1, calibration_folds=5),
    "pipeline": make_pipeline(
        StandardScaler(), MulticlassSVC(C=0.1, calibration_folds=5, random_state=0)
    ),
}


def draw(rng, n, two=False):
    """Exchangeable rows of overlapping classes."""
    y = rng.integers(2 if two else 3, size=n)
    return np.eye(3)[y] * 1.5 + rng.normal(size=(n, 3)), y


def test_nonconformity_is_minus_the_margin():
    scores = np.array([[3.0, 1.0, 2.0], [0.0, 0.0, -1.0], [-np.inf, 1.0, 0.5]])
    expected = [[-1.0, 2.0, 1.0], [0.0, 0.0, 1.0], [np.inf, -0.5, 0.5]]
    np.testing.assert_array_equal(nonconformity(scores), expected)


@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95])
def test_held_out_sets_cover_what_they_promise(coverage):
    """Mean coverage of many draws; its expectation lies in [coverage, coverage + 1 / (n + 1)]."""
    rng = np.random.default_rng(0)
    model = MulticlassSVC(C=0.1, random_state=0).fit(*draw(rng, 200))
    covered = []
    for _ in range(300):
        model.calibrate(*draw(rng, 99))
        new, y = draw(rng, 50)
        covered.append(model.predict_set(new, coverage)[np.arange(50), y].mean())
    error = np.std(covered) / np.sqrt(len(covered))
    assert coverage - 4 * error <= np.mean(covered) <= coverage + 0.01 + 4 * error
    promise = model.coverage_promise(coverage)
    assert promise == ("held-out", coverage, coverage, 99)


@pytest.mark.parametrize("two", [False, True])
def test_out_of_fold_sets_cover_about_what_they_aim_at(two):
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(40):
        model = MulticlassSVC(C=0.1, calibration_folds=5, random_state=0).fit(*draw(rng, 60, two))
        new, y = draw(rng, 200, two)
        covered.append(model.predict_set(new, 0.85)[np.arange(200), y].mean())
    promise = model.coverage_promise(0.85)
    assert promise.kind == "out-of-fold"
    assert 0.5 < promise.promised < 0.7
    assert np.mean(covered) >= promise.promised
    assert np.mean(covered) == pytest.approx(0.85, abs=0.04)


@pytest.mark.parametrize("name", ["cs", "rbf", "prototypes", "hull"])
def test_out_of_fold_sets_by_brute_force(name):
    model = MODELS[name].fit(X, Y)
    new, _ = make_overlapping(n=20, seed=5)
    strange = nonconformity(model.out_of_fold_scores_)[np.arange(len(Y)), Y]
    made = [class_scores(one, X) for one in model._fold_models]
    fold = np.array([
        np.argmin([np.abs(m[i] - model.out_of_fold_scores_[i]).max() for m in made])
        for i in range(len(Y))
    ])  # fmt: skip
    for coverage in (0.5, 0.9):
        expected = np.zeros((len(new), 4), dtype=bool)
        for j, row in enumerate(new):
            per_fold = [nonconformity(class_scores(m, row[None]))[0] for m in model._fold_models]
            for k in range(4):
                stranger = sum(strange[i] < per_fold[fold[i]][k] for i in range(len(Y)))
                expected[j, k] = stranger < coverage * (len(Y) + 1)
        np.testing.assert_array_equal(model.predict_set(new, coverage), expected)


@pytest.mark.parametrize("name", MODELS)
def test_sets_grow_with_coverage(name, tmp_path):
    model = MODELS[name].fit(X, Y)
    sets = [predict_set(model, X, coverage) for coverage in (0.3, 0.6, 0.9, 0.99, 0.9999)]
    for small, large in itertools.pairwise(sets):
        assert (large | ~small).all()
    assert sets[-1].all()
    assert sets[2][np.arange(len(Y)), Y].mean() > 0.8
    save(model, tmp_path / "model.pm")
    np.testing.assert_array_equal(predict_set(load(tmp_path / "model.pm"), X, 0.6), sets[1])
    calibrate(model, X, Y)
    assert coverage_promise(model).kind == "held-out"
    save(model, tmp_path / "model.pm")
    again = predict_set(load(tmp_path / "model.pm"), X, 0.6)
    np.testing.assert_array_equal(again, predict_set(model, X, 0.6))


def test_few_rows_leave_nothing_out():
    model = MulticlassSVC().fit(X, Y)
    model.calibrate(X[:5], Y[:5])
    assert model.predict_set(X, 0.9).all()


def test_without_a_calibration_sets_are_refused():
    model = MulticlassSVC().fit(X, Y)
    with pytest.raises(NotFittedError, match=r"calibration_folds=5.*calibrate\(X, y\)"):
        model.predict_set(X)
    model.calibrate(X, Y)
    for coverage in (0.0, 1.0, -1, "much", np.nan):
        with pytest.raises(ValueError, match="coverage must be"):
            model.predict_set(X, coverage)
    with pytest.raises(ValueError, match="does not know"):
        model.calibrate(X, Y + 7)
    with pytest.raises(ValueError, match="no prediction sets"):
        predict_set(LogisticRegression().fit(X, Y), X)
    with pytest.raises(NotFittedError):
        MulticlassSVC().predict_set(X)


# -- rejection ---------------------------------------------------------------------------------


@pytest.mark.parametrize("two", [False, True])
def test_risk_coverage_is_that_of_predict_or_reject(two):
    y = Y % 2 if two else Y
    model = MulticlassSVC(C=0.1, random_state=0).fit(X[:80], y[:80])
    new, truth = X[80:], y[80:]
    curve = risk_coverage(model, new, truth)
    for i in range(0, len(curve.margin), 7):
        labels = model.predict_or_reject(new, float(curve.margin[i]), -1)
        answered = labels != -1
        assert answered.mean() == pytest.approx(curve.coverage[i])
        assert (labels != truth)[answered].mean() == pytest.approx(curve.risk[i])
    assert curve.risk[-1] == pytest.approx((model.predict(new) != truth).mean())
    assert curve.coverage[-1] == 1.0
    assert curve.area == pytest.approx(np.diff(curve.coverage, prepend=0.0) @ curve.risk)


def test_margins_for_a_risk_or_a_coverage():
    model = MulticlassSVC(C=0.1, random_state=0).fit(X[:80], Y[:80])
    curve = risk_coverage(model, X[80:], Y[80:])
    margin = curve.margin_for_coverage(0.5)
    answered = model.predict_or_reject(X[80:], margin, -1) != -1
    assert 0.5 <= answered.mean() < 0.53
    margin = curve.margin_for_risk(0.15)
    labels = model.predict_or_reject(X[80:], margin, -1)
    answered = labels != -1
    assert (labels != Y[80:])[answered].mean() <= 0.15
    assert curve.margin_for_risk(curve.risk[-1]) == 0.0
    hopeless = risk_coverage(model, X[80:], (model.predict(X[80:]) + 1) % 4)
    assert hopeless.margin_for_risk(0.5) == np.inf


def test_weights_of_the_curve_are_repetitions():
    model = MulticlassSVC(C=0.1, random_state=0).fit(X, Y)
    weight = np.arange(len(Y)) % 3
    curve = risk_coverage(model, X, Y, weight)
    same = risk_coverage(model, np.repeat(X, weight, axis=0), np.repeat(Y, weight))
    np.testing.assert_allclose(curve.coverage[-1], same.coverage[-1])
    assert curve.area == pytest.approx(same.area)


# -- the tool ----------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    data, y = draw(rng, 150)
    lines = ["a,b,c,kind", *(",".join(map(repr, row.tolist())) + f",{'rgb'[k]}"
             for row, k in zip(data, y, strict=True))]  # fmt: skip
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def tool(*arguments, ok=True):
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert (done.exit_code == 0) == ok, done.output
    return done


def test_train_predict_evaluate(table):
    model, data = table / "model.pm", table / "data.csv"
    tool("train", data, "-o", model, "-m", "CS", "-c", "0.1", "--probabilities",
         "--calibration-folds", "5", "-q")  # fmt: skip
    fitted = load(model)
    assert fitted[-1].temperature_ > 0.0
    done = tool("predict", model, data, "--probabilities", "--coverage", "0.9",
                "--reject-margin", "0.3")  # fmt: skip
    rows = list(csv.reader(io.StringIO(done.stdout)))
    assert rows[0] == ["label", "probability_b", "probability_g", "probability_r", "set"]
    assert "a coverage of 0.9" in done.stderr
    values = np.loadtxt(data, delimiter=",", skiprows=1, usecols=(0, 1, 2))
    P, sets = fitted.predict_proba(values), predict_set(fitted, values, 0.9)
    np.testing.assert_allclose(np.array(rows[1:])[:, 1:4].astype(float), P)
    expected = ["|".join(np.array(["b", "g", "r"])[row]) for row in sets]
    assert [row[4] for row in rows[1:]] == expected
    rejected = fitted[-1].predict_or_reject(fitted[:-1].transform(values), 0.3, "reject")
    assert [row[0] for row in rows[1:]] == rejected.tolist()
    assert "reject" in rejected
    record = json.loads(tool("predict", model, data, "--coverage", "0.9", "--json", "-q").stdout)
    assert record["sets"][0] == [one for one in expected[0].split("|") if one]
    figures = json.loads(tool("evaluate", model, data, "--json", "-q").stdout)
    assert 0.0 < figures["log_loss"] < 1.2
    assert "calibration error" in tool("evaluate", model, data, "-q").stdout


def test_refusals_of_the_tool(table):
    model, data = table / "model.pm", table / "data.csv"
    tool("train", data, "-o", model, "-m", "CS", "-c", "0.1", "-q")
    for arguments, words in (
        (["--probabilities"], "train it with --probabilities"),
        (["--coverage", "0.9"], "train it with --calibration-folds 5"),
        (["--reject-margin", "1", "--reject-label", "r"], "is one of the classes"),
    ):
        done = tool("predict", model, data, "-q", *arguments, ok=False)
        assert words in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
