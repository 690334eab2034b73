"""The frame of the experiments: verdicts, kept cells, data, tables, and what users do wrong."""

import json
import os
import shutil
import stat
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
from click.testing import CliRunner
from sklearn.datasets import load_iris

from polymargin.cli import main
from polymargin.reproduce import data_downloads
from polymargin.reproduce.benchmark_data import (
    MissingDataError,
    draw_rows,
    load_split,
    locate,
    read_archive,
    scaled_by,
)
from polymargin.reproduce.catalogue import EXPERIMENTS, find_experiment
from polymargin.reproduce.experiment import Experiment, Measured, Row, values_of
from polymargin.reproduce.experiment_figures import _cliques, critical_difference, mean_ranks
from polymargin.reproduce.experiment_runner import run_experiment
from polymargin.reproduce.experiment_tables import as_csv, as_markdown, as_text
from polymargin.reproduce.result_store import ResultStore
from polymargin.reproduce.verdicts import binomial_noise, interval, judge_row, verdict

# -- verdicts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([5.0, 5.1, 4.9], "matched"),
        ([3.0, 3.1, 2.9], "better"),
        ([7.0, 7.1, 6.9], "worse"),
        ([7.0, 3.0, 9.0], "matched"),  # the spread covers everything
        ([], "not comparable: not run"),
    ],
)
def test_verdict(values, said):
    assert verdict(Row(("a",), "error", 5.0), values) == said


def test_verdict_of_accuracies():
    row = Row(("a",), "accuracy", 0.9, lower_is_better=False, digits=3)
    assert verdict(row, [0.95, 0.951, 0.952]) == "better"
    assert verdict(row, [0.85, 0.851, 0.852]) == "worse"


def test_one_value_is_judged_by_the_noise():
    row = Row(("a",), "error", 5.0, noise=binomial_noise(5.0, 400))
    assert verdict(row, [7.0]) == "matched"  # 2 * 1.09
    assert verdict(row, [7.5]) == "worse"
    assert verdict(Row(("a",), "error", 5.0), [5.004] * 3) == "matched"  # rounding of print
    assert verdict(Row(("a",), "error", 5.0), [5.006] * 3) == "worse"


@pytest.mark.parametrize("values", [[9.0], [9.0, 9.1]])
def test_few_runs_say_nothing(values):
    """One split may be five points off; two have a spread of hardly any meaning."""
    said = verdict(Row(("a",), "error", 5.0), values)
    assert said == "not comparable: fewer than 3 runs are finished"


def test_interval_is_a_prediction_interval():
    """One further normal value lies in it in 95 of 100 cases."""
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(4_000, 5))
    inside = [abs(row[4] - row[:4].mean()) <= interval(row[:4]) for row in draws]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.012)


def test_printed_means_have_a_narrower_interval():
    """The mean of ten further normal values lies in the interval of ten in 95 of 100 cases."""
    draws = np.random.default_rng(1).normal(size=(4_000, 20))
    apart = np.abs(draws[:, 10:].mean(axis=1) - draws[:, :10].mean(axis=1))
    inside = [d <= interval(row[:10], printed_runs=10) for d, row in zip(apart, draws, strict=True)]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.012)
    values = [4.0, 6.0, 5.0, 5.5, 4.5]
    assert verdict(Row(("a",), "error", 6.5), values) == "matched"
    assert verdict(Row(("a",), "error", 6.5, printed_runs=10), values) == "better"


def test_rows_that_are_not_comparable():
    assert judge_row(Row(("a",), "x", None, [1.0]))[0] == "not comparable: nothing printed"
    assert judge_row(Row(("a",), "x", 1.0, [1.0], why_not="other data")) == (
        "not comparable: other data",
        "",
    )
    assert judge_row(Row(("a",), "x", None, judged="matched")) == ("matched", "")


# -- kept cells ----------------------------------------------------------------------------------

calls: list[int] = []


def count_cells(scale):
    return [{"data": "iris", "k": k} for k in range(4)]


def run_count(cell):
    calls.append(cell["k"])
    if cell["k"] == 3 and len(calls) < 5:
        raise ValueError("the third\ncell fails at first")
    return {"error": float(cell["k"])}


