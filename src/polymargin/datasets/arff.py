"""ARFF: a header of attributes above rows, which are rewritten as plain CSV and read as such.

Header and comment lines become blank lines of the copy, so that the numbers of lines stay.
"""

from __future__ import annotations

import csv
import io
import re
from typing import Any, NamedTuple

from polymargin.datasets.csv_layout import CsvLayout, split_line
from polymargin.datasets.dataset import ColumnRequest
from polymargin.datasets.sources import Source
from polymargin.datasets.table import Table, distinct_names, roles_of_columns
from polymargin.datasets.text_table import Scan, TextOptions
from polymargin.exceptions import DataFileError

__all__ = ["read_arff"]

_NUMERIC = ("numeric", "real", "integer")
_KNOWN = ("string", "date")
_SAMPLE = 200
_INDEX = re.compile(r"[0-9]{1,20}")
_EXPANDED_BYTES, _EXPANDED_RATIO = 1 << 30, 200  # sparse rows that are written in full


class Attribute(NamedTuple):
    """A column: its name, its type and, if it is nominal, its values."""

    name: str
    kind: str
    values: list[str]


def read_arff(
    source: Source,
    options: TextOptions,
    request: ColumnRequest,
) -> Table:
    """Read an ARFF file; see ``read_data``."""
    copy = _Copy(source)
    copy.write()
    attributes = copy.attributes
    notes: list[str] = []
    given = [attribute.name for attribute in attributes]
    names = distinct_names(source, given, request, notes)
    roles = roles_of_columns(source, len(names), names, request, notes)
    for c in roles.features:
        if attributes[c].kind not in ("numeric", "nominal", *_KNOWN):
            raise source.error(
                f"attribute {names[c]!r} is of type {attributes[c].kind}, which cannot be a "
                "feature; leave it out with --ignore"
            )
    kinds = {"numeric": "number", "nominal": "text"}
    options.kinds = {
        str(c): kinds[a.kind] for c, a in enumerate(attributes) if a.kind in kinds
    } | dict(options.kinds)
    layout = CsvLayout(",", '"', ".", names, len(names), copy.data_line, copy.sample)
    scan = Scan([source], [layout], options, [copy.path])
    label_name = None if roles.label is None else names[roles.label]
    table = Table(source, [], None, label_name, True, scan.line_of, notes)
    scan.read(table, names, roles)
    for c, column in zip(roles.features, table.columns, strict=True):
        _check_values(table, attributes[c], column.values)
    if roles.label is not None:
        _check_values(table, attributes[roles.label], table.label)
    return table


def _check_values(table: Table, attribute: Attribute, values: Any) -> None:
    """Refuse values of a nominal attribute that its declaration does not list."""
    if attribute.kind != "nominal":
        return
    known = {*attribute.values, None, "?"}
    if set(values.tolist()) <= known:
        return
    row, value = next((i, v) for i, v in enumerate(values.tolist()) if v not in known)
    raise table.error(row, attribute.name, f"{value[:40]!r} is not one of the declared values")


class _Copy:
    """Writes the rows below ``@data`` as CSV."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.attributes: list[Attribute] = []
        self.data_line = 0
        self.sample: list[list[str]] = []
        self.path = str(source.folder() / "arff.csv")
        self.written = 0

    def write(self) -> None:
        """Read the header, then copy the rows."""
        number = 0
        with open(self.path, "w", encoding="utf-8", newline="") as file:
            for block in self.source.lines():
                try:
                    text = block.decode("utf-8")
                except UnicodeDecodeError as error:
                    line = number + block[: error.start].count(b"\n") + 1
                    raise self.source.error(
                        "is not UTF-8 text; give its --encoding", line
                    ) from None
                for row in text.split("\n")[:-1]:
                    number += 1
                    file.write(self._line(row.strip(), number) + "\n")
        if not self.data_line:
            raise self.source.error("has no @data section")

    def _line(self, line: str, number: int) -> str:
        if not line or line.startswith("%"):
            return ""
        if self.data_line:
            return self._row(line, number)
        word = line.split(None, 1)[0].lower()
        if word == "@attribute":
            self.attributes.append(_attribute(self.source, line, number))
        elif word == "@data":
            if len(self.attributes) < 2:
                raise self.source.error(
                    f"has {len(self.attributes)} attributes; features and labels needed"
                )
            self.data_line = number
        return ""

    def _row(self, line: str, number: int) -> str:
        is_sparse = line.startswith("{")
        if not is_sparse and not any(c in line for c in "'\"\\\r") and len(self.sample) >= _SAMPLE:
            return line.rstrip(",")
        try:
            fields = self._sparse(line) if is_sparse else self._dense(line)
        except DataFileError as error:
            raise self.source.error(str(error), number) from None
        if len(self.sample) < _SAMPLE:
            self.sample.append(fields)
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="").writerow(fields)
        text = buffer.getvalue().replace("\r", " ").replace("\n", " ")
        if is_sparse:
            self._bound(len(text))
        return text

    def _bound(self, length: int) -> None:
        self.written += length
        limit = max(_EXPANDED_BYTES, _EXPANDED_RATIO * (self.source.size or 0))
        if self.written > (self.source.max_bytes or limit):
            raise self.source.error(
                "its sparse rows are too long to be written in full; save it as LIBSVM, or raise "
                "the limit with --max-bytes"
            )

    def _dense(self, line: str) -> list[str]:
        return split_line(line.rstrip(","), ",", "'" if "'" in line else '"')

    def _sparse(self, line: str) -> list[str]:
        """``{index value, ...}``: what is not named is 0, or the first value."""
        fields = [a.values[0] if a.kind == "nominal" else "0" for a in self.attributes]
        inner = line.removeprefix("{").removesuffix("}").strip()
        for part in split_line(inner, ",", "'") if inner else []:
            index, _, value = part.partition(" ")
            place = int(index) if _INDEX.fullmatch(index) else len(fields)
            if place >= len(fields):
                raise DataFileError(f"{part[:40]!r} is not 'index value'")
            fields[place] = value.strip().strip("'\"")
        return fields


def _attribute(source: Source, line: str, number: int) -> Attribute:
    """The attribute that a line declares; read from left to right once."""
    rest = line[len("@attribute") :].lstrip()
    name, rest = _name(rest)
    rest = rest.strip()
    if not name or not rest:
        raise source.error(f"{line[:60]!r} is not '@attribute name type'", number)
    if rest.startswith("{"):
        inner = rest[1:].partition("}")[0] if "'" not in rest and '"' not in rest else rest[1:]
        inner = inner.strip().removesuffix("}").strip()
        values = split_line(inner, ",", "'" if "'" in inner else '"') if inner else []
        if not values:
            raise source.error(f"attribute {name!r} declares no values", number)
        return Attribute(name, "nominal", values)
    kind = rest.split(None, 1)[0].lower()
    return Attribute(name, "numeric" if kind in _NUMERIC else kind, [])


def _name(text: str) -> tuple[str, str]:
    """The name at the beginning, between quotes or up to a blank or brace, and what follows."""
    if text[:1] in ("'", '"'):
        end = 1
        while end < len(text) and text[end] != text[0]:
            end += 2 if text[end] == "\\" else 1
        return text[1:end].replace("\\" + text[0], text[0]), text[end + 1 :]
    end = next((k for k, c in enumerate(text) if c.isspace() or c == "{"), len(text))
    return text[:end], text[end:]
