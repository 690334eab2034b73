"""Which model ``polymargin train`` keeps where the clock or Ctrl-C cuts it short."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import polymargin
from polymargin.cli import machine_setup, main, single_fit, time_plan


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


def cut(monkeypatch, number, status, gap=None):
    """The fit of this number (from 0) ends as if the clock or Ctrl-C had ended it.

    With a ``gap`` its model has learned wrong classes and says so in its certificate.  A status of
    None is Ctrl-C before there is a model.  The list of rows of all fits comes back.
    """
    original = polymargin.MulticlassSVC.fit
    fits = []

    def fit(model, X, y):
        fits.append(len(y))
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
    monkeypatch, blobs, tmp_path, gap
):
    """Then errors on them decide, however wide the gap."""
    path, X, y = blobs
    fits = cut(monkeypatch, 6, "max_time", gap)
    monkeypatch.setattr(time_plan.Timer, "left", property(lambda timer: 1e-9))
    result, record = train(path, "--max-time", "600", "-o", str(tmp_path / "m"))
    assert result.exit_code == 0, result.stderr
    assert fits[-1] == fits[0] < 90
    assert record["stage"] == ("final" if gap is None else "picking")
    assert accuracy(tmp_path / "m", X, y) > 0.95


def test_an_undisturbed_training_says_nothing(blobs, tmp_path):
    result, record = train(blobs[0], "--max-time", "600", "-o", str(tmp_path / "m"))
    assert record["stage"] == "final"
    assert "is kept" not in result.stderr


def test_no_time_for_a_final_fit(monkeypatch, blobs, tmp_path):
    """The clock runs out while C is picked: no further fit begins."""
    path, X, y = blobs
    fits = cut(monkeypatch, -1, "max_time")
    monkeypatch.setattr(time_plan.Timer, "seconds", property(lambda timer: 1e6 * len(fits)))
    result, record = train(path, "--max-time", "600", "-o", str(tmp_path / "m"))
    assert result.exit_code == 0, result.stderr
    assert len(fits) == 6
    assert record["stage"] == "picking"
    assert "training_error" not in record
    assert "no time left for a final fit" in result.stderr
    assert accuracy(tmp_path / "m", X, y) > 0.95


def test_scaling_counts(monkeypatch, blobs):
    """The final fit gets what is left when its data are ready."""
    fits = cut(monkeypatch, -1, "max_time")
    now = [0.0]
    monkeypatch.setattr(time_plan.Timer, "seconds", property(lambda timer: now[0]))
    original = single_fit.fit_scaler

    def slow(scaler, X):
        if len(X) == 90:
            now[0] = 599.0
        original(scaler, X)

    monkeypatch.setattr(single_fit, "fit_scaler", slow)
    given = []
    estimator = machine_setup.MachineSetup.estimator

    def spy(setup, **changes):
        given.append(changes.get("max_time"))
        return estimator(setup, **changes)

    monkeypatch.setattr(machine_setup.MachineSetup, "estimator", spy)
    train(blobs[0], "--max-time", "600")
    assert len(fits) == 7
    assert given[-1] == pytest.approx(1.0)


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
