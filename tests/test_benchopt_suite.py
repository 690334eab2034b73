"""The draft of a benchopt suite: its files load, and its solvers agree on its objective."""

import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest

SUITE = Path(__file__).parents[1] / "benchmark_multiclass_svm"


@pytest.fixture
def parts(monkeypatch):
    """Classes of the suite; benchopt itself, if it is not installed, is three empty classes."""
    if importlib.util.find_spec("benchopt") is None:
        stand_in = types.ModuleType("benchopt")
        for name in ("BaseObjective", "BaseDataset", "BaseSolver"):
            setattr(stand_in, name, type(name, (), {}))
        monkeypatch.setitem(sys.modules, "benchopt", stand_in)

    def load(path, name):
        spec = importlib.util.spec_from_file_location(f"suite_{Path(path).stem}", SUITE / path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, name)()

    return load


def test_solvers_reach_the_same_objective(parts):
    objective, data = parts("objective.py", "Objective"), parts("datasets/digits.py", "Dataset")
    objective.C = 0.1
    objective.set_data(**data.get_data())
    values, errors = {}, {}
    for name in ("polymargin", "liblinear", "libsvm"):
        solver = parts(f"solvers/{name}.py", "Solver")
        solver.set_objective(**objective.get_objective())
        solver.run(1e-6)
        result = objective.evaluate_result(**solver.get_result())
        values[name], errors[name] = result["value"], result["test_error"]
    assert values["polymargin"] == pytest.approx(values["liblinear"], rel=1e-5)
    assert values["libsvm"] > 1.01 * values["polymargin"]  # another problem
    assert max(errors.values()) < 0.06
    start = objective.evaluate_result(**objective.get_one_result())
    assert start["value"] == pytest.approx(objective.C * len(objective.y))
    assert np.isfinite(list(values.values())).all()
