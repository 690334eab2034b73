"""Compiled code: cached per source, never stale, never fatal, announced once."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import polymargin
from polymargin.compiled import jit as _jit

SOURCE = Path(polymargin.__file__).parent
COMPILED = SOURCE / "compiled"

COMPILE_ONE_KERNEL = """
import numpy as np
from polymargin.compiled.pattern_descent import shuffle
queue = np.arange(1)
shuffle(queue, 1, np.ones(1, dtype=np.uint64))
shuffle(queue.astype(np.int32), 1, np.ones(1, dtype=np.uint64))
print(queue)
"""


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )


def test_says_once_that_it_compiles(tmp_path):
    first = run(COMPILE_ONE_KERNEL, POLYMARGIN_CACHE_DIR=str(tmp_path))
    assert first.stdout.split() == ["[0]"]
    assert first.stderr.count("compiling") == 1
    assert list(tmp_path.rglob("*.nbc"))
    second = run(COMPILE_ONE_KERNEL, POLYMARGIN_CACHE_DIR=str(tmp_path))
    assert second.stdout == first.stdout
    assert second.stderr == ""


def test_cache_that_cannot_be_written(tmp_path):
    """A file where the directory should be: no permission is needed to make this fail for root."""
    obstacle = tmp_path / "file"
    obstacle.write_text("")
    result = run(COMPILE_ONE_KERNEL, POLYMARGIN_CACHE_DIR=str(obstacle))
    assert result.stdout.split() == ["[0]"]


@pytest.mark.parametrize(
    ("damage", "ending"),
    [("truncated", "nbi"), ("random", "nbc"), ("one bit", "nbc"), ("a folder", "nbi")],
)
def test_damaged_cache_is_compiled_again(tmp_path, damage, ending):
    """And mended, so that the next run finds it whole."""
    run(COMPILE_ONE_KERNEL, POLYMARGIN_CACHE_DIR=str(tmp_path))
    for path in tmp_path.rglob(f"*.{ending}"):
        content = bytearray(path.read_bytes())
        if damage == "truncated":
            path.write_bytes(content[: len(content) // 2])
        elif damage == "random":
            path.write_bytes(np.random.default_rng(0).bytes(len(content)))
        elif damage == "one bit":
            content[len(content) // 2] ^= 16
            path.write_bytes(content)
        else:
            path.unlink()
            path.mkdir()
    again = run(COMPILE_ONE_KERNEL, POLYMARGIN_CACHE_DIR=str(tmp_path))
    assert again.stdout.split() == ["[0]"]
    assert again.stderr.count("compiling") == 1
    if damage != "a folder":
        assert run(COMPILE_ONE_KERNEL, POLYMARGIN_CACHE_DIR=str(tmp_path)).stderr == ""


def test_no_home_directory(tmp_path):
    obstacle = tmp_path / "file"
    obstacle.write_text("")
    environment = {"HOME": str(obstacle), "XDG_CACHE_HOME": "", "POLYMARGIN_CACHE_DIR": ""}
    result = run(COMPILE_ONE_KERNEL, **environment)
    assert result.stdout.split() == ["[0]"]


def test_bounds_checked_code_is_kept_apart(tmp_path):
    code = "from polymargin.compiled.jit import cache_directory; print(cache_directory())"
    directories = {
        run(code, POLYMARGIN_CACHE_DIR=str(tmp_path), NUMBA_BOUNDSCHECK=flag).stdout
        for flag in ["0", "1"]
    }
    assert len(directories) == 2


def test_cache_directory_follows_the_source(tmp_path):
    """One changed byte in any compiled file is another directory."""
    sources = sorted(COMPILED.glob("*.py"))
    for source in sources:
        (tmp_path / source.name).write_bytes(source.read_bytes())
    assert _jit.cache_directory(tmp_path) == _jit.cache_directory()
    seen = {_jit.cache_directory(tmp_path)}
    for source in sources:
        with (tmp_path / source.name).open("ab") as file:
            file.write(b"\n")
        seen.add(_jit.cache_directory(tmp_path))
    assert len(seen) == 1 + len(sources)


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_only_the_compiled_layer_compiles():
    """A compiled file outside the hashed folder would run stale machine code one day."""
    compiles = {"polymargin.compiled.jit", "numba", "numba.extending"}
    elsewhere = [path for path in SOURCE.rglob("*.py") if path.parent != COMPILED]
    assert [path for path in elsewhere if compiles & set(imports_of(path))] == []


def test_other_packages_keep_their_cache_directory():
    assert str(numba.config.CACHE_DIR) == os.environ.get("NUMBA_CACHE_DIR", "")


def test_compiled_functions_release_the_gil():
    from polymargin.compiled.pattern_descent import _passes

    assert _passes.targetoptions["nogil"]
    assert _passes.targetoptions["nopython"]
