"""Rows of an experiment as text, CSV and Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from polymargin.reproduce.experiment import Experiment, Row
from polymargin.reproduce.verdicts import judge_row

__all__ = ["as_csv", "as_markdown", "as_text", "table_of"]

_APART = "not comparable: "

_HEADINGS = ("quantity", "published", "procedure", "verdict", "default", "verdict")


def table_of(experiment: Experiment, rows: Sequence[Row]) -> tuple[list[list[str]], list[str]]:
    """Heading and lines; why rows are not comparable, and notes, as numbered sentences."""
    notes: list[str] = []

    def numbered(text: str) -> str:
        if text not in notes:
            notes.append(text)
        return f"[{notes.index(text) + 1}]"

    extras = list(dict.fromkeys(name for row in rows for name in row.extra))
    lines = [[*experiment.labels, *_HEADINGS, *extras]]
    for row in rows:
        verdicts = [
            f"not comparable {numbered(said.removeprefix(_APART))}"
            if said.startswith(_APART)
            else said or "-"
            for said in judge_row(row)
        ]
        quantity = f"{row.quantity} {numbered(row.note)}" if row.note else row.quantity
        lines.append(
            [
                *row.label,
                quantity,
                "-" if row.published is None else f"{row.published:.{row.digits}f}",
                _summary(row.procedure, row.digits),
                verdicts[0],
                _summary(row.default, row.digits),
                verdicts[1],
                *(_plain(row.extra.get(name)) for name in extras),
            ]
        )
    return lines, [f"[{k}] {note}" for k, note in enumerate(notes, 1)]


def _summary(values: Sequence[float], digits: int) -> str:
    """Mean, spread over seeds or splits, and how many."""
    if not len(values):
        return "-"
    mean = f"{np.mean(values):.{digits}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ± {np.std(values, ddof=1):.{digits}f} ({len(values)})"


def _plain(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def as_text(experiment: Experiment, rows: Sequence[Row]) -> str:
    """Columns for a terminal."""
    lines, notes = table_of(experiment, rows)
    widths = [max(len(line[c]) for line in lines) for c in range(len(lines[0]))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([*text, *notes])


def as_markdown(
    experiment: Experiment, rows: Sequence[Row], facts: Mapping[str, str], figures: Sequence[Path]
) -> str:
    """The table with what it is, how it was made, and the figures."""
    (heading, *lines), notes = table_of(experiment, rows)
    text = [f"# {experiment.title}", "", experiment.about, ""]
    text += ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    text += ["| " + " | ".join(line) + " |" for line in lines]
    text += ["", *(f"- {note}" for note in notes)] if notes else []
    text += ["", "Values: mean ± standard deviation (number of seeds or splits)."]
    text += [f"![{path.stem}]({path.name})" for path in figures]
    text += ["", ", ".join(f"{name} {value}" for name, value in facts.items()) + "."]
    return "\n".join(text) + "\n"


def as_csv(experiment: Experiment, rows: Sequence[Row]) -> str:
    """One line per row, numbers in full."""
    extras = list(dict.fromkeys(name for row in rows for name in row.extra))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    sides = ("procedure", "default")
    names = [f"{side}_{what}" for side in sides for what in ("mean", "spread", "runs", "verdict")]
    writer.writerow([*experiment.labels, "quantity", "published", *names, *extras])
    for row in rows:
        found: list[object] = []
        for values, said in zip((row.procedure, row.default), judge_row(row), strict=True):
            n = len(values)
            found += [
                float(np.mean(values)) if n else "",
                float(np.std(values, ddof=1)) if n > 1 else "",
                n,
                said,
            ]
        published = "" if row.published is None else row.published
        more = [row.extra.get(name, "") for name in extras]
        writer.writerow([*row.label, row.quantity, published, *found, *more])
    return buffer.getvalue()
