"""Decisions taken from a string of bytes, so that a fuzzer that changes bytes changes decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

Item = TypeVar("Item")
FIT_BYTES = 96
"""What the choices of one fit read at most."""


class Choices:
    """Reads decisions from the front of ``data``; zeros follow after its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def is_over(self) -> bool:
        return self.at >= len(self.data)

    def number(self, below: int) -> int:
        """An integer in [0, below)."""
        size = max(1, (max(below, 1) - 1).bit_length() + 7 >> 3)
        piece = self.data[self.at : self.at + size]
        self.at += size
        return int.from_bytes(piece, "little") % max(below, 1)

    def one_of(self, items: Sequence[Item]) -> Item:
        return items[self.number(len(items))]

    def bytes(self, most: int) -> bytes:
        length = self.number(most + 1)
        piece = self.data[self.at : self.at + length]
        self.at += length
        return piece

    def rest(self) -> bytes:
        piece = self.data[self.at :]
        self.at = len(self.data)
        return piece

    def json_value(self) -> Any:
        """A small value of any JSON type, the awkward ones first."""
        kind = self.number(8)
        if kind == 0:
            return self.one_of([None, True, False, [], {}, [[]], ""])
        if kind == 1:
            return self.one_of([0, 1, -1, 2**31, 2**53 + 1, 2**63, -(2**63), 10**30])
        if kind == 2:
            return self.one_of([0.0, -0.0, 0.5, 1e308, -1e308, float("nan"), float("inf")])
        if kind == 3:
            return self.number(256) - 128
        if kind == 4:
            return self.bytes(12).decode("latin-1")
        if kind == 5:
            return [self.number(8) for _ in range(self.number(4))]
        return self.one_of(
            ["float64", "O", "numpy", "builtins", "os", "system", "__class__", "1.npy"]
        )
