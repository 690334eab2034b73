"""The command line: ``python -m benchmarks [linear|rbf|machines|covtype|all] [--quick] ...``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import runner
from benchmarks.options import Options

DEFAULT_OUTPUT = Path(__file__).parent / "results"


def positive(text: str) -> int:
    """A whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def parse(arguments: Sequence[str] | None = None) -> tuple[list[str], Options]:
    """Names of the benchmarks to run, and how."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Speed and memory of polymargin beside liblinear and LIBSVM, on one thread.",
        epilog="The data sets are read from the directory named by POLYMARGIN_DATA_DIR "
        "(see benchmarks/README.md); rows whose set is absent are skipped.",
    )
    parser.add_argument("benchmark", nargs="?", default="all", choices=[*runner.BENCHMARKS, "all"])
    parser.add_argument(
        "--quick", action="store_true", help="tiny parts of the data: a smoke test, no verdicts"
    )
    parser.add_argument(
        "--repeat", type=positive, help="runs behind every median (default: 5; with --quick 1)"
    )
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT, help="directory of results")
    given = parser.parse_args(arguments)
    names = list(runner.BENCHMARKS) if given.benchmark == "all" else [given.benchmark]
    repeat = given.repeat or (1 if given.quick else 5)
    return names, Options(quick=given.quick, repeat=repeat, output=given.output)


if __name__ == "__main__":
    sys.exit(runner.run(*parse()))
