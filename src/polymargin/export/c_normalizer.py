"""Rows of unit length in C: raw features are divided by their norm before anything else."""

from __future__ import annotations

from polymargin.export.c_plan import Entry
from polymargin.export.c_text import CArray
from polymargin.export.model_record import ExportModel

__all__ = ["normalizer_function", "normalizer_tables"]

_PREFIX = "raw"  # of the tables that belong to scalers in front of the Normalizer
_TERMS = {
    "l2": "length += v * v;",
    "l1": "length += v < 0.0f ? -v : v;",
    "max": "length = (v < 0.0f ? -v : v) > length ? (v < 0.0f ? -v : v) : length;",
}


def _entry(record: ExportModel) -> Entry:
    assert record.normalizer is not None
    scaling = record.normalizer.scaling
    if scaling is None:
        return Entry()
    return Entry(scaling.shift, scaling.scale, scaling.low, scaling.high)


def normalizer_tables(record: ExportModel) -> list[CArray]:
    """Tables of the scalers in front of the Normalizer."""
    return [
        CArray(f"{_PREFIX}_{table.field}", table.values, table.about)
        for table in _entry(record).arrays()
    ]


def normalizer_function(record: ExportModel, name: str) -> str:
    """``name_scores`` on raw features: the row divided by its norm, a row of zeros as it is."""
    assert record.normalizer is not None
    d, norm = record.n_features, record.normalizer.norm
    root = ["length = sqrtf(length);"] if norm == "l2" else []
    body = [
        f"float u[{d}];",
        "float length = 0.0f;",
        "int j;",
        f"for (j = 0; j < {d}; ++j) {{",
        "    float v = x[j];",
        f"    if (!{name}_is_number(v)) return -1;",
        *("    " + line for line in _entry(record).lines(f"{name}_{_PREFIX}")),
        "    u[j] = v;",
        f"    {_TERMS[norm]}",
        "}",
        *root,
        f"if (!{name}_is_number(length)) return -1;",
        "if (length > 0.0f) {",
        f"    for (j = 0; j < {d}; ++j) u[j] /= length;",
        "}",
        f"return {name}_unit_scores(u, scores);",
    ]
    text = "".join(f"    {line}\n" for line in body)
    return (
        "/* Scores of raw features: rows are brought to unit length first. */\n"
        f"static inline int {name}_scores(const float *x, float *scores)\n{{\n{text}}}\n"
    )
