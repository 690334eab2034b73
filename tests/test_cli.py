"""The command line: real commands on real files, in temporary folders."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_calls import NAMES, SPECIES, broken, csv_text, home, invoke, iris, refused, spawn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import polymargin
from polymargin.cli import main
from polymargin.cli.machine_setup import MACHINES

__all__ = ["broken", "home", "iris"]  # fixtures


# -- models of other kinds ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["around", "inside", "frozen", "search"])
def test_calibrated_model(home, tmp_path, iris, kind):
    X, y = iris
    machine = polymargin.MulticlassSVC(random_state=0)
    model = make_pipeline(StandardScaler(), machine)
    if kind == "frozen":
        model = CalibratedClassifierCV(FrozenEstimator(model.fit(X, y)))
    elif kind == "inside":
        model = make_pipeline(StandardScaler(), CalibratedClassifierCV(machine, cv=3))
    else:
        model = CalibratedClassifierCV(model, cv=3)
    if kind == "search":
        model = GridSearchCV(model, {"method": ["sigmoid"]}, cv=2)
    path = tmp_path / "calibrated"
    polymargin.save(model.fit(X, y), path)
    text = invoke("info", path).stdout
    assert "None" not in text
    assert "Crammer-Singer, linear kernel, probabilities calibrated (sigmoid)" in text
    assert "% above the best possible objective" in text
    assert "StandardScaler" in text
    lines = invoke("predict", path, home / "plain.csv", "--scores", "-q").stdout.splitlines()
    assert lines[0] == "label," + ",".join(f"probability_{label}" for label in SPECIES)
    found = np.array([line.split(",")[1:] for line in lines[1:]], dtype=float)
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-12)
    record = json.loads(
        invoke("predict", path, home / "plain.csv", "--scores", "--json", "-q").stdout
    )
    np.testing.assert_allclose(record["probabilities"], model.predict_proba(X), rtol=1e-12)


def test_one_value_of_eta(home, tmp_path):
    """The relative value that is tried is called so, beside the value that it means."""
    result = invoke("train", home / "iris.csv", "-m", "HULL", "-o", tmp_path / "m")
    model = polymargin.load(tmp_path / "m").steps[-1][1]
    assert model.eta_scale == "relative"
    words = f"{model.eta_:.4g} (relative eta {model.eta:.4g})"
    assert words in result.stdout
    assert f"relative eta = {model.eta:.4g}, picked" in result.stderr
    text = invoke("info", tmp_path / "m").stdout
    assert words in text
    assert "eta=" not in text


# -- help, usage, completion -------------------------------------------------------------------


def test_help_is_quick_and_light():
    code = (
        "import sys; from polymargin.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print([m for m in ('numpy', 'scipy', 'sklearn', 'numba', 'joblib', 'skops') "
        "if m in sys.modules], file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr.strip() == "[]"
    assert "train" in found.stdout
    resource = pytest.importorskip("resource")  # others' work on the machine must not count

    def spent():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    seconds = []
    for _ in range(5):
        started = spent()
        assert spawn("--help").returncode == 0
        seconds.append(spent() - started)
    assert min(seconds) < 0.2


@pytest.mark.parametrize("command", sorted(main.summaries))
def test_every_command_has_help(command):
    text = invoke(command, "--help").stdout
    assert "Usage" in text
    assert len(text.splitlines()) > 5


def test_version():
    assert polymargin.__version__ in invoke("--version").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["train"],
        ["train", "x.csv", "--no-such-option"],
        ["train", "x.csv", "-c", "abc"],
        ["train", "x.csv", "-c", "-1"],
        ["train", "x.csv", "-m", "XX"],
        ["train", "x.csv", "-m", "CS", "-p", "3"],
        ["train", "x.csv", "--eta", "0.5"],
        ["train", "x.csv", "-m", "CS", "--metric", "learned"],
        ["train", "x.csv", "--metric", "mahalanobis"],
        ["train", "x.csv", "-m", "HULL", "-c", "1"],
        ["train", "x.csv", "-B", "1", "--intercept", "none"],
        ["train", "x.csv", "-v", "1"],
        ["train", "x.csv", "--scale", "log"],
        ["predict", "model"],
    ],
    ids=lambda a: " ".join(a),
)
def test_wrong_usage(arguments):
    result = invoke(*arguments, code=2)
    assert result.stdout == ""
    assert "Error" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell):
    assert f"_POLYMARGIN_COMPLETE={shell}_source" in invoke("completion", shell).stdout
    environment = os.environ | {"_POLYMARGIN_COMPLETE": f"{shell}_source"}
    assert "polymargin" in spawn(env=environment).stdout


def test_completion_of_words():
    environment = os.environ | {
        "_POLYMARGIN_COMPLETE": "bash_complete",
        "COMP_WORDS": "polymargin tr",
        "COMP_CWORD": "1",
    }
    assert "train" in spawn(env=environment).stdout


def test_machines_are_those_of_the_library():
    assert {name.lower() for name in MACHINES} - {"mp", "hull"} == set(polymargin.MACHINES)


# -- predict, evaluate, info -------------------------------------------------------------------


def test_predict(home, tmp_path, iris):
    X, _ = iris
    labels = invoke("predict", home / "model", home / "iris.csv").stdout.split("\n")[:-1]
    model = polymargin.load(home / "plain")
    assert labels == model.predict(X).tolist()
    invoke("predict", home / "model", home / "iris.csv", "-o", tmp_path / "labels")
    assert (tmp_path / "labels").read_text().split() == labels
    record = json.loads(invoke("predict", home / "model", home / "iris.csv", "--json").stdout)
    assert record["labels"] == labels


def test_scores(home, iris):
    X, _ = iris
    lines = invoke("predict", home / "model", home / "iris.csv", "--scores").stdout.splitlines()
    assert lines[0] == "label,score_setosa,score_versicolor,score_virginica"
    scores = np.array([line.split(",")[1:] for line in lines[1:]], dtype=float)
    np.testing.assert_array_equal(scores, polymargin.load(home / "plain").decision_function(X))
    record = invoke("predict", home / "model", home / "iris.csv", "--scores", "--json").stdout
    np.testing.assert_array_equal(json.loads(record)["scores"], scores)


def test_columns_are_matched_by_name(home, broken, iris):
    X, y = iris
    expected = invoke("predict", home / "model", home / "iris.csv").stdout
    order = [2, 0, 3, 1]
    path = broken(csv_text(X[:, order], y, [NAMES[k] for k in order]))
    assert invoke("predict", home / "model", path).stdout == expected
    assert invoke("evaluate", home / "model", path).exit_code == 0
    rows = [",".join(NAMES)] + [",".join(map(repr, row)) for row in X.tolist()]
    assert invoke("predict", home / "model", broken("\n".join(rows))).stdout == expected


def test_evaluate(home, iris):
    from sklearn.metrics import balanced_accuracy_score, classification_report, confusion_matrix

    X, y = iris
    record = json.loads(invoke("evaluate", home / "model", home / "iris.csv", "--json").stdout)
    labels = polymargin.load(home / "plain").predict(X)
    assert record["error"] == pytest.approx(np.mean(labels != y))
    assert record["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, labels))
    assert record["confusion_matrix"] == confusion_matrix(y, labels).tolist()
    report = classification_report(y, labels, output_dict=True)
    for one in record["per_class"]:
        expected = report[one["label"]]
        assert one["precision"] == pytest.approx(expected["precision"])
        assert one["recall"] == pytest.approx(expected["recall"])
        assert one["f1"] == pytest.approx(expected["f1-score"])
    assert record["macro_f1"] == pytest.approx(report["macro avg"]["f1-score"])
    text = invoke("evaluate", home / "model", home / "iris.csv").stdout
    assert "virginica" in text


def test_evaluate_on_a_class_that_is_absent(home, broken, iris):
    X, y = iris
    result = invoke("evaluate", home / "model", broken(csv_text(X[:100], y[:100], NAMES)), "--json")
    assert json.loads(result.stdout)["per_class"][2]["recall"] is None


def test_info(home):
    text = invoke("info", home / "model").stdout
    for word in ("Crammer-Singer", "setosa", "petal width", "StandardScaler", "SHA-256"):
        assert word in text
    record = json.loads(invoke("info", home / "model", "--json").stdout)
    assert record["feature_names"] == NAMES
    assert record["label_name"] == "species"
    assert record["classes"] == SPECIES
    assert record["format"] == 1
    assert record["library"] == polymargin.__version__


@pytest.mark.parametrize(
    ("primal", "dual", "words"),
    [
        (10.0, 10.0, "at most 0 % above"),
        (1.001, 1.0, "at most 0.1 % above"),
        (1.0012341, 1.0, "at most 0.124 % above"),
        (30.0, 10.0, "at most 200 % above"),
        (10.0, -1.0, "no bound yet"),
        (np.inf, 1.0, "unknown gap"),
    ],
)
def test_what_is_said_of_a_certificate_holds(primal, dual, words):
    from polymargin.cli.model_description import certificate_words

    certificate = {"primal": primal, "dual": dual, "gap": primal - dual}
    assert words in certificate_words({"certificate": certificate, "status": "converged"})


def test_two_classes(tmp_path, iris):
    X, y = iris
    (tmp_path / "two.csv").write_text(csv_text(X[:100], y[:100]))
    invoke("train", tmp_path / "two.csv", "-m", "CS", "-c", 1, "-o", tmp_path / "m")
    lines = invoke("predict", tmp_path / "m", tmp_path / "two.csv", "--scores").stdout.splitlines()
    assert lines[0] == "label,score_versicolor"
    assert "0.00 %" in invoke("evaluate", tmp_path / "m", tmp_path / "two.csv").stdout


# -- export, report, demo ----------------------------------------------------------------------


@pytest.mark.parametrize("to", ["onnx", "c", "json"])
def test_export(home, tmp_path, to):
    if to == "onnx":
        pytest.importorskip("onnx")
    target = tmp_path / f"model.{to}"
    result = invoke("export", home / "model", "--to", to, "-o", target, "--json")
    record = json.loads(result.stdout)
    assert record["bytes"] == target.stat().st_size
    assert os.listdir(tmp_path) == [target.name]
    assert "cannot write" in refused("export", home / "model", "--to", to, "-o", tmp_path)
    assert "not a polymargin model" in refused("export", home / "iris.csv", "--to", to)


def test_export_options(home, tmp_path):
    target = tmp_path / "digits.h"
    options = ["--dtype", "int8", "--name", "flowers"]
    invoke("export", home / "model", "--to", "c", "-o", target, *options)
    assert "flowers" in target.read_text()
    invoke("export", home / "model", "--to", "json", "--dtype", "int8", code=2)
    invoke("export", home / "model", code=2)


def test_report(home, tmp_path):
    result = invoke("report", home / "model", home / "iris.csv", "-o", tmp_path / "page.html")
    assert "warning" not in result.stderr
    text = (tmp_path / "page.html").read_text()
    assert "virginica" in text
    assert len(text) < 1_000_000
    line = refused("report", home / "model", home / "iris.csv", "-o", tmp_path / "none" / "x.html")
    assert "cannot write" in line


def test_demo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = invoke("demo").stdout
    for word in ("prototypes", "LinearSVC", "error %", "bytes", "us/predict"):
        assert word in text
    assert os.listdir(tmp_path) == ["polymargin-demo.html"]
    assert (tmp_path / "polymargin-demo.html").stat().st_size < 1_000_000
    record = json.loads(invoke("demo", "--json", "-o", "other.html").stdout)
    assert record["rows"][0]["error"] < record["rows"][1]["error"]


# -- as a process ------------------------------------------------------------------------------


def test_as_a_process(home, tmp_path):
    found = spawn("train", home / "iris.csv", "-m", "CS", "-c", 1, "-o", tmp_path / "m", "--json")
    assert found.returncode == 0
    json.loads(found.stdout)
    found = spawn("predict", tmp_path / "m", "-", input=(home / "iris.csv").read_text())
    assert len(found.stdout.splitlines()) == 150
    found = spawn("train", tmp_path / "none.csv")
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.count("\n") == 1


# -- real data ---------------------------------------------------------------------------------


@pytest.fixture
def stored():
    folder = os.environ.get("POLYMARGIN_DATA_DIR")
    if not folder:
        pytest.skip("POLYMARGIN_DATA_DIR names no folder with data sets")
    return Path(folder)


def test_real_archives(stored, tmp_path):
    data = stored / "optdigits.npz"
    invoke("train", data, "--part", "train", "-m", "CS", "-o", tmp_path / "m")
    record = json.loads(invoke("evaluate", tmp_path / "m", data, "--part", "test", "--json").stdout)
    assert record["error"] < 0.07
    data = stored / "reuters_r8.npz"
    invoke("train", data, "--part", "train", "-m", "CS", "-c", 0.3, "-o", tmp_path / "m")
    record = json.loads(invoke("evaluate", tmp_path / "m", data, "--part", "test", "--json").stdout)
    assert record["error"] < 0.08


def test_a_reader_that_leaves_ends_the_tool_quietly(home):
    """``predict | head`` closes the pipe: no message, exit code 0."""
    rows = home / "many.csv"
    rows.write_text("1,2,3,4\n" * 60_000)
    command = [
        sys.executable,
        "-m",
        "polymargin",
        "predict",
        home / "plain",
        rows,
        "--scores",
        "-q",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0
