"""The first assignment of examples to prototypes: counts per class, k-means, random, or given.

Identical rows of a class start at the same prototype, and every choice depends on the set of
distinct rows and their total weights only: an example of weight two is the example twice.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans

from polymargin.exceptions import shown, warn_user

__all__ = ["count_distinct", "count_prototypes", "initial_assignment", "row_keys"]

_KMEANS_ROWS = 5000  # distinct rows of a class that k-means looks at
_KMEANS_PASSES = 20
_SQUARES_FIT = (1e-15, 1e15)  # the largest number of rows whose distances float32 can hold
_MOST = 2**31  # prototypes of a class that are told from more: no data have as many rows


def count_distinct(keys: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Distinct examples of each class."""
    return np.array([len(np.unique(keys[label == c])) for c in range(int(label.max()) + 1)])


def count_prototypes(
    n_prototypes: Any, classes: np.ndarray, present: np.ndarray | None
) -> np.ndarray:
    """Prototypes of each class; a class with fewer examples gets as many as it has, and a warning.

    Parameters
    ----------
    n_prototypes : int, mapping from label to int, or sequence of ints in the order of ``classes``.
    present : (n_classes,) distinct examples of each class, None if more will come.
    """
    if isinstance(n_prototypes, Mapping):
        unknown = [key for key in n_prototypes if not (classes == key).any()]
        if unknown:
            raise ValueError(f"n_prototypes names {unknown[0]!r}, which is not a class of y.")
        missing = [c for c in classes.tolist() if c not in n_prototypes]
        if missing:
            raise ValueError(f"n_prototypes has no count for class {missing[0]!r}; add one.")
        wanted = [n_prototypes[c] for c in classes.tolist()]
    elif isinstance(n_prototypes, numbers.Number):
        wanted = [n_prototypes] * len(classes)
    else:
        wanted = list(n_prototypes) if np.ndim(n_prototypes) == 1 else [n_prototypes]
        if len(wanted) != len(classes):
            raise ValueError(
                f"n_prototypes has {len(wanted)} counts for {len(classes)} classes; give one "
                "number, or one per class in sorted order."
            )
    for count in wanted:
        if isinstance(count, bool) or not isinstance(count, numbers.Integral) or count < 1:
            raise ValueError(
                f"n_prototypes must be an integer >= 1 (or several), got {shown(count)}."
            )
    # more than there are rows is cut below; numbers beyond 64 bits are cut here
    counts = np.array([min(int(count), _MOST) for count in wanted], dtype=np.int64)
    if present is not None and (counts > present).any():
        short = np.flatnonzero(counts > present)
        c = int(short[0])
        name = classes[c : c + 1].tolist()[0]
        others = len(short) - 1
        more = f" (and {others} more class{'es' if others > 1 else ''})" if others else ""
        warn_user(
            f"n_prototypes: class {name!r} has {present[c]} different example(s), fewer than the "
            f"{counts[c]} prototypes asked for; it gets {present[c]}{more}.",
            UserWarning,
        )
        counts[short] = present[short]
    if counts.sum() > np.iinfo(np.int16).max:
        raise ValueError(
            f"n_prototypes asks for {counts.sum()} prototypes; at most 32767 are supported."
        )
    return counts


def initial_assignment(
    init: Any,
    X: Any,
    label: np.ndarray,
    weight: np.ndarray,
    counts: np.ndarray,
    seed: Any,
    is_vectors: bool = True,
    keys: np.ndarray | None = None,
) -> np.ndarray:
    """The prototype of every example, numbered class by class.

    Parameters
    ----------
    init : "auto", "random", "kmeans", (n,) prototype numbers, or (R, d) prototypes.
    weight : (n,) weights of the examples.
    counts : (n_classes,) prototypes of each class.
    is_vectors : bool
        Whether rows of X are vectors (not so for a precomputed kernel).
    keys : (n,) ``row_keys(X)`` if at hand.
    """
    first = np.concatenate([[0], np.cumsum(counts)])
    if not isinstance(init, str):
        given = np.asarray(init)
        if given.ndim == 2:
            return _by_scores(given, X, label, first, is_vectors)
        return _checked(given, label, first)
    if init not in ("auto", "random", "kmeans"):
        raise ValueError(
            "init must be 'auto', 'random', 'kmeans', an array of prototype numbers or an array "
            f"of prototypes, got {shown(init)}."
        )
    if init == "kmeans" and not is_vectors:
        raise ValueError(
            "init='kmeans' needs vectors, which kernel='precomputed' does not have; use 'random'."
        )
    by_means = is_vectors and init != "random"
    keys = row_keys(X) if keys is None else keys
    own = np.empty(len(label), dtype=np.int64)
    for c, q in enumerate(counts):
        members = np.flatnonzero(label == c)
        if not len(members):
            continue
        _, example, group = np.unique(keys[members], return_index=True, return_inverse=True)
        mass = np.bincount(group, weights=weight[members])
        rng = np.random.default_rng([*np.atleast_1d(seed), c])
        if q == 1 or len(example) <= q:
            place = np.arange(len(example)) % q
        elif by_means:
            place = _cluster(X[members[example]], mass, int(q), rng)
        else:
            place = rng.permutation(len(example)) % q
        own[members] = first[c] + place[group.ravel()]
    return own


