"""Finished cells in a file of JSON lines: one line per cell, on disk before the next one begins."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from polymargin.reproduce.experiment import Cell, Measured, cell_key
from polymargin.storage.atomic import atomic_file

__all__ = ["ResultStore"]


class ResultStore:
    """Results of cells, kept from run to run.

    A line that cannot be read (the run was killed while it was written) is left out and its cell
    is run again; the other lines stay.

    Parameters
    ----------
    path : Path
        Its folder is made where it is missing.

    Attributes
    ----------
    notes : list of str
        What was found wrong with the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: list[str] = []
        self._found: dict[str, Measured] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            self._read()
        with path.open("ab"):  # refused now rather than after the first hour of work
            pass

    def _read(self) -> None:
        kept, broken = [], 0
        content = self.path.read_bytes()
        for line in content.split(b"\n"):
            if not line.strip():
                continue
            one = _parsed(line)
            if one is None:
                broken += 1
                continue
            kept.append(line)
            self._found[cell_key(one.cell)] = one
        if broken or not content.endswith(b"\n"):  # the next cell would go on in the last line
            with atomic_file(self.path) as file:
                file.write(b"".join(line + b"\n" for line in kept))
        if broken:
            self.notes.append(
                f"{self.path}: {broken} line(s) cannot be read and are left out, their cells run "
                f"again; {len(kept)} are kept"
            )

    def __contains__(self, cell: Cell) -> bool:
        return cell_key(cell) in self._found

    def __len__(self) -> int:
        return len(self._found)

    def add(self, cell: Cell, result: Mapping[str, Any]) -> None:
        """Keep a result; when this returns it is on disk, and when it fails nothing of it is."""
        one = Measured(cell, dict(result))
        line = json.dumps({"cell": cell, "result": one.result}, sort_keys=True) + "\n"
        with self.path.open("ab", buffering=0) as file:
            end = file.tell()
            try:
                _write_all(file, line.encode())
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(end)
                raise
        self._found[cell_key(cell)] = one

    def of(self, cells: Iterable[Cell]) -> list[Measured]:
        """The finished ones among some cells, in their order."""
        keys = [cell_key(cell) for cell in cells]
        return [self._found[key] for key in keys if key in self._found]


def _write_all(file: Any, data: bytes) -> None:
    """Write without a buffer, which would try the rest of a failed write once more."""
    while data:
        data = data[file.write(data) :]


def _parsed(line: bytes) -> Measured | None:
    """A line as a measured cell; None where it is not one."""
    try:
        content = json.loads(line)
        cell, result = content["cell"], content["result"]
    except (ValueError, TypeError, KeyError):
        return None
    if not isinstance(cell, dict) or not isinstance(result, dict):
        return None
    return Measured(cell, result)
