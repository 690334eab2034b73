"""C99: one header with the model as constants and functions that predict."""

from __future__ import annotations

import os
import textwrap
import warnings
from typing import Any

import numpy as np

from polymargin.estimators.number_formats import label_bytes
from polymargin.exceptions import shown
from polymargin.export.c_compact import plan_compact
from polymargin.export.c_kernel import plan_kernel
from polymargin.export.c_linear import plan_float, plan_integer
from polymargin.export.c_normalizer import normalizer_function, normalizer_tables
from polymargin.export.c_plan import CPlan
from polymargin.export.c_text import (
    CArray,
    c_comment,
    c_float,
    c_string,
    check_name,
    float32_of,
)
from polymargin.export.labels import fits_int64
from polymargin.export.model_record import ExportModel
from polymargin.export.suffixes import write_whole

__all__ = ["constant_bytes", "header_and_notes", "to_c"]

_DTYPES = ("float32", "int16", "int8", "int4")
_LARGEST_FLOAT = "3.40282347e+38f"


def to_c(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    dtype: str | None = None,
    name: str = "polymargin_model",
) -> str:
    """A C99 header that predicts: constants and static functions, no memory to allocate.

    ``int <name>_predict(const float *x)`` gives the number of the class, ``<name>_scores`` the
    scores too, ``<name>_label`` its label, and where the model has them ``<name>_probabilities``
    the probabilities.  Linear and prototype models need no library, kernel models ``expf`` or
    ``powf``, probabilities ``expf``.

    Parameters
    ----------
    model : estimator, Pipeline of scalers and estimator, search, or ExportModel
    path : str or path-like, optional
        Where to write the header.
    dtype : {"float32", "int16", "int8", "int4"} or None, default=None
        Type of the weights or support vectors (int4: weights only).  None is the format that
        ``fit_into`` chose, float32 for all other models.
    name : str, default="polymargin_model"
        What all names of the header begin with; a C identifier.

    Returns
    -------
    str
        The text of the header.

    Raises
    ------
    ValueError
        Also where integers change the class of more than a fifth of the support vectors (and
        points between them); where they change some, a warning and the header say so.

    See Also
    --------
    export_model : Writes any format to a file.
    MultiPrototypeSVC : ``fit_into`` trains the best model of a size.
    to_onnx : ONNX.
    to_json : JSON.

    Examples
    --------
    >>> from polymargin import MulticlassSVC, to_c
    >>> header = to_c(MulticlassSVC().fit([[0.0], [1.0], [2.0]], [0, 1, 2]), name="tiny")
    >>> "tiny_predict" in header
    True
    """
    text, notes = header_and_notes(ExportModel.from_estimator(model), dtype, name)
    for note in notes:
        if note.startswith("Caution"):
            warnings.warn(note, UserWarning, stacklevel=2)
    if path is not None:
        write_whole(path, text.encode("ascii"))
    return text


def header_and_notes(
    record: ExportModel, dtype: str | None = None, name: str = "polymargin_model"
) -> tuple[str, list[str]]:
    """The text of the header, and what its user should know.

    Parameters
    ----------
    record : ExportModel
    dtype, name
        As in ``to_c``.
    """
    check_name(name)
    dtype = _number_format(record, dtype)
    plan = _plan(record, dtype, name)
    plan.refuse(dtype)
    notes = [
        f"{_all_bytes(record, plan)} bytes of tables and labels in {dtype}, {plan.stack_bytes} "
        "bytes of arrays on the stack"
    ]
    if plan.needs:
        notes.append(f"needs {', '.join(plan.needs)} of math.h: link with -lm")
    return _header(record, plan, dtype, name), [*notes, *plan.cautions(dtype)]


def constant_bytes(model: Any, dtype: str | None = None) -> int:
    """Bytes of the tables that ``to_c`` writes, labels counted.

    Parameters
    ----------
    model : estimator, Pipeline of scalers and estimator, search, or ExportModel
    dtype : {"float32", "int16", "int8", "int4"} or None, default=None
        As in ``to_c``.
    """
    record = ExportModel.from_estimator(model)
    return _all_bytes(record, _plan(record, _number_format(record, dtype), "model"))


def _number_format(record: ExportModel, dtype: str | None) -> str:
    """The format asked for, or the one that the model was fitted in."""
    if dtype is None:
        return "float32" if record.compact is None else record.compact.number_format
    if dtype not in _DTYPES:
        raise ValueError(f"dtype must be one of {_DTYPES}, got {shown(dtype)}.")
    if dtype == "int4" and not record.is_linear:
        raise ValueError(
            f"dtype='int4' is for linear kernels; four bits are too coarse for the support vectors "
            f"of a {record.kernel} kernel: use 'int8'."
        )
    return dtype


def _all_bytes(record: ExportModel, plan: CPlan) -> int:
    """Tables and labels; a pointer to a text counts four bytes, as on a microcontroller."""
    return plan.n_bytes + label_bytes(record.labels)