_HEAVIEST = 1e30


def row_keys(X: Any) -> np.ndarray:
    """A number per row, equal for equal rows: the same products summed in the same order."""
    direction = np.random.default_rng(0).standard_normal(X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        keys = _products(X, direction)
        if np.isfinite(keys).all():
            return keys
        return _products(X, direction * 2.0**-100)


def _products(X: Any, direction: np.ndarray) -> np.ndarray:
    if sp.issparse(X):
        return np.asarray(X.astype(np.float64) @ direction)
    keys = np.empty(X.shape[0])
    size = max(1, 500_000 // X.shape[1])
    for start in range(0, X.shape[0], size):
        keys[start : start + size] = (X[start : start + size] * direction).sum(axis=1)
    return keys


def _cluster(rows: Any, mass: np.ndarray, q: int, rng: np.random.Generator) -> np.ndarray:
    """Clusters of a class by k-means on at most ``_KMEANS_ROWS`` of its distinct rows."""
    rows = _of_moderate_size(rows)
    if not 1.0 / _HEAVIEST < mass.max() < _HEAVIEST:  # k-means casts them to the type of the rows
        mass = np.maximum(mass / mass.max(), 1.0 / _HEAVIEST)
    means = KMeans(q, n_init=1, max_iter=_KMEANS_PASSES, random_state=int(rng.integers(2**31 - 1)))
    if rows.shape[0] <= _KMEANS_ROWS:
        return np.asarray(means.fit(rows, sample_weight=mass).labels_)
    some = np.sort(rng.choice(rows.shape[0], _KMEANS_ROWS, replace=False))
    return np.asarray(means.fit(rows[some], sample_weight=mass[some]).predict(rows))


def _of_moderate_size(rows: Any) -> Any:
    """The rows, divided by a power of two where squares of their numbers leave the range."""
    values = rows.data if sp.issparse(rows) else rows
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0 or _SQUARES_FIT[0] < largest < _SQUARES_FIT[1]:
        return rows
    return rows.astype(np.float64) * 2.0 ** -np.frexp(largest)[1]


def _checked(given: np.ndarray, label: np.ndarray, first: np.ndarray) -> np.ndarray:
    """An assignment as given: every example at a prototype of its own class."""
    if given.shape != label.shape or given.dtype.kind not in "iu":
        raise ValueError(
            f"init must have one prototype number per example ({len(label)}), got an array of "
            f"shape {given.shape} and dtype {given.dtype}."
        )
    wrong = np.flatnonzero((given < first[label]) | (given >= first[label + 1]))
    if len(wrong):
        i = int(wrong[0])
        low, high = first[label[i]], first[label[i] + 1] - 1
        raise ValueError(
            f"init assigns example {i} to prototype {given[i]}; its class has the prototypes "
            f"{low} to {high}."
        )
    return given.astype(np.int64)


def _by_scores(
    given: np.ndarray, X: Any, label: np.ndarray, first: np.ndarray, is_vectors: bool
) -> np.ndarray:
    """Each example to the prototype of its class that scores highest."""
    if not is_vectors or given.shape != (first[-1], X.shape[1]):
        raise ValueError(
            f"init: an array of prototypes must have shape ({first[-1]}, {X.shape[1]}) here, "
            f"got {given.shape}."
        )
    if not np.isfinite(given).all():
        raise ValueError("init: the prototypes have NaN or infinite entries.")
    own = np.empty(len(label), dtype=np.int64)
    for c in range(len(first) - 1):
        members = np.flatnonzero(label == c)
        block = given[first[c] : first[c + 1]].astype(np.float64)
        own[members] = first[c] + np.asarray(X[members] @ block.T).argmax(axis=1)
    return own
