"""The command ``polymargin``.  Only click is imported until a command runs."""

from __future__ import annotations

import click

from polymargin import __version__
from polymargin.cli.common import Tool
from polymargin.cli.explain import explain
from polymargin.cli.paths import path
from polymargin.cli.searching import cv, tune
from polymargin.cli.sharing import completion, demo, export, report
from polymargin.cli.training import train
from polymargin.cli.using import evaluate, info, predict

__all__ = ["main"]


@click.group(cls=Tool, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="polymargin")
def main() -> None:
    """Train, use and share multi-class large-margin classifiers.

    DATA is a file of type CSV, TSV, LIBSVM, ARFF, NPZ or Parquet (also packed with gzip, bzip2 or
    xz), or - for standard input.  Results go to standard output, messages and progress to standard
    error.  Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
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
    completion,
):
    main.add_command(_command)
