"""C plans of compact models: the integers of a model that was fitted into a size.

The features of an example are scaled so that the largest becomes a whole number of 15 bits; all
sums are whole numbers, and only the last step to a score is a float.
"""

from __future__ import annotations

import numpy as np

from polymargin.estimators.number_formats import CompactModel
from polymargin.estimators.scalers import Scaling
from polymargin.export.c_linear import dot_function, input_levels, weight_table
from polymargin.export.c_plan import CPlan, Entry
from polymargin.export.c_text import CArray, float32_of
from polymargin.export.model_record import ExportModel

__all__ = ["plan_compact"]

_PARTS = 4096  # of a unit of the sums: how finely intercepts are counted


def plan_compact(record: ExportModel, name: str) -> CPlan:
    """Tables and statements of a compact model; a scaler in front becomes part of its entry."""
    assert record.compact is not None
    model = record.compact
    entry, step = _entry(model, record.scaling)
    plan = CPlan()
    plan.tables = [*_mask(model), *entry.arrays()]
    kept = record.n_features if model.features is None else len(model.features)
    steps = [step, model.intercept_step]
    first = model.weights if model.projection is None else model.projection
    inputs, sum_type, bound = input_levels(first)
    plan.remarks.append(bound)
    plan.locals = [f"int16_t q[{kept}];", "float largest = 0.0f, unit = 0.0f;"]
    plan.stack_bytes = 2 * kept
    plan.functions.append(_feature_function(entry, name))
    plan.prepare = _quantise(name, record.n_features, inputs, model.features is not None)
    source, width = "q", kept
    if model.projection is not None:
        steps.append(model.projection_step)
        source, width = "h", len(model.projection)
        _add_projection(plan, model, name, kept, sum_type)
        inputs, sum_type, bound = input_levels(model.weights)
        plan.remarks.append(bound)
        plan.prepare += _shorten(name, width, inputs)
    dtype = model.number_format
    times = "" if model.multipliers is None else f" * {name}_multipliers[r]"
    result = f"(int64_t)sum * {_PARTS}{times} + {name}_intercepts[r] * weight"
    ending = ("int64_t weight", result, "int64_t")
    has_levels = model.levels is not None
    plan.functions.append(
        dot_function(name, "prototype", width, dtype, sum_type, ending, has_levels)
    )
    plan.locals.append("int64_t weight;")
    plan.prepare += _weigh(name)
    plan.tables += [
        weight_table("weights", model.weights, dtype, "One row per prototype.", model.levels),
        *_levels(model),
        *_multipliers(model),
        CArray("intercepts", model.intercepts.astype(np.int16), "One per prototype."),
        CArray(
            "steps",
            float32_of(np.array(steps), "steps"),
            "What one unit of the weights, the intercepts and the projection is worth.",
        ),
    ]
    plan.score, plan.score_type = f"{name}_prototype({source}, weight, r)", "int64_t"
    plan.as_float = "(float){} * unit"
    return plan


def _entry(model: CompactModel, scaling: Scaling | None) -> tuple[Entry, float]:
    """What happens to a raw feature, and the step of the weights with a common factor in it."""
    shift, factor = model.shift, model.factor
    if scaling is None:
        return Entry(shift=shift, scale=factor), model.step
    kept = slice(None) if model.features is None else model.features
    if scaling.low is not None and scaling.high is not None:
        if shift is not None or factor is not None:
            raise ValueError(
                "model: a scaler with clip=True in front of a model with features of different "
                "size cannot be written to C; train without clip."
            )
        limits = scaling.low[kept], scaling.high[kept]
        return Entry(scaling.shift[kept], scaling.scale[kept], *limits), model.step
    own = np.ones(model.weights.shape[1] if model.projection is None else model.projection.shape[1])
    both = scaling.scale[kept] * (own if factor is None else factor)
    moved = scaling.shift[kept] + (0.0 if shift is None else shift / scaling.scale[kept])
    moved_or_none = moved if np.any(moved) else None
    if np.ptp(both) <= 1e-12 * np.abs(both).max():
        return Entry(shift=moved_or_none), model.step * float(both[0])
    return Entry(shift=moved_or_none, scale=both), model.step


