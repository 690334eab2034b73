"""C plans of kernel models: support vectors, kernel values, coefficients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polymargin.export.c_plan import CPlan, Entry
from polymargin.export.c_text import CArray, c_float, float32_of
from polymargin.export.record import ExportModel

__all__ = ["plan_kernel"]

_LEVELS = {"int8": 127, "int16": 32767}
_COEFFICIENT_LEVELS = 32767
_LARGEST_POWER = 16


def plan_kernel(record: ExportModel, name: str, dtype: str) -> CPlan:
    """Support vectors in the given type; features and kernel values stay floats.

    sqrt(gamma) is folded into features and support vectors.  Integer headers have one step per
    feature, and coefficients of 16 bits: there are many of them and their errors add up.
    """
    assert record.coefficients is not None
    if record.kernel == "rbf" and dtype == "float32" and _has_no_limits(record):
        return _plan_distances(record, name)
    entry, V = _entry(record, dtype)
    m, d = V.shape
    R = record.coefficients.shape[1]
    plan = CPlan()
    plan.tables = entry.arrays()
    if dtype == "float32":
        plan.tables.append(CArray("vectors", float32_of(V, "vectors"), "support vectors"))
    else:
        plan.tables += _integer_vectors(V, dtype)
    plan.tables += _coefficient_tables(record.coefficients, dtype)
    plan.tables.append(
        CArray("intercepts", float32_of(record.intercepts, "intercepts"), "one per prototype")
    )
    product = record.kernel != "rbf"
    plan.locals = [f"float z[{d}];", f"float f[{R}];", "int i;"]
    plan.stack_bytes = 4 * d + 4 * R
    plan.functions = [_measure_function(record, name, d, dtype), *_kernel_functions(record, name)]
    plan.needs = _needs(record)
    last = []
    if product and dtype != "float32":
        # the step of a feature is common to all support vectors: once here, not for each
        last = [f"v *= {name}_vector_steps[j];"]
    plan.prepare = [
        f"for (j = 0; j < {d}; ++j) {{",
        "    float v = x[j];",
        f"    if (!{name}_is_number(v)) return -1;",
        *("    " + line for line in [*entry.lines(name), *last]),
        "    z[j] = v;",
        "}",
        *_sum_lines(plan, name, m, R, dtype),
    ]
    plan.score = "f[r]"
    return plan


def _has_no_limits(record: ExportModel) -> bool:
    return record.scaling is None or record.scaling.low is None


def _plan_distances(record: ExportModel, name: str) -> CPlan:
    """RBF kernels in float32: distances between raw features, scaled difference by difference.

    Raw features are often exact in float32 (counts, pixels), and so are their differences; scaled
    ones and their support vectors would be rounded before they cancel.
    """
    assert record.coefficients is not None
    factor = float(np.sqrt(record.gamma))
    V, scaling = record.vectors, record.scaling
    plan = CPlan()
    scaled = "t"
    if scaling is not None:
        V = scaling.shift + V / scaling.scale
        scale = float32_of(scaling.scale * factor, "scale")
        plan.tables.append(CArray("scale", scale, "of the differences of features"))
        scaled = f"t * {name}_scale[j]"
    m, d = V.shape
    R = record.coefficients.shape[1]
    largest = float(np.abs(V).max(initial=0.0))
    last = "sum"
    if scaling is None:
        if 1e-12 < largest < 1e12:
            last = f"sum * {c_float(record.gamma)}"
        else:  # squares of raw differences could leave the range of float32
            scaled = f"t * {c_float(factor)}"
    plan.tables += [
        CArray("vectors", float32_of(V, "vectors"), "support vectors, raw features"),
        *_coefficient_tables(record.coefficients, "float32"),
        CArray("intercepts", float32_of(record.intercepts, "intercepts"), "one per prototype"),
    ]
    plan.functions = [
        f"/* gamma times the squared distance to support vector i. */\n"
        f"static inline float {name}_measure(const float *x, int i)\n"
        f"{{\n"
        f"    float sum = 0.0f;\n"
        f"    int j;\n"
        f"    for (j = 0; j < {d}; ++j) {{\n"
        f"        const float t = x[j] - {name}_vectors[i][j];\n"
        f"        const float s = {scaled};\n"
        f"        sum += s * s;\n"
        f"    }}\n"
        f"    return {last};\n"
        f"}}\n",
        *_kernel_functions(record, name),
    ]
    plan.locals = [f"float f[{R}];", "int i;"]
    plan.stack_bytes = 4 * R
    plan.needs = _needs(record)
    plan.prepare = [
        f"for (j = 0; j < {d}; ++j) {{",
        f"    if (!{name}_is_number(x[j])) return -1;",
        "}",
        *_sum_lines(plan, name, m, R, "float32", "x"),
    ]
    plan.score = "f[r]"
    return plan


# -- features and support vectors --------------------------------------------------------------


def _entry(record: ExportModel, dtype: str) -> tuple[Entry, np.ndarray]:
    """Entry with sqrt(gamma) folded in, and the support vectors after it."""
    factor = float(np.sqrt(record.gamma))
    V = record.vectors * factor
    scaling = record.scaling
    entry = Entry(scale=factor)
    if scaling is not None:
        shift = scaling.shift if scaling.shift.any() else None
        entry = Entry(shift, scaling.scale * factor)
        if scaling.low is not None and scaling.high is not None:
            entry = replace(entry, low=scaling.low * factor, high=scaling.high * factor)
    if record.kernel != "rbf" or not len(V):
        return entry, V
    if dtype == "float32":
        return entry, V
    # distances stay the same, and integers use their range best around the middle
    origin = 0.5 * (V.min(axis=0) + V.max(axis=0))
    if entry.low is not None:
        return replace(entry, origin=origin), V - origin
    base = 0.0 if entry.shift is None else entry.shift
    return replace(entry, shift=base + origin / np.asarray(entry.scale)), V - origin


def _integer_vectors(V: np.ndarray, dtype: str) -> list[CArray]:
    levels = _LEVELS[dtype]
    step = np.abs(V).max(axis=0, initial=0.0) / levels
    step[step == 0.0] = 1.0
    q = np.rint(V / step).astype(dtype)
    return [
        CArray("vectors", q, "support vectors in steps"),
        CArray("vector_steps", float32_of(step, "vectors"), "the step of each feature"),
    ]


# -- kernel values -----------------------------------------------------------------------------


def _measure_function(record: ExportModel, name: str, d: int, dtype: str) -> str:
    """The squared distance to, or inner product with, support vector i."""
    vector = f"{name}_vectors[i][j]"
    if dtype != "float32":
        vector = f"(float){vector}"
    if record.kernel == "rbf":
        if dtype != "float32":
            vector = f"{name}_vector_steps[j] * {vector}"
        body = f"        const float t = z[j] - {vector};\n        sum += t * t;\n"
        about = "Squared distance to support vector i."
    else:
        body = f"        sum += z[j] * {vector};\n"
        about = "Inner product with support vector i."
    return (
        f"/* {about} */\n"
        f"static inline float {name}_measure(const float *z, int i)\n"
        f"{{\n"
        f"    float sum = 0.0f;\n"
        f"    int j;\n"
        f"    for (j = 0; j < {d}; ++j) {{\n{body}    }}\n"
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


def _kernel_functions(record: ExportModel, name: str) -> list[str]:
    """``name_kernel``: the kernel value of a distance or inner product."""
    if record.kernel == "rbf":
        return [_one_liner(name, "kernel", "expf(-t)")]
    if record.kernel == "sigmoid":
        tanh = (
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
        return [tanh, _one_liner(name, "kernel", f"{name}_tanh(t + {c_float(record.coef0)})")]
    if not _is_small_power(record):
        power = f"powf(t + {c_float(record.coef0)}, {c_float(record.degree)})"
        return [_one_liner(name, "kernel", power)]
    lines = [f"    const float base = t + {c_float(record.coef0)};", "    float power = base;"]
    lines += ["    power *= base;"] * (int(record.degree) - 1)
    return [
        f"/* Kernel value. */\nstatic inline float {name}_kernel(float t)\n{{\n"
        + "\n".join([*lines, "    return power;"])
        + "\n}\n"
    ]


def _one_liner(name: str, function: str, value: str) -> str:
    return (
        f"/* Kernel value. */\nstatic inline float {name}_{function}(float t)\n"
        f"{{\n    return {value};\n}}\n"
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
        step = np.abs(tau).max(axis=0, initial=0.0) / _COEFFICIENT_LEVELS
        step[step == 0.0] = 1.0
        values = np.rint(tau / step).astype(np.int16)
        steps = float32_of(step, "coefficients")
        tables.append(CArray("coefficient_steps", steps, "the step of each prototype"))
    _m, R = values.shape
    where = values != 0
    index, counts = _index_type(R), where.sum(axis=1)
    count = counts.astype(_index_type(int(counts.max(initial=0))))
    numbers: np.ndarray = np.nonzero(where)[1].astype(index)
    sparse = int(where.sum()) * (values.itemsize + numbers.itemsize) + count.nbytes
    if not len(numbers) or sparse >= values.nbytes:
        about = "coefficients: a row per support vector, a column per prototype"
        return [CArray("coefficients", values, about), *tables]
    return [
        CArray("counts", count, "how many coefficients each support vector has"),
        CArray("numbers", numbers, "their prototypes"),
        CArray("coefficients", values[where], "the coefficients"),
        *tables,
    ]


def _sum_lines(
    plan: CPlan, name: str, m: int, R: int, dtype: str, features: str = "z"
) -> list[str]:
    """f[r] = sum over the support vectors of coefficient times kernel value, plus intercept."""
    cast = "" if dtype == "float32" else "(float)"
    scale = "" if dtype == "float32" else f" * {name}_coefficient_steps[r]"
    is_sparse = any(table.field == "numbers" for table in plan.tables)
    lines = [f"for (r = 0; r < {R}; ++r) f[r] = 0.0f;", f"for (i = 0; i < {m}; ++i) {{"]
    lines.append(f"    const float value = {name}_kernel({name}_measure({features}, i));")
    if is_sparse:
        plan.locals.append("int next = 0, last;")
        lines += [
            f"    for (last = next + {name}_counts[i]; next < last; ++next) {{",
            f"        f[{name}_numbers[next]] += {cast}{name}_coefficients[next] * value;",
            "    }",
        ]
    else:
        lines += [
            f"    for (r = 0; r < {R}; ++r) f[r] += {cast}{name}_coefficients[i][r] * value;",
        ]
    lines.append("}")
    lines.append(f"for (r = 0; r < {R}; ++r) f[r] = f[r]{scale} + {name}_intercepts[r];")
    return lines
