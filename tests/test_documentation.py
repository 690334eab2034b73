"""What the documentation prints is true: examples run, commands parse, pages and links exist."""

import ast
import contextlib
import doctest
import importlib
import inspect
import io
import re
import runpy
import shlex
import tomllib
import warnings
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import polymargin
from polymargin.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if not {"generated", "reproduction"} & set(p.parts))
FRONT = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
BLOCK = re.compile(r"^```([\w{}-]*)\n(.*?)^```", re.M | re.S)
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
        wrong = run_and_compare(code, page)
    assert wrong == []
    if "polymargin.plots" in code:
        importlib.import_module("matplotlib.pyplot").close("all")


NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
PROMISE = re.compile(r"#\s*(?:about )?(?=[-\d\[({'\"])([^:;]*)")


def run_and_compare(code, page):
    """Run it; lines whose value is not the one in the comment behind them, ``f(x)  # 0.85``."""
    names, wrong, lines = {"__name__": page.stem}, [], code.splitlines()
    for statement in ast.parse(code).body:
        line = lines[statement.end_lineno - 1]
        below = "".join(lines[statement.end_lineno : statement.end_lineno + 1])
        promise = PROMISE.match(line[statement.end_col_offset :].strip()) or PROMISE.match(below)
        said = io.StringIO()
        is_value = isinstance(statement, ast.Expr)
        tree = ast.Expression if is_value else lambda body: ast.Module([body], [])
        compiled = compile(
            tree(statement.value if is_value else statement),
            str(page),
            "eval" if is_value else "exec",
        )
        with contextlib.redirect_stdout(said):
            value = eval(compiled, names) if is_value else exec(compiled, names)
        text = said.getvalue() or repr(value)
        if is_value and promise and not keeps(promise.group(1), text):
            wrong.append(f"{line.strip()}  gives  {text.strip()}")
    return wrong


def keeps(promise, text):
    """Whether every number of the promise is printed, in its order, to the digits that it has."""
    printed = [float(number) for number in NUMBER.findall(text)]
    for number in NUMBER.findall(promise):
        digits = len(number.partition(".")[2])
        near = [k for k, x in enumerate(printed) if abs(x - float(number)) <= 0.51 * 10.0**-digits]
        if not near:
            return False
        printed = printed[near[0] + 1 :]
    return True


def test_broken_promises_are_seen():
    page = Path("page.md")
    assert run_and_compare("print(0.853)  # 0.85: as printed\n[1, 2]  # [1, 2]\n", page) == []
    assert run_and_compare("x = 1\nx + 1  # one more\n", page) == []  # words promise nothing
    assert len(run_and_compare("print(0.993)  # about 0.8: much is lost\n", page)) == 1
    assert len(run_and_compare("[2, 1]  # [1, 2]\n", page)) == 1
    assert len(run_and_compare("[2, 1]\n# [1, 2]\n", page)) == 1


GALLERY = sorted((ROOT / "examples" / "gallery").glob("*.py"))


@pytest.mark.parametrize("script", GALLERY, ids=lambda script: script.stem)
def test_gallery_scripts_run_and_draw(script, tmp_path, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    drawn = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: drawn.append(len(plt.get_fignums())))
    plt.switch_backend("agg")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        runpy.run_path(str(script))
    plt.close("all")
    assert drawn
    assert not list(tmp_path.iterdir()), "leaves files behind"


def test_gallery_has_an_order():
    order = (DOCS / "_ext" / "gallery_order.py").read_text(encoding="utf-8")
    listed = re.findall(r'^    "(\w+)",$', order, re.M)
    assert sorted(listed) == [script.stem for script in GALLERY]


def test_commands_of_the_home_page_run(tmp_path, monkeypatch):
    """In the order of the page, on the tables that its own block of Python makes."""
    monkeypatch.chdir(tmp_path)
    home = DOCS / "index.md"
    exec(next(code for code in blocks(home, "{code-cell}") if "data.csv" in code), {})
    commands = [line for line in "".join(blocks(home, "")).splitlines() if "polymargin " in line]
    lines = [line.partition("#")[0] for line in commands if line.startswith("polymargin ")]
    assert len(lines) >= 4
    for line in lines:
        result = CliRunner().invoke(main, shlex.split(line)[1:])
        assert result.exit_code == 0, f"{line}: {result.output}"
    assert {"model.pm", "model.h"} <= {path.name for path in tmp_path.iterdir()}


