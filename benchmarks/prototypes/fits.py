"""What the parts share: one processor_seconds fit with a seed, and summaries over seeds."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Iterable
from typing import Any

from benchmarks.competitors import percent_wrong
from benchmarks.data import DataSet
from benchmarks.options import Options
from benchmarks.timing import processor_seconds

__all__ = ["fit_seed", "mean", "note", "seeds", "spread"]

_SEEDS = (0, 1, 2)
_QUICK_SEEDS = (0, 1)


def seeds(options: Options) -> tuple[int, ...]:
    """The seeds behind a mean: always the same, whatever ``--repeat`` says of medians."""
    return _QUICK_SEEDS if options.quick else _SEEDS


def mean(values: Iterable[float]) -> float:
    """The mean as a float."""
    return float(statistics.fmean(values))


def spread(values: list[float]) -> float:
    """Standard deviation of one run; 0 where there is only one."""
    return float(statistics.stdev(values)) if len(values) > 1 else 0.0


def fit_seed(model: Any, data: DataSet) -> dict[str, Any]:
    """One processor_seconds fit: what it reached, and its test error; warnings are kept by name."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seconds, _ = processor_seconds(model.fit, data.X_train, data.y_train)
    return {
        "seed": model.random_state,
        "seconds": seconds,
        "energy": model.energy_,
        "gap": model.certificate_.relative_gap,
        "status": model.status_,
        "stationary": bool(model.stationary_),
        "error": percent_wrong(model, data.X_test, data.y_test),
        "alive": int(model.alive_.sum()),
        "prototypes": len(model.alive_),
        "warnings": sorted({warning.category.__name__ for warning in caught}),
    }


def note(runs: list[dict[str, Any]]) -> str:
    """What a reader of the row has to know."""
    parts = sorted({str(one["status"]) for one in runs} - {"converged"})
    parts += sorted({name for one in runs for name in one["warnings"]})
    return ", ".join(parts)
