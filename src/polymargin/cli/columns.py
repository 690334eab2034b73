"""Columns that are not all numbers: options, the printed plan, and rows for a fitted model."""

from __future__ import annotations

from typing import Any

from polymargin.cli.application import ToolError
from polymargin.cli.messages import say, table
from polymargin.exceptions import shown

__all__ = [
    "column_specs",
    "known_categories",
    "leave_out_identifiers",
    "prepare_columns",
    "reading_kinds",
    "say_plan",
    "takes_raw_columns",
]

_RAW_STEPS = ("ColumnTransformer", "OneHotEncoder", "OrdinalEncoder", "SimpleImputer")
_OPTION_KINDS = {"numeric": "number", "categorical": "category", "text": "text"}
_KINDS = ("number", "category", "text", "date", "ignore")
_SHOWN_COLUMNS = 40  # lines of the plan on a screen


def reading_kinds(options: dict[str, Any]) -> dict[str, str]:
    """Kinds of columns that the options or a file ask for, by name."""
    kinds: dict[str, str] = {}
    if options.get("columns_file") is not None:
        kinds |= _read_kinds(options["columns_file"])
    for option, kind in _OPTION_KINDS.items():
        for name in options.get(option, ()):
            if kinds.get(name, kind) != kind:
                raise ToolError(f"column {name!r} is asked for as {kinds[name]} and as {kind}")
            kinds[name] = kind
    return kinds


def _read_kinds(path: str) -> dict[str, str]:
    import json
    import tomllib
    from pathlib import Path

    try:
        text = Path(path).read_text(encoding="utf-8")
        found = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except ValueError as error:
        raise ToolError(f"--columns {path}: {' '.join(str(error).split())}") from error
    for name, kind in found.items():
        if not isinstance(kind, str) or kind.partition(" ")[0] not in _KINDS:
            raise ToolError(
                f"--columns {path}: {name!r} must be one of {', '.join(_KINDS)}, got {shown(kind)}"
            )
    return dict(found)


def prepare_columns(found: Any, wanted: Any, kinds: dict[str, str]) -> None:
    """Put the rows of a table into ``found.X``: by a new plan, or by that of a model."""
    from polymargin.tables.table_columns import column_matrix, uniform_column

    if wanted is None:
        _plan(found, kinds)
    elif wanted.raw:
        found.X = _frame(found)
    else:
        found.X = column_matrix(
            [
                uniform_column(c.values, c.name, _encoded(spec.kind), spec.form)
                for c, spec in zip(found.columns, wanted.columns, strict=True)
            ]
        )
        _count_unknown(found, wanted.known)
    found.columns = None


def leave_out_identifiers(found: Any, kinds: dict[str, str]) -> None:
    """Drop columns of a matrix that name its rows; say so where they have no names to go by."""
    import numpy as np

    from polymargin.tables.column_plan import names_rows

    X, names = found.X, found.feature_names
    if hasattr(X, "nnz") or X.shape[1] < 2:
        return
    for k in reversed(range(X.shape[1])):
        name = str(k) if names is None else names[k]
        why = "" if kinds.get(name) == "number" else names_rows(name, X[:, k])
        if why and names is None:
            say(f"warning: column {k} numbers the rows: if it is no feature, give --ignore {k}")
        elif why and found.X.shape[1] > 1:
            say(f"column {name!r} left out: {why}")
            found.X = np.delete(found.X, k, axis=1)
            found.feature_names = [*found.feature_names[:k], *found.feature_names[k + 1 :]]


def known_categories(model: Any) -> dict[str, frozenset[str]]:
    """Values of the columns of categories that a model of ours was trained on."""
    found: dict[str, frozenset[str]] = {}
    columns = column_specs(model)
    if columns is None:
        return found
    for _, part, places in model.steps[1][1].transformers_:
        if hasattr(part, "categories_"):
            for place, values in zip(places, part.categories_, strict=True):
                found[columns[place].name] = frozenset(values.tolist())
    return found


def _count_unknown(found: Any, known: Any) -> None:
    """Say how many rows hold values that training did not see."""
    for k, column in enumerate(found.columns):
        if column.name not in known:
            continue
        unseen = [v for v in found.X[:, k].tolist() if v not in known[column.name]]
        if unseen:
            shown = ", ".join(repr(v) for v in sorted(set(unseen))[:4])
            more = ", ..." if len(set(unseen)) > 4 else ""
            say(
                f"column {column.name!r}: values that the model does not know in {len(unseen)} of "
                f"{len(found.X)} rows ({shown}{more}); they count as rare, or not at all"
            )


def _encoded(kind: str) -> str:
    return "category" if kind in ("text", "boolean") else kind


def _plan(found: Any, kinds: dict[str, str]) -> None:
    from polymargin.tables.column_plan import plan_columns

    try:
        plan = plan_columns(found.columns, {n: k for n, k in kinds.items() if k != "ignore"})
    except ValueError as error:
        raise ToolError(str(error)) from error
    say_plan(plan)
    found.X = plan.matrix(found.columns)
    found.feature_names = [column.name for column in plan.kept]
    found.plan = plan


def say_plan(plan: Any) -> None:
    """Print how each column is used."""
    rows = plan.rows()
    say(table(rows[: _SHOWN_COLUMNS + 1]))
    if len(rows) > _SHOWN_COLUMNS + 1:
        say(f"... and {len(rows) - 1 - _SHOWN_COLUMNS} more columns")
    say("(another plan: --numeric, --categorical, --text, --ignore, or --columns FILE)")


def _frame(found: Any) -> Any:
    """A data frame for a Pipeline that was made in Python."""
    try:
        import pandas as pd
    except ImportError:
        from polymargin._extras import install_command

        raise ToolError(
            f"the model takes a table by names of columns, which needs pandas: "
            f"{install_command('pandas')}"
        ) from None
    columns = {}
    for column in found.columns:
        values = column.values
        if column.kind == "boolean":
            values = pd.Series(values).map({"true": True, "false": False})
        columns[column.name] = values
    return pd.DataFrame(columns)


def column_specs(model: Any) -> list[Any] | None:
    """The raw columns that a model of ours takes; None for a model that takes numbers."""
    from polymargin.datasets import ColumnSpec

    first = model.steps[0][1] if hasattr(model, "steps") else None
    if first is None or type(first).__name__ != "TableColumns":
        return None
    kinds = {"category": "text"}
    return [ColumnSpec(name, kinds.get(kind, kind), form) for name, kind, form in first.columns]


def takes_raw_columns(model: Any) -> bool:
    """Whether a Pipeline that was made in Python encodes columns itself."""
    first = model.steps[0][1] if hasattr(model, "steps") else model
    return type(first).__name__ in _RAW_STEPS
