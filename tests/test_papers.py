"""The page of the papers names tests that exist, and every erratum once in its list."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
TABLES, LIST = PAGE.split("## All errata")
COUNTS = {"MP": 21, "SMO": 6, "WW": 5, "AD": 15, "M2": 8}


def errata(text):
    """Numbers in a text; "MP-11 to MP-15" is five of them."""
    found = set(re.findall(r"\b(?:MP|SMO|WW|AD|M2)-\d+\b", text))
    for name, first, last in re.findall(r"\b(MP|SMO|WW|AD|M2)-(\d+) to \1-(\d+)", text):
        found |= {f"{name}-{k}" for k in range(int(first), int(last) + 1)}
    return found


def test_every_test_exists():
    named = re.findall(r"`(test_\w+\.py)(?:::(test_\w+))?`", PAGE)
    assert len(named) > 30
    for file, function in named:
        source = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert not function or f"def {function}(" in source, f"{file}::{function}"


def test_errata():
    listed = re.findall(r"^- \*\*((?:MP|SMO|WW|AD|M2)-\d+)\*\*", LIST, flags=re.M)
    wanted = [f"{name}-{k}" for name, n in COUNTS.items() for k in range(1, n + 1)]
    assert listed == wanted
    assert errata(TABLES) == set(wanted)


def test_citation():
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    titles = " ".join(one["title"] for one in found["references"])
    for words in (
        "multi-prototype",
        "SMO-like",
        "Multi-class support",
        "AD-SVMs",
        "quadratic loss",
    ):
        assert words in titles
    assert all(one["notes"].startswith("Cite for") for one in found["references"])
