"""Hundreds of kills: commands in children that are forked from a warm process, ended at random.

A child has all libraries loaded and does nothing but the command, so that a kill costs a tenth of a
second and most of them hit the command itself: reading, fitting, saving.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from commands import FAULTS, PATIENCE, assert_one_line, run, write_data, write_old_model

import polymargin

KILLS = 15 if FAULTS <= 3 else 20 * FAULTS
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
ALLOWED = {
    signal.SIGKILL: (0, -signal.SIGKILL),
    signal.SIGTERM: (0, 143, -signal.SIGTERM),
    signal.SIGINT: (0, 130, -signal.SIGINT),
}
COMMANDS = {
    "train": ("train", "-m", "CS", "-k", "rbf", "-c", "10", "{data}", "-o", "{target}"),
    "train prototypes": ("train", "-m", "MP", "-p", "2", "-c", "1", "{data}", "-o", "{target}"),
    "tune": ("tune", "-m", "WW", "-c", "0.1,1", "{data}", "-o", "{target}"),
    "path": ("path", "-m", "CS", "--points", "3", "{data}", "-o", "{target}"),
    "loo": ("loo", "{trained}", "{data}"),
}
EXPERIMENT = "smo"

_WARM = """
import contextlib, os, signal, sys
import numpy as np
import polymargin
from polymargin.cli import main
sys.argv[0] = "polymargin"

def child(arguments, errors):
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["polymargin", *arguments]
    try:
        main()
    except SystemExit as leave:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(leave.code if isinstance(leave.code, int) else 1)
    os._exit(0)

for line in sys.stdin:
    errors, *arguments = line.rstrip("\\n").split("\\t")
    if errors == "warm":
        with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
            with contextlib.suppress(SystemExit):
                main(arguments)
        print("warm", flush=True)
        continue
    pid = os.fork()
    if pid == 0:
        child(arguments, errors)
    print(pid, flush=True)
    _, status = os.waitpid(pid, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


class Nursery:
    """A warm process that forks commands."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WARM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "OPENBLAS_NUM_THREADS": "1",
            },
        )

    def ask(self, *words):
        self.process.stdin.write("\t".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def line(self):
        text = self.process.stdout.readline().strip()
        assert text, "the warm process is gone"
        return text

    def close(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)


@pytest.fixture(scope="module")
def nursery():
    found = Nursery()
    yield found
    found.close()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.npz"
    write_data(path, n=250)
    return path


@pytest.fixture(scope="module")
def trained(data):
    """A model of the data, for commands that ask about one."""
    path = data.parent / "trained.pm"
    code, err = run("train", "-m", "CS", "-c", "1", data, "-o", path)
    assert code == 0, err
    return path


def timed(nursery, errors, command):
    """Seconds of a command in a warm process."""
    nursery.ask("warm", *command)
    assert nursery.line() == "warm"
    begun = time.perf_counter()
    nursery.ask(errors, *command)
    nursery.line()
    assert nursery.line() == "0", errors.read_text()
    return time.perf_counter() - begun


def killed(nursery, errors, command, number, seconds):
    """Process and exit code of a command that got a signal after some seconds."""
    nursery.ask(errors, *command)
    pid = int(nursery.line())
    time.sleep(seconds)
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        number = None
    code = int(nursery.line())
    assert code in (ALLOWED[number] if number else (0,)), (number, code, errors.read_text())
    return pid, code


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("name", COMMANDS)
def test_kills(name, nursery, data, trained, tmp_path):
    target, errors = tmp_path / "model.pm", tmp_path / "errors"
    old = write_old_model(target)
    command = [w.format(data=data, target=target, trained=trained) for w in COMMANDS[name]]
    length = timed(nursery, errors, command)
    new, ends = target.read_bytes(), Counter()
    rng = random.Random(f"{name} {os.environ.get('KILL_SALT', '')}")
    for k in range(KILLS // len(COMMANDS)):
        number = SIGNALS[k % len(SIGNALS)]
        pid, code = killed(nursery, errors, command, number, rng.uniform(0.0, 1.1) * length)
        ends[code] += 1
        if code > 0:
            assert_one_line(errors.read_text(), code)
        content = target.read_bytes()
        if content not in (old, new):
            polymargin.load(target)
        # what SIGKILL leaves is removed by the next save, which need not be the next command's
        left = [name for name in os.listdir(tmp_path) if f"-{pid}." in name]
        assert code < 0 or not left, (number, code, left)
    print(f"\n{name}: {length:.2f} s a command, ends {dict(ends)}")
    assert ends[130] or KILLS < 100, "not one Ctrl-C was told by the exit code"
    polymargin.save(polymargin.load(target), target)
    assert sorted(os.listdir(tmp_path)) == ["errors", "model.pm"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_kills_of_reproduce(nursery, tmp_path):
    """Finished cells are kept, tables are the old or the new ones, no temporary file stays."""
    out, errors = tmp_path / "out", tmp_path / "errors"
    command = ("reproduce", EXPERIMENT, "--quick", "-o", out)
    results = out / "quick" / f"{EXPERIMENT}.jsonl"
    length = timed(nursery, errors, command)  # the first, warm run found all cells
    assert results.exists()
    results.unlink()
    length, ends, kept = timed(nursery, errors, command), Counter(), 0
    names, all_cells = set(os.listdir(results.parent)), results.read_bytes().splitlines()
    rng = random.Random(f"reproduce {os.environ.get('KILL_SALT', '')}")
    for k in range(max(3, KILLS // len(COMMANDS))):
        if k % 3 == 0:
            results.unlink()
            kept = 0
        number = SIGNALS[(k + k // 3) % len(SIGNALS)]
        pid, code = killed(nursery, errors, command, number, rng.uniform(0.0, 0.7) * length)
        ends[code] += 1
        lines = errors.read_text().splitlines()
        assert code <= 0 or lines[-1].startswith(("interrupted with ", "polymargin: ")), lines
        assert "Traceback" not in errors.read_text()
        cells = results.read_bytes().splitlines() if results.exists() else []
        whole = [json.loads(line) for line in cells[: len(cells) - (code == -signal.SIGKILL)]]
        assert kept <= len(cells) <= len(all_cells), (kept, len(cells))
        assert all({"cell", "result"} <= set(one) for one in whole)
        kept = len(whole)
        left = [name for name in os.listdir(results.parent) if f"-{pid}." in name]
        assert code < 0 or not left, (number, code, left)
        tables = [(results.parent / f"{EXPERIMENT}.{end}").read_text() for end in ("csv", "md")]
        assert all(text.endswith("\n") for text in tables)
    print(f"\nreproduce: {length:.2f} s a command, ends {dict(ends)}")
    timed(nursery, errors, command)
    assert set(os.listdir(results.parent)) == names
    assert len(results.read_bytes().splitlines()) == len(all_cells)
