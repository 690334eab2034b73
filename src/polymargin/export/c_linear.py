"""C plans of linear and prototype models: one inner product per prototype, no library at all."""

from __future__ import annotations

import numpy as np

from polymargin.estimators.number_formats import Grid
from polymargin.export.c_plan import CPlan, Entry
from polymargin.export.c_text import CArray, float32_of
from polymargin.export.model_record import ExportModel
from polymargin.export.numbers import (
    centred_weights,
    folded_weights,
    is_well_conditioned,
    raw_statistics,
)

__all__ = ["dot_function", "input_levels", "plan_float", "plan_integer", "weight_table"]

_LEVELS = {"int4": 7, "int8": 127, "int16": 32767}
_TABLES = {"prototype": "weights", "inner": "projection"}  # that a function multiplies
_INPUT_LEVELS = 32767
_FEWEST_INPUT_LEVELS = 4095
_INT32 = 2**31 - 1
_LITTLE_GAIN = 1.5  # times the least error is still good enough
_NEAR_ZERO = 1.2  # mean squares this little above variances need no shift
_NO_ERROR = 0.002  # of the spread of the scores


def _clipped_entry(record: ExportModel) -> Entry | None:
    """A scaler with limits cannot be folded; it is applied as it is."""
    scaling = record.scaling
    if scaling is None or scaling.low is None:
        return None
    return Entry(scaling.shift, scaling.scale, scaling.low, scaling.high)


# -- float32 -----------------------------------------------------------------------------------


def plan_float(record: ExportModel, name: str) -> CPlan:
    """Float weights with the scaler folded in; its shift stays where folding would cost digits."""
    plan = CPlan()
    entry = _clipped_entry(record)
    if entry is not None:
        W, b = record.vectors, record.intercepts
    elif is_well_conditioned(record):
        entry = Entry()
        W, b = folded_weights(record)
    else:
        shift, W, b = centred_weights(record)
        entry = Entry(shift=shift)
        plan.remarks.append(
            "Features are measured from a point amid the training data (table shift): their mean "
            "is large beside their spread, and sums of large numbers would lose digits."
        )
    plan.tables += entry.arrays()
    plan.tables += [
        CArray("weights", float32_of(W, "weights"), "One row per prototype."),
        CArray("intercepts", float32_of(b, "intercepts"), "One per prototype."),
    ]
    d = record.n_features
    source = "x"
    if not entry.is_identity:
        source = "z"
        plan.locals.append(f"float z[{d}];")
        plan.stack_bytes = 4 * d
    plan.prepare = _finite_loop(d, entry, name)
    plan.functions.append(_product_function(name, d))
    plan.score = f"{name}_prototype({source}, r)"
    return plan


def _product_function(name: str, d: int) -> str:
    """An inner product in four sums, which do not wait for each other."""
    sums = [f"s{k}" for k in range(4)]
    whole = d - d % 4
    lines = [
        "float " + ", ".join(f"{one} = 0.0f" for one in sums) + ";",
        f"const float *w = {name}_weights[r];",
    ]
    if whole:
        lines += ["int j;", f"for (j = 0; j < {whole}; j += 4) {{"]
        lines += [f"    {one} += w[j + {k}] * z[j + {k}];" for k, one in enumerate(sums)]
        lines += ["}"]
    lines += [f"{sums[j % 4]} += w[{j}] * z[{j}];" for j in range(whole, d)]
    lines += [f"return ((s0 + s1) + (s2 + s3)) + {name}_intercepts[r];"]
    body = "".join(f"    {line}\n" for line in lines)
    head = f"static inline float {name}_prototype(const float *z, int r)"
    return f"/* Score of prototype r. */\n{head}\n{{\n{body}}}\n"


def _finite_loop(d: int, entry: Entry, name: str) -> list[str]:
    lines = [f"for (j = 0; j < {d}; ++j) {{"]
    if entry.is_identity:
        lines += [f"    if (!{name}_is_number(x[j])) return -1;"]
    else:
        lines += ["    float v = x[j];", f"    if (!{name}_is_number(v)) return -1;"]
        lines += ["    " + line for line in entry.lines(name)]
        lines += ["    z[j] = v;"]
    return [*lines, "}"]


# -- integers ----------------------------------------------------------------------------------


