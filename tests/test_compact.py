"""Models that fit into a size: bytes, integers, the exported C, and what is refused."""

import itertools

import numpy as np
import pytest
from export_tools import run_c
from sklearn.datasets import load_digits, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from polymargin import MulticlassSVC, MultiPrototypeSVC, load, save
from polymargin.estimators.number_formats import (
    CompactModel,
    Grid,
    RowGrids,
    label_bytes,
    number_bytes,
    parse_size,
)
from polymargin.estimators.size_plans import SizeBudget, SizePlan, class_counts, plans_for
from polymargin.export import ExportModel, to_c
from polymargin.export.c_writer import constant_bytes

X, Y = load_digits(return_X_y=True)
IRIS, KIND = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def digits():
    return MultiPrototypeSVC(fit_into="1kB", random_state=0).fit(X[:400], Y[:400])


@pytest.fixture(scope="module")
def flowers():
    return MultiPrototypeSVC(fit_into=200, random_state=0).fit(IRIS, KIND)


# -- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("8kB", 8000), ("8kiB", 8192), ("1.5 kB", 1500), ("812", 812), (64, 64), ("1MB", 10**6)],
)
def test_sizes_are_read(text, n_bytes):
    assert parse_size(text) == n_bytes


@pytest.mark.parametrize("wrong", ["8 apples", "", "-3kB", 0, 2.5, None, True, "kB"])
def test_other_sizes_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match="fit_into must be"):
        parse_size(wrong)


def test_an_impossible_size_names_the_smallest():
    with pytest.raises(ValueError, match=r"smallest possible size is (\d+) bytes") as caught:
        MultiPrototypeSVC(fit_into=10).fit(IRIS, KIND)
    words = str(caught.value).split()
    smallest = int(words[words.index("is") + 1])
    model = MultiPrototypeSVC(fit_into=smallest, random_state=0).fit(IRIS, KIND)
    assert model.model_bytes_ <= smallest
    with pytest.raises(ValueError, match="smallest possible"):
        MultiPrototypeSVC(fit_into=smallest - 1).fit(IRIS, KIND)


def test_plans_fit_and_fill_their_room():
    for size, d in itertools.product((300, 1000, 8000), (4, 64, 784)):
        budget = SizeBudget(size, d, 10, 0, 10, 50)
        for plan in plans_for(budget):
            assert budget.size(plan) <= size, plan
        whole = budget.fill("int4", min(d, 64))
        if whole is not None and whole.n_prototypes < budget.most:
            more = SizePlan("int4", whole.n_prototypes + 1, min(d, 64))
            assert budget.size(more) > size


def test_counts_follow_need_and_never_exceed_examples():
    counts = class_counts(12, np.array([1.0, 5.0, 0.0]), np.array([9, 4, 9]))
    assert counts.sum() == 12
    assert counts[1] == 4
    assert (counts >= 1).all()


# -- the fitted model ----------------------------------------------------------------------------


def test_the_size_is_that_of_the_tables_in_c(digits, flowers):
    for model, limit in ((digits, 1000), (flowers, 200)):
        assert model.model_bytes_ == constant_bytes(model) <= limit
        # weights, steps, intercepts, ...: counted again from the text of the header
        assert f"_BYTES {model.model_bytes_} " in to_c(model)
        assert model.tried_["bytes"]
        assert max(model.tried_["bytes"]) <= limit


def test_a_kilobyte_recognises_digits(digits):
    assert digits.score(X[400:], Y[400:]) > 0.86
    plain = MulticlassSVC(C=0.01).fit(X[:400], Y[:400])
    assert digits.score(X[400:], Y[400:]) > plain.score(X[400:], Y[400:]) - 0.03


