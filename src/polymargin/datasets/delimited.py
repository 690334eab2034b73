"""CSV, TSV and blanks: guess the layout from the beginning, then read blocks by compiled code."""

from __future__ import annotations

import csv
import difflib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.datasets.dataset import Dataset, LabelTable, RowBuffer, Wanted
from polymargin.datasets.sources import Source
from polymargin.exceptions import DataFileError

__all__ = ["Layout", "column_roles", "read_delimited", "read_rows"]

_MISSING = frozenset(
    ["", "?", "na", "n/a", "nan", "-nan", "null", "none", "<na>", "#n/a", "missing", "."]
)
_NO_LABEL = frozenset(["", "?", "nan", "<na>"])
_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "blank"}


@dataclass
class Layout:
    """How rows are written and what their columns are."""

    delimiter: str
    n_columns: int
    names: list[str] | None
    role: np.ndarray  # place among the features, LABEL or IGNORED
    label: int | None

    def column(self, c: int) -> str:
        """A column for people."""
        return f"column {c}" if self.names is None else f"column {self.names[c]!r}"


# -- layout ------------------------------------------------------------------------------------


def read_delimited(
    source: Source,
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    label: str | int | None = None,
    ignore: Sequence[str | int] = (),
    wanted: Wanted | None = None,
    need_label: bool = True,
    dtype: Any = np.float64,
) -> Dataset:
    """Read a table; see ``read_data``."""
    head = source.peek().removeprefix(b"\xef\xbb\xbf")
    lines = _first_lines(head, len(source.peek()) >= 1 << 16)
    may_be_single = wanted is not None and wanted.n_features == 1 and not need_label
    delimiter = delimiter or _guess_delimiter(source, lines, may_be_single)
    rows = [split_line(line, delimiter) for _, line in lines]
    n_columns = len(rows[0])
    if n_columns < 2 and not may_be_single:
        raise source.error(
            f"has a single column where the {_NAMES.get(delimiter, repr(delimiter))} divides; "
            "give the right --delimiter, or a file with features and labels"
        )
    names = None
    if header or (header is None and _has_header(rows, label)):
        names = [name.strip() or f"column {c}" for c, name in enumerate(rows[0])]
    notes: list[str] = []
    if names is not None and not rows[0][0].strip() and wanted is None:
        notes.append("the first column has no name: if it numbers the rows, use --ignore 0")
    role, label_column = column_roles(
        source, n_columns, names, label, ignore, wanted, need_label, notes
    )
    layout = Layout(delimiter, n_columns, names, role, label_column)
    skip = lines[0][0] if names is not None else 0
    data = read_rows(source, layout, skip, dtype)
    data.notes = notes + data.notes
    return data


def _first_lines(head: bytes, is_cut: bool) -> list[tuple[int, str]]:
    """(line number, text) of the first lines that are not blank."""
    pieces = head.split(b"\n")
    if is_cut and len(pieces) > 1:
        pieces.pop()
    found: list[tuple[int, str]] = []
    for number, piece in enumerate(pieces, 1):
        if piece.strip() and len(found) < 200:
            text = piece.decode("utf-8", "replace").rstrip("\r")
            found.append((number, text.replace("\r", " ")))
    return found


def split_line(line: str, delimiter: str, quote: str = '"') -> list[str]:
    """The fields of one row."""
    if delimiter == " ":
        return [] if not line.strip() else next(_reader(re.sub(r"[ \t]+", " ", line.strip()), " "))
    fields: list[str] = next(_reader(line, delimiter, quote), [])
    return [field.strip() for field in fields]


def _reader(line: str, delimiter: str, quote: str = '"') -> Any:
    return csv.reader([line], delimiter=delimiter, quotechar=quote, skipinitialspace=True)


def _guess_delimiter(source: Source, lines: list[tuple[int, str]], may_be_single: bool) -> str:
    """The one that divides the first lines into the same number of fields, at least two."""
    scores = {}
    for delimiter in (",", "\t", ";", "|", " "):
        counts = [len(split_line(line, delimiter)) for _, line in lines[:50]]
        usual = max(set(counts), key=counts.count)
        if usual > 1:
            # the same number in nearly all lines counts more than many fields; blanks often stand
            # beside another delimiter
            is_steady = counts.count(usual) / len(counts) >= 0.8
            scores[delimiter] = (is_steady, delimiter != " ", usual)
    if not scores and may_be_single:
        return ","
    if not scores:
        raise source.error(
            "has a single column: no comma, semicolon, tab, bar or blank divides its lines; give "
            "--delimiter, or a file with features and labels"
        )
    return max(scores, key=lambda d: scores[d])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.strip().lower() in _MISSING
    return True