def _mask(model: CompactModel) -> list[CArray]:
    """One bit per feature: whether it is kept."""
    if model.features is None:
        return []
    bits = np.zeros(model.n_features, dtype=np.uint8)
    bits[model.features] = 1
    packed = np.packbits(bits, bitorder="little")
    return [CArray("kept", packed, "Bit j: whether feature j counts.")]


def _levels(model: CompactModel) -> list[CArray]:
    if model.levels is None:
        return []
    return [CArray("levels", model.levels.astype(np.int8), "What four bits of a weight stand for.")]


def _multipliers(model: CompactModel) -> list[CArray]:
    if model.multipliers is None:
        return []
    about = "The step of prototype r is multipliers[r] times the first of the steps."
    return [CArray("multipliers", model.multipliers.astype(np.uint8), about)]


def _feature_function(entry: Entry, name: str) -> str:
    """The value v of a raw feature, number j among those kept."""
    lines = entry.lines(name)
    text = "".join(f"    {line}\n" for line in lines)
    place = "" if lines else "    (void)j;\n"
    return (
        "/* Kept feature j as the weights expect it. */\n"
        f"static inline float {name}_feature(float v, int j)\n"
        f"{{\n{place}{text}    return v;\n}}\n"
    )


def _quantise(name: str, d: int, inputs: int, has_mask: bool) -> list[str]:
    """Two passes over the features: the largest, then integers."""
    place = "k" if has_mask else "j"
    skip = [f"    if (!(({name}_kept[j / 8] >> (j % 8)) & 1)) continue;"] if has_mask else []
    start = ["k = 0;"] if has_mask else []
    last = ["    ++k;"] if has_mask else []
    return [
        *start,
        f"for (j = 0; j < {d}; ++j) {{",
        "    float v = x[j];",
        f"    if (!{name}_is_number(v)) return -1;",
        *skip,
        f"    v = {name}_feature(v, {place});",
        "    v = v < 0.0f ? -v : v;",
        "    largest = v > largest ? v : largest;",
        *last,
        "}",
        f"unit = largest / {inputs}.0f;",
        *start,
        f"for (j = 0; j < {d}; ++j) {{",
        "    float v;",
        *skip,
        "    /* a division so small that it means nothing is left out */",
        f"    v = unit > 1.0e-37f ? {name}_feature(x[j], {place}) / unit : 0.0f;",
        "    v += v < 0.0f ? -0.5f : 0.5f;",
        f"    q[{place}] = (int16_t)v;",
        *last,
        "}",
    ]


def _add_projection(plan: CPlan, model: CompactModel, name: str, kept: int, sum_type: str) -> None:
    assert model.projection is not None
    k, dtype = len(model.projection), model.number_format
    plan.tables.append(
        weight_table("projection", model.projection, dtype, "One row per inner feature.")
    )
    plan.functions.append(dot_function(name, "inner", kept, dtype, sum_type))
    plan.locals += [f"{sum_type} sums[{k}], most = 0, part = 1;", f"int16_t h[{k}];"]
    plan.stack_bytes += (2 + (4 if sum_type == "int32_t" else 8)) * k


def _weigh(name: str) -> list[str]:
    """What one unit of an intercept is worth in units of the sums, and these as a float.

    Scores are then compared as whole numbers, which processors without floating point do fast.
    """
    return [
        f"unit *= {name}_steps[0];",
        "/* an example of almost nothing: only the intercepts count */",
        f"if (unit < {name}_steps[1] * 1.0e-9f) unit = {name}_steps[1] * 1.0e-9f;",
        f"weight = (int64_t)({name}_steps[1] / unit * {_PARTS}.0f + 0.5f);",
        f"unit /= {_PARTS}.0f;",
    ]


def _shorten(name: str, k: int, inputs: int) -> list[str]:
    """Inner features divided by a power of two, so that the largest has 15 bits or fewer."""
    return [
        f"for (j = 0; j < {k}; ++j) {{",
        f"    sums[j] = {name}_inner(q, j);",
        "    if (sums[j] > most) most = sums[j];",
        "    if (-sums[j] > most) most = -sums[j];",
        "}",
        f"while (most / part >= {inputs}) part *= 2;",
        f"for (j = 0; j < {k}; ++j) {{",
        "    h[j] = (int16_t)((sums[j] + (sums[j] < 0 ? -(part / 2) : part / 2)) / part);",
        "}",
        f"unit *= {name}_steps[2] * (float)part;",
    ]
