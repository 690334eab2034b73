"""Reports: a table as text, Markdown and JSON, verdicts beside targets, and a chart."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.charts import Panel, draw, is_available
from benchmarks.data import DataMissingError, DataSet, find, load
from benchmarks.machine import describe
from benchmarks.options import Options
from polymargin._extras import install_command

__all__ = ["Column", "Report", "Table", "Verdict", "judged", "publish"]


@dataclass(frozen=True)
class Column:
    """A column of the table: key of the row, title, and format of the value ("" for text)."""

    key: str
    title: str
    format: str = ""

    def show(self, row: Mapping[str, Any]) -> str:
        """The cell as text."""
        value = row.get(self.key)
        return "-" if value is None else format(value, self.format)


@dataclass
class Table:
    """A part of a report: heading, how it was measured, columns in order, one mapping per row."""

    title: str
    method: str
    columns: Sequence[Column]
    rows: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """A number beside its target; ``met`` is None, with a reason, where it must not be judged."""

    name: str
    value: float | None
    target: str
    met: bool | None
    reason: str = ""

    @property
    def word(self) -> str:
        """met, missed, or why neither."""
        if self.met is None:
            return f"not judged ({self.reason})"
        return "met" if self.met else "missed"

    @property
    def shown(self) -> str:
        """The value as text."""
        return "-" if self.value is None else f"{self.value:.3g}"

    def line(self) -> str:
        """One line for people."""
        return f"{self.name}: {self.shown} (target {self.target}): {self.word}"


def judged(
    name: str,
    values: Sequence[float],
    summary: Callable[[Sequence[float]], float],
    target: float,
    expected: int,
    quick: bool,
    at_most: bool = False,
) -> Verdict:
    """Compare a summary of one value per row with its target.

    Rows that are missing, or a quick run, give no verdict, but the number is still shown.
    """
    value = summary(values) if values else None
    text = f"{'at most' if at_most else 'at least'} {target:g}"
    if quick:
        return Verdict(name, value, text, None, "quick run")
    if value is None or len(values) < expected:
        return Verdict(name, value, text, None, f"{len(values)} of {expected} rows")
    return Verdict(name, value, text, value <= target if at_most else value >= target)


@dataclass
class Report:
    """What a benchmark found.

    Attributes
    ----------
    name, title : str
        Of the files and of the page.
    method : str
        How it was measured.
    columns : columns of the table, in order.
    rows : one mapping per row; keys that no column shows go into the JSON file only.
    verdicts : numbers beside their targets.
    tables : further tables with headings, of a benchmark in several parts.
    missing : rows that were left out, with the reason.
    panels : the chart.
    """

    name: str
    title: str
    method: str
    columns: Sequence[Column] = ()
    rows: list[dict[str, Any]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)

    @property
    def parts(self) -> list[Table]:
        """All tables; the one of the report itself, if it has columns, needs no heading."""
        own = [Table("", "", self.columns, self.rows)] if self.columns else []
        return own + self.tables

    @property
    def is_empty(self) -> bool:
        """Whether no table has a row."""
        return not any(table.rows for table in self.parts)

    def measure(
        self,
        cases: Sequence[Any],
        options: Options,
        measure: Callable[[Any, DataSet, int], dict[str, Any]],
        line: Callable[[Any, dict[str, Any]], str],
    ) -> None:
        """A row for every case whose data are present, and a line about it as it comes.

        A case names its ``data`` and has a ``title``.
        """
        for case in cases:
            try:
                data = load(case.data, options.quick)
            except DataMissingError as reason:
                self.skip(case.title, reason)
                continue
            row = measure(case, data, options.repeat)
            self.rows.append(row)
            print(line(case, row), flush=True)

    def present(self, names: Iterable[str]) -> Iterator[str]:
        """The names of data sets that are here; the others are left out, and that is said."""
        for name in names:
            try:
                find(name)
            except DataMissingError as reason:
                self.skip(name, reason)
                continue
            yield name

    def skip(self, row: str, reason: object) -> None:
        """Leave a row out, and say so."""
        self.missing.append(f"{row} ({reason})")
        print(f"{row}: skipped, {reason}", flush=True)


def as_text(report: Report) -> str:
    """The tables with aligned columns, then the verdicts."""
    lines = []
    for table in report.parts:
        lines += [table.title] if table.title else []
        lines += [*_aligned(_cells(table)), ""]
    lines += [verdict.line() for verdict in report.verdicts]
    return "\n".join(lines)


def _cells(table: Table) -> list[list[str]]:
    titles = [column.title for column in table.columns]
    return [titles, *([column.show(row) for column in table.columns] for row in table.rows)]


def _aligned(cells: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in cells
    ]


def _markdown_table(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(titles) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [titles, rule, *lines])


def as_markdown(
    report: Report, facts: Mapping[str, Any], options: Options, chart: Path | None
) -> str:
    """A page: method, machine, tables, verdicts, what is missing, chart."""
    verdicts = _markdown_table(
        ["target", "wanted", "found", "verdict"],
        [[v.name, v.target, v.shown, v.word] for v in report.verdicts],
    )
    parts = [f"# {report.title}", report.method]
    if options.quick:
        parts.append("**Quick run on tiny parts of the data: the numbers mean nothing.**")
    machine = describe(dict(facts)).replace("\n", "  \n")
    parts += [f"Runs behind every median: {options.repeat}. {facts['date']}.", machine]
    for table in report.parts:
        parts += [f"## {table.title}", table.method] if table.title else []
        titles, *lines = _cells(table)
        parts.append(_markdown_table(titles, lines))
    parts += ["## Verdicts"] if report.tables else []
    parts.append(verdicts)
    if report.missing:
        parts.append("Missing rows: " + "; ".join(report.missing) + ".")
    if chart is not None:
        parts.append(f"![{report.title}]({chart.name})")
    return "\n\n".join(parts) + "\n"


def as_json(report: Report, facts: Mapping[str, Any], options: Options) -> str:
    """Everything, raw runs included, for machines."""
    content = {
        "benchmark": report.name,
        "title": report.title,
        "method": report.method,
        "quick": options.quick,
        "repeat": options.repeat,
        "machine": facts,
        "rows": report.rows,
        "tables": [
            {"title": table.title, "method": table.method, "rows": table.rows}
            for table in report.tables
        ],
        "verdicts": [{**asdict(verdict), "verdict": verdict.word} for verdict in report.verdicts],
        "missing": report.missing,
    }
    return json.dumps(content, indent=2) + "\n"


def publish(report: Report, facts: Mapping[str, Any], options: Options) -> None:
    """Print the table; write the Markdown, JSON and PNG files.

    A run that lacks rows is written beside the whole results, not over them.
    """
    print("\n" + as_text(report), flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    part = "quick-" if options.quick else "partial-" if report.missing else ""
    stem = f"{part}{report.name}"
    chart = _draw(report, options.output / f"{stem}.png")
    _write(options.output / f"{stem}.json", as_json(report, facts, options))
    _write(options.output / f"{stem}.md", as_markdown(report, facts, options, chart))
    print(f"written: {options.output / stem}.{{json,md{',png' if chart else ''}}}", flush=True)


def _draw(report: Report, path: Path) -> Path | None:
    if not report.panels:
        return None
    if not is_available():
        print(f"no chart: matplotlib is not installed ({install_command('plots')})")
        return None
    draw(report.title, report.panels, path)
    return path


def _write(path: Path, text: str) -> None:
    """Whole files only: an interrupted run leaves the last results alone."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