@pytest.mark.parametrize("which", ["digits", "flowers"])
def test_labels_of_c_are_those_of_python(which, request, tmp_path):
    model = request.getfixturevalue(which)
    rows = X[400:] if which == "digits" else IRIS
    number, scores = run_c(model, rows, tmp_path, dtype=None)
    assert (model.classes_[number] == model.predict(rows)).all()
    mine = model.decision_function(rows)
    spread = mine.std()
    assert np.abs(scores - mine).max() < 2e-3 * spread


def test_a_saved_model_keeps_its_format(digits, tmp_path):
    save(digits, tmp_path / "m.pm")
    again = load(tmp_path / "m.pm")
    assert again.number_format_ == digits.number_format_
    assert to_c(again) == to_c(digits)
    assert (again.predict(X) == digits.predict(X)).all()


def test_the_record_says_what_has_no_certificate(digits):
    assert "none" in digits.finish_["certificate"]
    assert digits.certificate_.relative_gap < 0.05
    assert not hasattr(digits, "dual_coef_")


def test_the_same_seed_gives_the_same_integers(flowers):
    again = MultiPrototypeSVC(fit_into=200, random_state=0).fit(IRIS, KIND)
    assert (again.compact_["weights"] == flowers.compact_["weights"]).all()


def test_weights_zero_rows_and_text_labels():
    names = np.array(["setosa", "versicolor", "virginica"])[KIND]
    weight = np.ones(150)
    weight[:10] = 0.0
    model = MultiPrototypeSVC(fit_into=300, random_state=0).fit(IRIS, names, sample_weight=weight)
    assert model.score(IRIS, names) > 0.9
    assert constant_bytes(model) == model.model_bytes_ <= 300


def test_features_of_different_size_get_factors(tmp_path):
    wide = IRIS * np.array([1.0, 1000.0, 1e-3, 1.0]) + np.array([0.0, 5e6, 0.0, 0.0])
    model = MultiPrototypeSVC(fit_into=400, random_state=0).fit(wide, KIND)
    assert model.compact_["factor"] is not None
    assert model.compact_["shift"] is not None
    assert model.score(wide, KIND) > 0.9
    single = wide.astype(np.float32).astype(np.float64)
    number, _ = run_c(model, single, tmp_path, dtype=None)
    assert (number == model.predict(single)).mean() > 0.98


@pytest.mark.parametrize(
    "wrong",
    [
        {"kernel": "rbf"},
        {"probabilities": "temperature"},
        {"fit_into": "8 apples"},
    ],
)
def test_refusals(wrong):
    with pytest.raises(ValueError, match="fit_into"):
        MultiPrototypeSVC(**({"fit_into": "8kB"} | wrong)).fit(IRIS, KIND)


# -- integers by hand ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number_format", "has_table"),
    [("int4", False), ("int4", True), ("int8", False), ("int16", False)],
)
@pytest.mark.parametrize(("kept", "inner"), [(7, None), (5, None), (7, 3), (4, 3)])
def test_compact_models_of_any_shape_run_in_c(number_format, kept, inner, has_table, tmp_path):
    """Random integers: scores of C, of the integers by hand, and of the weights in float64."""
    rng = np.random.default_rng(3)
    levels = 2 ** (int(number_format[3:]) - 1) - 1
    table = np.sort(rng.integers(-127, 128, 16)) if has_table else np.arange(-levels, levels + 1)
    R, d = 6, 7
    width = kept if inner is None else inner
    features = None if kept == d else np.sort(rng.choice(d, kept, replace=False))
    model = CompactModel(
        number_format=number_format,
        n_features=d,
        features=features,
        shift=None,
        factor=None,
        projection=None if inner is None else rng.integers(-levels, levels + 1, (inner, kept)),
        projection_step=0.125,
        weights=rng.choice(table, (R, width)),
        step=0.5,
        intercepts=rng.integers(-300, 300, R).astype(np.int16),
        intercept_step=0.25,
        prototype_class=np.array([0, 0, 1, 2, 2, 2]),
        multipliers=rng.integers(1, 256, R) if number_format == "int4" else None,
        levels=table if has_table else None,
    )
    rows = rng.normal(size=(50, d)).astype(np.float32).astype(np.float64)
    W, b = model.on_features()
    slow = rows[:, slice(None) if features is None else features]
    slow = slow if inner is None else slow @ model.projection.T * 0.125
    times = 1 if model.multipliers is None else model.multipliers
    slow = slow @ model.weights.T * 0.5 * times + 0.25 * model.intercepts
    np.testing.assert_allclose(rows @ W.T + b, slow, atol=1e-9 * np.abs(slow).max())
    host = MultiPrototypeSVC(2, C=1.0).fit(rows, np.arange(50) % 3)
    host.compact_, host.number_format_ = model.record(), number_format
    host.prototypes_, host.intercept_, host._prototype_class = W, b, model.prototype_class
    host.prototype_classes_ = host.classes_[model.prototype_class]
    assert constant_bytes(host) == model.n_bytes(host.classes_)
    _, scores = run_c(host, rows, tmp_path, dtype=None)
    mine = np.column_stack([slow[:, :2].max(1), slow[:, 2], slow[:, 3:].max(1)])
    assert np.abs(scores - mine).max() < 1e-3 * np.abs(mine).max()


