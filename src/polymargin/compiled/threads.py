"""Threads of a fit: one for BLAS and OpenMP, and ours, which share blocks of work.

Sums that threads share differ in their last bits.  Threads of our own (``n_jobs``) work on blocks
that do not depend on their number; the libraries below give no such promise, and the same seed must
give the same bits.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["share", "single_threaded_libraries", "thread_pool"]

Item = TypeVar("Item")

_lock = threading.Lock()
_users = 0
_limit: Any = None


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def single_threaded_libraries() -> Iterator[None]:
    """Limit the thread pools of native libraries; fits in several threads share one limit."""
    global _users, _limit
    with _lock:
        if _users == 0:
            _limit = _controller().limit(limits=1)
            _limit.__enter__()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limit.__exit__(None, None, None)
                _limit = None


def thread_pool(n_threads: int) -> ThreadPoolExecutor:
    """The threads of this process that stand ready beside the calling one.

    They last: a new thread begins with no memory of its own, and taking the pages of a block of
    kernel values anew costs more than computing the values.  Idle ones wait without a core.
    """
    return _thread_pool(os.getpid(), n_threads)  # a forked process has none of its parent's


@cache
def _thread_pool(process: int, n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="polymargin")


def share(work: Callable[[Item], None], items: Iterable[Item], n_jobs: int) -> None:
    """Call ``work`` on every item, on this thread and ``n_jobs - 1`` others.

    Which thread takes which item is open; what is written must not depend on it.  The first
    exception ends the work and comes back.
    """
    left = deque(items)

    def take() -> None:
        try:
            while True:
                try:
                    item = left.popleft()
                except IndexError:
                    return
                work(item)
        except BaseException:
            left.clear()
            raise

    pool = thread_pool(n_jobs - 1)
    others: list[Future[None]] = [pool.submit(take) for _ in range(min(n_jobs, len(left)) - 1)]
    try:
        take()
    finally:
        # those that have not begun have nothing left to do: shared work may be nested
        begun = [future for future in others if not future.cancel()]
        failed = [error for error in (future.exception() for future in begun) if error]
    if failed:
        raise failed[0]
