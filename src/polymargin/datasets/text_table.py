"""Delimited text through DuckDB: numbers are cast where a sample holds numbers, all else is text.

DuckDB cuts rows into fields and reads numbers to the nearest double, as Python does.  It plans a
query for every column, which takes a time quadratic in their number; tables with very many columns
are therefore read as one list of fields per row.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from polymargin.datasets.csv_layout import CsvLayout, guess_layout, rewrite_blanks
from polymargin.datasets.dataset import ColumnRequest
from polymargin.datasets.duckdb_session import Session, first_sentence, quoted_text
from polymargin.datasets.sources import LONGEST_LINE, Source
from polymargin.datasets.table import (
    Column,
    Roles,
    Table,
    column_from_texts,
    distinct_names,
    roles_of_columns,
)
from polymargin.datasets.text_values import MISSING, are_codes, is_missing, is_number

__all__ = ["TextOptions", "read_text_table"]

_MOST_COLUMNS = 1000  # read one by one; from here on rows are read as lists
_UNIT = "\x1f"  # a delimiter that no table uses


@dataclass
class TextOptions:
    """How a text is to be read; None where that is to be found out.

    ``kinds`` forces columns, by name or number, to "number" or "text"; ``missing`` are further
    texts that stand for no value.
    """

    delimiter: str | None = None
    header: bool | None = None
    decimal: str | None = None
    missing: Sequence[str] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)


def read_text_table(
    sources: Sequence[Source],
    options: TextOptions,
    request: ColumnRequest,
) -> Table:
    """Read one text, or several with the same columns one below the other."""
    source = sources[0]
    wanted = request.wanted
    may_be_single = wanted is not None and wanted.n_features == 1 and not request.need_label
    layouts = [
        guess_layout(
            s, options.delimiter, options.header, options.decimal, request.label, may_be_single
        )
        for s in sources
    ]
    layout = layouts[0]
    for other, found in zip(sources[1:], layouts[1:], strict=True):
        if (found.names, found.n_columns) != (layout.names, layout.n_columns):
            raise other.error(f"has other columns than {source.name}")
    notes = list(layout.notes)
    if layout.decimal == ",":
        notes.append("numbers are written with a decimal comma (another: --decimal .)")
    if layout.names is not None:
        layout.names = distinct_names(source, layout.names, request, notes)
    request = _without_empty_end(layout, options, request, notes)
    roles = roles_of_columns(source, layout.n_columns, layout.names, request, notes)
    if layout.names is not None and layout.names[0] == "column 0" and wanted is None:
        notes.append("the first column has no name: if it numbers the rows, use --ignore 0")
    scan = Scan(sources, layouts, _as_wanted(options, request, roles))
    names = layout.names or [f"column {c}" for c in range(layout.n_columns)]
    label_name = None if roles.label is None or layout.names is None else names[roles.label]
    table = Table(source, [], None, label_name, layout.names is not None, scan.line_of, notes)
    scan.read(table, names, roles)
    return table


def _as_wanted(options: TextOptions, request: ColumnRequest, roles: Roles) -> TextOptions:
    """Columns that a model knows as words or dates are read as text, whatever they look like."""
    specs = None if request.wanted is None else request.wanted.columns
    if specs is None:
        return options
    both = zip(roles.features, specs, strict=True)
    words = {str(c): "text" for c, spec in both if spec.kind in ("text", "date")}
    return replace(options, kinds=words | dict(options.kinds))


def _without_empty_end(
    layout: CsvLayout, options: TextOptions, request: ColumnRequest, notes: list[str]
) -> ColumnRequest:
    """Leave columns out that stand at the end without a name or a value, as spreadsheets write."""
    empty = []
    for c in reversed(range(1, layout.n_columns)):
        is_named = layout.names is not None and layout.names[c] != f"column {c}"
        cells = [row[c] for row in layout.sample if len(row) > c]
        if is_named or not cells or any(not is_missing(t, options.missing) for t in cells):
            break
        empty.append(c)
    if not empty or request.label in (*empty, *map(str, empty)):
        return request
    notes.append(
        f"{len(empty)} column{'s' * (len(empty) > 1)} without name and values at the end left out"
    )
    return replace(request, ignore=[*request.ignore, *empty])


class Scan:
    """Reads the columns of texts that share a layout."""

    def __init__(
        self,
        sources: Sequence[Source],
        layouts: Sequence[CsvLayout],
        options: TextOptions,
        paths: list[str] | None = None,
    ) -> None:
        self.sources, self.layouts, self.options = sources, layouts, options
        self.layout = layouts[0]
        self.is_blank = self.layout.delimiter == " "
        self.delimiter = "\t" if self.is_blank else self.layout.delimiter
        rewrite = rewrite_blanks if self.is_blank else None
        self.paths = [source.file(rewrite) for source in sources] if paths is None else paths

    # -- from rows to lines ----------------------------------------------------------------

    def line_of(self, row: int) -> int | None:
        """The line of a row, found by reading again; the source's name becomes that of its file."""
        for path, layout, source in zip(self.paths, self.layouts, self.sources, strict=True):
            with open(path, encoding="utf-8", errors="replace", newline="") as file:
                reader = csv.reader(file, delimiter=self.delimiter, quotechar=self.layout.quote)
                before = 0
                for fields in reader:
                    line, before = before + 1, reader.line_num
                    if line <= layout.header_line or not any(f.strip() for f in fields):
                        continue
                    if row == 0:
                        self.sources[0].name = source.name
                        return line
                    row -= 1
        return None

    # -- reading ---------------------------------------------------------------------------

    def read(self, table: Table, names: list[str], roles: Roles) -> None:
        """Fill the table."""
        features, label = roles.features, roles.label
        looks = {c: self._looks_numeric(c, names[c]) for c in features}
        numeric = [c for c in features if looks[c]]
        texts = [c for c in features if not looks[c]]
        with Session(self.sources[0]) as session:
            wide = self.layout.n_columns > _MOST_COLUMNS
            part = (_WideRows if wide else _NarrowRows)(self, session)
            more = [c for c in (label, roles.group) if c is not None]
            numbers, found = part.read(numeric, list(dict.fromkeys([*texts, *more])))
        columns: dict[int, Column] = {}
        for c in [*texts, *(c for c in numeric if c in found)]:
            columns[c] = column_from_texts(
                table,
                names[c],
                found[c],
                decimal=self.layout.decimal,
                missing=self.options.missing,
                forced=self._forced(c, names[c]),
            )
        for c, values in numbers.items():
            columns.setdefault(c, Column(names[c], "number", values))
        table.columns = [columns[c] for c in features]
        if label is not None:
            table.label = np.array([None if t is None else t.strip() for t in found[label]], object)
        if roles.group is not None:
            table.group = found[roles.group]

    def _forced(self, c: int, name: str) -> str | None:
        kinds = self.options.kinds
        return kinds.get(name, kinds.get(str(c)))

    def _looks_numeric(self, c: int, name: str) -> bool:
        """Whether the sample holds numbers only, or nothing to go by."""
        forced = self._forced(c, name)
        if forced is not None:
            return forced == "number"
        cells = [row[c] for row in self.layout.sample if len(row) > c]
        told = [text for text in cells if not is_missing(text, self.options.missing)]
        if told and are_codes(told):
            return False
        return all(is_number(text, self.layout.decimal) for text in told)

    def number(self, field: str, has_odd: bool) -> str:
        """SQL for the number of a field; ``has_odd``: texts as 1_0 occur, which Python refuses."""
        text = field if self.layout.decimal == "." else f"replace({field}, ',', '.')"
        cast = f"TRY_CAST({text} AS DOUBLE)"
        refused = []
        if has_odd:
            refused += [f"contains({field}, '_')", f"contains({field}, '+-')"]
        if self.options.missing:
            refused.append(f"trim({field}) IN ({_listed(self.options.missing)})")
        return f"CASE WHEN {' OR '.join(refused)} THEN NULL ELSE {cast} END" if refused else cast

    def is_other(self, field: str, number: str) -> str:
        """SQL for: the field is neither a number nor missing."""
        other = f"lower(trim({field})) NOT IN ({_listed(MISSING)})"
        if self.options.missing:
            other += f" AND trim({field}) NOT IN ({_listed(self.options.missing)})"
        return f"CASE WHEN {field} IS NULL OR ({number}) IS NOT NULL THEN false ELSE {other} END"

    def has_odd_numbers(self) -> bool:
        """Whether ``_`` or ``+-`` occurs below the header."""
        for path, layout in zip(self.paths, self.layouts, strict=True):
            with open(path, "rb") as file:
                for _ in range(layout.header_line):
                    file.readline()
                while block := file.read(1 << 22):
                    if b"_" in block or b"+-" in block:
                        return True
        return False

    def source_sql(self, columns: str, delimiter: str, quote: str) -> str:
        """The table function that reads the files."""
        paths = ", ".join(quoted_text(path) for path in self.paths)
        skip = self.layout.header_line
        return (
            f"read_csv([{paths}], auto_detect=false, header=false, skip={skip}, "
            f"delim={quoted_text(delimiter)}, quote={quoted_text(quote)}, "
            f"escape={quoted_text(quote)}, columns={columns}, max_line_size={LONGEST_LINE}, "
            f"buffer_size={LONGEST_LINE}, strict_mode=true, store_rejects=true, "
            "null_padding=false)"
        )

    def check_rejects(self, session: Session) -> None:
        """Refuse the first row that could not be cut into fields."""
        rows = session.rows(
            "SELECT s.file_path, e.line, e.error_type, e.error_message, e.csv_line "
            "FROM reject_errors e JOIN reject_scans s USING (scan_id, file_id) "
            "ORDER BY e.scan_id DESC, e.file_id, e.line LIMIT 1000"
        )
        for path, line, kind, message, text in rows:
            if text is not None and not str(text).strip():
                continue  # a line of blanks
            source = self.sources[self.paths.index(path)] if path in self.paths else self.sources[0]
            if kind == "INVALID ENCODING":
                raise source.not_utf8(int(line))
            raise source.error(_reject_words(str(kind), str(message), str(text)), int(line))

    def refuse(self, error: Exception) -> Exception:
        """What DuckDB says of a file that it cannot read at all."""
        return self.sources[0].error(f"cannot be read: {first_sentence(error)}")


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(quoted_text(text) for text in texts)


