"""Labels of the theory, (1.2) or A8, are anchors and become links wherever they are mentioned.

Two ways define a label, once in all pages of ``theory``:

- an equation, ``$$ ... $$ (1.2)``: its anchor is ``equation-1-2``;
- a statement or algorithm, ``[(19.1)]{#label-19-1}`` or ``[A8]{#label-a8}``: that anchor.

Equations show their label as their number.  In running text, also that of docstrings, every
``(1.2)`` and ``A8`` that is defined somewhere becomes a link to it.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform

MENTION = re.compile(r"\((\d{1,2}\.\d{1,2})\)|\b(A\d{1,2})\b")
NO_LINKS = (nodes.literal, nodes.literal_block, nodes.reference, nodes.math, nodes.math_block,
            nodes.title, addnodes.desc_signature, nodes.doctest_block, nodes.target)  # fmt: skip


def number_equations(app: Sphinx, doctree: nodes.document) -> None:
    """Give labelled equations their label as number, and note the statements."""
    env = app.env
    equations = env.domains["math"].data["objects"]
    for node in doctree.findall(nodes.math_block):
        if label := node.get("label"):
            node["number"] = label
            equations[label] = (env.docname, label)
    statements = known_statements(env)
    for node in doctree.findall(nodes.inline):
        for name in node.get("ids", []):
            if name.startswith("label-"):
                statements[node.astext().strip("()")] = (env.docname, name)


def known_statements(env: BuildEnvironment) -> dict[str, tuple[str, str]]:
    if not hasattr(env, "theory_statements"):
        env.theory_statements = {}
    return env.theory_statements


def forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    statements = known_statements(env)
    for label in [label for label, (page, _) in statements.items() if page == docname]:
        del statements[label]


class LinkMentions(SphinxPostTransform):
    """Replace mentions of labels in text by links."""

    default_priority = 9  # before references are resolved

    def run(self, **options: Any) -> None:
        equations = self.env.domains["math"].data["objects"]
        places = {label: (page, nodes.make_id(f"equation-{label}"))
                  for label, (page, _) in equations.items()}  # fmt: skip
        places |= known_statements(self.env)
        for text in list(self.document.findall(nodes.Text)):
            if not self._is_inside(text, NO_LINKS) and not self._defines(text):
                self._link(text, places)

    def _is_inside(self, node: nodes.Node, kinds: tuple[type, ...]) -> bool:
        while node is not None:
            if isinstance(node, kinds):
                return True
            node = node.parent
        return False

    def _defines(self, text: nodes.Text) -> bool:
        return any(name.startswith("label-") for name in text.parent.get("ids", []))

    def _link(self, text: nodes.Text, places: dict[str, tuple[str, str]]) -> None:
        source = str(text)
        parts: list[nodes.Node] = []
        end = 0
        for found in MENTION.finditer(source):
            label = found.group(1) or found.group(2)
            if label not in places:
                continue
            page, anchor = places[label]
            uri = self.app.builder.get_relative_uri(self.env.docname, page)
            parts.append(nodes.Text(source[end : found.start()]))
            link = nodes.reference("", found.group(0), internal=True, refuri=f"{uri}#{anchor}")
            parts.append(link)
            end = found.end()
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(source[end:])])


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", number_equations)
    app.connect("env-purge-doc", forget)
    app.add_post_transform(LinkMentions)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
