"""AutoSVC under a time limit: which model is kept, and on which rows it is trained."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from auto_cases import documents, make_table, overlapping
from numba.core import event
from sklearn.base import clone
from sklearn.svm import LinearSVC

from polymargin import AutoSVC
from polymargin.estimators import auto_warmup
from polymargin.estimators.auto_candidates import Candidate, starting_candidates
from polymargin.estimators.auto_course import Course
from polymargin.estimators.auto_data import prepare
from polymargin.estimators.auto_final import best_on_first_split, final_rows, is_good
from polymargin.estimators.auto_linear import validate
from polymargin.estimators.auto_parameters import check_parameters, seed_of
from polymargin.estimators.auto_race import Entry
from polymargin.estimators.auto_splits import Split
from polymargin.solvers.run import Clock

# -- cut short ---------------------------------------------------------------------------------


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


def test_a_race_model_is_kept_where_no_time_is_left(clock):
    X, y = overlapping(200)
    model = AutoSVC(machines="rbf", n_candidates=2, cv=3, max_time=1e3, random_state=0).fit(X, y)
    assert (model.stage_, model.n_rows_) == ("final", 200)
    clock.restart(clock.looks // 2)  # the time is over in the middle of the race
    with pytest.warns(UserWarning, match="is one of the race, trained on"):
        model.fit(X, y)
    assert (model.stage_, model.n_rows_ < 200) == ("race", True)
    assert model.score(X, y) > 0.5


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


# -- compiling ---------------------------------------------------------------------------------


def test_machines_whose_code_is_not_compiled_in_time_are_left_out():
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


# -- the linear machine before the race --------------------------------------------------------


def test_under_a_limit_a_linear_machine_on_all_rows_comes_first(clock):
    """It is kept where the race has no time and nothing follows, and has not seen its test rows."""
    X, y = overlapping(1000)
    who = np.arange(1000) % 50
    no_race = {"budget": 1e-9, "random_state": 0}
    whole = AutoSVC(**no_race, max_time=1e3).fit(X, y)  # there is time for a final fit of it
    assert (whole.stage_, whole.n_rows_, whole.tried_["machine"][0]) == ("final", 1000, "linear cs")
    auto = AutoSVC(**no_race, max_time=0.06)  # the linear fit alone looks at the clock 60 times
    for groups in (None, who):
        clock.restart()
        with pytest.warns(UserWarning, match="the model kept is the linear machine"):
            model = clone(auto).fit(X, y, groups=groups)
        clock.restart()
        ready = prepare(auto, X, y, None, groups)
        course = Course(auto, ready, check_parameters(auto), seed_of(0), Clock(0.06))
        course.run()
        held_out = course.held_out
        assert (model.stage_, model.n_rows_) == ("linear", 1000 - len(held_out))
        assert len(held_out) == pytest.approx(200, abs=40)
        if groups is not None:
            assert not set(who[held_out]) & set(np.delete(who, held_out))
        known = {row.tobytes(): k for k, row in enumerate(course.sample.X)}
        support = [known[row.tobytes()] for row in model.best_estimator_[-1].support_vectors_]
        assert not set(support) & set(held_out)
        assert model.best_score_ == pytest.approx(model.score(X, y), abs=0.08)
        assert model.tried_["verdict"][0] == "chosen"


# -- the final fit -----------------------------------------------------------------------------


def chosen_entry(kind, seconds, rows):
    return Entry(Candidate(kind, "ww", 1.0), seconds=[seconds], train_rows=rows)


def plan(kind, n, left, seconds=1.0, rows=2000, row_seconds=0.0, leads=True):
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
    return SimpleNamespace(
        label=y, loss_weight=np.ones(40), classes=np.array([0, 1]),
        X=(2.0 * y - 1.0)[:, None], rules=SimpleNamespace(objective="accuracy"),
        splits=[Split(np.arange(20), np.arange(20, 40))],
    )  # fmt: skip


def test_models_are_compared_on_rows_that_none_has_seen():
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
