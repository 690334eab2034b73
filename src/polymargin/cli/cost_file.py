"""The file of ``--cost``: what it costs to mistake one class for another."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polymargin.cli.application import ToolError

__all__ = ["Costs", "read_costs"]


@dataclass(frozen=True)
class Costs:
    """Costs in the order of the classes: ``matrix[i, j]`` of saying j when i is true."""

    classes: np.ndarray
    matrix: np.ndarray

    def mean(self, said: np.ndarray, truth: np.ndarray) -> float:
        """Mean cost of predicted labels, given the true ones."""
        i, j = (np.searchsorted(self.classes, labels) for labels in (truth, said))
        return float(self.matrix[i, j].mean()) if len(i) else 0.0


def read_costs(path: str, classes: np.ndarray) -> Costs:
    """Read a CSV file with a square of numbers, with or without the names of the classes.

    Without names, rows and columns stand in the order of the classes (ascending).  With names the
    first row holds those of the columns; the first column those of the rows, or rows are in the
    order of the columns.

    Parameters
    ----------
    path : str
    classes : (Q,) labels of the data or of the model, in ascending order.
    """
    from polymargin.problem.cost_matrix import check_costs

    cells = _cells(path)
    names = [str(label) for label in classes.tolist()]
    rows, columns = len(cells), len(cells[0])
    Q = len(names)
    row_order = column_order = np.arange(Q)
    if (rows, columns) in ((Q + 1, Q), (Q + 1, Q + 1)):
        has_both = columns == Q + 1
        column_order = _order(path, cells[0][1:] if has_both else cells[0], names)
        cells = cells[1:]
        row_order = column_order
        if has_both:
            row_order = _order(path, [row[0] for row in cells], names)
            cells = [row[1:] for row in cells]
    elif (rows, columns) != (Q, Q):
        raise ToolError(
            f"{path}: {rows} rows of {columns} values; {Q} classes ({', '.join(names[:6])}"
            f"{', ...' if Q > 6 else ''}) need {Q} rows of {Q} costs, with or without their names "
            "in a first row and a first column"
        )
    numbers = np.array([[_number(path, text) for text in row] for row in cells])
    matrix = np.empty((Q, Q))
    matrix[np.ix_(row_order, column_order)] = numbers
    try:
        return Costs(classes, check_costs(matrix, classes))
    except ValueError as error:
        raise ToolError(f"{path}: {str(error).rstrip('.')}") from error


def _cells(path: str) -> list[list[str]]:
    """The rows of the file as text; all have the same length."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ToolError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ToolError(f"{path}: not a text file in UTF-8") from error
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ToolError(f"{path}: it is empty; it must hold a matrix of costs")
    mark = next((mark for mark in (";", "\t", ",") if mark in lines[0]), " ")
    found = [
        [cell.strip() for cell in row]
        for row in csv.reader(lines, delimiter=mark, skipinitialspace=True)
    ]
    uneven = next((i for i, row in enumerate(found) if len(row) != len(found[0])), None)
    if uneven is not None:
        raise ToolError(
            f"{path}: row {uneven + 1} has {len(found[uneven])} values, the first has "
            f"{len(found[0])}"
        )
    return found


def _order(path: str, given: list[str], names: list[str]) -> np.ndarray:
    """Places of the names given among the classes."""
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ToolError(f"{path}: {unknown[0]!r} is none of the classes ({', '.join(names[:8])})")
    if len(set(given)) < len(given):
        raise ToolError(f"{path}: a class is named twice")
    return np.array([names.index(name) for name in given])


def _number(path: str, text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        raise ToolError(f"{path}: {text!r} is not a number") from None
