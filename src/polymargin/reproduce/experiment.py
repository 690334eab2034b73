"""What an experiment is: cells that are run once each, and rows that compare them with print."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

__all__ = ["SCALES", "Cell", "Experiment", "Measured", "Row", "Scale", "cell_key", "values_of"]

Scale = Literal["full", "quick", "tiny"]
SCALES: tuple[Scale, ...] = ("full", "quick", "tiny")  # tiny: seconds, for the tests

Cell = dict[str, Any]
"""Parameters of one piece of work: JSON values only.  The entry "data" names its data set."""


def cell_key(cell: Mapping[str, Any]) -> str:
    """One text per cell, whatever the order of its entries."""
    return json.dumps(cell, sort_keys=True)


@dataclass(frozen=True)
class Measured:
    """A finished cell and what it measured."""

    cell: Cell
    result: dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One line of the comparison.

    Attributes
    ----------
    label : tuple of str
        What the row is about: data set, machine, number of prototypes.
    quantity : str
        What is compared, with its unit.
    published : float or None
        The printed figure; None where nothing is printed.
    procedure, default : sequences of float
        Values of the published procedure and of this library's default, one per seed or split.
    lower_is_better : bool
    noise : float
        Standard deviation that comes on top of the spread of the values: other test examples or
        other data than those of the printed figure.  0 where the test part is the same.
    printed_runs : int
        Seeds or splits of which the printed figure is the mean.
    digits : int
        Digits behind the point of the printed figure.
    why_not : str
        Why the row cannot be compared; empty where it can.
    judged : str
        The verdict of a row that states something else than a figure.
    note : str
        A sentence below the table.
    extra : mapping
        Further columns.
    """

    label: tuple[str, ...]
    quantity: str
    published: float | None
    procedure: Sequence[float] = ()
    default: Sequence[float] = ()
    lower_is_better: bool = True
    noise: float = 0.0
    printed_runs: int = 1
    digits: int = 2
    why_not: str = ""
    judged: str = ""
    note: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """A published experiment.

    Attributes
    ----------
    name, title : str
    about : str
        What is printed where, what is run here, and in which ways that differs.
    labels : tuple of str
        Headings of ``Row.label``.
    cells : callable
        The cells of a scale.
    run : callable
        Does the work of a cell; a function of a module, since other processes import it.
    rows : callable
        Rows of the comparison from the finished cells, also where some are missing.
    draw : callable or None
        Draws figures into a folder and returns their paths; needs matplotlib.
    """

    name: str
    title: str
    about: str
    labels: tuple[str, ...]
    cells: Callable[[Scale], list[Cell]]
    run: Callable[[Cell], dict[str, Any]]
    rows: Callable[[Sequence[Measured]], list[Row]]
    draw: Callable[[Sequence[Measured], Path], list[Path]] | None = None

    def data_sets(self, scale: Scale) -> list[str]:
        """Names of the data sets that the cells read, each once."""
        return list(dict.fromkeys(cell["data"] for cell in self.cells(scale)))


def values_of(measured: Sequence[Measured], quantity: str, **wanted: Any) -> list[float]:
    """Values of one quantity over the cells whose parameters are as wanted; NaN left out."""
    found = [
        float(one.result[quantity])
        for one in measured
        if quantity in one.result
        and all(one.cell.get(name) == value for name, value in wanted.items())
    ]
    return [value for value in found if not math.isnan(value)]