def test_home_page_and_readme_show_the_same_lines():
    lines = blocks(ROOT / "README.md", "python")[0]  # runs as a test; the home page in the build
    assert lines == blocks(DOCS / "index.md", "{code-cell}")[0]


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


ESTIMATORS = ["AutoSVC", "MulticlassSVC", "MultiPrototypeSVC", "MultiPrototypeSVCCV",
              "ConvexHullSVC", "dask.DaskMulticlassSVC", "dask.DaskMultiPrototypeSVC"]  # fmt: skip


@pytest.mark.parametrize("name", ESTIMATORS)
def test_methods_say_what_they_take_and_return(name):
    """The reference shows every method of an estimator; those of scikit-learn have their own."""
    if name.startswith("dask."):
        pytest.importorskip("distributed")
    place, _, short = f"polymargin.{name}".rpartition(".")
    kind = getattr(importlib.import_module(place), short)
    lacking = []
    for method, function in inspect.getmembers(kind, inspect.isfunction):
        if method.startswith("_") or not function.__module__.startswith("polymargin"):
            continue
        takes = len(inspect.signature(function).parameters) > 1
        text = inspect.getdoc(function) or ""
        if "Returns\n---" not in text or (takes and "Parameters\n---" not in text):
            lacking.append(method)
    assert lacking == []


def test_reference_has_every_public_name():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   ([\w.]+)$", text, re.M))
    assert {*public_names(), "MACHINES"} <= listed


def reference_names():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    return [name for name in re.findall(r"^   ([\w.]+)$", text, re.M) if name != "MACHINES"]


def find_name(name):
    """The object of a full name; a module is imported as far as there are modules."""
    parts = name.split(".")
    for n in range(len(parts) - 1, 0, -1):
        with contextlib.suppress(ModuleNotFoundError):
            found = importlib.import_module(".".join(parts[:n]))
            for part in parts[n:]:
                found = getattr(found, part, None)
            return found
    return None


@pytest.mark.parametrize("name", reference_names())
def test_see_also_leads_to_names_of_the_reference(name):
    if name.startswith(("dask.", "plots.")):
        pytest.importorskip("matplotlib" if name.startswith("plots.") else "distributed")
    place = f"polymargin.{name}".rpartition(".")[0]
    section = re.search(r"^See Also\n-+\n(.*?)(?=\n\n|\Z)",
                        inspect.getdoc(find_name(f"polymargin.{name}")), re.M | re.S)  # fmt: skip
    assert section, "has no section See Also"
    others = re.findall(r"^([\w.]+) :", section.group(1), re.M)
    known = {f"polymargin.{other}" for other in [*reference_names(), "MACHINES"]}
    for other in others:
        full = other if other.startswith(("polymargin.", "sklearn.")) else f"{place}.{other}"
        assert full.startswith("sklearn.") or full in known, other
        assert find_name(full) is not None, other
    assert others


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


def test_readme_on_pypi_needs_no_files():
    """What pyproject.toml makes of README.md has its words, and no picture or link that is lost."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    text = before = (ROOT / "README.md").read_text(encoding="utf-8")
    hook = settings["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    for rule in hook["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    assert "](docs/" in before
    assert re.findall(r"\]\((?!https?://|mailto:)[^)]*\)", text) == []
    assert BLOCK.findall(text) == BLOCK.findall(before)
    assert "which one for me?" in text


def test_anchors_of_statements_match_their_text():
    """``[(19.1)]{#label-19-1}``: the link of a mention is made from the text, see docs/_ext."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "theory").glob("*.md"))
    anchors = re.findall(r"\[\(?([A\d.]+)\)?\]\{#(label-[a\d-]+)\}", text)
    assert len(anchors) > 25
    assert [a for label, a in anchors if a != "label-" + label.lower().replace(".", "-")] == []