def _plan(record: ExportModel, dtype: str, name: str) -> CPlan:
    record.refuse_sum("C")
    if record.compact is not None and dtype == record.compact.number_format:
        plan = plan_compact(record, name)
    elif not record.is_linear:
        plan = plan_kernel(record, name, dtype)
    elif dtype == "float32":
        plan = plan_float(record, name)
    else:
        plan = plan_integer(record, name, dtype)
    if _has_several(record):
        first = record.first_prototypes()
        dtype_of = np.uint8 if first[-1] < 256 else np.uint16 if first[-1] < 65536 else np.uint32
        about = "The prototypes of class c are first[c] to first[c + 1] - 1."
        plan.tables.append(CArray("first", first.astype(dtype_of), about))
    if record.temperature is not None and "expf" not in plan.needs:
        plan.needs.append("expf")
    if record.normalizer is not None:
        plan.tables += normalizer_tables(record)
        plan.stack_bytes += 4 * record.n_features
        plan.needs += ["sqrtf"] if record.normalizer.norm == "l2" else []
    return plan


def _has_several(record: ExportModel) -> bool:
    return not record.is_difference and len(record.prototype_class) != record.n_classes


# -- text --------------------------------------------------------------------------------------


def _header(record: ExportModel, plan: CPlan, dtype: str, name: str) -> str:
    big = name.upper()
    includes = ["#include <stdint.h>"] + (["#include <math.h>"] if plan.needs else [])
    macros = [
        f"#define {big}_N_FEATURES {record.n_features}",
        f"#define {big}_N_CLASSES {record.n_classes}",
        f"#define {big}_BYTES {_all_bytes(record, plan)} /* of all tables, labels counted */",
    ]
    parts = [
        _top_comment(record, plan, dtype, name),
        f"#ifndef POLYMARGIN_EXPORT_{name}\n#define POLYMARGIN_EXPORT_{name}\n",
        "\n".join(includes) + "\n",
        "\n".join(macros) + "\n",
        *(table.text(name) for table in plan.tables),
        _is_number(name),
        *plan.functions,
        _scores_function(record, plan, name),
        *([] if record.normalizer is None else [normalizer_function(record, name)]),
        _predict_function(record, name),
        *([] if record.temperature is None else [_probability_function(record, name)]),
        _label_function(record, name),
        "#endif\n",
    ]
    return "\n".join(parts)


def _top_comment(record: ExportModel, plan: CPlan, dtype: str, name: str) -> str:
    d, Q = record.n_features, record.n_classes
    version = record.metadata.get("version", "")
    libraries = ", ".join(plan.needs)
    kind = "" if record.kind == "kernel" else f"{record.kind}, "
    paragraphs = [
        f"{name}: {c_comment(record.estimator)} ({kind}{record.kernel} kernel) with {d} features "
        f"and {Q} classes, weights of type {dtype}; written by polymargin {version}.",
        f"Size: {_all_bytes(record, plan)} bytes of tables and labels, {plan.stack_bytes} bytes of "
        "arrays on the stack. "
        + (f"Library functions: {libraries}." if plan.needs else "No library functions."),
        "Use, in one .c file:",
        None,
        f"The scaler of the model is contained: x are raw features. scores has {Q} entries"
        + (
            ", 0 and the lead of the second class over the first."
            if Q == 2
            else "; the highest wins, the first among equals."
        )
        + " Where a feature is NaN or infinite, or scores overflow, the class is -1.",
        *plan.cautions(dtype),
        *plan.remarks,
        *_training_remarks(record),
        *_feature_remarks(record),
    ]
    example = [
        f'    #include "{name}.h"',
        f"    float x[{d}] = {{ ... }};",
        f"    int c = {name}_predict(x);        0 to {Q - 1}, or -1",
        f"    {_label_type(record)}label = {name}_label(c);",
        f"    float scores[{Q}];",
        f"    int same = {name}_scores(x, scores);",
    ]
    if record.temperature is not None:
        example += [f"    float p[{Q}];", f"    int again = {name}_probabilities(x, p);"]
    lines: list[str] = []
    for paragraph in paragraphs:
        if paragraph is None:
            lines += [*example, ""]
        else:
            lines += [*textwrap.wrap(_sentence(paragraph), 94), ""]
    return "/*\n" + "\n".join(f" * {line}".rstrip() for line in lines[:-1]) + "\n */\n"


def _sentence(text: str) -> str:
    """Sentences of our own keep their signs, except those that end or open a comment."""
    return text.replace("*/", "* /").replace("/*", "/ *")


def _training_remarks(record: ExportModel) -> list[str]:
    certificate = record.metadata.get("certificate")
    if not certificate or certificate.get("relative_gap") is None:
        return []
    return [
        f"Training: status {record.metadata.get('status', 'unknown')}, relative duality gap "
        f"{certificate['relative_gap']:.1e}."
    ]


def _feature_remarks(record: ExportModel) -> list[str]:
    if record.feature_names is None:
        return []
    names = ", ".join(c_comment(name) for name in record.feature_names)
    return [f"Features in order: {names}."]