def _reject_words(kind: str, message: str, text: str) -> str:
    counts = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message)
    if counts is not None:
        n = int(counts.group(2))
        return f"has {n} field{'s' * (n != 1)} where {counts.group(1)} are expected" + (
            " (a carriage return inside the line?)" if "\r" in text else ""
        )
    if kind == "UNQUOTED VALUE":
        return "a quote is opened but not closed, or text follows a closing quote"
    if kind == "LINE SIZE OVER MAXIMUM":
        return f"is longer than {LONGEST_LINE} bytes"
    return f"{kind.lower()}: {' '.join(message.split())[:200]}"


class _NarrowRows:
    """Columns one by one, all in one query."""

    def __init__(self, scan: Scan, session: Session) -> None:
        self.scan, self.session = scan, session
        layout = scan.layout
        columns = ", ".join(f"'c{c}': 'VARCHAR'" for c in range(layout.n_columns))
        self.source = scan.source_sql(f"{{{columns}}}", scan.delimiter, layout.quote)

    def read(
        self, numeric: list[int], texts: list[int]
    ) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
        """Numbers and texts of columns; columns that are no numbers after all come as texts."""
        odd = bool(numeric) and self.scan.has_odd_numbers()
        number = {c: self.scan.number(f"c{c}", odd) for c in numeric}
        other = {c: self.scan.is_other(f"c{c}", number[c]) for c in numeric}
        wanted = [f"{number[c]} AS n{c}" for c in numeric] + [f"c{c} AS t{c}" for c in texts]
        arrays = self._query([*wanted, "true AS is_row"])
        if not len(arrays["is_row"]):
            has = "has a header but no rows" if self.scan.layout.header_line else "has no rows"
            raise self.scan.sources[0].error(has)
        found = {c: as_texts(arrays.pop(f"t{c}")) for c in texts}
        gaps = [c for c in numeric if np.ma.getmaskarray(arrays[f"n{c}"]).any()]
        if gaps:  # of one condition over all columns DuckDB makes a plan in cubic time
            flags = self._query([f"bool_or({other[c]}) AS n{c}" for c in gaps])
            again = [c for c in gaps if bool(np.asarray(flags[f"n{c}"])[0])]
            more = self._query([f"c{c} AS t{c}" for c in again]) if again else {}
            found |= {c: as_texts(more[f"t{c}"]) for c in again}
        numbers = {c: as_floats(arrays.pop(f"n{c}")) for c in numeric if c not in found}
        return numbers, found

    def _query(self, columns: list[str]) -> dict[str, Any]:
        try:
            arrays = self.session.arrays(f"SELECT {', '.join(columns)} FROM {self.source}")
        except self.session.error as error:
            raise self.scan.refuse(error) from None
        self.scan.check_rejects(self.session)
        return arrays


