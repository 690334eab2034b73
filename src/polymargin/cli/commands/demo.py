"""``polymargin demo``."""

from __future__ import annotations

import click

from polymargin.cli.files import check_writable, writing
from polymargin.cli.messages import emit, say
from polymargin.cli.options import (
    output_options,
)

__all__ = ["demo"]


@click.command()
@click.option("-o", "--output", metavar="FILE", default="polymargin-demo.html", show_default=True,
              help="HTML page to write.")  # fmt: skip
@output_options
def demo(output: str, as_json: bool) -> None:
    """Train a multi-prototype model and baselines on embedded handwritten digits.

    Prints error, model size and time per prediction of each, and writes a page about the
    multi-prototype model.
    """
    check_writable(output)
    from polymargin.cli.demonstration import run

    with writing(output):
        record = run(output, say, not as_json)
    if as_json:
        emit({"command": "demo"} | record, True, str)
