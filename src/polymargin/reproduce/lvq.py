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
        First learning rate of both; falls to zero linearly in each.
    window : float
        Relative width w of the window of LVQ2.1.  With few code vectors a wide window makes LVQ2.1
        drive vectors apart: on digits with one per class .2 has 19 % errors, .02 has 10 %.
    epochs : int
        Passes of LVQ2.1 over the examples.
    first_epochs : int
        Passes of LVQ1 before them.
    random_state : int
    """

    def __init__(
        self,
        n_prototypes: int = 5,
        rate: float = 0.03,
        window: float = 0.1,
        epochs: int = 20,
        first_epochs: int = 5,
        random_state: int = 0,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.rate = rate
        self.window = window
        self.epochs = epochs
        self.first_epochs = first_epochs
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
        self._place(np.concatenate(vectors), np.array(owner))
        rng = np.random.default_rng(self.random_state)
        for step, passes in ((self._lvq1, self.first_epochs), (self._lvq21, self.epochs)):
            order = [i for _ in range(passes) for i in rng.permutation(len(X))]
            for t, i in enumerate(order):
                step(X[i], int(label[i]), self.rate * (1.0 - t / len(order)))
        return self

    def _place(self, vectors: np.ndarray, owner: np.ndarray) -> None:
        """Begin with these code vectors."""
        self.vectors_, self.owner_ = vectors, owner
        self._squares = np.einsum("rd,rd->r", vectors, vectors)

    def _without_own_square(self, x: np.ndarray) -> np.ndarray:
        """Squared distances of the code vectors less ||x||^2: one product."""
        return np.asarray(self._squares - 2.0 * (self.vectors_ @ x))

    def _move(self, vector: int, x: np.ndarray, rate: float) -> None:
        """Towards x, away where the rate is negative."""
        moved = self.vectors_[vector]
        moved += rate * (x - moved)
        self._squares[vector] = moved @ moved

    def _lvq1(self, x: np.ndarray, label: int, rate: float) -> None:
        winner = int(self._without_own_square(x).argmin())
        self._move(winner, x, rate if self.owner_[winner] == label else -rate)

    def _lvq21(self, x: np.ndarray, label: int, rate: float) -> None:
        distance = self._without_own_square(x)
        a, b = np.argpartition(distance, 1)[:2]
        is_right = self.owner_[a] == label
        if is_right == (self.owner_[b] == label):
            return
        d1, d2 = np.sqrt(np.maximum(distance[[a, b]] + x @ x, 0.0))
        if is_in_window(float(d1), float(d2), self.window):
            self._move(a, x, rate if is_right else -rate)
            self._move(b, x, -rate if is_right else rate)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Class of the nearest code vector."""
        X = np.asarray(X, dtype=np.float64)
        square = (self.vectors_**2).sum(axis=1)
        nearest = (square[None, :] - 2.0 * X @ self.vectors_.T).argmin(axis=1)
        return np.asarray(self.classes_[self.owner_[nearest]])
