"""The group of commands: every failure becomes one line and an exit code."""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from polymargin.cli.messages import forget, say_once

__all__ = ["INTERRUPTED", "Tool", "ToolError", "one_line"]


INTERRUPTED = 130
TERMINATED = 143


class ToolError(click.ClickException):
    """A failure, reported in one line; exit code 1."""

    def show(self, file: Any = None) -> None:
        click.echo(f"polymargin: error: {self.message}", err=True)


_click_main: Callable[..., Any] = click.Group.main


class _ReaderLeftError(Exception):
    """Standard output was closed; no ``OSError``, for which click exits with 1."""


class _TerminatedError(BaseException):
    """SIGTERM: raised so that half-written files are removed."""


_signals: list[int] = []  # SIGTERM, once it came: a library may raise something else in its place


def _terminate(number: int, frame: Any) -> None:
    _signals.append(number)
    raise _TerminatedError


class Tool(click.Group):
    """The group of commands: loads them when named, turns every failure into one line and a code.

    ``summaries`` has the commands in their order, each with its line in the help; ``files`` the
    files of those that stand in a file of another name.
    """

    def __init__(
        self, *args: Any, summaries: dict[str, str], files: dict[str, str], **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self.summaries, self.files = summaries, files

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(self.summaries)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Load the file of a command."""
        if name not in self.summaries:
            return None
        module = importlib.import_module(f"polymargin.cli.commands.{self.files.get(name, name)}")
        command: click.Command = getattr(module, name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The lines of the help, without loading any command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; ``head`` may close the pipe that it writes to."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderLeftError from None

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run; exit with 0, 1, 2, 130 or 143."""
        if os.environ.get("_POLYMARGIN_COMPLETE") or not standalone_mode:
            extra["standalone_mode"] = standalone_mode
            return _click_main(self, *args, **extra)
        forget()
        _signals.clear()
        _buffer_output()
        is_main = threading.current_thread() is threading.main_thread()
        if is_main:
            signal.signal(signal.SIGTERM, _terminate)
        with _short_warnings():
            code = self._run(*args, **extra)
        if is_main:  # all is written: from here on a signal may end the process at once
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        atexit.register(_leave_garbage)
        sys.exit(_flush_output(code))

    def _run(self, *args: Any, **extra: Any) -> int:
        try:
            code = _click_main(self, *args, standalone_mode=False, **extra)
            return code if isinstance(code, int) else 0
        except click.ClickException as error:
            error.show()
            return error.exit_code
        except (click.Abort, KeyboardInterrupt, _TerminatedError):
            return _ended_by_signal()
        except (_ReaderLeftError, BrokenPipeError):
            return 0  # the reader of the output closed the pipe, as head does
        except Exception as error:
            if _signals or _was_interrupted(error):
                return _ended_by_signal()
            if os.environ.get("POLYMARGIN_DEBUG"):
                raise
            ToolError(one_line(error)).show()
            return 1


def _ended_by_signal() -> int:
    """Say which signal ended the command; its exit code."""
    click.echo(f"polymargin: {'terminated' if _signals else 'interrupted'}", err=True)
    return TERMINATED if _signals else INTERRUPTED


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error, as where it ends the import of a library."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _buffer_output() -> None:
    """Standard output behind a buffer also with ``PYTHONUNBUFFERED``.

    A raw stream may write a part of a text, as on a disk that becomes full, and raises nothing.
    """
    stream = sys.stdout
    if isinstance(getattr(stream, "buffer", None), io.RawIOBase):
        raw = io.FileIO(stream.fileno(), "w", closefd=False)
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, stream.errors)


def _leave_garbage() -> None:
    """Skip the last search for garbage, which takes most of a second.

    DuckDB would report the objects that are left then as leaks.
    """
    if "_duckdb" not in sys.modules:
        gc.freeze()


def _flush_output(code: int) -> int:
    """Flush standard output and return the exit code: 1, with one line, where that fails."""
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
        # names of columns and labels were checked when the file was read
        known = ("valid feature names", "unique classes is greater than 50%")
        if issubclass(category, UserWarning) and not any(words in text for words in known):
            say_once(f"warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
