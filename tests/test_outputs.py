"""Outputs that are inputs, inputs without an end, lines that end in two ways."""

import os

import pytest
from click.testing import CliRunner

import polymargin
from polymargin.cli import main
from polymargin.datasets import read_data

ROWS = [f"{k % 7}.5,{k % 5},{'ab'[k % 2]}" for k in range(30)]


@pytest.fixture
def files(tmp_path):
    data, model = tmp_path / "data.csv", tmp_path / "model.pm"
    data.write_text("u,v,y\n" + "\n".join(ROWS) + "\n")
    done = CliRunner().invoke(
        main, ["train", "-q", "-m", "CS", "-c", "1", str(data), "-o", str(model)]
    )
    assert done.exit_code == 0, done.stderr
    return data, model


@pytest.mark.parametrize(
    ("command", "read"),
    [
        (["train", "-m", "CS", "-c", "1", "{data}", "-o", "{data}"], "DATA"),
        (["train", "{data}", "-o", "{link}"], "DATA"),
        (["tune", "-m", "CS", "-c", "1", "{data}", "-o", "{data}"], "DATA"),
        (["predict", "{model}", "{data}", "-o", "{model}"], "MODEL"),
        (["predict", "{model}", "{data}", "-o", "{data}"], "DATA"),
        (["report", "{model}", "{data}", "-o", "{model}"], "MODEL"),
        (["export", "{model}", "--to", "json", "-o", "{model}"], "MODEL"),
    ],
)
def test_no_command_writes_over_what_it_reads(command, read, files, tmp_path):
    data, model = files
    link = tmp_path / "link.csv"
    os.symlink(data, link)
    before = data.read_bytes(), model.read_bytes()
    words = [word.format(data=data, model=model, link=link) for word in command]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1
    assert f"it is the {read} that this command reads; name another file" in done.stderr
    assert (data.read_bytes(), model.read_bytes()) == before


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no /dev/zero")
def test_a_model_without_an_end_is_refused_by_its_beginning():
    with pytest.raises(polymargin.ModelFileError, match="is not a polymargin model file"):
        polymargin.load("/dev/zero")


def test_lines_that_end_in_two_ways(tmp_path):
    path = tmp_path / "mixed.csv"
    lines = [row + ("\r\n" if k % 2 else "\n") for k, row in enumerate(["u,v,y", *ROWS])]
    path.write_bytes("".join(lines).encode())
    found = read_data(str(path))
    assert found.X.shape == (30, 2)
    assert sorted(set(found.y)) == ["a", "b"]


def test_text_of_four_bytes_a_character_says_what_helps(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_bytes("\n".join(["u,v,y", *ROWS]).encode("utf-32"))
    with pytest.raises(polymargin.DataFileError, match="give its --encoding"):
        read_data(str(path))
