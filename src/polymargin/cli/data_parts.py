"""Parts of the rows: for validation, for folds, a sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.cli.application import ToolError
from polymargin.cli.machine_setup import MOST_ROWS, MachineSetup
from polymargin.cli.messages import say_once

__all__ = ["folds", "holdout", "sample"]


_VALIDATION = 0.25  # share of the rows held out


def holdout(
    codes: np.ndarray, seed: int, limit: int, groups: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows to validate on: a quarter of each class, at least one stays.

    With ``groups`` about a quarter of the rows, in whole groups.
    """
    rng = np.random.default_rng(seed)
    n = len(codes)
    if groups is not None:
        train, test = _group_folds(codes, round(1.0 / _VALIDATION), seed, groups)[0]
        return tuple(_some(rows, limit / n, rng) for rows in (train, test))  # type: ignore[return-value]
    rows = rng.permutation(n) if n <= limit else rng.choice(n, limit, replace=False)
    order = np.argsort(codes[rows], kind="stable")
    rows = rows[order]
    _, start, size = np.unique(codes[rows], return_index=True, return_counts=True)
    place = np.arange(len(rows)) - np.repeat(start, size)
    is_train = place < np.repeat(np.ceil((1.0 - _VALIDATION) * size), size)
    return np.sort(rows[is_train]), np.sort(rows[~is_train])


def sample(setup: MachineSetup, codes: np.ndarray) -> np.ndarray | None:
    """Rows to train on where not all are wanted, every class among them; None for all."""
    n, most = len(codes), setup.rows
    if most == "auto":
        most = MOST_ROWS if setup.is_prototypes or setup.is_auto else "all"
    first = np.unique(codes, return_index=True)[1]
    if most == "all" or n <= most + len(first):  # a sample of a sample is the sample
        return None
    rng = np.random.default_rng(setup.seed)
    rows = rng.choice(n, most, replace=False)
    say_once(
        f"training on a random sample of {most} of {n} rows (--rows all takes all of them, which "
        "needs time and memory; -m CS takes all by default)"
    )
    return np.unique(np.concatenate([rows, first]))


def _some(rows: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    if share >= 1.0:
        return rows
    return np.sort(rng.choice(rows, max(1, round(share * len(rows))), replace=False))


def _group_folds(
    codes: np.ndarray, n_folds: int, seed: int, groups: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """At most ``n_folds`` folds of whole groups, classes in proportion as far as groups allow."""
    import warnings

    from sklearn.model_selection import StratifiedGroupKFold

    n_groups = len(np.unique(groups))
    if n_groups < 2:
        raise ToolError("--group: all rows are of one group; at least two groups are needed")
    splitter = StratifiedGroupKFold(min(n_folds, n_groups), shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes with fewer rows than folds are expected
        # the splitter refuses classes that are all smaller than the number of folds
        often = np.bincount(codes).max() >= splitter.n_splits
        return list(splitter.split(codes, codes if often else np.zeros_like(codes), groups))


def folds(
    codes: np.ndarray, n_folds: int, seed: int, groups: np.ndarray | None = None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Stratified folds in random order; with ``groups`` of whole groups."""
    if len(codes) < n_folds:
        raise ToolError(f"{n_folds} folds need at least {n_folds} rows, there are {len(codes)}")
    if groups is not None:
        if (n_groups := len(np.unique(groups))) < n_folds:
            raise ToolError(f"{n_folds} folds need at least {n_folds} groups, there are {n_groups}")
        return _group_folds(codes, n_folds, seed, groups)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    number = np.empty(len(codes), dtype=np.int64)
    number[order] = np.arange(len(codes)) % n_folds
    return [(np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in range(n_folds)]


def thin(setup: MachineSetup, found: Any) -> None:
    """Keep a sample of the rows where not all are wanted."""
    rows = sample(setup, found.codes)
    if rows is not None:
        found.X, found.codes = found.X[rows], found.codes[rows]
        found.groups = None if found.groups is None else found.groups[rows]
