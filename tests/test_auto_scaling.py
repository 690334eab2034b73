"""How AutoSVC scales: constants, deviations far below the mean, outliers, one unit, threads."""

import numpy as np
import pytest
from auto_cases import HOURS
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler
from table_cases import mistyped
from threadpoolctl import threadpool_info

from polymargin import AutoSVC, load, save
from polymargin.datasets import read_data
from polymargin.estimators import auto_race
from polymargin.estimators.auto_limits import EncodedTable
from polymargin.problem.constant_features import settle_constants
from polymargin.tables.column_plan import plan_columns


@pytest.mark.parametrize("value", [123456789012345678.0, 7e30, 1e100])
def test_a_feature_of_one_large_number_changes_nothing(value):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=180)
    X = rng.normal(size=(180, 5)) + rng.normal(size=(3, 5))[y]
    constant = np.column_stack([X, np.full(len(X), value)])
    rules = {"random_state": 0, "n_candidates": 4}
    plain = AutoSVC(**rules).fit(X, y)
    model = AutoSVC(**rules).fit(constant, y)
    np.testing.assert_array_equal(model.predict(constant), plain.predict(X))


def test_deviations_far_below_the_mean_are_scaled():
    """Nanoseconds of one day: scikit-learn takes them for a constant where there are many rows."""
    rng = np.random.default_rng(0)
    X = 1.7e18 + 1e8 * rng.normal(size=(300_000, 1))
    scaler = StandardScaler().fit(X)
    assert scaler.scale_[0] == 1.0
    settle_constants(scaler)
    assert 0.9 < scaler.transform(X).std() < 1.1


def outlying_table():
    """Three clusters; one value in a hundred is ten thousand times too large."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=500)
    X = rng.normal(size=(500, 6)) + 2.0 * rng.normal(size=(3, 6))[y]
    X[rng.random(X.shape) < 0.01] *= 1e4
    return X, y


def small_noise_table():
    """Two classes in features of one unit, beside many that vary less and tell nothing."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=500)
    X = 0.3 * rng.normal(size=(500, 40))
    X[:, :3] = 3.0 * rng.normal(size=(500, 3))
    X[:, 0] = np.where(y == 1, X[:, 1], -X[:, 1]) + 0.5 * rng.normal(size=500)
    return X, y


@pytest.mark.parametrize(
    ("table", "scaling", "most"),
    [(outlying_table, "clipped", 0.1), (small_noise_table, "common", 0.25)],
)
def test_another_scaling_where_it_is_clearly_better(table, scaling, most, tmp_path):
    X, y = table()
    rules = {"random_state": 0, "n_candidates": 4, "budget": HOURS}
    model = AutoSVC(**rules).fit(X[:300], y[:300])
    assert model.scaling_ == scaling
    usual = AutoSVC(**rules, scale="none")
    scaler = StandardScaler().fit(X[:300])
    usual.fit(scaler.transform(X[:300]), y[:300])
    error = 1.0 - model.score(X[300:], y[300:])
    assert error < most
    assert error < 0.7 * (1.0 - usual.score(scaler.transform(X[300:]), y[300:]))
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))


def test_scaling_is_the_usual_one_unless_another_is_clearly_better():
    X, y = outlying_table()
    alike = np.clip(X, -10.0, 10.0)
    assert AutoSVC(random_state=0, n_candidates=3).fit(alike, y).scaling_ == "standard"
    assert AutoSVC(random_state=0, n_candidates=3, max_time=15.0).fit(X, y).scaling_ == "standard"
    assert AutoSVC(random_state=0, n_candidates=3, scale="none").fit(alike, y).scaling_ == "none"
    few = AutoSVC(random_state=0, n_candidates=3).fit(X[:50], y[:50])
    assert few.scaling_ == "standard"


