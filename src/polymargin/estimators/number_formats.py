"""Number formats of small models: bytes, grids of integers, and the record of a compact model.

Sizes count what a device must keep: weights, steps, intercepts, the places of features, the table
of first prototypes and the labels.  Code is not counted.  1 kB is 1000 bytes, 1 kiB is 1024.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.exceptions import shown

__all__ = [
    "BITS",
    "N_LEVELS",
    "CompactModel",
    "Grid",
    "RowGrids",
    "compact",
    "label_bytes",
    "number_bytes",
    "parse_size",
    "size_words",
]

BITS = {"float32": 32, "int16": 16, "int8": 8, "int4": 4}
N_LEVELS = 16
"""Values of four bits, one byte each in a table of levels."""
_UNITS = {"": 1, "b": 1, "kb": 1000, "kib": 1024, "mb": 10**6, "mib": 2**20}
_CLIPS = np.linspace(0.3, 1.0, 15)  # ends of a grid that are tried, in parts of the largest weight
_INTERCEPT_LEVELS = 32767
_LEAST_STEP = float(np.finfo(np.float32).tiny)
_MULTIPLIERS = 255  # one byte per prototype
_EVEN_LEVELS = np.arange(-7, 8)
_LARGEST_LEVEL = 127  # one byte per level
_HALF = np.array([6, 18, 31, 44, 58, 75, 96, 127])  # least squared error for normal numbers
_NORMAL_LEVELS = np.concatenate([-_HALF[::-1], _HALF])


def parse_size(size: int | str, name: str = "fit_into") -> int:
    """Bytes of "8kB", "4 kiB", "1.5kB" or a whole number.

    Parameters
    ----------
    size : int or str
    name : str
        The parameter that a message names.
    """
    if isinstance(size, (int, np.integer)) and not isinstance(size, bool) and size > 0:
        return int(size)
    text = size if isinstance(size, str) else ""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    unit = None if found is None else _UNITS.get(found.group(2).lower())
    n_bytes = 0 if found is None or unit is None else int(float(found.group(1)) * unit)
    if n_bytes < 1:
        raise ValueError(
            f"{name} must be a number of bytes or a size such as '8kB' (1000) or '8kiB' (1024), "
            f"got {shown(size)}."
        )
    return n_bytes


def size_words(n_bytes: float) -> str:
    """Bytes as text: 812 bytes, 7.9 kB."""
    return f"{n_bytes:.0f} bytes" if n_bytes < 1000 else f"{n_bytes / 1000:.4g} kB"


def number_bytes(rows: int, columns: int, number_format: str) -> int:
    """Bytes of a table of numbers; rows of four-bit numbers begin at whole bytes."""
    return rows * ((columns * BITS[number_format] + 7) // 8)


def label_bytes(classes: Any) -> int:
    """Bytes of the table of labels in C, on a machine with pointers of four bytes."""
    labels = list(classes)
    if all(isinstance(label, (bool, np.bool_, int, np.integer)) for label in labels):
        largest = max(abs(int(label)) for label in labels)
        return len(labels) * next((size for size in (1, 2, 4) if largest < 2 ** (8 * size - 1)), 8)
    if all(isinstance(label, (float, np.floating)) for label in labels):
        whole = all(float(label).is_integer() and abs(label) < 2**63 for label in labels)
        return label_bytes([int(label) for label in labels]) if whole else 8 * len(labels)
    return sum(4 + len(str(label).encode("utf-8")) + 1 for label in labels)


@dataclass(frozen=True)
class Grid:
    """Whole multiples of a step from -levels to levels."""

    step: float
    levels: int

    @classmethod
    def of(cls, values: np.ndarray, number_format: str) -> Grid:
        """The grid of least squared error, which may cut off the largest numbers."""
        levels = 2 ** (BITS[number_format] - 1) - 1
        largest = float(np.abs(values).max(initial=0.0)) or 1.0
        steps = [max(float(np.float32(largest * clip / levels)), _LEAST_STEP) for clip in _CLIPS]
        grids = [cls(step, levels) for step in steps]
        return min(grids, key=lambda grid: float(((grid.round(values) - values) ** 2).sum()))

    def integers(self, values: np.ndarray) -> np.ndarray:
        """The nearest multiples."""
        return np.clip(np.rint(values / self.step), -self.levels, self.levels).astype(np.int16)

    def round(self, values: np.ndarray) -> np.ndarray:
        """The nearest members of the grid, in the precision of ``values``."""
        step = values.dtype.type(self.step)
        found = np.rint(values / step)
        return np.asarray(np.clip(found, -self.levels, self.levels, out=found) * step)


@dataclass(frozen=True, eq=False)
class RowGrids:
    """A grid of four bits for each row: a table of levels times a step of the row.

    The step of a row is a whole multiple, of one byte, of a common one.

    Attributes
    ----------
    step : float
    multipliers : ndarray of shape (R,)
    levels : ndarray of whole numbers, growing
        -7 to 7, or the 16 numbers of one byte that suit a normal distribution.
    """

    step: float
    multipliers: np.ndarray
    levels: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, has_table: bool = False) -> RowGrids:
        """Grids of small squared error, with steps rounded to multiples.

        Parameters
        ----------
        values : ndarray of shape (R, k)
        has_table : bool
            Whether the levels are dense near 0, as normal numbers are, or -7 to 7.
        """
        values = np.asarray(values, dtype=np.float64)
        levels = _NORMAL_LEVELS if has_table else _EVEN_LEVELS
        steps = _row_steps(values, levels)
        unit = max(float(np.float32(steps.max() / _MULTIPLIERS)), _LEAST_STEP)
        multipliers = np.clip(np.rint(steps / unit), 1, _MULTIPLIERS).astype(np.uint8)
        return cls(unit, multipliers, levels)

    @property
    def table(self) -> np.ndarray | None:
        """The levels, None where they are -7 to 7 and need no table."""
        return None if len(self.levels) < N_LEVELS else self.levels

    def _steps(self, dtype: Any) -> np.ndarray:
        return (self.step * self.multipliers[:, None].astype(np.float64)).astype(dtype)

    def integers(self, values: np.ndarray) -> np.ndarray:
        """The nearest level of each number."""
        return _nearest(values / self._steps(values.dtype), self.levels).astype(np.int16)

    def round(self, values: np.ndarray) -> np.ndarray:
        """The nearest members of the grids, in the precision of ``values``."""
        steps = self._steps(values.dtype)
        return np.asarray(_nearest(values / steps, self.levels).astype(values.dtype) * steps)


def _nearest(values: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The level nearest to the whole number that is nearest to each value."""
    low, high = int(levels[0]), int(levels[-1])
    middles = 0.5 * (levels[1:] + levels[:-1])
    of_whole = levels[np.searchsorted(middles, np.arange(low, high + 1))]
    return np.asarray(of_whole[np.clip(np.rint(values), low, high).astype(np.intp) - low])


