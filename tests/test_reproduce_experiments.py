"""Every experiment on a tiny set: shape, resume, verdicts; and parts that have a meaning alone."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from polymargin.reproduce.binary_sets import chosen_errors
from polymargin.reproduce.catalogue import EXPERIMENTS, find_experiment
from polymargin.reproduce.experiment import Measured, cell_key
from polymargin.reproduce.experiment_runner import run_experiment
from polymargin.reproduce.hull_tables import (
    Grid,
    _sequential,
    choose,
    growth_exponents,
    make,
    search,
)
from polymargin.reproduce.lvq import LVQ, is_in_window
from polymargin.reproduce.msvm_tables import chosen_by
from polymargin.reproduce.prototype_runs import best_by_hold_out, prototypes
from polymargin.reproduce.smo_curves import Curve, Member, members
from polymargin.reproduce.smo_findings import check, check_cubic
from polymargin.reproduce.verdicts import judge_row

QUANTITIES = {
    "mprot-usps-letter": {"test error %"},
    "mprot-annealing": {"energy", "test error %"},
    "mprot-binary": {"test error %"},
    "mprot-lvq": {"test error %", "ratio of errors"},
    "smo": {"statement", "test error %"},
    "ad-svm": {"accuracy"},
    "msvm": {"test error %", "test error % above the best of the grid"},
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
    assert counts["ad-svm"] == 5 * 3 * 2 * 10 + 3 * 2 * 3 + 5 * 2 * 3
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
    model._place(np.array([[0.0, 0.0], [2.0, 0.0]]), np.array([0, 1]))
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


def plain_lvq(vectors, owner, X, y, rate, window, passes):
    """The two rules word for word: distances from differences, one example after the other."""
    rng = np.random.default_rng(0)
    for rule, n_passes in enumerate(passes):
        steps = [i for _ in range(n_passes) for i in rng.permutation(len(X))]
        for t, i in enumerate(steps):
            now = rate * (1 - t / len(steps))
            distance = np.array([np.linalg.norm(X[i] - vector) for vector in vectors])
            first, second = np.argsort(distance)[:2]
            right = owner[first] == y[i], owner[second] == y[i]
            if rule == 0:
                vectors[first] += (1 if right[0] else -1) * now * (X[i] - vectors[first])
            elif right[0] != right[1] and is_in_window(distance[first], distance[second], window):
                for vector, is_right in zip((first, second), right, strict=True):
                    vectors[vector] += (1 if is_right else -1) * now * (X[i] - vectors[vector])
    return vectors


def test_lvq_is_the_plain_one():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16, y[:300]
    start = LVQ(2, epochs=0, first_epochs=0).fit(X, y)
    wanted = plain_lvq(start.vectors_.copy(), start.owner_, X, y, 0.05, 0.1, (2, 3))
    assert np.abs(wanted - start.vectors_).max() > 0.05
    model = LVQ(2, rate=0.05, window=0.1, epochs=3, first_epochs=2).fit(X, y)
    np.testing.assert_allclose(model.vectors_, wanted, atol=1e-10)


def test_lvq_learns():
    X, y = load_digits(return_X_y=True)
    first = LVQ(3, epochs=0, first_epochs=0).fit(X[:900], y[:900]).score(X[900:], y[900:])
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
    some.append(one(2, 1, 1.0, 46.0))  # of this split only the first q is finished
    assert chosen_errors(some, "a", "paper") == [20.0, 30.0]


def test_choice_by_criterion():
    def one(C, value):
        return Measured({"C": C, "factor": 1.0}, {"count": value})

    assert chosen_by([one(1.0, 5), one(10.0, 3), one(100.0, 3)], "count").cell["C"] == 10.0
    assert chosen_by([one(1.0, 5)], "value") is None


def test_excess_of_criteria():
    """Against the best test error of the grid; a set whose grid is not finished is left out."""

    def one(data, C, count, error):
        cell = {"data": data, "part": "criteria", "C": C, "factor": 1.0}
        return Measured(cell, {"count": count, "error": error, "n_examples": 9})

    some = [one("a", 1.0, 3, 9.0), one("a", 10.0, 5, 7.0)]
    some += [one("b", 1.0, 3, 4.0), one("b", 10.0, 2, 6.0), one("c", 1.0, 1, 50.0)]
    rows = find_experiment("msvm").rows(some)
    excess = {row.label: row.procedure for row in rows if "above" in row.quantity}
    assert excess["2 sets", "M-SVM² by count, Lemma 1"] == [2.0, 2.0]


# -- AD-SVM --------------------------------------------------------------------------------------


def test_infeasible_caps_are_raised():
    """Small classes get their means, the others keep the cap; nothing is left out of the grid."""
    X, y = load_iris(return_X_y=True)
    X, y = X[:103], y[:103]  # 50, 50 and 3 examples
    model = make("AD-SVM", 0.1).fit(X @ X.T, y)
    np.testing.assert_allclose(model.weights_[100:], 1 / 3)
    assert model.weights_[:100].max() == pytest.approx(0.1)
    means = make("AD-SVM", 1e-3).fit(X @ X.T, y)
    np.testing.assert_allclose(means.weights_[:100], 1 / 50)
    scores, seconds = search(X[:100], y[:100], "one-vs-one", Grid((3.0,), (1e-3, 0.2, 1.0), 2), 0)
    assert (scores > 0.7).all()
    assert (seconds > 0.0).all()


def test_choice_among_equals():
    grid = Grid(sigmas=(1.0, 2.0, 3.0), etas=(0.1, 1.0))
    scores = np.array([[0.9, 0.9], [0.9, 0.8], [0.3, 0.5]])
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


def test_growth_exponents():
    def one(machine, K, split, seconds):
        cell = {"machine": machine, "classes": K, "split": split}
        return Measured(cell, {"fit_seconds": seconds})

    some = [one("one-vs-one", K, 0, 0.3 * K**0.7) for K in (2, 4, 8, 26)]
    some += [one("AD-SVM", K, 0, 0.3) for K in (2, 4, 8, 26)]
    some += [one("AD-SVM", 2, 1, 0.3)]  # a split that is not finished
    assert growth_exponents(some, "one-vs-one") == pytest.approx([0.7])
    assert growth_exponents(some, "AD-SVM") == pytest.approx([0.0], abs=1e-12)


# -- SMO -----------------------------------------------------------------------------------------


def test_all_pairs_is_drawn():
    """ALL of the papers is in every figure."""
    for group in members(300).values():
        assert any(member.label.startswith("all-pairs") for member in group)


def curve(label, rows, patterns, kernel_rows, share=1.0, status="converged", kernel="rbf"):
    """A straight line of the dual value up to ``share`` of the best."""
    columns = {
        "dual": np.linspace(0.0, share, 1001),
        "seconds": np.linspace(0, 1, 1001),
        "patterns": np.linspace(0, patterns, 1001),
        "kernel_rows": np.linspace(0, kernel_rows, 1001),
    }
    return Curve(Member(label, rows, None, kernel), status, 1e-3, 10, columns)


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


def test_findings_with_the_cubic_kernel():
    """They are judged by the optimum of that kernel, which is not the one of the other."""
    curves = [
        curve("opt-kkt, kkt, mean", 300, 300, 90, 5.0, kernel="poly"),
        curve("opt-kkt, amg, mean", 300, 250, 90, 5.0, kernel="poly"),
        curve("opt-kkt, bmg, mean", 300, 200, 80, 5.0, kernel="poly"),
        curve("opt-kkt, bmg, mean", 300, 900, 900, 9.0),
    ]
    found = check_cubic({one.member.key: one for one in curves}, 300)
    assert [finding.is_confirmed for finding in found] == [True, True]
    assert "cubic kernel" in found[0].statement
    assert "BMG 79, KKT 89" in found[1].numbers
