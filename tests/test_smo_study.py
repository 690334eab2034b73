"""The experiment of the SMO-like family runs, draws, and judges the findings of the papers."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

environment = dict(os.environ)

from experiments.smo.__main__ import main  # noqa: E402
from experiments.smo.data import load  # noqa: E402
from experiments.smo.findings import check  # noqa: E402
from experiments.smo.study import Curve, Member, members  # noqa: E402

# experiments ask for one thread in the environment: not for the other tests of this process
os.environ.clear()
os.environ.update(environment)


def test_experiment_runs(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    pytest.importorskip("sklearn.callback")
    assert main(["--quick", "--seconds", "5", "--output", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert text.count("confirmed: ") == 4
    content = json.loads((tmp_path / "curves.json").read_text())
    wanted = {member.key for group in members(300).values() for member in group}
    assert set(content["curves"]) == wanted
    best = max(max(curve["history"]["dual"]) for curve in content["curves"].values())
    for key, curve in content["curves"].items():
        dual = np.array(curve["history"]["dual"])
        assert (np.diff(dual) >= -1e-3 * best).all()
        assert (curve["status"] == "stalled") == (", log," in key)
        if curve["status"] == "converged":
            assert dual[-1] >= best * (1 - 2e-3)
    for name in members(300):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert main(["--redraw", "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() in text


def test_digits(monkeypatch):
    monkeypatch.delenv("POLYMARGIN_DATA_DIR", raising=False)
    digits = load()
    assert digits.X_train.shape == (1000, 64)
    assert len(digits.y_test) == 797
    assert digits.X_train.max() == 1.0


def curve(label, rows, patterns, kernel_rows, share=1.0, status="converged"):
    """A straight line of the dual value up to ``share`` of the best."""
    dual = np.linspace(0.0, share, 1001)
    columns = {
        "dual": dual,
        "seconds": np.linspace(0, 1, 1001),
        "patterns": np.linspace(0, patterns, 1001),
        "kernel_rows": np.linspace(0, kernel_rows, 1001),
    }
    return Curve(Member(label, rows), status, 1e-3, 10, columns)


def test_findings():
    curves = [
        curve("opt-kkt, kkt, mean", 300, 300, 90),
        curve("opt-kkt, amg, mean", 300, 250, 90),
        curve("opt-kkt, bmg, mean", 300, 200, 90),
        curve("opt-kkt, kkt, log", 300, 200, 90, 0.95, "stalled"),
        curve("opt-kkt, amg, log", 300, 200, 90, 0.85, "stalled"),
        curve("opt-kkt, bmg, log", 300, 200, 90, 0.80, "stalled"),
        curve("opt-kkt, bmg, mean", 30, 200, 200),
        curve("opt-kkt, kkt, mean", 30, 300, 150),
        curve("basic, bmg, mean", 30, 300, 300, 0.5, "max_time"),
    ]
    found = check({one.member.key: one for one in curves}, 30, 300)
    assert [finding.is_confirmed for finding in found] == [True, True, True, False]
    assert "NOT confirmed: BMG needs fewer" in str(found[3])
