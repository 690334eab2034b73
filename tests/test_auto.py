"""AutoSVC: what it chooses, what it keeps, what it refuses."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numba.core import event
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_circles, make_classification
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_info

from polymargin import AutoSVC, export_model, load, render_report, save
from polymargin.estimators import auto_race
from polymargin.estimators.auto_candidates import Candidate, Table, neighbours, starting_candidates
from polymargin.estimators.auto_losses import (
    example_losses,
    fit_temperature,
    mean_and_error,
    objective_weights,
)
from polymargin.estimators.auto_splits import plan_stages, stratified_sample
from polymargin.problem.constant_features import settle_constants

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
    # races of the real size, over 10,000 rows, take minutes
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
    assert model.stage_ in ("linear", "race", "final")
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


def plan(kind, n, left, seconds=1.0, rows=2000, row_seconds=0.0, leads=True):
    from polymargin.estimators.auto_final import final_rows

    label = np.arange(n) % 3
    entry = chosen_entry(kind, seconds, rows)
    rng = np.random.default_rng(0)
    return final_rows(label, entry, np.arange(200), left, row_seconds, rng, leads)


def test_rows_of_the_final_fit_follow_the_time_that_is_left():
    assert len(plan("linear", 50_000, None).rows) == 50_000
    assert len(plan("rbf", 50_000, None).rows) == pytest.approx(20_000, abs=3)
    enough = plan("linear", 10_000, 30.0)
    assert (len(enough.rows), enough.is_fair) == (10_000, False)
    behind = plan("linear", 10_000, 30.0, leads=False)  # another model was better so far
    assert (len(behind.rows), behind.is_fair) == (9_800, True)
    assert behind.rows.min() == 200
    short = plan("linear", 10_000, 5.0)  # it would take 7 s, and is useful unfinished
    assert (len(short.rows), short.is_fair) == (9_800, True)
    slow = plan("prototypes", 10_000, 5.0)  # an unfinished annealing is not
    assert len(slow.rows) == pytest.approx(2000 * 5.0 / 1.4, abs=3)
    kernel = plan("rbf", 10_000, 1.4 * 2.0**1.75)
    assert len(kernel.rows) == pytest.approx(4_000, abs=3)
    assert plan("rbf", 10_000, 1.5) is None  # hardly more rows than the race had
    scaling = plan("linear", 10_000, 10.0, row_seconds=1e-3)
    assert len(scaling.rows) == pytest.approx(3_000, abs=3)


def first_split_race(y):
    from types import SimpleNamespace

    from polymargin.estimators.auto_splits import Split

    return SimpleNamespace(
        label=y, loss_weight=np.ones(40), classes=np.array([0, 1]),
        X=(2.0 * y - 1.0)[:, None], rules=SimpleNamespace(objective="accuracy"),
        splits=[Split(np.arange(20), np.arange(20, 40))],
    )  # fmt: skip


def test_models_are_compared_on_rows_that_none_has_seen():
    from types import SimpleNamespace

    from polymargin.estimators.auto_final import best_on_first_split, is_good
    from polymargin.estimators.auto_linear import validate

    race = first_split_race(np.arange(40) % 2)
    quarter = chosen_entry("linear", 1.0, 20)
    quarter.losses = [np.r_[np.ones(5), np.zeros(15)]]
    for sign, is_best in ((1.0, True), (-1.0, False)):
        other = chosen_entry("linear", 1.0, 20)
        other.model = SimpleNamespace(
            classes_=np.array([0, 1]), coef_=np.ones((1, 1)), intercept_=np.zeros(1),
            decision_function=lambda X, s=sign: s * X[:, 0],
        )  # fmt: skip
        validate(other, race)
        assert (best_on_first_split([other, quarter, None], race) is other) is is_best
    for status, gap, good in (("max_time", 0.5, False), ("max_time", 0.01, True)):
        certificate = SimpleNamespace(relative_gap=gap)
        assert is_good(SimpleNamespace(status_=status, certificate_=certificate)) is good


def test_under_a_limit_a_linear_machine_on_all_rows_comes_first(monkeypatch):
    """It is kept where the race has no time and nothing follows, and has not seen its test rows."""
    from polymargin.estimators import auto_course

    # a course that leaves no time for one stage only depends on how fast the machine is
    monkeypatch.setattr(auto_course, "_SEARCH_SHARE", 0.0)
    X, y = overlapping(1000)
    who = np.arange(1000) % 50
    whole = AutoSVC(max_time=1e3, random_state=0).fit(X, y)  # there is time for a final fit of it
    assert (whole.stage_, whole.n_rows_, whole.tried_["machine"][0]) == ("final", 1000, "linear cs")
    monkeypatch.setattr(auto_course, "final_rows", lambda *arguments, **more: None)
    seen = []
    original = auto_course.fit_linear_first
    monkeypatch.setattr(
        auto_course, "fit_linear_first", lambda *a: (seen.append(a[1]), original(*a))[1]
    )
    for groups in (None, who):
        with pytest.warns(UserWarning, match="the model kept is the linear machine"):
            model = AutoSVC(max_time=1e3, random_state=0).fit(X, y, groups=groups)
        held_out = seen.pop()
        assert (model.stage_, model.n_rows_) == ("linear", 1000 - len(held_out))
        assert len(held_out) == pytest.approx(200, abs=40)
        if groups is not None:
            assert not set(who[held_out]) & set(np.delete(who, held_out))
        assert model.best_score_ == pytest.approx(model.score(X, y), abs=0.08)
        assert model.tried_["verdict"][0] == "chosen"


def test_a_stage_that_is_cut_at_once_leaves_the_standings_before_it():
    from polymargin.estimators.auto_race import Entry, Race

    race = Race.__new__(Race)
    first, second = (Entry(Candidate("linear", "cs", c)) for c in (1.0, 10.0))
    race.entries = {one.candidate: one for one in (first, second)}
    race.splits, race.best = ["small"], first
    for one in (first, second):
        one.losses, one.scores, one.model = [np.zeros(3)], [np.zeros((3, 2))], "small model"
    race._grow()
    assert race.splits == []
    assert first.losses == []
    race.splits.append("large")
    second.losses, second.model = [np.ones(3)], "large model"
    race._shrink()
    assert race.splits == ["small"]
    assert [one.model for one in (first, second)] == ["small model"] * 2
    assert second.losses[0].sum() == 0.0


def test_machines_whose_code_is_not_compiled_in_time_are_left_out():
    from polymargin.estimators import auto_warmup
    from polymargin.solvers.run import Clock

    X, y = overlapping(100)
    table = make_table()
    candidates = starting_candidates(table, "accurate", None, ("linear", "rbf"), None)
    clock = Clock(10.0)

    class Slow(auto_warmup.Compiled):
        def train(self, *arguments):
            with event.trigger_event("numba:compile"):
                clock.started -= 6.0
            return 6.0

    class Cached(auto_warmup.Compiled):
        def train(self, *arguments):
            return 3.0

    slow = Slow()
    first = Candidate("linear", "cs", 1.0)
    found, warmup = auto_warmup.compile_first(X, y, table, candidates, first, clock, slow)
    assert {(one.kind, one.machine) for one in found} == {("linear", "cs")}
    assert (warmup.seconds, warmup.n_skipped, warmup.late) == (6.0, 1, 0.0)
    assert clock.seconds == pytest.approx(6.0, abs=0.5)  # compiling counts
    for limit, remains in ((6.5, 1.0), (3.0, 1.0), (1.0, 0.5)):
        clock, slow = Clock(limit), Slow()
        _, warmup = auto_warmup.compile_first(X, y, table, candidates, first, clock, slow)
        assert limit - clock.seconds == pytest.approx(remains, abs=0.2)
        assert warmup.late == pytest.approx(6.0 + remains - limit, abs=0.2)
    clock = Clock(None)
    found, warmup = auto_warmup.compile_first(X, y, table, candidates, None, clock, slow)
    assert (found, warmup.n_skipped) == (candidates, 0)
    # what comes from the cache is no compilation, however slow it is
    found, warmup = auto_warmup.compile_first(X, y, table, candidates, first, Clock(1.0), Cached())
    assert (found, warmup) == (candidates, (0.0, 0, 0.0))


def test_a_race_model_is_kept_where_no_time_is_left(monkeypatch):
    from polymargin.estimators import auto_course

    # no time for the final fit, whatever the speed of the machine
    monkeypatch.setattr(auto_course, "final_rows", lambda *arguments, **more: None)
    X, y = overlapping(200)
    options = {"machines": "rbf", "n_candidates": 2, "cv": 3, "random_state": 0}
    with pytest.warns(UserWarning, match="is one of the race, trained on"):
        model = AutoSVC(**options, max_time=1e3).fit(X, y)
    assert (model.stage_, model.n_rows_ < 200) == ("race", True)
    assert model.score(X, y) > 0.5


def test_unused_prototypes_are_pruned():
    X, y = overlapping(200)
    options = {"machines": "prototypes", "n_candidates": 1, "cv": 2, "budget": HOURS}
    model = AutoSVC(**options, random_state=0).fit(X, y).best_estimator_[-1]
    assert model.alive_.all()
    assert len(model.prototypes_) == len(model.prototype_classes_)


# -- texts ---------------------------------------------------------------------------------------


def documents(n=2600, n_words=5000, n_classes=6, seed=0):
    """Sparse rows of words, some of which tell the class, normalised like tf-idf."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    told = 4 * rng.integers(60, size=(n, 6)) + 240 * y[:, None]
    other = rng.integers(n_words, size=(n, 30))
    columns = np.hstack([np.where(rng.random(told.shape) < 0.35, told, other[:, :6]), other])
    rows = np.repeat(np.arange(n), columns.shape[1])
    X = sparse.csr_matrix((np.ones(columns.size), (rows, columns.ravel())), shape=(n, n_words))
    return normalize(X), y


