"""What commands refuse, in one line: labels, files, options and outputs that cannot be."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_calls import NAMES, broken, home, invoke, iris, refused

import polymargin

__all__ = ["broken", "home", "iris"]  # fixtures


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
    """They are refused before the work begins: data that would be refused, too, are not read."""
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("a,b\n1,2,3\n")
    for target in (tmp_path, tmp_path / "none" / "m", home / "iris.csv" / "m"):
        assert "cannot write" in refused("train", wrong, "-o", target)
        assert "cannot write" in refused("predict", home / "model", wrong, "-o", target)


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
