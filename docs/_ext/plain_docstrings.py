"""Docstrings are plain text: ``C_`` is a name, ``|x|`` a size, an indented block a formula or code.

reStructuredText would read a trailing underscore as a link and bars as a substitution.  Text inside
backticks, roles and directives is left alone.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

QUOTED = re.compile(r"(:[a-z:]+:`[^`]*`|``.*?``|`[^`]*`_*)")
REFERENCE = re.compile(r"(?<=\w)_(?![\w_])")
DIRECTIVE = re.compile(r"^\s*\.\. ")


def escaped(line: str) -> str:
    """The line with marks of reStructuredText outside backticks made harmless."""
    parts = QUOTED.split(line)
    parts[::2] = [
        REFERENCE.sub(r"\\_", part).replace("|", r"\|").replace("*", r"\*") for part in parts[::2]
    ]
    return "".join(parts)


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())


def plain(app: Sphinx, what: str, name: str, item: object, options: Any, lines: list[str]) -> None:
    """Escape running text; leave directives with their bodies, and doctests."""
    directive: int | None = None
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        if directive is not None and indent_of(line) > directive:
            continue
        directive = (
            indent_of(line) if DIRECTIVE.match(line) or line.rstrip().endswith("::") else None
        )
        if directive is None and not line.lstrip().startswith((">>>", "...", ":", "**", "*")):
            lines[number] = escaped(line)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", plain, priority=400)
    return {"version": "1", "parallel_read_safe": True}
