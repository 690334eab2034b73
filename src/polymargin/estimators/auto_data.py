"""AutoSVC: training data as the race and the final fit take them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from polymargin.compiled.memory import rows_of
from polymargin.problem.encoding import encode
from polymargin.problem.validation import canonical, validate_named

__all__ = ["Ready", "prepare", "scaled"]


class Ready(NamedTuple):
    """Training data after validation: rows with weight; ``scaled`` takes some and scales them."""

    X: Any
    y: np.ndarray
    label: np.ndarray
    weight: np.ndarray | None
    groups: np.ndarray | None
    scaler: StandardScaler | None


def prepare(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> Ready:
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
    weight = None if sample_weight is None else found.weight
    scaler = None
    if estimator.scale == "auto" and not sp.issparse(X):
        scaler = StandardScaler().fit(X, sample_weight=weight)
        if hasattr(estimator, "feature_names_in_"):
            scaler.feature_names_in_ = estimator.feature_names_in_
    return Ready(X, y, found.label, weight, groups, scaler)


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
    X = ready.X if is_all else rows_of(ready.X, rows)
    return Ready(
        X if ready.scaler is None else ready.scaler.transform(X),
        ready.y[rows],
        ready.label[rows],
        None if ready.weight is None else ready.weight[rows],
        None if ready.groups is None else ready.groups[rows],
        ready.scaler,
    )
