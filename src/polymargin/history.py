"""What happened during a fit: one record per check, and the hooks that are told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

__all__ = ["Check", "History"]


class Check(NamedTuple):
    """The state of a fit at one full check of the certificate."""

    seconds: float
    iteration: int
    primal: float
    dual: float
    relative_gap: float
    active: int
    steps: int


Snapshot = Callable[[], tuple[np.ndarray, np.ndarray]]
Watcher = Callable[[Check, Snapshot], bool]


class History:
    """Collects checks; ``watchers`` are told of each of them as it happens.

    A watcher gets the check and a function that returns the dual point (support, tau) of that
    moment; a true answer asks the solver to stop.
    """

    def __init__(self, watchers: tuple[Watcher, ...] = ()) -> None:
        self.checks: list[Check] = []
        self.watchers = watchers

    def record(self, check: Check, snapshot: Snapshot) -> bool:
        """Note a check and tell the watchers; whether one of them asks to stop."""
        self.checks.append(check)
        return any([watcher(check, snapshot) for watcher in self.watchers])

    def as_arrays(self) -> dict[str, np.ndarray]:
        """A mapping of equally long one-dimensional arrays."""
        columns = zip(*self.checks, strict=True) if self.checks else [()] * len(Check._fields)
        return {
            name: np.asarray(column) for name, column in zip(Check._fields, columns, strict=True)
        }


def format_check(check: Check) -> str:
    """One line for people."""
    return (
        f"[polymargin] {check.seconds:8.2f} s  pass {check.iteration:5d}  "
        f"primal {check.primal:.8g}  dual {check.dual:.8g}  "
        f"gap {check.relative_gap:.2e}  active {check.active}"
    )