def plan_integer(record: ExportModel, name: str, dtype: str) -> CPlan:
    """Integer weights, features quantised example by example, sums without overflow."""
    levels = _LEVELS[dtype]
    entry, W, b = _integer_scale(record, levels)
    step = _steps(W, dtype)
    q = np.clip(np.rint(W / step[:, None]), -levels, levels).astype(np.int64)
    inputs, sum_type, bound = input_levels(q)
    plan = CPlan()
    plan.tables = [
        *entry.arrays(),
        weight_table("weights", q, dtype, "One row per prototype."),
        CArray(
            "steps",
            float32_of(step, "weights"),
            "A weight of prototype r is steps[r] times its integer.",
        ),
        CArray("intercepts", float32_of(b, "intercepts"), "One per prototype."),
    ]
    size = _sizes(record, entry)
    spread = np.sqrt(((W * size) ** 2).sum(axis=1))
    plan.error = float((_expected_error(W, size, levels) / np.maximum(spread, 1e-300)).max())
    plan.remarks.append(bound)
    d = record.n_features
    plan.locals = [f"int16_t q[{d}];", "float largest = 0.0f, unit = 0.0f;"]
    plan.stack_bytes = 2 * d
    result = f"(float)sum * ({name}_steps[r] * unit) + {name}_intercepts[r]"
    plan.functions += [
        _feature_function(entry, name),
        dot_function(name, "prototype", d, dtype, sum_type, ("float unit", result, "float")),
    ]
    plan.prepare = _quantise_lines(name, d, inputs)
    plan.score = f"{name}_prototype(q, unit, r)"
    return plan


def _integer_scale(record: ExportModel, levels: int) -> tuple[Entry, np.ndarray, np.ndarray]:
    """The entry that makes integers precise, and weights and intercepts after it.

    All weights of a prototype share one step, so large weights make those of other features
    coarse.  A factor per feature that brings all columns of the weights to the same maximum gives
    the least error; where that gains little, its tables are saved and the raw features used.
    """
    clipped = _clipped_entry(record)
    if clipped is not None:
        return clipped, record.vectors, record.intercepts
    mean, spread = raw_statistics(record)
    W, raw_intercepts = folded_weights(record)
    factor = _equal_columns(W, spread)
    even = W / np.where(factor > 0.0, factor, 1.0)
    even_error = _expected_error(even, factor * spread, levels)
    raw_error = _expected_error(W, np.hypot(mean, spread), levels)
    typical = np.sqrt(((W * spread) ** 2).sum(axis=1))
    if ((raw_error <= _LITTLE_GAIN * even_error) | (raw_error <= _NO_ERROR * typical)).all():
        return Entry(), W, raw_intercepts
    weight = np.abs(W)
    if (weight @ np.hypot(mean, spread) <= _NEAR_ZERO * (weight @ spread)).all():
        return Entry(scale=factor), even, raw_intercepts  # sparse features: zeros stay zeros
    shift, _, b = centred_weights(record)
    return Entry(shift=shift, scale=factor), even, b


def _sizes(record: ExportModel, entry: Entry) -> np.ndarray:
    """How far features usually are from 0 after the entry."""
    mean, spread = raw_statistics(record)
    shift = 0.0 if entry.shift is None else entry.shift
    scale = 1.0 if entry.scale is None else entry.scale
    return np.hypot(mean - shift, spread) * scale


