"""What importing the package costs, what it shows, and which module may import which."""

import ast
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import polymargin

SOURCE = Path(polymargin.__file__).parent

# A module imports only from rows above its own, never from its own row or below.
ORDER = [
    {"exceptions", "_extras", "_jit", "_memory", "_threads", "_writing"},
    {"kernels", "machines", "encoding", "annealing", "initialization", "circulation"}
    | {"pattern_smo", "monitoring"},
    {"lanes"},
    {"fields", "biases", "sparse_rows"},
    {"shared_bias"},
    {"problem"},
    {"certificate", "history", "scoring", "validation"},
    {"verdict", "hull_certificate", "_callbacks"},
    {"solvers"},
    {"radius"},
    {"outcome", "classifier", "metric"},
    {"prototype_classifier", "tuned_parameters"},
    {"prototype_training"},
    {"estimators", "multi_prototype", "convex_hull", "inspection"},
    {"continuation", "margins"},
    {"multi_prototype_cv", "left_out", "cross_validation", "bounds", "tuning"},
    {"plots"},
    {"path"},
    {"files", "datasets", "progress"},
    {"export"},
    {"reporting"},
    {"report"},
    {"demo"},
    {"cli"},
    {"__main__"},
]
RANK = {name: rank for rank, row in enumerate(ORDER) for name in row}


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def modules():
    return sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def room(path):
    """The room of a file: its module, or the sub-package it lives in."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path):
    """Rooms of the package that a file imports, at module level or inside functions."""
    package = ["polymargin", *path.relative_to(SOURCE).parts[:-1]]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, node.module] if node.module else base)
            names = [f"{start}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "polymargin" and len(parts) > 1:
                found.add(parts[1])
    return found


def test_import_is_light():
    heavy = "numba", "sklearn", "scipy", "click"
    code = f"import sys, polymargin; print([m for m in {heavy!r} if m in sys.modules])"
    assert run(code).strip() == "[]"


def test_names_are_loaded_on_first_use():
    code = (
        "import sys, polymargin; from polymargin import MulticlassSVC;"
        "print(MulticlassSVC.__module__.partition('.')[0], 'sklearn' in sys.modules)"
    )
    assert run(code).split() == ["polymargin", "True"]


def test_unknown_name():
    with pytest.raises(AttributeError, match="no_such_name"):
        polymargin.no_such_name  # noqa: B018


def test_public_names():
    assert "MulticlassSVC" in dir(polymargin)
    assert "MulticlassSVC" in polymargin.__all__
    for name in polymargin.__all__:
        assert getattr(polymargin, name) is not None


def test_version():
    from importlib.metadata import version

    assert polymargin.__version__ == version("polymargin")


def test_typed():
    assert files("polymargin").joinpath("py.typed").is_file()


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    own = room(path)
    assert own in RANK, f"{own} has no place in the order of modules"
    for other in imported_rooms(path):
        if other == own and path.parent != SOURCE:
            continue  # inside one sub-package
        if other == "__version__":
            continue
        assert other in RANK, f"{other} has no place in the order of modules"
        assert RANK[other] < RANK[own], f"{own} must not import {other}"


def test_every_import_is_seen():
    """The parser above finds imports in all their forms."""
    assert imported_rooms(SOURCE / "estimators.py")
