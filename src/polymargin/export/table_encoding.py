"""The encoding of a raw table in an exported model: one rule per feature, and its ONNX nodes.

Scaling of numbers is not part of the rules: it is folded into the model as that of any scaler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.estimators.scalers import Scaling, compose_scalers

__all__ = ["EncodedFeature", "TableEncoding", "add_encoding", "encoding_of"]

_NO_LIMIT = 1e30
"""Stands for no limit of a feature beside others that have one: single precision holds it."""


@dataclass(frozen=True)
class EncodedFeature:
    """How one feature follows from a column.

    Attributes
    ----------
    name, column : str
    rule : {"number", "missing", "value", "rare", "word"}
        The number (``fill`` where it is missing); 1 where it is missing; 1 where the text is
        ``value``; 1 where it is one of ``values`` or unknown; the tf-idf weight of the word
        ``value`` with the factor ``fill``.
    """

    name: str
    column: str
    rule: str
    fill: float = 0.0
    value: str = ""
    values: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """For JSON."""
        found: dict[str, Any] = {"name": self.name, "column": self.column, "rule": self.rule}
        if self.rule == "number":
            found["fill"] = self.fill
        elif self.rule == "word":
            found |= {"word": self.value, "idf": self.fill}
        elif self.rule == "value":
            found["value"] = self.value
        elif self.rule == "rare":
            found["values"] = list(self.values)
        return found


@dataclass(frozen=True)
class TableEncoding:
    """Raw columns as (name, kind, format), the features made of them, the scaling of these."""

    columns: tuple[tuple[str, str, str | None], ...]
    features: tuple[EncodedFeature, ...]
    scaling: Scaling

    def record(self) -> dict[str, Any]:
        """For JSON and for the properties of ONNX files."""
        return {
            "columns": [
                {"name": n, "kind": k} | ({} if f is None else {"format": f})
                for n, k, f in self.columns
            ],
            "features": [feature.record() for feature in self.features],
        }

    @property
    def has_words(self) -> bool:
        """Whether a column is free text."""
        return any(kind == "text" for _, kind, _ in self.columns)

    def check_words(self, to: str) -> None:
        """Refuse free text, which needs a tokeniser."""
        texts = [name for name, kind, _ in self.columns if kind == "text"]
        if texts:
            raise ValueError(
                f"model: the column {texts[0]!r} is free text, which {to} export cannot cut into "
                f"words; export to JSON, or train with --ignore {texts[0]!r}."
            )


def encoding_of(steps: Sequence[tuple[str, Any]]) -> TableEncoding | None:
    """The encoding of the first two steps of a Pipeline for raw tables; None of any other."""
    if len(steps) < 2 or type(steps[0][1]).__name__ != "TableColumns":
        return None
    columns = tuple(tuple(column) for column in steps[0][1].columns)
    features: list[EncodedFeature] = []
    scalings: list[Scaling] = []
    for _, part, places in steps[1][1].transformers_:
        if part == "drop":
            continue
        names = [columns[k][0] for k in np.atleast_1d(np.asarray(places, dtype=np.intp))]
        found, scaling = _features(part, names)
        features += found
        d = len(found)
        scalings.append(Scaling(np.zeros(d), np.ones(d)) if scaling is None else scaling)
    return TableEncoding(columns, tuple(features), _side_by_side(scalings))


def _side_by_side(parts: Sequence[Scaling]) -> Scaling:
    """The scalings of parts of the features as one; limits of some parts need limits of all."""
    shift = np.concatenate([part.shift for part in parts])
    scale = np.concatenate([part.scale for part in parts])
    if all(part.low is None for part in parts):
        return Scaling(shift, scale)
    none = [np.full(len(part.shift), _NO_LIMIT) for part in parts]
    low = [-big if part.low is None else part.low for part, big in zip(parts, none, strict=True)]
    high = [big if part.high is None else part.high for part, big in zip(parts, none, strict=True)]
    return Scaling(shift, scale, np.concatenate(low), np.concatenate(high))


def _features(part: Any, names: list[str]) -> tuple[list[EncodedFeature], Scaling | None]:
    if hasattr(part, "steps"):
        return _numbers(part, names)
    if hasattr(part, "vocabulary_"):
        return _words(part, names[0]), None
    return _categories(part, names), None


def _numbers(part: Any, names: list[str]) -> tuple[list[EncodedFeature], Scaling | None]:
    fill = part.steps[0][1]
    found = [
        EncodedFeature(name, name, "number", fill=float(value) if np.isfinite(value) else 0.0)
        for name, value in zip(names, fill.statistics_, strict=True)
    ]
    if fill.add_indicator:
        found += [
            EncodedFeature(f"{names[k]} is missing", names[k], "missing")
            for k in fill.indicator_.features_
        ]
    return found, compose_scalers(part.steps[1:])


def _categories(part: Any, names: list[str]) -> list[EncodedFeature]:
    found = []
    for name, categories, rare in zip(
        names, part.categories_, part.infrequent_categories_, strict=True
    ):
        few = set() if rare is None else set(rare.tolist())
        for value in categories.tolist():
            if value not in few:
                shown = value or "(missing)"
                found.append(EncodedFeature(f"{name}={shown}", name, "value", value=value))
        if few:
            values = tuple(sorted(few))
            found.append(EncodedFeature(f"{name}=(rare)", name, "rare", values=values))
    return found


def _words(part: Any, name: str) -> list[EncodedFeature]:
    words = sorted(part.vocabulary_, key=part.vocabulary_.get)
    return [
        EncodedFeature(f"{name}: {word}", name, "word", fill=float(idf), value=word)
        for word, idf in zip(words, part.idf_, strict=True)
    ]


# -- ONNX --------------------------------------------------------------------------------------


def add_encoding(graph: Any, encoding: TableEncoding, inputs: dict[str, str]) -> str:
    """Nodes from one input per column to the matrix of features; its name comes back."""
    parts = []
    for column, rules in _runs(encoding.features):
        first = rules[0]
        if first.rule == "number":
            parts.append(_number_node(graph, inputs[column], first.fill))
        elif first.rule == "missing":
            parts.append(graph.cast(graph.node("IsNaN", inputs[column]), graph.arithmetic))
        else:
            parts.append(_category_nodes(graph, inputs[column], rules))
    return str(graph.node("Concat", *parts, axis=1))


def _runs(features: Sequence[EncodedFeature]) -> list[tuple[str, list[EncodedFeature]]]:
    """Features one by one, but all values of a column of categories together."""
    runs: list[tuple[str, list[EncodedFeature]]] = []
    for feature in features:
        is_text = feature.rule in ("value", "rare")
        if is_text and runs and runs[-1][0] == feature.column:
            runs[-1][1].append(feature)
        else:
            runs.append((feature.column, [feature]))
    return runs


def _number_node(graph: Any, column: str, fill: float) -> str:
    value = graph.cast(column, graph.arithmetic)
    return str(graph.node("Where", graph.node("IsNaN", column), graph.numbers("fill", fill), value))


def _category_nodes(graph: Any, column: str, rules: Sequence[EncodedFeature]) -> str:
    """The number of each value, compared with 0, 1, ...: one column of 0 and 1 per value."""
    number: dict[str, int] = {}
    unknown = -1
    for k, feature in enumerate(rules):
        for value in (feature.value,) if feature.rule == "value" else feature.values:
            number[value] = k
        if feature.rule == "rare":
            unknown = k
    codes = graph.node(
        "LabelEncoder",
        column,
        domain="ai.onnx.ml",
        keys_strings=list(number),
        values_int64s=list(number.values()),
        default_int64=unknown,
    )
    places = graph.constant("places", np.arange(len(rules), dtype=np.int64)[None, :])
    return str(graph.cast(graph.node("Equal", codes, places), graph.arithmetic))
