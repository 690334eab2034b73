"""Files that are either whole or not there."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import secrets
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["atomic_file"]


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file that appears under its name only when all of it is written and on disk.

    What processes that were killed left behind on the way to the same name is removed first.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path}: is a folder; name a file in it.")
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        with open(target, "wb") as device:  # a device or a pipe cannot be replaced
            yield device
        return
    _remove_stale(target)
    # the name is known before the file is there, so that no signal between the two leaves it
    temporary = target.parent / f"{_start(target)}{os.getpid()}.{secrets.token_hex(8)}.part"
    try:
        with open(temporary, "xb", opener=_private) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(_mode(target))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _private(name: str, flags: int) -> int:
    """Open a file that no other user can read before it has its mode."""
    return os.open(name, flags, 0o600)


def _start(target: Path) -> str:
    """How names of temporary files begin: their target and this machine; the process follows."""
    return f".{target.name[:80]}.{zlib.crc32(platform.node().encode()):08x}-"


def _remove_stale(target: Path) -> None:
    """Remove temporary files of this target whose process, on this machine, is no more."""
    if os.name != "posix":  # elsewhere a process cannot be asked for without disturbing it
        return
    pattern = re.compile(re.escape(_start(target)) + r"(\d+)\.[^.]*\.part")
    with contextlib.suppress(OSError):
        for name in os.listdir(target.parent):
            match = pattern.fullmatch(name)
            if match and not _is_alive(int(match[1])):
                with contextlib.suppress(OSError):
                    (target.parent / name).unlink()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it belongs to another user
        return True
    return True


def _mode(target: Path) -> int:
    """The mode of the file that is replaced, or what a new file gets."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a crash, where folders can be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
