"""Documentation pages and docstrings: no formula is taken for an HTML tag."""

import ast
import re
from pathlib import Path

import polymargin

SOURCE = Path(polymargin.__file__).parent
ROOT = Path(__file__).parents[1]
HTML = {"a", "b", "br", "div", "em", "details", "img", "p", "sub", "summary", "sup", "svg", "table"}
TAG = re.compile(r"</?([A-Za-z][\w]*)")


def prose(markdown):
    """The text without code: fenced and indented blocks, and what stands between backticks."""
    text = re.sub(r"^```.*?^```", "", markdown, flags=re.M | re.S)
    text = re.sub(r"^(?: {4}|\t).*$", "", text, flags=re.M)
    return re.sub(r"(`+).*?\1", "", text, flags=re.S)


def swallowed(text):
    return [found.group(0) for found in TAG.finditer(text) if found.group(1).lower() not in HTML]


def test_pages():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    found = {page.name: swallowed(prose(page.read_text(encoding="utf-8"))) for page in pages}
    assert {name: tags for name, tags in found.items() if tags} == {}


def test_docstrings():
    found = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = prose(ast.get_docstring(node) or "")
                if tags := swallowed(text):
                    found[f"{path.name}: {getattr(node, 'name', '')}"] = tags
    assert found == {}


def test_what_is_swallowed():
    assert swallowed("the score <w_k, phi(x)> of <b>class</b> k < l") == ["<w_k"]
    assert swallowed(prose("`<w_k, x>`\n\n    <w_k, x>\n\n```\n<w, x>\n```\n")) == []