class _WideRows:
    """Rows as lists of fields, for tables with very many columns."""

    def __init__(self, scan: Scan, session: Session) -> None:
        self.scan, self.session = scan, session
        layout = scan.layout
        self.n = layout.n_columns
        self.delimiter = scan.delimiter
        paths = scan.paths
        if self._has_quotes():
            scan.paths = [self._without_quotes(k, path) for k, path in enumerate(paths)]
            self.delimiter = _UNIT
        lines = scan.source_sql("{'line': 'VARCHAR'}", "\x1e", "")
        scan.paths = paths  # lines are counted in the originals
        fields = f"string_split(trim(line, chr(13)), {quoted_text(self.delimiter)})"
        self.source = f"(SELECT {fields} AS p FROM {lines} WHERE trim(line) <> '')"

    def _has_quotes(self) -> bool:
        quote = self.scan.layout.quote.encode()
        for path, layout in zip(self.scan.paths, self.scan.layouts, strict=True):
            with open(path, "rb") as file:
                for _ in range(layout.header_line):
                    file.readline()
                while block := file.read(1 << 22):
                    if quote in block:
                        return True
        return False

    def _without_quotes(self, k: int, path: str) -> str:
        """A copy whose fields are divided by a character that needs no quotes."""
        target = self.scan.sources[0].folder() / f"wide{k}.csv"
        layout = self.scan.layouts[k]
        with (
            open(path, encoding="utf-8", errors="replace", newline="") as file,
            open(target, "w", encoding="utf-8", newline="") as copy,
        ):
            for _ in range(layout.header_line):
                copy.write(file.readline())
            rows = csv.reader(file, delimiter=self.scan.delimiter, quotechar=layout.quote)
            for row in rows:
                copy.write(_UNIT.join(" ".join(field.split()) for field in row) + "\n")
        return str(target)

    def read(
        self, numeric: list[int], texts: list[int]
    ) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
        """As ``_NarrowRows.read``."""
        self._materialize()
        cast = self.scan.number("x", self.scan.has_odd_numbers())
        flat = self._query(f"SELECT unnest(list_transform(p, lambda x: {cast})) AS v FROM rows")
        values = as_floats(flat["v"]).reshape(-1, self.n)
        found = self._texts_of(texts)
        is_gap = np.isnan(values)
        has_gap = is_gap.any(axis=0)
        for c, column in self._texts_of([c for c in numeric if has_gap[c]]).items():
            if any(not is_missing(t, self.scan.options.missing) for t in column[is_gap[:, c]]):
                found[c] = column
        return {c: values[:, c] for c in numeric if c not in found}, found

    def _materialize(self) -> None:
        try:
            self.session.run(f"CREATE TEMP TABLE rows AS SELECT p FROM {self.source}")
        except self.session.error as error:
            raise self.scan.refuse(error) from None
        self.scan.check_rejects(self.session)
        lengths = np.asarray(self._query("SELECT len(p) AS n FROM rows")["n"])
        if not len(lengths):
            raise self.scan.sources[0].error("has a header but no rows")
        wrong = np.flatnonzero(lengths != self.n)
        if len(wrong):
            line = self.scan.line_of(int(wrong[0]))
            raise self.scan.sources[0].error(
                f"has {lengths[wrong[0]]} fields where {self.n} are expected", line
            )

    def _texts_of(self, columns: list[int]) -> dict[int, np.ndarray]:
        """Texts of columns, all in one query: every query walks through all of the rows."""
        if not columns:
            return {}
        places = ", ".join(str(c + 1) for c in columns)
        flat = self._query(f"SELECT unnest(list_select(p, [{places}])) AS t FROM rows")
        texts = as_texts(flat["t"]).reshape(-1, len(columns))
        return {c: texts[:, k] for k, c in enumerate(columns)}

    def _query(self, sql: str) -> dict[str, Any]:
        return self.session.arrays(sql)


def as_texts(array: Any) -> np.ndarray:
    """Texts with None for what is missing."""
    if np.ma.isMaskedArray(array):
        return np.asarray(array.filled(None), dtype=object)
    return np.asarray(array, dtype=object)


def as_floats(array: Any) -> np.ndarray:
    """Numbers with nan for what is missing."""
    if np.ma.isMaskedArray(array):
        return np.asarray(array.filled(np.nan), dtype=np.float64)
    return np.asarray(array, dtype=np.float64)
