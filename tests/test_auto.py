"""AutoSVC: what it chooses, what it keeps, what it refuses."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_circles, make_classification
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

from polymargin import AutoSVC, export_model, load, render_report, save
from polymargin.estimators.auto_candidates import Candidate, Table, neighbours, starting_candidates
from polymargin.estimators.auto_losses import (
    example_losses,
    fit_temperature,
    mean_and_error,
    objective_weights,
)
from polymargin.estimators.auto_splits import plan_stages, stratified_sample

HOURS = 1e4  # seconds of a budget that no busy machine reaches
LINEAR = {"machines": "linear", "n_candidates": 3, "cv": 3, "budget": HOURS, "random_state": 0}


def exempted(estimator):
    reason = "an example of weight two stands in one fold, its two copies may stand in two"
    return {
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
    }


@parametrize_with_checks(
    [AutoSVC(n_candidates=2, cv=2, random_state=0)], expected_failed_checks=exempted
)
def test_estimator_check(estimator, check):
    check(estimator)


def overlapping(n=200, seed=0):
    return make_classification(
        n,
        6,
        n_informative=4,
        n_redundant=0,
        n_classes=3,
        n_clusters_per_class=1,
        class_sep=0.8,
        random_state=seed,
    )


# -- what it chooses ---------------------------------------------------------------------------


def test_rings_get_a_kernel():
    X, y = make_circles(300, noise=0.08, factor=0.5, random_state=0)
    model = AutoSVC(n_candidates=8, budget=HOURS, random_state=0).fit(X[:200], y[:200])
    assert model.best_params_["kernel"] == "rbf"
    assert model.score(X[200:], y[200:]) > 0.95


def test_overlapping_classes_do_not_collapse():
    rng = np.random.default_rng(0)
    y = rng.integers(6, size=900)
    X = 0.4 * rng.normal(size=(6, 8))[y] + rng.normal(size=(900, 8))
    model = AutoSVC(n_candidates=8, machines=("linear", "rbf"), budget=HOURS, random_state=0)
    model.fit(X[:600], y[:600])
    assert model.score(X[600:], y[600:]) > 0.3  # guessing gives 0.17


def test_scaling_makes_the_choice_independent_of_units():
    X, y = overlapping()
    units = np.array([1e-6, 1.0, 1e3, 1e6, 10.0, 0.1])
    plain = AutoSVC(**LINEAR).fit(X, y)
    scaled = AutoSVC(**LINEAR).fit(X * units + 5.0, y)
    assert plain.best_params_ == pytest.approx(scaled.best_params_)
    assert np.mean(plain.predict(X) == scaled.predict(X * units + 5.0)) > 0.97  # up to tol


def test_equal_seeds_give_equal_models_with_any_number_of_threads():
    X, y = overlapping()
    first = AutoSVC(n_candidates=5, budget=HOURS, random_state=3).fit(X, y)
    second = AutoSVC(n_candidates=5, budget=HOURS, random_state=3, n_jobs=2).fit(X, y)
    assert first.best_params_ == second.best_params_
    assert first.tried_["verdict"] == second.tried_["verdict"]
    np.testing.assert_array_equal(first.decision_function(X), second.decision_function(X))


def test_small_takes_the_smallest_within_one_standard_error():
    X, y = overlapping(300)
    model = AutoSVC(n_candidates=8, prefer="small", budget=HOURS, random_state=0).fit(X, y)
    tried = model.tried_
    last = max(tried["train_rows"])
    final = [
        k
        for k, verdict in enumerate(tried["verdict"])
        if verdict in ("chosen", "close") and tried["train_rows"][k] == last
    ]
    best = max(final, key=lambda k: tried["score"][k])
    floor = tried["score"][best] - tried["standard_error"][best]
    good = [k for k in final if tried["score"][k] >= floor - 1e-12]
    assert tried["score"][0] >= floor - 1e-12
    assert tried["model_bytes"][0] == min(tried["model_bytes"][k] for k in good)


def test_balanced_accuracy_finds_the_rare_class():
    rng = np.random.default_rng(1)
    y = (rng.random(600) < 0.06).astype(int)
    X = rng.normal(size=(600, 4)) + 0.9 * y[:, None]
    parts = train_test_split(X, y, random_state=0, stratify=y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the plain machine may leave the rare class out
        plain = AutoSVC(**LINEAR).fit(parts[0], parts[2])
        fair = AutoSVC(**LINEAR, objective="balanced_accuracy").fit(parts[0], parts[2])
    of = [balanced_accuracy_score(parts[3], m.predict(parts[1])) for m in (plain, fair)]
    assert of[1] > of[0] + 0.05


def test_probabilities_whatever_the_objective():
    X, y = load_iris(return_X_y=True)
    model = AutoSVC(**LINEAR, probabilities="temperature").fit(X, y)
    P = model.predict_proba(X)
    assert np.array_equal(model.classes_[P.argmax(axis=1)], model.predict(X))
    assert log_loss(y, P) < 0.5
    assert not hasattr(AutoSVC(), "predict_proba")
    with pytest.raises(ValueError, match="probabilities must be None or 'temperature'"):
        AutoSVC(probabilities="platt").fit(X, y)


def test_log_loss_gives_probabilities_better_than_the_class_frequencies():
    X, y = overlapping(400)
    model = AutoSVC(**LINEAR, objective="log_loss").fit(X[:250], y[:250])
    P = model.predict_proba(X[250:])
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X[250:]))
    assert log_loss(y[250:], P) < 0.9 * np.log(3)
    assert not hasattr(AutoSVC(), "predict_proba")


def test_groups_stay_together():
    # every speaker has one label and a voice of its own: rows of a known speaker tell the label
    rng = np.random.default_rng(0)
    speaker = np.repeat(np.arange(30), 8)
    y = rng.integers(2, size=30)[speaker]
    X = rng.normal(size=(30, 5))[speaker] + 0.05 * rng.normal(size=(240, 5))
    plain = AutoSVC(machines="rbf", n_candidates=2, budget=HOURS, random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grouped = AutoSVC(machines="rbf", n_candidates=2, budget=HOURS, random_state=0).fit(
            X, y, groups=speaker
        )
    assert plain.best_score_ > 0.95
    assert grouped.best_score_ < 0.75


# -- difficult tables --------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "y",
    [
        np.array([0, 1] * 10),
        np.arange(20) % 10,  # two of each
        np.arange(20),  # one of each: nothing to validate with
        np.array([0] * 19 + [1]),
        np.array(list("aaaaaaaabbbbbbbbcccd")),
    ],
    ids=["two", "pairs", "singletons", "one against all", "rare"],
)
def test_twenty_rows(y):
    X = np.random.default_rng(0).normal(size=(20, 3))
    model = AutoSVC(n_candidates=4, random_state=0).fit(X, y)
    assert set(model.predict(X)) <= set(y)
    assert model.certificate_.relative_gap <= 1e-2


def test_many_classes():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(300), 4)
    X = 3.0 * rng.normal(size=(300, 12))[y] + rng.normal(size=(1200, 12))
    model = AutoSVC(machines="linear", n_candidates=1, random_state=0).fit(X, y)
    assert len(model.classes_) == 300
    assert model.score(X, y) > 0.8


def test_constant_features_and_large_tables_are_sampled(monkeypatch):
    monkeypatch.setattr("polymargin.estimators.auto_splits.SEARCH_ROWS", 300)
    monkeypatch.setattr("polymargin.estimators.auto_final.KERNEL_ROWS", 400)
    X, y = overlapping(1000)
    X[:, 2] = 7.0
    model = AutoSVC(machines="rbf", n_candidates=2, budget=HOURS, random_state=0).fit(X, y)
    assert max(model.tried_["train_rows"]) <= 300
    assert abs(model.n_rows_ - 400) <= 3
    linear = AutoSVC(**LINEAR).fit(X, y)
    assert linear.n_rows_ == 1000


def test_sparse_input_is_not_scaled():
    X, y = overlapping()
    X = sparse.csr_matrix(np.where(X > 0.5, X, 0.0))
    model = AutoSVC(**LINEAR).fit(X, y)
    assert not hasattr(model.best_estimator_, "steps")
    assert model.score(X, y) > 0.5


def test_rows_without_weight_do_not_count():
    X, y = overlapping()
    weight = np.ones(len(y))
    weight[150:] = 0.0
    X[150:] = 1e6
    weighted = AutoSVC(**LINEAR).fit(X, y, sample_weight=weight)
    without = AutoSVC(**LINEAR).fit(X[:150], y[:150], sample_weight=np.ones(150))
    np.testing.assert_array_equal(
        weighted.decision_function(X[:150]), without.decision_function(X[:150])
    )


def test_a_class_that_is_never_predicted_is_reported():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.where(rng.random(300) < 0.1, "rare", "common")
    with pytest.warns(UserWarning, match="never predicted 'rare'"):
        AutoSVC(**LINEAR).fit(X, y)


# -- limits ------------------------------------------------------------------------------------


def test_no_time_still_gives_a_model():
    X, y = overlapping(400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoSVC(max_time=1e-3, random_state=0).fit(X, y)
    assert model.was_cut_short_
    assert model.stage_ in ("race", "final")
    assert model.predict(X).shape == (400,)
    assert "not tried: time" in model.tried_["verdict"]


def test_ctrl_c_keeps_the_best_model_so_far(clock):
    X, y = overlapping(300)
    model = AutoSVC(n_candidates=4, random_state=0).fit(X, y)
    clock.restart(clock.looks // 2, "interrupted")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.stage_ == "race"
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"objective": "f1"}, "objective must be one of"),
        ({"prefer": "cheap"}, "prefer must be one of"),
        ({"scale": "minmax"}, "scale must be one of"),
        ({"machines": "precomputed"}, "precomputed kernel"),
        ({"machines": ("tree",)}, "machines must be"),
        ({"machines": ()}, "machines must be"),
        ({"cv": 1}, "cv must be"),
        ({"cv": "five"}, "cv must be"),
        ({"budget": 0}, "budget must be"),
        ({"max_time": -1}, "max_time must be"),
        ({"n_candidates": 0}, "n_candidates must be"),
        ({"tol": 0}, "tol must be"),
    ],
)
def test_refusals_are_one_line(parameters, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message) as caught:
        AutoSVC(**parameters).fit(X, y)
    assert "\n" not in str(caught.value)


def test_groups_are_checked():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="groups: all rows"):
        AutoSVC().fit(X, y, groups=np.zeros(150))
    with pytest.raises(ValueError, match="inconsistent"):
        AutoSVC().fit(X, y, groups=np.zeros(149))


# -- the fitted object -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    return AutoSVC(n_candidates=4, budget=HOURS, random_state=0).fit(X, names), X, names


def test_pickle_clone_save_and_load_predict_the_same(fitted, tmp_path):
    model, X, y = fitted
    save(model, tmp_path / "auto.model")
    for other in (pickle.loads(pickle.dumps(model)), load(tmp_path / "auto.model")):
        np.testing.assert_array_equal(other.decision_function(X), model.decision_function(X))
        for name in model.tried_.keys() - {"seconds"}:  # which a file leaves out
            assert other.tried_[name] == model.tried_[name]
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_export_and_report_see_through_it(fitted, tmp_path):
    model, X, y = fitted
    assert export_model(model, tmp_path / "auto.json").bytes > 0
    assert export_model(model, tmp_path / "auto.h").bytes > 0
    assert "virginica" in render_report(model, X, y)


def test_table_shows_the_choice_first(fitted):
    model, *_ = fitted
    lines = model.table().splitlines()
    assert "right %" in lines[0]
    assert lines[1].endswith("chosen")
    assert len(lines) == 1 + len(model.tried_["machine"])
    assert len(model.table(rows=2).splitlines()) == 3
    assert {len(column) for column in model.tried_.values()} == {len(lines) - 1}


def test_reject_option_and_scores_agree_with_predict(fitted):
    model, X, _ = fitted
    scores = model.decision_function(X)
    np.testing.assert_array_equal(model.classes_[scores.argmax(axis=1)], model.predict(X))
    rejected = model.predict_or_reject(X, margin=1e9, reject_label="?")
    assert set(rejected) == {"?"}


# -- parts -------------------------------------------------------------------------------------


def make_table(**changes):
    facts = {
        "n_rows": 1000,
        "n_features": 10,
        "n_classes": 3,
        "median_class": 300.0,
        "row_norm": 11.0,
        "gamma": 0.1,
        "is_sparse": False,
    }
    return Table(**(facts | changes))


def test_candidates_are_distinct_and_fit_the_table():
    kinds = ("linear", "prototypes", "rbf")
    found = starting_candidates(make_table(), "accurate", None, kinds, None)
    assert len(found) == len(set(found))
    assert {one.kind for one in found} == set(kinds)
    tiny = starting_candidates(make_table(median_class=5.0), "small", None, kinds, None)
    assert not any(one.kind == "prototypes" for one in tiny)
    two = starting_candidates(make_table(n_classes=2), "accurate", None, kinds, None)
    assert {one.machine for one in two if one.kind == "linear"} == {"ww"}
    huge = starting_candidates(make_table(n_classes=5000), "accurate", None, kinds, None)
    assert {one.machine for one in huge if one.kind != "prototypes"} == {"cs"}


def test_neighbours_return():
    one = Candidate("rbf", "ww", 10.0**0.5)
    near = neighbours(one, make_table(), False)
    assert one not in near
    assert any(one in neighbours(other, make_table(), False) for other in near)


def test_stratified_sample_keeps_every_class():
    y = np.array([0] * 900 + [1] * 95 + [2] * 5)
    rows = stratified_sample(y, 100, np.random.default_rng(0))
    assert len(np.unique(rows)) == len(rows)
    np.testing.assert_array_equal(np.bincount(y[rows]), [90, 10, 1])


def test_splits_do_not_share_rows_or_groups():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=4000)
    groups = rng.integers(200, size=4000)
    stages = plan_stages(y, groups, 5, 0)
    sizes = [len(stage.splits[0].train) for stage in stages]
    assert sizes == sorted(sizes)
    for split in (split for stage in stages for split in stage.splits):
        assert not set(groups[split.train]) & set(groups[split.test])


def test_balanced_weights_make_accuracy_balanced():
    rng = np.random.default_rng(0)
    y = rng.choice(3, size=200, p=[0.8, 0.15, 0.05])
    scores = rng.normal(size=(200, 3)) + np.eye(3)[y]
    weight = objective_weights("balanced_accuracy", y, None)
    losses = example_losses("balanced_accuracy", scores, y, weight)
    mean, _ = mean_and_error(losses, weight)
    assert 1.0 - mean == pytest.approx(balanced_accuracy_score(y, scores.argmax(axis=1)))


def test_temperature_finds_the_scale_of_the_scores():
    rng = np.random.default_rng(0)
    logits = rng.normal(scale=2.0, size=(20000, 3))
    P = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (P.cumsum(axis=1) < rng.random((20000, 1))).sum(axis=1)
    assert fit_temperature(7.0 * logits, y, np.ones(20000)) == pytest.approx(7.0, rel=0.05)


# -- warm starts, groups -----------------------------------------------------------------------


def test_a_start_from_another_C_leads_to_the_same_machine_sooner():
    from polymargin.estimators.auto_fits import Trainer
    from polymargin.solvers.run import Clock

    X, y = overlapping(300)
    table = Table.of(X, y)
    trainer = Trainer(X, y, None, table, Clock(HOURS), HOURS, False, 0)
    rows = np.arange(250)
    for kind, g in (("rbf", 0.25), ("linear", 1.0)):
        low, high = (Candidate(kind, "ww", c, g) for c in (10.0, 10.0**1.5))
        start = trainer.start_of(low, trainer.train(low, rows, (), None)[0])
        cold = trainer.train(high, rows, (), None)[0]
        warm = trainer.train(high, rows, (), start)[0]
        assert warm.C == cold.C
        for model in (cold, warm):
            assert model.certificate_.relative_gap <= 1e-2
        assert warm.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=2e-2)
        assert len(warm.history_["steps"]) <= len(cold.history_["steps"])
        assert warm.history_["steps"][-1] < cold.history_["steps"][-1]


def test_prototypes_leave_no_start():
    from polymargin.estimators.auto_fits import Trainer

    assert Trainer.start_of(Candidate("prototypes", None, 1.0, count=2), object()) is None


def test_groups_that_look_alike_inside_are_told():
    rng = np.random.default_rng(0)
    who = np.arange(300) % 30
    X = rng.normal(size=(30, 4))[who] + 0.1 * rng.normal(size=(300, 4))
    y = rng.integers(2, size=30)[who]
    options = {"machines": "rbf", "n_candidates": 2, "cv": 3, "budget": HOURS, "random_state": 0}
    with pytest.warns(UserWarning, match="groups: rows of new groups are classified far worse"):
        AutoSVC(**options).fit(X, y, groups=who)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        AutoSVC(**options).fit(X, y, groups=rng.integers(30, size=300))
    assert not [w for w in caught if "new groups" in str(w.message)]


# -- the final fit under a time limit ----------------------------------------------------------


def chosen_entry(kind, seconds, rows):
    from polymargin.estimators.auto_race import Entry

    return Entry(Candidate(kind, "ww", 1.0), seconds=[seconds], train_rows=rows)


def plan(kind, n, left, seconds=1.0, rows=1000, row_seconds=0.0):
    from polymargin.estimators.auto_final import final_rows

    label = np.arange(n) % 3
    entry = chosen_entry(kind, seconds, rows)
    rng = np.random.default_rng(0)
    return final_rows(label, entry, kind, np.arange(200), left, row_seconds, rng)


def test_rows_of_the_final_fit_follow_the_time_that_is_left():
    assert len(plan("linear", 50_000, None).rows) == 50_000
    assert len(plan("rbf", 50_000, None).rows) == pytest.approx(20_000, abs=3)
    enough = plan("linear", 10_000, 30.0)
    assert (len(enough.rows), len(enough.held_out)) == (10_000, 0)
    short = plan("linear", 10_000, 10.0)  # it would take 20 s
    assert (len(short.rows), len(short.held_out)) == (9_800, 200)
    assert not set(short.rows) & set(short.held_out)
    kernel = plan("rbf", 10_000, 50.0)  # 5000 rows take 25 times 2 s
    assert len(kernel.rows) == pytest.approx(5_000, abs=3)
    assert plan("rbf", 10_000, 2.0) is None  # not more rows than the race had
    scaling = plan("linear", 10_000, 10.0, row_seconds=1e-3)
    assert len(scaling.rows) == pytest.approx(3_000, abs=3)


def test_an_unfinished_model_is_judged_on_rows_that_it_has_not_seen():
    from types import SimpleNamespace

    from polymargin.estimators.auto_final import is_better
    from polymargin.estimators.auto_splits import Split

    y = np.arange(40) % 2
    rules = SimpleNamespace(objective="accuracy")
    race = SimpleNamespace(
        label=y, loss_weight=np.ones(40), classes=np.array([0, 1]), rules=rules,
        splits=[Split(np.arange(20), np.arange(20, 40))],
    )  # fmt: skip
    entry = chosen_entry("linear", 1.0, 20)
    entry.losses = [np.r_[np.ones(5), np.zeros(15)]]  # a quarter wrong
    sign = {"right": 1.0, "wrong": -1.0}
    for name, better in (("right", True), ("wrong", False)):
        model = SimpleNamespace(
            classes_=np.array([0, 1]),
            decision_function=lambda X, s=sign[name]: s * X[:, 0],
            certificate_=SimpleNamespace(relative_gap=0.5),
        )
        X = (2.0 * y[20:] - 1.0)[:, None]
        assert is_better(model, entry, race, X, 0.05) is better
        assert not is_better(model, entry, race, None, 0.05)  # by its gap


def test_a_race_model_is_kept_where_no_time_is_left(monkeypatch):
    from polymargin.estimators import auto

    monkeypatch.setattr(auto, "final_rows", lambda *arguments: None)
    X, y = overlapping(200)
    with pytest.warns(UserWarning, match="is one of the race, trained on"):
        model = AutoSVC(**LINEAR, max_time=1e3).fit(X, y)
    assert (model.stage_, model.n_rows_ < 200) == ("race", True)
    assert model.score(X, y) > 0.5


def test_unused_prototypes_are_pruned():
    X, y = overlapping(200)
    options = {"machines": "prototypes", "n_candidates": 1, "cv": 2, "budget": HOURS}
    model = AutoSVC(**options, random_state=0).fit(X, y).best_estimator_[-1]
    assert model.alive_.all()
    assert len(model.prototypes_) == len(model.prototype_classes_)
