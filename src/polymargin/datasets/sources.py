"""Where data come from: files, packed files, standard input; their format and text encoding.

DuckDB reads plain UTF-8 files.  Whatever is packed, comes from standard input or has another
encoding is first written, line by line, to a file in a private temporary folder, with limits on the
unpacked size and on the length of a line.  The number of a line never changes on that way, so that
messages about the copy hold for the original.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from polymargin.datasets.dataset import Progress
from polymargin.exceptions import DataFileError, shown

__all__ = ["FORMATS", "LONGEST_LINE", "Source", "check_text", "format_of", "open_source"]

FORMATS = ("csv", "tsv", "libsvm", "arff", "npz", "parquet", "jsonl")
_SUFFIXES = {
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
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_PACKED = (".gz", ".bz2", ".xz", ".zst")
_BLOCK = 1 << 22
_SPARSE_ROW = re.compile(rb"\s*[^\s:,;]+(\s+(qid:\d+|\d+:[^\s:]+))*\s*(#.*)?$")

LONGEST_LINE = 1 << 26
"""Bytes of a line: a million columns of 60 characters, and memory for it is never a question."""

_UNPACKED_BYTES, _UNPACKED_RATIO = 1 << 30, 200
"""Unpacked size allowed by default: 1 GiB, or 200 times the packed size where that is more.  Tables
shrink by 3 to 30; a file that grows more than 200-fold beyond 1 GiB was made to fill a disk."""
_LONGEST_MESSAGE = 600


class Source:
    """A stream of bytes with a name, a peek at its beginning, and progress by bytes."""

    def __init__(
        self,
        name: str,
        raw: BinaryIO,
        size: int | None,
        progress: Progress | None,
        max_bytes: int | None = None,
    ) -> None:
        self.name = name
        self.size = size
        self.raw = raw
        self.stream: Any = raw
        self.progress = progress
        self.max_bytes = max_bytes
        self.encoding: str | None = None
        self.head = b""
        self.done = 0
        self.unpacked = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the file can be read where it is."""
        return self.stream is self.raw and self.size is not None

    @property
    def limit(self) -> int:
        """Unpacked bytes that are read at most."""
        if self.max_bytes is not None:
            return self.max_bytes
        return sys.maxsize if self.is_plain else self.packed_limit

    @property
    def packed_limit(self) -> int:
        """Bytes that something packed, also inside a plain file, may unpack to."""
        if self.max_bytes is not None:
            return self.max_bytes
        return max(_UNPACKED_BYTES, _UNPACKED_RATIO * (self.size or 0))

    def peek(self, n: int = 1 << 16) -> bytes:
        """The first bytes, which are still to be read."""
        while len(self.head) < n:
            more = self._read(max(n - len(self.head), 1 << 16))
            if not more:
                break
            self.head += more
        return self.head

    def peek_lines(self, count: int) -> bytes:
        """The beginning up to the end of line ``count``, or all there is; lines are bounded."""
        size = 1 << 16
        while True:
            head = self.peek(size)
            if head.count(b"\n") >= count or len(head) < size:
                return head
            if b"\n" in head and size >= 1 << 22:
                return head
            if size > LONGEST_LINE:
                raise self.too_long(1)
            size *= 2

    def check_decodes(self, head: bytes) -> None:
        """Refuse a beginning that is not in the encoding; its last character may be cut."""
        if self.encoding is not None:
            return
        try:
            codecs.getincrementaldecoder("utf-8")().decode(head)
        except UnicodeDecodeError as error:
            raise self.not_utf8(head.count(b"\n", 0, error.start) + 1) from None

    def not_utf8(self, line: int) -> DataFileError:
        """The refusal of a text in another encoding."""
        return self.error(
            "is not UTF-8 text; give its --encoding (cp1252 and latin-1 are frequent for Western "
            "European text)",
            line,
        )

    def too_long(self, line: int) -> DataFileError:
        """The refusal of a line without end."""
        return self.error(
            f"is longer than {LONGEST_LINE} bytes; is this a text file with a row per line?", line
        )

    def _read(self, n: int) -> bytes:
        try:
            data = bytes(self.stream.read(n))
        except Exception as error:  # every packer has errors of its own
            if self.stream is self.raw:
                raise
            raise self.error(f"cannot be unpacked: {' '.join(str(error).split())}") from error
        self.unpacked += len(data)
        if self.unpacked > self.limit:
            raise self.error(
                f"holds more than {self.limit} bytes once it is unpacked; if that is right, raise "
                "the limit with --max-bytes"
            )
        return data

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
        if self.is_plain and self.raw.seekable():
            self.raw.seek(0)
            return self.raw
        return io.BytesIO(b"".join(iter(self.block, b"")))

    def lines(self) -> Iterator[bytes]:
        """Blocks of whole lines in UTF-8, each ending with a newline."""
        rest: list[bytes] = []
        length, line = 0, 1
        for block in self._utf8_blocks():
            cut = block.rfind(b"\n") + 1
            if not cut:
                rest.append(block)
                length += len(block)
                if length > LONGEST_LINE:
                    raise self.too_long(line)
                continue
            whole = b"".join([*rest, block[:cut]])
            yield whole
            line += whole.count(b"\n")
            rest, length = [block[cut:]], len(block) - cut
        last = b"".join(rest)
        if last:
            yield last + b"\n"

    def _utf8_blocks(self) -> Iterator[bytes]:
        decoder = None if self.encoding is None else codecs.getincrementaldecoder(self.encoding)()
        first, line = True, 1
        for block in iter(self.block, b""):
            if decoder is not None:
                try:
                    block = decoder.decode(block).encode()
                except UnicodeError as error:
                    raise self.error(
                        f"is not {self.encoding} text ({error}); give another --encoding", line
                    ) from None
            if first:
                block, first = block.removeprefix(b"\xef\xbb\xbf"), False
            if b"\0" in block:
                raise self.error(
                    "holds NUL characters, which no text has; give its --encoding (utf-16 and "
                    "utf-32 begin with a mark), or mend it"
                )
            line += block.count(b"\n")
            yield block

    # -- files for DuckDB ----------------------------------------------------------------------

    def folder(self) -> Path:
        """A private folder for copies, removed by ``close``."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="polymargin-")
        return Path(self._folder.name)

    @property
    def _is_ready(self) -> bool:
        """Whether DuckDB can read the file where it is."""
        return self.is_plain and self._has_plain_name

    @property
    def _has_plain_name(self) -> bool:
        """Whether DuckDB takes the name for one file: some are globs, some are no text."""
        where = str(Path(self.name).absolute())
        is_text = not any("\ud800" <= c <= "\udfff" for c in where)
        return is_text and not set(where) & set("*?[]{}")

    def packed_file(self) -> str:
        """The file as it is, still packed, where DuckDB can open it."""
        if self.size is not None and self._has_plain_name:
            return str(Path(self.name).absolute())
        target = self.folder() / "packed.zst"
        with open(target, "wb") as file:
            shutil.copyfileobj(self.raw, file)
        return str(target)

    def file(self, rewrite: Callable[[bytes], bytes] | None = None) -> str:
        """A plain UTF-8 file with the same lines; ``rewrite`` maps blocks of whole lines."""
        if rewrite is None and self._mixes_line_ends():
            rewrite = _with_newlines
        if self._is_ready and self.encoding is None and rewrite is None:
            return str(Path(self.name).absolute())
        target = self.folder() / "table.csv"
        with open(target, "wb") as file:
            for block in self.lines():
                file.write(block if rewrite is None else rewrite(block))
        return str(target)

    def _mixes_line_ends(self) -> bool:
        """Whether the file begins with lines of both kinds, which DuckDB refuses."""
        head = self.peek()
        return self.encoding is None and 0 < head.count(b"\r\n") < head.count(b"\n")

    def binary_file(self) -> str:
        """A plain file with the same bytes."""
        if self._is_ready:
            return str(Path(self.name).absolute())
        target = self.folder() / "table.bin"
        if target.exists():  # the stream is read once
            return str(target)
        with open(target, "wb") as file:
            for block in iter(self.block, b""):
                file.write(block)
        return str(target)

    def close(self) -> None:
        """Close the file and remove copies."""
        if self.stream is not self.raw:
            self.stream.close()
        if self.size is not None:
            self.raw.close()
        if self._folder is not None:
            self._folder.cleanup()

    def error(self, message: str, line: int | None = None) -> DataFileError:
        """A refusal that names the file and the line."""
        place = f"{self.name}: " if line is None else f"{self.name}, line {line}: "
        if len(message) > _LONGEST_MESSAGE:  # names and values in it come from the file
            message = message[:_LONGEST_MESSAGE] + " ..."
        return DataFileError(place + message)


def open_source(
    path: str,
    progress: Progress | None = None,
    *,
    max_bytes: int | None = None,
    encoding: str | None = None,
) -> Source:
    """Open a file, or standard input for ``-``; packed files are unpacked on the way."""
    if str(path) == "-":
        source = Source("standard input", sys.stdin.buffer, None, progress, max_bytes)
        source.encoding = _codec(source, encoding)
        return source
    where = Path(path)
    if "\0" in str(path) or not str(path):
        raise DataFileError(f"{str(path)!r}: is no name of a file")
    if where.is_dir():
        raise DataFileError(f"{path}: is a folder, not a data file; name the files in it")
    raw = open(where, "rb")  # noqa: SIM115 - the caller closes it
    size = where.stat().st_size if where.is_file() else None
    source = Source(str(path), raw, size, progress, max_bytes)
    with contextlib.ExitStack() as stack:
        stack.callback(source.close)
        opener = _opener(source, raw.peek(8)[:8])
        if opener is not None:
            source.stream = opener(raw)
        source.encoding = _codec(source, encoding)
        stack.pop_all()
    return source


def _codec(source: Source, name: str | None) -> str | None:
    """The encoding to decode from; None for UTF-8.  A byte order mark of UTF-16 decides."""
    if name is None:
        start = source.peek(4)[:2]
        return "utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else None
    try:
        info = codecs.lookup(name)
        "".encode(name)
    except (LookupError, ValueError):
        raise source.error(
            f"encoding must be one that Python knows, such as utf-8, latin-1, cp1252 or utf-16, "
            f"got {shown(name)}"
        ) from None
    return None if info.name in ("utf-8", "ascii") else info.name


def _opener(source: Source, magic: bytes) -> Any:
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
        return _zstd_opener(source)
    return None


def _zstd_opener(source: Source) -> Any:
    """Python 3.14 reads zstd; before that DuckDB does, line by line."""
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]

        return zstd.open
    except ImportError:
        from polymargin.datasets.duckdb_session import ZstdLines

        return lambda raw: ZstdLines(source)


def format_of(source: Source) -> str:
    """The format by the suffix of the name, or by what the beginning looks like."""
    suffixes = [suffix.lower() for suffix in Path(source.name).suffixes]
    for suffix in reversed(suffixes):
        if suffix in _SUFFIXES:
            return _SUFFIXES[suffix]
        if suffix not in _PACKED:
            break
    head = source.peek()
    if head.startswith(b"PK\x03\x04"):
        return "npz"
    if head.startswith(b"PAR1"):
        return "parquet"
    lines = [line for line in head.splitlines()[:50] if line.strip()]
    if any(line.lstrip().lower().startswith(b"@relation") for line in lines):
        return "arff"
    if lines and lines[0].lstrip().startswith((b'{"', b"[{")):
        return "jsonl"
    lines = [line for line in lines[:-1] or lines if len(line) < 10_000]
    if lines and all(map(_SPARSE_ROW.match, lines)) and any(b":" in line for line in lines):
        return "libsvm"
    return "csv"


def _with_newlines(lines: bytes) -> bytes:
    return lines.replace(b"\r\n", b"\n")


def check_text(source: Source) -> None:
    """Refuse what is empty or no text, before it is taken for a broken table."""
    head = source.peek()
    if source.encoding is None:
        body = head.removeprefix(b"\xef\xbb\xbf")
        if not body.strip():
            raise source.error("is empty" if not body else "has no rows")
        if b"\r" in head and b"\n" not in head:
            raise source.error("ends its lines with carriage returns only; save it with newlines")
        if b"\0" in head:
            raise source.error(
                "is a binary file of unknown format, not text (if it is text, give its --encoding)"
            )
    elif not head:
        raise source.error("is empty")
