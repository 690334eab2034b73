"""Which model ``polymargin train`` keeps where the clock or Ctrl-C cuts it short."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from numba.core import event
from sklearn.preprocessing import StandardScaler

import polymargin
from polymargin.cli import data_parts, main, time_plan
from polymargin.cli.application import ToolError
from polymargin.solvers.linear import Sweeps


@pytest.fixture
def blobs(tmp_path):
    """Three separate groups of 90 rows: every trained model is right, an untrained one is not."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 3)) + 6.0 * np.eye(3)[y]
    path = tmp_path / "blobs.npz"
    np.savez(path, X=X, y=y)
    return path, X, y


def train(path, *options):
    result = CliRunner().invoke(main, ["train", str(path), "-m", "CS", "--json", *options])
    record = json.loads(result.stdout) if result.stdout else None
    return result, record


class Fits(list):
    """The number of rows of every fit, and the limits that they were given."""

    def __init__(self):
        self.limits = []


def cut(monkeypatch, number=-1, status=None, gap=None, take=lambda number: None):
    """The fit of this number (from 0) ends as if the clock or Ctrl-C had ended it.

    With a ``gap`` its model has learned wrong classes and says so in its certificate.  A status of
    None is Ctrl-C before there is a model.  ``take`` is told the number of each fit that begins.
    """
    original = polymargin.MulticlassSVC.fit
    fits = Fits()

    def fit(model, X, y):
        if model.tol == 0.1:  # a few rows, which compile the code before the time runs
            return original(model, X, y)
        fits.append(len(y))
        fits.limits.append(model.max_time)
        take(len(fits) - 1)
        if len(fits) != number + 1:
            return original(model, X, y)
        if status is None:
            raise KeyboardInterrupt
        classes, codes = np.unique(y, return_inverse=True)
        original(model, X, y if gap is None else classes[(codes + 1) % len(classes)])
        model.status_ = status
        if gap is not None:
            model.certificate_ = replace(model.certificate_, relative_gap=gap)
        if status == "interrupted":
            raise KeyboardInterrupt
        return model

    # the public verb itself: no option of a command makes one fit of several end in this way
    monkeypatch.setattr(polymargin.MulticlassSVC, "fit", fit)
    return fits


def accuracy(out, X, y):
    return (polymargin.load(out).predict(X).astype(int) == y).mean()


# -- the clock -----------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [0.9, 1e-9])
def test_an_untrained_final_fit_does_not_replace_the_picked_model(
    monkeypatch, blobs, tmp_path, gap
):
    path, X, y = blobs
    fits = cut(monkeypatch, 6, "max_time", gap)
    result, record = train(path, "--max-time", "600", "-o", str(tmp_path / "m"))
    assert result.exit_code == 0, result.stderr
    assert len(fits) == 7
    assert fits[0] < fits[-1] == 90
    assert (record["stage"], record["trained_rows"]) == ("picking", fits[0])
    assert f"the model of the picking stage is kept, trained on {fits[0]} of 90" in result.stderr
    assert accuracy(tmp_path / "m", X, y) > 0.95


def test_a_good_final_fit_that_was_cut_short_is_kept(monkeypatch, blobs, tmp_path):
    path, X, y = blobs
    cut(monkeypatch, 6, "max_time")
    result, record = train(path, "--max-time", "600", "-o", str(tmp_path / "m"))
    assert (record["stage"], record["trained_rows"]) == ("final", 90)
    assert "the model of the final fit is kept, trained on 90 of 90 rows" in result.stderr
    assert accuracy(tmp_path / "m", X, y) > 0.95


@pytest.mark.parametrize("gap", [None, 0.9])
def test_a_final_fit_that_cannot_end_in_time_leaves_the_validation_rows_out(
    monkeypatch, blobs, tmp_path, gap, still
):
    """Then errors on them decide, however wide the gap."""
    path, X, y = blobs
    # the fit that is picked takes nearly half of the time, and had fewer rows
    fits = cut(monkeypatch, 6, "max_time", gap, lambda k: still.pass_by(299.0 if k == 0 else 0.0))
    result, record = train(path, "--max-time", "600", "-o", str(tmp_path / "m"))
    assert result.exit_code == 0, result.stderr
    assert fits[-1] == fits[0] < 90
    assert record["stage"] == ("final" if gap is None else "picking")
    assert accuracy(tmp_path / "m", X, y) > 0.95


def test_an_undisturbed_training_says_nothing(blobs, tmp_path):
    result, record = train(blobs[0], "--max-time", "600", "-o", str(tmp_path / "m"))
    assert record["stage"] == "final"
    assert "is kept" not in result.stderr


