"""How much a fitted model keeps for prediction, in numbers and bytes.

Two classes with one prototype each need one vector: only the difference of the two prototypes
decides labels, and machines whose prototypes sum to zero have w_1 = -w_2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["classifier_size", "vectors_needed"]


def vectors_needed(model: Any) -> int:
    """Vectors of a linear model, or columns of kernel coefficients, that decide its labels.

    Parameters
    ----------
    model : fitted classifier

    Returns
    -------
    int
        The number of prototypes; 1 for two classes with one prototype each.
    """
    if hasattr(model, "coef_"):
        return len(np.atleast_2d(model.coef_))  # two classes: already the difference
    count = len(getattr(model, "_prototype_class", model.classes_))
    return 1 if count == 2 else count


def classifier_size(model: Any) -> tuple[int, int]:
    """Bytes of a fitted model in float32, and multiplications of one prediction."""
    R = vectors_needed(model)
    if hasattr(model, "prototypes_") or hasattr(model, "coef_"):
        width = np.shape(model.coef_ if hasattr(model, "coef_") else model.prototypes_)[-1]
        return 4 * R * (width + 1), R * (width + 1)
    vectors = model.support_vectors_
    stored = vectors.nnz if sp.issparse(vectors) else vectors.size
    numbers = stored + R * (vectors.shape[0] + 1)
    size = 4 * numbers + (4 * stored if sp.issparse(vectors) else 0)
    return size, numbers + 20 * vectors.shape[0]  # an exponential costs about 20 multiplications
