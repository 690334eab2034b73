"""The command ``polymargin``.  Only click is imported until a command runs."""

from __future__ import annotations

import click

from polymargin import __version__
from polymargin.cli.application import Tool
from polymargin.cli.commands.class_margins import margins
from polymargin.cli.commands.completion import completion
from polymargin.cli.commands.cv import cv
from polymargin.cli.commands.demo import demo
from polymargin.cli.commands.error_bounds import bounds
from polymargin.cli.commands.evaluate import evaluate
from polymargin.cli.commands.explain import explain
from polymargin.cli.commands.export import export
from polymargin.cli.commands.gacv_value import gacv
from polymargin.cli.commands.info import info
from polymargin.cli.commands.loo import loo
from polymargin.cli.commands.path import path
from polymargin.cli.commands.predict import predict
from polymargin.cli.commands.report import report
from polymargin.cli.commands.reproduce import data, reproduce
from polymargin.cli.commands.train import train
from polymargin.cli.commands.tune import tune

__all__ = ["main"]


@click.group(cls=Tool, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="polymargin")
def main() -> None:
    """Train, use and share multi-class large-margin classifiers.

    DATA is a file of type CSV, TSV, JSON lines, Parquet, LIBSVM, ARFF or NPZ (also packed with
    gzip, bzip2, xz or zstd), several such files, or - for standard input.  Results go to standard
    output, messages and progress to standard error.  Exit codes: 0 done, 1 failed, 2 wrong usage,
    130 interrupted.
    """


for _command in (
    demo,
    train,
    predict,
    evaluate,
    explain,
    cv,
    tune,
    path,
    export,
    report,
    info,
    margins,
    loo,
    bounds,
    gacv,
    reproduce,
    data,
    completion,
):
    main.add_command(_command)
