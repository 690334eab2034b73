"""``fit`` of a linear machine on rows that do not fit into memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.compiled.threads import single_threaded_libraries
from polymargin.datasets.row_store import RowStore
from polymargin.estimators.callbacks import outer_watchers
from polymargin.estimators.from_parts import linear_spec, store_parts, warn_if_unfinished
from polymargin.solvers.history import RowCheck, format_check
from polymargin.solvers.run import Run, deferred_interrupt, uninterrupted
from polymargin.solvers.shards.blockwise import Blockwise
from polymargin.solvers.shards.leader import Round

__all__ = ["RowWatch", "class_mass", "fit_rows"]


def fit_rows(estimator: Any, rows: RowStore) -> None:
    """Train on all rows, block after block; the fitted model has no support vectors."""
    mass = class_mass(estimator, rows)
    spec = linear_spec(estimator, rows.classes, mass, rows.n_features)
    run = estimator._run(())
    watch = RowWatch(estimator, rows, run)
    blockwise = Blockwise(rows, spec, run.stop.tol, run.stop.max_iter, run.seed, run.why_end, watch)
    with single_threaded_libraries(), deferred_interrupt(run.clock):
        result = blockwise.run()
    with uninterrupted():
        store_parts(estimator, spec, result, rows.n_rows)
    warn_if_unfinished(result, float(estimator.tol))
    if result.status == "interrupted":
        raise KeyboardInterrupt


def class_mass(estimator: Any, rows: RowStore) -> dict[Any, float]:
    """Examples of every class, counted where class weights depend on them."""
    mass: dict[Any, float] = dict.fromkeys(rows.classes.tolist(), 0.0)
    if isinstance(estimator.class_weight, str):
        for k in range(rows.n_blocks):
            labels, counts = np.unique(rows.labels(k), return_counts=True)
            for label, count in zip(labels.tolist(), counts.tolist(), strict=True):
                mass[label] += count
    return mass


class RowWatch:
    """Reports every visited block to watchers, and prints a line per pass if ``verbose``."""

    def __init__(self, estimator: Any, rows: RowStore, run: Run) -> None:
        self.is_verbose = bool(estimator.verbose)
        self.run, self.n_blocks = run, rows.n_blocks
        self.block_bytes = rows.nbytes / max(1, rows.n_blocks)
        self.watchers = outer_watchers()
        self.visits = 0

    def __call__(self, one: Round) -> bool:
        """Whether a watcher asks to stop."""
        self.visits += 1
        passes = -(-self.visits // self.n_blocks)
        read = int(self.visits * self.block_bytes)
        check = RowCheck(
            self.run.seconds, passes, one.primal, one.dual, one.relative_gap, 0, one.steps, read
        )
        if self.is_verbose and self.visits % self.n_blocks == 0:
            print(format_check(check), flush=True)
        return any([watcher(check, _no_point) for watcher in self.watchers])


def _no_point() -> Any:
    raise RuntimeError("a fit on blocks of rows has no dual point of all of them at once.")
