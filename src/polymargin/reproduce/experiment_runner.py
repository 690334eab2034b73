"""Runs the cells of an experiment that are not finished yet, and writes what came of them."""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from polymargin.compiled.threads import single_threaded_libraries
from polymargin.reproduce.benchmark_data import MissingDataError, locate
from polymargin.reproduce.experiment import Cell, Experiment, Measured, Row, Scale
from polymargin.reproduce.experiment_tables import as_csv, as_markdown
from polymargin.reproduce.result_store import ResultStore
from polymargin.storage.atomic import atomic_file

__all__ = ["Outcome", "run_experiment", "settings_of_machine"]

Say = Callable[[str], None]


@dataclass
class Outcome:
    """What a run left: rows, files, and what is missing and why."""

    experiment: Experiment
    rows: list[Row]
    measured: list[Measured]
    n_cells: int
    files: list[Path] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether every cell has a result."""
        return len(self.measured) == self.n_cells


def run_experiment(
    experiment: Experiment, out: Path, scale: Scale = "full", jobs: int = 1, say: Say = print
) -> Outcome:
    """Run what is missing and compare everything there is with the printed figures.

    Parameters
    ----------
    experiment : Experiment
    out : Path
        Folder of results: ``NAME.jsonl`` with the cells, ``NAME.csv``, ``NAME.md``, figures; those
        of other scales than "full" are in a folder of that name inside.
    scale : {"full", "quick", "tiny"}
    jobs : int
        Processes that share the cells; -1: one per core.
    say : callable
        Gets one line of text per finished cell and per problem.

    Returns
    -------
    Outcome
        After Ctrl-C too: the cells finished until then count, and the next run goes on.
    """
    folder = out if scale == "full" else out / scale
    store = ResultStore(folder / f"{experiment.name}.jsonl")
    for note in store.notes:
        say(note)
    cells = experiment.cells(scale)
    known = _with_data(experiment, cells, scale, say)
    todo = sorted((cell for cell in known if cell not in store), key=_repeat)
    if len(todo) < len(known):
        say(f"{len(known) - len(todo)} of {len(known)} cells are finished already")
    outcome = Outcome(experiment, [], [], len(cells))
    started = time.perf_counter()
    try:
        for place, (cell, result) in enumerate(_results(experiment, todo, jobs), 1):
            if "failed" in result:
                outcome.failures.append(f"{_words(cell)}: {result['failed']}")
                say(f"failed: {outcome.failures[-1]}")
                continue
            store.add(cell, result)
            spent = time.perf_counter() - started
            left = spent / place * (len(todo) - place)
            took = f"{result['seconds']:.1f} s, {_clock(left)} left"
            say(f"{place}/{len(todo)} {_words(cell)}: {took}")
    except KeyboardInterrupt:
        outcome.interrupted = True
    outcome.measured = store.of(cells)
    outcome.rows = experiment.rows(outcome.measured)
    _write(outcome, folder, scale, say)
    return outcome


def _with_data(experiment: Experiment, cells: list[Cell], scale: Scale, say: Say) -> list[Cell]:
    """The cells whose data are there; what is missing is told once, all missing is an error."""
    missing: dict[str, str] = {}
    for name in experiment.data_sets(scale):
        try:
            locate(name)
        except MissingDataError as error:
            missing[name] = str(error)
    if missing and len(missing) == len(experiment.data_sets(scale)):
        (_, first), *others = missing.items()
        also = f"; so are {', '.join(name for name, _ in others)}" if others else ""
        raise MissingDataError(first + also)
    for reason in missing.values():
        say(f"skipped: {reason}")
    return [cell for cell in cells if cell["data"] not in missing]


def _repeat(cell: Cell) -> int:
    """Which repeat a cell belongs to: a run cut short has few repeats of all rows, not all of few.

    Cells of one repeat stay in their order.
    """
    found: int = next((cell[name] for name in ("seed", "split", "draw") if name in cell), 0)
    return found


def _results(
    experiment: Experiment, todo: Sequence[Cell], jobs: int
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Cells with their results, as they end."""
    if jobs == 1:
        for cell in todo:
            yield cell, _timed(experiment.run, cell)
        return
    work = (delayed(_one)(experiment.run, cell) for cell in todo)
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(work)


def _one(run: Callable[[Cell], dict[str, Any]], cell: Cell) -> tuple[Cell, dict[str, Any]]:
    return cell, _timed(run, cell)


def _timed(run: Callable[[Cell], dict[str, Any]], cell: Cell) -> dict[str, Any]:
    """The result with its processor and wall time; a failure is a result of its own."""
    wall, processor = time.perf_counter(), time.process_time()
    try:
        with warnings.catch_warnings(), single_threaded_libraries():
            warnings.simplefilter("ignore")
            result = run(cell)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    result["seconds"] = time.perf_counter() - wall
    result["processor_seconds"] = time.process_time() - processor
    return result


def _words(cell: Cell) -> str:
    return ", ".join(
        str(value) if name == "data" else f"{name} {value}" for name, value in cell.items()
    )


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def settings_of_machine() -> dict[str, str]:
    """Versions and processor: without them a time means nothing."""
    found = {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "python": platform.python_version()}
    for package in ("polymargin", "numpy", "scipy", "scikit-learn", "numba"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found | {"processor": platform.processor() or platform.machine()}


def _total(outcome: Outcome, name: str) -> str:
    return f"{sum(one.result.get(name, 0.0) for one in outcome.measured):.0f}"


def _write(outcome: Outcome, out: Path, scale: Scale, say: Say) -> None:
    """CSV, Markdown and, where matplotlib is installed, figures."""
    experiment = outcome.experiment
    figures: list[Path] = []
    if experiment.draw is not None and outcome.measured:
        try:
            figures = experiment.draw(outcome.measured, out)
        except ImportError as error:
            say(f"figures skipped: {' '.join(str(error).split())}")
    facts = settings_of_machine() | {
        "scale": scale,
        "cells": f"{len(outcome.measured)} of {outcome.n_cells}",
        "work": f"{_total(outcome, 'processor_seconds')} s of processor time in all cells, "
        f"{_total(outcome, 'seconds')} s by the clock",
    }
    texts = {
        f"{experiment.name}.csv": as_csv(experiment, outcome.rows),
        f"{experiment.name}.md": as_markdown(experiment, outcome.rows, facts, figures),
    }
    for name, text in texts.items():
        with atomic_file(out / name) as file:
            file.write(text.encode())
        outcome.files.append(out / name)
    outcome.files += figures