def test_no_time_for_a_final_fit(monkeypatch, blobs, tmp_path, still):
    """The clock runs out while C is picked: no further fit begins."""
    path, X, y = blobs
    fits = cut(monkeypatch, take=lambda k: still.pass_by(250.0))
    result, record = train(path, "--max-time", "600", "-o", str(tmp_path / "m"))
    assert result.exit_code == 0, result.stderr
    assert len(fits) == 3
    fits = cut(monkeypatch, take=lambda k: still.pass_by(601.0))
    result, record = train(path, "--max-time", "600", "-o", str(tmp_path / "m"))
    assert result.exit_code == 0, result.stderr
    assert len(fits) == 1
    assert record["stage"] == "picking"
    assert "training_error" not in record
    assert "no time left for a final fit" in result.stderr
    assert accuracy(tmp_path / "m", X, y) > 0.95


def test_scaling_counts(monkeypatch, blobs, still):
    """The final fit gets what is left when its data are ready."""
    fits = cut(monkeypatch)
    original = StandardScaler.partial_fit

    def slow(scaler, X):
        still.pass_by(400.0 if len(X) == 90 else 0.0)
        return original(scaler, X)

    monkeypatch.setattr(StandardScaler, "partial_fit", slow)
    train(blobs[0], "--max-time", "600")
    assert len(fits) == 7
    assert fits.limits[-1] == pytest.approx(200.0)


def test_reading_does_not_count(still):
    timer = time_plan.Timer(10.0)
    still.pass_by(5.0)
    with timer.paused():
        still.pass_by(100.0)
    assert timer.seconds == pytest.approx(5.0)
    timer.discount_loading()  # a slow start leaves most of the limit to the training
    assert timer.left == pytest.approx(9.0)


def test_libraries_are_loaded_while_the_data_are_read(blobs, tmp_path):
    """A limit counts from the start of the command; the model is written all the same."""
    from polymargin.cli.early_imports import begin_imports

    begin_imports(True).join()
    options = ["train", str(blobs[0]), "--max-time", "60", "-o", str(tmp_path / "m"), "--json"]
    result = CliRunner().invoke(main, options)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["trained_rows"] == 90
    assert accuracy(tmp_path / "m", blobs[1], blobs[2]) > 0.95


# -- Ctrl-C --------------------------------------------------------------------------------------


def test_ctrl_c_at_the_first_value_keeps_its_model(monkeypatch, blobs, tmp_path):
    path, X, y = blobs
    fits = cut(monkeypatch, 0, "interrupted")
    result, record = train(path, "-o", str(tmp_path / "m"))
    assert result.exit_code == 130, result.stderr
    assert record["interrupted"]
    assert (record["stage"], record["trained_rows"]) == ("picking", fits[0])
    assert "single class" not in result.stderr
    assert "interrupted: the best model so far is kept" in result.stderr
    assert accuracy(tmp_path / "m", X, y) > 0.95


def test_ctrl_c_before_there_is_a_model(monkeypatch, blobs, tmp_path):
    cut(monkeypatch, 0, None)
    result, record = train(blobs[0], "-o", str(tmp_path / "m"))
    assert result.exit_code == 130
    assert record is None
    last = result.stderr.splitlines()[-1]
    assert last == "polymargin: interrupted before there was a model: nothing was written"
    assert not (tmp_path / "m").exists()


def test_ctrl_c_in_the_final_fit_keeps_the_better_model(monkeypatch, blobs, tmp_path):
    path, X, y = blobs
    cut(monkeypatch, 6, "interrupted", 0.9)
    result, record = train(path, "-o", str(tmp_path / "m"))
    assert result.exit_code == 130
    assert record["stage"] == "picking"
    assert accuracy(tmp_path / "m", X, y) > 0.95


def test_ctrl_c_at_the_first_setting_of_tune(monkeypatch, blobs):
    cut(monkeypatch, 0, "interrupted")
    result = CliRunner().invoke(main, ["tune", str(blobs[0]), "-m", "CS", "-c", "1,10"])
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "polymargin: interrupted"


# -- tune --------------------------------------------------------------------------------------


def test_tune_gives_its_search_a_share_of_the_time_and_keeps_the_better_model(
    monkeypatch, blobs, tmp_path, still
):
    path, X, y = blobs
    fits = cut(monkeypatch, 2, "max_time", gap=0.9)
    out = tmp_path / "m"
    options = ["-m", "CS", "-c", "1,10", "--max-time", "60", "--json"]
    result = CliRunner().invoke(main, ["tune", str(path), *options, "-o", str(out)])
    assert result.exit_code == 0, result.stderr
    assert fits.limits[0] == pytest.approx(30.0)
    assert len(fits) == 3
    record = json.loads(result.stdout)
    assert (record["stage"], record["trained_rows"]) == ("picking", fits[0])
    assert "the model of the picking stage is kept" in result.stderr
    assert accuracy(out, X, y) == 1.0


def test_tune_without_a_model_to_write_searches_all_the_time(monkeypatch, blobs, still):
    fits = cut(monkeypatch)
    options = ["-m", "CS", "-c", "1,10", "--max-time", "60"]
    result = CliRunner().invoke(main, ["tune", str(blobs[0]), *options])
    assert result.exit_code == 0, result.stderr
    assert fits.limits[0] == pytest.approx(60.0)


