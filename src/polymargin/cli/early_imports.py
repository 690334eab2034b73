"""Libraries that training and writing need, loaded in a second thread while the data are read.

They take two to three seconds, of which scikit-learn and what writes model files are the most; a
time limit should not be spent on them.  Reading does not wait for them: what it needs is imported
before the thread starts.
"""

from __future__ import annotations

import contextlib
import importlib
import threading

__all__ = ["begin_imports"]

_READING = ("numpy", "scipy.sparse", "polymargin.datasets")
_TRAINING = ("sklearn.pipeline", "sklearn.preprocessing", "polymargin.estimators.auto")
_WRITING = ("skops.io", "polymargin.storage.model_file")


def begin_imports(writes: bool) -> threading.Thread:
    """Start loading; ``join`` the thread before anything is trained.

    A library that cannot be loaded is skipped here: its first use raises the error.
    """
    for name in _READING:
        importlib.import_module(name)
    thread = threading.Thread(target=_load, args=(_TRAINING + _WRITING * writes,))
    thread.start()
    return thread


def _load(names: tuple[str, ...]) -> None:
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