@pytest.mark.parametrize("option", ["groups", "sample_weight", "balanced", "log_loss", "threads"])
def test_scaling_is_chosen_under_every_rule(option):
    X, y = outlying_table()
    rules = {"random_state": 0, "n_candidates": 4, "budget": HOURS}
    given = {"groups": np.arange(500) // 5} if option == "groups" else {}
    if option == "sample_weight":
        given = {"sample_weight": np.linspace(0.0, 2.0, 500)}
    if option in ("balanced", "log_loss"):
        rules["objective"] = "balanced_accuracy" if option == "balanced" else option
        rules["machines"] = "linear"
    if option == "threads":
        rules["n_jobs"] = 2
    assert AutoSVC(**rules).fit(X.astype(np.float32), y, **given).scaling_ == "clipped"


# -- raw tables ----------------------------------------------------------------------------------


def encoded(tmp_path, text):
    """A raw table as the tool encodes it, its features and labels."""
    (tmp_path / "data.csv").write_text(text)
    data = read_data(str(tmp_path / "data.csv"))
    plan = plan_columns(data.columns)
    table = plan.matrix(data.columns)
    return EncodedTable(plan.encoder(StandardScaler()).fit(table), table), np.asarray(data.y)


def test_limits_of_a_table_hold_for_its_numbers_only(tmp_path):
    table, _ = encoded(tmp_path, mistyped())
    rows = np.arange(len(table.table))
    assert table.learn(rows)
    usual, found = table.encoder.transform(table.table), table.features(rows)
    names = table.encoder.output_indices_
    np.testing.assert_array_equal(found[:, names["categories"]], usual[:, names["categories"]])
    gaps = names["numbers with gaps"]
    n_gaps = (gaps.stop - gaps.start) // 2
    values = found[:, : gaps.start + n_gaps]
    assert usual[:, : gaps.start + n_gaps].max() > 10.0
    assert (values.min(), values.max()) == (-5.0, 5.0)
    missing = np.isnan(table.table[:, : values.shape[1]].astype(float))
    assert missing.any()
    for j in range(n_gaps):  # a mark has two values, and a gap the median, which is 0
        column = [k for k in range(missing.shape[1]) if missing[:, k].mean() >= 0.01][j]
        mark = found[:, gaps.start + n_gaps + j]
        assert set(mark[missing[:, column]]).isdisjoint(mark[~missing[:, column]])
        assert np.abs(found[missing[:, column], gaps.start + j]).max() < 1e-9


def test_a_table_is_scaled_as_usual_unless_limits_are_clearly_better(tmp_path):
    rules = {"random_state": 0, "n_candidates": 3, "scale": "none"}
    table, y = encoded(tmp_path, mistyped())
    X = table.encoder.transform(table.table)
    assert AutoSVC(**rules)._fit(X, y, None, None, table).scaling_ == "clipped"
    assert AutoSVC(**rules, max_time=15.0)._fit(X, y, None, None, table).scaling_ == "none"
    few = EncodedTable(table.encoder, table.table[:50])
    assert AutoSVC(**rules)._fit(X[:50], y[:50], None, None, few).scaling_ == "none"
    table, y = encoded(tmp_path, mistyped(factor=10.0, share=0.001))  # far, but harmless
    X = table.encoder.transform(table.table)
    model = AutoSVC(**rules)._fit(X, y, None, None, table)
    assert table.limited is not None
    assert model.scaling_ == "none"
    usual = AutoSVC(**rules).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), usual.decision_function(X))


def test_a_race_needs_one_thread_of_the_libraries(monkeypatch):
    """Many small products: on two processors threads took five times the processor seconds."""
    seen = []
    losses = auto_race.class_scores_of

    def look(*arguments):
        seen.extend(pool["num_threads"] for pool in threadpool_info())
        return losses(*arguments)

    monkeypatch.setattr(auto_race, "class_scores_of", look)
    X, y = load_iris(return_X_y=True)
    AutoSVC(random_state=0, n_candidates=2).fit(X, y)
    assert set(seen) == {1}
