"""``polymargin completion``."""

from __future__ import annotations

import click

__all__ = ["completion"]


_SHELLS = {
    "bash": 'eval "$(_POLYMARGIN_COMPLETE=bash_source polymargin)"',
    "zsh": 'eval "$(_POLYMARGIN_COMPLETE=zsh_source polymargin)"',
    "fish": "_POLYMARGIN_COMPLETE=fish_source polymargin | source",
}


@click.command()
@click.argument("shell", type=click.Choice(list(_SHELLS)))
def completion(shell: str) -> None:
    """Print the line that turns on completion; add it to the start-up file of your shell."""
    click.echo(_SHELLS[shell])
