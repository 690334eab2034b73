"""Further classes of a fitted prototype model: prototypes of zeros in the right places."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.problem.first_assignment import count_prototypes

__all__ = ["add_classes"]


def add_classes(model: Any, classes: np.ndarray) -> np.ndarray:
    """Give a model prototypes of zeros for labels it has not seen; which classes are new.

    Prototypes follow the order of ``classes``, so that old ones may get other numbers;
    ``assignment_`` keeps the old numbers until the next step replaces it.

    Parameters
    ----------
    model : fitted MultiPrototypeSVC with a linear kernel
    classes : ndarray of shape (Q,)
        Sorted labels, all old ones among them.

    Returns
    -------
    ndarray of bool of shape (Q,)
    """
    place = np.searchsorted(classes, model.classes_)
    is_new = np.ones(len(classes), dtype=bool)
    is_new[place] = False
    counts = np.zeros(len(classes), dtype=np.int64)
    counts[place] = np.bincount(model._prototype_class, minlength=len(model.classes_))
    asked = model.n_prototypes
    if isinstance(asked, str) or np.ndim(asked) == 1:
        asked = int(np.median(counts[place]))
    counts[is_new] = count_prototypes(asked, classes, None)[is_new]
    owner = np.repeat(np.arange(len(classes)), counts)
    old = ~is_new[owner]
    prototypes = np.zeros((len(owner), model.prototypes_.shape[1]))
    intercept = np.zeros(len(owner))
    prototypes[old], intercept[old] = model.prototypes_, model.intercept_
    model.prototypes_, model.intercept_ = prototypes, intercept
    model.classes_, model._prototype_class = classes, owner
    model.prototype_classes_ = classes[owner]
    return is_new
