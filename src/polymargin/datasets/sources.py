"""Where data come from: files, compressed files, standard input; and which format they have."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any, BinaryIO

from polymargin.datasets.dataset import Progress
from polymargin.exceptions import DataFileError

__all__ = ["FORMATS", "Source", "open_source"]

FORMATS = ("csv", "tsv", "libsvm", "arff", "npz", "parquet")
_ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
    ".arff": "arff",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_BLOCK = 1 << 22
_SPARSE_ROW = re.compile(rb"\s*[^\s:,;]+(\s+(qid:\d+|\d+:[^\s:]+))*\s*(#.*)?$")


class Source:
    """A stream of bytes with a name, a peek at its beginning, and progress by bytes."""

    def __init__(self, name: str, raw: BinaryIO, size: int | None, progress: Progress | None):
        self.name = name
        self.size = size
        self.raw = raw
        self.stream: Any = raw
        self.progress = progress
        self.head = b""
        self.done = 0

    def peek(self, n: int = 1 << 16) -> bytes:
        """The first bytes, which are still to be read."""
        while len(self.head) < n:
            more = self._read(n - len(self.head))
            if not more:
                break
            self.head += more
        return self.head

    def _read(self, n: int) -> bytes:
        if self.stream is self.raw:
            return self.raw.read(n)
        try:
            return bytes(self.stream.read(n))
        except Exception as error:  # every packer has errors of its own
            raise self.error(f"cannot be unpacked: {' '.join(str(error).split())}") from error

    def block(self) -> bytes:
        """The next bytes, empty at the end."""
        data, self.head = self.head or self._read(_BLOCK), b""
        try:
            self.done = self.raw.tell()
        except (OSError, ValueError):
            self.done += len(data)
        if self.progress is not None:
            self.progress(self.done, self.size)
        return data

    @property
    def share_done(self) -> float | None:
        return self.done / self.size if self.size else None

    def whole(self) -> Any:
        """A seekable file of everything, for formats with an index."""
        if self.stream is self.raw and self.raw.seekable() and self.size is not None:
            self.raw.seek(0)
            return self.raw
        return io.BytesIO(b"".join(iter(self.block, b"")))

    def error(self, message: str, line: int | None = None) -> DataFileError:
        """A refusal that names the file and the line."""
        place = f"{self.name}: " if line is None else f"{self.name}, line {line}: "
        return DataFileError(place + message)


def open_source(path: str, progress: Progress | None = None) -> Source:
    """Open a file, or standard input for ``-``; compressed files are unpacked on the way."""
    if str(path) == "-":
        return Source("standard input", sys.stdin.buffer, None, progress)
    where = Path(path)
    if where.is_dir():
        raise DataFileError(f"{path}: is a folder, not a data file")
    raw = open(where, "rb")  # noqa: SIM115 - the caller closes it
    size = where.stat().st_size if where.is_file() else None
    source = Source(str(path), raw, size, progress)
    opener = _opener(raw.peek(8)[:8])
    if opener is not None:
        source.stream = opener(raw)
    return source


def _opener(magic: bytes) -> Any:
    if magic.startswith(b"\x1f\x8b"):
        import gzip

        return gzip.open
    if magic.startswith(b"BZh"):
        import bz2

        return bz2.open
    if magic.startswith(b"\xfd7zXZ"):
        import lzma

        return lzma.open
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        raise DataFileError("zstd files are not read; unpack the file first")
    return None


def format_of(source: Source) -> str:
    """The format by the ending of the name, or by what the beginning looks like."""
    endings = [e.lower() for e in Path(source.name).suffixes]
    for ending in reversed(endings):
        if ending in _ENDINGS:
            return _ENDINGS[ending]
        if ending not in (".gz", ".bz2", ".xz"):
            break
    head = source.peek()
    if head.startswith(b"PK\x03\x04"):
        return "npz"
    if head.startswith(b"PAR1"):
        return "parquet"
    lines = [line for line in head.splitlines()[:50] if line.strip()]
    if any(line.lstrip().lower().startswith(b"@relation") for line in lines):
        return "arff"
    lines = lines[:-1] or lines
    if lines and all(map(_SPARSE_ROW.match, lines)) and any(b":" in line for line in lines):
        return "libsvm"
    return "csv"


def check_text(source: Source) -> None:
    """Refuse what is empty or no text, before it is taken for a broken table."""
    head = source.peek()
    if not head.strip():
        raise source.error("is empty" if not head else "has no rows")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise source.error("is UTF-16 text; save it as UTF-8")
    if b"\r" in head and b"\n" not in head:
        raise source.error("ends its lines with carriage returns only; save it with newlines")
    if b"\0" in head:
        raise source.error("is a binary file of unknown format, not text")
