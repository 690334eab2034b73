"""Data files of any size as rows on disk: ``open_rows``.

A table is read piece by piece.  While all of its columns are numbers without gaps, pieces become
blocks at once.  Otherwise the first reading collects a random sample, from which the usual plan of
the columns and its encoder are made, and a second reading writes encoded rows.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from polymargin.datasets.dataset import ColumnSpec, Dataset, Wanted, label_values
from polymargin.datasets.row_sources import (
    files_of,
    fingerprint_of,
    is_zero_based,
    libsvm_blocks,
    npy_blocks,
)
from polymargin.datasets.row_store import RowStore, StoreWriter, bytes_of
from polymargin.datasets.table import Column, column_texts
from polymargin.datasets.table_pieces import TABLE_KINDS, kind_of, table_pieces
from polymargin.exceptions import DataFileError
from polymargin.problem.constant_features import settle_constants
from polymargin.tables.column_plan import ColumnPlan, plan_columns

__all__ = ["open_rows"]

_BLOCKS_PER_MEMORY = 8
"""A block takes an eighth of the memory allowed: the rows as read, their scores, the variables of
the block and copies on the way are about four times the block itself."""
_LEAST_BLOCK = 1 << 10
_SAMPLE_ROWS = 50_000
"""Rows behind the plan of a table: a category of one row in a thousand is seen 50 times."""


def open_rows(
    path: Any,
    label: Any = None,
    memory: str | int = "1GB",
    scratch: Any = None,
    dtype: Any = np.float32,
    *,
    kinds: Mapping[str, str] | None = None,
    scaler: Any = None,
    **reading: Any,
) -> RowStore:
    r"""Rows of files that may be larger than memory, converted once to blocks on disk.

    Parameters
    ----------
    path : path, glob, folder of Parquet or CSV files, or list of them
        Parquet, CSV and TSV (also compressed), JSON lines, LIBSVM, or ``.npy`` (a matrix of rows).
    label : str, int, path or None
        Name or number of the label column (the last one by default); for ``.npy`` the file of the
        labels; LIBSVM files have theirs in front.
    memory : str or int
        What training may take beside the imports, such as "1GB".
    scratch : path or None
        Folder for the blocks.  It is kept, and used again while size, time and checksum of the
        source have not changed; None: a temporary folder that ``close`` removes.
    dtype : float32 or float64
    kinds : mapping of str to str or None
        Kinds of columns, where the plan should be another: "number", "category", "text", "date" or
        "ignore".
    scaler : transformer or None
        Cloned for the numbers of a table that has to be encoded.  Other rows are stored as they
        are; ``RowStore.scaled`` and ``RowStore.standardized`` scale them as they are read.
    reading
        Further parameters of the readers: ``header``, ``delimiter``, ``decimal``, ``encoding``,
        ``missing``, ``ignore``, ``max_bytes``, ``format``; ``progress`` is called with the bytes
        written so far.

    Returns
    -------
    RowStore
        ``plan`` and ``encoder`` say how a table became rows, and are None for matrices.

    See Also
    --------
    RowStore : What it returns.
    datasets.read_data : Reads a table into memory.
    dask.DaskMulticlassSVC : Rows on several machines.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from polymargin import open_rows
    >>> with TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/X.npy", np.eye(4))
    ...     np.save(f"{folder}/y.npy", [0, 1, 0, 1])
    ...     with open_rows(f"{folder}/X.npy", label=f"{folder}/y.npy", memory="2GB") as rows:
    ...         print(rows.shape, rows.classes)
    (4, 4) [0 1]
    """
    block_bytes = max(_LEAST_BLOCK, bytes_of(memory) // _BLOCKS_PER_MEMORY)
    tell = reading.pop("progress", None) or (lambda done: None)
    request = _Request(path, label, np.dtype(dtype), dict(kinds or {}), scaler, reading)
    keep = scratch is not None
    folder = Path(scratch) if scratch is not None else Path(tempfile.mkdtemp(prefix="polymargin-"))
    try:
        if (folder / "rows.json").exists():
            known = RowStore(folder, keep)
            if known.source == request.source:
                return request.with_plan(known)
        request.write(folder, block_bytes, tell)
    except BaseException:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return request.with_plan(RowStore(folder, keep))


class _Request:
    """What is to be read, and how it is written as blocks."""

    def __init__(
        self,
        path: Any,
        label: Any,
        dtype: np.dtype[Any],
        kinds: dict[str, str],
        scaler: Any,
        reading: dict[str, Any],
    ) -> None:
        self.files = files_of(path)
        self.label, self.dtype, self.kinds, self.scaler = label, dtype, kinds, scaler
        self.kind = reading.pop("format", None) or self._kind()
        ignored = [name for name, kind in kinds.items() if kind == "ignore"]
        told = {n: "number" if k == "number" else "text" for n, k in kinds.items()}
        self.reading = reading | {
            "label": label,
            "ignore": [*reading.get("ignore", ()), *ignored],
            "kinds": {n: k for n, k in told.items() if n not in ignored},
            "dtype": dtype.name,
        }
        self.source = {
            **fingerprint_of(self.files),
            "label": str(label),
            "dtype": dtype.name,
            "kinds": kinds,
            "scaler": repr(scaler),
            "reading": {name: _plain(value) for name, value in sorted(reading.items())},
        }

    def _kind(self) -> str:
        if self.files[0].suffix.lower() == ".npy":
            return "npy"
        found = kind_of(self.files[0])
        if found not in (*TABLE_KINDS, "libsvm"):
            raise DataFileError(
                f"{self.files[0]}: {found} cannot be read in blocks; convert it to Parquet, CSV, "
                "LIBSVM or .npy, or train on it in memory."
            )
        return found

    def write(self, folder: Path, block_bytes: int, tell: Callable[[int], None]) -> None:
        """Blocks and, last, ``rows.json``."""
        writer = StoreWriter(folder, block_bytes)
        if self.kind in TABLE_KINDS:
            _Table(self, folder, block_bytes, tell).write(writer)
            return
        zero_based = None
        if self.kind == "npy":
            blocks = npy_blocks(self.files, self.label, block_bytes, self.dtype)
        else:
            zero_based = is_zero_based(self.files)
            blocks = libsvm_blocks(self.files, block_bytes, self.dtype, zero_based)
        done = 0
        for X, y, names in blocks:
            writer.add(X, y, names)
            done += X.data.nbytes
            tell(done)
        writer.close(self.source, zero_based=zero_based)

    def with_plan(self, rows: RowStore) -> RowStore:
        """The store with the plan and the encoder of its rows, made again from their sample."""
        if rows.is_encoded:
            facts = json.loads((rows.folder / _SAMPLE_FILE).read_text(encoding="utf-8"))
            columns = [_column_from(one) for one in facts]
            rows.plan, rows.encoder = self.planned(columns)
        return rows

    def planned(self, columns: list[Column]) -> tuple[ColumnPlan, Any]:
        """The plan of a sample of the columns, and its fitted encoder."""
        wanted = {name: kind for name, kind in self.kinds.items() if kind != "ignore"}
        try:
            plan = plan_columns(columns, wanted)
        except ValueError as error:
            raise DataFileError(f"{self.files[0]}: {error}") from error
        encoder = plan.encoder(self.scaler).fit(plan.matrix(columns))
        settle_constants(encoder)
        return plan, encoder


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


# -- tables ------------------------------------------------------------------------------------

_SAMPLE_FILE = "sample.json"


class _Table:
    """Writes a table: as it is, or encoded after a second reading."""

    def __init__(
        self, request: _Request, folder: Path, block_bytes: int, tell: Callable[[int], None]
    ) -> None:
        self.request, self.folder, self.block_bytes = request, folder, block_bytes
        self.tell, self.done = tell, 0

    def pieces(self, **more: Any) -> Iterator[Dataset]:
        request = self.request
        reading = request.reading | more
        return table_pieces(request.files, request.kind, reading, self.block_bytes, self.folder)

    def write(self, writer: StoreWriter) -> None:
        """One reading for matrices, two for other tables."""
        sample = _Sample()
        is_matrix = True
        found: Dataset | None = None
        for found in self.pieces():
            sample.add(found)
            is_matrix = is_matrix and found.columns is None
            if is_matrix:
                self.add(writer, found.X, found)
        if found is None:
            raise DataFileError(f"{self.request.files[0]}: has no rows.")
        if not is_matrix:
            writer = self.write_encoded(sample.columns())
        labels = [str(one) for one in writer.labels]
        values = label_values(labels)
        writer.labels = dict(zip(values.tolist(), range(len(labels)), strict=False))
        if len(writer.labels) < len(labels):
            raise DataFileError(
                f"{self.request.files[0]}: labels such as {labels[0]!r} are written in several "
                "ways (1 and 1.0); write them alike."
            )
        writer.label_dtype = values.dtype
        writer.close(self.request.source, label_name=found.label_name, is_encoded=not is_matrix)

    def write_encoded(self, columns: list[Column]) -> StoreWriter:
        """The second reading: every column as the plan takes it, then the encoder."""
        plan, encoder = self.request.planned(columns)
        text = json.dumps([_column_facts(column) for column in columns])
        writer = StoreWriter(self.folder, self.block_bytes)
        (self.folder / _SAMPLE_FILE).write_text(text, encoding="utf-8")
        specs = [ColumnSpec(column.name, column.kind, column.form) for column in columns]
        self.done = 0
        for found in self.pieces(wanted=Wanted(len(specs), columns=specs)):
            assert found.columns is not None
            X = encoder.transform(plan.matrix(found.columns)).astype(self.request.dtype)
            self.add(writer, X.tocsr() if hasattr(X, "tocsr") else np.ascontiguousarray(X), found)
        return writer

    def add(self, writer: StoreWriter, X: Any, found: Dataset) -> None:
        """Rows of a piece with its labels as texts."""
        assert found.codes is not None
        names = found.feature_names if found.columns is None else None
        writer.add(X, np.array(found.labels, dtype=np.str_)[found.codes], names or [])
        self.done += X.data.nbytes
        self.tell(self.done)


class _Sample:
    """Random rows of all pieces: every row draws a number, the smallest ones stay."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.keys: list[np.ndarray] = []
        self.parts: list[list[Column]] = []

    def add(self, found: Dataset) -> None:
        """Some rows of a piece."""
        keys = self.random.random(found.shape[0])
        rows = np.flatnonzero(keys < self.threshold())
        self.keys.append(keys[rows])
        self.parts.append([_taken(column, rows) for column in _columns(found)])

    def threshold(self) -> float:
        """What a number has to stay below to be among the smallest so far."""
        drawn = np.concatenate(self.keys) if self.keys else np.empty(0)
        if len(drawn) < _SAMPLE_ROWS:
            return 1.0
        return float(np.partition(drawn, _SAMPLE_ROWS - 1)[_SAMPLE_ROWS - 1])

    def columns(self) -> list[Column]:
        """Every column of the sample, of the kind that all of its pieces have."""
        least = self.threshold()
        places = [np.flatnonzero(keys <= least) for keys in self.keys]
        parts = [
            [_taken(column, rows) for column in part]
            for part, rows in zip(self.parts, places, strict=True)
        ]
        return [_merged(list(column)) for column in zip(*parts, strict=True)]


