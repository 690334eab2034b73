"""Campaigns of a given number of inputs: mutated seeds in one process, counted and repeatable.

A worker runs inputs in order.  One that raises is kept and the next follows; where the worker dies
or hangs, its last input is kept and a new worker goes on behind it.  Input k of a campaign depends
on its salt and on k only.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import hashlib
import random
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.choices import FIT_BYTES
from fuzz.mutations import mutated

__all__ = ["Outcome", "input_of", "run_campaign"]

_CLOCK_INPUTS, _HANGS_SECONDS = 20, 120  # so many inputs that take longer count as hanging
_FITS_HANG_SECONDS = 1200  # first fits compile, beside other work for minutes
_MOST_FAILURES = 20  # of one target, then it ends


@dataclass
class Outcome:
    """What a campaign of one target saw."""

    name: str
    inputs: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    failures: dict[str, str] = field(default_factory=dict)

    def line(self) -> str:
        rate = self.inputs / max(self.seconds, 1e-9)
        per_core = self.inputs / max(self.processor_seconds, 1e-9)
        found = f"{len(self.failures)} FAILURES" if self.failures else "ok"
        return (
            f"{self.name:14s} {self.inputs:9d} inputs {self.seconds:7.0f} s {rate:7.0f}/s "
            f"{per_core:7.0f} per processor second  {found}"
        )


def seeds_of(name: str) -> list[bytes]:
    """Seeds, past failures and, for model files, files of this version."""
    from fuzz.targets import CORPUS, REGRESSIONS

    folders = (CORPUS / name, REGRESSIONS / name)
    seeds = [p.read_bytes() for f in folders if f.is_dir() for p in sorted(f.iterdir())]
    if name == "model_file":
        from fuzz.models import base_files

        seeds += base_files()
    return seeds or [bytes(64)]


def run_campaign(name: str, first: int, inputs: int, salt: str) -> Outcome:
    """Run inputs ``first``, ``first + 1``, ... of a target in workers."""
    outcome, begun = Outcome(name), time.monotonic()
    at, end = first, first + inputs
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        while at < end and len(outcome.failures) < _MOST_FAILURES:
            command = [sys.executable, "-m", "fuzz.campaign", name, str(at), str(end), salt]
            command.append(str(notes))
            notes.write_bytes(b"")
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False
            )
            at = _read_notes(outcome, notes.read_text(), at)
            if done.returncode:
                data = input_of(name, seeds_of(name), at, salt)
                said = " ".join(done.stderr[-800:].split())
                outcome.failures[keep(name, data)] = f"died with {done.returncode}: {said}"
                at += 1
    outcome.inputs = at - first
    outcome.seconds = time.monotonic() - begun
    return outcome


def keep(name: str, data: bytes) -> str:
    """Keep an input that failed where the ordinary tests replay it; its name comes back."""
    from fuzz.targets import REGRESSIONS

    file = f"crash-{hashlib.sha1(data).hexdigest()[:16]}"
    (REGRESSIONS / name).mkdir(parents=True, exist_ok=True)
    (REGRESSIONS / name / file).write_bytes(data)
    return file


def input_of(name: str, seeds: list[bytes], number: int, salt: str) -> bytes:
    """Input ``number``: a changed seed; for fits, all of whose bytes are choices, any bytes."""
    if name == "fits":
        return random.Random(f"{salt} {number}").randbytes(FIT_BYTES)
    return mutated(seeds, number, salt, free_bytes(name))


def free_bytes(name: str) -> int:
    """How many bytes at the front choose options."""
    return {"read_packed": 2}.get(name, int(name.startswith("read_")))


def _read_notes(outcome: Outcome, text: str, at: int) -> int:
    """Take over what a worker wrote; the input that it came to is returned."""
    processor = 0.0
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "at":
            count, _, used = rest.partition(" ")
            at, processor = int(count), float(used)
        elif word == "failed":
            place, _, said = rest.partition(" ")
            outcome.failures.setdefault(place, said)
    outcome.processor_seconds += processor
    return at


def main() -> None:
    """A worker: run inputs [start, end) and write down after every one how far it came."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    for word in ("start", "end"):
        parser.add_argument(word, type=int)
    parser.add_argument("salt")
    parser.add_argument("notes", type=Path)
    arguments = parser.parse_args()
    if Path("/dev/shm").is_dir():
        tempfile.tempdir = "/dev/shm"
    _work(arguments)


def _work(a: argparse.Namespace) -> None:
    from fuzz.readers import share_database
    from fuzz.targets import TARGETS

    faulthandler.enable()
    target, seeds = TARGETS[a.name], seeds_of(a.name)
    for seed in seeds[:2]:
        with contextlib.suppress(Exception):  # compiled before the clock of inputs runs
            target(seed)
    seen: set[str] = set()
    used = time.process_time()
    with open(a.notes, "a", buffering=1) as notes, share_database():
        for number in range(a.start, a.end):
            if number % _CLOCK_INPUTS == 0 or number == a.start:
                seconds = _FITS_HANG_SECONDS if a.name == "fits" else _HANGS_SECONDS
                faulthandler.dump_traceback_later(seconds, exit=True)
            notes.write(f"at {number} {time.process_time() - used:.3f}\n")
            data = input_of(a.name, seeds, number, a.salt)
            try:
                target(data)
            except Exception as error:
                place = _place(error)
                if place not in seen:
                    seen.add(place)
                    said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
                    notes.write(f"failed {place} {keep(a.name, data)} {said}\n")
        notes.write(f"at {a.end} {time.process_time() - used:.3f}\n")
    faulthandler.cancel_dump_traceback_later()


def _place(error: BaseException) -> str:
    """Type of an error and where it was raised: the same place is the same failure."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((f for f in reversed(frames) if "polymargin" in f.filename), frames[-1])
    return f"{type(error).__name__}@{Path(frame.filename).name}:{frame.lineno}"


if __name__ == "__main__":
    main()
