"""A progress line on a terminal: share done, gap, time, estimate; silent for the first seconds."""

from __future__ import annotations

import contextlib
import math
import shutil
import sys
import threading
import time
from typing import Any, TextIO

__all__ = ["ProgressLine", "wipe"]

_TICK = 0.2
_BAR = 20
_shown_lines: list[ProgressLine] = []


class ProgressLine:
    """One line that rewrites itself, from ``delay`` seconds on, if the stream is a terminal.

    Parameters
    ----------
    title : str
    stream : text file, default=sys.stderr
    enabled : bool or None
        None: only on a terminal.
    delay : float
        Seconds before the line appears.
    """

    def __init__(
        self,
        title: str,
        stream: TextIO | None = None,
        enabled: bool | None = None,
        delay: float = 2.0,
    ) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.enabled = is_terminal(self.stream) if enabled is None else enabled
        self.title = title
        self.delay = delay
        self.started = time.perf_counter()
        self.share = 0.0
        self.detail = ""
        self.steps: tuple[int, int] = (0, 1)
        self.fit: FitProgress | None = None
        self.shown = 0
        self.ended = threading.Event()
        self.thread: threading.Thread | None = None
        self.lock = threading.Lock()

    def __enter__(self) -> ProgressLine:
        if self.enabled:
            self.thread = threading.Thread(target=self._tick, daemon=True)
            self.thread.start()
            _shown_lines.append(self)
        return self

    def __exit__(self, *unused: Any) -> None:
        self.ended.set()
        if self.thread is not None:
            self.thread.join()
            self._write("")
            _shown_lines.remove(self)

    # -- what is told ------------------------------------------------------------------------

    def set(self, done: float, total: float | None, detail: str = "") -> None:
        """Set the number of bytes or rows done and their total, which may be unknown."""
        self.share = done / total if total else 0.0
        self.detail = detail or (f"{done / 1e6:.0f} MB" if not total else "")

    def begin_fit(self, estimator: Any, step: int = 0, steps: int = 1) -> None:
        """A fit starts, number ``step`` of ``steps``."""
        self.fit = FitProgress(estimator)
        self.steps = (step, steps)
        self._advance()

    def watch(self, check: Any, snapshot: Any) -> bool:
        """Watcher of fits: updates the line, never asks to stop."""
        if self.fit is not None:
            self.fit.see(check)
            self._advance()
        return False

    def _advance(self) -> None:
        assert self.fit is not None
        step, steps = self.steps
        self.share = max(self.share, (step + self.fit.share) / steps)
        counted = f"fit {step + 1} of {steps}  " if steps > 1 else ""
        self.detail = counted + self.fit.detail

    # -- what is shown -----------------------------------------------------------------------

    def line(self) -> str:
        """The present text of the line."""
        seconds = time.perf_counter() - self.started
        share = min(max(self.share, 0.0), 1.0)
        parts = [self.title]
        if share > 0.0:
            full = int(share * _BAR)
            parts.append(f"[{'#' * full}{'.' * (_BAR - full)}] {100 * share:3.0f} %")
        if self.detail:
            parts.append(self.detail.strip())
        parts.append(clock(seconds))
        if share > 0.02:
            parts.append(f"about {clock(seconds * (1.0 - share) / share)} left")
        return "  ".join(parts)

    def _tick(self) -> None:
        while not self.ended.wait(_TICK):
            if time.perf_counter() - self.started >= self.delay:
                self._write(self.line())

    def _write(self, text: str) -> None:
        width = max(20, shutil.get_terminal_size().columns - 1)
        text = text[:width]
        with self.lock:
            if not text and not self.shown:
                return
            end = "" if text else "\r"
            with contextlib.suppress(OSError, ValueError):
                self.stream.write("\r" + text.ljust(min(self.shown, width)) + end)
                self.stream.flush()
            self.shown = len(text)


def wipe() -> None:
    """Clear the progress lines for a message; they come back with their next tick."""
    for line in _shown_lines:
        line._write("")


class FitProgress:
    """How far a fit is, from its checks: the schedule of temperatures first, then the gap."""

    def __init__(self, estimator: Any) -> None:
        self.share = 0.0
        self.detail = ""
        self.tol = float(getattr(estimator, "tol", 1e-3))
        self.first_gap: float | None = None
        self.temperatures = _temperatures(estimator)

    def see(self, check: Any) -> None:
        """Note a check."""
        gap = float(check.relative_gap)
        self.detail = f"gap {gap:.1e}" if math.isfinite(gap) else ""
        read = getattr(check, "bytes_read", None)
        if read is not None:
            self.detail = f"{read / 1e6:.0f} MB read, pass {check.iteration}  {self.detail}"
        temperature = getattr(check, "temperature", 0.0)
        if temperature > 0.0 and self.temperatures is not None and len(self.temperatures):
            colder = int((self.temperatures >= temperature).sum())
            self.share = max(self.share, 0.9 * colder / len(self.temperatures))
            return
        if not 0.0 < gap < math.inf:
            return
        if self.first_gap is None:
            self.first_gap = gap
        way = math.log(max(self.first_gap / self.tol, 1.0 + 1e-9))
        done = math.log(max(self.first_gap / gap, 1.0)) / way
        start = 0.9 if self.temperatures is not None else 0.0
        self.share = max(self.share, start + (0.99 - start) * min(done, 1.0))


def _temperatures(estimator: Any) -> Any:
    if getattr(estimator, "assignment", None) != "annealed":
        return None
    from polymargin.problem.annealing import find_annealing

    return find_annealing(estimator.annealing).temperatures(float(estimator.C))


def clock(seconds: float) -> str:
    """Minutes and seconds, hours if there are any."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
    return f"{whole // 60}:{whole % 60:02d}"


def is_terminal(stream: Any) -> bool:
    """Whether the stream is a terminal."""
    import os

    try:
        return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):
        return False
