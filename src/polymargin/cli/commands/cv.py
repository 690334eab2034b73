"""``polymargin cv``."""

from __future__ import annotations

from typing import Any

import click

from polymargin.cli.application import INTERRUPTED
from polymargin.cli.cross_validation import cross_validate, folds_text
from polymargin.cli.files import read_for
from polymargin.cli.machine_setup import take_machine_setup
from polymargin.cli.messages import emit
from polymargin.cli.options import (
    data_argument,
    machine_options,
    output_options,
    take_data_options,
    training_options,
)

__all__ = ["cv"]


@click.command()
@data_argument
@click.option("-v", "--folds", type=click.IntRange(2), default=5, show_default=True,
              help="Number of folds.")  # fmt: skip
@machine_options()
@training_options
@output_options
def cv(data: str, folds: int, as_json: bool, **options: Any) -> None:
    """Error of a machine on DATA by stratified cross-validation.

    Scaling, and C where it is left open, are learnt on the training part of every fold.
    """
    setup = take_machine_setup(options)
    found = read_for(setup, data, take_data_options(options))
    record = {"command": "cv", "data": data} | cross_validate(setup, found, folds)
    emit(record, as_json, lambda: folds_text(record))
    if record["interrupted"]:
        raise click.exceptions.Exit(INTERRUPTED)
