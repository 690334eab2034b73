"""What the command line decides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Options"]


@dataclass(frozen=True)
class Options:
    """How to run.

    Attributes
    ----------
    quick : bool
        Tiny parts of the data: a smoke test whose numbers are not judged.
    repeat : int
        Runs behind every median.
    output : Path
        Directory that receives the results.
    """

    quick: bool
    repeat: int
    output: Path
