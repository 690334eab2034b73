"""ARFF: numeric attributes as they are, nominal ones as one 0/1 column per value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from polymargin.compiled.parsing import IGNORED, LABEL
from polymargin.datasets.dataset import Dataset, Wanted
from polymargin.datasets.delimited import Layout, column_roles, read_rows, split_line
from polymargin.datasets.sources import Source
from polymargin.exceptions import DataFileError

__all__ = ["read_arff"]

_NUMERIC = ("numeric", "real", "integer")
_ATTRIBUTE = re.compile(
    r"""@attribute\s+("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\S+?)\s*(\{.*\}|\s\S.*)$""",
    re.IGNORECASE | re.DOTALL,
)


class Attribute(NamedTuple):
    """A column: its name and, if it is nominal, its values."""

    name: str
    kind: str
    values: list[str]

    @property
    def columns(self) -> list[str]:
        if self.kind == "nominal":
            return [f"{self.name}={value}" for value in self.values]
        return [self.name]


def read_arff(
    source: Source,
    *,
    label: str | int | None = None,
    ignore: Sequence[str | int] = (),
    wanted: Wanted | None = None,
    need_label: bool = True,
    dtype: Any = np.float64,
) -> Dataset:
    """Read an ARFF file; see ``read_data``."""
    attributes, skip = _read_header(source)
    notes: list[str] = []
    plain = _roles(source, attributes, label, ignore, wanted, need_label, notes)
    columns = _spread(source, attributes, plain)
    role = np.array([r for r, _ in columns], dtype=np.int64)
    if wanted is not None:
        role = _as_wanted(source, columns, wanted)
    names = [name for _, name in columns]
    label_column = next((c for c, r in enumerate(role) if r == LABEL), None)
    spread = {k for k, a in enumerate(attributes) if a.kind == "nominal" and plain[k] >= 0}
    # compiled code must not see lines whose fields are not the columns
    layout = Layout("\0" if spread else ",", len(columns), names, role, label_column)
    if spread:
        shown = ", ".join(attributes[k].name for k in sorted(spread)[:6])
        notes.append(f"nominal attributes as 0/1 columns: {shown}")
    data = read_rows(source, layout, skip, dtype, _Rows(attributes, spread).split)
    data.notes = notes + data.notes
    return data


def _roles(
    source: Source,
    attributes: list[Attribute],
    label: str | int | None,
    ignore: Sequence[str | int],
    wanted: Wanted | None,
    need_label: bool,
    notes: list[str],
) -> np.ndarray:
    """What each attribute is for."""
    names = [attribute.name for attribute in attributes]
    if label is None and wanted is not None and wanted.label_name in names:
        label = wanted.label_name
    if need_label or label is not None:
        role, chosen = column_roles(source, len(names), names, label, ignore, None, True, notes)
        if not need_label:
            role[chosen] = IGNORED
        return role
    role, _ = column_roles(source, len(names), names, None, ignore, None, False, notes)
    width = sum(len(a.columns) for a, r in zip(attributes, role, strict=True) if r >= 0)
    if wanted is not None and wanted.names is None and width > wanted.n_features:
        role[-1] = IGNORED
        notes.append(f"taken for the label and left out: the last attribute, {names[-1]!r}")
    return role


def _spread(
    source: Source, attributes: list[Attribute], plain: np.ndarray
) -> list[tuple[int, str]]:
    """(role, name) of every column after nominal features are spread."""
    found: list[tuple[int, str]] = []
    place = 0
    for attribute, role in zip(attributes, plain, strict=True):
        if role < 0:
            found.append((int(role), attribute.name))
            continue
        if attribute.kind not in ("numeric", "nominal"):
            raise source.error(
                f"attribute {attribute.name!r} is of type {attribute.kind}, which cannot be a "
                "feature; leave it out with --ignore"
            )
        for name in attribute.columns:
            found.append((place, name))
            place += 1
    return found


