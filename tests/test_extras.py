"""Hints about optional packages: commands that work where this package came from."""

import importlib.metadata
import json
import shlex
import tomllib
from pathlib import Path

import pytest

from polymargin._extras import install_command, need

REQUIRES = ["numpy>=2.0", 'onnx>=1.21; extra == "onnx"', "skl2onnx>=1.19 ; extra == 'onnx'"]


@pytest.fixture
def installed_from(monkeypatch):
    """Pretends that pip noted the given origin when it installed the package."""

    class Installed:
        requires = REQUIRES

        def __init__(self, origin):
            self.origin = origin

        def read_text(self, name):
            assert name == "direct_url.json"
            return None if self.origin is None else json.dumps(self.origin)

    def pretend(origin):
        monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed(origin))

    return pretend


def arguments(extra="onnx"):
    words = shlex.split(install_command(extra))
    assert words[:2] == ["pip", "install"]
    return words[2:]


def test_from_an_index(installed_from):
    installed_from(None)
    assert arguments() == ["polymargin[onnx]"]


@pytest.mark.parametrize("editable", [True, False])
def test_from_a_folder(installed_from, tmp_path, editable):
    folder = tmp_path / "a folder, mine"
    folder.mkdir()
    installed_from({"url": folder.as_uri(), "dir_info": {"editable": editable}})
    assert arguments() == ["-e"] * editable + [f"{folder}[onnx]"]


def test_from_a_wheel(installed_from, tmp_path):
    wheel = tmp_path / "polymargin-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"")
    installed_from({"url": wheel.as_uri(), "archive_info": {}})
    assert arguments() == [f"{wheel}[onnx]"]
    wheel.unlink()  # the wheel is gone: the packages themselves
    assert arguments() == ["onnx>=1.21", "skl2onnx>=1.19"]


def test_from_elsewhere(installed_from):
    url = "https://example.org/polymargin-0.1.0-py3-none-any.whl"
    installed_from({"url": url, "archive_info": {}})
    assert arguments() == [f"polymargin[onnx] @ {url}"]
    vcs = {"vcs": "git", "commit_id": "abc"}
    installed_from({"url": "https://example.org/polymargin.git", "vcs_info": vcs})
    assert arguments() == ["polymargin[onnx] @ git+https://example.org/polymargin.git@abc"]


def test_not_installed(monkeypatch):
    def lost(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", lost)
    assert arguments() == ["polymargin[onnx]"]


def test_need_says_what_to_install(installed_from):
    installed_from(None)
    with pytest.raises(ImportError, match=r"A plot needs .*'no_such_module'.*polymargin\[plots\]"):
        need("no_such_module.part", "A plot", "plots")


def test_main_jobs_need_no_extra():
    """Saving, loading, reports and reading tables work after a plain installation."""
    path = Path(__file__).parents[1] / "pyproject.toml"
    if not path.exists():
        pytest.skip("no checkout")
    project = tomllib.loads(path.read_text())["project"]
    core = {entry.split(">=")[0] for entry in project["dependencies"]}
    assert {"skops", "jinja2", "duckdb"} <= core
