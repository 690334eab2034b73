"""Fuzz target of the command line's parser: options that fit together, or a usage error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from fuzz.choices import Choices
from polymargin.cli import main
from polymargin.cli.machine_setup import take_machine_setup

__all__ = ["OPTIONS"]

_WORDS = (
    "auto",
    "inf",
    "nan",
    "-1",
    "0",
    "1e400",
    "1:2:3",
    "0.1,1,10",
    "MP",
    "HULL",
    "x=",
    "=",
    "",
)


def parse(data: bytes) -> None:
    """A command and up to ten arguments, known options and words among them; nothing is run."""
    choices = Choices(data)
    context = click.Context(main)
    name = choices.one_of(main.list_commands(context))
    command: Any = main.get_command(context, name)
    known = [text for option in command.params for text in option.opts if text.startswith("-")]
    arguments = []
    for _ in range(choices.number(11)):
        kind = choices.number(4)
        if kind < 2 and known:
            arguments.append(choices.one_of(known))
        elif kind == 2:
            arguments.append(choices.one_of(_WORDS))
        else:
            arguments.append(choices.bytes(12).decode("utf-8", "surrogateescape"))
    arguments = [a for a in arguments if a not in ("-h", "--help")]
    try:
        context = command.make_context(name, [*arguments, "data.csv"])
        options = dict(context.params)
        if "machine" in options and "prototypes" in options:
            with context:
                take_machine_setup(options)
    except click.exceptions.Exit:
        return
    except click.ClickException as error:
        _check_usage(error)


def _check_usage(error: click.ClickException) -> None:
    assert error.exit_code in (1, 2), error.exit_code
    assert error.format_message().strip()


OPTIONS: dict[str, Callable[[bytes], None]] = {"options": parse}
