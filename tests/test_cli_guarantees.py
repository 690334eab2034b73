"""The commands loo, bounds, margins and gacv say what the functions say."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polymargin import (
    ConvexHullSVC,
    MulticlassSVC,
    gacv,
    leave_one_out,
    leave_one_out_count,
    margin_record,
    radius_margin_bound,
    save,
)
from polymargin.cli import main

X, y = load_iris(return_X_y=True)
X, y = X[::3], y[::3]


@pytest.fixture
def files(tmp_path):
    """A CSV file, and a function that trains a machine and stores it behind a scaler."""
    table = tmp_path / "iris.csv"
    rows = [
        ",".join(map(repr, row.tolist())) + f",{label}" for row, label in zip(X, y, strict=True)
    ]
    table.write_text("\n".join(["a,b,c,d,y", *rows]) + "\n")

    def stored(machine):
        model = make_pipeline(StandardScaler(), machine).fit(X, y)
        save(model, tmp_path / "m.pm")
        return str(tmp_path / "m.pm"), str(table), model

    return stored


def run(*arguments):
    found = CliRunner().invoke(main, [*arguments, "--json", "-q"])
    assert found.exit_code == 0, found.stderr
    return json.loads(found.stdout)


def scaled(model):
    return model[0].transform(X)


def test_loo(files):
    path, data, model = files(MulticlassSVC(kernel="rbf", gamma=0.5, tol=1e-6, random_state=0))
    record = run("loo", path, data)
    exact = leave_one_out(MulticlassSVC(kernel="rbf", gamma=0.5, random_state=0), scaled(model), y)
    count = leave_one_out_count(model[1], scaled(model), y)
    assert record["errors"] == exact.errors
    assert record["wrong"] == np.flatnonzero(exact.wrong).tolist()
    assert record["count"] == count.count >= exact.errors
    text = CliRunner().invoke(main, ["loo", path, data, "-q"]).stdout
    assert "leave-one-out error" in text
    assert "bound by counting" in text


def test_margins(files):
    path, data, model = files(ConvexHullSVC(0.2, gamma=0.5))
    record = run("margins", path, data)
    found = margin_record(model[1], scaled(model), y)
    assert record["errors"] == found.errors
    assert record["pairs"][0]["margin"] == pytest.approx(found.geometric.min())
    assert record["separability"].startswith("the separability condition")
    text = CliRunner().invoke(main, ["margins", path, data, "-q"]).stdout
    assert "median lead" in text


def test_bounds(files):
    path, data, model = files(MulticlassSVC("msvm2", kernel="rbf", gamma=0.5, random_state=0))
    values = {one["name"]: one["value"] for one in run("bounds", path, data)["bounds"]}
    found = radius_margin_bound(scaled(model), y, 1.0, gamma=0.5, tol=1e-6)
    assert values["leave-one-out errors, (28)"] == pytest.approx(found.value, rel=1e-4)
    assert values["leave-one-out errors, Lemma 1"] == found.count
    path, data, model = files(MulticlassSVC("cs", C=10.0, random_state=0))
    names = [one["name"] for one in run("bounds", path, data)["bounds"]]
    assert "probability of error, margin bound" in names
    text = CliRunner().invoke(main, ["bounds", path, data, "-q"]).stdout
    assert "50 rows" in text


def test_gacv(files):
    path, data, model = files(MulticlassSVC("llw", kernel="rbf", gamma=0.5, random_state=0))
    record = run("gacv", path, data)
    assert record["value"] == pytest.approx(gacv(model[1], scaled(model), y).value, rel=1e-6)
    path, data, _ = files(MulticlassSVC("cs", random_state=0))
    wrong = CliRunner().invoke(main, ["gacv", path, data, "-q"])
    assert wrong.exit_code == 1
    assert "machine='llw'" in wrong.stderr


def test_other_rows_than_those_of_the_training(files, tmp_path):
    path, _, _ = files(MulticlassSVC("cs", random_state=0))
    other = tmp_path / "other.csv"
    other.write_text("a,b,c,d,y\n1,2,3,4,0\n2,3,4,5,1\n")
    record = run("bounds", path, str(other))
    assert record["bounds"][0]["value"] is None
    assert "50 training examples" in record["bounds"][0]["says"]


# -- options of training -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        (["-m", "MP", "--annealing", "paper", "--init", "kmeans"], {"init": "kmeans"}),
        (["-m", "HULL", "--offset", "kkt", "--solver", "frank-wolfe", "-e", "0.1", "--eta", "0.3"],
         {"offset": "kkt", "solver": "frank_wolfe"}),
        (["-m", "WW", "--solver", "frank-wolfe", "-e", "0.1"], {"solver": "frank-wolfe"}),
    ],
)  # fmt: skip
def test_options(files, tmp_path, options, parameters):
    from polymargin import load

    _, data, _ = files(MulticlassSVC("cs", random_state=0))
    if options[1] != "HULL":
        options = [*options, "-c", "1"]
    target = str(tmp_path / "n.pm")
    found = CliRunner().invoke(main, ["train", data, "-o", target, "-q", *options])
    assert found.exit_code == 0, found.stderr
    machine = load(target)[-1]
    for name, value in parameters.items():
        assert getattr(machine, name) == value


def test_smo_like_solver(files, tmp_path):
    from polymargin import PatternSMO, load

    _, data, _ = files(MulticlassSVC("cs", random_state=0))
    target = str(tmp_path / "n.pm")
    for machine in (["-m", "CS"], ["-m", "MP", "-p", "2", "--annealing", "paper"]):
        options = [*machine, "-c", "1", "--solver", "all-pairs,amg,mean"]
        found = CliRunner().invoke(main, ["train", data, "-o", target, "-q", *options])
        assert found.exit_code == 0, found.stderr
        solver = load(target)[-1].solver
        assert isinstance(solver, PatternSMO)
        assert (solver.pattern, solver.selection, solver.threshold) == ("all-pairs", "amg", "mean")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-m", "CS", "--offset", "kkt"], "--offset is for -m HULL"),
        (["-m", "CS", "--init", "random"], "--init is for -m MP"),
        (["-m", "CS", "-c", "1", "--solver", "simplex"], "solver"),
    ],
)
def test_refused_options(files, tmp_path, options, words):
    _, data, _ = files(MulticlassSVC("cs", random_state=0))
    found = CliRunner().invoke(main, ["train", data, "-o", str(tmp_path / "n.pm"), *options])
    assert found.exit_code in (1, 2)
    assert words in found.stderr


@pytest.mark.parametrize("command", ["predict", "evaluate", "report", "explain", "loo"])
def test_a_file_without_a_classifier(command, tmp_path):
    X, y = load_iris(return_X_y=True)
    save(make_pipeline(StandardScaler()).fit(X), tmp_path / "steps.pm")
    np.savetxt(tmp_path / "iris.csv", np.c_[X, y], delimiter=",")
    arguments = [command, str(tmp_path / "steps.pm"), str(tmp_path / "iris.csv")]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 1
    assert "holds a Pipeline that cannot predict" in result.stderr
