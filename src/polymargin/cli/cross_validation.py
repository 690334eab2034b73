"""Errors by cross-validation, with a search inside each fold where C is left open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from polymargin.cli.machine_setup import MachineSetup
from polymargin.cli.messages import say

__all__ = ["cross_validate", "folds_text", "loss_text"]


def cross_validate(setup: MachineSetup, found: Any, n_folds: int) -> dict[str, Any]:
    """Errors of all folds; with an open choice a search inside each of them."""
    import numpy as np

    from polymargin.cli.data_parts import folds
    from polymargin.cli.settings_search import search

    y, splits = found.y, folds(found.codes, n_folds, setup.seed, found.groups)
    say(f"{n_folds} folds: {setup.words()}")
    if setup.is_auto:
        errors, picked, interrupted = _auto_folds(setup, found, y, splits)
    elif not setup.has_choice:
        outcome = search(setup, found.X, y, splits, "cross-validation", setup.max_time)
        errors, picked, interrupted = outcome.best.errors, None, outcome.interrupted
    else:
        errors, picked, interrupted = _nested(setup, found, y, splits)
    if not errors:
        raise KeyboardInterrupt
    if len(errors) < n_folds:
        say(f"only {len(errors)} of {n_folds} folds were done")
    has_costs = setup.costs is not None
    return {
        "mean_cost" if has_costs else "error": float(np.mean(errors)),
        "spread": float(np.std(errors)),
        "fold_costs" if has_costs else "fold_errors": errors,
        "folds": n_folds,
        "picked": picked,
        "interrupted": interrupted,
    }


def _auto_folds(
    setup: MachineSetup, found: Any, y: Any, splits: Any
) -> tuple[list[float], None, bool]:
    """The machine is chosen anew on the training part of every fold."""
    from polymargin.cli.automatic import auto_error

    errors: list[float] = []
    share = None if setup.max_time is None else setup.max_time / len(splits)
    setup = replace(setup, max_time=share)
    try:
        for k, (train, test) in enumerate(splits):
            error = auto_error(setup, found, y, train, test, f"fold {k + 1} of {len(splits)}")
            if error is None:
                return errors, None, True
            errors.append(error)
            say(f"fold {k + 1}: error {100 * error:.2f} %")
    except KeyboardInterrupt:
        return errors, None, True
    return errors, None, False


def _nested(
    setup: MachineSetup, found: Any, y: Any, splits: Any
) -> tuple[list[float], list[float], bool]:
    """C (or eta) is picked anew on the training part of every fold."""
    from polymargin.cli.settings_search import choose, search

    name = "eta" if setup.is_hull else "C"
    errors: list[float] = []
    picked: list[float] = []
    share = None if setup.max_time is None else setup.max_time / len(splits)
    setup = replace(setup, max_time=share)
    try:
        for train, test in splits:
            groups = None if found.groups is None else found.groups[train]
            chosen = choose(setup, found.X[train], y[train], found.codes[train], groups)
            if chosen is not None and chosen.interrupted:
                return errors, picked, True
            settings = {name: 1.0} if chosen is None else dict(chosen.best.settings)
            fixed = _fixed(setup, settings)
            limit = None if share is None else 0.5 * share
            outcome = search(fixed, found.X, y, [(train, test)], "cross-validation", limit)
            if outcome.interrupted:
                return errors, picked, True
            errors += outcome.best.errors
            picked.append(settings[name])
            scale = "relative " if settings.get("eta_scale") == "relative" else ""
            value = f"{scale}{name} {settings[name]:.4g}"
            loss = setup.loss_words(errors[-1])
            say(f"fold {len(errors)}: {value}, {'error ' if setup.costs is None else ''}{loss}")
    except KeyboardInterrupt:
        return errors, picked, True
    return errors, picked, False


def _fixed(setup: MachineSetup, settings: dict[str, Any]) -> MachineSetup:
    if setup.is_hull:
        return replace(setup, eta=settings["eta"], eta_scale=settings.get("eta_scale", "absolute"))
    return replace(setup, C=settings["C"])


def folds_text(record: dict[str, Any]) -> str:
    """The result of a cross-validation as text."""
    if "mean_cost" in record:
        each = ", ".join(f"{cost:.4g}" for cost in record["fold_costs"])
        return (
            f"mean cost {record['mean_cost']:.4g}  (standard deviation {record['spread']:.4g}; "
            f"folds {each})"
        )
    each = ", ".join(f"{100 * error:.2f}" for error in record["fold_errors"])
    return (
        f"error {100 * record['error']:.2f} %  (standard deviation {100 * record['spread']:.2f}; "
        f"folds {each})"
    )


def loss_text(record: dict[str, Any]) -> str:
    """The mean over the folds alone."""
    if "mean_cost" in record:
        return f"mean cost {record['mean_cost']:.4g}"
    return f"{100 * record['error']:.2f} %"