def _as_wanted(source: Source, columns: list[tuple[int, str]], wanted: Wanted) -> np.ndarray:
    """Roles in the order of the model's features."""
    features = [name for role, name in columns if role >= 0]
    if wanted.names is None:
        if len(features) != wanted.n_features:
            raise source.error(
                f"has {len(features)} features, but the model was trained on {wanted.n_features}"
            )
        return np.array([role for role, _ in columns])
    places = {name: k for k, name in enumerate(wanted.names)}
    missing = [name for name in places if name not in features]
    if missing:
        raise source.error(
            f"lacks {len(missing)} of the {len(places)} features of the model: "
            + ", ".join(map(repr, missing[:8]))
        )
    return np.array([places.get(name, IGNORED) if role >= 0 else role for role, name in columns])


class _Rows:
    """Cuts a data line into the fields of the spread columns."""

    def __init__(self, attributes: list[Attribute], spread: set[int]) -> None:
        self.attributes = attributes
        self.spread = spread

    def split(self, line: str) -> list[str] | None:
        text = line.strip()
        if not text or text.startswith("%"):
            return None
        fields = self._sparse(text) if text.startswith("{") else self._dense(text)
        if len(fields) != len(self.attributes):
            raise DataFileError(
                f"has {len(fields)} fields where {len(self.attributes)} are expected"
            )
        found: list[str] = []
        for k, (attribute, value) in enumerate(zip(self.attributes, fields, strict=True)):
            if attribute.kind != "nominal":
                found.append(value)
                continue
            if value == "?":
                if k in self.spread:
                    raise DataFileError(f"attribute {attribute.name!r}: missing value ('?')")
            elif value not in attribute.values:
                raise DataFileError(
                    f"attribute {attribute.name!r}: {value[:40]!r} is not one of its values"
                )
            if k in self.spread:
                found += ["1" if value == one else "0" for one in attribute.values]
            else:
                found.append(value)
        return found

    def _dense(self, text: str) -> list[str]:
        quote = "'" if "'" in text else '"'
        return split_line(text.rstrip(","), ",", quote)

    def _sparse(self, text: str) -> list[str]:
        """``{index value, ...}``: what is not named is 0, or the first value."""
        fields = [a.values[0] if a.kind == "nominal" else "0" for a in self.attributes]
        inner = text.strip().removeprefix("{").removesuffix("}").strip()
        for part in split_line(inner, ",", "'") if inner else []:
            index, _, value = part.partition(" ")
            if not index.isdigit() or int(index) >= len(fields):
                raise DataFileError(f"{part[:40]!r} is not 'index value'")
            fields[int(index)] = value.strip().strip("'\"")
        return fields


def _read_header(source: Source) -> tuple[list[Attribute], int]:
    """The attributes, and the number of the line ``@data``."""
    head = source.peek(1 << 16)
    while b"@data" not in head.lower():
        longer = source.peek(2 * len(head))
        if len(longer) == len(head):
            raise source.error("has no @data section")
        head = longer
    attributes = []
    for number, raw in enumerate(head.split(b"\n"), 1):
        line = raw.decode("utf-8", "replace").strip().replace("\r", " ")
        word = line.partition(" ")[0].partition("\t")[0].lower()
        if word == "@attribute":
            attributes.append(_attribute(source, line, number))
        elif word == "@data":
            if len(attributes) < 2:
                raise source.error(f"has {len(attributes)} attributes; features and labels needed")
            return attributes, number
    raise source.error("has no @data section")


def _attribute(source: Source, line: str, number: int) -> Attribute:
    match = _ATTRIBUTE.match(line)
    if match is None:
        raise source.error(f"{line[:60]!r} is not '@attribute name type'", number)
    name, kind = match.group(1).strip("'\""), match.group(2).strip()
    if kind.startswith("{"):
        inner = kind.strip("{} \t")
        quote = "'" if "'" in inner else '"'
        return Attribute(name, "nominal", split_line(inner, ",", quote))
    kind = kind.split()[0].lower()
    return Attribute(name, "numeric" if kind in _NUMERIC else kind, [])
