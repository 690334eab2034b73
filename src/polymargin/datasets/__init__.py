"""Readers of data files: CSV, TSV, JSON lines, Parquet, LIBSVM, ARFF, NPZ; also standard input."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polymargin.datasets.dataset import ColumnRequest, ColumnSpec, Dataset, Progress, Wanted
from polymargin.datasets.sources import FORMATS, Source, check_text, format_of, open_source
from polymargin.exceptions import DataFileError, shown

__all__ = ["FORMATS", "ColumnSpec", "Dataset", "Wanted", "read_data"]

_TABLES = ("csv", "tsv", "jsonl", "parquet")


def read_data(
    path: str | Sequence[str],
    *,
    format: str | None = None,
    label: str | int | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    missing: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    ignore: Sequence[str | int] = (),
    query: str | None = None,
    group: str | int | None = None,
    part: str | None = None,
    wanted: Wanted | None = None,
    need_label: bool = True,
    dtype: Any = "float64",
    max_bytes: int | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Read a data file.

    Parameters
    ----------
    path : str or sequence of str
        ``-`` is standard input; files packed with gzip, bzip2, xz or zstd are unpacked.  Several
        files, or a pattern such as ``data/*.csv``, are tables with the same columns that are read
        one below the other.
    format : {"csv", "tsv", "libsvm", "arff", "npz", "parquet", "jsonl"} or None
        None goes by the suffix of the name, then by the beginning of the file.
    label : str, int or None
        Label column: its name, or its number from 0 (negative from the end).  None is the last.
    header : bool or None
        Whether the first row of a table holds names; None guesses.
    delimiter : str or None
        One character, or "tab" or "space" (any run of blanks); None guesses.
    decimal : {".", ","} or None
        Decimal mark of numbers; None guesses.
    encoding : str or None
        Encoding of a text; None is UTF-8, or UTF-16 where the file says so.
    missing : sequence of str
        Further texts that stand for no value, beside the usual ones (empty, NA, ?, null, ...).
    kinds : mapping of str to {"number", "text"} or None
        Columns that are to be read as numbers or as text whatever they look like.
    ignore : sequence of str or int
        Columns to leave out.
    query : str or None
        One SELECT over the files, each of which is a table with its name without suffix; the first
        one is also called ``data``.
    group : str, int or None
        Column that names groups of rows (speakers, patients, documents); it is no feature.
    part : {"train", "test", "validation"} or None
        NPZ: the rows listed in ``train_idx``, ``test_idx`` or ``val_idx``.
    wanted : Wanted or None
        What a model expects: columns are matched by name where both have names, else by number.
    need_label : bool, default=True
        Whether labels are needed.
    dtype : default="float64"
        Of X; "float32" takes half the memory.
    max_bytes : int or None
        Largest size of an unpacked file; None allows 1 GiB or 200 times the packed size.
    progress : callable or None
        Called with the bytes read and the size of the file (None if unknown).

    Returns
    -------
    Dataset

    Raises
    ------
    DataFileError
        One line that names the file, the line, the column and what is wrong.

    See Also
    --------
    polymargin.open_rows : Files larger than memory.
    """
    from polymargin.datasets.text_table import TextOptions

    paths = _expand([path] if isinstance(path, str | Path) else path)
    opened: list[Source] = []
    try:
        for one in paths:
            opened.append(open_source(one, progress, max_bytes=max_bytes, encoding=encoding))
        options = TextOptions(None, header, decimal, tuple(missing), dict(kinds or {}))
        options.delimiter = _delimiter(opened[0], delimiter)
        if decimal not in (None, ".", ","):
            raise opened[0].error(f"decimal must be '.' or ',', got {shown(decimal)}")
        request = ColumnRequest(label, ignore, wanted, need_label, group)
        if query is not None:
            from polymargin.datasets.typed_table import read_query

            formats = [format] * len(opened)
            table = read_query(opened, formats, query, options, request)
            return _named(table.dataset(dtype, wanted), "query")
        kind = format or format_of(opened[0])
        if kind in _TABLES:
            table = _read_table(opened, kind, options, request)
            return _named(table.dataset(dtype, wanted), kind)
        if len(opened) > 1:
            raise opened[1].error(f"several files can be read as one table, but not as {kind}")
        return _named(_read_other(opened[0], kind, part, options, request, dtype), kind)
    finally:
        for source in opened:
            source.close()


def _named(data: Dataset, kind: str) -> Dataset:
    data.kind = kind
    return data


def _expand(patterns: Sequence[str]) -> list[str]:
    """The files of patterns, in the order of their names."""
    found: list[str] = []
    for pattern in map(str, patterns):
        if glob.has_magic(pattern) and not Path(pattern).exists():
            files = sorted(glob.glob(pattern, recursive=True))
            if not files:
                raise DataFileError(f"{pattern}: no file has such a name")
            found += files
        else:
            found.append(pattern)
    if not found:
        raise DataFileError("no data file was given")
    return found


def _delimiter(source: Source, delimiter: str | None) -> str | None:
    named = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
    if delimiter is None:
        return None
    delimiter = named.get(delimiter, delimiter)
    is_odd = delimiter in "\r\n\"'0123456789.\\" or not delimiter.isascii()
    if len(delimiter) != 1 or is_odd:
        raise source.error(f"delimiter must be one character, tab or space, got {shown(delimiter)}")
    return delimiter


def _read_table(opened: list[Source], kind: str, options: Any, request: ColumnRequest) -> Any:
    for source in opened:
        if kind == "parquet":
            if not source.peek(4):
                raise source.error("is empty")
        else:
            check_text(source)
    if kind in ("parquet", "jsonl"):
        from polymargin.datasets.typed_table import read_typed_table

        return read_typed_table(opened, kind, options, request)
    from polymargin.datasets.text_table import read_text_table

    if options.delimiter is None and kind == "tsv":
        options.delimiter = "\t"
    return read_text_table(opened, options, request)


def _read_other(
    source: Source,
    kind: str,
    part: str | None,
    options: Any,
    request: ColumnRequest,
    dtype: Any,
) -> Dataset:
    wanted, need_label = request.wanted, request.need_label
    if request.group is not None and kind != "arff":
        raise source.error(f"--group takes a column of a table; {kind} has none")
    if kind == "npz":
        from polymargin.datasets.npz import read_npz

        if not source.peek(4):
            raise source.error("is empty")
        return read_npz(source, part=part, dtype=dtype, wanted=wanted, need_label=need_label)
    check_text(source)
    if kind == "libsvm":
        from polymargin.datasets.svmlight import read_svmlight

        return read_svmlight(source, dtype=dtype, wanted=wanted, need_label=need_label)
    from polymargin.datasets.arff import read_arff

    return read_arff(source, options, request).dataset(dtype, wanted)
