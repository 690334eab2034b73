"""What importing the package costs, what it shows, and which module may import which."""

import ast
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import polymargin

SOURCE = Path(polymargin.__file__).parent

# Layers from the ground up: a file imports from its own layer and from those listed before it.
LAYERS = [
    "exceptions",
    "_extras",
    "compiled",
    "problem",
    "datasets",
    "tables",
    "certificate",
    "solvers",
    "radius_margin",
    "estimators",
    "selection",
    "explanation",
    "storage",
    "dask",
    "plots",
    "export",
    "report",
    "reproduce",
    "cli",
    "__main__",
]
RANK = {name: rank for rank, name in enumerate(LAYERS)}
UPWARD = {
    ("selection/path/path_record.py", "plots"),  # RegularizationPath.plot draws itself
    ("estimators/explaining.py", "explanation"),  # methods that call the functions of their names
}


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def modules():
    return sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def layer(path):
    """The layer of a file: the folder it lives in, or itself at the top."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def walk_outside_type_checking(node):
    """All nodes but those of ``if TYPE_CHECKING``, which runs in no program."""
    if isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING":
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from walk_outside_type_checking(child)


def imported_layers(path):
    """Layers that a file imports, at module level or inside functions."""
    package = ["polymargin", *path.relative_to(SOURCE).parts[:-1]]
    found = set()
    for node in walk_outside_type_checking(ast.parse(path.read_text(encoding="utf-8"))):
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


def test_imports_point_one_way():
    wrong = []
    for path in modules():
        own = layer(path)
        assert own in RANK, f"{own} is no layer"
        for other in imported_layers(path) - {own, "__version__"}:
            assert other in RANK, f"{other} is no layer"
            name = path.relative_to(SOURCE).as_posix()
            if RANK[other] > RANK[own] and (name, other) not in UPWARD:
                wrong.append(f"{name} imports {other}")
    assert not wrong, "\n".join(wrong)


def test_every_import_is_seen():
    """The parser above finds imports in all their forms."""
    assert "problem" in imported_layers(SOURCE / "estimators" / "multiclass.py")


def test_no_two_files_have_one_name():
    names = [path.name for path in modules() if path.name != "__init__.py"]
    assert {name for name in names if names.count(name) > 1} == set()
