"""What the commands share: the group with its exit codes, options, messages, reading, writing."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

__all__ = ["INTERRUPTED", "Tool", "ToolError", "say"]

INTERRUPTED = 130
_LARGE = 500_000_000  # bytes of a data file

Command = TypeVar("Command", bound=Callable[..., Any])


class ToolError(click.ClickException):
    """A failure that is told in one line; exit code 1."""

    def show(self, file: Any = None) -> None:
        click.echo(f"polymargin: error: {self.message}", err=True)


_click_main: Callable[..., Any] = click.Group.main


class Tool(click.Group):
    """The group of commands: keeps their order, turns every failure into one line and a code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they were added."""
        return list(self.commands)

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run; exit with 0, 1, 2 or 130."""
        if os.environ.get("_POLYMARGIN_COMPLETE") or not standalone_mode:
            extra["standalone_mode"] = standalone_mode
            return _click_main(self, *args, **extra)
        _said.clear()
        _buffer_output()
        with _short_warnings():
            code = self._run(*args, **extra)
        sys.exit(_flush_output(code))

    def _run(self, *args: Any, **extra: Any) -> int:
        try:
            code = _click_main(self, *args, standalone_mode=False, **extra)
            return code if isinstance(code, int) else 0
        except click.ClickException as error:
            error.show()
            return error.exit_code
        except (click.Abort, KeyboardInterrupt):
            click.echo("polymargin: interrupted", err=True)
            return INTERRUPTED
        except BrokenPipeError:
            return 0  # whoever read our output has enough
        except Exception as error:
            if os.environ.get("POLYMARGIN_DEBUG"):
                raise
            ToolError(one_line(error)).show()
            return 1


def _buffer_output() -> None:
    """Standard output behind a buffer also with ``PYTHONUNBUFFERED``.

    A raw stream may write a part of a text, as on a disk that becomes full, and raises nothing.
    """
    stream = sys.stdout
    if isinstance(getattr(stream, "buffer", None), io.RawIOBase):
        raw = io.FileIO(stream.fileno(), "w", closefd=False)
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, stream.errors)


