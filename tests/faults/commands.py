"""Commands in processes of their own, with data, limits and a clock, for the tests of faults."""

import os
import resource
import subprocess
import sys
import time

import numpy as np

import polymargin
from polymargin import MulticlassSVC

FAULTS = int(os.environ.get("FAULTS", "3"))
"""Kills of a command; more than three also runs what takes minutes (``make faults``)."""
PATIENCE = 60.0
"""Seconds after which a process that was told to end counts as hanging, on a busy machine, too."""


def write_data(path, n=1500, d=12, classes=4):
    """A problem that takes about a second to train with a Gaussian kernel."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, n)
    X = rng.normal(size=(classes, d))[y] + 1.2 * rng.normal(size=(n, d))
    np.savez(path, X=X, y=y)


def write_old_model(path):
    """A model that stands where a command is going to write its own."""
    rng = np.random.default_rng(1)
    polymargin.save(
        MulticlassSVC(random_state=0).fit(rng.normal(size=(9, 2)), np.arange(9) % 3), path
    )
    return path.read_bytes()


def start(*arguments, limits=None, environment=None, **options):
    """``polymargin ARGUMENTS`` in a session of its own."""

    def prepare():
        for name, value in (limits or {}).items():
            resource.setrlimit(name, (value, value))

    return subprocess.Popen(
        [sys.executable, "-m", "polymargin", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            **(environment or {}),
        },
        preexec_fn=prepare,
        start_new_session=True,
        **options,
    )


def finish(process, patience=PATIENCE):
    """Exit code and standard error; a process that hangs is killed and fails the test."""
    try:
        _, err = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError(f"hangs: {process.args}") from None
    return process.returncode, err.decode(errors="replace")


def run(*arguments, **options):
    return finish(start(*arguments, **options), 10 * PATIENCE)


def seconds_of(*arguments):
    """How long a command takes on this machine now; its exit code must be 0."""
    begun = time.perf_counter()
    code, err = run(*arguments)
    assert code == 0, err
    return time.perf_counter() - begun


def temporary_files(folder):
    return [name for name in os.listdir(folder) if name.endswith(".part")]


def assert_one_line(err, code):
    """The last line says that a model was kept, or, with the name of the tool, what went wrong."""
    lines = [line for line in err.replace("\r", "\n").splitlines() if line.strip()]
    assert "Traceback" not in err, err
    assert lines, f"nothing was said, exit code {code}"
    is_kept = lines[-1].startswith("interrupted: the best model so far is kept in ")
    assert is_kept or lines[-1].startswith("polymargin: "), err


def assert_old_or_new(path, old):
    """The file is what it was, or a whole model."""
    if path.read_bytes() != old:
        polymargin.load(path)
