"""Every label that the source quotes is defined exactly once in the theory pages.

A definition is a numbered equation, ``$$ (1.2)``, or an anchor, ``[A8]{#label-a8}``.  Comments and
docstrings quote labels as ``(1.2)``, as ``A8``, or several in one pair of brackets.
"""

import re
import tokenize
from collections import Counter
from pathlib import Path

import pytest

import polymargin

SOURCE = Path(polymargin.__file__).parent
THEORY = Path(__file__).parent.parent / "docs" / "theory"
EQUATION = r"\d{1,2}\.\d{1,2}"
ALGORITHM = r"A\d{1,2}"
LABEL = re.compile(rf"\b(?:{ALGORITHM}|{EQUATION})\b")
BRACKETS = re.compile(rf"\((?:(?:{EQUATION}|{ALGORITHM})(?:, | and | to |-)?)+\)")
DEFINITION = re.compile(rf"^\$\$ \(({EQUATION})\)|\{{#label-([a-z0-9-]+)\}}", re.MULTILINE)
NUMBERS = {"(0.1, 1.0)"}  # brackets with two numbers that are no labels


def quoted(text):
    found = set(re.findall(rf"\b{ALGORITHM}\b", text))
    for group in BRACKETS.findall(text):
        if group not in NUMBERS:
            found |= set(LABEL.findall(group))
    return found


def defined(text):
    """Anchors are written in small letters, with a dash for the point."""
    return [
        equation or anchor.replace("-", ".").upper()
        for equation, anchor in DEFINITION.findall(text)
    ]


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


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("by (1.8): no room", {"1.8"}),
        ("the value V_p (A8)", {"A8"}),
        ("Annealing (A15) draws; greedy rounds (A14)", {"A14", "A15"}),
        ("one common height (A23, A24, 19.1)", {"A23", "A24", "19.1"}),
        ("a hard margin that does not exist (19.2)", {"19.2"}),
        ("(1.1)-(1.3)", {"1.1", "1.3"}),
        ("Factor in (0, 2)", set()),
    ],
)
def test_all_forms_are_seen(text, labels):
    assert quoted(text) == labels


def test_labels_are_defined_once():
    pages = [page.read_text(encoding="utf-8") for page in sorted(THEORY.glob("*.md"))]
    definitions = Counter(label for page in pages for label in defined(page))
    assert {"1.1", "19.2", "A8", "A15"} <= set(definitions)
    assert [label for label, count in definitions.items() if count > 1] == []
    unknown = {
        path.name: sorted(missing)
        for path in sorted(SOURCE.rglob("*.py"))
        if (missing := quoted(prose(path)) - set(definitions))
    }
    assert unknown == {}