def _equal_columns(W: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """The largest absolute weight of each feature, prototypes counted alike; 0 if all are zero."""
    rows = np.abs(W * spread).max(axis=1, keepdims=True)
    columns = np.abs(W / np.where(rows > 0.0, rows, 1.0)).max(axis=0)
    return columns / (float((columns * spread).max(initial=0.0)) or 1.0)


def _expected_error(W: np.ndarray, size: np.ndarray, levels: int) -> np.ndarray:
    """Standard deviation of the error of every score: rounded weights and rounded features."""
    weight_step = np.abs(W).max(axis=1) / levels
    feature_step = 3.0 * size.max() / _INPUT_LEVELS
    error = weight_step**2 * (size**2).sum() + feature_step**2 * (W**2).sum(axis=1)
    return np.sqrt(error / 12.0)


def _feature_function(entry: Entry, name: str) -> str:
    lines = ["float v = x[j];", *entry.lines(name), "return v;"]
    return (
        f"/* Feature j as the weights expect it. */\n"
        f"static inline float {name}_feature(const float *x, int j)\n"
        "{\n" + "".join(f"    {line}\n" for line in lines) + "}\n"
    )


def weight_table(
    field: str, q: np.ndarray, dtype: str, about: str, levels: np.ndarray | None = None
) -> CArray:
    """A table of integers; those of four bits share bytes in pairs, the first in the low half.

    With ``levels`` the four bits are the place of the integer in that growing table.
    """
    if dtype != "int4":
        return CArray(field, q.astype(dtype), about)
    even = np.zeros((q.shape[0], q.shape[1] + q.shape[1] % 2), dtype=np.int64)
    even[:, : q.shape[1]] = q + 8 if levels is None else np.searchsorted(levels, q)
    packed = (even[:, 0::2] + 16 * even[:, 1::2]).astype(np.uint8)
    what = "numbers per byte, 8 added to each" if levels is None else "places of levels per byte"
    return CArray(field, packed, f"{about} Two {what}.")


def input_levels(q: np.ndarray) -> tuple[int, str, str]:
    """The largest integer of a feature, the type of the sums, and why these do not overflow."""
    heaviest = max(1, int(np.abs(q.astype(np.int64)).sum(axis=1).max()))
    inputs, sum_type, limit = min(_INPUT_LEVELS, _INT32 // heaviest), "int32_t", "2147483647"
    if inputs < _FEWEST_INPUT_LEVELS:
        inputs, sum_type, limit = _INPUT_LEVELS, "int64_t", "2^63 - 1"
    return (
        inputs,
        sum_type,
        f"Sums do not overflow: the integer weights of a prototype have absolute values of sum "
        f"{heaviest} at most, a quantised feature is at most {inputs}, and {heaviest} * {inputs} "
        f"= {heaviest * inputs} <= {limit}, the largest {sum_type}.",
    )


def _steps(W: np.ndarray, dtype: str) -> np.ndarray:
    """One step per row; sixteen levels lose less where the largest weights are cut off."""
    if dtype == "int4":
        return np.array([Grid.of(row, dtype).step for row in W])
    step = np.abs(W).max(axis=1) / _LEVELS[dtype]
    step[step == 0.0] = 1.0
    return np.asarray(step)


def dot_function(
    name: str,
    function: str,
    d: int,
    dtype: str,
    sum_type: str,
    ending: tuple[str, str, str] = ("", "sum", ""),
    has_levels: bool = False,
) -> str:
    """The product of row r of a table of integers with q.

    ``ending`` is a last argument, what is made of it and ``sum``, and the type of that; with
    ``has_levels`` four bits are a place in the table of levels.
    """

    def number(half: str) -> str:
        return f"{name}_levels[{half}]" if has_levels else f"({half} - 8)"

    last_argument, result, kind = ending
    table, kind = _TABLES[function], kind or sum_type
    if dtype == "int4":
        pair = f"{name}_{table}[r][j]"
        body = [
            f"for (j = 0; j < {d // 2}; ++j) {{",
            f"    const int pair = {pair};",
            f"    sum += ({sum_type}){number('(pair & 15)')} * q[2 * j];",
            f"    sum += ({sum_type}){number('(pair >> 4)')} * q[2 * j + 1];",
            "}",
        ]
        if d % 2:
            last = f"{name}_{table}[r][{d // 2}]"
            body.append(f"sum += ({sum_type}){number(f'({last} & 15)')} * q[{d - 1}];")
    else:
        body = [
            f"for (j = 0; j < {d}; ++j) {{",
            f"    sum += ({sum_type}){name}_{table}[r][j] * q[j];",
            "}",
        ]
    lines = [f"{sum_type} sum = 0;", "int j;", *body, f"return {result};"]
    argument = f", {last_argument}" if last_argument else ""
    head = f"static inline {kind} {name}_{function}(const int16_t *q{argument}, int r)"
    text = "".join(f"    {line}\n" for line in lines)
    return f"/* The product of q with row r of {table}. */\n{head}\n{{\n{text}}}\n"


def _quantise_lines(name: str, d: int, inputs: int) -> list[str]:
    """Scale the features so that the largest becomes ``inputs``, and round."""
    return [
        f"for (j = 0; j < {d}; ++j) {{",
        f"    float v = {name}_feature(x, j);",
        f"    if (!{name}_is_number(v)) return -1;",
        "    v = v < 0.0f ? -v : v;",
        "    largest = v > largest ? v : largest;",
        "}",
        f"unit = largest / {inputs}.0f;",
        f"for (j = 0; j < {d}; ++j) {{",
        "    /* a division so small that it means nothing is left out */",
        f"    float v = unit > 1.0e-37f ? {name}_feature(x, j) / unit : 0.0f;",
        "    v += v < 0.0f ? -0.5f : 0.5f;",
        "    q[j] = (int16_t)v;",
        "}",
    ]
