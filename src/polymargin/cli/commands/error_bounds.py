"""``polymargin bounds``: theoretical bounds on the errors of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from polymargin.cli.files import load_model, read, wanted_by
from polymargin.cli.messages import emit, table
from polymargin.cli.options import data_argument, data_options, output_options, take_data_options
from polymargin.cli.trained_machine import TrainedMachine, trained_machine

__all__ = ["bounds"]


@click.command()
@click.argument("model")
@data_argument
@click.option("--delta", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05,
              show_default=True, help="Bounds on the probability of error hold with probability "
              "1 - delta.")  # fmt: skip
@data_options
@output_options
def bounds(model: str, data: str, delta: float, as_json: bool, **options: Any) -> None:
    """Bounds on the errors of the model file MODEL, from the rows of DATA that it was trained on.

    The count that bounds leave-one-out errors (any machine), the radius-margin bounds (M-SVM2), the
    margin and the growth-function bound (MP, CS).  Bounds that say nothing are marked so.
    """
    fitted, header = load_model(model)
    found = read(data, take_data_options(options), wanted_by(fitted, header))
    one = trained_machine(fitted, found, data)
    rows: list[dict[str, Any]] = []
    for bound in (_count, _radius_margin, lambda it: _generalisation(it, delta)):
        rows += _told(bound, one)
    record = {"command": "bounds", "model": model, "data": data, "rows": len(one.y), "bounds": rows}
    emit(record, as_json, lambda: _text(record))


def _told(
    bound: Callable[[TrainedMachine], list[dict[str, Any]]], one: TrainedMachine
) -> list[dict[str, Any]]:
    """What a bound says; nothing where it does not apply to the machine."""
    try:
        return bound(one)
    except ValueError as error:
        return [{"name": "not available", "value": None, "says": str(error)}]


def _row(name: str, value: float, limit: float, says: str = "") -> dict[str, Any]:
    vacuous = not value < limit
    return {"name": name, "value": value, "vacuous": vacuous, "says": says}


def _count(one: TrainedMachine) -> list[dict[str, Any]]:
    from polymargin.selection.counts import leave_one_out_count

    count = leave_one_out_count(one.machine, one.X, one.y)
    return [_row("leave-one-out errors, count", count.count, len(one.y), str(count))]


def _radius_margin(one: TrainedMachine) -> list[dict[str, Any]]:
    """The radius-margin bounds, of M-SVM^2 only."""
    machine = one.machine
    if getattr(machine, "machine", None) != "msvm2":
        return []
    from polymargin.radius_margin.bound import radius_margin_bound

    found = radius_margin_bound(
        one.X, one.y, machine.C_, machine.kernel, machine.gamma_, machine.degree, machine.coef0,
        tol=1e-6,
    )  # fmt: skip
    n = len(one.y)
    return [
        _row("leave-one-out errors, (28)", found.value, n),
        _row("leave-one-out errors, (30)", found.sharper, n),
        _row("leave-one-out errors, (31) of one-vs-one", found.one_vs_one, n),
        _row("leave-one-out errors, Lemma 1", found.count, n),
        _row("leave-one-out errors, Lemma 1 with the sharper constant", found.sharper_count, n),
    ]


def _generalisation(one: TrainedMachine, delta: float) -> list[dict[str, Any]]:
    """The bounds of the multi-prototype machine and of Crammer-Singer."""
    from polymargin.estimators.multi_prototype import MultiPrototypeSVC
    from polymargin.selection.bounds import growth_bound, margin_bound

    machine = one.machine
    if not isinstance(machine, MultiPrototypeSVC) and getattr(machine, "machine", "") != "cs":
        return []
    rows = []
    for name, bound in (("margin bound", margin_bound), ("growth-function bound", growth_bound)):
        found = bound(machine, one.X, one.y, delta)
        row = _row(f"probability of error, {name}", found.value, 1.0, found.sentence)
        rows.append(row | {"vacuous": found.vacuous})
    return rows


def _text(record: dict[str, Any]) -> str:
    rows = [["bound", "value", "", ""]]
    for one in record["bounds"]:
        value = "-" if one["value"] is None else f"{one['value']:.5g}"
        word = "says nothing" if one.get("vacuous") else ""
        rows.append([one["name"], value, word, one["says"]])
    return f"{record['rows']} rows\n" + table(rows, [False, True, False, False])
