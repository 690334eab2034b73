"""The page of the papers names tests that exist, and every erratum once in its list."""

import inspect
import re
from dataclasses import fields
from pathlib import Path

import click
import pytest

import polymargin
from polymargin.certificate.hull_gap import judge_hulls
from polymargin.cli import main
from polymargin.reproduce.catalogue import EXPERIMENTS

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


ESTIMATORS = (polymargin.MulticlassSVC, polymargin.MultiPrototypeSVC, polymargin.ConvexHullSVC)
NAMES = {*polymargin.__all__, "judge_hulls", "callable"}
NAMES |= {field.name for field in fields(polymargin.RadiusMarginBound)}
assert callable(judge_hulls)  # not public, and named on the page


def functions():
    """What stands in backticks in the columns "function" and "cite it for"."""
    found = []
    for line in TABLES.splitlines():
        columns = [column.strip() for column in line.strip("|").split("|")]
        if line.startswith("|") and len(columns) in (3, 4):
            found += re.findall(r"`([^`]+)`", columns[2 if len(columns) == 3 else 1])
    return list(dict.fromkeys(found))


def has_parameter(name):
    owners = [*ESTIMATORS, polymargin.PatternSMO, polymargin.Annealing, polymargin.WorkingSets]
    return any(name in inspect.signature(one).parameters for one in [*owners, polymargin.Machine])


def is_there(name):
    """A public name, a method, a fitted attribute of a class's page, or an experiment."""
    return (
        name in NAMES
        or name in EXPERIMENTS
        or any(hasattr(one, name) for one in ESTIMATORS)
        or any(re.search(rf"^    {name} :", one.__doc__, flags=re.M) for one in ESTIMATORS)
    )


def problems(code):
    """Names of a piece of code of the page that are not in the library."""
    if code.startswith("polymargin "):
        command, name = code.split()[1:]
        return [] if command == "reproduce" and name in EXPERIMENTS else [code]
    if code.startswith("--"):
        context = click.Context(main)
        commands = [main.get_command(context, name) for name in main.list_commands(context)]
        known = {opt for one in commands for parameter in one.params for opt in parameter.opts}
        return [word for word in code.split() if word.startswith("--") and word not in known]
    text = re.sub(r'"[^"]*"', "0", code)
    keywords = re.findall(r"(\w+)=", text)
    names = re.findall(r"(?<![\w.])([A-Za-z_][\w-]*)(?![\w=])", re.sub(r"\w+=", " ", text))
    wrong = [name for name in keywords if not has_parameter(name)]
    for owner, name in re.findall(r"(\w+)\.([a-z]\w+)", text):
        wrong += [] if hasattr(getattr(polymargin, owner), name) else [name]
    return wrong + [name for name in names if not is_there(name)]


def test_every_function_exists():
    found = functions()
    assert len(found) > 45
    assert {code: problems(code) for code in found if problems(code)} == {}
    for wrong in ("PatternSMO(nothing=1)", "nothing_", "ConvexHullSVC.nothing", "--nothing",
                  "polymargin reproduce nothing"):  # fmt: skip
        assert problems(wrong)


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
