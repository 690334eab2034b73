"""C plans of kernel models: support vectors, kernel values, coefficients."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from polymargin.export.c_plan import CPlan, Entry
from polymargin.export.c_text import CArray, c_float, float32_of
from polymargin.export.model_record import ExportModel
from polymargin.export.quantisation import (
    KernelSums,
    changed_classes,
    corrected_coefficients,
    quantise_columns,
)

__all__ = ["plan_kernel"]

_LARGEST_POWER = 16
_MOST_CANCELLATION = 300.0
_SMALL_ERROR = {"int8": 3e-3, "int16": 1e-3}  # of the spread of the scores, at most
_FLOAT_ERROR = 1e-8  # of the terms of a sum: rounding errors average out
_ZERO_FROM = 110.0  # expf(-t) is zero in float32 beyond


def plan_kernel(record: ExportModel, name: str, dtype: str) -> CPlan:
    """Support vectors in the given type; features and kernel values stay floats.

    sqrt(gamma) is folded into features and support vectors.  Float headers sum with compensation:
    coefficients of both signs cancel, and would leave much of the rounding.  Polynomial kernels
    that cancel too much for that are summed in double.  Integer headers have one step per feature.
    """
    assert record.coefficients is not None
    space = _space(record, dtype)
    V, tau = space.vectors, record.coefficients
    plan = CPlan()
    plan.tables, rounded = _vector_tables(record, space, dtype)
    sums = KernelSums(record, V * space.difference_scale, tau)
    style = _style(record, sums, dtype)
    if style.is_double or dtype != "float32":
        tau, remarks = corrected_coefficients(record, V, rounded, tau)
        plan.remarks += [*remarks, *style.remarks]
    values, step = _coefficients(sums, tau, dtype, style)
    plan.tables += _coefficient_tables(values, step)
    if dtype != "float32":
        written = values * (1.0 if step is None else step)
        plan.error = sums.error(written, rounded)
        plan.changed = changed_classes(record, V, (rounded, written))
    elif not style.is_double:
        plan.error = _FLOAT_ERROR * sums.cancellation()
    b = float32_of(record.intercepts, "intercepts")
    plan.tables.append(CArray("intercepts", b, "One per prototype."))
    plan.functions = [_measure_function(record, space, name, dtype, style)]
    plan.functions += _kernel(record, name, style)
    plan.needs = _needs(record)
    _add_statements(plan, record, space, name, dtype, style)
    plan.score = "(float)f[r]" if style.is_double else "f[r]"
    return plan


def _vector_tables(
    record: ExportModel, space: _Space, dtype: str
) -> tuple[list[CArray], np.ndarray]:
    """Tables of entry and support vectors, and the vectors as these have them."""
    tables = space.entry.arrays()
    if dtype != "float32":
        q, step = quantise_columns(space.vectors, dtype)
        steps = float32_of(step, "vectors")
        tables.append(CArray("vectors", q, "Support vectors, in steps."))
        tables.append(CArray("vector_steps", steps, "The step of each feature."))
        return tables, q * step
    if space.has_raw_features and record.scaling is not None:
        scale = float32_of(space.difference_scale, "scale")
        tables.append(CArray("scale", scale, "Of the differences of features."))
    vectors = float32_of(space.vectors, "vectors")
    tables.append(CArray("vectors", vectors, "Support vectors."))
    return tables, vectors.astype(np.float64)


@dataclass(frozen=True)
class _Style:
    """Arithmetic of the sums: double, float with compensation, or plain float."""

    is_double: bool
    is_compensated: bool

    @property
    def real(self) -> str:
        return "double" if self.is_double else "float"

    @property
    def remarks(self) -> list[str]:
        if not self.is_double:
            return []
        return [
            "Sums are in double: the terms of this polynomial kernel nearly cancel. Features of "
            "mean 0 (StandardScaler) often allow float."
        ]

    def number(self, value: float) -> str:
        return f"{value:.17e}" if self.is_double else c_float(value)

    def cast(self, text: str) -> str:
        return f"(double){text}" if self.is_double else text


def _style(record: ExportModel, sums: KernelSums, dtype: str) -> _Style:
    is_power = record.kernel == "poly" and _is_small_power(record)
    if is_power and sums.cancellation() > _MOST_CANCELLATION:
        return _Style(is_double=True, is_compensated=False)
    return _Style(is_double=False, is_compensated=dtype == "float32")


# -- the space of features and support vectors -------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Space:
    """Where features and support vectors meet.

    With ``has_raw_features`` differences from the support vectors are scaled one by one, by
    ``difference_scale``.
    """

    entry: Entry
    vectors: np.ndarray
    has_raw_features: bool = False
    difference_scale: np.ndarray = field(default_factory=lambda: np.ones(1))


def _space(record: ExportModel, dtype: str) -> _Space:
    factor = float(np.sqrt(record.gamma))
    V, scaling = record.vectors, record.scaling
    has_limits = scaling is not None and scaling.low is not None
    if record.kernel == "rbf" and dtype == "float32" and not has_limits:
        # Raw features are often exact in float32 (counts, pixels), and so are their differences;
        # scaled ones and their support vectors would be rounded before they cancel.
        if scaling is None:
            return _Space(Entry(), V, True, np.full(record.n_features, factor))
        return _Space(Entry(), scaling.shift + V / scaling.scale, True, scaling.scale * factor)
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


def _measure_function(
    record: ExportModel, space: _Space, name: str, dtype: str, style: _Style
) -> str:
    """The squared distance to, or inner product with, support vector i."""
    vector, real = f"{name}_vectors[i][j]", style.real
    if dtype != "float32" or style.is_double:
        vector = f"({real}){vector}"
    if record.kernel != "rbf":
        about = "Inner product with support vector i"
        term = [f"const {real} p = z[j] * {vector};"]
    else:
        about = "gamma times the squared distance to support vector i"
        if dtype != "float32":
            vector = f"{name}_vector_steps[j] * {vector}"
        difference = f"z[j] - {vector}"
        if space.has_raw_features:
            one = c_float(space.difference_scale[0])
            scale = one if record.scaling is None else f"{name}_scale[j]"
            difference = f"({difference}) * {scale}"
        term = [f"const float t = {difference};", "const float p = t * t;"]
    add, lost, reset = ["sum += p;"], "", ""
    if style.is_compensated:
        add = ["const float y = p - *lost;", "const float s = sum + y;"]
        add += ["*lost = (s - sum) - y;", "sum = s;"]
        about += "; lost is what rounding added to it"
        lost, reset = ", float *lost", "    *lost = 0.0f;\n"
    body = "".join(f"        {line}\n" for line in [*term, *add])
    return (
        f"/* {about}. */\n"
        f"static inline {real} {name}_measure(const {real} *z, int i{lost})\n"
        f"{{\n"
        f"    {real} sum = 0;\n"
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


def _kernel(record: ExportModel, name: str, style: _Style) -> list[str]:
    """``name_kernel``: the kernel value of a distance or inner product t (less lost)."""
    less = " - lost" if style.is_compensated else ""
    base = f"const {style.real} base = t + {style.number(record.coef0)}{less};"
    if record.kernel == "rbf":
        # also right where squares overflowed: far away is far away
        factor = " * (1.0f + lost)" if style.is_compensated else ""
        lines = [f"return t < {_ZERO_FROM:.1f}f ? expf(-t){factor} : 0.0f;"]
        return [_kernel_function(name, lines, style)]
    if record.kernel == "sigmoid":
        lines = [base, f"return {name}_tanh(base);"]
        return [_tanh_function(name), _kernel_function(name, lines, style)]
    if not _is_small_power(record):
        lines = [base, f"return powf(base, {c_float(record.degree)});"]
        return [_kernel_function(name, lines, style)]
    multiply = ["power *= base;"] * (int(record.degree) - 1)
    lines = [base, f"{style.real} power = base;", *multiply, "return power;"]
    return [_kernel_function(name, lines, style)]


def _kernel_function(name: str, lines: list[str], style: _Style) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    lost = ", float lost" if style.is_compensated else ""
    head = f"static inline {style.real} {name}_kernel({style.real} t{lost})"
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


def _coefficients(
    sums: KernelSums, tau: np.ndarray, dtype: str, style: _Style
) -> tuple[np.ndarray, np.ndarray | None]:
    """Coefficients as numbers, or where that costs next to nothing as integers and steps."""
    if dtype != "float32":
        q, step = quantise_columns(tau, "int16")
        rounding = np.abs(sums.K @ (q * step - tau)).max(axis=0) / sums.spread
        if (rounding <= _SMALL_ERROR[dtype]).all():
            return q, step
    return (tau if style.is_double else float32_of(tau, "coefficients")), None


def _coefficient_tables(values: np.ndarray, step: np.ndarray | None) -> list[CArray]:
    """Coefficients row by row, or where it is smaller only those that are not zero."""
    tables = []
    if step is not None:
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


def _add_statements(
    plan: CPlan, record: ExportModel, space: _Space, name: str, dtype: str, style: _Style
) -> None:
    """Features at entry, then f[r] = sum of coefficient times kernel value, plus intercept."""
    d, R = record.n_features, len(record.intercepts)
    last = []
    if record.kernel != "rbf" and dtype != "float32":
        # the step of a feature is common to all support vectors: once here, not for each
        last = [f"v *= {name}_vector_steps[j];"]
    changes = [*space.entry.lines(name), *last]
    has_own = bool(changes) or style.is_double
    size = 8 if style.is_double else 4
    plan.locals = [f"{style.real} z[{d}];"] if has_own else []
    plan.locals += [f"{style.real} f[{R}];", "int i;"]
    plan.locals += [f"float lost[{R}];"] if style.is_compensated else []
    plan.stack_bytes = size * d * has_own + (size + 4 * style.is_compensated) * R
    plan.prepare = [f"for (j = 0; j < {d}; ++j) {{"]
    if has_own:
        plan.prepare += ["    float v = x[j];", f"    if (!{name}_is_number(v)) return -1;"]
        plan.prepare += ["    " + line for line in changes]
        plan.prepare += [f"    z[j] = {style.cast('v')};", "}"]
    else:
        plan.prepare += [f"    if (!{name}_is_number(x[j])) return -1;", "}"]
    plan.prepare += _sum_lines(plan, record, name, "z" if has_own else "x", style)


def _sum_lines(
    plan: CPlan, record: ExportModel, name: str, source: str, style: _Style
) -> list[str]:
    m, R = len(record.vectors), len(record.intercepts)
    tables = {table.field: table for table in plan.tables}
    is_sparse = "numbers" in tables
    coefficient = f"{name}_coefficients" + ("[next]" if is_sparse else "[i][r]")
    has_steps = "coefficient_steps" in tables
    if has_steps or (style.is_double and tables["coefficients"].values.dtype != np.float64):
        coefficient = f"({style.real}){coefficient}"
    intercept = style.cast(f"{name}_intercepts[r]")
    if style.is_compensated:
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
        end = f"f[r] = (f[r] + {intercept}) - lost[r];"
    else:
        begin = "f[r] = 0;"
        value = [f"const {style.real} value = {name}_kernel({name}_measure({source}, i));"]
        add = [f"f[r] += {coefficient} * value;"]
        step = " * " + style.cast(f"{name}_coefficient_steps[r]") if has_steps else ""
        end = f"f[r] = f[r]{step} + {intercept};"
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
