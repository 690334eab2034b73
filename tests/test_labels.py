"""Every equation label in the source stands in the theory pages."""

import re
import tokenize
from pathlib import Path

import pytest

import polymargin

SOURCE = Path(polymargin.__file__).parent
THEORY = Path(__file__).parent.parent / "docs" / "theory"
LABEL = re.compile(r"\((\d{1,2}\.\d{1,2})\)")


def labels(text):
    return set(LABEL.findall(text))


def prose(path):
    """Comments and triple-quoted strings: a number in the code itself is no label."""
    with path.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    return "\n".join(
        token.string
        for token in tokens
        if token.type == tokenize.COMMENT
        or (token.type == tokenize.STRING and token.string.lstrip("rbf").startswith('"""'))
    )


def test_theory_has_labels():
    text = "".join(page.read_text(encoding="utf-8") for page in THEORY.glob("*.md"))
    assert {"1.1", "1.2", "1.10"} <= labels(text)


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.stem)
def test_labels_exist(path):
    known = set()
    for page in THEORY.glob("*.md"):
        known |= labels(page.read_text(encoding="utf-8"))
    assert labels(prose(path)) <= known