def _has_header(rows: list[list[str]], label: str | int | None) -> bool:
    """Whether the first row holds names: a word over a column of numbers."""
    first, rest = rows[0], rows[1:]
    if isinstance(label, str) and not re.fullmatch(r"-?\d+", label) and label in first:
        return True
    body = [row for row in rest if len(row) == len(first)]
    if not body:
        return not any(_is_number(text) for text in first if text.strip())
    for c, text in enumerate(first):
        if not _is_number(text) and all(_is_number(row[c]) for row in body):
            return True
    # names do not come again below: where every column is text, or numbered from 0 or 1
    words = [c for c, text in enumerate(first) if not _is_number(text)]
    numbered = [text for text in first if _is_number(text)]
    counted = [[str(k + start) for k in range(len(numbered))] for start in (0, 1)]
    if words and (not numbered or (len(numbered) > 1 and numbered in counted)):
        return not any(row[c] == first[c] for row in body for c in words)
    return len(numbered) > 2 and numbered in counted and body[0] not in counted


def column_roles(
    source: Source,
    n_columns: int,
    names: list[str] | None,
    label: str | int | None,
    ignore: Sequence[str | int],
    wanted: Wanted | None,
    need_label: bool,
    notes: list[str],
) -> tuple[np.ndarray, int | None]:
    """What each column is for: a place among the features, the label, or nothing."""
    from polymargin.compiled.parsing import IGNORED, LABEL

    role = np.full(n_columns, IGNORED, dtype=np.int64)
    dropped = {_find_column(source, c, n_columns, names, "--ignore") for c in ignore}
    chosen = None
    if label is not None:
        chosen = _find_column(source, label, n_columns, names, "--label")
    by_name = wanted is not None and wanted.names is not None and names is not None
    if chosen is None and wanted is not None and names is not None and wanted.label_name in names:
        chosen = names.index(str(wanted.label_name))
    if wanted is not None and wanted.names is not None and names is not None:
        missing = [name for name in wanted.names if name not in names]
        if missing:
            shown = ", ".join(map(repr, missing[:8])) + (", ..." if len(missing) > 8 else "")
            raise source.error(
                f"lacks {len(missing)} of the {len(wanted.names)} feature columns of the model: "
                f"{shown}"
            )
        places = [names.index(name) for name in wanted.names]
        role[places] = np.arange(len(places))
        if places != sorted(places):
            notes.append("feature columns matched by name, in the model's order")
        if chosen is None and need_label:
            rest = [c for c in range(n_columns) if role[c] == IGNORED and c not in dropped]
            if not rest:
                raise source.error("has no label column; name it with --label")
            chosen = rest[-1]
            notes.append(f"label: column {names[chosen]!r} (name another with --label)")
    else:
        rest = [c for c in range(n_columns) if c not in dropped and c != chosen]
        n_wanted = len(rest) if wanted is None else wanted.n_features
        is_spare = wanted is not None and len(rest) == n_wanted + 1
        if chosen is None and (need_label or is_spare):
            if not rest:
                raise source.error("has no column left for the label")
            chosen = rest.pop()
            what = "label" if need_label else "taken for the label and left out"
            shown = f"{chosen}" if names is None else f"{names[chosen]!r}"
            if need_label or wanted is not None:
                notes.append(f"{what}: the last column, {shown} (name another with --label)")
        if wanted is not None and len(rest) != n_wanted:
            raise source.error(
                f"has {len(rest)} feature column{'s' * (len(rest) != 1)}, but the model was "
                f"trained on {n_wanted}"
            )
        if not rest:
            raise source.error("has no feature columns, only a label")
        role[rest] = np.arange(len(rest))
    if chosen is not None and need_label:
        if by_name and role[chosen] >= 0:
            raise source.error(f"column {label!r} is a feature of the model, not the label")
        role[chosen] = LABEL
    return role, chosen if need_label else None


def _find_column(
    source: Source, which: str | int, n_columns: int, names: list[str] | None, option: str
) -> int:
    if names is not None and str(which) in names:
        return names.index(str(which))
    if not re.fullmatch(r"-?\d+", str(which)):
        known = "it has no header" if names is None else _known_columns(str(which), names)
        raise source.error(f"has no column {which!r} ({option}); {known}")
    number = int(which)
    if not -n_columns <= number < n_columns:
        raise source.error(f"has {n_columns} columns, so there is no column {number} ({option})")
    return number % n_columns


def _known_columns(which: str, names: list[str]) -> str:
    """Names like the one asked for, then the names that there are, the last ones among them."""
    like = difflib.get_close_matches(which, names, 1)
    meant = f"did you mean {like[0]!r}? " if like else ""
    shown = names if len(names) <= 12 else [*names[:8], "...", *names[-3:]]
    return f"{meant}it has {len(names)} columns: {', '.join(shown)}"


# -- rows --------------------------------------------------------------------------------------


