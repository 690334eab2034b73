"""The command line: real commands on real files, in temporary folders."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import polymargin
from polymargin.cli import main
from polymargin.cli.machine_setup import MACHINES

NAMES = ["sepal length", "sepal width", "petal length", "petal width"]
SPECIES = ["setosa", "versicolor", "virginica"]


def invoke(*arguments, code=0, text=None):
    """Run a command in this process; its result, which ended with the code expected."""
    result = CliRunner().invoke(main, [str(a) for a in arguments], input=text)
    assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
    return result


def refused(*arguments, code=1, text=None):
    """The one line that a failing command prints."""
    result = invoke(*arguments, code=code, text=text)
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if line.startswith("polymargin: error")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return lines[0]


def spawn(*arguments, **options):
    """Run a command as users do."""
    return subprocess.run(
        [sys.executable, "-m", "polymargin", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def csv_text(X, y, names=None, delimiter=","):
    rows = [] if names is None else [delimiter.join([*names, "species"])]
    rows += [
        delimiter.join([*map(repr, row), str(t)]) for row, t in zip(X.tolist(), y, strict=True)
    ]
    return "\n".join(rows) + "\n"


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, np.array(SPECIES)[y]


@pytest.fixture(scope="module")
def home(tmp_path_factory, iris):
    """A folder with data and a model of them."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "iris.csv").write_text(csv_text(*iris, NAMES))
    (folder / "plain.csv").write_text(csv_text(*iris))
    invoke("train", folder / "iris.csv", "-m", "CS", "-c", 1, "-o", folder / "model", "-q")
    invoke("train", folder / "plain.csv", "-m", "CS", "-c", 1, "-o", folder / "plain", "-q")
    return folder


@pytest.fixture
def broken(tmp_path):
    def write(text, name="bad.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


# -- labels that are no classes ---------------------------------------------------------------


def label_table(labels):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(len(labels), 2)).round(3).tolist()
    return "a,b,target\n" + "".join(
        f"{r[0]},{r[1]},{t}\n" for r, t in zip(rows, labels, strict=True)
    )


@pytest.mark.parametrize("command", [["train"], ["cv"], ["tune"], ["path"]])
def test_continuous_label(broken, command):
    """Refused as the library refuses it, with the column and what to do."""
    path = broken(label_table(np.linspace(0.5, 60, 120).round(2)))
    line = refused(*command, path)
    assert "'target'" in line
    assert "continuous" in line
    assert "--label" in line
    assert "bin" in line
    with pytest.raises(ValueError, match="continuous"):
        polymargin.MulticlassSVC().fit(np.ones((3, 1)), [0.5, 1.5, 2.0])
    assert "continuous" in refused("train", broken(label_table([1.5, 2.5] * 20)))
    invoke("train", broken(label_table(["1.0", "2.0", "3e0"] * 10)), "-m", "CS", "-c", 1)
    invoke("train", broken(label_table(["1.5", "2.5", "other"] * 10)), "-m", "CS", "-c", 1)


def test_label_that_numbers_the_rows(broken):
    """Refused where every row has its own, a warning with the column where nearly every one has."""
    for labels in (range(40), [f"person {k}" for k in range(40)]):
        line = refused("train", broken(label_table(labels)))
        assert "'target'" in line
        assert "identifier" in line
        assert "--label" in line
    nearly = broken(label_table([*range(38), 0, 1]))
    said = invoke("train", nearly, "-m", "CS", "-c", 1).stderr
    assert said.count("warning: the label column 'target' has 38 different values") == 1
    assert "greater than 50%" not in said
    invoke("train", broken(label_table(["a", "b", "c"])), "-m", "CS", "-c", 1)


@pytest.mark.parametrize("names", [["a", "b", "target"], [*(f"f{k}" for k in range(40)), "target"]])
def test_label_that_is_not_there(broken, names):
    """The message shows the last columns, among which the label usually is, and the closest."""
    path = broken(",".join(names) + "\n" + ",".join("1" * len(names)) + "\n")
    line = refused("train", path, "--label", "targets")
    assert f"{len(names)} columns" in line
    assert line.endswith("target")
    assert "did you mean 'target'?" in line
    assert len(line) < 400


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


