"""Columns of a table as they were read, and the data set made of them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polymargin.datasets.dataset import (
    ColumnRequest,
    ColumnSpec,
    Dataset,
    Wanted,
    factorize,
    like_a_label,
)
from polymargin.datasets.sources import Source
from polymargin.datasets.text_values import (
    CLOCKS,
    NO_LABEL,
    are_codes,
    common_unit,
    date_words,
    dates_from_texts,
    find_date_format,
    is_missing,
    number_from_text,
    numbers_from_texts,
    without_points,
    without_unit,
)

__all__ = ["Column", "Table", "column_from_texts", "distinct_names", "roles_of_columns"]

_MOSTLY = 0.9  # share of numbers from which a few words in a column look like a mistake


@dataclass
class Column:
    """One column: numbers and dates as float64 (nan: missing), all else as text (None: missing)."""

    name: str
    kind: str  # "number", "date", "boolean" or "text"
    values: np.ndarray
    form: str | None = None  # how dates are written; the unit of numbers

    @property
    def is_complete(self) -> bool:
        """Whether no value is missing."""
        if self.values.dtype == object:
            return all(value is not None for value in self.values)
        return bool(not np.isnan(self.values).any())


@dataclass
class Table:
    """Columns of equal length, what they are for, and where their rows stand in the file."""

    source: Source
    columns: list[Column]  # of the features, in their order
    label: np.ndarray | None  # texts
    label_name: str | None
    has_names: bool
    line_of: Callable[[int], int | None] = lambda row: None
    notes: list[str] = field(default_factory=list)
    group: np.ndarray | None = None  # texts

    def error(self, row: int, name: str, message: str) -> Exception:
        """A refusal that names the line, or the row where there are no lines, and the column."""
        line = self.line_of(row)
        if line is None:
            return self.source.error(f"row {row}, column {name!r}: {message}")
        where = name if re.fullmatch(r"column \d+", name) else f"column {name!r}"
        return self.source.error(f"{where}: {message}", line)

    def dataset(self, dtype: Any, wanted: Wanted | None) -> Dataset:
        """The data set: a matrix where all features are numbers, else columns."""
        codes, labels = self._labels()
        names = [column.name for column in self.columns] if self.has_names else None
        data = Dataset(None, codes, labels, names, self.label_name, notes=self.notes)
        if self.group is not None:
            data.groups = group_numbers(self.group)
        for column in self.columns:
            self._check_finite(column)
        if wanted is not None and wanted.columns is not None:
            data.columns = [
                self._as(c, s) for c, s in zip(self.columns, wanted.columns, strict=True)
            ]
        elif wanted is not None and not wanted.raw:
            data.X = self._matrix([self._complete_numbers(c) for c in self.columns], dtype)
        elif all(c.kind == "number" and c.is_complete for c in self.columns):
            data.X = self._matrix(self.columns, dtype)
        else:
            data.columns = self.columns
        return data

    def _labels(self) -> tuple[np.ndarray | None, list[str]]:
        if self.label is None:
            return None, []
        gaps = [k for k, t in enumerate(self.label) if t is None or t.lower() in NO_LABEL]
        if gaps:
            name = self.label_name or "label"
            drop = "drop the row" if len(gaps) == 1 else f"drop these {len(gaps)} rows"
            if self.label_name is not None:
                column = '"' + name.replace('"', '""') + '"'
                drop += f" (--query 'SELECT * FROM data WHERE {column} IS NOT NULL')"
            raise self.error(
                gaps[0],
                name,
                f"the label is missing; fill it in, {drop}, or name another label column with "
                f"--label{like_a_label([column.name for column in self.columns])}",
            )
        return factorize(self.label.tolist(), f"column {self.label_name or 'of labels'!r}")

    def _matrix(self, columns: list[Column], dtype: Any) -> np.ndarray:
        """One array of all columns, whose own arrays are let go one by one."""
        X = np.empty((len(columns[0].values), len(columns)), dtype=dtype)
        for c, column in enumerate(columns):
            X[:, c] = column.values
            column.values = X[:, c]
        return X

    def _check_finite(self, column: Column) -> None:
        if column.values.dtype == object:
            return
        infinite = np.isinf(column.values)
        if infinite.any():
            row = int(np.flatnonzero(infinite)[0])
            raise self.error(
                row,
                column.name,
                f"{column.values[row]} is not finite; mend it, drop the row, or give --missing "
                f"{column.values[row]} if it stands for no value",
            )

    def _complete_numbers(self, column: Column) -> Column:
        """A column for a model that takes numbers only."""
        column = self._as(column, ColumnSpec(column.name, "number"))
        missing = np.isnan(column.values)
        if missing.any():
            row = int(np.flatnonzero(missing)[0])
            raise self.error(row, column.name, "missing value; the model was trained without any, "
                             "fill it in or drop the row")  # fmt: skip
        return column

    def _as(self, column: Column, spec: ColumnSpec) -> Column:
        """The column as a model knows it."""
        if column.kind == spec.kind and column.form == spec.form:
            return column
        if column.kind == spec.kind == "number":
            return self._same_unit(column, spec)
        if column.kind == spec.kind == "date":
            return self._same_date(column, spec)
        texts = column_texts(column)
        if spec.kind == "text" or spec.kind == "boolean":
            return Column(column.name, spec.kind, texts)
        if spec.kind == "number" and column.kind == "boolean":
            texts = np.array([{"true": "1", "false": "0"}.get(t, t) for t in texts], dtype=object)
        if spec.kind == "number":
            units = {without_unit(t)[1] for t in texts if t} - {""}
            unit = units.pop() if spec.form is None and len(units) == 1 else spec.form
            known = {t: without_unit(t)[0] for t in texts if t and without_unit(t)[1] == unit}
            values, is_other = numbers_from_texts([known.get(t, t) for t in texts])
        else:
            values, is_other = self._dates(column.name, texts, spec.form or "iso")
        if is_other.any():
            row = int(np.flatnonzero(is_other)[0])
            what = "a number" if spec.kind == "number" else f"a date like {date_words(spec.form)}"
            raise self.error(
                row,
                column.name,
                f"{str(texts[row])[:40]!r} is not {what}, which the model expects here",
            )
        return Column(column.name, spec.kind, values, spec.form)

    def _dates(self, name: str, texts: np.ndarray, form: str) -> tuple[np.ndarray, np.ndarray]:
        """Days of texts, written as in training or else alike in all rows; which are no dates."""
        values, is_other = dates_from_texts(texts.tolist(), form)
        present = [t for t in texts.tolist() if t is not None]
        other = find_date_format(present) if is_other.any() else None
        if other is None or (other in CLOCKS) != (form in CLOCKS):
            return values, is_other
        self.notes.append(
            f"column {name!r}: dates are read as {date_words(other)}, in training they were "
            f"written as {date_words(form)}"
        )
        return dates_from_texts(texts.tolist(), other)

    def _same_date(self, column: Column, spec: ColumnSpec) -> Column:
        """Days, where the file itself says that they are dates."""
        if column.form in (None, "iso") and spec.form not in CLOCKS:
            return Column(column.name, "date", column.values, spec.form)
        raise self.error(
            0,
            column.name,
            f"dates are written as {date_words(column.form)}, the model was trained on "
            f"{date_words(spec.form)}",
        )

    def _same_unit(self, column: Column, spec: ColumnSpec) -> Column:
        """Numbers in the unit of the model; those without one count as such."""
        if column.form is not None and spec.form is not None:
            raise self.error(
                0, column.name, f"is in {column.form!r}, the model was trained on {spec.form!r}"
            )
        return column


def group_numbers(texts: np.ndarray) -> np.ndarray:
    """Numbers of groups; rows without a group are one of their own together."""
    number: dict[Any, int] = {}
    return np.array([number.setdefault(text, len(number)) for text in texts.tolist()])


def column_texts(column: Column) -> np.ndarray:
    """The values of a column as texts again."""
    if column.values.dtype == object:
        return column.values
    found = np.empty(len(column.values), dtype=object)
    for i, value in enumerate(column.values.tolist()):
        if value == value:
            found[i] = str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    return found


def column_from_texts(
    table: Table,
    name: str,
    texts: np.ndarray,
    *,
    decimal: str = ".",
    missing: Sequence[str] = (),
    forced: str | None = None,
) -> Column:
    """A column by what its texts are: numbers, dates, truth values, or text."""
    distinct = {
        t: None if is_missing(t, missing) else str(t).strip() for t in dict.fromkeys(texts.tolist())
    }
    if decimal == "," and forced != "text":
        distinct = without_points(distinct)
    clean = np.array([distinct[t] for t in texts.tolist()] or [None], dtype=object)[: len(texts)]
    present = [t for t in distinct.values() if t is not None]
    is_truth = {t.lower() for t in present} <= {"true", "false"}
    if is_truth and present:
        clean = np.array([None if t is None else t.lower() for t in clean], dtype=object)
    if forced == "text" or (forced is None and present and are_codes(present)):
        return Column(name, "text", clean)
    is_numeric = [number_from_text(t, decimal) is not None for t in present]
    if all(is_numeric) or forced == "number":
        values, is_other = numbers_from_texts(clean.tolist(), decimal)
        if is_other.any():
            raise _no_number(table, name, clean, is_other, forced)
        return Column(name, "number", values)
    if forced is None and sum(is_numeric) > _MOSTLY * len(present):
        values, is_other = numbers_from_texts(clean.tolist(), decimal)
        if is_other.mean() < 1.0 - _MOSTLY:
            raise _no_number(table, name, clean, is_other, forced)
    if is_truth:
        return Column(name, "boolean", clean)
    form = find_date_format(present)
    if form is not None:
        return Column(name, "date", dates_from_texts(clean.tolist(), form)[0], form)
    return _with_unit(name, clean, present, decimal) or Column(name, "text", clean)


def _with_unit(name: str, texts: np.ndarray, present: list[str], decimal: str) -> Column | None:
    """Numbers that all have the same unit, such as "12 %" or "$1,200"."""
    unit = common_unit(present)
    if unit is None:
        return None
    cores: dict[Any, str | None] = {text: without_unit(text)[0] for text in present}
    if decimal == ",":
        cores = without_points(cores)
    values, is_other = numbers_from_texts([cores.get(text) for text in texts.tolist()], decimal)
    return None if is_other.any() else Column(name, "number", values, unit)


def _no_number(
    table: Table, name: str, texts: np.ndarray, is_other: np.ndarray, forced: str | None
) -> Exception:
    row = int(np.flatnonzero(is_other)[0])
    text = str(texts[row])[:40]
    share = f"{100 * (1 - is_other.mean()):.3g} % of the column"
    why = "--numeric asks for numbers" if forced else f"{share} are"
    return table.error(
        row,
        name,
        f"{text!r} is not a number, but {why}; mend it, give --missing {text!r} if it stands for "
        f"no value, or --categorical {name!r}",
    )


# -- what columns are called and for -----------------------------------------------------------


_MOST_RENAMED = 5  # columns whose new names are told one by one


def distinct_names(
    source: Source, names: Sequence[str], request: ColumnRequest, notes: list[str]
) -> list[str]:
    """Names of which no two are the same: x, x become x, x.2; every reader of names calls this."""
    for option, which in (("--label", request.label), ("--group", request.group)):
        places = [c for c, name in enumerate(names) if name == which]
        if len(places) > 1:
            numbers = " or ".join(f"{option} {c}" for c in places)
            raise source.error(f"has {len(places)} columns {which!r}; give a number: {numbers}")
    taken = set(names)
    found: dict[str, None] = {}  # in order, and quick to ask: tables may have 20,000 columns
    number = dict.fromkeys(names, 2)
    renamed = []
    for name in names:
        other = name
        while other in found or (other != name and other in taken):
            other = f"{name}.{number[name]}"
            number[name] += 1
        if other != name:
            renamed.append(
                f"the column name {name!r} occurs again: the later one is called {other!r}"
            )
        found[other] = None
    notes += renamed[:_MOST_RENAMED]
    if len(renamed) > _MOST_RENAMED:
        notes.append(f"{len(renamed) - _MOST_RENAMED} more columns are renamed in the same way")
    return list(found)


@dataclass
class Roles:
    """Numbers of the feature columns in the order of the features, and of the label."""

    features: list[int]
    label: int | None
    group: int | None = None


def roles_of_columns(
    source: Source,
    n_columns: int,
    names: list[str] | None,
    request: ColumnRequest,
    notes: list[str],
) -> Roles:
    """Which columns are features, in which order, and which one is the label."""
    label, group, wanted = request.label, request.group, request.wanted
    need_label = request.need_label
    dropped = {_find_column(source, c, n_columns, names, "--ignore") for c in request.ignore}
    grouped = None if group is None else _find_column(source, group, n_columns, names, "--group")
    if grouped is not None:
        dropped.add(grouped)
    chosen = None
    if label is not None:
        chosen = _find_column(source, label, n_columns, names, "--label")
    elif wanted is not None and names is not None and wanted.label_name in names:
        chosen = names.index(str(wanted.label_name))
    if wanted is not None and wanted.names is not None and names is not None:
        features = _by_name(source, names, wanted, notes)
        if chosen is None and need_label:
            rest = [c for c in range(n_columns) if c not in dropped and c not in features]
            if not rest:
                raise source.error("has no label column; name it with --label")
            chosen = rest[-1]
            notes.append(f"label: column {names[chosen]!r} (name another with --label)")
        if chosen in features and need_label:
            raise source.error(f"column {names[chosen]!r} is a feature of the model, not the label")
        _note_unused(names, {*features, chosen, *dropped}, notes)
        return Roles(features, chosen if need_label else None, grouped)
    rest = [c for c in range(n_columns) if c not in dropped and c != chosen]
    n_wanted = len(rest) if wanted is None else wanted.n_features
    is_spare = wanted is not None and len(rest) == n_wanted + 1
    if chosen is None and (need_label or is_spare):
        if not rest:
            raise source.error("has no column left for the label")
        chosen = rest.pop()
        what = "label" if need_label else "taken for the label and left out"
        shown = f"{chosen}" if names is None else f"{names[chosen]!r}"
        notes.append(f"{what}: the last column, {shown} (name another with --label)")
    if wanted is not None and len(rest) != n_wanted:
        raise source.error(
            f"has {len(rest)} feature column{'s' * (len(rest) != 1)}, but the model was "
            f"trained on {n_wanted}"
        )
    if not rest:
        raise source.error("has no feature columns, only a label")
    return Roles(rest, chosen if need_label else None, grouped)


def _by_name(source: Source, names: list[str], wanted: Wanted, notes: list[str]) -> list[int]:
    assert wanted.names is not None
    missing = [name for name in wanted.names if name not in names]
    if missing:
        shown = ", ".join(map(repr, missing[:8])) + (", ..." if len(missing) > 8 else "")
        raise source.error(
            f"lacks {len(missing)} of the {len(wanted.names)} feature columns of the model: "
            f"{shown}{_other_capitals(missing, names)}; it has {_shown_names(names)}"
        )
    places = [names.index(name) for name in wanted.names]
    if places != sorted(places):
        notes.append("feature columns matched by name, in the model's order")
    return places


def _note_unused(names: list[str], used: set[int | None], notes: list[str]) -> None:
    unused = [name for c, name in enumerate(names) if c not in used]
    if unused:
        shown = ", ".join(map(repr, unused[:6])) + (", ..." if len(unused) > 6 else "")
        word = "column" if len(unused) == 1 else "columns"
        notes.append(f"{len(unused)} {word} that the model does not know left out: {shown}")


def _find_column(
    source: Source, which: str | int, n_columns: int, names: list[str] | None, option: str
) -> int:
    if names is not None and str(which) in names:
        return names.index(str(which))
    if not re.fullmatch(r"-?[0-9]+", str(which)):
        if names is None:
            known = "it has no header (give --header if its first row holds names)"
        else:
            known = _known_columns(str(which), names)
        raise source.error(f"has no column {which!r} ({option}); {known}")
    number = int(which) if len(str(which)) < 20 else n_columns
    if not -n_columns <= number < n_columns:
        shown = str(which)[:40]
        raise source.error(f"has {n_columns} columns, so there is no column {shown} ({option})")
    return number % n_columns


def _other_capitals(missing: list[str], names: list[str]) -> str:
    """That names differ in capitals or blanks only, as a remark."""
    known = {" ".join(name.casefold().split()) for name in names}
    alike = all(" ".join(name.casefold().split()) in known for name in missing)
    return " (names differ in capitals or blanks only: write them as in training)" if alike else ""


def _shown_names(names: list[str]) -> str:
    return ", ".join(names if len(names) <= 12 else [*names[:8], "...", *names[-3:]])


def _known_columns(which: str, names: list[str]) -> str:
    """Names like the one asked for, then the names that there are, the last ones among them."""
    like = difflib.get_close_matches(which, names, 1)
    meant = f"did you mean {like[0]!r}? " if like else ""
    return f"{meant}it has {len(names)} columns: {_shown_names(names)}"
