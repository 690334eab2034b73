"""One BLAS and OpenMP thread during a fit: sums that threads share differ in their last bits.

Threads of our own (``n_jobs``) work on blocks that do not depend on their number; the libraries
below give no such promise, and the same seed must give the same bits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["single_threaded_libraries"]

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
