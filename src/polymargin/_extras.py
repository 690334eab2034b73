"""Libraries that are not always there: imported when needed, or a word on how to get them."""

from __future__ import annotations

import importlib
import json
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

__all__ = ["install_command", "need"]


def need(module: str, purpose: str, extra: str) -> Any:
    """Import an optional library, or say what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"{purpose} needs the package {package!r}, which is not installed: "
            f"{install_command(extra)}"
        ) from error


def install_command(extra: str) -> str:
    """The command that adds an extra to the installation at hand.

    What did not come from a package index (a checkout, a wheel, a repository) is named by the
    place it came from, which pip keeps in ``direct_url.json``; if that place is gone, the
    command names the packages of the extra.
    """
    from importlib import metadata

    try:
        installed = metadata.distribution("polymargin")
    except metadata.PackageNotFoundError:
        return f"pip install 'polymargin[{extra}]'"
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    target = _target(origin, extra)
    if target is None:
        wanted = [r for r in installed.requires or [] if f'extra == "{extra}"' in _plain(r)]
        target = [_plain(r).partition(";")[0].strip() for r in wanted]
    return shlex.join(["pip", "install", *target])


def _plain(requirement: str) -> str:
    return requirement.replace("'", '"')


def _target(origin: dict[str, Any], extra: str) -> list[str] | None:
    """What pip is to install; None if the folder or file that was installed is gone."""
    url = origin.get("url")
    if url is None:
        return [f"polymargin[{extra}]"]
    if url.startswith("file:"):
        from urllib.request import url2pathname  # slow to import, seldom needed

        path = url2pathname(urlsplit(url).path)
        if not Path(path).exists():
            return None
        is_editable = origin.get("dir_info", {}).get("editable", False)
        return ["-e"] * is_editable + [f"{path}[{extra}]"]
    vcs = origin.get("vcs_info")
    place = f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url
    return [f"polymargin[{extra}] @ {place}"]
