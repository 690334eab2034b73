"""Training under a real limit on memory, and rows that are mapped rather than copied."""

import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from polymargin import MulticlassSVC

resource = pytest.importorskip("resource")

N, D, Q, C = 300_000, 50, 3, 1e-3
MEMORY = 14_000_000  # bytes; the packed rows are 60 MB

TRAIN = """
import json, resource, sys
from click.testing import CliRunner
from polymargin.cli import main

def train(folder, *more):
    command = ["train", f"{folder}/X.npy", "-l", f"{folder}/y.npy", "-c", sys.argv[3], "--json"]
    command += ["--memory", sys.argv[2], "-e", "0.01", "--scale", "none", *more]
    found = CliRunner().invoke(main, command)
    assert found.exit_code == 0, found.output
    return found.stdout

train(f"{sys.argv[1]}/small")  # imports and compiled code are loaded
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + int(sys.argv[2]),) * 2)
try:
    bytearray(4 * int(sys.argv[2]))
except MemoryError:
    pass
else:
    raise SystemExit("the limit does not hold")
print(train(sys.argv[1]))
"""


def write_rows(folder, n, seed):
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(Q, D)).astype(np.float32)
    y = random.integers(0, Q, n)
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (n, D))
    for rows in np.array_split(np.arange(n), 10):
        X[rows] = 0.5 * centres[y[rows]] + random.standard_normal((len(rows), D), dtype=np.float32)
    X.flush()
    np.save(folder / "y.npy", y)
    return X, y


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    (folder / "small").mkdir()
    write_rows(folder / "small", 1000, 1)
    return folder, *write_rows(folder, N, 2)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and RLIMIT_AS")
def test_four_times_the_memory_allowed(rows):
    folder, X, y = rows
    assert X.nbytes >= 4 * MEMORY
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, str(folder), str(MEMORY), str(C)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["trained_rows"] == N
    assert found["packed_bytes"] >= 4 * MEMORY
    assert found["certificate"]["relative_gap"] <= 1e-2
    whole = MulticlassSVC(C=C, tol=1e-2).fit(X, y).certificate_
    assert found["certificate"]["primal"] == pytest.approx(whole.primal, rel=1e-2)


def test_a_memmap_is_not_copied(rows):
    folder, _, _ = rows
    X = np.load(folder / "X.npy", mmap_mode="r")
    y = np.load(folder / "y.npy")
    MulticlassSVC(C=C, tol=0.1).fit(X[:1000], y[:1000])
    tracemalloc.start()
    try:
        MulticlassSVC(C=C, tol=0.1).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < X.nbytes
