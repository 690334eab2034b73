"""Cells of a long benchmark, kept as they come, so that an interrupted run goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["KeptCells"]


class KeptCells:
    """Finished cells in a file of JSON lines: name, settings, value.

    Parameters
    ----------
    path : Path or None
        Created with its directory when the first cell is kept; None keeps nothing.
    settings : dict
        What all cells were measured with.  A cell that was kept with other settings is measured
        again.
    """

    def __init__(self, path: Path | None, settings: dict[str, Any]) -> None:
        self.path = path
        self.settings = json.loads(json.dumps(settings))
        self.found: dict[str, Any] = {}
        if path is None or not path.is_file():
            return
        for line in path.read_text(encoding="utf-8").splitlines():
            self._read(line)

    def _read(self, line: str) -> None:
        try:
            cell = json.loads(line)
        except json.JSONDecodeError:
            return  # the last line of a run that was killed
        if cell.get("settings") == self.settings:
            self.found[cell["name"]] = cell["value"]

    def get(self, name: str, measure: Callable[[], Any]) -> Any:
        """The kept value of a cell, or the measured one, which is kept."""
        if name not in self.found:
            value = measure()
            self.found[name] = value
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                line = json.dumps({"name": name, "settings": self.settings, "value": value})
                with self.path.open("a", encoding="utf-8") as file:
                    file.write("\n" + line)  # half a line of a killed run stays a line of its own
        return self.found[name]
