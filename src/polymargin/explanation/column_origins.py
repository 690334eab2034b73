"""From which column of the input table each feature that the classifier sees was made.

A category becomes one feature per value, a number with gaps a number and a mark of the gap, a text
one feature per word.  People know the columns; contributions are summed over the features of each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder

from polymargin.estimators.inspection import Parts
from polymargin.estimators.scalers import is_scaler
from polymargin.tables.table_columns import TableColumns

__all__ = ["column_origins"]


def column_origins(parts: Parts, n_columns: int, n_features: int) -> np.ndarray | None:
    """(n_features,) number of the input column of each feature.

    None where features are the columns themselves, and where a step mixes columns (PCA) or is not
    known.
    """
    origin = np.arange(n_columns)
    for step in parts.steps:
        found = _after(step, origin)
        if found is None:
            return None
        origin = found
    if not any(map(_encodes, parts.steps)) or len(origin) != n_features:
        return None
    return origin


def _encodes(step: Any) -> bool:
    """Whether a step turns columns into other features, not only scales them."""
    if isinstance(step, Pipeline):
        return any(_encodes(one) for _, one in step.steps)
    if isinstance(step, SimpleImputer):
        return bool(step.add_indicator)
    return isinstance(step, ColumnTransformer | OneHotEncoder | CountVectorizer)


def _after(step: Any, origin: np.ndarray) -> np.ndarray | None:
    """Origins of the features that a step makes of features with these origins."""
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return origin
    if isinstance(step, str):  # "drop"
        return origin[:0]
    if isinstance(step, Pipeline):
        for _, one in step.steps:
            found = _after(one, origin)
            if found is None:
                return None
            origin = found
        return origin
    if isinstance(step, ColumnTransformer):
        return _of_transformer(step, origin)
    return _of_encoder(step, origin)


def _of_encoder(step: BaseEstimator, origin: np.ndarray) -> np.ndarray | None:
    if isinstance(step, TableColumns):
        return np.arange(step.n_features_in_)  # by name, whatever else the table holds
    if isinstance(step, OneHotEncoder):
        # names of one column after the other; the encoder itself knows how many are left of each
        counts = [len(values) for values in _one_hot_values(step)]
        return np.repeat(origin, counts)
    if isinstance(step, SimpleImputer):
        kept = origin
        if not step.keep_empty_features and step.statistics_.dtype.kind == "f":
            kept = origin[~np.isnan(step.statistics_)]
        marks = step.indicator_.features_ if step.add_indicator else []
        return np.concatenate([kept, origin[np.asarray(marks, dtype=np.intp)]])
    if isinstance(step, CountVectorizer) and len(origin) == 1:
        return np.repeat(origin, len(step.vocabulary_))
    is_identity = isinstance(step, FunctionTransformer) and step.func is None  # "passthrough"
    if isinstance(step, OrdinalEncoder) or is_identity or is_scaler(step):
        return origin
    return None


def _one_hot_values(step: OneHotEncoder) -> list[Any]:
    """Per column the values that have a feature; the rare ones share one."""
    found = []
    rare = step.infrequent_categories_ if hasattr(step, "infrequent_categories_") else None
    for k, values in enumerate(step.categories_):
        few = None if rare is None else rare[k]
        n = len(values) - (0 if few is None else len(few) - 1)
        dropped = step.drop_idx_ is not None and step.drop_idx_[k] is not None
        found.append(range(n - int(dropped)))
    return found


def _of_transformer(step: ColumnTransformer, origin: np.ndarray) -> np.ndarray | None:
    """Parts side by side; ``output_indices_`` says where each of them stands."""
    width = max((place.stop for place in step.output_indices_.values()), default=0)
    found = np.full(width, -1)
    for name, part, _ in step.transformers_:
        place = step.output_indices_[name]
        if place.stop == place.start:
            continue
        taken = np.atleast_1d(np.asarray(step._transformer_to_input_indices[name], dtype=np.intp))
        made = _after(part, origin[taken])
        if made is None or len(made) != place.stop - place.start:
            return None
        found[place] = made
    return None if (found < 0).any() else found