# -- groups ------------------------------------------------------------------------------------


def test_parts_of_whole_groups():
    rng = np.random.default_rng(0)
    groups, codes = rng.integers(30, size=600), rng.integers(3, size=600)
    train, test = data_parts.holdout(codes, 0, 10_000, groups)
    assert not set(groups[train]) & set(groups[test])
    assert 90 < len(test) < 210
    assert len(train) + len(test) == 600
    train, test = data_parts.holdout(codes, 0, 200, groups)
    assert not set(groups[train]) & set(groups[test])
    assert len(train) + len(test) == pytest.approx(200, abs=1)
    parts = data_parts.folds(codes, 4, 0, groups)
    assert sorted(np.concatenate([test for _, test in parts])) == list(range(600))
    assert not any(set(groups[train]) & set(groups[test]) for train, test in parts)
    small = data_parts.folds(np.arange(6), 3, 0, np.arange(6))  # one row of every class
    assert len(small) == 3
    with pytest.raises(ToolError, match="all rows are of one group"):
        data_parts.holdout(codes, 0, 100, np.zeros(600))
    with pytest.raises(ToolError, match="5 folds need at least 5 groups, there are 2"):
        data_parts.folds(codes, 5, 0, groups % 2)


@pytest.fixture
def speakers(tmp_path):
    """Forty speakers who say one thing each: only rows of the same speaker help each other."""
    rng = np.random.default_rng(0)
    who = np.arange(160) % 40
    X = rng.normal(size=(40, 3))[who] * 5.0 + 0.01 * rng.normal(size=(160, 3))
    lines = [f"{a},{b},{c},s{w},k{w % 2}" for (a, b, c), w in zip(X, who, strict=True)]
    path = tmp_path / "speakers.csv"
    path.write_text("a,b,c,who,label\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("command", ["train", "cv", "tune"])
def test_groups_stay_together_with_any_machine(speakers, command):
    options = ["-m", "CS", "-k", "rbf", "-g", "4", "--json"]
    errors = []
    for more in (["--ignore", "who"], ["--group", "who"]):
        folds = ["-v", "2"] if command == "cv" else []
        result = CliRunner().invoke(main, [command, str(speakers), *options, *folds, *more])
        assert result.exit_code == 0, result.stderr
        record = json.loads(result.stdout)
        record = {"error": record["picked"]["validation_error"]} if command == "train" else record
        errors.append(record["error"])
    assert errors[1] > errors[0] + 0.05


def test_groups_without_anything_to_validate_are_refused(speakers):
    options = ["train", str(speakers), "-m", "CS", "-c", "1", "--group", "who"]
    result = CliRunner().invoke(main, options)
    assert result.exit_code == 2
    assert "validates nothing; add -v FOLDS, or leave the column out with --ignore" in result.stderr
    options = ["tune", str(speakers), "--method", "radius-margin", "--group", "who"]
    result = CliRunner().invoke(main, options)
    assert result.exit_code == 2
    assert "--group is for --method grid" in result.stderr


def test_time_is_set_aside_for_writing_by_the_size_of_the_model():
    small, large, huge = (time_plan.Timer(10.0) for _ in range(3))
    small.reserve(100)
    large.reserve(2_000_000)
    huge.reserve(10**9)
    assert small.limit == pytest.approx(10.0 - 1.0 - 0.4)
    assert large.limit == pytest.approx(10.0 - 1.6 - 0.4)
    assert huge.limit == pytest.approx(10.0 - 5.0 - 0.4)


def test_compiling_counts_but_leaves_time_to_train(put_method, blobs, tmp_path, still):
    """A limit that the compiler used up would otherwise leave a machine that was hardly trained."""

    class Compiling(Sweeps):
        def __init__(self, problem, run, start):
            if run.stop.tol == 0.1:  # a few rows, which compile the code before the time runs
                with event.trigger_event("numba:compile"):
                    still.pass_by(6.0)
            super().__init__(problem, run, start)

    put_method("sweeps", Compiling)
    path, X, y = blobs
    out = tmp_path / "m.polymargin"
    result, record = train(path, "-c", "1", "--max-time", "2", "-o", str(out))
    assert "code was compiled for the first time, which took 6.0 s, and this" in result.stderr
    assert accuracy(out, X, y) > 0.95
    assert record["status"] == "converged"


@pytest.mark.parametrize(("limit", "remains"), [(10.0, 4.0), (6.5, 1.0), (3.0, 1.0), (1.0, 0.5)])
def test_after_compiling_a_second_remains(limit, remains):
    timer = time_plan.Timer(limit)
    timer.started -= 6.0
    late = timer.keep_training(6.0)
    assert timer.left == pytest.approx(remains, abs=0.1)
    assert late == pytest.approx(max(0.0, 6.0 + remains - limit), abs=0.1)