def test_grids_round_to_the_nearest_and_cut_outliers():
    values = np.concatenate([np.random.default_rng(0).normal(size=500), [40.0]])
    grid = Grid.of(values, "int8")
    inside = np.abs(values) < grid.step * grid.levels
    assert np.abs(grid.round(values) - values)[inside].max() <= 0.5 * grid.step * (1 + 1e-9)
    coarse = Grid.of(values[:-1], "int4")
    assert coarse.step * coarse.levels < np.abs(values[:-1]).max()


def test_rows_have_steps_of_their_own():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(5, 40)) * np.array([1.0, 3.0, 0.5, 10.0, 2.0])[:, None]
    grids = RowGrids.of(values)
    whole = grids.integers(values)
    assert np.abs(whole).max() == 7
    assert grids.table is None
    steps = grids.step * grids.multipliers[:, None]
    np.testing.assert_allclose(grids.round(values), whole * steps, rtol=1e-6)

    def error(rounded):
        return ((rounded - values) ** 2).sum()

    best = sum(error_of(row) for row in values)
    assert error(grids.round(values)) < 1.05 * best
    assert error(grids.round(values)) < 0.5 * error(Grid.of(values, "int4").round(values))


def test_uneven_levels_suit_normal_numbers():
    values = np.random.default_rng(2).normal(size=(6, 200))
    even, uneven = RowGrids.of(values), RowGrids.of(values, has_table=True)
    whole = uneven.integers(values)
    assert np.isin(whole, uneven.table).all()
    assert len(np.unique(whole)) == 16
    rounded = uneven.round(values)
    np.testing.assert_array_equal(uneven.integers(rounded), whole)
    gap = np.diff(uneven.levels).max() * uneven.step * uneven.multipliers[:, None]
    inside = np.abs(values) < 127 * uneven.step * uneven.multipliers[:, None]
    assert (np.abs(rounded - values) <= 0.51 * gap)[inside].all()
    assert ((rounded - values) ** 2).sum() < 0.85 * ((even.round(values) - values) ** 2).sum()


def test_levels_that_contradict_the_weights_are_refused(digits):
    record = dict(digits.compact_)
    for wrong in (np.arange(15), np.arange(16)[::-1], np.arange(16) + 100):
        with pytest.raises(ValueError, match="contradicts itself"):
            CompactModel.of_record(record | {"number_format": "int4", "levels": wrong})


