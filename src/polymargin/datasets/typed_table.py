"""Parquet, JSON lines and queries: columns with types of their own, through DuckDB."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from polymargin.datasets.dataset import ColumnRequest
from polymargin.datasets.duckdb_session import (
    Session,
    first_sentence,
    quoted_name,
    quoted_text,
)
from polymargin.datasets.sources import Source, check_text, format_of
from polymargin.datasets.table import (
    Column,
    Roles,
    Table,
    column_from_texts,
    column_texts,
    distinct_names,
    roles_of_columns,
)
from polymargin.datasets.table_size import check_table_size
from polymargin.datasets.text_table import TextOptions, as_floats, as_texts, read_text_table
from polymargin.datasets.text_values import CLOCKS, is_missing
from polymargin.exceptions import DataFileError

__all__ = ["read_query", "read_typed_table"]

_NUMBERS = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*)$")
_FRACTIONS = re.compile(r"(FLOAT|DOUBLE|DECIMAL.*)$")  # 1.0 is the word 1 where words are asked for
_DATES = re.compile(r"(DATE|TIMESTAMP.*)$")
_TEXTS = re.compile(r"(VARCHAR|ENUM.*|UUID|TIME|\"NULL\")$")  # "NULL": a column without values
_DAY = 86400.0


def read_typed_table(
    sources: Sequence[Source],
    kind: str,
    options: TextOptions,
    request: ColumnRequest,
) -> Table:
    """Read Parquet or JSON lines, several files one below the other."""
    with Session(sources[0]) as session:
        sql = f"SELECT * FROM {_function(sources, kind)}"
        found = _Columns(session, sources[0], sql, options)
        try:
            check_table_size(session, sources, kind, sql, found.types)
        except session.error as error:
            raise found.refusal(error) from None
        return found.table(request)


def _function(sources: Sequence[Source], kind: str) -> str:
    if kind == "parquet":
        paths = ", ".join(quoted_text(source.binary_file()) for source in sources)
        return f"read_parquet([{paths}], union_by_name=true)"
    paths = ", ".join(quoted_text(source.file()) for source in sources)
    return (
        f"read_json([{paths}], union_by_name=true, sample_size=-1, maximum_depth=2, "
        "map_inference_threshold=-1)"  # rows with many different keys stay rows
    )


class _Columns:
    """The columns of a query."""

    def __init__(
        self,
        session: Session,
        source: Source,
        sql: str,
        options: TextOptions,
        is_query: bool = False,
    ) -> None:
        self.session, self.source, self.sql, self.options = session, source, sql, options
        self.is_query = is_query
        try:
            self.types = session.columns(sql)
        except session.error as error:
            raise self.refusal(error) from None

    def refusal(self, error: Exception) -> DataFileError:
        if self.is_query:
            return DataFileError(f"--query: {first_sentence(error)}")
        return self.source.error(f"cannot be read: {first_sentence(error)}")

    def table(self, request: ColumnRequest) -> Table:
        notes: list[str] = []
        given = [name for name, _ in self.types]
        names = distinct_names(self.source, given, request, notes)
        self.types = [(name, kind) for name, (_, kind) in zip(names, self.types, strict=True)]
        roles = roles_of_columns(self.source, len(names), names, request, notes)
        label_name = None if roles.label is None else names[roles.label]
        table = Table(self.source, [], None, label_name, True, notes=notes)
        try:
            arrays = self.session.arrays(f"SELECT {self._wanted(roles)} FROM {self._given}")
        except self.session.error as error:
            raise self.refusal(error) from None
        for c in roles.features:
            table.columns.append(self._column(table, c, arrays.pop(f"c{c}")))
        if not len(table.columns[0].values):
            raise self.source.error("has no rows")
        if roles.label is not None:
            table.label = as_texts(arrays["label"])
        if roles.group is not None:
            table.group = as_texts(arrays["grouped"])
        return table

    def _wanted(self, roles: Roles) -> str:
        """The expressions of features, label and group; JSON is looked at to write them."""
        wanted = [f"{self._expression(c)} AS c{c}" for c in roles.features]
        if roles.label is not None:
            wanted.append(f"{self._text(roles.label)} AS label")
        if roles.group is not None:
            wanted.append(f"{self._text(roles.group)} AS grouped")
        return ", ".join(wanted)

    @property
    def _given(self) -> str:
        """The query with columns given0, given1, ..., whatever their names are."""
        numbered = ", ".join(f"given{c}" for c in range(len(self.types)))
        return f"({self.sql}) AS given({numbered})"

    def _text(self, c: int) -> str:
        """SQL for a column as text; values of JSON that are no text themselves as written."""
        return f"given{c} ->> '$'" if self.types[c][1] == "JSON" else f"CAST(given{c} AS VARCHAR)"

    def _is_plain_json(self, c: int) -> bool:
        """Whether a column of JSON holds texts, numbers and truth values only."""
        if self.types[c][1] != "JSON":
            return False
        nested = f"json_type(given{c}) IN ('OBJECT', 'ARRAY')"
        return not self.session.rows(f"SELECT bool_or({nested}) FROM {self._given}")[0][0]

    def _expression(self, c: int) -> str:
        name, kind = self.types[c]
        column = f"given{c}"
        if _FRACTIONS.match(kind) or (_NUMBERS.match(kind) and self._forced(name) != "text"):
            return f"CAST({column} AS DOUBLE)"
        if _DATES.match(kind):
            return f"epoch(CAST({column} AS TIMESTAMP)) / {_DAY}"
        if kind == "BOOLEAN" or _TEXTS.match(kind) or _NUMBERS.match(kind):
            return self._text(c)
        if self._is_plain_json(c):
            return self._text(c)
        raise self.source.error(
            f"column {name!r} holds {kind}, neither numbers, text nor dates; leave it out with "
            "--ignore, or take parts of it with --query"
        )

    def _forced(self, name: str) -> str | None:
        return self.options.kinds.get(name)

    def _column(self, table: Table, c: int, array: np.ndarray) -> Column:
        name, kind = self.types[c]
        if array.dtype != object:
            values = as_floats(array)
            for token in self.options.missing:
                number = column_from_texts(table, name, np.array([token], dtype=object))
                if number.kind == "number":
                    values = np.where(values == number.values[0], np.nan, values)
            if self._forced(name) == "text":
                return Column(name, "text", column_texts(Column(name, "number", values)))
            return Column(name, "date" if _DATES.match(kind) else "number", values,
                          "iso" if _DATES.match(kind) else None)  # fmt: skip
        if kind == "BOOLEAN" and self._forced(name) != "number":
            return Column(name, "boolean", as_texts(array))
        return column_from_texts(
            table,
            name,
            as_texts(array),
            missing=self.options.missing,
            forced=self._forced(name),
        )


# -- queries -----------------------------------------------------------------------------------


def read_query(
    sources: Sequence[Source],
    formats: Sequence[str | None],
    query: str,
    options: TextOptions,
    request: ColumnRequest,
) -> Table:
    """The result of one SELECT over the given files.

    Every file is a table with the name of the file without its suffixes; the first one is also
    called ``data``.  The files are loaded first; then DuckDB is locked: the query can open no other
    file, reach no network, write nothing, load no extension and change no setting.
    """
    with Session(sources[0]) as session:
        for k, (source, kind) in enumerate(zip(sources, formats, strict=True)):
            _load(session, source, kind or format_of(source), options, f"file{k}")
        for k, source in enumerate(sources):
            name = re.split(r"[.]", Path(source.name).name)[0] or "data"
            for view in {name, "data"} if k == 0 else {name}:
                session.run(
                    f"CREATE OR REPLACE TEMP VIEW {quoted_name(view)} AS SELECT * FROM file{k}"
                )
        session.lock()
        _check_select(session, query)
        found = _Columns(session, sources[0], query.strip().rstrip(";"), options, is_query=True)
        return found.table(request)


def _check_select(session: Session, query: str) -> None:
    """Refuse everything but one SELECT."""
    import duckdb

    try:
        statements = session.connection.extract_statements(query)
    except session.error as error:
        raise DataFileError(f"--query: {first_sentence(error)}") from None
    if len(statements) != 1:
        raise DataFileError(f"--query must be one SELECT, got {len(statements)} statements")
    if statements[0].type != duckdb.StatementType.SELECT:
        kind = str(statements[0].type).rpartition(".")[2]
        raise DataFileError(f"--query must be one SELECT, got {kind}")


def _load(session: Session, source: Source, kind: str, options: TextOptions, name: str) -> None:
    """A table of a file, with whole numbers, numbers, dates, truth values and texts."""
    if kind in ("parquet", "jsonl"):
        try:
            session.run(f"CREATE TEMP TABLE {name} AS SELECT * FROM {_function([source], kind)}")
        except session.error as error:
            raise source.error(f"cannot be read: {first_sentence(error)}") from None
        return
    if kind not in ("csv", "tsv"):
        raise source.error(f"--query takes CSV, TSV, Parquet and JSON lines, not {kind}")
    check_text(source)
    table = read_text_table(
        [source], replace(options, kinds=_AllText()), ColumnRequest(need_label=False)
    )
    if not table.has_names:
        for c, column in enumerate(table.columns):
            column.name = f"column{c}"
    _insert(session, table, options, name)


class _AllText(dict[str, str]):
    """Every column is text: what it is follows from all of its values."""

    def get(self, name: str, default: Any = None) -> Any:
        return "text"


def _insert(session: Session, table: Table, options: TextOptions, name: str) -> None:
    """Columns become a DuckDB table by way of NumPy arrays."""
    arrays, casts = {}, []
    for c, column in enumerate(table.columns):
        key, title = f"c{c}", quoted_name(column.name)
        arrays[key], kind = _typed(table, column, options)
        casts.append(f"CAST({key} AS {kind}) AS {title}")
    session.connection.register("given_arrays", arrays)
    session.run(f"CREATE TEMP TABLE {name} AS SELECT {', '.join(casts)} FROM given_arrays")
    session.connection.unregister("given_arrays")


def _typed(table: Table, column: Column, options: TextOptions) -> tuple[np.ndarray, str]:
    """Values of a column of texts for DuckDB, and their type; 007 stays a text."""
    present = {t for t in column.values.tolist() if not is_missing(t, options.missing)}
    if any(re.fullmatch(r"0[0-9]+", t) for t in present):
        return column.values, "VARCHAR"
    decimal = options.decimal or "."
    found = column_from_texts(
        table, column.name, column.values, decimal=decimal, missing=options.missing
    )
    if found.kind == "number":
        if all(re.fullmatch(r"[+-]?[0-9]{1,18}", t) for t in present):
            return np.array([t if t in present else None for t in column.values], object), "BIGINT"
        return np.ma.masked_invalid(found.values), "DOUBLE"
    if found.kind == "date" and found.form not in CLOCKS:
        micro = np.round(found.values * _DAY * 1e6)
        moments = np.full(len(micro), "NaT", dtype="datetime64[us]")
        there = ~np.isnan(micro)
        moments[there] = micro[there].astype(np.int64).astype("datetime64[us]")
        return moments, "TIMESTAMP"
    if found.kind == "date":
        return column.values, "VARCHAR"  # a time of day, which is no moment
    return found.values, "BOOLEAN" if found.kind == "boolean" else "VARCHAR"