def count_rows(measured):
    return [
        Row(("all",), "error", 1.0, values_of(measured, "error"), note="a note", extra={"e": 2.0})
    ]


COUNTING = Experiment(
    "counting", "Counting", "About.", ("what",), count_cells, run_count, count_rows
)


def test_resume_and_failures(tmp_path):
    calls.clear()
    said = []
    outcome = run_experiment(COUNTING, tmp_path, "full", 1, said.append)
    assert calls == [0, 1, 2, 3]
    assert not outcome.is_complete
    assert outcome.failures == [
        "iris, k 3: ValueError: the third cell fails at first",
    ]
    outcome = run_experiment(COUNTING, tmp_path, "full", 1, said.append)
    assert calls == [0, 1, 2, 3, 3]
    assert outcome.is_complete
    assert "3 of 4 cells are finished already" in said
    assert [one.result["error"] for one in outcome.measured] == [0.0, 1.0, 2.0, 3.0]
    assert {path.name for path in tmp_path.iterdir()} == {
        "counting.jsonl", "counting.csv", "counting.md",
    }  # fmt: skip


def test_repeats_come_one_after_the_other(tmp_path):
    """What is cut short has the first repeats of every row."""
    order = []

    def cells(scale):
        return [{"data": "iris", "q": q, "seed": seed} for q in (1, 2) for seed in (0, 1)]

    def run(cell):
        order.append((cell["q"], cell["seed"]))
        return {"error": 0.0}

    experiment = Experiment("order", "", "", ("what",), cells, run, count_rows)
    outcome = run_experiment(experiment, tmp_path, "full", 1, lambda text: None)
    assert order == [(1, 0), (2, 0), (1, 1), (2, 1)]
    assert [one.cell for one in outcome.measured] == cells("full")  # tables keep their order


def test_interrupted_run_keeps_what_is_done(tmp_path):
    def stop(cell):
        if cell["k"] == 2:
            raise KeyboardInterrupt
        return {"error": 0.0}

    experiment = Experiment("stopped", "", "", ("what",), count_cells, stop, count_rows)
    outcome = run_experiment(experiment, tmp_path, "full", 1, lambda text: None)
    assert outcome.interrupted
    assert len(outcome.measured) == 2
    assert (tmp_path / "stopped.csv").is_file()


def test_half_written_file(tmp_path):
    path = tmp_path / "x.jsonl"
    store = ResultStore(path)
    store.add({"data": "iris", "k": 0}, {"error": 1.0})
    store.add({"k": 1, "data": "iris"}, {"error": 2.0})
    with path.open("ab") as file:
        file.write(b'{"cell": {"data": "iris", "k": 2}, "resu')
    again = ResultStore(path)
    assert len(again) == 2
    assert {"data": "iris", "k": 1} in again
    assert {"data": "iris", "k": 2} not in again
    assert "1 line(s) cannot be read" in again.notes[0]
    again.add({"data": "iris", "k": 2}, {"error": 3.0})
    assert [one.result["error"] for one in ResultStore(path).of(count_cells("full"))] == [1, 2, 3]
    assert ResultStore(path).notes == []


def test_a_last_line_without_its_end(tmp_path):
    """The next cell begins a line of its own."""
    path = tmp_path / "a.jsonl"
    first, second, *_ = count_cells("full")
    ResultStore(path).add(first, {"error": 1})
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    ResultStore(path).add(second, {"error": 2})
    store = ResultStore(path)
    assert store.notes == []
    assert [one.result["error"] for one in store.of([first, second])] == [1, 2]


