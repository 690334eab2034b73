"""The command ``polymargin``.  Only click is imported until a command is named."""

from __future__ import annotations

import click

from polymargin.cli.application import Tool
from polymargin.cli.environment import print_environment

__all__ = ["main"]

_COMMANDS = {
    "demo": "A first tour on embedded data.",
    "train": "Train a model on DATA.",
    "predict": "Labels of the rows of DATA.",
    "evaluate": "Error of a model on DATA.",
    "explain": "Why the model decides as it does.",
    "cv": "Error by cross-validation.",
    "tune": "Try settings, keep the best.",
    "path": "One machine for many values of C.",
    "export": "A model as ONNX, C or JSON.",
    "report": "A page about a model on DATA.",
    "info": "What a model file holds.",
    "margins": "Distances to the borders between classes.",
    "loo": "Exact leave-one-out errors.",
    "bounds": "Bounds on the errors of a model.",
    "gacv": "Approximate cross-validation (LLW).",
    "reproduce": "Run a published experiment again.",
    "data": "Data sets of the experiments.",
    "completion": "Completion for your shell.",
}
"""Each is the function of that name in a file under ``commands``."""

_FILES = {"margins": "class_margins", "bounds": "error_bounds", "gacv": "gacv_value"}
"""Files that are not named after their command, since another file has that name."""


@click.group(
    cls=Tool,
    summaries=_COMMANDS,
    files=_FILES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False,
              callback=print_environment, help="Print the version and, for bug reports, the "
              "versions of Python, libraries and system.")  # fmt: skip
def main() -> None:
    """Train, use and share multi-class large-margin classifiers.

    DATA is a file of type CSV, TSV, JSON lines, Parquet, LIBSVM, ARFF or NPZ (also packed with
    gzip, bzip2, xz or zstd), several such files, or - for standard input.  Results go to standard
    output, messages and progress to standard error.  Exit codes: 0 done, 1 failed, 2 wrong usage,
    130 interrupted, 143 terminated.
    """
