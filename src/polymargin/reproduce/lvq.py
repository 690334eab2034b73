"""Learning vector quantisation, the baseline of Table 1: LVQ1 followed by LVQ2.1.

Kohonen's rules.  LVQ1 moves the nearest code vector towards an example of its class and away from
one of another class.  LVQ2.1 moves the two nearest ones, if one is of the example's class and the
other is not and the example lies in a window around the border between them:
min(d1/d2, d2/d1) > (1 - w) / (1 + w).
"""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans

__all__ = ["LVQ", "is_in_window"]


def is_in_window(d1: float, d2: float, width: float) -> bool:
    """Whether an example at distances d1, d2 of two code vectors is in the window of that width."""
    if d1 <= 0.0 or d2 <= 0.0:
        return d1 == d2
    return bool(min(d1 / d2, d2 / d1) > (1.0 - width) / (1.0 + width))


class LVQ(ClassifierMixin, BaseEstimator):
    """LVQ1 followed by LVQ2.1, from k-means within each class.

    Parameters
    ----------
    n_prototypes : int
        Code vectors per class.
    rate : float
        First learning rate of LVQ1; falls to zero linearly.  LVQ2.1 begins with a third of it.
    window : float
        Relative width w of the window of LVQ2.1.
    epochs : int
        Passes over the examples, of each of the two.
    random_state : int
    """

    def __init__(
        self,
        n_prototypes: int = 5,
        rate: float = 0.05,
        window: float = 0.2,
        epochs: int = 20,
        random_state: int = 0,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.rate = rate
        self.window = window
        self.epochs = epochs
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> LVQ:
        """Train on rows X with labels y."""
        X = np.asarray(X, dtype=np.float64)
        self.classes_, label = np.unique(y, return_inverse=True)
        vectors, owner = [], []
        for k in range(len(self.classes_)):
            mine = X[label == k]
            q = min(self.n_prototypes, len(mine))
            vectors.append(
                KMeans(q, n_init=1, random_state=self.random_state).fit(mine).cluster_centers_
            )
            owner += [k] * q
        self.vectors_, self.owner_ = np.concatenate(vectors), np.array(owner)
        rng = np.random.default_rng(self.random_state)
        for step, first in ((self._lvq1, self.rate), (self._lvq21, self.rate / 3.0)):
            total = self.epochs * len(X)
            for t in range(total):
                if t % len(X) == 0:
                    order = rng.permutation(len(X))
                i = order[t % len(X)]
                step(X[i], int(label[i]), first * (1.0 - t / total))
        return self

    def _distances(self, x: np.ndarray) -> np.ndarray:
        """Squared distances of the code vectors."""
        apart = self.vectors_ - x
        return np.asarray(np.einsum("rd,rd->r", apart, apart))

    def _lvq1(self, x: np.ndarray, label: int, rate: float) -> None:
        winner = int(self._distances(x).argmin())
        sign = 1.0 if self.owner_[winner] == label else -1.0
        self.vectors_[winner] += sign * rate * (x - self.vectors_[winner])

    def _lvq21(self, x: np.ndarray, label: int, rate: float) -> None:
        distance = self._distances(x)
        a, b = np.argpartition(distance, 1)[:2]
        right = self.owner_[[a, b]] == label
        if right[0] == right[1]:
            return
        d1, d2 = np.sqrt(distance[[a, b]])
        if not is_in_window(float(d1), float(d2), self.window):
            return
        for vector, is_right in zip((a, b), right, strict=True):
            sign = 1.0 if is_right else -1.0
            self.vectors_[vector] += sign * rate * (x - self.vectors_[vector])

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Class of the nearest code vector."""
        X = np.asarray(X, dtype=np.float64)
        square = (self.vectors_**2).sum(axis=1)
        nearest = (square[None, :] - 2.0 * X @ self.vectors_.T).argmin(axis=1)
        return np.asarray(self.classes_[self.owner_[nearest]])
