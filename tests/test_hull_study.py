"""The benchmark and the experiment of convex-hull prototypes run, and know what they measure."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

environment = dict(os.environ)

from benchmarks.waveform import waveform  # noqa: E402
from experiments.hulls.data import split  # noqa: E402
from experiments.hulls.study import Grid, choose, run_split  # noqa: E402

# benchmarks ask for one thread in the environment: not for the other tests of this process
os.environ.clear()
os.environ.update(environment)


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_waveform():
    """Means of the classes: halves of two triangles; noise of variance one."""
    X, y = waveform(30_000)
    assert X.shape == (30_000, 21)
    np.testing.assert_allclose(np.bincount(y) / 30_000, 1 / 3, atol=0.02)
    t = np.arange(1, 22)
    first, second = np.maximum(6 - abs(t - 7), 0), np.maximum(6 - abs(t - 15), 0)
    np.testing.assert_allclose(X[y == 0].mean(axis=0), (first + second) / 2, atol=0.08)
    np.testing.assert_allclose(X[:, 0].var(), 1.0, atol=0.05)
    assert np.array_equal(waveform(10)[0], waveform(10)[0])


def test_whitening():
    X, y = waveform(300)
    X[:, 3] = 7.0
    part = split(X, y, 0)
    assert part.X_train.shape == (240, 20)
    np.testing.assert_allclose(np.cov(part.X_train, rowvar=False), np.eye(20), atol=1e-9)
    np.testing.assert_allclose(part.X_train.mean(axis=0), 0, atol=1e-9)


def test_infeasible_caps_are_skipped():
    X, y = waveform(100)
    grid = Grid(sigmas=(3.0,), etas=(1e-3, 0.2, 1.0), folds=2)
    for found in run_split(split(X, y, 0), "AD-SVM", grid, 0):
        assert found["eta"] in (0.2, 1.0)
        assert found["accuracy"] > 0.5


def test_choice_among_equals():
    grid = Grid(sigmas=(1.0, 2.0, 3.0), etas=(0.1, 1.0))
    scores = np.array([[0.9, 0.9], [0.9, 0.8], [np.nan, 0.5]])
    assert choose(scores, [0, 1], grid) == (2.0, 0.1, 0.9)
    assert choose(scores, [1], grid) == (1.0, 1.0, 0.9)


def test_experiment_runs(tmp_path):
    text = run(
        "experiments.hulls", "--quick", "--data", "waveform", "iris", "--output", str(tmp_path),
        POLYMARGIN_DATA_DIR="",
    )  # fmt: skip
    assert "iris: skipped" in text
    assert text.count("| waveform | 60 |") == 6
    assert len(json.loads((tmp_path / "waveform.json").read_text())["runs"]) == 6


def test_benchmark_runs(tmp_path):
    pytest.importorskip("clarabel")
    run("benchmarks", "hulls", "--quick", "--output", str(tmp_path))
    rows = json.loads((tmp_path / "quick-hulls.json").read_text())["rows"]
    compared = [row for row in rows if "qp_f" in row]
    assert len(compared) == 2
    for row in compared:
        assert row["qp_f"] == pytest.approx(row["f"], rel=1e-4)
