"""How tests of the command line call it, and the folder that they share."""

import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_iris

from polymargin.cli import main

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
