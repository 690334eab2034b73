"""Count what the source weighs: ``python tools/source_size.py [DIRECTORY]``, by default src.

A line of code is neither blank nor a comment nor part of a docstring, as the files stand (they are
ruff-formatted; ``make lint`` checks it).  Complexity is counted as ruff's C901 counts it, per
function, nested functions with their own number.  One table row per layer of ``polymargin``.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

LIMIT = 12
"""Complexity above which a function is counted; pyproject.toml has the same number."""

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler)


class Size(NamedTuple):
    """One file: lines of code, and length and complexity of every function."""

    lines: int
    lengths: list[int]
    complexities: list[int]


def docstring_lines(tree: ast.AST) -> set[int]:
    """Numbers of the lines that belong to docstrings and other bare strings."""
    found: set[int] = set()
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            found.update(range(value.lineno, (value.end_lineno or 0) + 1))
    return found


def code_lines(text: str, tree: ast.AST) -> set[int]:
    """Numbers of the lines of code."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    return found - docstring_lines(tree)


def parts(function: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a function that do not belong to a function inside it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, _FUNCTIONS):
            yield from parts(child)


def complexity(function: ast.AST) -> int:
    """Branches of the function and one."""
    count = 1
    for node in parts(function):
        if isinstance(node, _BRANCHES):
            count += 1
            if isinstance(node, ast.For | ast.AsyncFor | ast.While) and node.orelse:
                count += 1
        elif isinstance(node, ast.Try):
            count += bool(node.orelse) + bool(node.finalbody)
        elif isinstance(node, ast.Match):
            count += len(node.cases)
    return count


def measure(path: Path) -> Size:
    """What one file weighs."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    code = code_lines(text, tree)
    functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]
    lengths = [len(code & set(range(f.lineno, (f.end_lineno or 0) + 1))) for f in functions]
    return Size(len(code), lengths, [complexity(f) for f in functions])


def layers(root: Path) -> dict[str, list[Size]]:
    """The files of every layer: folders below the package, or below the directory itself."""
    packages = [path.parent for path in root.glob("*/__init__.py")]
    base = packages[0] if len(packages) == 1 else root
    found: dict[str, list[Size]] = {}
    for path in sorted(base.rglob("*.py")):
        inside = path.relative_to(base).parts
        found.setdefault(inside[0] if len(inside) > 1 else "(top)", []).append(measure(path))
    return found


def row(name: str, sizes: list[Size]) -> str:
    """One line of the table."""
    lengths = [length for size in sizes for length in size.lengths]
    above = sum(c > LIMIT for size in sizes for c in size.complexities)
    middle = median(lengths) if lengths else 0
    long = sum(length > 50 for length in lengths)
    lines = sum(size.lines for size in sizes)
    return f"{name:16}{len(sizes):7}{lines:8}{len(lengths):11}{middle:8g}{long:8}{above:8}"


def main(arguments: list[str]) -> None:
    """Print the table."""
    found = layers(Path(arguments[0] if arguments else "src"))
    print(
        f"{'layer':16}{'files':>7}{'lines':>8}{'functions':>11}{'median':>8}{'> 50':>8}{'c>12':>8}"
    )
    for name, sizes in sorted(found.items()):
        print(row(name, sizes))
    print(row("all", [size for sizes in found.values() for size in sizes]))


if __name__ == "__main__":
    main(sys.argv[1:])
