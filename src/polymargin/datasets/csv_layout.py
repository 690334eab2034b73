"""How a delimited text is written: delimiter, quote, decimal mark, header, from its first lines."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from typing import Any

from polymargin.datasets.sources import LONGEST_LINE, Source
from polymargin.datasets.text_values import is_missing, is_number, without_unit

__all__ = ["CsvLayout", "guess_layout", "rewrite_blanks", "split_line"]

_DELIMITER_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "blank"}
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+([eE][+-]?\d+)?$", re.ASCII)
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)  # the first line of some exports
_SAMPLE_LINES = 200
_MOSTLY = 0.7  # of the lines below a title have as many fields as the first of them

csv.field_size_limit(LONGEST_LINE)


@dataclass
class CsvLayout:
    """What was found out about a text.

    Attributes
    ----------
    delimiter, quote, decimal : str
        A delimiter of one blank stands for any run of blanks.
    names : list of str or None
        The header; None if there is none.
    header_line : int
        Number of the last line above the rows: that of the header, or of comments; 0 without one.
    sample : list of list of str
        Fields of the first rows below the header.
    notes : list of str
        What was left out, for people.
    """

    delimiter: str
    quote: str
    decimal: str
    names: list[str] | None
    n_columns: int
    header_line: int
    sample: list[list[str]]
    notes: list[str] = field(default_factory=list)

    def column(self, c: int) -> str:
        """A column for people."""
        return f"column {c}" if self.names is None else f"column {self.names[c]!r}"


def guess_layout(
    source: Source,
    delimiter: str | None,
    header: bool | None,
    decimal: str | None,
    label: str | int | None,
    may_be_single: bool,
) -> CsvLayout:
    """The layout by the first lines; what is given is not guessed."""
    lines = _first_lines(source)
    if not lines:
        raise source.error("has no rows")
    skipped, delimiter = _lines_above(lines, delimiter)
    above = lines[skipped - 1][0] if skipped else 0
    lines = lines[skipped:]
    texts = [text for _, text in lines]
    quote = "'" if _is_quoted_singly(texts) else '"'
    delimiter = delimiter or _guess_delimiter(source, texts, quote, may_be_single)
    rows = [split_line(text, delimiter, quote) for text in texts]
    titles = _titles_above(rows)
    if titles and header is not False:
        above, skipped = lines[titles - 1][0], skipped + titles
        lines, rows = lines[titles:], rows[titles:]
    if len(rows[0]) < 2 and not may_be_single:
        raise source.error(
            f"has a single column where the {_DELIMITER_NAMES.get(delimiter, repr(delimiter))} "
            "divides; give the right --delimiter, or a file with features and labels"
        )
    if decimal is None:
        decimal = "," if delimiter != "," and _has_decimal_comma(rows) else "."
    has_header = _has_header(rows, label, decimal) if header is None else header
    notes = []
    if header is None and not has_header and not any(is_number(t, decimal) for t in rows[0]):
        notes.append("the first line is taken for a row, not for names (names: --header)")
    names = None
    if has_header:
        names = [name.strip() or f"column {c}" for c, name in enumerate(rows[0])]
    line = lines[0][0] if has_header else above
    body = rows[1:] if has_header else rows
    words = "a line above the table" if skipped == 1 else f"{skipped} lines above the table"
    notes += [f"{words} left out"] if skipped else []
    return CsvLayout(delimiter, quote, decimal, names, len(rows[0]), line, body, notes)


def _lines_above(lines: list[tuple[int, str]], delimiter: str | None) -> tuple[int, str | None]:
    """How many lines stand above the table, "sep=;" and comments, and the delimiter they tell.

    A line that begins with # is a comment if nothing divides it as it divides the line below.
    """
    skipped = 0
    told = _SEPARATOR_LINE.fullmatch(lines[0][1])
    if told is not None and len(lines) > 1:
        skipped, delimiter = 1, delimiter or told[1]
    first = skipped
    while skipped + 1 < len(lines) and lines[skipped][1].lstrip().startswith("#"):
        skipped += 1
    divides = [delimiter] if delimiter else [",", "\t", ";", "|"]
    below = lines[skipped][1]
    last = lines[skipped - 1][1]
    if skipped > first and any(d in below and last.count(d) == below.count(d) for d in divides):
        skipped -= 1  # the header itself
    return skipped, delimiter


def _titles_above(rows: list[list[str]]) -> int:
    """How many rows hold a title rather than fields: one word at most, above rows of several."""
    count = 0
    while count < len(rows) and sum(bool(text) for text in rows[count]) < 2:
        count += 1
    below = rows[count:]
    if not count or len(below) < 2 or is_number(rows[0][0]) or not rows[0][0]:
        return 0
    alike = sum(len(row) == len(below[0]) > 1 for row in below)
    return count if alike >= _MOSTLY * len(below) and all(below[0]) else 0


def _first_lines(source: Source) -> list[tuple[int, str]]:
    """(number of the last line, text) of the first rows; a quoted newline does not end a row."""
    raw = source.peek_lines(_SAMPLE_LINES)
    source.check_decodes(raw)
    head = raw.decode(source.encoding or "utf-8", "replace").removeprefix("\ufeff")
    pieces = head.split("\n")
    is_cut = len(pieces) > 1 and not head.endswith("\n") and len(raw) >= 1 << 16
    if is_cut:
        pieces.pop()
    found: list[tuple[int, str]] = []
    number = 0
    while number < len(pieces) and len(found) < _SAMPLE_LINES:
        start, text = number, pieces[number]
        while text.count('"') % 2 and number + 1 < len(pieces) and number - start < 100:
            number += 1
            text += "\n" + pieces[number]
        if text.count('"') % 2 and number > start:
            number, text = start, pieces[start]  # a quote in the middle of a word
        number += 1
        if text.strip():
            found.append((number, text.rstrip("\r")))
    return found


def split_line(line: str, delimiter: str, quote: str = '"') -> list[str]:
    """The fields of one row."""
    if delimiter == " ":
        line = re.sub(r"[ \t]+", " ", line.strip())
    try:
        fields: list[str] = next(_reader([line], delimiter, quote), [])
    except csv.Error:
        fields = line.split(delimiter)
    return [field.strip() for field in fields]


def _reader(lines: Any, delimiter: str, quote: str) -> Any:
    lines = (piece for line in lines for piece in line.replace("\r", " ").splitlines(True))
    return csv.reader(lines, delimiter=delimiter, quotechar=quote, skipinitialspace=True)


def _is_quoted_singly(texts: list[str]) -> bool:
    """Whether fields stand between single quotes, as no field stands between double ones."""
    if any('"' in text for text in texts):
        return False
    return sum(bool(re.search(r"(^|[,;\t|])\s*'[^']*'\s*([,;\t|]|$)", t)) for t in texts) > 1


def _guess_delimiter(source: Source, texts: list[str], quote: str, may_be_single: bool) -> str:
    """The one that divides the first lines into the same number of fields, at least two."""
    scores = {}
    for delimiter in (",", "\t", ";", "|", " "):
        counts = [len(split_line(text, delimiter, quote)) for text in texts[:50]]
        usual = max(set(counts), key=counts.count)
        if usual > 1:
            # the same number in nearly all lines counts more than many fields; blanks often stand
            # beside another delimiter, and commas inside numbers beside semicolons
            is_steady = counts.count(usual) / len(counts) >= 0.8
            is_first_alike = counts[0] == usual
            scores[delimiter] = (is_steady, is_first_alike, delimiter != " ", usual)
    if not scores and may_be_single:
        return ","
    if not scores:
        raise source.error(
            "has a single column: no comma, semicolon, tab, bar or blank divides its lines; give "
            "--delimiter, or a file with features and labels"
        )
    if ";" in scores and scores[";"][0] and "," in scores:
        rows = [split_line(text, ";", quote) for text in texts]
        if _has_decimal_comma(rows):
            return ";"
    return max(scores, key=lambda d: scores[d])


def _has_decimal_comma(rows: list[list[str]]) -> bool:
    """Whether numbers are written as 1,5: some column holds only such and whole numbers."""
    body = [row for row in rows[1:] or rows if len(row) == len(rows[0])]
    for c in range(len(rows[0])):
        cells = [without_unit(row[c])[0] or row[c] for row in body if not is_missing(row[c])]
        with_comma = [cell for cell in cells if _DECIMAL_COMMA.match(cell)]
        if with_comma and all(_DECIMAL_COMMA.match(t) or is_number(t, ",") for t in cells):
            return True
    return False


def _has_header(rows: list[list[str]], label: str | int | None, decimal: str) -> bool:
    """Whether the first row holds names: a word over a column of numbers."""

    def numeric(text: str) -> bool:
        return is_number(text, decimal) or is_missing(text)

    first = rows[0]
    if isinstance(label, str) and not re.fullmatch(r"-?\d+", label) and label in first:
        return True
    body = [row for row in rows[1:] if len(row) == len(first)]
    if not body:
        return not any(numeric(text) for text in first if text.strip())
    for c, text in enumerate(first):
        if not numeric(text) and all(numeric(row[c]) for row in body):
            return True
    # names do not come again below: where every column is text, or numbered from 0 or 1
    words = [c for c, text in enumerate(first) if not numeric(text)]
    numbered = [text for text in first if numeric(text)]
    counted = [[str(k + start) for k in range(len(numbered))] for start in (0, 1)]
    if words and (not numbered or (len(numbered) > 1 and numbered in counted)):
        again = [c for c in words if any(row[c] == first[c] for row in body)]
        alone = [c for c in words if c not in again and _has_repeats([row[c] for row in body])]
        return not again or len(alone) > len(again)
    return len(numbered) > 2 and numbered in counted and body[0] not in counted


def _has_repeats(values: list[str]) -> bool:
    """Whether values come twice on average, so that one that never comes again is a surprise."""
    return 2 * len(set(values)) <= len(values)


def rewrite_blanks(block: bytes) -> bytes:
    """Lines with any runs of blanks between fields as lines with tabs; their number stays."""
    lines = []
    for line in block.decode("utf-8", "surrogateescape").split("\n"):
        if '"' in line:
            fields = split_line(line, " ")
            lines.append("\t".join(field.replace("\t", " ").replace('"', "'") for field in fields))
        else:
            lines.append("\t".join(line.split()))
    return "\n".join(lines).encode("utf-8", "surrogateescape")
