"""Code is compiled before the race starts, so that the time of no candidate includes it.

Code in the cache is only loaded; compiling takes seconds per kind of machine, once.  Under
a time limit that counts: kinds that could not be compiled within half of the limit are left out of
this fit, all but the first, which is compiled in any case.  A second always remains for training,
or half of the limit if that is less: where compiling takes nearly all of it, the fit ends late.
"""

from __future__ import annotations

import io
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba.core import event

from polymargin.estimators.auto_candidates import Candidate, Table
from polymargin.estimators.auto_splits import stratified_sample
from polymargin.solvers.run import Clock

__all__ = ["Compiled", "Warmup", "compile_first", "compile_watch", "few_features"]

_ROWS = 60
_FEATURES = 100  # of dense rows, for prototypes: their annealing takes seconds on thousands
_SHARE = 0.5  # of max_time, for compiling more than one kind
_TRAINING = 1.0  # seconds that remain after compiling: a linear machine is useful after half of one
_KIND_SECONDS = 6.0  # expected seconds of compiling one kind


class _NotCompiledError(RuntimeError):
    """A function is not in the cache and would have to be compiled."""


class _Refusal(event.Listener):
    """Raises where a compilation begins; loading code from the cache is none."""

    def on_start(self, event: Any) -> None:
        raise _NotCompiledError

    def on_end(self, event: Any) -> None:
        pass


class CompileWatch(event.Listener):
    """Records whether anything was compiled; loading code from the cache does not count."""

    def __init__(self) -> None:
        self.has_compiled = False

    def on_start(self, event: Any) -> None:
        self.has_compiled = True

    def on_end(self, event: Any) -> None:
        pass


@contextmanager
def compile_watch() -> Iterator[CompileWatch]:
    """Watch the compiler."""
    watch = CompileWatch()
    with event.install_listener("numba:compile", watch):
        yield watch


@contextmanager
def _compiling(is_allowed: bool) -> Iterator[CompileWatch]:
    if is_allowed:
        with compile_watch() as watch:
            yield watch
        return
    unsaid = io.StringIO()  # the message that code is compiled
    with redirect_stderr(unsaid), event.install_listener("numba:compile", _Refusal()):
        yield CompileWatch()


class Warmup(NamedTuple):
    """Seconds of compiling, number of kinds left out, and seconds beyond the time limit."""

    seconds: float
    n_skipped: int
    late: float = 0.0


class Compiled:
    """Kinds of machines whose code this process has loaded; ``train`` loads one more."""

    def __init__(self) -> None:
        self.done: set[tuple[Any, ...]] = set()

    def train(self, one: Candidate, X: Any, y: np.ndarray, table: Table) -> float:
        """Train a small machine; returns its seconds."""
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = one.build(table, tol=1e-1, random_state=0, max_time=60.0)
                model.fit(X, y).decision_function(X)
            except (ValueError, ArithmeticError):
                pass  # the race records why this machine fails
        return time.perf_counter() - began


_compiled = Compiled()


def compile_first(
    X: Any,
    y: np.ndarray,
    table: Table,
    candidates: list[Candidate],
    first: Candidate | None,
    clock: Clock,
    compiled: Compiled = _compiled,
) -> tuple[list[Candidate], Warmup]:
    """Train one small machine of every kind, once per process and form of data.

    Parameters
    ----------
    X, y : the rows of the race
    table : Table
    candidates : list of Candidate
    first : Candidate or None
        Of the kind that is needed in any case.
    clock : Clock
        Of the fit; what it may not count is added to its start.
    compiled : Compiled
        What is ready; by default that of this process.

    Returns
    -------
    candidates : list of Candidate
        Those of kinds that are ready, at least one.
    warmup : Warmup
    """
    ordered = candidates if first is None else [first, *candidates]
    kinds: dict[tuple[Any, ...], Candidate] = {}
    for one in ordered:
        kinds.setdefault(_kind(one), one)
    label = np.unique(y, return_inverse=True)[1]
    rows = stratified_sample(label, _ROWS, np.random.default_rng(0))
    compiling = 0.0
    ready: set[tuple[Any, ...]] = set()
    whole = float("inf") if clock.max_time is None else clock.max_time
    limit = _SHARE * whole
    for key, one in kinds.items():
        if _key(key, X) not in compiled.done:
            may_compile = not ready or clock.seconds + _KIND_SECONDS <= limit
            try:
                with _compiling(may_compile) as watch:
                    seconds = compiled.train(one, few_features(X[rows], one.kind), y[rows], table)
            except _NotCompiledError:
                continue
            compiling += seconds if watch.has_compiled else 0.0
            compiled.done.add(_key(key, X))
        ready.add(key)
    late = clock.seconds - max(limit, whole - _TRAINING)
    late = min(compiling, max(0.0, late))
    clock.started += late
    found = [one for one in candidates if _kind(one) in ready]
    skipped = len({_kind(one)[0] for one in candidates} - {_kind(one)[0] for one in found})
    return found or candidates[:1], Warmup(compiling, skipped, late)


def few_features(X: Any, kind: str) -> Any:
    """Rows with fewer features where these cost time; compiled code does not depend on them."""
    if kind != "prototypes" or sp.issparse(X):
        return X
    return np.ascontiguousarray(X[:, :_FEATURES])


def _kind(one: Candidate) -> tuple[Any, ...]:
    return one.kind, one.machine, one.metric


def _key(key: tuple[Any, ...], X: Any) -> tuple[Any, ...]:
    return (*key, str(X.dtype), sp.issparse(X))
