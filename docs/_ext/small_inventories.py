"""Links to names of other libraries, from a list in this folder instead of a download.

``_inventories/names.txt`` has one line per name: library, role, name, page.  It is packed into the
format that intersphinx reads; nothing is fetched while the site is built.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

SITES = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "sklearn": "https://scikit-learn.org/stable/",
}


def pack(library: str, rows: list[list[str]], folder: Path) -> Path:
    """An objects.inv with these rows of role, name and page."""
    head = f"# Sphinx inventory version 2\n# Project: {library}\n# Version: \n"
    body = "".join(f"{name} {role} 1 {page} -\n" for role, name, page in rows)
    path = folder / f"{library}.inv"
    text = head + "# The remainder of this file is compressed using zlib.\n"
    path.write_bytes(text.encode() + zlib.compress(body.encode()))
    return path


def configure(app: Sphinx, config: Config) -> None:
    folder = Path(app.doctreedir).parent / "inventories"
    folder.mkdir(parents=True, exist_ok=True)
    lines = (
        (Path(app.confdir) / "_inventories" / "names.txt").read_text(encoding="utf-8").split("\n")
    )
    rows = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    config.intersphinx_mapping = {
        library: (site, str(pack(library, [r[1:] for r in rows if r[0] == library], folder)))
        for library, site in SITES.items()
    }


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", configure, priority=100)
    return {"version": "1", "parallel_read_safe": True}
