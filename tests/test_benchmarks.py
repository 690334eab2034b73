"""Benchmarks without data: nothing written, exit code 1."""

import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

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


def test_kept_cells_are_measured_once_for_the_same_settings(tmp_path):
    # without the package, whose import asks for one thread
    kept_cells = SimpleNamespace(**runpy.run_path(str(ROOT / "benchmarks" / "kept_cells.py")))
    path = tmp_path / "made" / "cells.jsonl"
    calls = []

    def measure():
        calls.append(1)
        return {"error": 2.5}

    for _ in range(2):
        assert kept_cells.KeptCells(path, {"seed": 0}).get("a", measure) == {"error": 2.5}
    assert len(calls) == 1
    path.write_text(path.read_text() + '\n{"name": "b", "sett')  # a run that was killed
    cells = kept_cells.KeptCells(path, {"seed": 0})
    cells.get("b", measure)
    assert sorted(kept_cells.KeptCells(path, {"seed": 0}).found) == ["a", "b"]
    assert kept_cells.KeptCells(path, {"seed": 1}).found == {}
    assert len(calls) == 2
