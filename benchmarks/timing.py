"""Clocks and scales: seconds of a call, medians, geometric means, peak memory, fresh processes."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

__all__ = [
    "MemoryWatch",
    "geometric_mean",
    "has_memory_watch",
    "in_fresh_process",
    "median",
    "processor_seconds",
    "timed",
]

_STATM = Path("/proc/self/statm")
_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_SAMPLE_SECONDS = 0.005

Result = TypeVar("Result")


def timed(function: Callable[..., Result], *arguments: Any) -> tuple[float, Result]:
    """Seconds that a call took, and what it returned."""
    gc.collect()
    started = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - started, result


def processor_seconds(function: Callable[..., Result], *arguments: Any) -> tuple[float, Result]:
    """Seconds of this process that a call took, and what it returned.

    Where everything runs on one thread this is the time on an idle machine: waiting for others
    does not count.
    """
    gc.collect()
    started = time.process_time()
    result = function(*arguments)
    return time.process_time() - started, result


def median(values: Iterable[float]) -> float:
    """The median as a float."""
    return float(statistics.median(values))


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive numbers."""
    return statistics.geometric_mean(values)


def in_fresh_process(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call an importable function in a new interpreter and return what it returned."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def has_memory_watch() -> bool:
    """Whether this system tells the resident memory of a process (Linux)."""
    return _STATM.exists()


class MemoryWatch:
    """Peak resident memory of this process, in bytes above the level at entry.

    A thread samples the resident size every 5 ms.  As a check, the kernel's own high-water mark is
    reset at entry and read at exit; where it cannot be reset, ``ru_maxrss`` takes its place, which
    knows the whole life of the process and is therefore only an upper bound.

    Attributes
    ----------
    level : int
        Resident bytes at entry, after freed memory was given back to the system.
    sampled, high_water : int
        The peak above it by samples, and by the kernel.
    lifetime_peak : int
        ``ru_maxrss``: not above the level, and of the whole life of the process.
    high_water_is_exact : bool
        Whether the mark could be reset.
    """

    level = 0
    sampled = 0
    high_water = 0
    lifetime_peak = 0
    high_water_is_exact = False

    def __enter__(self) -> MemoryWatch:
        gc.collect()
        _give_back_freed_memory()
        self._file = os.open(_STATM, os.O_RDONLY)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.level = self._resident()
        self.high_water_is_exact = _reset_high_water()
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()
        os.close(self._file)
        self.lifetime_peak = _lifetime_peak()
        mark = _high_water() if self.high_water_is_exact else self.lifetime_peak
        self.high_water = mark - self.level

    def _resident(self) -> int:
        pages = int(os.pread(self._file, 256, 0).split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _look(self) -> None:
        self.sampled = max(self.sampled, self._resident() - self.level)

    def _sample(self) -> None:
        while not self._stop.wait(_SAMPLE_SECONDS):
            self._look()


def _give_back_freed_memory() -> None:
    """So that memory freed before cannot hide what is allocated next (glibc only)."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _reset_high_water() -> bool:
    try:
        _CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def _high_water() -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return _lifetime_peak()


def _lifetime_peak() -> int:
    import resource  # absent on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
