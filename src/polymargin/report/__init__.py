"""One self-contained HTML page about a fitted model."""

from polymargin.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
