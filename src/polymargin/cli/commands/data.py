"""``polymargin data get``."""

from __future__ import annotations

from pathlib import Path

import click

from polymargin.cli.messages import emit
from polymargin.cli.options import output_options

__all__ = ["data"]


@click.group()
def data() -> None:
    """Data sets of the experiments."""


@data.command("get", short_help="Download and check a data set.")
@click.argument("name")
@click.option("-o", "--out", metavar="DIR", help="Folder.  Default: the one that experiments "
              "look into.")  # fmt: skip
@output_options
def get(name: str, out: str | None, as_json: bool) -> None:
    """Download the data set NAME from OpenML, check it, and keep it for the experiments."""
    from polymargin.reproduce.data_downloads import get_data

    path = get_data(name, None if out is None else Path(out))
    emit({"command": "data get", "file": str(path)}, as_json, lambda: f"written: {path}")
