"""Readers of data files: CSV, TSV, LIBSVM, ARFF, NPZ, Parquet; from files or standard input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polymargin.datasets.dataset import Dataset, Progress, Wanted
from polymargin.datasets.sources import FORMATS, check_text, format_of, open_source

__all__ = ["FORMATS", "Dataset", "Wanted", "read_data"]


def read_data(
    path: str,
    *,
    format: str | None = None,
    label: str | int | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    ignore: Sequence[str | int] = (),
    part: str | None = None,
    wanted: Wanted | None = None,
    need_label: bool = True,
    dtype: Any = "float64",
    progress: Progress | None = None,
) -> Dataset:
    """Read a data file.

    Parameters
    ----------
    path : str
        ``-`` is standard input; files packed with gzip, bzip2 or xz are unpacked.
    format : {"csv", "tsv", "libsvm", "arff", "npz", "parquet"} or None
        None goes by the ending of the name, then by the beginning of the file.
    label : str, int or None
        Label column: its name, or its number from 0 (negative from the end).  None is the last.
    header : bool or None
        Whether the first row of a table holds names; None guesses.
    delimiter : str or None
        One character, or "tab" or "space" (any run of blanks); None guesses.
    ignore : sequence of str or int
        Columns to leave out.
    part : {"train", "test", "validation"} or None
        NPZ: the rows listed in ``train_idx``, ``test_idx`` or ``val_idx``.
    wanted : Wanted or None
        What a model expects: columns are matched by name where both have names, else by number.
    need_label : bool, default=True
        Whether labels are needed.
    dtype : default="float64"
        Of X; "float32" takes half the memory.
    progress : callable or None
        Called with the bytes read and the size of the file (None if unknown).

    Returns
    -------
    Dataset

    Raises
    ------
    DataFileError
        One line that names the file, the line, the column and what is wrong.
    """
    source = open_source(path, progress)
    try:
        kind = format or format_of(source)
        common: dict[str, Any] = {"wanted": wanted, "need_label": need_label, "dtype": dtype}
        columns: dict[str, Any] = {"label": label, "ignore": ignore}
        if kind in ("npz", "parquet"):
            if not source.peek(4):
                raise source.error("is empty")
            from polymargin.datasets import archives

            if kind == "npz":
                data = archives.read_npz(source, part=part, **common)
            else:
                data = archives.read_parquet(source, **columns, **common)
        else:
            check_text(source)
            data = _read_text(source, kind, header, delimiter, columns, common)
        data.kind = kind
        return data
    finally:
        source.raw.close() if path != "-" else None


def _read_text(
    source: Any,
    kind: str,
    header: bool | None,
    delimiter: str | None,
    columns: dict[str, Any],
    common: dict[str, Any],
) -> Dataset:
    if kind == "libsvm":
        from polymargin.datasets.svmlight import read_svmlight

        return read_svmlight(source, **common)
    if kind == "arff":
        from polymargin.datasets.arff import read_arff

        return read_arff(source, **columns, **common)
    from polymargin.datasets.delimited import read_delimited

    named = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
    if delimiter is None and kind == "tsv":
        delimiter = "\t"
    elif delimiter is not None:
        delimiter = named.get(delimiter, delimiter)
        if len(delimiter) != 1 or delimiter in "\r\n\"'0123456789.":
            raise source.error(f"delimiter must be one character, tab or space, got {delimiter!r}")
    return read_delimited(source, delimiter=delimiter, header=header, **columns, **common)
