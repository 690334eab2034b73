"""Which classes the active variables of a pattern belong to."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.compiled.jit import jit

__all__ = ["class_sets"]


@jit
def class_sets(patterns: Any, duals: Any, out: Any) -> None:
    """``out[k]``: a bit for every class of the active prototypes of ``patterns[k]``."""
    for k in range(len(patterns)):
        p = patterns[k]
        found = np.uint64(0)
        for q in range(duals.n_active[p]):
            c = duals.prototype_class[np.intp(duals.active[p, q])]
            found |= np.uint64(1) << np.uint64(c)
        out[k] = found
