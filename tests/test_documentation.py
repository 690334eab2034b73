"""What the documentation prints is true: examples run, commands parse, pages and links exist."""

import doctest
import importlib
import re
import shlex
import warnings
from pathlib import Path

import click
import pytest

import polymargin
from polymargin.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if not {"generated", "reproduction"} & set(p.parts))
FRONT = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
NEEDS = {"onnxruntime": "onnxruntime", "skl2onnx": "skl2onnx", "distributed": "distributed",
         "matplotlib": "matplotlib", "polymargin.plots": "matplotlib", "to_onnx": "onnx",
         "export_model": "onnx"}  # fmt: skip


def is_executed(page):
    """Whether the page runs when the site is built."""
    return "file_format: mystnb" in page.read_text(encoding="utf-8")[:200]


def blocks(page, language):
    return [
        code for name, code in BLOCK.findall(page.read_text(encoding="utf-8")) if name == language
    ]


def pages_with_examples():
    """Pages with Python, but for those that run in the build or have a test of their own."""
    return [
        page
        for page in [ROOT / "README.md", *PAGES]
        if blocks(page, "python") and not is_executed(page) and page.name != "export.md"
    ]


@pytest.mark.parametrize("page", pages_with_examples(), ids=lambda page: page.stem)
def test_examples_run(page, tmp_path, monkeypatch):
    """The blocks of a page, one after the other, in an empty folder."""
    code = "\n".join(blocks(page, "python"))
    for word, module in NEEDS.items():
        if word in code:
            pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code, str(page), "exec"), {"__name__": page.stem})
    if "polymargin.plots" in code:
        importlib.import_module("matplotlib.pyplot").close("all")


def public_names():
    data = {"__version__", "MACHINES"}  # no functions or classes
    return [name for name in polymargin.__all__ if name not in data]


@pytest.mark.parametrize("name", public_names())
def test_public_names_have_examples(name):
    if name == "to_onnx":
        pytest.importorskip("onnx")
    item = getattr(polymargin, name)
    examples = doctest.DocTestParser().get_doctest(item.__doc__, {}, name, None, None)
    assert [e for e in examples.examples if not e.options.get(doctest.SKIP)], "has no example"
    said = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    doctest.DocTestRunner(optionflags=flags).run(examples, out=said.append)
    assert not said, "".join(said)


def test_reference_has_every_public_name():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   ([\w.]+)$", text, re.M))
    assert {*public_names(), "MACHINES"} <= listed


def commands(page):
    """Lines of code blocks, and code between backticks, that call the tool."""
    text = page.read_text(encoding="utf-8")
    lines = [line for _, code in BLOCK.findall(text) for line in code.splitlines()]
    lines += re.findall(r"^ {4}(polymargin .*)$", BLOCK.sub("", text), re.M)
    lines += re.findall(r"`(polymargin [^`\n]*)`", BLOCK.sub("", text))
    for line in lines:
        found = re.match(r"^(?:[!$] ?)?(?:pipx run )?(polymargin (?!COMMAND).*)$", line.strip())
        if found and "|bash" not in line.replace(" ", "") and "bash|zsh" not in line:
            yield re.split(r"\s+#|\s+[|>]|\s+2>", found.group(1))[0].replace("\\", "")


@pytest.mark.parametrize(
    "page", [*FRONT, *PAGES], ids=lambda page: f"{page.parent.name}-{page.stem}"
)
def test_commands_exist(page):
    """Every printed command has the options and the arguments that the program knows."""
    for line in commands(page):
        words = shlex.split(line)[1:]
        if not words or words[0].startswith("-") or words[0] == "...":
            continue
        if len(words) == 1 and words[0].isupper():
            continue
        with click.Context(main) as context:
            command = main.get_command(context, words[0])
            assert command is not None, line
            try:
                command.make_context(words[0], words[1:], parent=context)
            except click.exceptions.MissingParameter:
                pass  # `polymargin train` in a sentence
            except click.ClickException as error:
                pytest.fail(f"{line}: {error.format_message()}")


def test_every_page_is_in_a_table_of_contents():
    text = {page: page.read_text(encoding="utf-8") for page in PAGES}
    listed = set()
    for page, content in text.items():
        for body in re.findall(r"```\{toctree\}\n(.*?)```", content, re.S):
            for entry in body.split("\n"):
                if entry and not entry.startswith(":"):
                    listed.add((page.parent / f"{entry.strip()}.md").resolve())
    missing = [str(page.relative_to(DOCS)) for page in PAGES if page.resolve() not in listed]
    assert missing == ["index.md"]


@pytest.mark.parametrize("page", [*FRONT, ROOT / "ARCHITECTURE.md"], ids=lambda page: page.stem)
def test_links_of_front_pages(page):
    """Sphinx checks the links of the site; these files stand outside of it."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    targets = re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", text)
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_anchors_of_statements_match_their_text():
    """``[(19.1)]{#label-19-1}``: the link of a mention is made from the text, see docs/_ext."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "theory").glob("*.md"))
    anchors = re.findall(r"\[\(?([A\d.]+)\)?\]\{#(label-[a\d-]+)\}", text)
    assert len(anchors) > 25
    assert [a for label, a in anchors if a != "label-" + label.lower().replace(".", "-")] == []