def test_a_cell_that_the_disk_does_not_take(tmp_path, monkeypatch):
    """What was written of it is taken back: the next cell is not lost with it."""
    path = tmp_path / "a.jsonl"
    first, second, *_ = count_cells("full")
    store = ResultStore(path)

    def full(handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            store.add(first, {"error": 1})
    assert path.read_bytes() == b""
    store.add(second, {"error": 2})
    assert first not in ResultStore(path)
    assert second in ResultStore(path)


def test_two_processes(tmp_path):
    """Cells run elsewhere come back whole."""
    experiment = Experiment("copies", "", "", ("what",), count_cells, dict, count_rows)
    outcome = run_experiment(experiment, tmp_path, "full", 2, lambda text: None)
    assert [one.result["k"] for one in outcome.measured] == [0, 1, 2, 3]


# -- tables --------------------------------------------------------------------------------------


def test_tables():
    rows = count_rows([Measured({}, {"error": error}) for error in (1.0, 1.5, 2.0)])
    rows.append(Row(("small",), "error", 1.0, [1.0], why_not="a part"))
    text = as_text(COUNTING, rows)
    assert "1.50 ± 0.50 (3)" in text
    assert "not comparable [2]" in text
    assert text.splitlines()[-2:] == ["[1] a note", "[2] a part"]
    page = as_markdown(COUNTING, rows, {"date": "today"}, [Path("x/figure.png")])
    assert "![figure](figure.png)" in page
    assert "date today." in page
    lines = as_csv(COUNTING, rows).splitlines()
    assert lines[1].startswith("all,error,1.0,1.5,")
    assert lines[2].split(",")[6] == "not comparable: a part"


def test_ranks():
    errors = np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 2.0]])
    np.testing.assert_allclose(mean_ranks(errors), [1.25, 1.75, 3.0])
    # Demsar, JMLR 7 (2006), Table 5: q.05 = 3.031 for eight classifiers
    assert critical_difference(8, 10) == pytest.approx(3.031 * np.sqrt(72 / 60), abs=2e-3)
    assert _cliques(np.array([1.0, 1.5, 2.2, 4.0]), 1.0) == [(0, 1), (1, 2)]


# -- data ----------------------------------------------------------------------------------------


@pytest.fixture
def no_data(monkeypatch, tmp_path):
    monkeypatch.delenv("POLYMARGIN_DATA_DIR", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "home"))
    return tmp_path


def test_missing_data(no_data):
    assert locate("iris") is None
    with pytest.raises(MissingDataError, match=r"put usps.npz with X and y there, or try"):
        locate("usps")
    with pytest.raises(MissingDataError, match=r"put raetsch_image.npz with X and y there$"):
        locate("raetsch_image")  # nothing to download
    with pytest.raises(MissingDataError, match=r"'raetsch_banana' is missing .*; so are raetsch_b"):
        run_experiment(find_experiment("mprot-binary"), no_data, "quick", 1, lambda text: None)
    with pytest.raises(MissingDataError, match="'usps' is missing"):
        run_experiment(find_experiment("mprot-annealing"), no_data, "quick", 1, lambda text: None)


def test_own_copy_comes_first(no_data, monkeypatch):
    monkeypatch.setenv("POLYMARGIN_DATA_DIR", str(no_data))
    np.savez(no_data / "iris.npz", X=np.eye(4), y=["b", "a", "b", "a"], train_idx=[0, 1],
             test_idx=[2, 3])  # fmt: skip
    found = load_split("iris")
    np.testing.assert_array_equal(found.y_train, [1, 0])
    np.testing.assert_array_equal(found.X_test, np.eye(4)[2:])
    (no_data / "iris.npz").write_bytes(b"PK nonsense")
    with pytest.raises(MissingDataError, match="is not an archive with X and y"):
        read_archive("iris")


def test_splits_and_scaling(no_data):
    whole = load_split("wine", 3)
    part = draw_rows(whole, 60, 20, 0)
    assert part.X_train.shape == (60, 13)
    assert len(part.y_test) == 20
    assert np.bincount(part.y_train).min() >= 14
    train, test = scaled_by("minmax", whole.X_train, whole.X_test)
    assert train.min() == -1.0
    assert train.max() == 1.0
    np.testing.assert_allclose(
        test[0], 2 * (whole.X_test[0] - whole.X_train.min(0)) / np.ptp(whole.X_train, 0) - 1
    )
    white, _ = scaled_by("whiten", whole.X_train, whole.X_test)
    np.testing.assert_allclose(np.cov(white, rowvar=False), np.eye(13), atol=1e-8)
    np.testing.assert_allclose(white.mean(axis=0), 0.0, atol=1e-9)


