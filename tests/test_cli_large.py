"""``polymargin train --memory``: all rows of a file of any size, by the same plan as small ones."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from sklearn.datasets import dump_svmlight_file

from polymargin.cli import main

N, D, Q = 3000, 4, 3


def data(seed=0):
    random = np.random.default_rng(seed)
    y = random.integers(0, Q, N)
    return 2 * random.normal(size=(Q, D))[y] + random.normal(size=(N, D)), y


def call(*arguments, code=0):
    result = CliRunner().invoke(main, [str(one) for one in arguments])
    assert result.exit_code == code, result.output
    return result


def frame(seed=0):
    pandas = pytest.importorskip("pandas")
    X, y = data(seed)
    table = pandas.DataFrame(X, columns=list("abcd"))
    table["colour"] = np.array(["red", "green", "blue"])[(y + (X[:, 0] > 1)) % 3]
    table.loc[::7, "b"] = np.nan
    table["kind"] = np.array(["x", "y", "z"])[y]
    return table


def write_csv(folder, X, y):
    rows = [",".join(map(repr, row)) for row in X.tolist()]
    lines = [f"{row},c{label}" for row, label in zip(rows, y.tolist(), strict=True)]
    path = folder / "rows.csv"
    path.write_text("a,b,c,d,kind\n" + "\n".join(lines) + "\n")
    return path


def test_numbers_with_C_picked_and_scaling(tmp_path):
    X, y = data()
    path = write_csv(tmp_path, 100 * X + 5, y)
    model = tmp_path / "model.pm"
    shown = call("train", path, "--memory", "100kB", "-o", model, "--json")
    record = json.loads(shown.stdout)
    assert record["trained_rows"] == record["rows"] == N
    assert record["blocks"] > 2
    assert record["picked"]["parameter"] == "C"
    assert record["scale"] == "StandardScaler"
    assert record["certificate"]["relative_gap"] <= 1e-3
    assert "on all 3000 rows" in shown.stderr
    small = json.loads(call("train", path, "-m", "CS", "-c", record["C"], "--json").stdout)
    primal = record["certificate"]["primal"]
    assert primal == pytest.approx(small["certificate"]["primal"], rel=3e-3)
    assert record["training_error"] == pytest.approx(small["training_error"], abs=0.01)
    assert "trained on" in call("info", model).stdout
    evaluated = json.loads(call("evaluate", model, path, "--json").stdout)
    assert evaluated["error"] == pytest.approx(record["training_error"], abs=1e-3)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_categories_and_gaps_become_part_of_the_model(tmp_path, suffix):
    table = frame()
    path = tmp_path / f"rows.{suffix}"
    table.to_parquet(path) if suffix == "parquet" else table.to_csv(path, index=False)
    model = tmp_path / "model.pm"
    shown = call("train", path, "--memory", "100kB", "-c", "0.1", "-o", model, "--json")
    record = json.loads(shown.stdout)
    assert "category" in next(line for line in shown.stderr.splitlines() if "colour" in line)
    small = json.loads(call("train", path, "-m", "CS", "-c", "0.1", "--json").stdout)
    primal = record["certificate"]["primal"]
    assert primal == pytest.approx(small["certificate"]["primal"], rel=3e-3)
    evaluated = json.loads(call("evaluate", model, path, "--json").stdout)
    assert evaluated["error"] == pytest.approx(record["training_error"], abs=1e-3)


def test_a_folder_of_parquet_and_a_scratch_folder(tmp_path):
    table = frame(1)
    folder, scratch = tmp_path / "many", tmp_path / "scratch"
    folder.mkdir()
    for k, part in enumerate(np.array_split(np.arange(N), 3)):
        table.iloc[part].to_parquet(folder / f"part-{k}.parquet")
    options = ("--memory", "100kB", "-c", "0.1", "--scratch", scratch, "--json", "-l", "kind")
    first = json.loads(call("train", folder, *options).stdout)
    written = (scratch / "rows.json").stat().st_mtime_ns
    again = json.loads(call("train", str(folder / "*.parquet"), *options).stdout)
    assert (scratch / "rows.json").stat().st_mtime_ns == written
    assert first["rows"] == N
    assert first["certificate"] == again["certificate"]


def test_npy_and_libsvm(tmp_path):
    X, y = data(2)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    options = ("--memory", "100kB", "-c", "0.1", "--scale", "none", "--float64", "--json")
    dense = json.loads(call("train", tmp_path / "X.npy", "-l", tmp_path / "y.npy", *options).stdout)
    dump_svmlight_file(sp.csr_matrix(X), y, str(tmp_path / "rows.svm"), zero_based=True)
    model = tmp_path / "model.pm"
    sparse = call("train", tmp_path / "rows.svm", *options, "-o", model)
    sparse = json.loads(sparse.stdout)
    primal = dense["certificate"]["primal"]
    assert sparse["certificate"]["primal"] == pytest.approx(primal, rel=3e-3)
    assert sparse["n_features"] == D
    evaluated = json.loads(call("evaluate", model, tmp_path / "rows.svm", "--json").stdout)
    assert evaluated["error"] == pytest.approx(sparse["training_error"], abs=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-m", "HULL", "-c", "auto"), "-m CS"),
        (("-m", "WW"), "--intercept penalized"),
        (("-k", "rbf"), "--kernel linear"),
        (("-v", "5"), "--folds"),
        (("--rows", "100"), "--rows"),
        (("--memory", "much"), "--memory"),
        (("--probabilities",), "--probabilities"),
        (("-l", "nothing"), "no column 'nothing'"),
        (("--cluster", "tcp://127.0.0.1:1"), "--scratch"),
    ],
)
def test_refusals_name_the_way_out(tmp_path, options, message):
    path = write_csv(tmp_path, *data(3))
    result = CliRunner().invoke(main, ["train", str(path), "--memory", "1MB", "-c", "1", *options])
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert "Traceback" not in result.output
