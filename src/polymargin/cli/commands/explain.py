"""``polymargin explain``: why the model decides as it does, row by row."""

from __future__ import annotations

from typing import Any

import click

from polymargin.cli.application import ToolError
from polymargin.cli.files import load_model, read, wanted_by
from polymargin.cli.messages import emit, table
from polymargin.cli.options import data_argument, data_options, output_options, take_data_options
from polymargin.cli.predictions import rows_for

__all__ = ["explain"]

_NO_RADIUS = (
    "no radius and no least change: the model encodes a table, whose categories and gaps have no "
    "distance"
)
_NO_CHANGE = "the least change is known for linear and prototype models only"
_MOST_LINES = 50  # rows of the overview that a screen may show; --json has all


@click.command()
@click.argument("model")
@data_argument
@click.option("--row", type=click.IntRange(1), metavar="N", help="Explain row N of DATA (from 1) "
              "in full: contributions, certified radius, nearest change of the label.")  # fmt: skip
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, help="So many "
              "contributions and changes.")  # fmt: skip
@click.option("--target", metavar="LABEL", help="Label that the changed row should get.  Default: "
              "the nearest other one.")  # fmt: skip
@click.option("--fixed", multiple=True, metavar="COLUMN", help="Feature that must not change; may "
              "be given several times.")  # fmt: skip
@click.option("--norm", type=click.Choice(["1", "2", "inf"]), default="2", show_default=True,
              help="Distance: sum, root of squares, or largest of the changes.")  # fmt: skip
@click.option("--units", type=click.Choice(["input", "scaled"]), default="scaled",
              show_default=True, help="Distances in the units of DATA, or after the scaling of the "
              "model, which makes features comparable.")  # fmt: skip
@data_options
@output_options
def explain(
    model: str, data: str, row: int | None, as_json: bool, target: str | None, **options: Any
) -> None:
    """Explain the predictions of the model file MODEL for the rows of DATA.

    For every row: the label, the runner-up, the lead, what contributes most to it, and the radius
    inside which no change of the features changes the label.  With --row N all of it for one row,
    and the least change that would give it another label.  Linear and prototype models are exact;
    an RBF model has contributions of support vectors and a lower bound of the radius.  A model of
    a table with words has contributions of its columns, and neither radius nor least change.
    """
    fitted, header = load_model(model)
    found = read(data, take_data_options(options), wanted_by(fitted, header), need_label=False)
    n = found.X.shape[0]
    if row is not None and row > n:
        raise ToolError(f"--row {row}: {data} has {n} rows")
    rows = slice(0, n) if row is None else slice(row - 1, row)
    X = rows_for(fitted, found.X, rows)
    options["norm"] = options["norm"] if options["norm"] == "inf" else int(options["norm"])
    record: dict[str, Any]
    if row is None:
        record = {"command": "explain", "model": model, "data": data}
        record |= overview(fitted, X, options)
        emit(record, as_json, lambda: _overview_text(record))
        return
    record = {"command": "explain", "model": model, "data": data, "row": row}
    goal = None if target is None else _known_label(fitted, target)
    record |= one_row(fitted, X, goal, options)
    record["result"]["row"] = row
    emit(record, as_json, lambda: _row_text(record))


def _known_label(model: Any, text: str) -> Any:
    labels = {str(label): label for label in model.classes_.tolist()}
    if text not in labels:
        raise ToolError(f"--target {text}: the model knows {', '.join(list(labels)[:20])}")
    return labels[text]


def _name_or_number(text: str, names: tuple[str, ...]) -> Any:
    return int(text) if text.isdigit() and text not in names else text


# -- all rows ----------------------------------------------------------------------------------


