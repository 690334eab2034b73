"""C plans of kernel models: support vectors, kernel values, coefficients."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polymargin.export.c_plan import CPlan, Entry
from polymargin.export.c_text import CArray, c_float, float32_of
from polymargin.export.quantisation import corrected_coefficients, quantise_columns
from polymargin.export.record import ExportModel

__all__ = ["plan_kernel"]

_LARGEST_POWER = 16
_ZERO_FROM = 110.0  # expf(-t) is zero in float32 beyond


def plan_kernel(record: ExportModel, name: str, dtype: str) -> CPlan:
    """Support vectors in the given type; features and kernel values stay floats.

    sqrt(gamma) is folded into features and support vectors.  Float headers sum with compensation:
    coefficients of both signs cancel, and would leave much of the rounding.  Integer headers have
    one step per feature, and coefficients of 16 bits, since there are many and their errors add up.
    """
    assert record.coefficients is not None
    space = _space(record, dtype)
    V, tau = space.vectors, record.coefficients
    plan = CPlan()
    plan.tables = space.entry.arrays()
    if dtype == "float32":
        if space.difference_scale is not None and record.scaling is not None:
            scale = float32_of(space.difference_scale, "scale")
            plan.tables.append(CArray("scale", scale, "Of the differences of features."))
        plan.tables.append(CArray("vectors", float32_of(V, "vectors"), "Support vectors."))
    else:
        q, step = quantise_columns(V, dtype)
        plan.tables += [
            CArray("vectors", q, "Support vectors, in steps."),
            CArray("vector_steps", float32_of(step, "vectors"), "The step of each feature."),
        ]
        tau, remarks = corrected_coefficients(record, V, q * step, tau)
        plan.remarks += remarks
    plan.tables += _coefficient_tables(tau, dtype)
    b = float32_of(record.intercepts, "intercepts")
    plan.tables.append(CArray("intercepts", b, "One per prototype."))
    plan.functions = [_measure_function(record, space, name, dtype), *_kernel(record, name)]
    plan.needs = _needs(record)
    _add_statements(plan, record, space, name, dtype)
    plan.score = "f[r]"
    return plan


# -- the space of features and support vectors -------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Space:
    """Where features and support vectors meet.

    ``difference_scale`` (d,) means: raw features, whose differences from the support vectors are
    scaled one by one.
    """

    entry: Entry
    vectors: np.ndarray
    difference_scale: np.ndarray | None = None


def _space(record: ExportModel, dtype: str) -> _Space:
    factor = float(np.sqrt(record.gamma))
    V, scaling = record.vectors, record.scaling
    has_limits = scaling is not None and scaling.low is not None
    if record.kernel == "rbf" and dtype == "float32" and not has_limits:
        # Raw features are often exact in float32 (counts, pixels), and so are their differences;
        # scaled ones and their support vectors would be rounded before they cancel.
        if scaling is None:
            return _Space(Entry(), V, np.full(record.n_features, factor))
        return _Space(Entry(), scaling.shift + V / scaling.scale, scaling.scale * factor)
    V = V * factor
    entry = Entry(scale=factor)
    if scaling is not None:
        entry = Entry(scaling.shift if scaling.shift.any() else None, scaling.scale * factor)
        if scaling.low is not None and scaling.high is not None:
            entry = replace(entry, low=scaling.low * factor, high=scaling.high * factor)
    if record.kernel != "rbf" or dtype == "float32" or not len(V):
        return _Space(entry, V)
    # distances stay the same, and integers use their range best around the middle
    origin = 0.5 * (V.min(axis=0) + V.max(axis=0))
    if has_limits:
        return _Space(replace(entry, origin=origin), V - origin)
    base = 0.0 if entry.shift is None else entry.shift
    shift = base + origin / np.asarray(entry.scale)
    return _Space(replace(entry, shift=shift), V - origin)


# -- kernel values -----------------------------------------------------------------------------


def _measure_function(record: ExportModel, space: _Space, name: str, dtype: str) -> str:
    """The squared distance to, or inner product with, support vector i."""
    vector = f"{name}_vectors[i][j]"
    if dtype != "float32":
        vector = f"(float){vector}"
    if record.kernel != "rbf":
        about, term = "Inner product with support vector i", [f"const float p = z[j] * {vector};"]
    else:
        about = "gamma times the squared distance to support vector i"
        if dtype != "float32":
            vector = f"{name}_vector_steps[j] * {vector}"
        difference = f"z[j] - {vector}"
        if space.difference_scale is not None:
            one = c_float(space.difference_scale[0])
            scale = one if record.scaling is None else f"{name}_scale[j]"
            difference = f"({difference}) * {scale}"
        term = [f"const float t = {difference};", "const float p = t * t;"]
    add = ["sum += p;"]
    if dtype == "float32":
        add = ["const float y = p - *lost;", "const float s = sum + y;"]
        add += ["*lost = (s - sum) - y;", "sum = s;"]
        about += "; lost is what rounding added to it"
    body = "".join(f"        {line}\n" for line in [*term, *add])
    lost = ", float *lost" if dtype == "float32" else ""
    reset = "    *lost = 0.0f;\n" if dtype == "float32" else ""
    return (
        f"/* {about}. */\n"
        f"static inline float {name}_measure(const float *z, int i{lost})\n"
        f"{{\n"
        f"    float sum = 0.0f;\n"
        f"    int j;\n{reset}"
        f"    for (j = 0; j < {record.n_features}; ++j) {{\n{body}    }}\n"
        f"    return sum;\n"
        f"}}\n"
    )


def _is_small_power(record: ExportModel) -> bool:
    degree = record.degree
    return float(degree).is_integer() and 1 <= degree <= _LARGEST_POWER


def _needs(record: ExportModel) -> list[str]:
    if record.kernel == "poly":
        return [] if _is_small_power(record) else ["powf"]
    return ["expf"]


def _kernel(record: ExportModel, name: str) -> list[str]:
    """``name_kernel``: the kernel value of a distance or inner product t - lost."""
    base = f"const float base = (t + {c_float(record.coef0)}) - lost;"
    if record.kernel == "rbf":
        # also right where squares overflowed: far away is far away
        value = f"return t < {_ZERO_FROM:.1f}f ? expf(-t) * (1.0f + lost) : 0.0f;"
        return [_kernel_function(name, [value])]
    if record.kernel == "sigmoid":
        return [_tanh_function(name), _kernel_function(name, [base, f"return {name}_tanh(base);"])]
    if not _is_small_power(record):
        return [_kernel_function(name, [base, f"return powf(base, {c_float(record.degree)});"])]
    multiply = ["power *= base;"] * (int(record.degree) - 1)
    return [_kernel_function(name, [base, "float power = base;", *multiply, "return power;"])]


def _kernel_function(name: str, lines: list[str]) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    head = f"static inline float {name}_kernel(float t, float lost)"
    return f"/* Kernel value. */\n{head}\n{{\n{body}}}\n"


def _tanh_function(name: str) -> str:
    return (
        "/* The continued fraction is exact to single precision where expf would cancel. */\n"
        f"static inline float {name}_tanh(float t)\n"
        "{\n"
        "    const float s = t * t;\n"
        "    if (s < 0.25f) {\n"
        "        return t / (1.0f + s / (3.0f + s / (5.0f + s / (7.0f + s / 9.0f))));\n"
        "    }\n"
        "    return 1.0f - 2.0f / (expf(2.0f * t) + 1.0f);\n"
        "}\n"
    )


# -- coefficients ------------------------------------------------------------------------------


def _index_type(largest: int) -> type:
    return np.uint8 if largest < 256 else np.uint16 if largest < 65536 else np.uint32


def _coefficient_tables(tau: np.ndarray, dtype: str) -> list[CArray]:
    """Coefficients row by row, or where it is smaller only those that are not zero."""
    tables = []
    if dtype == "float32":
        values = float32_of(tau, "coefficients")
    else:
        values, step = quantise_columns(tau, "int16")
        steps = float32_of(step, "coefficients")
        tables.append(CArray("coefficient_steps", steps, "The step of each prototype."))
    where = values != 0
    counts = where.sum(axis=1)
    count = counts.astype(_index_type(int(counts.max(initial=0))))
    numbers: np.ndarray = np.nonzero(where)[1].astype(_index_type(values.shape[1]))
    sparse = int(where.sum()) * (values.itemsize + numbers.itemsize) + count.nbytes
    if not len(numbers) or sparse >= values.nbytes:
        about = "Coefficients: a row per support vector, a column per prototype."
        return [CArray("coefficients", values, about), *tables]
    return [
        CArray("counts", count, "How many coefficients each support vector has,"),
        CArray("numbers", numbers, "their prototypes,"),
        CArray("coefficients", values[where], "and the coefficients."),
        *tables,
    ]


# -- statements --------------------------------------------------------------------------------


def _add_statements(plan: CPlan, record: ExportModel, space: _Space, name: str, dtype: str) -> None:
    """Features at entry, then f[r] = sum of coefficient times kernel value, plus intercept."""
    d, R = record.n_features, len(record.intercepts)
    is_float = dtype == "float32"
    last = []
    if record.kernel != "rbf" and not is_float:
        # the step of a feature is common to all support vectors: once here, not for each
        last = [f"v *= {name}_vector_steps[j];"]
    changes = [*space.entry.lines(name), *last]
    source = "z" if changes else "x"
    plan.locals = [f"float z[{d}];"] if changes else []
    plan.locals += [f"float f[{R}];"] + ([f"float lost[{R}];"] if is_float else []) + ["int i;"]
    plan.stack_bytes = 4 * d * bool(changes) + (8 if is_float else 4) * R
    plan.prepare = [f"for (j = 0; j < {d}; ++j) {{"]
    if changes:
        plan.prepare += ["    float v = x[j];", f"    if (!{name}_is_number(v)) return -1;"]
        plan.prepare += [*("    " + line for line in changes), "    z[j] = v;", "}"]
    else:
        plan.prepare += [f"    if (!{name}_is_number(x[j])) return -1;", "}"]
    plan.prepare += _sum_lines(plan, record, name, source, is_float)


def _sum_lines(
    plan: CPlan, record: ExportModel, name: str, source: str, is_float: bool
) -> list[str]:
    m, R = len(record.vectors), len(record.intercepts)
    is_sparse = any(table.field == "numbers" for table in plan.tables)
    coefficient = f"{name}_coefficients" + ("[next]" if is_sparse else "[i][r]")
    if is_float:
        begin = "{ f[r] = 0.0f; lost[r] = 0.0f; }"
        value = [
            "float rest;",
            f"const float t = {name}_measure({source}, i, &rest);",
            f"const float value = {name}_kernel(t, rest);",
        ]
        add = [
            f"const float y = {coefficient} * value - lost[r];",
            "const float s = f[r] + y;",
            "lost[r] = (s - f[r]) - y;",
            "f[r] = s;",
        ]
        end = f"f[r] = (f[r] + {name}_intercepts[r]) - lost[r];"
    else:
        begin = "f[r] = 0.0f;"
        value = [f"const float value = {name}_kernel({name}_measure({source}, i), 0.0f);"]
        add = [f"f[r] += (float){coefficient} * value;"]
        end = f"f[r] = f[r] * {name}_coefficient_steps[r] + {name}_intercepts[r];"
    if is_sparse:
        plan.locals.append("int next = 0, last;")
        loop = f"for (last = next + {name}_counts[i]; next < last; ++next) {{"
        add = [f"r = {name}_numbers[next];", *add]
    else:
        loop = f"for (r = 0; r < {R}; ++r) {{"
    return [
        f"for (r = 0; r < {R}; ++r) {begin}",
        f"for (i = 0; i < {m}; ++i) {{",
        *("    " + line for line in value),
        f"    {loop}",
        *("        " + line for line in add),
        "    }",
        "}",
        f"for (r = 0; r < {R}; ++r) {end}",
    ]
