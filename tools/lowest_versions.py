"""Prints the lowest versions that pyproject.toml admits, as requirements for pip.

python -m venv lowest
lowest/bin/pip install -r <(python tools/lowest_versions.py)
PYTHONPATH=src lowest/bin/python -m pytest -q tests/test_files.py tests/test_datasets.py
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

_PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
_BOUND = re.compile(r"([\w\-]+(?:\[[\w,\-]+\])?)>=([\d.]+)")


def lowest() -> dict[str, str]:
    """Requirement and version of all dependencies, those of the tests included."""
    project = tomllib.loads(_PYPROJECT.read_text())["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["test"]
    matches = [_BOUND.fullmatch(one) for one in wanted]
    return {match[1]: match[2] for match in matches if match is not None}


if __name__ == "__main__":
    for name, version in lowest().items():
        print(f"{name}=={version}")
