"""Files that are either whole or not there, and optional libraries."""

from __future__ import annotations

import errno
import importlib
import os
from pathlib import Path
from typing import Any

from polymargin._writing import atomic_file

__all__ = ["need", "write_whole"]


def write_whole(path: str | os.PathLike[str], content: bytes) -> int:
    """Write a file under a temporary name and rename it: readers never see half of it.

    Parameters
    ----------
    path : str or path-like
        An existing file is replaced.
    content : bytes

    Returns
    -------
    int
        Bytes written.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "path is a folder; name a file in it", str(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder does not exist", str(target.parent))
    try:
        with atomic_file(target) as file:
            file.write(content)
    except OSError as error:  # the temporary name means nothing to the user
        raise type(error)(error.errno, error.strerror, str(path)) from error
    return len(content)


def need(module: str, purpose: str, extra: str) -> Any:
    """Import an optional library, or say what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs the package {module!r}, which is not installed: "
            f"pip install 'polymargin[{extra}]'."
        ) from error
