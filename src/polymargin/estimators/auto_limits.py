"""AutoSVC: limits beyond which the values of a feature are cut off.

The median and the quartiles set them, which a few values far away do not move.  Features of a
matrix get them from a scaler; the numbers of a raw table get them inside the encoder that fills
their gaps, since the features that it makes of categories and gaps need none.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler

__all__ = ["EncodedTable", "clipping", "median_and_spread", "reaches_far"]

_LIMIT = 5.0  # robust deviations from the median at which values are clipped
_FAR = 10.0  # robust deviations beyond which a value is an outlier
_QUARTILES = 1.349  # distance of the quartiles of a normal distribution, in deviations


def median_and_spread(X: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median and robust deviation of each column; nan is left out.

    Where the quartiles agree, the usual deviation stands for the robust one.
    """
    if np.isnan(X).any():
        present = [column[~np.isnan(column)] for column in X.T]
        found = [np.quantile(p, [0.25, 0.5, 0.75]) if len(p) else np.zeros(3) for p in present]
        low, middle, high = np.array(found).T
    else:
        low, middle, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
    spread = (high - low) / _QUARTILES
    return middle, np.where(spread > 0.0, spread, deviation)


def reaches_far(X: np.ndarray, middle: np.ndarray, spread: np.ndarray) -> bool:
    """Whether a value lies far from the median of its column."""
    return bool((np.abs(X - middle) > _FAR * spread).any())


def clipping(middle: np.ndarray, spread: np.ndarray) -> MinMaxScaler:
    """Median and quartiles to 0 and about 2/3, and what is far away to the limits."""
    scaler = MinMaxScaler(feature_range=(-_LIMIT, _LIMIT), clip=True)
    return scaler.fit(np.stack([middle - _LIMIT * spread, middle + _LIMIT * spread]))


class EncodedTable:
    """A raw table, its fitted encoder, and the same encoder with limits for the numbers.

    Parameters
    ----------
    encoder : ColumnTransformer
        Fitted, of ``ColumnPlan.encoder`` with a ``StandardScaler``.
    table : ndarray of shape (n_samples, n_columns)
        Rows as the encoder takes them.

    Attributes
    ----------
    limited : ColumnTransformer or None
        The encoder with limits, as soon as they are learnt.
    """

    def __init__(self, encoder: Any, table: np.ndarray) -> None:
        self.encoder, self.table = encoder, table
        self.limited: Any = None

    def learn(self, rows: np.ndarray) -> bool:
        """Learn the limits from some rows; whether values of these lie far from the others."""
        self.limited = copy.deepcopy(self.encoder)
        is_far = False
        for _, part, places in self.limited.transformers_:
            if not isinstance(part, Pipeline):
                continue  # categories and words
            X = self.table[np.ix_(rows, places)].astype(np.float64)
            name, usual = part.steps[-1]
            d = X.shape[1]
            # marks of gaps follow the numbers: 0 and 1 stay within the limits
            share = usual.mean_
            middle = share.copy()
            spread = np.maximum(usual.scale_, np.maximum(share, 1.0 - share) / _LIMIT)
            middle[:d], spread[:d] = median_and_spread(X, usual.scale_[:d])
            is_far |= reaches_far(X, middle[:d], spread[:d])
            part.steps[-1] = (name, clipping(middle, spread))
        return is_far

    def features(self, rows: np.ndarray) -> Any:
        """Features of some rows within the limits."""
        table = self.table if len(rows) == len(self.table) else self.table[rows]
        found = self.limited.transform(table)
        return found.tocsr() if sp.issparse(found) else found
