"""The one ``jit`` decorator: compiled once, cached by version and source, never stale or fatal.

Numba keys its on-disk cache on the file of the *caller* only, so a changed callee in another file
would silently run old machine code.  Here the cache directory itself carries a hash of every
compiled source file, of the versions and of the bounds-check flag (which Numba's key leaves out).

Every file in it carries a checksum.  A damaged file counts as absent: the function is compiled
again and the file replaced.  What cannot be written is not kept; the fit goes on.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import event
from numba.core.caching import IndexDataCacheFile
from numba.extending import register_jitable

__all__ = ["INLINED", "allocating", "cache_directory", "exact", "inlined", "jit"]

FASTMATH = frozenset({"reassoc", "nsz", "contract", "arcp"})
"""Enough freedom to vectorise dot products; NaN and infinity keep their meaning."""

# nobody calls these functions from C: that wrapper would cost a tenth of the compile time
_OPTIONS = {"fastmath": set(FASTMATH), "no_cfunc_wrapper": True, "_nrt": False}
INLINED = {**_OPTIONS, "forceinline": True}
"""Options of functions that become part of their callers."""

Function = TypeVar("Function", bound=Callable[..., Any])


def _user_cache() -> Path:
    chosen = os.environ.get("POLYMARGIN_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "polymargin"


def cache_directory(sources: Path = Path(__file__).parent) -> Path:
    """Directory of the compiled code of exactly these sources, versions and flags."""
    digest = hashlib.sha256()
    for source in sorted(sources.glob("*.py")):
        digest.update(source.read_bytes())
    digest.update(f"{numba.__version__} {sys.version} {numba.config.BOUNDSCHECK}".encode())
    return _user_cache() / digest.hexdigest()[:16]


def _writable_cache() -> str | None:
    try:
        directory = cache_directory()
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / f".probe-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except (OSError, RuntimeError):
        return None
    return str(directory)


class _CheckedCacheFile(IndexDataCacheFile):
    """Numba's index and data files with a SHA-256 in front; files that do not match are ignored.

    Numba itself raises whatever unpickling a damaged file raises, and would run damaged code.
    """

    _DIGEST = hashlib.sha256().digest_size

    def save(self, key: Any, data: Any) -> None:
        """Keep compiled code, if it can be written."""
        with contextlib.suppress(OSError):
            super().save(key, data)

    def _load_index(self) -> dict[Any, str]:
        try:
            version, stamp, overloads = self._read(self._index_path)
        except OSError:
            return {}
        is_current = version == self._version and stamp == self._source_stamp
        return overloads if is_current else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return self._read(self._data_path(name))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)

    def _read(self, path: str) -> Any:
        content = Path(path).read_bytes()
        digest, payload = content[: self._DIGEST], content[self._DIGEST :]
        if hashlib.sha256(payload).digest() != digest:
            raise OSError(f"{path} is damaged")
        return pickle.loads(payload)

    def _write(self, path: str, content: Any) -> None:
        payload = self._dump(content)
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(payload).digest() + payload)


class _Announcer(event.Listener):
    """Says once, on stderr, that polymargin compiles: the first fit takes seconds, not more."""

    def __init__(self) -> None:
        self.silent = False

    def on_start(self, event: Any) -> None:
        dispatcher = (event.data or {}).get("dispatcher")
        module = getattr(getattr(dispatcher, "py_func", None), "__module__", "") or ""
        if self.silent or not module.startswith("polymargin"):
            return
        self.silent = True
        where = f"kept in {_CACHE}" if _CACHE else "no writable cache directory, so every time"
        print(f"polymargin: compiling for first use ({where})", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        pass


_CACHE = None if numba.config.DISABLE_JIT else _writable_cache()
event.register("numba:compile", _Announcer())


def allocating(function: Function) -> Function:
    """``jit`` for functions that make arrays."""
    return jit(function, _nrt=True)


def inlined(function: Function) -> Function:
    """A small helper of hot loops: its code becomes part of every compiled caller.

    Python runs it as it is written: what Python needs to call compiled code is not compiled.
    """
    compiled: Function = register_jitable(**INLINED)(function)
    return compiled


def exact(function: Function) -> Function:
    """``jit`` for loops whose sums must keep their order: no rounding error may be reordered."""
    return jit(function, fastmath={"nsz", "contract"})


def _checked(dispatcher: Any) -> Any:
    cache = dispatcher._cache
    stamp = cache._impl.locator.get_source_stamp()
    cache._cache_file = _CheckedCacheFile(cache.cache_path, cache._impl.filename_base, stamp)
    return dispatcher


def jit(function: Function, **more: Any) -> Function:
    """Compile in nopython mode without the GIL, with the cache of this very source if there is one.

    The function makes no arrays of its own (Numba refuses to compile one that does).  So nothing
    has to count references, which is a sixth of the code that Numba would write.
    """
    options = {**_OPTIONS, "nogil": True, **more}
    if _CACHE is not None:
        # Numba reads its cache directory at decoration, so it is set only for that moment: other
        # packages keep their own
        before = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = _CACHE
        try:
            return _checked(numba.njit(cache=True, **options)(function))
        except (RuntimeError, OSError):
            pass
        finally:
            numba.config.CACHE_DIR = before
    return numba.njit(**options)(function)
