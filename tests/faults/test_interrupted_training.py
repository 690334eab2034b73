"""Ctrl-C while ``polymargin train`` reads, picks C or trains."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import polymargin

PATIENCE = 120.0
"""Seconds after which a command that was told to end counts as hanging, on a busy machine, too."""


def train(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "polymargin", "train", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """Data on which training takes minutes."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("noise") / "noise.npz"
    np.savez(path, X=rng.normal(size=(6000, 20)), y=rng.integers(4, size=6000))
    return path


@pytest.mark.parametrize(
    "options",
    [
        ["-m", "CS", "-k", "rbf", "-c", "1e6", "-e", "1e-12"],
        ["-m", "CS", "-k", "rbf", "-e", "1e-9"],
    ],
    ids=["training", "picking C"],
)
def test_the_best_model_is_kept(noise, tmp_path, options):
    process = train(noise, "-o", tmp_path / "m", *options)
    seen = []
    assert process.stderr is not None
    mark = "training" if "-c" in options else "picking C"
    for line in process.stderr:
        seen.append(line)
        if mark in line:
            break
    time.sleep(10.0)
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, (seen, rest)
    assert "interrupted: the best model so far is kept" in rest
    model = polymargin.load(tmp_path / "m")
    assert model.predict(np.zeros((2, 20))).shape == (2,)


def test_while_reading(tmp_path):
    process = train("-", "-o", tmp_path / "m", stdin=subprocess.PIPE)
    time.sleep(4.0)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert (out, errors.strip()) == ("", "polymargin: interrupted")
    assert not os.listdir(tmp_path)
