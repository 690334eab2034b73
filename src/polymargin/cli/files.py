"""Data files, model files and outputs of the commands."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from polymargin.cli.application import ToolError
from polymargin.cli.machine_setup import MachineSetup
from polymargin.cli.messages import progress, say

__all__ = ["check_writable", "load_model", "read", "read_for", "wanted_by", "writing"]


_LARGE = 500_000_000  # bytes of a data file from which it is kept in single precision


def read(
    data: str | list[str], options: dict[str, Any], wanted: Any = None, need_label: bool = True
) -> Any:
    """Read DATA with a progress line; what was assumed is said."""
    from polymargin.cli.columns import leave_out_identifiers, prepare_columns, reading_kinds
    from polymargin.datasets import read_data

    started = time.perf_counter()
    kinds = reading_kinds(options)
    name = data if isinstance(data, str) else f"{len(data)} files"
    with progress(f"reading {name}") as line:
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
            group=options.get("group"),
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
    what = "feature" if found.columns is None else "column"
    say(f"{name}: {_counted(rows, 'row')}, {_counted(width, what)}{_kind(found)}{took}")
    for note in found.notes:
        say(note)
    if found.columns is not None:
        prepare_columns(found, wanted, kinds)
    elif wanted is None:
        leave_out_identifiers(found, kinds)
    return found


def read_for(setup: MachineSetup, data: str | list[str], reading: dict[str, Any]) -> Any:
    """Read the training rows of a machine: several classes, and no more rows than it takes."""
    from polymargin.cli.classes import check_classes
    from polymargin.cli.data_parts import thin

    found = read(data, reading)
    setup.plan = found.plan
    check_classes(found)
    thin(setup, found)
    return found


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _dtype(data: str | list[str], single: bool | None) -> str:
    """Large files are kept in single precision, unless asked otherwise."""
    if single is None and data != "-":
        names = [data] if isinstance(data, str) else data
        with contextlib.suppress(OSError):
            single = sum(map(os.path.getsize, names)) > _LARGE
            if single:
                say("large data are kept in single precision (--float64 keeps double)")
    return "float32" if single else "float64"


def _kind(found: Any) -> str:
    if hasattr(found.X, "nnz"):
        rows, width = found.X.shape
        return f" (sparse, {100 * found.X.nnz / (rows * width):.2g} % filled)"
    return ""


def check_writable(path: str | None) -> None:
    """Refuse an output that cannot be written, before the work begins."""
    if path is None:
        return
    from tempfile import TemporaryFile

    target = Path(path)
    if target.is_dir():
        raise ToolError(f"cannot write {path}: it is a folder")
    if target.exists() and not target.is_file():
        return
    _refuse_input(target)
    try:
        with TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise ToolError(f"cannot write {path}: {error.strerror}") from error


def _refuse_input(target: Path) -> None:
    """Refuse to write over a file that the present command reads."""
    from glob import glob

    context = click.get_current_context(silent=True)
    if context is None or not target.exists():
        return
    for parameter in context.command.params:
        given = context.params.get(parameter.name or "")
        if not isinstance(parameter, click.Argument) or not isinstance(given, str):
            continue
        if any(target.samefile(name) for name in {given, *glob(given)} if os.path.exists(name)):
            raise ToolError(
                f"cannot write {target}: it is the {(parameter.name or '').upper()} that this "
                "command reads; name another file with -o"
            )


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Report failures of writing with the name of the file that was asked for."""
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
    """Columns and labels that the model expects of DATA."""
    from polymargin.cli.columns import column_specs, known_categories, takes_raw_columns
    from polymargin.datasets import Wanted

    if not hasattr(model, "predict"):
        raise ToolError(
            f"the file holds a {type(model).__name__} that cannot predict; save a Pipeline that "
            "ends with a fitted classifier"
        )
    names = header.get("feature_names")
    wanted = Wanted(
        int(model.n_features_in_), names, header.get("label_name"), header.get("zero_based")
    )
    wanted.columns = column_specs(model)
    wanted.known = known_categories(model)
    wanted.raw = wanted.columns is None and takes_raw_columns(model)
    return wanted
