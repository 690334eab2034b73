"""Breiman's waveform data: three classes, 21 features, any number of examples.

An example is a random mixture of two of three triangular waves, plus unit normal noise in every
feature; the class says which two (Breiman et al., Classification and Regression Trees, 1984).
"""

from __future__ import annotations

import numpy as np

__all__ = ["waveform"]

_PEAKS = (7, 15, 11)
_WAVES_OF_CLASS = np.array([[0, 1], [0, 2], [1, 2]])


def waveform(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(n, 21) features and class numbers 0, 1, 2 with equal chances."""
    rng = np.random.default_rng(seed)
    places = np.arange(1, 22)
    waves = np.array([np.maximum(6.0 - np.abs(places - peak), 0.0) for peak in _PEAKS])
    y = rng.integers(3, size=n)
    share = rng.random((n, 1))
    first, second = waves[_WAVES_OF_CLASS[y, 0]], waves[_WAVES_OF_CLASS[y, 1]]
    return share * first + (1.0 - share) * second + rng.normal(size=(n, 21)), y
