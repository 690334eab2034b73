"""No formula of pages and docstrings is taken for an HTML tag; broken links of a site are found."""

import ast
import re
import runpy
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


def test_broken_links_of_a_site_are_found(tmp_path):
    (tmp_path / "other.html").write_text('<h1 id="here">x</h1>', encoding="utf-8")
    (tmp_path / "style.css").write_text("@import 'https://fonts.example/a.css';", encoding="utf-8")
    page = tmp_path / "index.html"
    good = '<a href="other.html#here">x</a><a href="#top">x</a><a href="https://a.example">x</a>'
    bad = (
        '<a href="gone.html">x</a><a href="other.html#there">x</a><img src="//b.example/c.png">'
        '<link rel="stylesheet" href="style.css">'
    )
    broken = runpy.run_path(str(ROOT / "tools" / "check_site.py"))["broken"]
    page.write_text(good, encoding="utf-8")
    assert broken(tmp_path) == ["style.css: loads https://fonts.example/a.css"]
    page.write_text(good + bad, encoding="utf-8")
    assert sorted(broken(tmp_path)) == [
        "index.html: loads //b.example/c.png",
        "index.html: no anchor for other.html#there",
        "index.html: no file for gone.html",
        "style.css: loads https://fonts.example/a.css",
    ]
