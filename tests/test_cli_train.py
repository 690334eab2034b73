"""The commands that train: train, cv, tune, on real files in temporary folders."""

import json
import os

import numpy as np
import pytest
from cli_calls import NAMES, SPECIES, broken, csv_text, home, invoke, iris, refused
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

import polymargin

__all__ = ["broken", "home", "iris"]  # fixtures


# -- train -------------------------------------------------------------------------------------


def test_train_without_options(home, tmp_path):
    result = invoke("train", home / "iris.csv", "-o", tmp_path / "m", "--json", "--budget", 2)
    record = json.loads(result.stdout)
    assert record["tried"]["verdict"][0] == "chosen"
    assert len(set(record["tried"]["machine"])) > 2
    assert record["validation_error"] < 0.1
    assert record["scale"] == "StandardScaler"
    assert record["certificate"]["relative_gap"] <= 1e-3
    assert record["training_error"] < 0.05
    assert "chosen" in result.stderr
    assert "last column" in result.stderr
    model = polymargin.load(tmp_path / "m")
    assert list(model.feature_names_in_) == NAMES
    assert model.classes_.tolist() == SPECIES
    assert os.listdir(tmp_path) == ["m"]


def test_options_of_a_machine_mean_that_machine(home, tmp_path):
    result = invoke("train", home / "iris.csv", "-c", "auto", "-o", tmp_path / "m", "--json")
    record = json.loads(result.stdout)
    assert record["estimator"] == "MultiPrototypeSVC"
    assert record["parameters"]["n_prototypes"] == 5
    assert record["picked"]["parameter"] == "C"
    assert record["picked"]["n_validation"] > 30
    assert record["C"] == record["picked"]["value"]
    assert "picked" in result.stderr


def test_the_tool_gives_the_model_of_the_library(home, iris):

    X, y = iris
    model = polymargin.load(home / "plain")
    scaled = StandardScaler().fit_transform(X)
    same = polymargin.MulticlassSVC(C=1.0, n_jobs=1, random_state=0).fit(scaled, y)
    np.testing.assert_allclose(model.steps[-1][1].coef_, same.coef_, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), same.predict(scaled))


@pytest.mark.parametrize(
    "options",
    [
        ["-m", "CS", "-e", "1e-4", "-B", "1"],
        ["-m", "ww"],
        ["-m", "LLW", "-B", "-1"],
        ["-m", "MSVM2", "-k", "rbf", "-g", "0.5"],
        ["-m", "ADM"],
        ["-m", "ATM"],
        ["-m", "ATS"],
        ["-m", "MMR"],
        ["-m", "REINFORCED"],
        ["-m", "CS", "-k", "poly", "-d", "2", "-r", "1"],
        ["-m", "CS", "--intercept", "free"],
        ["-m", "MP", "-p", "2", "-k", "rbf"],
        ["-m", "MP", "-p", "2", "--assignment", "greedy", "--restarts", "2", "-j", "2"],
        ["-m", "CS", "--class-weight", "balanced", "--scale", "minmax"],
    ],
    ids=lambda o: " ".join(o),
)
def test_every_machine(home, tmp_path, options):
    invoke("train", home / "iris.csv", "-c", "0.5", "-o", tmp_path / "m", *options)
    record = json.loads(invoke("evaluate", tmp_path / "m", home / "iris.csv", "--json").stdout)
    worst = 0.4 if options[-1] in ("ADM", "ATM") else 0.3  # absolute margins, linear kernel
    assert record["error"] < worst


def test_hulls(home, tmp_path):
    invoke("train", home / "iris.csv", "-m", "HULL", "-k", "rbf", "-o", tmp_path / "m")
    assert "convex-hull" in invoke("info", tmp_path / "m").stdout
    invoke("train", home / "iris.csv", "-m", "HULL", "-k", "rbf", "--eta", "0.1")


def test_bias_and_tolerance_are_liblinears(home, tmp_path):
    invoke(
        "train", home / "iris.csv", "-m", "CS", "-c", 1, "-B", 2, "-e", "1e-5", "-o", tmp_path / "m"
    )
    model = polymargin.load(tmp_path / "m").steps[-1][1]
    assert (model.intercept, model.intercept_scaling, model.tol) == ("penalized", 2.0, 1e-5)


