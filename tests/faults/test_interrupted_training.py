"""Ctrl-C while ``polymargin train`` reads, picks C or trains."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from commands import finish, run, start, write_data

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


ENDLESS = """
    WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n AS a, n % 2 AS y FROM r
"""


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_while_a_query_runs(tmp_path, number, code, word):
    (tmp_path / "data.csv").write_text("a,y\n1,u\n2,v\n")
    process = train(tmp_path / "data.csv", "--query", ENDLESS, "-o", tmp_path / "m")
    time.sleep(5.0)
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, errors
    assert errors.strip().splitlines()[-1] == f"polymargin: {word}"
    assert os.listdir(tmp_path) == ["data.csv"]


def test_leave_one_out_says_that_it_was_interrupted(tmp_path):
    data = tmp_path / "data.npz"
    write_data(data)
    model = tmp_path / "model.pm"
    code, err = run("train", "-m", "CS", "-k", "rbf", "-c", "1", data, "-o", model)
    assert code == 0, err
    process = start("loo", model, data)
    said = process.stderr.readline().decode()  # the count, before the first training
    assert said.strip()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    code, err = finish(process)
    assert code == 130, (code, err)
    assert "polymargin: interrupted" in err
