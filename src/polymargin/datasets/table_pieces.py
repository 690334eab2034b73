"""Tables of any size, piece by piece: every piece is a small file that the usual readers take.

A text is cut between rows, below a copy of its header; DuckDB cuts Parquet.  Layout (delimiter,
decimal mark, header) is that of the beginning of the first file, so that all pieces are read alike.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from polymargin.datasets import read_data
from polymargin.datasets.csv_layout import guess_layout
from polymargin.datasets.dataset import Dataset
from polymargin.datasets.duckdb_session import first_sentence, quoted_text
from polymargin.datasets.sources import Source, check_text, format_of, open_source
from polymargin.exceptions import DataFileError

__all__ = ["TABLE_KINDS", "kind_of", "table_pieces"]

TABLE_KINDS = ("csv", "tsv", "jsonl", "parquet")
_LEAST_MEMORY = 128 << 20
"""DuckDB's own memory while it cuts Parquet: below, row groups of wide tables do not fit."""
_VECTOR = 2048  # rows that DuckDB handles together; row groups are multiples of it

Piece = tuple[Path, dict[str, Any]]
"""A file, and what of its layout is known."""


def kind_of(file: Path) -> str:
    """The format of a file by its name, then by its beginning."""
    source = open_source(str(file))
    try:
        return format_of(source)
    finally:
        source.close()


def table_pieces(
    files: Sequence[Path],
    kind: str,
    reading: Mapping[str, Any],
    piece_bytes: int,
    folder: Path,
) -> Iterator[Dataset]:
    """Consecutive parts of tables with the same columns, read one at a time.

    Parameters
    ----------
    files : paths, one below the other.
    kind : one of TABLE_KINDS.
    reading : parameters of ``read_data``.
    piece_bytes : about the size of a piece.
    folder : where pieces are written; each is removed once it was read.
    """
    parts = folder / "parts"
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir(parents=True)
    cut = _parquet_parts if kind == "parquet" else _text_parts
    row = 0
    try:
        for path, known in cut(files, kind, reading, piece_bytes, parts):
            try:
                found = read_data(str(path), **{**reading, **known, "format": kind})
            except DataFileError as error:
                place = f"{files[0]} (from row {row} on)" if row else str(files[0])
                raise DataFileError(str(error).replace(str(path), place)) from None
            path.unlink()
            row += found.shape[0]
            yield found
    finally:
        shutil.rmtree(parts, ignore_errors=True)


# -- texts -------------------------------------------------------------------------------------


def _text_parts(
    files: Sequence[Path], kind: str, reading: Mapping[str, Any], piece_bytes: int, folder: Path
) -> Iterator[Piece]:
    known: dict[str, Any] = {"encoding": None}
    number = 0
    for file in files:
        source = open_source(
            str(file), max_bytes=reading.get("max_bytes"), encoding=reading.get("encoding")
        )
        try:
            check_text(source)
            quote, lines = "", 0
            if kind != "jsonl":
                quote, lines = _layout(source, kind, reading, known)
            for piece in _cut(source, piece_bytes, quote.encode(), lines):
                path = folder / f"{number}.{kind}"
                path.write_bytes(piece)
                yield path, known
                number += 1
        finally:
            source.close()


def _layout(
    source: Source, kind: str, reading: Mapping[str, Any], known: dict[str, Any]
) -> tuple[str, int]:
    """The quote and the lines of the header; the first file says how all are written."""
    from polymargin.datasets import _delimiter

    given = known if "delimiter" in known else reading
    delimiter = _delimiter(source, given.get("delimiter"))
    layout = guess_layout(
        source,
        "\t" if delimiter is None and kind == "tsv" else delimiter,
        given.get("header"),
        given.get("decimal"),
        reading.get("label"),
        may_be_single=False,
    )
    known |= {
        "delimiter": layout.delimiter,
        "decimal": layout.decimal,
        "header": layout.names is not None,
    }
    return layout.quote, layout.header_line


def _cut(source: Source, piece_bytes: int, quote: bytes, n_header: int) -> Iterator[bytes]:
    """Whole rows below the header; a newline between quotes ends no row."""
    header = b""
    waiting: list[bytes] = []
    size = quotes = 0
    for block in source.lines():
        while n_header and block:
            line, _, block = block.partition(b"\n")
            header += line + b"\n"
            n_header -= 1
        for some in _shorter(block, piece_bytes):
            waiting.append(some)
            size += len(some)
            quotes += some.count(quote) if quote else 0
            if size >= piece_bytes and quotes % 2 == 0:
                yield header + b"".join(waiting)
                waiting, size, quotes = [], 0, 0
    if b"".join(waiting).strip():
        yield header + b"".join(waiting)


def _shorter(block: bytes, size: int) -> Iterator[bytes]:
    """Whole lines, about ``size`` bytes at a time."""
    start = 0
    while start < len(block):
        end = block.find(b"\n", start + size) + 1 or len(block)
        yield block[start:end]
        start = end


# -- Parquet -----------------------------------------------------------------------------------


def _parquet_parts(
    files: Sequence[Path], kind: str, reading: Mapping[str, Any], piece_bytes: int, folder: Path
) -> Iterator[Piece]:
    import duckdb

    session = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "threads": "1",  # rows keep their order
        }
    )
    table = f"read_parquet([{', '.join(quoted_text(str(f)) for f in files)}], union_by_name=true)"
    try:
        session.execute(f"SET memory_limit = '{max(_LEAST_MEMORY, 2 * piece_bytes) >> 20}MiB'")
        session.execute(f"SET temp_directory = {quoted_text(str(folder / 'spill'))}")
        width = len(session.execute(f"DESCRIBE SELECT * FROM {table}").fetchall())
        group = max(1, piece_bytes // (8 * width * _VECTOR)) * _VECTOR
        session.execute(
            f"COPY (SELECT * FROM {table}) TO {quoted_text(str(folder / 'cut'))} (FORMAT parquet, "
            f"FILE_SIZE_BYTES {piece_bytes}, ROW_GROUP_SIZE {group}, COMPRESSION uncompressed)"
        )
    except duckdb.Error as error:
        raise DataFileError(f"{files[0]}: cannot be read: {first_sentence(error)}") from None
    finally:
        session.close()
    for path in sorted((folder / "cut").glob("*.parquet"), key=_number):
        yield path, {}


def _number(path: Path) -> tuple[int, str]:
    """Order of the pieces as DuckDB numbers them: data_0, data_1, ..., data_10."""
    digits = path.stem.rpartition("_")[2]
    return (int(digits), path.stem) if digits.isdigit() else (0, path.stem)
