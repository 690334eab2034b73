"""``fit`` of a linear machine on rows that do not fit into memory."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from polymargin.compiled.threads import single_threaded_libraries
from polymargin.datasets.row_store import RowStore
from polymargin.estimators.from_parts import linear_spec, store_parts, warn_if_unfinished
from polymargin.solvers.run import deferred_interrupt
from polymargin.solvers.shards.blockwise import Blockwise
from polymargin.solvers.shards.leader import Round

__all__ = ["fit_rows"]


def fit_rows(estimator: Any, rows: RowStore) -> None:
    """Train on all rows, block after block; the fitted model has no support vectors."""
    mass: dict[Any, float] = dict.fromkeys(rows.classes.tolist(), 0.0)
    if isinstance(estimator.class_weight, str):
        for k in range(rows.n_blocks):
            labels, counts = np.unique(rows.load(k)[1], return_counts=True)
            for label, count in zip(labels.tolist(), counts.tolist(), strict=True):
                mass[label] += count
    spec = linear_spec(estimator, rows.classes, mass, rows.n_features)
    run = estimator._run(())
    blockwise = Blockwise(
        rows,
        spec,
        run.stop.tol,
        run.stop.max_iter,
        run.seed,
        run.why_end,
        lambda one: _report(estimator, rows, one, blockwise, started),
    )
    started = time.perf_counter()
    with single_threaded_libraries(), deferred_interrupt(run.clock):
        result = blockwise.run()
    store_parts(estimator, spec, result, rows.n_rows)
    warn_if_unfinished(result, float(estimator.tol))
    if result.status == "interrupted":
        raise KeyboardInterrupt


def _report(
    estimator: Any, rows: RowStore, one: Round, blockwise: Blockwise, started: float
) -> bool:
    if estimator.verbose:
        epochs = len(blockwise.rounds)
        print(
            f"[polymargin] {time.perf_counter() - started:8.2f} s  epoch {epochs:4d}  "
            f"read {epochs * rows.nbytes / 1e6:.0f} MB  gap about {one.relative_gap:.2e}"
        )
    return False
