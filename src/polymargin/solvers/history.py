"""What happened during a fit: one record per check, and the hooks that are told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from polymargin.problem.point import DualPoint

__all__ = ["Check", "History", "OuterCheck", "PatternCheck", "RowCheck"]


class Check(NamedTuple):
    """The state of a fit at one full check of the certificate."""

    seconds: float
    iteration: int
    primal: float
    dual: float
    relative_gap: float
    active: int
    steps: int


class OuterCheck(NamedTuple):
    """The multi-prototype machine at one outer step, before its assignments are drawn anew.

    ``primal`` and ``dual`` belong to the static problem of the present assignment; ``energy``
    is 1/2 ||M||^2 + sum_i C_i min_r xi_i^r of the same prototypes; ``temperature`` is in multiples
    of C, and ``changed`` counts the examples that the draw moves.
    """

    seconds: float
    iteration: int
    primal: float
    dual: float
    relative_gap: float
    active: int
    steps: int
    temperature: float
    energy: float
    changed: int


class PatternCheck(NamedTuple):
    """The SMO-like family at one survey of all patterns.

    ``kernel_rows`` were computed (also those behind whole sets of scores), of the rows asked for by
    the ``patterns`` optimised ``cache_hits`` were at hand and ``cache_misses`` were not.
    """

    seconds: float
    iteration: int
    primal: float
    dual: float
    relative_gap: float
    active: int
    steps: int
    gap: float
    kernel_rows: int
    cache_hits: int
    cache_misses: int
    patterns: int


class RowCheck(NamedTuple):
    """Rows on disk after one more block: ``iteration`` counts passes over all of them.

    Losses are those of the moment each block was visited, so ``relative_gap`` is an estimate.
    """

    seconds: float
    iteration: int
    primal: float
    dual: float
    relative_gap: float
    active: int
    steps: int
    bytes_read: int


Snapshot = Callable[[], DualPoint]
AnyCheck = Check | OuterCheck | PatternCheck | RowCheck
Watcher = Callable[[AnyCheck, Snapshot], bool]


class History:
    """Collects checks; ``watchers`` are told of each of them as it happens.

    A watcher gets the check and a function that returns the dual point of that moment; a true
    answer asks the solver to stop.
    """

    def __init__(self, watchers: tuple[Watcher, ...] = (), kind: type[AnyCheck] = Check) -> None:
        self.checks: list[AnyCheck] = []
        self.watchers = watchers
        self.kind = kind

    def record(self, check: AnyCheck, snapshot: Snapshot) -> bool:
        """Note a check and tell the watchers; whether one of them asks to stop."""
        self.checks.append(check)
        return any([watcher(check, snapshot) for watcher in self.watchers])

    def as_arrays(self) -> dict[str, np.ndarray]:
        """A mapping of equally long one-dimensional arrays."""
        names = self.kind._fields
        columns = zip(*self.checks, strict=True) if self.checks else [()] * len(names)
        return {name: np.asarray(column) for name, column in zip(names, columns, strict=True)}


def format_check(check: AnyCheck) -> str:
    """One line for people."""
    if isinstance(check, RowCheck):
        return (
            f"[polymargin] {check.seconds:8.2f} s  pass {check.iteration:4d}  "
            f"read {check.bytes_read / 1e6:.0f} MB  gap about {check.relative_gap:.2e}"
        )
    if isinstance(check, OuterCheck):
        return (
            f"[polymargin] {check.seconds:8.2f} s  temperature {check.temperature:.4f} C  "
            f"energy {check.energy:.8g}  changed {check.changed:6d}  "
            f"gap {check.relative_gap:.2e}  active {check.active}"
        )
    line = (
        f"[polymargin] {check.seconds:8.2f} s  pass {check.iteration:5d}  "
        f"primal {check.primal:.8g}  dual {check.dual:.8g}  "
        f"gap {check.relative_gap:.2e}  active {check.active}"
    )
    if isinstance(check, PatternCheck):
        line += f"  rows {check.kernel_rows}  hits {check.cache_hits}"
    return line