def _row_steps(values: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The step of least squared error of each row, which may cut off its largest numbers."""
    largest = np.abs(values).max(axis=1, initial=0.0)
    largest[largest < _LEAST_STEP] = 1.0  # all become 0
    steps = largest[None, :] * _CLIPS[:, None] / float(np.abs(levels).max())
    errors = [
        ((_nearest(values / step[:, None], levels) * step[:, None] - values) ** 2).sum(axis=1)
        for step in steps
    ]
    return np.asarray(steps[np.argmin(errors, axis=0), np.arange(len(values))])


@dataclass(frozen=True, eq=False)
class CompactModel:
    """A linear prototype model in integers.

    With z_j = (x_j - shift_j) factor_j for the features kept, prototype r scores

        f_r(x) = step m_r (sum_k w_rk h_k) + intercept_step b_r,   h = z or h = projection_step P z.

    Attributes
    ----------
    number_format : {"int16", "int8", "int4"}
        Of weights and projection.
    n_features : int
        Of x.
    features : ndarray of shape (m,) or None
        Places of the features that are kept; None keeps all.
    shift, factor : ndarray of shape (m,) or None
        None where all features are measured from 0, or have one factor (part of ``step``).
    projection : ndarray of shape (k, m) or None
        P, whole numbers.
    projection_step : float
    weights : ndarray of shape (R, k) or (R, m)
        w, whole numbers.
    step : float
    intercepts : ndarray of shape (R,)
        b, whole numbers of 16 bits.
    intercept_step : float
    prototype_class : ndarray of shape (R,)
    multipliers : ndarray of shape (R,) or None
        m, whole numbers of 8 bits; None where all are 1.
    levels : ndarray of shape (16,) or None
        With int4 the values that weights can have, growing, whole numbers of 8 bits; None where
        these are -8 to 7.
    """

    number_format: str
    n_features: int
    features: np.ndarray | None
    shift: np.ndarray | None
    factor: np.ndarray | None
    projection: np.ndarray | None
    projection_step: float
    weights: np.ndarray
    step: float
    intercepts: np.ndarray
    intercept_step: float
    prototype_class: np.ndarray
    multipliers: np.ndarray | None = None
    levels: np.ndarray | None = None

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> CompactModel:
        """The model of a fitted attribute ``compact_``; refused where it contradicts itself."""
        model = cls(**record)
        R, width = model.weights.shape
        kept = model.n_features if model.features is None else len(model.features)
        inner = kept if model.projection is None else len(model.projection)
        sound = (
            model.number_format in ("int16", "int8", "int4")
            and R == len(model.intercepts) == len(model.prototype_class)
            and width == inner
            and (model.multipliers is None or len(model.multipliers) == R)
            and (model.projection is None or model.projection.shape[1] == kept)
            and all(part is None or len(part) == kept for part in (model.shift, model.factor))
            and (model.levels is None or model._has_sound_levels())
        )
        if not sound:
            raise ValueError("model: compact_ contradicts itself; fit again with fit_into.")
        return model

    def _has_sound_levels(self) -> bool:
        levels = np.asarray(self.levels)
        return bool(
            self.number_format == "int4"
            and levels.shape == (N_LEVELS,)
            and (np.diff(levels) >= 0).all()
            and np.abs(levels).max() <= _LARGEST_LEVEL
            and np.isin(self.weights, levels).all()
        )

    def record(self) -> dict[str, Any]:
        """Plain arrays and numbers, as a fitted attribute."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def on_features(self) -> tuple[np.ndarray, np.ndarray]:
        """(R, n_features) weights and (R,) intercepts in float64: the same model."""
        W = self.weights.astype(np.float64) * self.step
        if self.multipliers is not None:
            W = W * self.multipliers[:, None]
        if self.projection is not None:
            W = W @ (self.projection.astype(np.float64) * self.projection_step)
        if self.factor is not None:
            W = W * self.factor
        b = self.intercepts * np.float64(self.intercept_step)
        if self.shift is not None:
            b = b - W @ self.shift
        if self.features is None:
            return W, b
        wide = np.zeros((len(W), self.n_features))
        wide[:, self.features] = W
        return wide, b

    def n_bytes(self, classes: Any) -> int:
        """Bytes on a device, labels counted."""
        R, width = self.weights.shape
        total = number_bytes(R, width, self.number_format) + 2 * R + 8
        if self.projection is not None:
            total += (
                number_bytes(len(self.projection), self.projection.shape[1], self.number_format) + 4
            )
        if self.features is not None:
            total += (self.n_features + 7) // 8
        total += 0 if self.multipliers is None else R
        total += 0 if self.levels is None else N_LEVELS
        total += sum(4 * len(part) for part in (self.shift, self.factor) if part is not None)
        Q = len(classes)
        if len(self.prototype_class) != Q:
            total += (Q + 1) * (1 if R < 256 else 2)
        return total + label_bytes(classes)


def compact(
    weights: np.ndarray,
    intercepts: np.ndarray,
    projection: np.ndarray | None,
    grids: tuple[Grid | RowGrids, Grid | None],
    number_format: str,
    prototype_class: np.ndarray,
    scale: dict[str, Any],
) -> CompactModel:
    """The record of numbers that lie on their grids; intercepts are rounded here.

    ``scale`` has n_features, features, shift and factor.  One number less in all intercepts changes
    no comparison, so they are counted from the middle of their range.
    """
    middle = 0.5 * float(intercepts.max() + intercepts.min())
    moved = intercepts - middle
    unit = float(np.float32(np.abs(moved).max() / _INTERCEPT_LEVELS)) or 1.0
    grid, inner = grids
    return CompactModel(
        number_format=number_format,
        projection=None if projection is None or inner is None else inner.integers(projection),
        projection_step=1.0 if inner is None else inner.step,
        weights=grid.integers(weights),
        step=grid.step,
        intercepts=np.clip(np.rint(moved / unit), -_INTERCEPT_LEVELS, _INTERCEPT_LEVELS).astype(
            np.int16
        ),
        intercept_step=unit,
        prototype_class=np.asarray(prototype_class, dtype=np.int64),
        multipliers=grid.multipliers if isinstance(grid, RowGrids) else None,
        levels=grid.table if isinstance(grid, RowGrids) else None,
        **scale,
    )