# -- output that cannot be written, labels beyond double precision -------------------------------


@pytest.mark.parametrize("options", [[], ["--scores"], ["--scores", "--json"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("place", ["/dev/full", "limit"])
def test_full_disk_of_standard_output(home, tmp_path, options, unbuffered, place):
    """Cut output is never exit code 0: one line, exit code 1."""
    resource = pytest.importorskip("resource")
    if place == "/dev/full" and not os.path.exists(place):
        pytest.skip("no /dev/full")

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))

    command = ["-m", "polymargin", "predict", "-q", *options]
    with open(tmp_path / "out" if place == "limit" else place, "wb") as out:
        done = subprocess.run(
            [sys.executable, *command, str(home / "plain"), str(home / "plain.csv")],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            preexec_fn=limit if place == "limit" else None,
            check=False,
        )
    assert done.returncode == 1, done
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("polymargin: error: ")


def test_labels_beyond_double_precision(tmp_path):
    """2**53 and its neighbour are two classes also when a model is evaluated."""
    first, second = 2**53, 2**53 + 1
    path = tmp_path / "large.csv"
    path.write_text("".join(f"{k % 2 + 0.1 * (k % 3)},{first + k % 2}\n" for k in range(20)))
    invoke("train", path, "-m", "CS", "-c", 10, "-o", tmp_path / "m", "-q")
    record = json.loads(invoke("evaluate", tmp_path / "m", path, "--json", "-q").stdout)
    assert record["classes"] == [first, second]
    assert record["confusion_matrix"] == [[10, 0], [0, 10]]


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
    from sklearn.preprocessing import StandardScaler

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


def test_large_linear_models_go_without_support_vectors(home, monkeypatch, tmp_path):
    from polymargin.cli import single_fit as fitting

    monkeypatch.setattr(fitting, "_SUPPORT_BYTES", 10)
    for options in (["-m", "CS"], ["-m", "MP", "-p", "2"], ["-m", "HULL", "--eta", "0.1"]):
        tail = [] if "HULL" in options else ["-c", 1]
        result = invoke("train", home / "iris.csv", *options, *tail, "-o", tmp_path / "m")
        assert "left out" in result.stderr
        invoke("evaluate", tmp_path / "m", home / "iris.csv")
        invoke("info", tmp_path / "m")
        invoke("export", tmp_path / "m", "--to", "json", "-o", tmp_path / "m.json")


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


# -- broken inputs -----------------------------------------------------------------------------

BROKEN = {
    "empty file": ("", "empty"),
    "no rows": ("a,b,species\n", "no rows"),
    "one column": ("1\n2\n3\n", "single column"),
    "ragged rows": ("1,2,x\n1,2,3,y\n", "line 2"),
    "infinite": ("a,b,l\n1,2,x\n1,inf,y\n", "line 3: column 'b'"),
    "missing label": ("a,b,l\n1,2,x\n1,2,\n", "line 3: column 'l'"),
    "a word among numbers": (
        "a,b,l\n" + "".join(f"{k},{k},{'xy'[k % 2]}\n" for k in range(30)) + "1,blue,y\n",
        "'blue' is not a number",
    ),
    "one class": ("a,b,l\n1,2,x\n2,3,x\n", "two classes"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_train_on_broken_data(broken, tmp_path, name):
    text, message = BROKEN[name]
    line = refused("train", broken(text), "-c", 1, "-o", tmp_path / "m")
    assert message in line
    assert sorted(os.listdir(tmp_path)) == ["bad.csv"]


def test_wrong_delimiter(home, tmp_path):
    line = refused("train", home / "iris.csv", "--delimiter", ";", "-o", tmp_path / "m")
    assert "single column" in line
    assert not os.listdir(tmp_path)


def test_label_column_that_is_not_there(home):
    assert "'kind'" in refused("train", home / "iris.csv", "--label", "kind")


def test_unknown_label(home, broken):
    path = broken(",".join([*NAMES, "species"]) + "\n5,3,1,0.2,setosa\n5,3,1,0.2,rosa\n")
    line = refused("evaluate", home / "model", path)
    assert "unknown label 'rosa'" in line
    assert "setosa" in line
    invoke("predict", home / "model", path)  # labels do not matter there


def test_missing_feature_columns(home, broken, tmp_path):
    path = broken("sepal length,petal length,species\n5,1,setosa\n")
    line = refused("predict", home / "model", path, "-o", tmp_path / "out")
    assert "'sepal width', 'petal width'" in line
    assert sorted(os.listdir(tmp_path)) == ["bad.csv"]


def test_a_model_for_other_features(home, broken):
    path = broken("1,2,3,4,5,6,x\n2,3,4,5,6,7,y\n")
    for command in ("predict", "evaluate"):
        assert "trained on 4" in refused(command, home / "plain", path)
    path = broken("1 1:2 2:3\n2 1:1\n", "bad.svm")
    invoke("predict", home / "plain", path)  # what is not named is zero


@pytest.mark.parametrize("command", ["predict", "evaluate", "info"])
def test_broken_models(home, tmp_path, command):
    rest = [] if command == "info" else [home / "iris.csv"]
    data = bytearray((home / "model").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "m").write_bytes(data)
    assert "damaged" in refused(command, tmp_path / "m", *rest)
    (tmp_path / "m").write_bytes(data[:1000])
    refused(command, tmp_path / "m", *rest)
    assert "not a polymargin model" in refused(command, home / "iris.csv", *rest)
    assert "No such file" in refused(command, tmp_path / "none", *rest)


def test_files_that_are_not_there(home, tmp_path):
    assert "No such file" in refused("train", tmp_path / "none.csv")
    assert "none.csv" in refused("predict", home / "model", tmp_path / "none.csv")
    assert "folder" in refused("train", tmp_path)


def test_outputs_that_cannot_be(home, tmp_path):
    started = time.perf_counter()
    for target in (tmp_path, tmp_path / "none" / "m", home / "iris.csv" / "m"):
        assert "cannot write" in refused("train", home / "iris.csv", "-o", target)
        assert "cannot write" in refused("predict", home / "model", home / "iris.csv", "-o", target)
    assert time.perf_counter() - started < 5, "the work must not begin"


def mounted(folder, options):
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr.decode().strip()}")


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 8 kB."""
    folder = tmp_path / "tiny"
    try:
        mounted(folder, "size=4k")
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def sealed_folder(tmp_path):
    """A folder in which nothing can be written."""
    folder = tmp_path / "sealed"
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        folder.mkdir(mode=0o500)
        yield folder
        folder.chmod(0o700)
        return
    try:
        mounted(folder, "size=64k,ro")
    except FileNotFoundError:
        pytest.skip("the superuser may write everywhere, and there is no mount command")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_disk_full(home, tiny_disk):
    line = refused("train", home / "iris.csv", "-m", "CS", "-c", 1, "-o", tiny_disk / "m")
    assert "No space left" in line
    assert not os.listdir(tiny_disk)
    (tiny_disk / "old").write_text("old")
    many = tiny_disk.parent / "many.csv"
    many.write_text((home / "plain.csv").read_text() * 20)
    line = refused("predict", home / "plain", many, "-o", tiny_disk / "old")
    assert "No space left" in line
    assert os.listdir(tiny_disk) == ["old"]
    assert (tiny_disk / "old").read_text() == "old"


def test_no_write_permission(home, sealed_folder):
    line = refused("train", home / "iris.csv", "-m", "CS", "-c", 1, "-o", sealed_folder / "m")
    assert "cannot write" in line
    assert not os.listdir(sealed_folder)


def test_full_standard_output(home):
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    with open("/dev/full", "w") as full:
        found = subprocess.run(
            [sys.executable, "-m", "polymargin", "info", str(home / "model")],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert found.returncode == 1
    assert "No space left" in found.stderr


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
