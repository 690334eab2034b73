"""``polymargin cv`` and ``polymargin tune``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from polymargin.cli.common import (
    INTERRUPTED,
    check_writable,
    emit,
    output_options,
    read,
    say,
    size_text,
    table,
    take_data_options,
    training_options,
)
from polymargin.cli.machine_options import Recipe, recipe_options, take_recipe

__all__ = ["cross_validate", "cv", "folds_text", "tune"]


@click.command(short_help="Error by cross-validation.")
@click.argument("data")
@click.option("-v", "--folds", type=click.IntRange(2), default=5, show_default=True,
              help="Number of folds.")  # fmt: skip
@recipe_options()
@training_options
@output_options
def cv(data: str, folds: int, as_json: bool, **options: Any) -> None:
    """Error of a machine on DATA by stratified cross-validation.

    Scaling, and C where it is left open, are learnt on the training part of every fold.
    """
    from polymargin.cli.training import check_classes

    recipe = take_recipe(options)
    found = read(data, take_data_options(options))
    recipe.plan = found.plan
    check_classes(found)
    thin(recipe, found)
    record = {"command": "cv", "data": data} | cross_validate(recipe, found, folds)
    emit(record, as_json, lambda: folds_text(record))
    if record["interrupted"]:
        raise click.exceptions.Exit(INTERRUPTED)


def thin(recipe: Recipe, found: Any) -> None:
    """Keep a sample of the rows where not all are wanted."""
    from polymargin.cli.fitting import sample

    rows = sample(recipe, found.codes)
    if rows is not None:
        found.X, found.codes = found.X[rows], found.codes[rows]


def cross_validate(recipe: Recipe, found: Any, n_folds: int) -> dict[str, Any]:
    """Errors of all folds; with an open choice a search inside each of them."""
    import numpy as np

    from polymargin.cli.fitting import folds
    from polymargin.cli.grid import search

    y, splits = found.y, folds(found.codes, n_folds, recipe.seed)
    say(f"{n_folds} folds: {recipe.words()}")
    if not recipe.has_choice:
        outcome = search(recipe, found.X, y, splits, "cross-validation", recipe.max_time)
        errors, picked, interrupted = outcome.best.errors, None, outcome.interrupted
    else:
        errors, picked, interrupted = _nested(recipe, found, y, splits)
    if not errors:
        raise KeyboardInterrupt
    if len(errors) < n_folds:
        say(f"only {len(errors)} of {n_folds} folds were done")
    return {
        "error": float(np.mean(errors)),
        "spread": float(np.std(errors)),
        "fold_errors": errors,
        "folds": n_folds,
        "picked": picked,
        "interrupted": interrupted,
    }


def _nested(
    recipe: Recipe, found: Any, y: Any, splits: Any
) -> tuple[list[float], list[float], bool]:
    """C (or eta) is picked anew on the training part of every fold."""
    from polymargin.cli.grid import choose, search

    name = "eta" if recipe.is_hull else "C"
    errors: list[float] = []
    picked: list[float] = []
    share = None if recipe.max_time is None else recipe.max_time / len(splits)
    recipe = replace(recipe, max_time=share)
    try:
        for train, test in splits:
            chosen = choose(recipe, found.X[train], y[train], found.codes[train])
            if chosen is not None and chosen.interrupted:
                return errors, picked, True
            settings = {name: 1.0} if chosen is None else dict(chosen.best.settings)
            fixed = _fixed(recipe, settings)
            limit = None if share is None else 0.5 * share
            outcome = search(fixed, found.X, y, [(train, test)], "cross-validation", limit)
            if outcome.interrupted:
                return errors, picked, True
            errors += outcome.best.errors
            picked.append(settings[name])
            scale = "relative " if settings.get("eta_scale") == "relative" else ""
            value = f"{scale}{name} {settings[name]:.4g}"
            say(f"fold {len(errors)}: {value}, error {100 * errors[-1]:.2f} %")
    except KeyboardInterrupt:
        return errors, picked, True
    return errors, picked, False


def _fixed(recipe: Recipe, settings: dict[str, Any]) -> Recipe:
    if recipe.is_hull:
        return replace(recipe, eta=settings["eta"], eta_scale=settings.get("eta_scale", "absolute"))
    return replace(recipe, C=settings["C"])


def folds_text(record: dict[str, Any]) -> str:
    """The result of a cross-validation for people."""
    each = ", ".join(f"{100 * error:.2f}" for error in record["fold_errors"])
    return (
        f"error {100 * record['error']:.2f} %  (standard deviation {100 * record['spread']:.2f}; "
        f"folds {each})"
    )


@click.command(short_help="Try settings, keep the best.")
@click.argument("data")
@click.option("-o", "--output", metavar="MODEL", help="Model file to write: the best settings, "
              "trained on all rows.")  # fmt: skip
@click.option("-v", "--folds", type=click.IntRange(2), help="Folds of cross-validation.  Default: "
              "one validation part, a quarter of the rows.")  # fmt: skip
@click.option("--method", type=click.Choice(["grid", "radius-margin"]), default="grid",
              show_default=True, help="radius-margin: descend a bound on the leave-one-out errors "
              "of M-SVM² over C and gamma.")  # fmt: skip
@click.option("--refine", type=click.IntRange(0), help="radius-margin: compare so many settings "
              "around its minimum by cross-validation.  Default: 8 where the machine at the "
              "minimum is wrong about training rows.")  # fmt: skip
@recipe_options(lists=True)
@training_options
@output_options
@click.pass_context
def tune(
    ctx: click.Context,
    /,
    data: str,
    output: str | None,
    folds: int | None,
    method: str,
    refine: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Try all combinations of C, gamma and numbers of prototypes on DATA.

    Lists are given with commas: -c 0.1,1,10 -p 1,3,5,10.  Without -p the multi-prototype machine
    tries 1, 3, 5, 10 and 20 prototypes per class.

    --method radius-margin needs no validation part; it tunes -m MSVM2 (implied) with -k rbf (unless
    another kernel is named).
    """
    from polymargin.cli.training import check_classes

    if method == "radius-margin":
        from polymargin.cli.paths import tune_by_radius_margin

        tune_by_radius_margin(ctx, data, output, folds, refine, as_json, options)
        return
    if refine is not None:
        raise click.UsageError("--refine is for --method radius-margin.")
    if options["prototypes"] is None and options["machine"].upper() == "MP":
        options["prototypes"] = [1, 3, 5, 10, 20]
    recipe = take_recipe(options)
    reading = take_data_options(options)
    check_writable(output)
    found = read(data, reading)
    recipe.plan = found.plan
    check_classes(found)
    thin(recipe, found)
    record = {"command": "tune", "data": data} | _tune(recipe, found, folds)
    interrupted = record["interrupted"]
    if output is not None and not interrupted:
        record |= _final(recipe, found, record["best"], output)
    emit(record, as_json, lambda: _tune_text(record))
    if interrupted:
        raise click.exceptions.Exit(INTERRUPTED)


