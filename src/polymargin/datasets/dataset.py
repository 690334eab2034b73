"""What a reader hands over, and the growing buffers that it fills."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polymargin.exceptions import DataFileError

__all__ = [
    "ColumnRequest",
    "ColumnSpec",
    "Dataset",
    "LabelTable",
    "RowBuffer",
    "Wanted",
    "factorize",
    "label_values",
    "like_a_label",
]

Progress = Callable[[int, int | None], None]
"""Called with the bytes read so far and the size, if it is known."""

MOST_LABELS = 32767
_LABEL_NAMES = ("label", "labels", "class", "target", "y", "species", "category", "outcome")
"""Names of columns that are suggested where the label column holds no classes."""

_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})(\.0*)?$")


@dataclass
class ColumnSpec:
    """A column of a table: its name, "number", "date", "boolean" or "text", the format of dates."""

    name: str
    kind: str
    form: str | None = None


@dataclass
class Wanted:
    """What a model expects of the data it is used on."""

    n_features: int
    names: Sequence[str] | None = None
    label_name: str | None = None
    zero_based: bool | None = None
    columns: Sequence[ColumnSpec] | None = None
    """Kinds of the columns, where the model encodes a table itself."""
    raw: bool = False
    """Whether columns go to the model as they were read (a Pipeline that was made in Python)."""
    known: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Values that the model knows of columns of categories."""


@dataclass
class ColumnRequest:
    """Which columns of a table are asked for; the parameters are those of ``read_data``."""

    label: str | int | None = None
    ignore: Sequence[str | int] = ()
    wanted: Wanted | None = None
    need_label: bool = True
    group: str | int | None = None


@dataclass
class Dataset:
    """A data file in memory.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features), or None
        None where the features are not all numbers without gaps; then ``columns`` has them.
    codes : ndarray of shape (n_samples,) or None
        Number of each example's label in ``labels``; None without a label column.
    labels : list of str
        The different labels as they stand in the file, in order of appearance.
    feature_names : list of str or None
    label_name : str or None
    kind : str
        The format.
    zero_based : bool or None
        LIBSVM only: whether the first feature has the number 0.
    notes : list of str
        What was assumed, for people.
    columns : list of Column or None
        The features of a table that is no matrix.
    plan : ColumnPlan or None
        What becomes of these columns.
    groups : ndarray of shape (n_samples,) or None
        Numbers of the groups that ``group`` names.
    """

    X: Any
    codes: np.ndarray | None
    labels: list[str]
    feature_names: list[str] | None = None
    label_name: str | None = None
    kind: str = ""
    zero_based: bool | None = None
    notes: list[str] = field(default_factory=list)
    columns: list[Any] | None = None
    plan: Any = None
    groups: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        if self.columns is not None:
            return len(self.columns[0].values), len(self.columns)
        return int(self.X.shape[0]), int(self.X.shape[1])

    @property
    def y(self) -> np.ndarray | None:
        """The labels: integers where all of them are, text otherwise; None without labels."""
        if self.codes is None:
            return None
        return np.asarray(label_values(self.labels)[self.codes])

    def labels_among(self, classes: np.ndarray) -> np.ndarray:
        """Each example's number in ``classes``; labels that are not there are refused."""
        if self.codes is None:
            raise DataFileError("the data have no label column")
        known = {_key(value): k for k, value in enumerate(classes.tolist())}
        numbers = np.array([known.get(_key(text), -1) for text in self.labels], dtype=np.int64)
        strange = [text for text, k in zip(self.labels, numbers, strict=True) if k < 0]
        if strange:
            shown = ", ".join(map(repr, strange[:5])) + (", ..." if len(strange) > 5 else "")
            known_labels = ", ".join(map(str, classes[:10].tolist()))
            more = ", ..." if len(classes) > 10 else ""
            raise DataFileError(
                f"unknown label{'s' if len(strange) > 1 else ''} {shown}; the model knows "
                f"{known_labels}{more}"
            )
        return numbers[self.codes]


def _key(value: Any) -> str:
    """One spelling for 1, '1', '+1' and '1.0'; text stays as it is."""
    text = str(value)
    return str(int(text.partition(".")[0])) if _INTEGER.match(text) else text


