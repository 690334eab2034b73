"""The table of what AutoSVC tried: columns to keep, text to print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polymargin.estimators.auto_candidates import Table
from polymargin.estimators.auto_race import Entry

__all__ = ["format_tried", "tried_columns"]


def tried_columns(
    entries: Sequence[Entry], chosen: Entry | None, table: Table, objective: str
) -> dict[str, list[Any]]:
    """Equally long columns: the choice, those still in the race, the dropped; by rows and score."""
    ordered = sorted(entries, key=lambda e: (e is not chosen, not e.is_alive, *_standing(e)))
    shift = 0.0 if objective == "log_loss" else 1.0
    return {
        "machine": [entry.candidate.family for entry in ordered],
        "parameters": [entry.candidate.parameters(table) for entry in ordered],
        "score": [float(shift - entry.mean) for entry in ordered],
        "standard_error": [float(entry.error) for entry in ordered],
        "n_splits": [len(entry.losses) or entry.n_splits for entry in ordered],
        "train_rows": [entry.train_rows for entry in ordered],
        "seconds": [float(np.sum(entry.seconds)) for entry in ordered],
        "model_bytes": [int(entry.model_bytes) for entry in ordered],
        "verdict": ["chosen" if e is chosen else _verdict(e) for e in ordered],
    }


def _verdict(entry: Entry) -> str:
    return entry.verdict or ("close" if entry.n_splits else "not tried: too few rows")


def _standing(entry: Entry) -> tuple[float, float]:
    return -float(entry.train_rows), np.inf if np.isnan(entry.mean) else entry.mean


def format_tried(tried: dict[str, list[Any]], objective: str, rows: int | None = None) -> str:
    """The columns as text, one machine per line."""
    title = {"log_loss": "-log loss", "balanced_accuracy": "balanced %"}.get(objective, "right %")
    factor = 1.0 if objective == "log_loss" else 100.0
    lines = [("machine", "C", "gamma", title, "+-", "splits", "rows", "s", "kB", "")]
    for k in range(len(tried["machine"]))[:rows]:
        own = tried["parameters"][k]
        weighted = " balanced" if own.get("class_weight") == "balanced" else ""
        lines.append(
            (
                tried["machine"][k] + weighted,
                f"{own['C']:.3g}",
                f"{own['gamma']:.3g}" if "gamma" in own else "",
                _shown(factor * tried["score"][k]),
                _shown(factor * tried["standard_error"][k]),
                str(tried["n_splits"][k]),
                str(tried["train_rows"][k]),
                f"{tried['seconds'][k]:.2f}" if "seconds" in tried else "",
                f"{tried['model_bytes'][k] / 1000.0:.1f}",
                tried["verdict"][k],
            )
        )
    widths = [max(len(line[c]) for line in lines) for c in range(len(lines[0]))]
    return "\n".join(_line(line, widths) for line in lines)


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    first = cells[0].ljust(widths[0])
    numbers = [cell.rjust(width) for cell, width in zip(cells[1:-1], widths[1:-1], strict=True)]
    return "  ".join([first, *numbers, cells[-1]]).rstrip()


def _shown(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}"
