"""The first step of a Pipeline that takes a raw table: columns by name, in order, made uniform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from polymargin.datasets.text_values import (
    dates_from_texts,
    is_missing,
    number_from_text,
    without_unit,
)
from polymargin.exceptions import shown

__all__ = ["KINDS", "TableColumns", "column_matrix", "uniform_column"]

KINDS = ("number", "date", "category", "text")


class TableColumns(TransformerMixin, BaseEstimator):
    """Take the columns of a table by name and make their values uniform.

    Numbers become float64 with nan for what is missing, dates days since 1970 (UTC; times without
    a day the share of the day), categories and
    texts str with ``""`` for what is missing.  The result is a float64 array if there are only
    numbers and dates, else an array of objects; the steps that follow address columns by number.

    Parameters
    ----------
    columns : sequence of (name, kind, format)
        ``kind`` is "number", "date", "category" or "text"; ``format`` is that of dates ("iso" or
        as ``datetime.strptime`` takes it, several with " or " between them), the unit that stands
        beside numbers ("$", "%", "cm"), or None.

    Attributes
    ----------
    feature_names_in_ : ndarray of shape (n_columns,)
    n_features_in_ : int
    """

    def __init__(self, columns: Sequence[tuple[str, str, str | None]] = ()) -> None:
        self.columns = columns

    def fit(self, X: Any, y: Any = None) -> TableColumns:
        """Check the parameter; nothing is learnt."""
        names = [name for name, _, _ in self.columns]
        for name, kind, _ in self.columns:
            if kind not in KINDS:
                raise ValueError(
                    f"columns: kind of {name!r} must be one of {KINDS}, got {shown(kind)}"
                )
        if len(set(names)) < len(names) or not names:
            raise ValueError("columns must name at least one column, and none of them twice")
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The uniform columns.

        Parameters
        ----------
        X : data frame, mapping of names to columns, structured array, or 2-D array
            The first three in any order of columns, others ignored; an array in the order of
            ``columns``.

        Returns
        -------
        ndarray of shape (n_samples, n_columns)
        """
        check_is_fitted(self)
        given = [
            uniform_column(_take(X, k, name), name, kind, form)
            for k, (name, kind, form) in enumerate(self.columns)
        ]
        return column_matrix(given)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns."""
        check_is_fitted(self)
        return self.feature_names_in_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.no_validation = True
        return tags


def _take(X: Any, k: int, name: str) -> Any:
    """A column by name, or by number from an array without names."""
    if hasattr(X, "columns") or isinstance(X, dict):
        known = list(X.columns if hasattr(X, "columns") else X)
        if name not in known:
            raise ValueError(f"X lacks the column {name!r}")
        return np.asarray(X[name], dtype=object)
    X = np.asarray(X) if not hasattr(X, "dtype") else X
    if X.dtype.names is not None:
        if name not in X.dtype.names:
            raise ValueError(f"X lacks the column {name!r}")
        return X[name]
    if X.ndim != 2 or X.shape[1] <= k:
        raise ValueError(f"X must be a table that has the column {name!r}, got shape {X.shape}")
    return X[:, k]


def uniform_column(values: Any, name: str, kind: str, form: str | None) -> np.ndarray:
    """The values of one column in the form that ``TableColumns`` gives them."""
    values = np.asarray(values)
    if kind in ("number", "date") and values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if kind == "date" and values.dtype.kind == "M":
        days = values.astype("datetime64[us]").astype(np.float64) / 86.4e9
        return np.where(np.isnat(values), np.nan, days)
    if kind in ("category", "text"):
        return _texts(values)
    return np.array([_one(value, name, kind, form) for value in values.tolist()], dtype=np.float64)


def _one(value: Any, name: str, kind: str, form: str | None) -> float:
    if value is None or value != value:
        return np.nan
    if isinstance(value, int | float):
        return float(value)
    if kind == "date" and not isinstance(value, str):
        moment = np.datetime64(value, "us")
        return float(moment.astype(np.float64)) / 86.4e9
    text = str(value)
    if is_missing(text):
        return np.nan
    if kind == "date":
        days, is_other = dates_from_texts([text], form or "iso")
        found = None if is_other[0] else float(days[0])
    else:
        number, unit = without_unit(text)
        found = number_from_text(number if unit and unit == form else text)
    if found is None:
        raise ValueError(f"column {name!r}: {text[:40]!r} is not a {kind}")
    return found


def _texts(values: np.ndarray) -> np.ndarray:
    found = np.empty(len(values), dtype=object)
    known: dict[Any, str] = {}
    for i, value in enumerate(values.tolist()):
        if type(value) is not str:
            found[i] = _text(value)
            continue
        if value not in known:
            known[value] = "" if is_missing(value) else value.strip()
        found[i] = known[value]
    return found


def _text(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def column_matrix(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Columns side by side: float64 if all are, else objects."""
    if all(column.dtype.kind == "f" for column in columns):
        return np.column_stack(columns)
    X = np.empty((len(columns[0]), len(columns)), dtype=object)
    for c, column in enumerate(columns):
        X[:, c] = column
    return X