def overview(model: Any, X: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Label, runner-up, lead, radius and the main reasons of every row."""
    from polymargin.explanation.contributions import explain
    from polymargin.explanation.robustness import certified_radius

    reasons = explain(model, X)
    record: dict[str, Any] = {"contributions_of": reasons.kind}
    rows: list[dict[str, Any]] = [
        {
            "row": i + 1,
            "label": reasons.label[i],
            "runner_up": reasons.runner_up[i],
            "lead": float(reasons.lead[i]),
            "top": reasons.top(i, options["top"]),
        }
        for i in range(len(reasons.label))
    ]
    if takes_table(model):
        record["radius_reason"] = _NO_RADIUS
    else:
        radius = certified_radius(model, X, options["norm"], options["units"])
        record["radius_is_exact"] = radius.is_exact
        record |= {"norm": str(radius.norm), "units": radius.units}
        for i, row in enumerate(rows):
            row |= {"radius": float(radius.radius[i]), "nearest": radius.nearest[i]}
    if reasons.kind == "columns":
        values = _values(model, X)
        for i, row in enumerate(rows):
            row["values"] = {name: values[name][i] for name, _ in row["top"]}
    return record | {"rows": rows}


def takes_table(model: Any) -> bool:
    """Whether the model encodes columns that are not all numbers."""
    from polymargin.cli.columns import column_specs, takes_raw_columns

    return column_specs(model) is not None or takes_raw_columns(model)


def _values(model: Any, X: Any) -> dict[str, list[Any]]:
    """The values of the columns of a table, by name."""
    if hasattr(X, "columns"):
        return {str(name): X[name].tolist() for name in X.columns}
    from polymargin.cli.columns import column_specs
    from polymargin.datasets.text_values import date_text

    values = [X[:, k].tolist() for k in range(X.shape[1])]
    for k, spec in enumerate(column_specs(model) or []):
        if spec.kind == "date":
            values[k] = [date_text(days, spec.form) for days in values[k]]
    return dict(zip(_names(model, X), values, strict=True))


def _overview_text(record: dict[str, Any]) -> str:
    has_radius = "radius_reason" not in record
    middle = ["radius"] if has_radius else []
    lines = [["row", "label", "runner-up", "lead", *middle, "mainly because of"]]
    for one in record["rows"][:_MOST_LINES]:
        because = ", ".join(f"{_named(one, name)} {value:+.3g}" for name, value in one["top"][:3])
        middle = [f"{one['radius']:.4g}"] if has_radius else []
        lines.append(
            [str(one["row"]), str(one["label"]), str(one["runner_up"]), f"{one['lead']:.4g}",
             *middle, because]
        )  # fmt: skip
    right = [True, False, False, True, *[True] * has_radius, False]
    text = [table(lines, right), "", _radius_words(record)]
    hidden = len(record["rows"]) - _MOST_LINES
    if hidden > 0:
        text.append(f"({hidden} more rows: --json; one in full: --row N)")
    return "\n".join(text)


def _named(one: dict[str, Any], name: str) -> str:
    """The name of a column with its value in this row, where values are known."""
    if "values" not in one:
        return name
    value = one["values"][name]
    if isinstance(value, float):
        return f"{name} {'is missing' if value != value else f'= {value:.6g}'}"
    text = str(value)
    return f"{name} {f'= {text[:30]}' if text else 'is missing'}"


def _radius_words(record: dict[str, Any]) -> str:
    if "radius_reason" in record:
        return str(record["radius_reason"])
    what = "the distance to the nearest row of another label"
    what = f"exactly {what}" if record["radius_is_exact"] else f"a lower bound of {what}"
    units = "of DATA" if record["units"] == "input" else "after scaling"
    return f"radius: {what} (norm {record['norm']}, units {units})"


# -- one row -----------------------------------------------------------------------------------


def one_row(model: Any, X: Any, target: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Everything about one row."""
    record = overview(model, X, options)
    [record["result"]] = record.pop("rows")
    if record["contributions_of"] != "features" or "radius_reason" in record:
        if target is not None or options["fixed"]:
            raise ToolError(f"--target and --fixed: {record.get('radius_reason', _NO_CHANGE)}")
        return record
    from polymargin.explanation.counterfactuals import counterfactual
    from polymargin.explanation.model_view import dense_rows

    names = _names(model, X)
    fixed = [_name_or_number(one, names) for one in options["fixed"]]
    found = counterfactual(
        model, X, target, norm=options["norm"], fixed=fixed, units=options["units"]
    )
    old, new = dense_rows(X)[0], found.rows[0]
    changes = []
    if not found.reason[0]:
        step = new - old
        size = abs(step) / (abs(old) + abs(new) + 1e-300) * (step != 0.0)
        changes = [
            {"feature": found.feature_names[j], "from": float(old[j]), "to": float(new[j])}
            for j in sorted(range(len(old)), key=lambda j: -size[j])
            if step[j] != 0.0
        ]
    record["counterfactual"] = {
        "label": found.target[0],
        "distance": float(found.distance[0]),
        "reason": found.reason[0],
        "changes": changes,
        "shown": options["top"],
    }
    return record


def _names(model: Any, X: Any) -> tuple[str, ...]:
    from polymargin.estimators.inspection import input_names

    return tuple(input_names(model, X))


def _row_text(record: dict[str, Any]) -> str:
    result = record["result"]
    head = [
        ["label", str(result["label"])],
        ["runner-up", f"{result['runner_up']}, behind by {result['lead']:.4g}"],
    ]
    if "radius" in result:
        head.append(["radius", f"{result['radius']:.4g}"])
    text = [table(head), "", f"contributions of {record['contributions_of']} to the lead"]
    rows = [[_named(result, name), f"{value:+.4g}"] for name, value in result["top"]]
    text.append(table(rows, [False, True]) if rows else "(none)")
    if "counterfactual" in record:
        text += ["", *_change_lines(record["counterfactual"])]
    return "\n".join([*text, "", _radius_words(record)])


def _change_lines(change: dict[str, Any]) -> list[str]:
    if change["reason"]:
        return [f"no change gives the label {change['label']}: {change['reason']}"]
    lines = [f"the least change that gives the label {change['label']}"]
    shown = change["changes"][: change["shown"]]
    rows = [[one["feature"], f"{one['from']:.6g}", "->", f"{one['to']:.6g}"] for one in shown]
    lines.append(table(rows, [False, True, False, True]) if rows else "(none is needed)")
    more = len(change["changes"]) - len(shown)
    return [*lines, f"({more} smaller changes: --top or --json)"] if more else lines