@pytest.mark.parametrize("scale", ["none", "standard", "minmax", "maxabs"])
def test_scaling_is_stored(tmp_path, scale):
    X, y = load_wine(return_X_y=True)
    (tmp_path / "wine.csv").write_text(csv_text(X, y))
    options = ["-m", "CS", "-c", 1, "--scale", scale, "--max-time", 20, "-q"]
    invoke("train", tmp_path / "wine.csv", *options, "-o", tmp_path / "m")
    result = invoke("predict", tmp_path / "m", tmp_path / "wine.csv", "-q")
    labels = np.array(result.stdout.split(), dtype=int)
    model = polymargin.load(tmp_path / "m")
    np.testing.assert_array_equal(labels, model.predict(X))
    assert (labels != y).mean() < 0.1 or scale == "none"


def test_the_same_seed_gives_the_same_model(home, tmp_path):
    for name in ("a", "b"):
        invoke("train", home / "iris.csv", "-p", 2, "-c", 1, "--seed", 7, "-o", tmp_path / name)
    a, b = (polymargin.load(tmp_path / name).steps[-1][1] for name in ("a", "b"))
    np.testing.assert_array_equal(a.prototypes_, b.prototypes_)


def test_sparse_data(tmp_path):
    from sklearn.datasets import dump_svmlight_file

    rng = np.random.default_rng(0)
    y = rng.integers(3, size=200)
    X = (rng.random((200, 60)) < 0.05 + 0.2 * (np.arange(60) % 3 == y[:, None])) * 1.0
    dump_svmlight_file(X, y, str(tmp_path / "a.svm"), zero_based=False)
    result = invoke("train", tmp_path / "a.svm", "-m", "CS", "-o", tmp_path / "m")
    assert "taken as they are" in result.stderr
    record = json.loads(invoke("evaluate", tmp_path / "m", tmp_path / "a.svm", "--json").stdout)
    assert record["error"] < 0.2
    for options in (["--scale", "standard"], ["--scale", "none"]):
        invoke("train", tmp_path / "a.svm", "-m", "CS", "-c", 1, *options)
    assert "minmax" in refused("train", tmp_path / "a.svm", "-c", 1, "--scale", "minmax")


def test_train_in_a_learned_metric(home, tmp_path):
    options = ["-c", 1, "-p", 2, "--metric", "learned", "-o", tmp_path / "m", "--json"]
    result = invoke("train", home / "iris.csv", *options)
    assert json.loads(result.stdout)["parameters"]["metric"] == "learned"
    assert polymargin.load(tmp_path / "m").steps[-1][1].metric_.shape == (4, 4)
    assert "needs kernel='linear'" in refused("train", home / "iris.csv", "-k", "rbf", *options)


def test_train_on_a_sample(home, tmp_path):
    result = invoke("train", home / "iris.csv", "-c", 1, "--rows", 60, "-o", tmp_path / "m")
    assert "sample of 60" in result.stderr
    assert len(polymargin.load(tmp_path / "m").steps[-1][1].assignment_) <= 63


def test_time_limit(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 10)), rng.integers(3, size=4000)
    (tmp_path / "noise.csv").write_text(csv_text(X, y))
    result = invoke(
        "train", tmp_path / "noise.csv", "-m", "CS", "-k", "rbf", "-c", 1e4, "-e", "1e-9",
        "--max-time", 1, "-o", tmp_path / "m",
    )  # fmt: skip
    assert "max_time" in result.stderr
    polymargin.load(tmp_path / "m")


def test_standard_input_and_quiet(home):
    text = (home / "iris.csv").read_text()
    result = invoke("train", "-", "-m", "CS", "-c", 1, "-q", "--json", text=text)
    assert result.stderr == ""
    assert json.loads(result.stdout)["rows"] == 150


@pytest.mark.parametrize(
    "options", [["-m", "CS", "-c", 1], ["-m", "MP", "-p", 2, "-c", 1], ["-m", "HULL", "--eta", 0.1]]
)
def test_large_linear_models_go_without_support_vectors(options, tmp_path):
    """Sixteen megabytes of rows, mostly zeros; other commands do without the vectors."""
    y = np.arange(42) % 3
    X = np.zeros((42, 50_000))
    X[:, :42] = 0.1 * np.eye(42)
    X[np.arange(42), 50 + y] = 1.0
    np.savez_compressed(tmp_path / "wide.npz", X=X, y=y)
    result = invoke("train", tmp_path / "wide.npz", *options, "-o", tmp_path / "m")
    assert "42 support vectors are left out of the model" in result.stderr
    invoke("evaluate", tmp_path / "m", tmp_path / "wide.npz")
    invoke("info", tmp_path / "m")
    invoke("export", tmp_path / "m", "--to", "json", "-o", tmp_path / "m.json")
    if options[1] == "CS":
        invoke("report", tmp_path / "m", tmp_path / "wide.npz", "-o", tmp_path / "r.html")


