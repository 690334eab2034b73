"""The machine inside a model file with the rows and labels that reach it."""

from __future__ import annotations

from typing import Any, NamedTuple

from polymargin.cli.application import ToolError

__all__ = ["TrainedMachine", "trained_machine"]


class TrainedMachine(NamedTuple):
    """The last step of a model, its input rows, and labels."""

    machine: Any
    X: Any
    y: Any


def trained_machine(model: Any, found: Any, data: str) -> TrainedMachine:
    """Take a model apart and send the rows of DATA through the steps before the machine."""
    from polymargin.cli.predictions import rows_for
    from polymargin.estimators.inspection import dissect, model_space

    parts = dissect(model)
    try:
        label = found.labels_among(model.classes_)
    except ValueError as error:
        raise ToolError(f"{data}: {error}") from error
    X = rows_for(model, found.X, slice(0, found.X.shape[0]))
    return TrainedMachine(parts.last, model_space(parts, X), model.classes_[label])
