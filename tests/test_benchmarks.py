"""Benchmarks without data: nothing written, exit code 1."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}

pytestmark = pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="no checkout")


@pytest.mark.parametrize(
    "name", ["machines", "linear", "rbf", "landmarks", "gacv", "radius", "covtype"]
)
def test_without_data_earlier_results_stay(tmp_path, name):
    earlier = tmp_path / f"{name}.json"
    earlier.write_text("earlier")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", name, "--output", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | ONE_THREAD | {"POLYMARGIN_DATA_DIR": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "nothing written" in done.stdout
    assert earlier.read_text() == "earlier"
    assert [path.name for path in tmp_path.iterdir()] == [earlier.name]