# -- cv, tune ----------------------------------------------------------------------------------


def test_cv(home):
    record = json.loads(
        invoke("cv", home / "iris.csv", "-m", "CS", "-c", 1, "-v", 3, "--json").stdout
    )
    assert len(record["fold_errors"]) == 3
    assert record["error"] < 0.15
    text = invoke("cv", home / "iris.csv", "-m", "CS", "-v", 2).stdout  # C picked inside each fold
    assert "error" in text
    invoke("cv", home / "iris.csv", "-m", "HULL", "-k", "rbf", "-v", 2)


def test_train_with_folds(home, tmp_path):
    result = invoke("train", home / "iris.csv", "-m", "CS", "-c", 1, "-v", 3, "--json")
    assert "cross_validation" in json.loads(result.stdout)
    invoke("train", home / "iris.csv", "-m", "CS", "-c", 1, "-v", 3, "-o", tmp_path / "m")
    polymargin.load(tmp_path / "m")


def test_tune(home, tmp_path):
    result = invoke(
        "tune", home / "iris.csv", "-p", "1,2", "-c", "0.1,1", "-o", tmp_path / "m", "--json"
    )
    record = json.loads(result.stdout)
    assert len(record["results"]) == 4
    assert record["error"] == min(cell["error"] for cell in record["results"])
    best = polymargin.load(tmp_path / "m").steps[-1][1]
    assert (best.n_prototypes, best.C) == (record["best"]["n_prototypes"], record["best"]["C"])
    options = ["-m", "CS", "-k", "rbf", "-g", "0.1,scale", "-c", "1,10", "-v", 2, "-j", 2]
    record = json.loads(invoke("tune", home / "iris.csv", *options, "--json").stdout)
    assert [cell["gamma"] for cell in record["results"]] == [0.1, 0.1, "scale", "scale"]


def test_tune_by_radius_margin(home, tmp_path):
    options = ["--method", "radius-margin", "--max-time", 20]
    result = invoke("tune", home / "iris.csv", *options, "-o", tmp_path / "m", "--json")
    record = json.loads(result.stdout)
    assert record["minimum"]["value"] < record["plateau"]
    assert record["minimum"]["value"] <= record["bound"]
    model = polymargin.load(tmp_path / "m").steps[-1][1]
    assert (model.machine, model.kernel, model.C) == ("msvm2", "rbf", record["best"]["C"])
    evaluated = json.loads(invoke("evaluate", tmp_path / "m", home / "iris.csv", "--json").stdout)
    assert evaluated["error"] < 0.1
    invoke("tune", home / "iris.csv", "--method", "radius-margin", "-m", "CS", code=2)


def test_path(home, tmp_path):
    options = ["--points", 8, "--csv", tmp_path / "path.csv", "-o", tmp_path / "m", "--json"]
    record = json.loads(invoke("path", home / "iris.csv", *options).stdout)
    assert len(record["path"]["C"]) == 8
    assert max(record["path"]["relative_gap"]) <= 1e-3
    assert record["best"]["error"] == min(record["path"]["validation_error"])
    assert len((tmp_path / "path.csv").read_text().splitlines()) == 9
    assert record["best"]["C"] == polymargin.load(tmp_path / "m").steps[-1][1].C
    wide = json.loads(invoke("path", home / "iris.csv", "--points", 5, "--wide", "--json").stdout)
    assert wide["path"]["C"][0] < record["path"]["C"][0]
    invoke("path", home / "iris.csv", "--wide", "-c", "0.1,1", code=2)
    text = invoke("path", home / "iris.csv", "-m", "WW", "-c", "0.1,1").stdout
    assert len(text.splitlines()) == 5
    invoke("path", home / "iris.csv", "-m", "MP", "-p", 2, "-c", "0.1,1")
    invoke("path", home / "iris.csv", "-m", "HULL", code=2)
