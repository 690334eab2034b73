"""What a C header consists of, before it becomes text: tables, steps of a prediction, notes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from polymargin.export.c_text import CArray, c_float, float32_of

__all__ = ["CPlan", "Entry"]

_COARSE = 0.02  # an error of the scores that may change labels
_FEW_CHANGED = 0.01  # share of classes that change: above it the header says so,
_MOST_CHANGED = 0.2  # and above this one it is of no use and refused
_FINER = {"int4": "'int8'", "int8": "'int16' or 'float32'", "int16": "'float32'"}


@dataclass(frozen=True, eq=False)
class Entry:
    """How a raw feature becomes what the tables expect: (x - shift) * scale, limits, - origin.

    ``scale`` may be a single number.  None leaves a step out.
    """

    shift: np.ndarray | None = None
    scale: np.ndarray | float | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    origin: np.ndarray | None = None

    @property
    def is_identity(self) -> bool:
        return self.shift is None and self.scale is None and self.low is None

    def arrays(self) -> list[CArray]:
        found = []
        for name, about in (
            ("shift", "Subtracted from the features at entry."),
            ("scale", "Then multiplied with them."),
            ("low", "Then the least value they may have,"),
            ("high", "and the largest one."),
            ("origin", "Then subtracted."),
        ):
            values = getattr(self, name)
            if isinstance(values, np.ndarray):
                found.append(CArray(name, float32_of(values, name), about))
        return found

    def lines(self, prefix: str) -> list[str]:
        """Statements that turn ``v`` from the raw feature j into the scaled one."""
        found = []
        if self.shift is not None:
            found.append(f"v -= {prefix}_shift[j];")
        if isinstance(self.scale, np.ndarray):
            found.append(f"v *= {prefix}_scale[j];")
        elif self.scale is not None:
            found.append(f"v *= {c_float(self.scale)};")
        if self.low is not None:
            found.append(f"v = v < {prefix}_low[j] ? {prefix}_low[j] : v;")
            found.append(f"v = v > {prefix}_high[j] ? {prefix}_high[j] : v;")
        if self.origin is not None:
            found.append(f"v -= {prefix}_origin[j];")
        return found


@dataclass
class CPlan:
    """Everything that differs between headers.

    Attributes
    ----------
    tables : list of CArray
    functions : list of str
        Static functions that the prediction calls.
    locals : list of str
        Declarations of the prediction.
    prepare : list of str
        Statements that come before the prototypes are scored.
    score : str
        An expression for the score of prototype r.
    score_type : str
        Its type; of the same class the largest is taken in this type.
    as_float : str
        How it becomes a float, {} stands for it.
    stack_bytes : int
        Of the arrays among the locals.
    needs : list of str
        Functions of math.h.
    remarks : list of str
        Sentences for the comment at the top.
    error : float
        Expected error of the scores, as a share of their spread.
    changed : float
        Share of the support vectors, and of points half-way between two of them, whose class is
        not that of the model.
    """

    tables: list[CArray] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    locals: list[str] = field(default_factory=list)
    prepare: list[str] = field(default_factory=list)
    score: str = ""
    score_type: str = "float"
    as_float: str = "{}"
    stack_bytes: int = 0
    needs: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    error: float = 0.0
    changed: float = 0.0

    def cautions(self, dtype: str) -> list[str]:
        """What speaks against using the header."""
        if self.error <= _COARSE and self.changed <= _FEW_CHANGED:
            return []
        return [f"Caution: {self._findings(dtype)}"]

    def refuse(self, dtype: str) -> None:
        """ValueError where the header would be of no use."""
        if self.changed > _MOST_CHANGED:
            raise ValueError(
                f"dtype={dtype!r} is too coarse for this model: {self._findings(dtype)}"
            )

    def _findings(self, dtype: str) -> str:
        text = f"scores are off by about {100.0 * self.error:.0f} percent of their spread "
        text += "among the support vectors"
        if self.changed > 0.0:
            text += f", and {100.0 * self.changed:.0f} percent of the classes there change"
        finer = f"dtype={_FINER[dtype]}" if dtype in _FINER else "ONNX"
        return f"{text}; use {finer}, or scale the features and train again."

    @property
    def n_bytes(self) -> int:
        """Bytes of all tables."""
        return sum(table.n_bytes for table in self.tables)
