"""The benchmark of convex-hull prototypes runs, and its waveform data are what they should be."""

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


def test_benchmark_runs(tmp_path):
    pytest.importorskip("clarabel")
    run("benchmarks", "hulls", "--quick", "--output", str(tmp_path))
    rows = json.loads((tmp_path / "quick-hulls.json").read_text())["rows"]
    compared = [row for row in rows if "qp_f" in row]
    assert len(compared) == 2
    for row in compared:
        assert row["qp_f"] == pytest.approx(row["f"], rel=1e-4)
