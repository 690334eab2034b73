"""Files that are either whole or not there, and optional libraries."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from polymargin.storage.atomic import atomic_file

__all__ = ["write_whole"]


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
