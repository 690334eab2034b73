"""Labels and weights as the solvers want them: class numbers, and rows without weight dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.validation import _check_sample_weight

__all__ = ["Encoding", "encode", "encode_known"]


class Encoding(NamedTuple):
    """The rows that count, their class numbers, sample weights, and these times class weights."""

    kept: np.ndarray
    classes: np.ndarray
    label: np.ndarray
    weight: np.ndarray
    weighted: np.ndarray


def encode(y: np.ndarray, sample_weight: Any, class_weight: Any) -> Encoding:
    """Rows with weight, their classes and weights; rows without are dropped first (19.1).

    Parameters
    ----------
    y : (n,) labels.
    sample_weight : (n,) non-negative weights or None.
    class_weight : mapping from label to weight, "balanced" or None.
    """
    weight = np.ones(len(y))
    if sample_weight is not None:
        weight = _check_sample_weight(sample_weight, y, dtype=np.float64)
        if (weight < 0).any():
            raise ValueError("sample_weight must not be negative; drop those examples instead.")
    factor = _class_factors(y, class_weight)
    kept = np.flatnonzero((weight > 0) & (factor > 0))
    if not len(kept):
        raise ValueError("sample_weight is zero for every example; give some a weight.")
    classes, label = np.unique(y[kept], return_inverse=True)
    if len(classes) < 2:
        weighted = "" if len(kept) == len(y) else " with non-zero weight"
        raise ValueError(
            f"The number of classes has to be greater than one; got {len(classes)} class"
            f"{weighted}: add examples of another class to y."
        )
    if len(classes) > np.iinfo(np.int16).max:
        raise ValueError(f"y has {len(classes)} classes; at most 32767 are supported.")
    weight, factor = weight[kept], factor[kept]
    if isinstance(class_weight, str):
        mass = np.bincount(label, weights=weight)
        factor = (mass.sum() / (len(classes) * mass))[label]
    return Encoding(kept, classes, label.astype(np.int64), weight, weight * factor)


def encode_known(
    y: np.ndarray, sample_weight: Any, class_weight: Any, classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with weight, their class numbers among known classes, and their weights."""
    if len(classes) < 2:
        raise ValueError(
            "The number of classes has to be greater than one; name all of them in classes."
        )
    place = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = np.flatnonzero(classes[place] != y)
    if len(unknown):
        raise ValueError(
            f"y has the label {y[unknown[0]]!r}, which is not among the classes {classes.tolist()}."
        )
    weight = np.ones(len(y))
    if sample_weight is not None:
        weight = _check_sample_weight(sample_weight, y, dtype=np.float64)
        if (weight < 0).any():
            raise ValueError("sample_weight must not be negative; drop those examples instead.")
    if isinstance(class_weight, str):
        raise ValueError(
            f"class_weight={class_weight!r} needs all data at once; give a dict for partial_fit."
        )
    weight = weight * _class_factors(y, class_weight)
    kept = np.flatnonzero(weight > 0)
    if not len(kept):
        raise ValueError("sample_weight is zero for every example; give some a weight.")
    return kept, place[kept].astype(np.int64), weight[kept]


def _class_factors(y: np.ndarray, class_weight: Any) -> np.ndarray:
    """The class weight of every example; "balanced" waits until the classes are known."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return np.ones(len(y))
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be a dict, 'balanced' or None, got {class_weight!r}.")
    classes, label = np.unique(y, return_inverse=True)
    factors = compute_class_weight(dict(class_weight), classes=classes, y=y)
    if not (factors >= 0).all():
        raise ValueError("class_weight must not be negative; drop the class instead.")
    return np.asarray(factors)[label]
