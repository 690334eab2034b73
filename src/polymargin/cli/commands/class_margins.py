"""``polymargin margins``: how far the rows of DATA are from the borders between classes."""

from __future__ import annotations

from typing import Any

import click

from polymargin.cli.files import load_model, read, wanted_by
from polymargin.cli.messages import emit, table
from polymargin.cli.options import data_argument, data_options, output_options, take_data_options
from polymargin.cli.trained_machine import TrainedMachine, trained_machine

__all__ = ["margins"]

_MOST_PAIRS = 20  # on a screen; --json has all
_LEVELS = (0.0, 0.05, 0.25, 0.5, 0.75, 1.0)


@click.command()
@click.argument("model")
@data_argument
@data_options
@output_options
def margins(model: str, data: str, as_json: bool, **options: Any) -> None:
    """Margins of the rows of DATA under the model file MODEL.

    The smallest distance of a rightly classified row to the border between every pair of classes,
    in the feature space of the kernel, and quantiles of the lead of the own class.  Convex hulls
    also say whether their sufficient condition for training without errors holds.
    """
    fitted, header = load_model(model)
    found = read(data, take_data_options(options), wanted_by(fitted, header))
    one = trained_machine(fitted, found, data)
    record: dict[str, Any] = {"command": "margins", "model": model, "data": data}
    record |= _measured(one)
    emit(record, as_json, lambda: _text(record))


def _measured(one: TrainedMachine) -> dict[str, Any]:
    import numpy as np

    from polymargin.estimators.convex_hull import ConvexHullSVC
    from polymargin.selection.margins import margin_record

    found = margin_record(one.machine, one.X, one.y)
    names = [str(name) for name in found.classes.tolist()]
    at = [(k, l) for k in range(len(names)) for l in range(k + 1, len(names))]
    pairs = [
        {
            "classes": [names[k], names[l]],
            "margin": float(found.geometric[k, l]),
            "row": int(found.closest[k, l]) + 1,
        }
        for k, l in at
    ]
    record = {
        "rows": len(found.margins),
        "errors": found.errors,
        "smallest_lead": found.functional,
        "lead_quantiles": dict(
            zip(map(str, _LEVELS), np.quantile(found.margins, _LEVELS).tolist(), strict=True)
        ),
        "pairs": sorted(pairs, key=lambda pair: float(str(pair["margin"]))),
    }
    if isinstance(one.machine, ConvexHullSVC):
        record["separability"] = str(one.machine.separability(one.X, one.y))
    return record


def _text(record: dict[str, Any]) -> str:
    rows = [["rows", f"{record['rows']}  ({record['errors']} wrong or tied)"]]
    words = {"0.0": "smallest lead", "0.5": "median lead", "1.0": "largest lead"}
    for level, value in record["lead_quantiles"].items():
        rows.append([words.get(level, f"lead, {100 * float(level):.0f} %"), f"{value:.6g}"])
    pairs = [["class", "class", "margin", "row"]]
    for pair in record["pairs"][:_MOST_PAIRS]:
        pairs.append([*pair["classes"], f"{pair['margin']:.6g}", str(pair["row"])])
    text = [table(rows), "", table(pairs, [False, False, True, True])]
    if len(record["pairs"]) > _MOST_PAIRS:
        text.append(f"(of {len(record['pairs'])} pairs the closest; all: --json)")
    if "separability" in record:
        text += ["", record["separability"]]
    return "\n".join(text)
