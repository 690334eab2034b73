"""Messages and progress on standard error, results on standard output."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

__all__ = [
    "be_quiet",
    "emit",
    "forget",
    "plain",
    "progress",
    "say",
    "say_end",
    "say_once",
    "size_text",
    "table",
]


_state = {"quiet": False}
_said: set[str] = set()


def forget() -> None:
    """Begin a new run, in which ``say_once`` may repeat messages."""
    _said.clear()


def be_quiet(quiet: bool) -> None:
    """No messages and no progress from now on, or both again."""
    _state["quiet"] = quiet


def say(text: str) -> None:
    """A message on standard error; nothing when quiet."""
    if not _state["quiet"]:
        if "polymargin.cli.progress_line" in sys.modules:
            sys.modules["polymargin.cli.progress_line"].wipe()
        click.echo(text, err=True)


def say_end(interrupted: bool, output: str | None) -> None:
    """The message at the end of a training: where the model is, or that there is none."""
    if interrupted:
        where = f"kept in {output}" if output else "not kept: no -o was given"
        say(f"interrupted: the best model so far is {where}")
    elif output is None:
        say("no model file was written; name one with -o")


def say_once(text: str) -> None:
    """A message that is not repeated in the same run."""
    if text not in _said:
        _said.add(text)
        say(text)


def progress(title: str) -> Any:
    """A progress line, off when quiet or not on a terminal."""
    from polymargin.cli.progress_line import ProgressLine

    return ProgressLine(title, enabled=False if _state["quiet"] else None)


def emit(record: dict[str, Any], as_json: bool, text: Callable[[], str]) -> None:
    """The result, on standard output: JSON or text."""
    if as_json:
        click.echo(json.dumps(plain(record), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        click.echo(text())


def plain(value: Any) -> Any:
    """A value in the types of JSON; numbers that are not finite become null."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def table(rows: Sequence[Sequence[str]], right: Sequence[bool] | None = None) -> str:
    """Columns of text; ``right`` says which of them hold numbers."""
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if right is not None and right[c] else cell.ljust(width)
            for c, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def size_text(n_bytes: float) -> str:
    """A size as text."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= factor:
            return f"{n_bytes / factor:.1f} {unit}"
    return f"{n_bytes:.0f} bytes"