def test_download_is_checked(no_data):
    X, y = load_iris(return_X_y=True)
    ordered = data_downloads.ordered_digest(X, y)
    unordered = data_downloads.unordered_digest(X, y)
    names = np.array(["zeta", "alpha", "mu"])[y]
    assert data_downloads.ordered_digest(X, names) == ordered  # labels by any name
    back = np.random.default_rng(0).permutation(150)
    assert data_downloads.unordered_digest(X[back], y[back]) == unordered
    assert data_downloads.ordered_digest(X[back], y[back]) != ordered
    sources = {
        "flowers": data_downloads.Source(61, 150, 4, 3, None, ordered, unordered),
        "split": data_downloads.Source(61, 150, 4, 3, 100, ordered, unordered),
    }
    get = partial(data_downloads.get_data, sources=sources)
    path = get("flowers", fetch=lambda number: (X[back], names[back]))
    assert locate("flowers") == path
    np.testing.assert_allclose(read_archive("flowers")["X"], X[back], atol=1e-6)
    get("split", fetch=lambda number: (X, names))
    assert len(load_split("split").y_train) == 100
    other = np.array(X)
    other[0, 0] += 1.0
    for name, found, said in (
        ("split", (X[back], names[back]), "official split is unknown"),
        ("flowers", (other, y), "has other rows"),
        ("flowers", (X[:140], y[:140]), "140 rows"),
    ):
        folder = no_data / f"{name}{len(found[0])}"
        with pytest.raises(MissingDataError, match=said):
            get(name, folder, fetch=lambda number, found=found: found)
        assert not list(folder.iterdir())


def test_no_network(no_data):
    def fetch(number):
        raise OSError("no route to host")

    with pytest.raises(MissingDataError, match=r"OpenML cannot be reached .* put usps.npz with X"):
        data_downloads.get_data("usps", fetch=fetch)
    with pytest.raises(MissingDataError, match="no download of 'nothing' is known"):
        data_downloads.get_data("nothing")


# -- command line --------------------------------------------------------------------------------


def test_list_and_unknown_name():
    runner = CliRunner()
    listed = runner.invoke(main, ["reproduce"])
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in EXPERIMENTS)
    unknown = runner.invoke(main, ["reproduce", "mprot"])
    assert unknown.exit_code == 2
    assert "no experiment 'mprot'; there are mprot-usps-letter" in unknown.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of folders")
def test_no_permission(tmp_path, no_data):
    import os

    if os.geteuid() == 0:
        (tmp_path / "file").write_text("not a folder")
        target = tmp_path / "file" / "inside"
    else:
        target = tmp_path / "locked"
        target.mkdir()
        target.chmod(stat.S_IRUSR | stat.S_IXUSR)
    found = CliRunner().invoke(main, ["reproduce", "ad-svm", "--quick", "--out", str(target)])
    assert found.exit_code == 1
    assert "cannot write" in found.stderr
    assert found.stderr.count("\n") == 1


def test_command(tmp_path, no_data, monkeypatch):
    """All cells are finished: the committed results give the committed table."""
    kept = Path(__file__).parents[1] / "docs" / "reproduction" / "smo"
    shutil.copy(kept / "smo.jsonl", tmp_path)
    monkeypatch.setenv("POLYMARGIN_DATA_DIR", str(no_data))
    (no_data / "mnist.npz").touch()  # it is there, and nothing has to read it
    found = CliRunner().invoke(main, ["reproduce", "smo", "--out", str(tmp_path), "--json"])
    assert found.exit_code == 0, found.stderr
    assert "32 of 32 cells are finished already" in found.stderr
    assert "written:" in found.stderr
    assert (tmp_path / "smo.csv").read_text() == (kept / "smo.csv").read_text()
    said = [row["verdict"] for row in json.loads(found.stdout)["rows"]]
    assert {"better", "matched", "worse"} & set(said)


def test_data_command_without_network(no_data, monkeypatch):
    def fetch(**given):
        raise OSError("no route to host")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    found = CliRunner().invoke(main, ["data", "get", "usps"])
    assert found.exit_code == 1
    assert "polymargin: error: OpenML cannot be reached" in found.stderr
