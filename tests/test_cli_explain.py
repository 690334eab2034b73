"""``polymargin explain``."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polymargin import MulticlassSVC, certified_radius, counterfactual, explain, save
from polymargin.cli import main


@pytest.fixture
def files(tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    X.columns = ["a", "b", "c", "d"]
    table = X.assign(kind=np.array(["red", "green", "blue"])[y])
    table.to_csv(tmp_path / "data.csv", index=False)
    for kernel in ("linear", "rbf", "poly"):
        model = make_pipeline(StandardScaler(), MulticlassSVC(kernel=kernel, random_state=0))
        save(model.fit(X, table["kind"]), tmp_path / f"{kernel}.pm")
    return tmp_path, X, table["kind"]


def run(*arguments):
    return CliRunner().invoke(main, ["explain", *map(str, arguments)])


def test_all_rows(files):
    folder, X, y = files
    done = run(folder / "linear.pm", folder / "data.csv", "--json", "-q")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    model = make_pipeline(StandardScaler(), MulticlassSVC(random_state=0)).fit(X, y)
    reasons, radius = explain(model, X), certified_radius(model, X, units="scaled")
    assert [row["label"] for row in record["rows"]] == reasons.label.tolist()
    np.testing.assert_allclose([row["radius"] for row in record["rows"]], radius.radius)
    assert record["radius_is_exact"]
    assert [row["top"][0][0] for row in record["rows"]] == [
        reasons.top(i, 1)[0][0] for i in range(150)
    ]
    text = run(folder / "linear.pm", folder / "data.csv", "-q").stdout
    assert "100 more rows" in text
    assert "exactly the distance" in text


def test_one_row_and_its_least_change(files):
    folder, X, y = files
    arguments = ("--row", 3, "--target", "blue", "--fixed", "a", "--units", "input")
    done = run(folder / "linear.pm", folder / "data.csv", *arguments, "--json", "-q")
    assert done.exit_code == 0, done.output
    change = json.loads(done.stdout)["counterfactual"]
    model = make_pipeline(StandardScaler(), MulticlassSVC(random_state=0)).fit(X, y)
    expected = counterfactual(model, X.iloc[[2]], "blue", fixed=["a"])
    assert change["label"] == "blue"
    assert change["distance"] == pytest.approx(expected.distance[0])
    assert {one["feature"] for one in change["changes"]} == {"b", "c", "d"}
    text = run(folder / "linear.pm", folder / "data.csv", *arguments, "--top", 2, "-q").stdout
    assert "the least change that gives the label blue" in text
    assert "1 smaller changes" in text


def test_support_vectors_of_an_rbf_model(files):
    folder, _, _ = files
    text = run(folder / "rbf.pm", folder / "data.csv", "--row", 1, "-q").stdout
    assert "support vector" in text
    assert "a lower bound" in text
    assert "least change" not in text


@pytest.mark.parametrize(
    ("model", "arguments", "words"),
    [
        ("poly", [], "kernel='poly'"),
        ("linear", ["--row", 151], "has 150 rows"),
        ("linear", ["--row", 1, "--target", "black"], "the model knows"),
        ("linear", ["--row", 1, "--fixed", "z"], "'z' is no feature"),
    ],
)
def test_refusals_are_one_line(files, model, arguments, words):
    folder, _, _ = files
    done = run(folder / f"{model}.pm", folder / "data.csv", "-q", *arguments)
    assert done.exit_code == 1
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