def _is_number(name: str) -> str:
    return (
        f"/* Neither NaN nor infinite. */\n"
        f"static inline int {name}_is_number(float v)\n"
        f"{{\n    return v >= -{_LARGEST_FLOAT} && v <= {_LARGEST_FLOAT};\n}}\n"
    )


def _scores_function(record: ExportModel, plan: CPlan, name: str) -> str:
    Q = record.n_classes
    if record.is_difference:
        declared = "int j, r = 0;"
        classes = ["scores[0] = 0.0f;", f"scores[1] = {plan.as_float.format(plan.score)};"]
    elif _has_several(record):
        declared = "int c, j, r;"
        classes = [
            f"for (c = 0; c < {Q}; ++c) {{",
            f"    {plan.score_type} top;",
            f"    r = {name}_first[c];",
            f"    top = {plan.score};",
            f"    for (++r; r < {name}_first[c + 1]; ++r) {{",
            f"        const {plan.score_type} s = {plan.score};",
            "        top = s > top ? s : top;",
            "    }",
            f"    scores[c] = {plan.as_float.format('top')};",
            "}",
        ]
    else:
        declared = "int j, r;"
        classes = [f"for (r = 0; r < {Q}; ++r) scores[r] = {plan.as_float.format(plan.score)};"]
    if Q == 2 and not record.is_difference:
        classes += ["scores[1] -= scores[0];", "scores[0] = 0.0f;"]
    body = [
        declared,
        "int best = 0, k;",
        *plan.locals,
        *plan.prepare,
        *classes,
        f"for (k = 1; k < {Q}; ++k) {{",
        "    if (scores[k] > scores[best]) best = k;",
        "}",
        f"return {name}_is_number(scores[best]) ? best : -1;",
    ]
    inner = "scores" if record.normalizer is None else "unit_scores"
    return (
        f"/* Writes {Q} scores and gives the class of the highest, the first among equals, or -1. "
        "*/\n"
        f"static inline int {name}_{inner}(const float *x, float *scores)\n"
        "{\n" + "".join(f"    {line}\n" for line in body) + "}\n"
    )


def _predict_function(record: ExportModel, name: str) -> str:
    return (
        f"/* The class of x: 0 to {record.n_classes - 1}, or -1 if x has no class. */\n"
        f"static inline int {name}_predict(const float *x)\n"
        f"{{\n    float scores[{record.n_classes}];\n    return {name}_scores(x, scores);\n}}\n"
    )


def _probability_function(record: ExportModel, name: str) -> str:
    """The softmax of the scores, measured from the highest: no exponential overflows."""
    Q = record.n_classes
    assert record.temperature is not None
    sharpness = c_float(float32_of(np.array([1.0 / record.temperature]), "temperature")[0])
    body = [
        f"const int best = {name}_scores(x, p);",
        "float top, sum = 0.0f;",
        "int k;",
        "if (best < 0) return -1;",
        "top = p[best];",
        f"for (k = 0; k < {Q}; ++k) {{",
        f"    p[k] = expf((p[k] - top) * {sharpness});",
        "    sum += p[k];",
        "}",
        f"for (k = 0; k < {Q}; ++k) p[k] /= sum;",
        "return best;",
    ]
    return (
        f"/* Writes {Q} probabilities of sum 1 and gives the class of the highest, or -1. */\n"
        f"static inline int {name}_probabilities(const float *x, float *p)\n"
        "{\n" + "".join(f"    {line}\n" for line in body) + "}\n"
    )


# -- labels ------------------------------------------------------------------------------------


def _label_type(record: ExportModel) -> str:
    if record.label_type == "str" or not fits_int64(record.labels):
        return "double " if record.label_type == "float" else "const char *"
    small = all(abs(int(label)) < 2**31 for label in record.labels)
    return "int32_t " if small else "int64_t "


def _label_words(record: ExportModel) -> list[str]:
    kind = _label_type(record)
    if kind == "const char *":
        return [c_string(str(label)) for label in record.labels]
    if kind == "double ":
        return [f"{float(label):.17e}" for label in record.labels]
    if kind == "int32_t ":
        return [str(int(label)) for label in record.labels]
    # the most negative number is no constant of its own
    return [
        "INT64_MIN" if int(label) == -(2**63) else f"INT64_C({int(label)})"
        for label in record.labels
    ]


def _label_function(record: ExportModel, name: str) -> str:
    kind = _label_type(record)
    table = "const char *const " if kind == "const char *" else f"const {kind}"
    if kind == "int32_t ":  # small labels take one or two bytes each
        table = f"const int{8 * label_bytes(record.labels) // record.n_classes}_t "
    nothing = '""' if kind == "const char *" else "0"
    words = ",\n".join(f"    {word}" for word in _label_words(record))
    return (
        f"/* Labels in the order of the scores. */\n"
        f"static {table}{name}_labels[{record.n_classes}] = {{\n{words}\n}};\n\n"
        f"/* The label of class c; {nothing} if c is out of range. */\n"
        f"static inline {kind}{name}_label(int c)\n"
        f"{{\n    return c >= 0 && c < {record.n_classes} ? {name}_labels[c] : {nothing};\n}}\n"
    )
