"""Every allocation of a fit fails once: the error arrives, the earlier model and settings stay."""

import signal
import warnings

import numpy as np
import pytest
from commands import FAULTS
from threadpoolctl import threadpool_info

from polymargin import ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC
from polymargin.compiled import memory

rng = np.random.default_rng(0)
Y = np.repeat([0, 1, 2], 20)
X = rng.normal(size=(60, 4)) + 2.0 * np.eye(3, 4)[Y]
MODELS = {
    "cs linear": MulticlassSVC(random_state=0),
    "cs rbf": MulticlassSVC(kernel="rbf", random_state=0),
    "ww": MulticlassSVC("ww", random_state=0),
    "msvm2 rbf": MulticlassSVC("msvm2", kernel="rbf", random_state=0),
    "prototypes": MultiPrototypeSVC(2, random_state=0),
    "hull": ConvexHullSVC(eta=0.2),
}
POINTS = 12 if FAULTS <= 3 else 10**6
"""Allocations that fail, spread over the fit; all of them with ``make faults``."""


class Failing:
    """An allocator whose k-th call fails."""

    def __init__(self, allocate):
        self.allocate = allocate
        self.calls = 0
        self.fails_at = None

    def __call__(self, *args, **options):
        self.calls += 1
        if self.calls == self.fails_at:
            raise MemoryError("Unable to allocate (made up)")
        return self.allocate(*args, **options)


def library_threads():
    return [pool["num_threads"] for pool in threadpool_info()]


@pytest.mark.parametrize("source", ["memory", "zeros", "empty"])
@pytest.mark.parametrize("name", MODELS)
def test_failing_allocations(name, source, monkeypatch):
    model = MODELS[name]
    place, word = (memory, "zeros") if source == "memory" else (np, source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y)
        before = model.decision_function(X)
        threads = library_threads()
        allocator = Failing(getattr(place, word))
        monkeypatch.setattr(place, word, allocator)  # nothing outside makes one call of many fail
        model.fit(X, Y)
        total, survived = allocator.calls, 0
        for k in np.unique(np.linspace(1, total, min(POINTS, total)).astype(int)) if total else ():
            allocator.calls, allocator.fails_at = 0, k
            try:
                model.fit(X, Y)
                survived += 1  # done with less
            except MemoryError:
                pass
            finally:
                allocator.fails_at = None
            np.testing.assert_array_equal(model.decision_function(X), before, err_msg=f"{k}")
            assert library_threads() == threads
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        model.fit(X, Y)
    np.testing.assert_array_equal(model.decision_function(X), before)
    assert source == "memory" or survived < total