def _columns(found: Dataset) -> list[Column]:
    if found.columns is not None:
        return found.columns
    names = found.feature_names or [f"column {c}" for c in range(found.X.shape[1])]
    return [Column(name, "number", found.X[:, c]) for c, name in enumerate(names)]


def _taken(column: Column, rows: np.ndarray) -> Column:
    return Column(column.name, column.kind, column.values[rows], column.form)


def _merged(parts: list[Column]) -> Column:
    """One column of pieces; pieces that disagree on the kind of a column make it text."""
    name = parts[0].name
    told = [part for part in parts if _has_value(part)]
    kinds = {(part.kind, part.form) for part in told}
    if len(kinds) > 1:
        return Column(name, "text", np.concatenate([column_texts(part) for part in parts]))
    if not told:
        return Column(name, "number", np.full(sum(len(part.values) for part in parts), np.nan))
    kind, form = kinds.pop()
    nothing = np.nan if kind in ("number", "date") else None
    dtype = np.float64 if nothing is not None else object
    values = [
        part.values.astype(dtype) if _has_value(part) else np.full(len(part.values), nothing, dtype)
        for part in parts
    ]
    return Column(name, kind, np.concatenate(values), form)


def _has_value(column: Column) -> bool:
    if column.values.dtype == object:
        return any(value is not None for value in column.values)
    return not bool(np.isnan(column.values).all())


def _column_facts(column: Column) -> list[Any]:
    values = column.values.tolist()
    return [column.name, column.kind, column.form, [v if v == v else None for v in values]]


def _column_from(facts: list[Any]) -> Column:
    name, kind, form, values = facts
    if kind in ("number", "date"):
        return Column(name, kind, np.array(values, dtype=np.float64), form)
    return Column(name, kind, np.array([*values, None], dtype=object)[:-1], form)
