"""Files of ``export_model``: whole or not there."""

import json
import os

import pytest
from conftest import make_overlapping

import polymargin
from polymargin import MulticlassSVC, export_model
from polymargin.export.suffixes import write_whole

X, Y = make_overlapping()


@pytest.fixture
def model():
    return MulticlassSVC(random_state=0).fit(X, Y)


@pytest.mark.parametrize(("ending", "to"), [("onnx", "onnx"), ("h", "c"), ("json", "json")])
def test_formats(model, tmp_path, ending, to):
    if to == "onnx":
        pytest.importorskip("onnx")
    path = tmp_path / f"model.{ending}"
    by_ending = export_model(model, path)
    content = path.read_bytes()
    by_name = export_model(model, str(tmp_path / "other"), to=to)
    assert (by_ending.to, by_name.to) == (to, to)
    assert by_ending.bytes == len(content) == by_name.bytes
    assert by_ending.path == path
    assert (tmp_path / "other").read_bytes() == content
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(["other", path.name])


def test_options_and_notes(model, tmp_path):
    found = export_model(model, tmp_path / "m.h", dtype="int8", name="mine")
    assert "mine_predict" in (tmp_path / "m.h").read_text()
    assert "bytes of tables" in found.notes[0]
    rbf = MulticlassSVC(kernel="rbf").fit(X, Y)
    assert any("expf" in note for note in export_model(rbf, tmp_path / "m.h").notes)
    two = MulticlassSVC().fit(X, Y % 2 == 0)
    pytest.importorskip("onnx")
    notes = export_model(two, tmp_path / "m.onnx").notes
    assert any("int64" in note for note in notes)
    assert any("decision_function" in note for note in notes)


def test_refusals(model, tmp_path):
    with pytest.raises(ValueError, match="cannot infer a format"):
        export_model(model, tmp_path / "model.txt")
    with pytest.raises(ValueError, match="to must be"):
        export_model(model, tmp_path / "model.txt", to="pmml")
    with pytest.raises(FileNotFoundError, match=r"folder does not exist.*nowhere"):
        export_model(model, tmp_path / "nowhere" / "model.json")
    with pytest.raises(IsADirectoryError, match="name a file"):
        export_model(model, tmp_path, to="json")
    with pytest.raises(ValueError, match="name"):
        export_model(model, tmp_path / "model.h", name="1")
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file(model, tmp_path, monkeypatch):
    path = tmp_path / "model.json"
    export_model(model, path)
    before = path.read_bytes()

    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space.*/model\.json'"):
        export_model(model, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_a_link_stays_a_link(model, tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "model.json"
    link.symlink_to(tmp_path / "there" / "real.json")
    assert export_model(model, link).bytes == (tmp_path / "there" / "real.json").stat().st_size
    assert link.is_symlink()


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_permissions(tmp_path):
    path = tmp_path / "file"
    write_whole(path, b"1")
    plain = tmp_path / "plain"
    plain.write_bytes(b"1")
    assert path.stat().st_mode == plain.stat().st_mode
    os.chmod(path, 0o640)
    write_whole(path, b"22")
    assert path.stat().st_mode & 0o777 == 0o640


def test_public_names(model):
    for name in ("ExportModel", "export_model", "to_c", "to_json", "to_onnx"):
        assert name in polymargin.__all__
    assert json.loads(polymargin.to_json(model))["metadata"]["version"] == polymargin.__version__
