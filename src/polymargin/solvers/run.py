"""Run: how long and by which means a problem is solved (stop rule, clock, seed, memory, history).

A ``Run`` is all that a solver is told beside the problem.  Parts of a longer piece of work get
parts of its run: ``run.part(...)`` shares the clock and hears of the same Ctrl-C.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any, ClassVar

import numpy as np

from polymargin.solvers.history import AnyCheck, Check, History, Watcher

__all__ = [
    "HARD_MARGIN_LIMIT",
    "Clock",
    "Run",
    "Stop",
    "deferred_interrupt",
    "seed_state",
    "uninterrupted",
]

HARD_MARGIN_LIMIT = 1e9
"""A hard-margin problem is called not separable once its certified lower bound D on the optimal
value, times the largest K_ii (without the constant of a penalised intercept), exceeds this: the
margin is then below 1/44000 of the radius."""

_GRACE_SECONDS = 0.4
"""How long a fit may go on after it was told to end: time for a certificate against the promise
of ``max_time``; below half a second users notice no delay."""


@dataclass(frozen=True)
class Stop:
    """When to end: the relative gap, passes over the active patterns, seconds."""

    tol: float
    max_iter: int = 10**9
    max_time: float | None = None


class Clock:
    """The time of one fit: since when it runs, and whether Ctrl-C was pressed.

    A clock of a part (``whole`` given) counts from the start of the whole and shares its Ctrl-C.
    Fits within a search that holds Ctrl-C back for them (see ``interruptible_search``) end by it as
    if their time were over: the search goes on from there.
    """

    _searching: ClassVar[list[Clock]] = []

    def __init__(self, max_time: float | None = None, whole: Clock | None = None) -> None:
        self.max_time = max_time
        self.whole = whole
        self.started: float = time.perf_counter() if whole is None else whole.started
        self.reserve = 0.0  # seconds set aside for the final certificate
        self._interrupted = False

    @property
    def interrupted(self) -> bool:
        return self._interrupted if self.whole is None else self.whole.interrupted

    @interrupted.setter
    def interrupted(self, value: bool) -> None:
        if self.whole is None:
            self._interrupted = value
        else:
            self.whole.interrupted = value

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def search_ends(self) -> bool:
        """Whether Ctrl-C ends a search that this fit is a part of."""
        return any(one.interrupted for one in self._searching)

    def why_end(self) -> str | None:
        """Ctrl-C or the time limit, if it is one of them."""
        if self.interrupted:
            return "interrupted"
        if self.search_ends:
            return "max_time"
        if self.max_time is not None and self.seconds + self.reserve >= self.max_time:
            return "max_time"
        return None

    def keep_reserve(self, seconds: float) -> None:
        """Set the time of a certificate aside, as long as it is a modest part of the whole."""
        limit = self.max_time
        self.reserve = seconds if limit and seconds <= 0.3 * limit else 0.0

    def has_left(self, seconds: float) -> bool:
        """Whether work of so many seconds fits into what is left of the time, or nearly so."""
        if self.interrupted or self.search_ends:
            return seconds <= _GRACE_SECONDS
        if self.max_time is None:
            return True
        return seconds <= max(self.max_time - self.seconds, 0.0) + _GRACE_SECONDS


class Run:
    """How a problem is solved.

    Parameters
    ----------
    stop : Stop
    seed : int or list of int
        Order of visits.
    cache_mb : float
        Memory for kernel rows in megabytes.
    n_jobs : int
        Threads that a method may use beside those of kernel blocks (``problem.n_jobs``).
    watchers : functions of (check, snapshot)
        Told of every check, see ``History``.
    kind : type of the entries of the history.
    clock : Clock or None
        A clock that runs already; None starts one.
    """

    def __init__(
        self,
        stop: Stop,
        seed: Any = 0,
        cache_mb: float = 1000.0,
        n_jobs: int = 1,
        watchers: tuple[Watcher, ...] = (),
        kind: type[AnyCheck] = Check,
        clock: Clock | None = None,
    ) -> None:
        self.stop = stop
        self.seed = seed
        self.cache_mb = cache_mb
        self.n_jobs = n_jobs
        self.history = History(watchers, kind)
        self.clock = Clock(stop.max_time) if clock is None else clock

    @property
    def seconds(self) -> float:
        return self.clock.seconds

    @property
    def interrupted(self) -> bool:
        return self.clock.interrupted

    def why_end(self) -> str | None:
        """Ctrl-C or the time limit, if it is one of them."""
        return self.clock.why_end()

    def why_stop(self, iterations: int) -> str | None:
        """The reason to end now: Ctrl-C, the time limit, or the passes made."""
        reason = self.clock.why_end()
        if reason is None and iterations >= self.stop.max_iter:
            return "max_iter"
        return reason

    def part(
        self,
        share: float | None = None,
        seed: Any = None,
        cache_mb: float | None = None,
        **stop: Any,
    ) -> Run:
        """A run for a part of the work, with a history of its own.

        Parameters
        ----------
        share : float or None
            The part of the whole's time and passes that it may take, from now; None: it ends with
            the whole.
        seed, cache_mb
            None for the same.
        stop
            What else differs: ``tol``, ``max_iter``.
        """
        whole, clock = self.stop, self.clock
        if share is not None:
            stop.setdefault("max_iter", max(1, int(share * whole.max_iter)))
            if whole.max_time is not None:
                limit = clock.seconds + share * whole.max_time
                stop["max_time"] = limit
                clock = Clock(limit, clock)
        return Run(
            replace(whole, **stop),
            self.seed if seed is None else seed,
            self.cache_mb if cache_mb is None else cache_mb,
            self.n_jobs,
            clock=clock,
        )

    def watched_by(self, watchers: tuple[Watcher, ...], kind: type[AnyCheck] = Check) -> Run:
        """The same run, its history told to others."""
        self.history = History(watchers, kind)
        return self


class _Flag:
    """Whether Ctrl-C was pressed."""

    interrupted = False


@contextmanager
def deferred_interrupt(clock: Clock | _Flag) -> Iterator[None]:
    """Turn the first Ctrl-C into a flag: nothing is left half-written; a second one raises.

    Fits of estimators with clocks of their own do not see this flag: for them see
    ``interruptible_search``.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        # a server, a notebook or an outer run handles Ctrl-C already
        yield
        return

    def handler(number: int, frame: FrameType | None) -> None:
        if clock.interrupted:
            raise KeyboardInterrupt
        clock.interrupted = True

    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interruptible_search(clock: Clock) -> Iterator[None]:
    """As ``deferred_interrupt``, for a search whose fits, in any thread, end by Ctrl-C as well."""
    with deferred_interrupt(clock):
        Clock._searching.append(clock)
        try:
            yield
        finally:
            Clock._searching.remove(clock)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back for a moment: fitted attributes are stored all or none."""
    flag = _Flag()
    with deferred_interrupt(flag):
        yield
    if flag.interrupted:
        raise KeyboardInterrupt


def seed_state(seed: Any) -> np.ndarray:
    """State of the compiled generator from a NumPy seed (never zero)."""
    word = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    return np.where(word == 0, np.uint64(1), word)
