"""Compiled code is loaded before the clock of a race starts, so that no candidate pays for it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.estimators.auto_candidates import Candidate, Table
from polymargin.estimators.auto_splits import stratified_sample

__all__ = ["compile_first"]

_ROWS = 60
_done: set[tuple[Any, ...]] = set()


def compile_first(X: Any, y: np.ndarray, table: Table, candidates: Sequence[Candidate]) -> float:
    """Train one small machine of every kind, once per process and form of data; the seconds."""
    began = time.perf_counter()
    kinds = {(one.kind, one.machine, one.metric): one for one in candidates}
    fresh = {key: one for key, one in kinds.items() if _key(key, X) not in _done}
    if not fresh:
        return 0.0
    label = np.unique(y, return_inverse=True)[1]
    rows = stratified_sample(label, _ROWS, np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for key, one in fresh.items():
            _train_once(one, X[rows], y[rows], table)
            _done.add(_key(key, X))
    return time.perf_counter() - began


def _train_once(one: Candidate, X: Any, y: np.ndarray, table: Table) -> None:
    try:
        model = one.build(table, tol=1e-1, random_state=0, max_time=60.0)
        model.fit(X, y).decision_function(X)
    except (ValueError, ArithmeticError):
        return  # the race will say what is wrong with this machine


def _key(key: tuple[Any, ...], X: Any) -> tuple[Any, ...]:
    return (*key, str(X.dtype), sp.issparse(X))
