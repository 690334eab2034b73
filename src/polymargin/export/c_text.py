"""Pieces of C text: identifiers, strings, arrays of numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from polymargin.exceptions import shown

__all__ = ["CArray", "c_comment", "c_float", "c_string", "check_name", "float32_of"]

_C_WORDS = (
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while"
)
_CPP_WORDS = (
    "and asm bool catch class delete explicit export false friend mutable namespace new not "
    "operator or private protected public template this throw true try typename using virtual xor"
)
_KEYWORDS = frozenset(f"{_C_WORDS} {_CPP_WORDS}".split(" "))
_TYPES = {
    "float32": "float",
    "float64": "double",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
}
_LINE = 96


def check_name(name: str) -> None:
    """Refuse what cannot begin the names of C functions."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(
            f"name must be a C identifier (letters, digits and _, beginning with a letter), "
            f"got {shown(name)}."
        )
    if name in _KEYWORDS:
        raise ValueError(f"name={name!r} is a word of the C or C++ language; use another.")


def c_float(value: float) -> str:
    """A float constant with all its digits."""
    with np.errstate(over="ignore"):
        single = float(np.float32(value))
    if not np.isfinite(single):
        raise ValueError(
            f"X: single precision, in which C code computes, cannot hold {value:.3g}, a number of "
            "this model; scale the features of X before training."
        )
    return f"{single:.8e}f"


def c_string(text: str) -> str:
    """A C string literal of the UTF-8 bytes of a text."""
    if "\0" in text:
        raise ValueError(
            f"classes: the label {text!r} has a NUL character, which ends a C string; rename it."
        )
    pieces = []
    for byte in text.encode("utf-8"):
        char = chr(byte)
        if char in '"\\?':  # a question mark could begin a trigraph
            pieces.append("\\" + char)
        elif 32 <= byte < 127:
            pieces.append(char)
        else:
            pieces.append(f"\\{byte:03o}")  # always three digits: nothing runs on
    return '"' + "".join(pieces) + '"'


def c_comment(text: str) -> str:
    """Text that is safe inside a comment."""
    return re.sub(r"[^A-Za-z0-9_ .,:;=()<>+'-]", "_", text)


def float32_of(values: np.ndarray, what: str) -> np.ndarray:
    """float32, refused where the range does not suffice."""
    with np.errstate(over="ignore", under="ignore"):
        single = np.asarray(values, dtype=np.float64).astype(np.float32)
    if not np.isfinite(single).all():
        raise ValueError(
            f"model: the {what} exceed the range of float32 (3.4e38); scale the features before "
            "training, with StandardScaler in a Pipeline, say."
        )
    return single


@dataclass(frozen=True, eq=False)
class CArray:
    """A table of constants of one or two dimensions, with a sentence about it."""

    field: str
    values: np.ndarray
    about: str

    @property
    def n_bytes(self) -> int:
        return int(self.values.nbytes)

    def text(self, prefix: str) -> str:
        """The definition in C."""
        values = self.values
        size = "".join(f"[{n}]" for n in values.shape)
        if values.ndim == 1:
            body = _lines(_words(values))
        else:
            body = ",\n".join(_row(row) for row in values)
        head = f"static const {_TYPES[values.dtype.name]} {prefix}_{self.field}{size}"
        return f"/* {self.about} */\n{head} = {{\n{body}\n}};\n"


def _row(values: np.ndarray) -> str:
    text = ", ".join(_words(values)) if len(values) <= _LINE // 4 else ""
    if text and len(text) <= _LINE - 8:
        return f"    {{ {text} }}"
    return "    {\n" + _lines(_words(values), 8) + "\n    }"


def _words(values: np.ndarray) -> list[str]:
    if values.dtype == np.float32:
        return [f"{value:.8e}f" for value in values.tolist()]
    if values.dtype == np.float64:
        return [f"{value:.17e}" for value in values.tolist()]
    if values.dtype == np.int64:
        return [f"INT64_C({value})" for value in values.tolist()]
    return [str(value) for value in values.tolist()]


def _lines(words: Iterable[str], indent: int = 4) -> str:
    """Words with commas, wrapped."""
    lines, line = [], ""
    for word in words:
        if line and len(line) + len(word) + 2 > _LINE - indent:
            lines.append(line)
            line = ""
        line += f" {word}," if line else f"{word},"
    lines.append(line)
    return "\n".join(" " * indent + one for one in lines).rstrip(",")