def test_levels_are_uneven_where_their_table_is_small_beside_the_weights():
    few, many = (plans_for(SizeBudget(size, 16, 10, 0, 10, 500))[0] for size in (250, 3000))
    assert few.number_format == many.number_format == "int4"
    assert not few.has_table
    assert many.has_table
    budget = SizeBudget(3000, 16, 10, 0, 10, 500)
    assert budget.size(many) <= 3000 < budget.size(SizePlan("int4", many.n_prototypes + 1, 16))
    assert not SizePlan("int8", 300, 16).has_table
    assert not SizePlan("int4", 300, 64, 16).has_table


def test_fewer_prototypes_are_tried_than_there_is_room_for():
    counts = {plan.n_prototypes for plan in plans_for(SizeBudget(20000, 20, 6, 0, 6, 500))}
    assert {30, 72, 240} <= counts
    small = SizeBudget(1000, 20, 6, 0, 6, 500)
    most = max(plan.n_prototypes for plan in plans_for(small))
    assert 30 in {plan.n_prototypes for plan in plans_for(small)}
    assert most > 30 / 0.6
    assert all(small.size(plan) <= 1000 for plan in plans_for(small))


def error_of(row):
    """Least squared error of one row on a grid of its own."""
    return ((Grid.of(row, "int4").round(row) - row) ** 2).sum()


def test_bytes_of_labels_and_numbers():
    assert number_bytes(3, 5, "int4") == 9
    assert label_bytes([0, 1, 2]) == 3
    assert label_bytes([0, 1000]) == 4
    assert label_bytes([1.5, 2.0]) == 16
    assert label_bytes(["a", "bcd"]) == (4 + 2) + (4 + 4)


# -- int4 without data, unit rows ------------------------------------------------------------------


def test_int4_of_any_linear_model(tmp_path):
    model = MultiPrototypeSVC(3, C=0.01, random_state=0).fit(X[:600], Y[:600])
    number, _ = run_c(model, X[600:], tmp_path, dtype="int4")
    assert (model.classes_[number] == model.predict(X[600:])).mean() > 0.95
    assert constant_bytes(model, "int4") < 0.65 * constant_bytes(model, "int8")
    with pytest.raises(ValueError, match=r"int4.*linear"):
        to_c(MulticlassSVC(kernel="rbf").fit(IRIS, KIND), dtype="int4")


@pytest.mark.parametrize("norm", ["l2", "l1", "max"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_unit_rows_are_part_of_the_exports(norm, kernel, tmp_path):
    steps = [StandardScaler(), Normalizer(norm), StandardScaler()]
    model = make_pipeline(*steps, MulticlassSVC(C=1.0, kernel=kernel)).fit(IRIS, KIND)
    record = ExportModel.from_estimator(model)
    rows = np.vstack([IRIS, model.steps[0][1].mean_])
    mine = model.decision_function(rows)
    np.testing.assert_allclose(record.scores(rows), mine, atol=1e-9)
    number, scores = run_c(model, IRIS, tmp_path)
    assert (number == model.predict(IRIS)).all()
    assert np.abs(scores - mine[:-1]).max() < 1e-3


def test_class_weights_name_labels():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    weights = {"setosa": 1.0, "versicolor": 5.0, "virginica": 0.1}
    model = MultiPrototypeSVC(1, fit_into="200B", class_weight=weights, random_state=0)
    model.fit(X, names[y])
    is_versicolor = names[y] == "versicolor"
    assert model.score(X[is_versicolor], names[y][is_versicolor]) >= 0.98
    assert set(model.predict(X)) <= set(names)


@pytest.mark.parametrize("size", [1e-38, 1e-60, 1e-300, 5e-324])
def test_grids_of_vanishing_weights(size):
    values = size * np.array([[1.0, -0.5, 0.25], [0.5, 1.0, 0.0]])
    with np.errstate(all="raise", under="ignore"):
        grids = Grid.of(values, "int8"), RowGrids.of(values), RowGrids.of(values, has_table=True)
        for grid in grids:
            assert np.isfinite(grid.round(values)).all()
            assert np.abs(grid.integers(values)).max() <= 127
