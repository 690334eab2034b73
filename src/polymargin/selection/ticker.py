"""Ticker: a line of progress for work that consists of many solves."""

from __future__ import annotations

import time

__all__ = ["Ticker"]


class Ticker:
    """A line of progress every other second, if asked for."""

    def __init__(self, what: str, total: int, verbose: int) -> None:
        self.what, self.total, self.verbose = what, total, verbose
        self.started = self.last = time.perf_counter()

    def tell(self, done: int, note: str = "") -> None:
        """``done`` of ``total`` are done; the time left is estimated from the time so far."""
        now = time.perf_counter()
        if not self.verbose or (now - self.last < 2.0 and done < self.total):
            return
        self.last = now
        spent = now - self.started
        left = spent * (self.total - done) / max(done, 1)
        print(
            f"[polymargin] {spent:8.2f} s  {self.what} {done}/{self.total}{note}  "
            f"about {left:.0f} s left",
            flush=True,
        )
