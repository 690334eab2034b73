"""``polymargin info``."""

from __future__ import annotations

import click

from polymargin.cli.files import load_model
from polymargin.cli.messages import emit
from polymargin.cli.options import (
    output_options,
)

__all__ = ["info"]


@click.command()
@click.argument("model")
@output_options
def info(model: str, as_json: bool) -> None:
    """Print what the model file MODEL holds: machine, classes, features, certificate, sizes."""
    from polymargin.cli.model_description import model_record, model_text

    fitted, header = load_model(model)
    record = {"command": "info", "model": model} | model_record(fitted)
    facts = ("format", "library", "libraries", "file_bytes", "checksum", "feature_names")
    record |= {name: header.get(name) for name in (*facts, "label_name", "trained_rows")}
    emit(record, as_json, lambda: model_text(record, header))
