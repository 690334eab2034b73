"""AutoSVC: training data as the race and the final fit take them."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from polymargin.compiled.memory import rows_of
from polymargin.estimators.auto_limits import EncodedTable
from polymargin.problem.constant_features import settle_constants
from polymargin.problem.encoding import encode
from polymargin.problem.validation import canonical, validate_named

__all__ = ["Ready", "prepare", "scaled"]


_BLOCK = 1 << 20  # numbers of a block, 8 MB
_LARGEST = 1e150  # squares of larger deviations overflow


class Ready(NamedTuple):
    """Training data after validation: rows with weight; ``scaled`` takes some and scales them."""

    X: Any
    y: np.ndarray
    label: np.ndarray
    weight: np.ndarray | None
    groups: np.ndarray | None
    scaler: StandardScaler | MinMaxScaler | None
    scaling: str  # "standard", "clipped", "common" or "none"
    table: EncodedTable | None = None  # from which X was made; "clipped" takes its limits


def prepare(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    groups: Any,
    table: EncodedTable | None = None,
) -> Ready:
    """Validate, drop rows without weight, fit the scaler."""
    X, y = validate_named(
        estimator, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C"
    )
    check_classification_targets(y)
    groups = _checked_groups(groups, y)
    found = encode(y, sample_weight, estimator.class_weight)
    X = canonical(X)
    if len(found.kept) < len(y):
        X, y = rows_of(X, found.kept), y[found.kept]
        groups = None if groups is None else groups[found.kept]
        table = None  # its rows are others
    weight = None if sample_weight is None else found.weight
    scaler = None
    if estimator.scale == "auto" and not sp.issparse(X):
        scaler = _fitted_scaler(X, weight)
    scaling = "none" if scaler is None else "standard"
    return Ready(X, y, found.label, weight, groups, scaler, scaling, table)


def _fitted_scaler(X: np.ndarray, weight: np.ndarray | None) -> StandardScaler:
    """Means and deviations, in blocks that stay in the cache: twice as fast as all rows at once."""
    scaler = StandardScaler()
    step = max(1, _BLOCK // X.shape[1])
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        with warnings.catch_warnings():
            # overflow is refused below, with the name of the feature
            warnings.simplefilter("ignore", RuntimeWarning)
            scaler.partial_fit(X[rows], sample_weight=None if weight is None else weight[rows])
    is_small = np.abs(scaler.scale_) <= _LARGEST  # false for nan
    if not is_small.all():
        k = int(np.argmin(is_small))
        raise ValueError(
            f"X: feature {k} has values up to {np.abs(X[:, k]).max():.3g}, whose squares overflow; "
            "divide it by a constant first."
        )
    settle_constants(scaler)
    return scaler


def _checked_groups(groups: Any, y: np.ndarray) -> np.ndarray | None:
    if groups is None:
        return None
    groups = np.asarray(groups)
    check_consistent_length(y, groups)
    if len(np.unique(groups)) < 2:
        raise ValueError("groups: all rows are of one group; at least two are needed.")
    return groups


def scaled(ready: Ready, rows: np.ndarray) -> Ready:
    """Some of the rows, scaled."""
    is_all = len(rows) == len(ready.label)
    if ready.table is not None and ready.scaling == "clipped":
        X = canonical(ready.table.features(rows))
    else:
        X = ready.X if is_all else rows_of(ready.X, rows)
    if isinstance(ready.scaler, StandardScaler):
        X = ready.scaler.transform(X, copy=is_all)
    elif ready.scaler is not None:
        X = ready.scaler.transform(X)
    return Ready(
        X,
        ready.y[rows],
        ready.label[rows],
        None if ready.weight is None else ready.weight[rows],
        None if ready.groups is None else ready.groups[rows],
        ready.scaler,
        ready.scaling,
        ready.table,
    )
