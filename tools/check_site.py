"""Check a built site: ``python tools/check_site.py site``.

Every link inside the site leads to a file that exists, and to an anchor that exists on it.  Nothing
that a browser loads by itself (scripts, styles, pictures, fonts) comes from elsewhere.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "embed": "src"}
STYLE_URL = re.compile(
    r"url\(\s*['\"]?((?:https?:)?//[^)'\"]+)|@import\s+['\"]((?:https?:)?//[^'\"]+)"
)


class Page(HTMLParser):
    """Anchors of a page, its links, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: list[str] = []
        self.loaded: list[str] = [a or b for a, b in STYLE_URL.findall(text)]
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") not in ("canonical", "search"):
            self.loaded.append(values.get("href", ""))
        if tag in LOADED and LOADED[tag] in values:
            self.loaded.append(values[LOADED[tag]])


def is_elsewhere(address: str) -> bool:
    return address.startswith("//") or urlsplit(address).scheme in ("http", "https")


def broken(site: Path) -> list[str]:
    """One line for every link that leads nowhere and everything that is loaded from elsewhere."""
    files = [p for p in site.rglob("*.html") if "_static" not in p.parts]  # parts of the theme
    pages = {p.resolve(): Page(p.read_text(encoding="utf-8")) for p in files}
    found = []
    for path, page in sorted(pages.items()):
        name = path.relative_to(site.resolve())
        found += [f"{name}: loads {a}" for a in page.loaded if is_elsewhere(a)]
        inside = [
            a for a in {*page.links, *page.loaded} if not urlsplit(a).scheme and a[:2] != "//"
        ]
        for address in sorted(inside):
            parts = urlsplit(address)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{name}: no file for {address}")
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name}: no anchor for {address}")
    for style in site.rglob("*.css"):
        urls = STYLE_URL.findall(style.read_text(encoding="utf-8"))
        found += [f"{style.relative_to(site)}: loads {a or b}" for a, b in urls]
    return found


def main() -> int:
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "site")
    if not (site / "index.html").is_file():
        print(f"{site} has no index.html; build it with: make docs", file=sys.stderr)
        return 2
    found = broken(site)
    print(
        "\n".join(found) or f"{len(list(site.rglob('*.html')))} pages: every link leads somewhere"
    )
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
