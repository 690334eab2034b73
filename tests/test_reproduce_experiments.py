"""Every experiment on a tiny set: shape, resume, verdicts; and parts that have a meaning alone."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from polymargin.reproduce.binary_sets import chosen_errors
from polymargin.reproduce.catalogue import EXPERIMENTS, find_experiment
from polymargin.reproduce.experiment import Measured, cell_key
from polymargin.reproduce.experiment_runner import run_experiment
from polymargin.reproduce.hull_tables import Grid, _sequential, choose, search
from polymargin.reproduce.lvq import LVQ, is_in_window
from polymargin.reproduce.msvm_tables import chosen_by
from polymargin.reproduce.prototype_runs import best_by_hold_out, prototypes
from polymargin.reproduce.smo_curves import Curve, Member, members
from polymargin.reproduce.smo_findings import check
from polymargin.reproduce.verdicts import judge_row

QUANTITIES = {
    "mprot-usps-letter": {"test error %"},
    "mprot-annealing": {"energy", "test error %"},
    "mprot-binary": {"test error %"},
    "mprot-lvq": {"test error %", "ratio of errors"},
    "smo": {"statement", "test error %"},
    "ad-svm": {"accuracy"},
    "msvm": {"test error %"},
    "formulations": {"mean rank", "test error %"},
}


@pytest.fixture(autouse=True)
def no_data(monkeypatch):
    monkeypatch.delenv("POLYMARGIN_DATA_DIR", raising=False)


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_tiny(name, tmp_path):
    if name == "smo":
        pytest.importorskip("sklearn.callback")
    experiment = find_experiment(name)
    said = []
    outcome = run_experiment(experiment, tmp_path, "tiny", 1, said.append)
    assert outcome.failures == []
    assert outcome.is_complete
    assert {row.quantity for row in outcome.rows} == QUANTITIES[name]
    for row in outcome.rows:
        assert len(row.label) == len(experiment.labels)
        verdicts = judge_row(row)
        # a small part of the data never claims to match print
        assert "better" not in verdicts
        assert "worse" not in verdicts
        assert "matched" not in verdicts
        for values in (row.procedure, row.default):
            assert np.isfinite(values).all()
    # a second run has nothing left to do and says the same
    said.clear()
    again = run_experiment(experiment, tmp_path, "tiny", 1, said.append)
    assert said == [f"{again.n_cells} of {again.n_cells} cells are finished already"]
    assert [row.procedure for row in again.rows] == [row.procedure for row in outcome.rows]
    # and rows of a run that was cut short are those of what there is
    part = experiment.rows(outcome.measured[: len(outcome.measured) // 2])
    assert len(part) <= len(outcome.rows)


@pytest.mark.parametrize("name", list(EXPERIMENTS))
@pytest.mark.parametrize("scale", ["full", "quick"])
def test_cells(name, scale):
    """Cells are JSON, different from each other, and name their data."""
    cells = find_experiment(name).cells(scale)
    assert len({cell_key(cell) for cell in cells}) == len(cells)
    assert all(isinstance(cell["data"], str) for cell in cells)


def test_sizes_of_full_runs():
    counts = {name: len(find_experiment(name).cells("full")) for name in EXPERIMENTS}
    assert counts["mprot-usps-letter"] == 2 * (6 * 2 * 5 + 4)
    assert counts["mprot-annealing"] == 5 * 4 * 2 * 5
    assert counts["mprot-binary"] == 6 * 10 * (2 * 4 + 1)
    assert counts["mprot-lvq"] == 4 * 3 * 5
    assert counts["ad-svm"] == 6 * 3 * 2 * 10 + 5 * 2 * 3
    assert counts["msvm"] == 4 * 10 + 10 * 4 * 3
    assert counts["formulations"] == 10 * 2 * 8 * 3


# -- LVQ -----------------------------------------------------------------------------------------


def test_window():
    s = (1 - 0.2) / (1 + 0.2)
    assert is_in_window(1.0, 1.0, 0.2)
    assert is_in_window(1.0, s + 1e-9, 0.2)
    assert not is_in_window(1.0, s - 1e-9, 0.2)
    assert not is_in_window(s - 1e-9, 1.0, 0.2)
    assert not is_in_window(0.0, 1.0, 0.2)


def two_vectors(window=0.2):
    model = LVQ(1, window=window)
    model.vectors_ = np.array([[0.0, 0.0], [2.0, 0.0]])
    model.owner_ = np.array([0, 1])
    return model


def test_rules_of_lvq1():
    model = two_vectors()
    model._lvq1(np.array([0.5, 0.0]), 0, 0.1)
    np.testing.assert_allclose(model.vectors_, [[0.05, 0.0], [2.0, 0.0]])
    model = two_vectors()
    model._lvq1(np.array([0.5, 0.0]), 1, 0.1)
    np.testing.assert_allclose(model.vectors_, [[-0.05, 0.0], [2.0, 0.0]])


def test_rules_of_lvq21():
    """Both move inside the window, none outside, none where both are right or wrong."""
    model = two_vectors()
    model._lvq21(np.array([1.05, 0.0]), 0, 0.1)
    np.testing.assert_allclose(model.vectors_, [[0.105, 0.0], [2.095, 0.0]])
    for x, label in (([0.3, 0.0], 0), ([1.0, 0.0], 2)):
        model = two_vectors()
        model._lvq21(np.array(x), label, 0.1)
        np.testing.assert_array_equal(model.vectors_, [[0.0, 0.0], [2.0, 0.0]])


def test_lvq_learns():
    X, y = load_digits(return_X_y=True)
    first = LVQ(3, epochs=1, rate=1e-9).fit(X[:900], y[:900]).score(X[900:], y[900:])
    model = LVQ(3, epochs=5).fit(X[:900], y[:900])
    assert model.score(X[900:], y[900:]) > max(first, 0.9)
    again = LVQ(3, epochs=5).fit(X[:900], y[:900])
    np.testing.assert_array_equal(model.vectors_, again.vectors_)


# -- choices -------------------------------------------------------------------------------------


def test_published_algorithm():
    model = prototypes("paper", 3, 1.0, 0, 0.2)
    assert model.init == "random"
    assert model.annealing.get_params() == {
        "initial_temperature": 10.0,
        "cooling": 0.2,
        "final_temperature": None,
        "sweeps": "descent",
        "restoration": "zeroing",
        "units": "absolute",
        "balance": 0.0,
    }


def test_hold_out_takes_the_first_of_equals():
    from sklearn.neighbors import KNeighborsClassifier

    from polymargin.reproduce.benchmark_data import load_split

    data = load_split("iris")
    best, error = best_by_hold_out(lambda k: KNeighborsClassifier(k), [1, 3, 80], data, 0)
    assert best in (1, 3)
    assert error < 15.0


def test_q_by_validation():
    def one(split, q, validation, error):
        cell = {"data": "a", "method": "paper", "split": split, "q": q}
        return Measured(cell, {"validation_error": validation, "error": error})

    some = [one(0, 1, 3.0, 10.0), one(0, 5, 2.0, 20.0), one(1, 1, 2.0, 30.0), one(1, 5, 2.0, 40.0)]
    assert chosen_errors(some, "a", "paper") == [20.0, 30.0]


def test_choice_by_criterion():
    def one(C, value):
        return Measured({"C": C, "factor": 1.0}, {"count": value})

    assert chosen_by([one(1.0, 5), one(10.0, 3), one(100.0, 3)], "count").cell["C"] == 10.0
    assert chosen_by([one(1.0, 5)], "value") is None


# -- AD-SVM --------------------------------------------------------------------------------------


def test_infeasible_caps_are_skipped():
    X, y = load_iris(return_X_y=True)
    grid = Grid(sigmas=(3.0,), etas=(1e-3, 0.2, 1.0), folds=2)
    scores, seconds = search(X, y, "AD-SVM", grid, 0)
    assert np.isnan(scores[0, 0])
    assert (scores[0, 1:] > 0.7).all()
    assert (seconds >= 0.0).all()


def test_choice_among_equals():
    grid = Grid(sigmas=(1.0, 2.0, 3.0), etas=(0.1, 1.0))
    scores = np.array([[0.9, 0.9], [0.9, 0.8], [np.nan, 0.5]])
    assert choose(scores, [0, 1], grid) == (2.0, 0.1, 0.9)
    assert choose(scores, [1], grid) == (1.0, 1.0, 0.9)


def test_published_protocol():
    """The soft machine keeps the sigma of the hard one."""
    X, y = load_iris(return_X_y=True)
    grid = Grid(sigmas=(0.3, 3.0), etas=(0.2, 1.0), folds=3)
    found = _sequential(X, y, "AD-SVM", grid, 0)
    scores, _ = search(X, y, "AD-SVM", grid, 0)
    assert found["hard"][0] == found["soft"][0] == choose(scores, [1], grid)[0]
    assert found["hard"][1] == 1.0


# -- SMO -----------------------------------------------------------------------------------------


def test_all_pairs_is_drawn():
    """ALL of the papers is in every figure."""
    for group in members(300).values():
        assert any(member.label.startswith("all-pairs") for member in group)


def curve(label, rows, patterns, kernel_rows, share=1.0, status="converged"):
    """A straight line of the dual value up to ``share`` of the best."""
    columns = {
        "dual": np.linspace(0.0, share, 1001),
        "seconds": np.linspace(0, 1, 1001),
        "patterns": np.linspace(0, patterns, 1001),
        "kernel_rows": np.linspace(0, kernel_rows, 1001),
    }
    return Curve(Member(label, rows), status, 1e-3, 10, columns)


def test_findings():
    curves = [
        curve("opt-kkt, kkt, mean", 300, 300, 90),
        curve("opt-kkt, amg, mean", 300, 250, 90),
        curve("opt-kkt, bmg, mean", 300, 200, 90),
        curve("opt-kkt, kkt, log", 300, 200, 90, 0.95, "stalled"),
        curve("opt-kkt, amg, log", 300, 200, 90, 0.85, "stalled"),
        curve("opt-kkt, bmg, log", 300, 200, 90, 0.80, "stalled"),
        curve("opt-kkt, bmg, mean", 30, 200, 200),
        curve("opt-kkt, kkt, mean", 30, 300, 150),
        curve("basic, bmg, mean", 30, 300, 300, 0.5, "max_time"),
    ]
    found = check({one.member.key: one for one in curves}, 30, 300)
    assert [finding.is_confirmed for finding in found] == [True, True, True, False]
    assert "NOT confirmed: BMG needs fewer" in str(found[3])
