"""What becomes of each column of a table: the plan, its reasons, and the encoder it asks for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.datasets.text_values import CLOCKS, date_words, dates_from_texts
from polymargin.tables.table_columns import column_matrix, uniform_column

__all__ = ["ColumnPlan", "PlannedColumn", "names_rows", "plan_columns"]

LEFT_OUT = "left out"

_FEW_ROWS = 20  # below, a column that numbers the rows may as well be a feature
_IDENTIFIER_SHARE = 0.9  # different values per row from which a column of words names the rows
_TEXT_WORDS = 4.0  # words per value from which a column is prose rather than a list of categories
_TEXT_SHARE = 0.2  # different values per row that prose has at least
_GAP_SHARE = 0.01  # missing values from which the gap itself may tell something
_MOST_CATEGORIES = 200  # of a column; the rarest beyond are taken together
_MOST_TERMS = 20_000  # words of a column of text that are kept, the most frequent ones
_RARE = (2, 20, 1000)  # a category is rare below n / 1000 rows, at least 2, at most 20

_IDENTIFIER_NAME = re.compile(r"(?i:(^|[\W_])(id|idx|index|uuid|key))$|[a-z]I[dD]$")
"""Names of columns that are left out if every row has another whole number in them."""


@dataclass
class PlannedColumn:
    """A column; what it is taken for: number, date, category, text or left out; and why."""

    name: str
    kind: str
    why: str
    form: str | None = None
    has_gaps: bool = False


@dataclass
class ColumnPlan:
    """The columns of a table in their order."""

    columns: list[PlannedColumn]
    n_rows: int

    @property
    def kept(self) -> list[PlannedColumn]:
        """All but those that are left out."""
        return [column for column in self.columns if column.kind != LEFT_OUT]

    def rows(self) -> list[list[str]]:
        """The plan for people: a heading and a line for each column."""
        return [["column", "taken as", ""]] + [[c.name, c.kind, c.why] for c in self.columns]

    def matrix(self, columns: Sequence[Any]) -> np.ndarray:
        """The values of the columns that are kept, as ``TableColumns`` gives them."""
        values = {column.name: column.values for column in columns}
        return column_matrix(
            [uniform_column(values[c.name], c.name, c.kind, c.form) for c in self.kept]
        )

    def table_columns(self) -> Any:
        """The first step of the Pipeline."""
        from polymargin.tables.table_columns import TableColumns

        step = TableColumns([(c.name, c.kind, c.form) for c in self.kept])
        return step.fit(None)

    def encoder(self, scaler: Any) -> Any:
        """The ColumnTransformer that makes numbers of the columns.

        Parameters
        ----------
        scaler : transformer or None
            Cloned for every group of numbers.
        """
        from sklearn.base import clone
        from sklearn.compose import ColumnTransformer
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import Pipeline
        from sklearn.preprocessing import OneHotEncoder

        parts: list[tuple[str, Any, Any]] = []
        for name, has_gaps in (("numbers", False), ("numbers with gaps", True)):
            places = self._places(("number", "date"), has_gaps)
            if places:
                fill = SimpleImputer(
                    strategy="median", add_indicator=has_gaps, keep_empty_features=True
                )
                scale = [] if scaler is None else [("scale", clone(scaler))]
                parts.append((name, Pipeline([("fill", fill), *scale]), places))
        places = self._places(("category",))
        if places:
            low, high, share = _RARE
            encode = OneHotEncoder(
                handle_unknown="infrequent_if_exist",
                min_frequency=int(np.clip(self.n_rows // share, low, high)),
                max_categories=_MOST_CATEGORIES,
            )
            parts.append(("categories", encode, places))
        for place in self._places(("text",)):
            words = TfidfVectorizer(
                sublinear_tf=True, max_features=_MOST_TERMS, token_pattern=r"(?u)\b\w+\b"
            )
            parts.append((f"text {self.kept[place].name}", words, place))
        return ColumnTransformer(parts)

    def _places(self, kinds: tuple[str, ...], has_gaps: bool | None = None) -> list[int]:
        return [
            k
            for k, column in enumerate(self.kept)
            if column.kind in kinds and (has_gaps is None or column.has_gaps == has_gaps)
        ]


def plan_columns(columns: Sequence[Any], overrides: Mapping[str, str] | None = None) -> ColumnPlan:
    """Decide what becomes of each column.

    Parameters
    ----------
    columns : sequence of Column
        As a reader gives them.
    overrides : mapping of str to str
        Kinds by name: "number", "category", "text", "date", "date FORMAT" or "ignore".

    Raises
    ------
    ValueError
        If an override names no column, has an unknown kind or does not fit the values, or if no
        column is left.
    """
    given = dict(overrides or {})
    names = [column.name for column in columns]
    for name in given:
        if name not in names:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(names[:12])}")
    planned = [_forced(c, given[c.name]) if c.name in given else _plan(c) for c in columns]
    plan = ColumnPlan(planned, len(columns[0].values))
    if not plan.kept:
        raise ValueError(
            "no column is left to learn from: " + "; ".join(f"{c.name}: {c.why}" for c in planned)
        )
    return plan


def _plan(column: Any) -> PlannedColumn:
    if column.kind in ("number", "date"):
        return _plan_numbers(column)
    if column.kind == "boolean":
        return _category(column, "yes or no")
    return _plan_texts(column)


def _plan_numbers(column: Any) -> PlannedColumn:
    values = column.values
    gaps = np.isnan(values)
    if gaps.all():
        return PlannedColumn(column.name, LEFT_OUT, "no value in any row")
    if np.all(values == values[0]):
        return PlannedColumn(column.name, LEFT_OUT, f"the same value in all rows, {values[0]:g}")
    if column.kind == "number" and (why := names_rows(column.name, values)):
        return PlannedColumn(column.name, LEFT_OUT, why)
    has_gaps = bool(gaps.mean() >= _GAP_SHARE)
    why = "" if column.form is None else f"in {column.form}"
    if column.kind == "date":
        unit = "share of the day" if column.form in CLOCKS else "days since 1970"
        why = f"{unit}, read as {date_words(column.form)}"
    if gaps.any():
        noted = ", and whether it is missing is a feature" if has_gaps else ""
        why = _joined(why, f"{int(gaps.sum())} missing, filled with the median{noted}")
    return PlannedColumn(column.name, column.kind, why, column.form, has_gaps)


def names_rows(name: str, values: np.ndarray) -> str:
    """Why numbers name the rows rather than describe them; empty if they do not."""
    if len(values) < _FEW_ROWS:
        return ""
    kept = f"(kept with --numeric {name!r})"
    if np.all(np.diff(values) == 1.0):
        return f"numbers the rows {kept}"
    if not _IDENTIFIER_NAME.search(name):
        return ""
    is_whole = bool(np.all(np.isfinite(values) & (values == np.floor(values))))
    if is_whole and len(np.unique(values)) == len(values):
        return f"a different whole number in each row, an identifier {kept}"
    return ""


def _joined(*words: str) -> str:
    return "; ".join(word for word in words if word)


def _plan_texts(column: Any) -> PlannedColumn:
    present = [value for value in column.values.tolist() if value is not None]
    if not present:
        return PlannedColumn(column.name, LEFT_OUT, "no value in any row")
    counts = Counter(present)
    if len(counts) == 1 and len(present) == len(column.values):
        return PlannedColumn(column.name, LEFT_OUT, f"the same value in all rows, {present[0]!r}")
    n_words = float(np.mean([len(value.split()) for value in present]))
    share = len(counts) / len(present)
    if n_words >= _TEXT_WORDS and share >= _TEXT_SHARE:
        return _text(column)
    if len(present) >= _FEW_ROWS and share >= _IDENTIFIER_SHARE:
        return PlannedColumn(
            column.name,
            LEFT_OUT,
            f"{len(counts)} different values in {len(present)} rows, an identifier (kept with "
            f"--categorical or --text {column.name!r})",
        )
    return _category(column)


def _text(column: Any) -> PlannedColumn:
    return PlannedColumn(column.name, "text", "words weighted by tf-idf")


def _category(column: Any, what: str = "") -> PlannedColumn:
    texts = uniform_column(column.values, column.name, "category", None)
    counts = Counter(texts.tolist())
    low, high, share = _RARE
    rare = sum(count < np.clip(len(texts) // share, low, high) for count in counts.values())
    gaps = counts.pop("", 0)
    words = what or f"{len(counts)} values"
    if rare > 1:
        words += f", {rare} rare ones taken together"
    return PlannedColumn(
        column.name,
        "category",
        _joined(words, f"{gaps} missing, a value of its own" if gaps else ""),
    )


def _forced(column: Any, kind: str) -> PlannedColumn:
    """A column as the user wants it."""
    word, _, form = kind.partition(" ")
    if word == "ignore":
        return PlannedColumn(column.name, LEFT_OUT, "as asked")
    if word == "category":
        return _category(column)
    if word == "text":
        return _text(column)
    if word == "number":
        if column.kind != "number":
            column.values = uniform_column(column.values, column.name, "number", None)
            column.kind = "number"
        planned = _plan_numbers(column)
        is_kept = planned.kind != LEFT_OUT
        return planned if is_kept else PlannedColumn(column.name, "number", "")
    if word == "date":
        if column.kind != "date" or form:
            texts = [None if t is None else str(t) for t in column.values.tolist()]
            values, is_other = dates_from_texts(texts, form or "iso")
            if is_other.any():
                bad = next(t for t, other in zip(texts, is_other, strict=True) if other)
                raise ValueError(f"column {column.name!r}: {bad!r} is not a date like {form!r}")
            column.values, column.kind, column.form = values, "date", form or "iso"
        return _plan_numbers(column)
    raise ValueError(
        f"column {column.name!r}: {kind!r} is no kind; use number, category, text, date or ignore"
    )
