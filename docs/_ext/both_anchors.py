"""Every documented name has two anchors: where it is imported from, and where it is defined.

Pages of source code (sphinx.ext.viewcode) lead back to the reference by one of the two, the same
for all names of a module.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx


def defined_in(module: str, fullname: str) -> str:
    """The module that a name (``Class.method``) imported from another one is defined in."""
    item = getattr(import_module(module), fullname.split(".")[0], None)
    return getattr(item, "__module__", module)


def add_anchors(app: Sphinx, doctree: nodes.document) -> None:
    for signature in doctree.findall(addnodes.desc_signature):
        module, fullname = signature.get("module"), signature.get("fullname")
        if not module or not fullname or not module.startswith("polymargin"):
            continue
        for place in ("polymargin", defined_in(module, fullname)):
            anchor = f"{place}.{fullname}"
            if anchor not in signature["ids"]:
                signature["ids"].append(anchor)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", add_anchors)
    return {"version": "1", "parallel_read_safe": True}