def _tune(recipe: Recipe, found: Any, n_folds: int | None) -> dict[str, Any]:
    from polymargin.cli.fitting import folds, holdout
    from polymargin.cli.grid import search

    codes = found.codes
    if n_folds is None:
        splits = [holdout(codes, recipe.seed, len(codes))]
        how = f"a validation part of {len(splits[0][1])} rows"
    else:
        splits = folds(codes, n_folds, recipe.seed)
        how = f"{n_folds} folds"
    limit = recipe.max_time
    outcome = search(recipe, found.X, found.y, splits, "tuning", limit)
    best = outcome.best
    if not best.errors:  # Ctrl-C before the first setting was tried to its end
        raise KeyboardInterrupt
    return {
        "validation": how,
        "results": [
            {
                **cell.settings,
                "error": cell.error if cell.errors else None,
                "spread": cell.spread if cell.errors else None,
                "seconds": sum(cell.seconds) / max(len(cell.seconds), 1),
                "model_bytes": cell.model_bytes,
            }
            for cell in outcome.cells
        ],
        "best": best.settings,
        "error": best.error,
        "interrupted": outcome.interrupted,
    }


def _final(recipe: Recipe, found: Any, best: dict[str, Any], output: str) -> dict[str, Any]:
    """The best settings on all rows, written."""
    from polymargin.cli.fitting import scaled_fit, slim
    from polymargin.cli.training import name_features, summary, write

    fitted = scaled_fit(recipe, best, found.X, found.y)
    slim(fitted.estimator)
    name_features(fitted, found)
    final = summary(fitted, found, None, fitted.seconds, fitted.X, found.y)
    size = write(fitted.model, output, found)
    return {"final": final, "model": output, "model_bytes": size, "interrupted": fitted.interrupted}


def _tune_text(record: dict[str, Any]) -> str:
    names = [name for name in record["best"] if name != "eta_scale"]
    is_relative = record["best"].get("eta_scale") == "relative"
    titles = ["relative eta" if name == "eta" and is_relative else name for name in names]
    rows = [[*titles, "error %", "seconds", "size"]]
    for cell in record["results"]:
        error = "-" if cell["error"] is None else f"{100 * cell['error']:.2f}"
        is_best = all(cell[name] == record["best"][name] for name in names)
        mark = "  *" if is_best else ""
        values = [
            f"{cell[name]:.4g}" if isinstance(cell[name], float) else str(cell[name])
            for name in names
        ]
        rows.append(
            [*values, error, f"{cell['seconds']:.2f}", size_text(cell["model_bytes"]) + mark]
        )
    text = table(rows) + f"\n\n* lowest error on {record['validation']}"
    if "model" in record:
        text += f"; trained on all rows: {record['model']}, {size_text(record['model_bytes'])}"
    return text
