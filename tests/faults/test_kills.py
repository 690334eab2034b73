"""Commands that are killed at a random moment: the old file or the new one, a code, one line."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from commands import (
    FAULTS,
    assert_old_or_new,
    assert_one_line,
    finish,
    seconds_of,
    start,
    temporary_files,
    write_data,
    write_old_model,
)

import polymargin

COMMANDS = {
    "train": ("train", "-m", "CS", "-k", "rbf", "-c", "10"),
    "train auto": ("train", "-p", "2", "--rows", "200"),
    "tune": ("tune", "-m", "WW", "-c", "0.1,1"),
    "path": ("path", "-m", "CS", "--points", "5"),
}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
ALLOWED = {
    signal.SIGKILL: (0, -signal.SIGKILL),
    # a signal that comes before the command itself runs ends Python in its own way
    signal.SIGTERM: (0, 143, -signal.SIGTERM),
    signal.SIGINT: (0, 130, -signal.SIGINT),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.npz"
    write_data(path, n=400)
    return path


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_commands(name, data, tmp_path):
    target = tmp_path / "model.pm"
    old = write_old_model(target)
    command = (*COMMANDS[name], data, "-o", target)
    length = seconds_of(*command)
    target.write_bytes(old)
    rng = random.Random(name)
    for k in range(FAULTS):
        number = SIGNALS[k % len(SIGNALS)]
        process = start(*command)
        time.sleep(rng.uniform(0.05, 1.05) * length)
        process.send_signal(number)
        code, err = finish(process)
        assert code in ALLOWED[number], (number, code, err)
        if code > 0:
            assert_one_line(err, code)
        assert_old_or_new(target, old)
        if code >= 0:
            assert temporary_files(tmp_path) == [], (number, code)
    polymargin.save(polymargin.load(target), target)
    assert temporary_files(tmp_path) == []  # what killed processes left is removed by the next save


_SAVE = """
import sys, polymargin
model = polymargin.load(sys.argv[1])
print("ready", flush=True)
while True:
    polymargin.save(model, sys.argv[1])
"""


def test_killed_saves(tmp_path):
    target = tmp_path / "model.pm"
    write_old_model(target)
    size = target.stat().st_size
    rng = random.Random(0)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for _ in range(FAULTS):
        process = subprocess.Popen(
            [sys.executable, "-c", _SAVE, str(target)], stdout=subprocess.PIPE, env=environment
        )
        assert process.stdout.readline() == b"ready\n"
        time.sleep(rng.uniform(0.0, 0.1))
        process.kill()
        process.communicate()
        assert abs(target.stat().st_size - size) < 64
        model = polymargin.load(target)
    polymargin.save(model, target)
    assert os.listdir(tmp_path) == ["model.pm"]


def test_two_processes_write_one_file(data, tmp_path):
    target = tmp_path / "model.pm"
    command = ("train", "-m", "CS", "-c", "1", data, "-o", target)
    both = [start(*command), start(*command)]
    for process in both:
        code, err = finish(process)
        assert code == 0, err
    polymargin.load(target)
    assert os.listdir(tmp_path) == ["model.pm"]
