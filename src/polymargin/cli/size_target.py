"""``train --fit-into SIZE --target c``: a size in bytes, and the header beside the model file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from polymargin.cli.files import check_writable, load_model, writing
from polymargin.cli.machine_setup import AUTO, MachineSetup
from polymargin.cli.messages import say

__all__ = ["check_target", "take_size", "write_target"]


def take_size(size: str | None, setup: MachineSetup, calibration: dict[str, Any]) -> dict[str, Any]:
    """Parameters of the fit for a size; the setup becomes a multi-prototype machine for it."""
    if size is None:
        return {}
    from polymargin.estimators.number_formats import parse_size

    try:
        parse_size(size, "--fit-into")
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if setup.machine not in (AUTO, "MP"):
        raise click.UsageError(f"--fit-into is for -m MP, not for -m {setup.machine}.")
    if setup.kernel != "linear":
        raise click.UsageError("--fit-into needs -k linear: its models are prototypes.")
    if calibration:
        raise click.UsageError("--fit-into cannot be combined with probabilities.")
    if setup.scale not in ("auto", "none", "unit"):
        raise click.UsageError(
            f"--fit-into scales features inside the model; --scale {setup.scale} would add tables "
            "to it: leave it out, or use --scale unit."
        )
    setup.machine, setup.C = "MP", 1.0
    setup.prototypes = [setup.prototypes]  # left open: the size decides
    setup.scale = "none" if setup.scale == "auto" else setup.scale
    return {"fit_into": size}


def check_target(target: str | None, output: str | None) -> None:
    """Refuse a header that would have no name, or that of the model file."""
    if target is None:
        return
    if output is None:
        raise click.UsageError("--target c writes beside the model file: name it with -o.")
    path = Path(output).with_suffix(".h")
    if str(path) == output:
        raise click.UsageError("--target c: -o must not end in .h, the name of the header.")
    check_writable(str(path))


def write_target(record: dict[str, Any]) -> None:
    """The C header beside the model file of a record that asks for one; notes become part of it."""
    if record.get("target") is None or "model" not in record:
        return
    from polymargin.export import export_model

    model, _ = load_model(record["model"])
    path = Path(record["model"]).with_suffix(".h")
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in path.stem)
    name = name if name[:1].isalpha() else f"model_{name}"
    with writing(str(path)):
        done = export_model(model, path, to="c", name=name)
    for note in done.notes:
        say(note)
    record |= {"header": str(path), "header_notes": list(done.notes)}
