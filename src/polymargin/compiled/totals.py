"""The sums that compiled loops report: one array, one place for each of them.

A loop adds to the places that it knows and leaves the others alone, so an array can be handed
from call to call: sums go on where the last call stopped, and their rounding does not depend on
where that was.
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "BEFORE",
    "BEST_LOSS",
    "DRAWN_LOSS",
    "GAIN",
    "GAP",
    "HITS",
    "LOSS",
    "MADE",
    "MARGIN",
    "MOVED",
    "NORM",
    "OWN",
    "OWN_LOSS",
    "OWN_WEIGHT",
    "STEPS",
    "VISITS",
    "empty_totals",
]

# what a pass counts: terms of the gap as they were found, gain in D, steps made, variables visited
GAP, GAIN, STEPS, VISITS = range(4)
# what a check sums: C_i xi_i, tau_{i,a_i}, the smallest margin (``screen``: less 1), ||M||^2
LOSS, OWN, MARGIN, NORM = range(4, 8)
# of passes in a row: steps before the present pass (below 0: none has begun), gap of the last one
MADE, BEFORE = range(8, 10)
# kernel rows found in the cache
HITS = 10
# of a reassignment: C_i xi_i for the best, the present and the drawn prototype; weight; changes
BEST_LOSS, OWN_LOSS, DRAWN_LOSS, OWN_WEIGHT, MOVED = range(11, 16)
_PLACES = 16


def empty_totals() -> np.ndarray:
    """An array of totals to which nothing was added yet."""
    totals = np.zeros(_PLACES)
    totals[MARGIN] = np.inf
    totals[MADE] = -1.0
    totals[BEFORE] = 1e-300  # no rate is known yet
    return totals