def label_values(texts: Sequence[str]) -> np.ndarray:
    """Labels as integers if every one is written as a whole number, else as text."""
    if texts and all(_INTEGER.match(text) for text in texts):
        return np.array([int(text.partition(".")[0]) for text in texts], dtype=np.int64)
    return np.array(list(texts), dtype=np.str_)


def factorize(texts: Sequence[str], what: str) -> tuple[np.ndarray, list[str]]:
    """Numbers of labels in order of appearance, and the labels."""
    number: dict[str, int] = {}
    codes = np.fromiter((number.setdefault(t, len(number)) for t in texts), np.int32, len(texts))
    if len(number) > MOST_LABELS:
        raise too_many_labels(what)
    return codes, list(number)


def like_a_label(names: Sequence[str]) -> str:
    """The first name that is usual for a label, as a question; empty if there is none."""
    found = next((name for name in names if name.strip().lower() in _LABEL_NAMES), None)
    return "" if found is None else f" ({found!r}?)"


def too_many_labels(what: str) -> DataFileError:
    """The refusal of a label column that is none."""
    return DataFileError(
        f"{what} has more than {MOST_LABELS} different values: it cannot be the label; name the "
        "right column with --label"
    )


class LabelTable:
    """Labels seen so far, with the arrays by which compiled code finds them."""

    def __init__(self, what: str = "the label column") -> None:
        self.what = what
        self.texts: list[str] = []
        self.number: dict[str, int] = {}
        self.arena = np.zeros(1 << 10, dtype=np.uint8)  # both are longer than what is in them
        self.starts = np.zeros(64, dtype=np.int64)
        self.slots = np.full(64, -1, dtype=np.int32)

    def code(self, text: str) -> int:
        """The number of a label, a new one if it is new."""
        if text in self.number:
            return self.number[text]
        if len(self.texts) >= MOST_LABELS:
            raise too_many_labels(self.what)
        code = len(self.texts)
        self.number[text] = code
        self.texts.append(text)
        raw = np.frombuffer(text.encode(), dtype=np.uint8)
        start = int(self.starts[code])
        end = start + len(raw)
        self.arena = _with_room(self.arena, end)
        self.starts = _with_room(self.starts, code + 2)
        self.arena[start:end] = raw
        self.starts[code + 1] = end
        if 2 * len(self.texts) > len(self.slots):
            self.slots = np.full(2 * len(self.slots), -1, dtype=np.int32)
            for k in range(code):
                self._place(k)
        self._place(code)
        return code

    def _place(self, code: int) -> None:
        from polymargin.compiled.parsing import label_hash

        mask = len(self.slots) - 1
        start, end = int(self.starts[code]), int(self.starts[code + 1])
        slot = int(label_hash(self.arena, start, end)) & mask
        while self.slots[slot] >= 0:
            slot = (slot + 1) & mask
        self.slots[slot] = code


def _with_room(array: np.ndarray, length: int) -> np.ndarray:
    """The array, or one twice as long as asked for with the same beginning."""
    if length <= len(array):
        return array
    longer = np.zeros(2 * length, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


class RowBuffer:
    """Rows that grow in place: never two copies of what was read."""

    def __init__(self, width: int, has_labels: bool, dtype: Any) -> None:
        self.X = np.empty((1024, width), dtype=dtype)
        self.codes = np.empty(1024, dtype=np.int32) if has_labels else None
        self.n = 0

    def reserve(self, rows: int, share_done: float | None) -> None:
        """Room for more rows; the share of the file that is read foretells how many come."""
        need = self.n + rows
        if need <= len(self.X):
            return
        size = int(1.5 * need)
        if share_done is not None and share_done > 0.0:
            size = max(need, min(int(1.02 * need / min(share_done, 1.0)) + 64, 20 * need))
        self._resize(size)

    def _resize(self, rows: int) -> None:
        self.X.resize((rows, self.X.shape[1]), refcheck=False)
        if self.codes is not None:
            self.codes.resize(rows, refcheck=False)

    def extend(
        self, values: np.ndarray, codes: np.ndarray | None, share_done: float | None
    ) -> None:
        """Append rows."""
        rows = len(values)
        self.reserve(rows, share_done)
        self.X[self.n : self.n + rows] = values
        if self.codes is not None and codes is not None:
            self.codes[self.n : self.n + rows] = codes
        self.n += rows

    def finish(self) -> tuple[np.ndarray, np.ndarray | None]:
        """The arrays, no longer than what was read."""
        self._resize(self.n)
        return self.X, self.codes