def _flush_output(code: int) -> int:
    """The exit code once standard output is written; 1 where that fails, told in one line."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # what is left must not be written, and fail, once more when the interpreter ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code == 0 and not isinstance(error, BrokenPipeError):
            ToolError(f"standard output: {_of_os(error)}").show()
            return 1
    return code


def one_line(error: BaseException) -> str:
    """An exception in one line, for people."""
    if isinstance(error, OSError):
        return _of_os(error)
    if isinstance(error, MemoryError):
        return f"not enough memory ({' '.join(str(error).split())})"
    text = " ".join(str(error).split())
    if isinstance(error, ValueError) and text:
        return text
    return f"{type(error).__name__}: {text}".rstrip(": ")


def _of_os(error: OSError) -> str:
    if error.strerror is None:
        return " ".join(str(error).split())
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Warnings for users in one line each, others not at all."""

    def show(message: Any, category: type[Warning], *unused: Any, **more: Any) -> None:
        text = " ".join(str(message).split())
        # columns were matched by name when they were read, and labels were judged there
        known = ("valid feature names", "unique classes is greater than 50%")
        if issubclass(category, UserWarning) and not any(words in text for words in known):
            say_once(f"warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


# -- messages ----------------------------------------------------------------------------------

_state = {"quiet": False}
_said: set[str] = set()


def say(text: str) -> None:
    """A message for people, on standard error; nothing when quiet."""
    if not _state["quiet"]:
        if "polymargin.cli.progress_line" in sys.modules:
            sys.modules["polymargin.cli.progress_line"].wipe()
        click.echo(text, err=True)


def say_once(text: str) -> None:
    """A message that is not repeated in the same run."""
    if text not in _said:
        _said.add(text)
        say(text)


def progress(title: str) -> Any:
    """A progress line, off when quiet or not on a terminal."""
    from polymargin.cli.progress_line import ProgressLine

    return ProgressLine(title, enabled=False if _state["quiet"] else None)


def emit(record: dict[str, Any], as_json: bool, text: Callable[[], str]) -> None:
    """The result, on standard output: JSON or text."""
    if as_json:
        click.echo(json.dumps(plain(record), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        click.echo(text())


def plain(value: Any) -> Any:
    """Only what JSON knows; what is not finite becomes null."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def table(rows: Sequence[Sequence[str]], right: Sequence[bool] | None = None) -> str:
    """Columns of text; ``right`` says which of them hold numbers."""
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if right is not None and right[c] else cell.ljust(width)
            for c, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def size_text(n_bytes: float) -> str:
    """A size for people."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= factor:
            return f"{n_bytes / factor:.1f} {unit}"
    return f"{n_bytes:.0f} bytes"


# -- options -----------------------------------------------------------------------------------


def _be_quiet(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    _state["quiet"] = bool(value)
    return value


def output_options(command: Command) -> Command:
    """``--json`` and ``-q``."""
    command = click.option("--json", "as_json", is_flag=True, help="Result as JSON.")(command)
    return click.option(
        "-q",
        "--quiet",
        is_flag=True,
        callback=_be_quiet,
        expose_value=False,
        is_eager=True,
        help="No messages and no progress.",
    )(command)


_DATA_OPTIONS = (
    click.option("-l", "--label", metavar="COLUMN", help="Label column: name, or number from 0 "
                 "(negative from the end).  Default: the last."),
    click.option("--header/--no-header", default=None, help="First row holds names, or not.  "
                 "Default: guessed."),
    click.option("--delimiter", metavar="CHAR", help="A character, 'tab' or 'space'.  Default: "
                 "guessed."),
    click.option("--decimal", type=click.Choice([".", ","]), help="Decimal mark.  Default: "
                 "guessed."),
    click.option("--encoding", metavar="NAME", help="Encoding of text, such as latin-1 or cp1252.  "
                 "Default: UTF-8."),
    click.option("--missing", multiple=True, metavar="TEXT", help="Further text that stands for no "
                 "value; may be given several times."),
    click.option("--ignore", multiple=True, metavar="COLUMN", help="Column to leave out; may be "
                 "given several times."),
    click.option("--query", metavar="SELECT", help="One SELECT over DATA, which is the table "
                 "'data': \"SELECT a, b, y FROM data WHERE b > 0\"."),
    click.option("--format", "format_", type=click.Choice(["csv", "tsv", "jsonl", "parquet",
                 "libsvm", "arff", "npz"]), help="Format of DATA.  Default: by its name, then by "
                 "its beginning."),
    click.option("--part", type=click.Choice(["train", "test", "validation"]), help="NPZ: rows of "
                 "train_idx, test_idx or val_idx."),
    click.option("--float32/--float64", default=None, help="Precision of the data in memory.  "
                 "Default: double, single for files over 500 MB."),
    click.option("--max-bytes", type=click.IntRange(1), help="Largest unpacked size of a packed "
                 "file.  Default: 1 GiB, or 200 times its packed size."),
)  # fmt: skip
DATA_NAMES = (
    "label",
    "header",
    "delimiter",
    "decimal",
    "encoding",
    "missing",
    "ignore",
    "query",
    "format_",
    "part",
    "float32",
    "max_bytes",
)
_COLUMN_OPTIONS = (
    click.option("--numeric", multiple=True, metavar="COLUMN", help="Column of numbers; may be "
                 "given several times, as the next two."),
    click.option("--categorical", multiple=True, metavar="COLUMN", help="Column of categories, one "
                 "0/1 feature for each."),
    click.option("--text", multiple=True, metavar="COLUMN", help="Column of free text, a tf-idf "
                 "feature for each word."),
    click.option("--columns", "columns_file", metavar="FILE", help="TOML or JSON file with the "
                 "kind of columns: name = \"number\", \"category\", \"text\", \"date\", "
                 "\"date %d/%m/%Y\" or \"ignore\"."),
)  # fmt: skip
COLUMN_NAMES = ("numeric", "categorical", "text", "columns_file")


def data_options(command: Command) -> Command:
    """How DATA is read."""
    for option in reversed(_DATA_OPTIONS):
        command = option(command)
    return command


def training_options(command: Command) -> Command:
    """How DATA is read, and what its columns are."""
    for option in reversed(_COLUMN_OPTIONS):
        command = option(command)
    return data_options(command)


# -- reading and writing -----------------------------------------------------------------------


def read(data: str, options: dict[str, Any], wanted: Any = None, need_label: bool = True) -> Any:
    """Read DATA with a progress line; what was assumed is said."""
    from polymargin.cli.columns import prepare_columns, reading_kinds
    from polymargin.datasets import read_data

    started = time.perf_counter()
    kinds = reading_kinds(options)
    with progress(f"reading {data}") as line:
        found = read_data(
            data,
            format=options["format_"],
            label=options["label"],
            header=options["header"],
            delimiter=options["delimiter"],
            decimal=options["decimal"],
            encoding=options["encoding"],
            missing=options["missing"],
            kinds={name: "number" if kind == "number" else "text" for name, kind in kinds.items()},
            ignore=[*options["ignore"], *(n for n, kind in kinds.items() if kind == "ignore")],
            query=options["query"],
            part=options["part"],
            dtype=_dtype(data, options["float32"]),
            wanted=wanted,
            need_label=need_label,
            max_bytes=options["max_bytes"],
            progress=line.set,
        )
    rows, width = found.shape
    seconds = time.perf_counter() - started
    took = f" in {seconds:.1f} s" if seconds >= 2.0 else ""
    what = "features" if found.columns is None else "columns"
    say(f"{data}: {rows} rows, {width} {what}{_kind(found)}{took}")
    for note in found.notes:
        say(note)
    if found.columns is not None:
        prepare_columns(found, wanted, kinds)
    return found


def _dtype(data: str, single: bool | None) -> str:
    """Large files are kept in single precision, unless asked otherwise."""
    if single is None and data != "-":
        with contextlib.suppress(OSError):
            single = os.path.getsize(data) > _LARGE
            if single:
                say(f"{data}: large, kept in single precision (--float64 keeps double)")
    return "float32" if single else "float64"


def _kind(found: Any) -> str:
    if hasattr(found.X, "nnz"):
        rows, width = found.X.shape
        return f" (sparse, {100 * found.X.nnz / (rows * width):.2g} % filled)"
    return ""


def take_data_options(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of DATA from all options."""
    known = [name for name in (*DATA_NAMES, *COLUMN_NAMES) if name in options]
    return {name: options.pop(name) for name in known}


def check_writable(path: str | None) -> None:
    """Refuse an output that cannot be written, before the work begins."""
    if path is None:
        return
    from pathlib import Path
    from tempfile import TemporaryFile

    target = Path(path)
    if target.is_dir():
        raise ToolError(f"cannot write {path}: it is a folder")
    if target.exists() and not target.is_file():
        return
    try:
        with TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise ToolError(f"cannot write {path}: {error.strerror}") from error


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Failures of writing, told with the name of the file that was asked for."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise ToolError(f"cannot write {path}: {reason}; nothing was written") from error


def load_model(path: str) -> tuple[Any, dict[str, Any]]:
    """The model of a file and its header."""
    from polymargin.storage.model_file import read_model

    with progress(f"loading {path}"):
        return read_model(path)


def wanted_by(model: Any, header: dict[str, Any]) -> Any:
    """What the model expects of DATA."""
    from polymargin.cli.columns import column_specs, takes_raw_columns
    from polymargin.datasets import Wanted

    names = header.get("feature_names")
    wanted = Wanted(
        int(model.n_features_in_), names, header.get("label_name"), header.get("zero_based")
    )
    wanted.columns = column_specs(model)
    wanted.raw = wanted.columns is None and takes_raw_columns(model)
    return wanted
