"""``train --cost`` and ``evaluate --cost``."""

import json

import numpy as np
import pytest
from cli_calls import invoke, refused

import polymargin
from polymargin.cli.cost_file import read_costs

NAMED = "true,mild,none,severe\nsevere,3,20,0\nnone,1,0,1\nmild,0,4,2\n"
COSTS = np.array([[0.0, 4.0, 2.0], [1.0, 0.0, 1.0], [3.0, 20.0, 0.0]])  # mild, none, severe
CLASSES = np.array(["mild", "none", "severe"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of three classes, two of them rare, and a file of costs."""
    where = tmp_path_factory.mktemp("costs")
    rng = np.random.default_rng(0)
    y = rng.choice(3, 240, p=[0.2, 0.7, 0.1])
    X = rng.standard_normal((240, 3)) + 1.1 * np.array([[1, 0, 0], [0, 0, 0], [1, 1, 1]])[y]
    rows = [",".join(f"{v:.4f}" for v in x) + f",{CLASSES[k]}" for x, k in zip(X, y, strict=True)]
    (where / "data.csv").write_text("a,b,c,illness\n" + "\n".join(rows) + "\n")
    (where / "costs.csv").write_text(NAMED)
    return where


def test_train_and_evaluate(folder):
    data, costs = folder / "data.csv", folder / "costs.csv"
    found = {}
    for name, more in (("plain", []), ("careful", ["--cost", costs])):
        model = folder / f"{name}.pm"
        invoke("train", data, "-o", model, "-m", "CS", "-c", "0.1", *more)
        result = invoke("evaluate", model, data, "--cost", costs, "--json")
        found[name] = json.loads(result.stdout)
    careful, plain = found["careful"], found["plain"]
    assert careful["mean_cost"] < plain["mean_cost"]
    counts = np.array(careful["confusion_matrix"])
    assert careful["mean_cost"] == pytest.approx((counts * COSTS).sum() / counts.sum())
    assert np.array_equal(polymargin.load(folder / "careful.pm")[-1].cost_matrix, COSTS)
    text = invoke("evaluate", folder / "careful.pm", data, "--cost", costs).stdout
    assert f"mean cost          {careful['mean_cost']:.4g}" in text


def test_C_is_picked_by_cost(folder):
    data, costs = folder / "data.csv", folder / "costs.csv"
    result = invoke("train", data, "-m", "WW", "--cost", costs, "--json")
    record = json.loads(result.stdout)
    assert record["picked"]["validation_cost"] == min(record["picked"]["costs"])
    assert record["training_cost"] > 0.0
    assert "by the cost on a validation part" in result.stderr
    folds = json.loads(
        invoke("train", data, "-c", "0.1", "-p", "2", "--cost", costs, "-v", 3, "--json").stdout
    )
    assert folds["cross_validation"]["mean_cost"] > 0.0


def test_orders_of_a_file(tmp_path):
    path = tmp_path / "costs.csv"
    for text in (
        NAMED,
        NAMED.replace(",", ";"),
        "mild\tnone\tsevere\n0\t4\t2\n1\t0\t1\n3\t20\t0\n",
        "0 4 2\n1 0 1\n3 20 0\n",
        "none,mild,severe\n0,1,1\n4,0,2\n20,3,0\n",
    ):
        path.write_text(text)
        assert np.array_equal(read_costs(str(path), CLASSES).matrix, COSTS), text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty"),
        ("0,1\n1,0\n", "2 rows of 2 values; 3 classes (mild, none, severe) need 3 rows of 3"),
        ("0,1,2\n1,0\n", "row 2 has 2 values, the first has 3"),
        ("0,1,2\n1,0,x\n1,2,0\n", "'x' is not a number"),
        ("0,1,2\n1,0,-2\n1,2,0\n", "cost_matrix[1, 2] is -2"),
        ("a,none,mild\n0,1,2\n1,0,2\n1,2,0\n", "'a' is none of the classes"),
        ("none,none,mild\n0,1,2\n1,0,2\n1,2,0\n", "a class is named twice"),
    ],
)
def test_a_bad_file_is_one_line(folder, tmp_path, text, says):
    path = tmp_path / "costs.csv"
    path.write_text(text)
    assert says in refused("train", folder / "data.csv", "-m", "CS", "--cost", path)


def test_refused_machines(folder):
    for machine in ("LLW", "HULL", "auto"):
        result = invoke("train", folder / "data.csv", "-m", machine, "--cost", "x.csv", code=2)
        assert "--cost is for" in result.stderr
    result = invoke(
        "train", folder / "data.csv", "--memory", "1GB", "--cost", folder / "costs.csv", code=2
    )
    assert "--cost needs all rows in memory" in result.stderr
    assert "cannot read missing.csv" in refused(
        "train", folder / "data.csv", "-m", "CS", "--cost", "missing.csv"
    )
