"""The race of AutoSVC: candidates, splits, losses, warm starts and standings."""

from dataclasses import replace

import numpy as np
import pytest
from auto_cases import HOURS, documents, make_table, overlapping
from sklearn.metrics import balanced_accuracy_score

from polymargin import AutoSVC
from polymargin.estimators.auto_candidates import Candidate, Table, neighbours, starting_candidates
from polymargin.estimators.auto_fits import Trainer
from polymargin.estimators.auto_losses import (
    example_losses,
    fit_temperature,
    mean_and_error,
    objective_weights,
)
from polymargin.estimators.auto_race import Entry, Race, Rules
from polymargin.estimators.auto_splits import Split, plan_stages, stratified_sample
from polymargin.solvers.run import Clock

# -- candidates, splits and losses -------------------------------------------------------------


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


# -- warm starts -------------------------------------------------------------------------------


def test_a_start_from_another_C_leads_to_the_same_machine_sooner():
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
    assert Trainer.start_of(Candidate("prototypes", None, 1.0, count=2), object()) is None


# -- standings ---------------------------------------------------------------------------------


def test_a_stage_that_is_cut_at_once_leaves_the_standings_before_it():
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


def test_of_few_rows_the_most_regularised_of_equals_is_chosen():
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


def test_a_race_with_one_machine_left_keeps_its_record():
    """Stages of another size are not begun for it: its validation scores would be lost."""
    X, y = documents(3000)
    model = AutoSVC(machines="linear", n_candidates=1, budget=HOURS, random_state=0).fit(X, y)
    assert model.n_rows_ == 3000
    assert model.best_score_ > 0.5
    assert model.tried_["train_rows"] == [pytest.approx(2000, abs=10)]


# -- texts -------------------------------------------------------------------------------------


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
