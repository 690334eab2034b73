"""Labels and weights as the solvers want them: class numbers, and rows without weight dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.validation import _check_sample_weight

from polymargin.exceptions import shown
from polymargin.problem.plain_labels import refuse_masked

__all__ = ["Encoding", "encode", "encode_known", "sample_weights", "weights_times"]


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
        weight = sample_weights(sample_weight, y)
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
        factor = _balanced(label, weight, len(classes))
    with np.errstate(over="ignore", under="ignore"):
        weighted = weight * factor
    return Encoding(kept, classes, label.astype(np.int64), weight, weighted)


def _balanced(label: np.ndarray, weight: np.ndarray, n_classes: int) -> np.ndarray:
    """Factors that give all classes the same weight, for every example."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        mass = np.bincount(label, weights=weight)
        factor = mass.sum() / (n_classes * mass)
    if not np.isfinite(factor).all():
        raise ValueError(
            f"sample_weight: no double holds what class_weight='balanced' makes of classes whose "
            f"weights are {mass.min():.3g} and {mass.max():.3g}; scale the weights."
        )
    return np.asarray(factor[label])


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
        weight = sample_weights(sample_weight, y)
    if isinstance(class_weight, str):
        raise ValueError(
            f"class_weight={class_weight!r} needs all data at once; give a dict for partial_fit."
        )
    weight = weight * _class_factors(y, class_weight)
    kept = np.flatnonzero(weight > 0)
    if not len(kept):
        raise ValueError("sample_weight is zero for every example; give some a weight.")
    return kept, place[kept].astype(np.int64), weight[kept]


def weights_times(C: float, weighted: np.ndarray) -> np.ndarray:
    """C_i of every example, finite."""
    with np.errstate(over="ignore", under="ignore"):
        cap = C * weighted
    if np.isinf(cap).any():
        raise ValueError("C: C times sample_weight overflows; use a smaller C.")
    return cap


def sample_weights(sample_weight: Any, y: np.ndarray) -> np.ndarray:
    """(n,) weights as given, or ones; refused where they are no weights of these examples."""
    refuse_masked("sample_weight", sample_weight)
    try:
        weight = _check_sample_weight(sample_weight, y, dtype=np.float64)
    except OverflowError:
        raise ValueError("sample_weight: a weight is too large for double precision.") from None
    except ValueError as error:
        text = str(error)
        raise ValueError(text if "sample_weight" in text else f"sample_weight: {text}") from None
    if (weight < 0).any():
        raise ValueError("sample_weight must not be negative; drop those examples instead.")
    return np.asarray(weight)


def _class_factors(y: np.ndarray, class_weight: Any) -> np.ndarray:
    """The class weight of every example; "balanced" waits until the classes are known."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return np.ones(len(y))
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"class_weight must be a dict, 'balanced' or None, got {shown(class_weight)}."
        )
    classes, label = np.unique(y, return_inverse=True)
    try:
        factors = compute_class_weight(dict(class_weight), classes=classes, y=y)
    except OverflowError:
        raise ValueError("class_weight: a weight is too large for double precision.") from None
    if not (factors >= 0).all():
        raise ValueError(
            "class_weight must hold numbers that are not negative; drop the class instead."
        )
    return np.asarray(factors)[label]
