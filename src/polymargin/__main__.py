"""``python -m polymargin``: the command line."""

from __future__ import annotations

from polymargin.cli import main

if __name__ == "__main__":
    main(prog_name="polymargin")
