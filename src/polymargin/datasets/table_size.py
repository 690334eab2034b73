"""What a Parquet file or JSON lines would take in memory, before they are read.

A few bytes of Parquet can stand for any number of equal values, and every key of JSON lines is a
column of all rows.  Neither may take more memory than other packed files may.
"""

from __future__ import annotations

from collections.abc import Sequence

from polymargin.datasets.duckdb_session import Session, quoted_name, quoted_text
from polymargin.datasets.sources import Source

__all__ = ["check_table_size"]

_CELL = 8  # bytes of a number, and of the reference to a text
_SHORTEST_ROW = 2  # bytes of a row of JSON


def check_table_size(
    session: Session,
    sources: Sequence[Source],
    kind: str,
    sql: str,
    types: Sequence[tuple[str, str]],
) -> None:
    """Refuse a table whose cells or texts exceed the limit of packed files.

    Raises
    ------
    DataFileError
        With the size and the limit.
    """
    limit = sum(source.packed_limit for source in sources)
    rows = _most_rows(sources) if kind == "jsonl" else _parquet_rows(session, sources)
    if rows * len(types) * _CELL > limit:
        rows = int(session.rows(f"SELECT count(*) FROM ({sql}) AS given")[0][0])
        _refuse_above(sources[0], rows * len(types) * _CELL, limit)
    if kind == "parquet" and _most_text(session, sources) > limit:
        measure = {"VARCHAR": "strlen", "BLOB": "octet_length"}
        sums = [
            f"coalesce(sum({measure[type_]}({quoted_name(name)})), 0)"
            for name, type_ in types
            if type_ in measure
        ]
        if sums:
            size = int(session.rows(f"SELECT {' + '.join(sums)} FROM ({sql}) AS given")[0][0])
            _refuse_above(sources[0], size, limit)


def _refuse_above(source: Source, size: int, limit: int) -> None:
    if size > limit:
        raise source.error(
            f"holds {size} bytes once it is unpacked, more than {limit}; if that is right, raise "
            "the limit with --max-bytes"
        )


def _most_rows(sources: Sequence[Source]) -> int:
    """No more rows than these are in JSON lines; what was unpacked counts unpacked."""
    return sum(max(source.size or 0, source.unpacked) for source in sources) // _SHORTEST_ROW


def _parquet_rows(session: Session, sources: Sequence[Source]) -> int:
    found = session.rows(f"SELECT sum(num_rows) FROM parquet_file_metadata({_paths(sources)})")
    return int(found[0][0] or 0)


def _most_text(session: Session, sources: Sequence[Source]) -> int:
    """No text of a column is longer than all of the column: so long can all texts be together."""
    found = session.rows(
        "SELECT sum(num_values::HUGEINT * greatest(total_uncompressed_size, 0)) "
        f"FROM parquet_metadata({_paths(sources)}) WHERE type LIKE '%BYTE_ARRAY'"
    )
    return int(found[0][0] or 0)


def _paths(sources: Sequence[Source]) -> str:
    return f"[{', '.join(quoted_text(source.binary_file()) for source in sources)}]"
