"""The machine and the versions behind the numbers, and the check that one thread is used."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Imported for the libraries they load: pools of threads show up only once they are there.
import numpy  # noqa: F401
import scipy.linalg  # noqa: F401
import sklearn.svm  # noqa: F401
from threadpoolctl import threadpool_info

__all__ = ["describe", "facts", "require_one_thread"]

_PACKAGES = ("polymargin", "numpy", "scipy", "scikit-learn", "numba", "llvmlite")
_BUSY = 0.5


def require_one_thread() -> None:
    """Raise unless every BLAS and OpenMP pool of this process has one thread."""
    wide = [pool for pool in threadpool_info() if pool["num_threads"] != 1]
    if wide:
        found = ", ".join(f"{pool['internal_api']}: {pool['num_threads']}" for pool in wide)
        raise RuntimeError(
            f"thread pools with more than one thread ({found}); was NumPy imported before the "
            "package benchmarks?"
        )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (AttributeError, OSError, ValueError):
        return None


def _load() -> float | None:
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def _pools() -> list[dict[str, Any]]:
    keys = ("user_api", "internal_api", "version", "architecture", "num_threads")
    return [{key: pool.get(key) for key in keys if pool.get(key)} for pool in threadpool_info()]


def facts() -> dict[str, Any]:
    """Processor, memory, system, versions, thread pools, load before the run, date."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
        "thread_pools": _pools(),
        "load_before": _load(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def describe(found: dict[str, Any]) -> str:
    """The facts in a few lines for people."""
    pools = "; ".join(
        f"{pool['internal_api']} {pool.get('version', '')}".strip() + f": {pool['num_threads']}"
        for pool in found["thread_pools"]
    )
    packages = ", ".join(f"{name} {number}" for name, number in found["packages"].items())
    lines = [
        f"{found['cpu']}, {found['cores']} cores, {found['memory_gb']} GB, {found['system']}",
        f"Python {found['python']}, {packages}",
        f"threads: {pools}",
    ]
    if (found["load_before"] or 0.0) > _BUSY:
        lines.append(f"the machine is busy (load {found['load_before']}): expect noise")
    return "\n".join(lines)