def read_rows(
    source: Source,
    layout: Layout,
    skip: int,
    dtype: Any,
    split: Callable[[str], list[str] | None] | None = None,
) -> Dataset:
    """Rows after the first ``skip`` lines; ``split`` cuts up a line that is not plain."""
    from polymargin.compiled.parsing import LABEL, parse_rows

    width = int((layout.role >= 0).sum())
    has_labels = bool((layout.role == LABEL).any())
    table = LabelTable("the label column" if layout.label is None else layout.column(layout.label))
    buffer = RowBuffer(width, has_labels, dtype)
    chunk = max(64, (1 << 21) // (8 * width))
    scratch = np.empty((chunk, width))
    values, bits = scratch.reshape(-1), scratch.view(np.uint64).reshape(-1)
    codes = np.zeros(chunk, dtype=np.int32)
    delimiter = -1 if layout.delimiter == " " else ord(layout.delimiter)
    by_hand = _ByHand(source, layout, table, split)
    line = 0
    for block in _whole_lines(source):
        text = np.frombuffer(block, dtype=np.uint8)
        p, end = 0, len(block)
        while line < skip and p < end:
            p, line = block.index(b"\n", p) + 1, line + 1
        while p < end:
            arrays = (table.slots, table.starts, table.arena, values, bits, codes)
            rows, lines, p, plain = parse_rows(text, p, end, delimiter, layout.role, *arrays)
            buffer.extend(scratch[:rows], codes[:rows], source.share_done)
            line += lines
            if not plain:
                row, code, p, lines = by_hand.read(block, p, line + 1)
                line += lines
                if row is not None:
                    buffer.extend(row[None, :], np.array([code]), source.share_done)
    if buffer.n == 0:
        raise source.error("has no rows" if skip == 0 else "has a header but no rows")
    X, found = buffer.finish()
    names = None
    if layout.names is not None:
        order = np.argsort(layout.role[layout.role >= 0])
        kept = [layout.names[c] for c in np.flatnonzero(layout.role >= 0)]
        names = [kept[k] for k in order]
    label_name = None
    if layout.names is not None and layout.label is not None:
        label_name = layout.names[layout.label]
    data = Dataset(X, found, table.texts, names, label_name)
    if names is not None and len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        data.notes.append(f"the column name {twice!r} occurs twice: columns go by place, not name")
        data.feature_names = None
    return data


def _whole_lines(source: Source) -> Any:
    """Blocks of bytes that end with a newline."""
    rest = b""
    first = True
    while True:
        block = source.block()
        if first:
            block, first = block.removeprefix(b"\xef\xbb\xbf"), False
        if not block:
            if rest:
                yield rest + b"\n"
            return
        if b"\0" in block:
            raise source.error("holds bytes that are no text")
        cut = block.rfind(b"\n") + 1
        if cut:
            yield rest + block[:cut]
            rest = block[cut:]
        else:
            rest += block


class _ByHand:
    """Reads a row that compiled code would not: new labels, quotes, odd numbers; or refuses it."""

    def __init__(
        self,
        source: Source,
        layout: Layout,
        table: LabelTable,
        split: Callable[[str], list[str] | None] | None,
    ) -> None:
        self.source, self.layout, self.table, self.split = source, layout, table, split
        self.width = int((layout.role >= 0).sum())

    def read(
        self, block: bytes, p: int, line: int
    ) -> tuple[np.ndarray | None, int | None, int, int]:
        """The row that starts at p, the code of its label, the next place, the lines it took."""
        end = block.index(b"\n", p)
        lines = 1
        while block.count(b'"', p, end) % 2 and self.split is None:
            end = block.find(b"\n", end + 1)
            lines += 1
            if end < 0 or lines > 1000:
                raise self.source.error("a quote is opened but not closed", line)
        try:
            text = block[p:end].decode("utf-8").rstrip("\r")
        except UnicodeDecodeError:
            raise self.source.error("is not UTF-8 text", line) from None
        try:
            fields = (self.split or self._split)(text)
        except csv.Error:
            raise self.source.error("has a carriage return inside the line", line) from None
        except DataFileError as error:
            raise self.source.error(str(error), line) from None
        if fields is None:
            return None, None, end + 1, lines
        return *self._row(fields, line), end + 1, lines

    def _split(self, text: str) -> list[str]:
        return split_line(text, self.layout.delimiter)

    def _row(self, fields: list[str], line: int) -> tuple[np.ndarray, int | None]:
        from polymargin.compiled.parsing import LABEL

        layout = self.layout
        if len(fields) != layout.n_columns:
            raise self.source.error(
                f"has {len(fields)} field{'s' * (len(fields) != 1)} where {layout.n_columns} are "
                "expected",
                line,
            )
        row, code = np.empty(self.width), None
        for c, (place, text) in enumerate(zip(layout.role, fields, strict=True)):
            if place >= 0:
                row[place] = self._number(text, c, line)
            elif place == LABEL:
                if text.lower() in _NO_LABEL:
                    raise self.source.error(f"{layout.column(c)}: the label is missing", line)
                code = self.table.code(text)
        return row, code

    def _number(self, text: str, c: int, line: int) -> float:
        where = self.layout.column(c)
        if text.strip().lower() in _MISSING:
            shown = f" ({text!r})" if text else ""
            raise self.source.error(
                f"{where}: missing value{shown}; fill it in or drop the row", line
            )
        try:
            value = float(text) if "_" not in text else math.nan
        except ValueError:
            value = math.nan
        if math.isnan(value):
            raise self.source.error(
                f"{where}: {text[:40]!r} is not a number; encode it, or leave the column out with "
                "--ignore",
                line,
            )
        if math.isinf(value):
            raise self.source.error(f"{where}: {text[:40]!r} is not finite", line)
        return value