def test_texts_are_tried_on_many_rows_and_without_slow_machines():
    X, y = documents()
    table = Table.of(X, y)
    assert table.is_text
    all_kinds = ("linear", "prototypes", "rbf")
    kinds = [one.kind for one in starting_candidates(table, "accurate", None, all_kinds, None)]
    assert kinds[:6] == ["linear"] * 6
    assert kinds.count("rbf") == 1
    many = replace(table, n_features=60_000, n_classes=20)
    kinds = [one.kind for one in starting_candidates(many, "accurate", None, all_kinds, None)]
    assert "prototypes" not in kinds
    sizes = [len(stage.splits[0].train) for stage in plan_stages(y, None, 5, 0, is_text=True)]
    assert sizes[0] == pytest.approx(2000, abs=10)
    assert min(sizes[1:]) == pytest.approx(0.8 * len(y), abs=3)


def test_texts_under_a_limit_are_as_good_as_with_a_plain_linear_machine():
    X, y = documents(4000)
    train, test = np.arange(2600), np.arange(2600, 4000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoSVC(max_time=20.0, random_state=0).fit(X[train], y[train])
    plain = np.mean(LinearSVC().fit(X[train], y[train]).predict(X[test]) != y[test])
    wrong = np.mean(model.predict(X[test]) != y[test])
    assert wrong <= 1.1 * plain + np.sqrt(plain * (1 - plain) / len(test))
    assert (model.stage_, model.n_rows_) == ("final", len(train))


def test_a_race_with_one_machine_left_keeps_its_record():
    """Stages of another size are not begun for it: its validation scores would be lost."""
    X, y = documents(3000)
    model = AutoSVC(machines="linear", n_candidates=1, budget=HOURS, random_state=0).fit(X, y)
    assert model.n_rows_ == 3000
    assert model.best_score_ > 0.5
    assert model.tried_["train_rows"] == [pytest.approx(2000, abs=10)]


# -- few rows --------------------------------------------------------------------------------------


def test_of_few_rows_the_most_regularised_of_equals_is_chosen():
    from polymargin.estimators.auto_race import Entry, Race, Rules
    from polymargin.estimators.auto_splits import Split
    from polymargin.solvers.run import Clock

    def race_of(n, objective="accuracy", n_seen=None):
        rules = Rules(objective, "accurate", False, 1.0, True, 0, None, 0)
        X, label = np.zeros((n, 1)), np.arange(n) % 2
        race = Race(X, label, label, None, np.ones(n), make_table(), rules, Clock(1.0))
        race.splits = [Split(np.arange(n // 2), np.arange(n - (n_seen or n // 2), n))]
        wrong = {10.0: [0, 1], 1.0: [2, 3, 4], 0.1: [*range(5, 40)]}  # examples, by C
        for c, rows in wrong.items():
            entry = Entry(Candidate("linear", "cs", c), n_splits=1, train_rows=n // 2)
            loss = np.zeros(n_seen or n // 2)
            loss[rows] = 1.0
            entry.losses, entry.mean = [loss], float(loss.mean())
            race.entries[entry.candidate] = entry
        return race

    assert race_of(400).final_choice().candidate.c == 1.0  # one error more than the best
    assert race_of(400).choice().candidate.c == 10.0
    assert race_of(2000).final_choice().candidate.c == 10.0
    assert race_of(400, "log_loss").final_choice().candidate.c == 10.0
    assert race_of(400, n_seen=80).final_choice().candidate.c == 10.0  # most rows are unseen


def test_numbers_too_large_to_be_squared_are_refused_by_column():
    X, y = overlapping(60)
    X[:, 1] *= 1e200
    with pytest.raises(ValueError, match=r"feature 1 has values up to .*e\+200, whose squares"):
        AutoSVC(n_candidates=1).fit(X, y)


def test_what_nobody_validated_is_not_called_close():
    X, y = np.array([[0.0], [1.0]]), np.array([0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoSVC(random_state=0).fit(X, y)
    assert set(model.tried_["verdict"]) == {"not tried: too few rows"}


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
