"""The smooth finish: stochastic gradient steps on a smooth loss of prototypes that exist already.

Card.  Prototypes w_r with intercepts b_r score f_r(x) = ⟨w_r, x⟩ + b_r.  The loss of an example of
class y is the negative logarithm of a softmax with several places per class,

    loss(x, y) = log sum_s exp(beta f_s(x)) - log sum_{r of y} exp(beta f_r(x)),

which tends to beta times the margin loss without its constant 1 where beta grows.  With Gaussian
jitter of deviation sigma on the features it is the mean over x + sigma g, estimated by one draw per
example and visit.  Jitter along classes is x + sigma (u - v) / sqrt(2), u and v random examples of
the class of x: noise with the covariance of that class.  ``teacher`` probabilities t_k(x) replace
the class by a mixture of classes.

With a number format the scores are those of the *rounded* numbers, and the gradient with respect
to a rounded number moves the number behind it (the straight-through estimator): what rounding does
to one weight, the others, the intercepts and later roundings make up for.

With a projection the weights are w_r = v_r P, P (k, d) shared by all, and both parts are trained.

This stage minimises no convex problem and has no certificate; what it did is judged by validation
rows, or by nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

__all__ = ["FinishSettings", "Parts", "Rounding", "finish", "smooth_loss"]

_LARGEST = 1e17  # of features: sums of their squares fit into float32
_BATCH = 256  # examples of a step: small enough for 20 steps per epoch on 5000 rows
_DECAY1, _DECAY2, _TINY = 0.9, 0.99, 1e-12  # Adam; a short memory suits a few hundred steps
_BLOCK = 4096  # rows scored together where no gradient is needed


class Parts(NamedTuple):
    """Numbers of a linear prototype model: weights (R, k), intercepts (R,), projection or None."""

    weights: np.ndarray
    intercepts: np.ndarray
    projection: np.ndarray | None = None

    def arrays(self) -> list[np.ndarray]:
        """Those that are there."""
        return [array for array in self if array is not None]

    def astype(self, dtype: type) -> Parts:
        """A copy in another precision."""
        W, b, P = self
        return Parts(W.astype(dtype), b.astype(dtype), None if P is None else P.astype(dtype))

    def on_features(self) -> np.ndarray:
        """(R, d) weights that act on features."""
        return self.weights if self.projection is None else self.weights @ self.projection


@dataclass(frozen=True)
class FinishSettings:
    """Parameters of the stage.

    Attributes
    ----------
    sharpness : float
        beta.
    jitter : float
        sigma, in units of the root mean square spread of the features, or of one difference of two
        examples.
    along : {"features", "classes"}
        Whether jitter is the same in all directions, or that of examples of a class.
    epochs : int
        Visits of every example.
    rate : float
        First step of Adam as a share of the root mean square weight; it falls to 0 as a cosine.
    seed : int
        Order of visits and jitter.
    """

    sharpness: float = 8.0
    jitter: float = 0.0
    epochs: int = 30
    rate: float = 0.05
    seed: int = 0
    along: str = "features"


@dataclass(frozen=True)
class Rounding:
    """Numbers as they will be written: each array rounded to its grid, None leaves it as it is."""

    weights: Callable[[np.ndarray], np.ndarray] | None = None
    projection: Callable[[np.ndarray], np.ndarray] | None = None

    def __call__(self, parts: Parts) -> Parts:
        W, b, P = parts
        W = W if self.weights is None else self.weights(W)
        return Parts(W, b, P if P is None or self.projection is None else self.projection(P))


@dataclass
class _Adam:
    """Steps of one array: its typical size, first and second moments of the gradient."""

    size: float
    mean: np.ndarray
    square: np.ndarray
    step: int = 0

    def apply(self, values: np.ndarray, gradient: np.ndarray, rate: float) -> None:
        """``values -= rate * size * direction``, in place."""
        self.step += 1
        self.mean += (1.0 - _DECAY1) * (gradient - self.mean)
        self.square += (1.0 - _DECAY2) * (gradient * gradient - self.square)
        length = np.sqrt(self.square / (1.0 - _DECAY2**self.step)) + _TINY
        values -= (rate * self.size / (1.0 - _DECAY1**self.step)) * (self.mean / length)


class _Alike:
    """Random examples of the same class."""

    def __init__(self, label: np.ndarray) -> None:
        self.label = label
        self.order = np.argsort(label, kind="stable")
        self.size = np.bincount(label)
        self.first = np.cumsum(self.size) - self.size

    def draw(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One example of the class of each row."""
        c = self.label[rows]
        place = (rng.random(len(rows)) * self.size[c]).astype(np.int64)
        return np.asarray(self.order[self.first[c] + place])


@dataclass
class _Stage:
    """Arrays of a running stage; ``noise`` is the deviation of the jitter."""

    X: np.ndarray
    target: np.ndarray
    prototype_class: np.ndarray
    sharpness: float
    noise: float
    rounding: Rounding
    rng: np.random.Generator
    weight: np.ndarray | None
    alike: _Alike | None = None
    first: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        change = np.flatnonzero(np.diff(self.prototype_class)) + 1
        self.first = np.concatenate([[0], change])

    def moves(self, parts: Parts) -> list[_Adam]:
        """One per array; an intercept moves as much as a score does where all weights move."""
        sizes = [float(np.sqrt(np.mean(a**2))) or 1.0 for a in parts.arrays()]
        if parts.projection is None:
            sizes[1] = sizes[0] * float(np.sqrt((self.X**2).mean()))
        return [
            _Adam(size, np.zeros_like(a), np.zeros_like(a))
            for size, a in zip(sizes, parts.arrays(), strict=True)
        ]

    def gradient(self, parts: Parts, rows: np.ndarray) -> Parts:
        """Gradient of the mean loss of some rows at the rounded numbers."""
        used = self.rounding(parts)
        x = self.X[rows]
        if self.noise > 0.0:
            x = x + np.float32(self.noise) * self.draws(rows)
        hidden = x if used.projection is None else x @ used.projection.T
        error = self._score_gradient(hidden @ used.weights.T + used.intercepts, rows)
        of_weights = error.T @ hidden
        of_projection = None
        if used.projection is not None:
            of_projection = (error @ used.weights).T @ x
        return Parts(of_weights, error.sum(axis=0), of_projection)

    def draws(self, rows: np.ndarray) -> np.ndarray:
        """Jitter of deviation 1 for some rows."""
        if self.alike is None:
            return self.rng.standard_normal((len(rows), self.X.shape[1]), dtype=np.float32)
        u, v = (self.X[self.alike.draw(rows, self.rng)] for _ in range(2))
        return np.asarray((u - v) * np.float32(0.5**0.5))

    def _score_gradient(self, scores: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """d loss / d score, divided by beta: it only scales the gradient, which Adam undoes."""
        scores *= np.float32(self.sharpness)
        scores -= scores.max(axis=1, keepdims=True)
        wide = np.exp(scores, out=scores)
        of_class = np.add.reduceat(wide, self.first, axis=1)
        total = of_class.sum(axis=1, keepdims=True)
        share = self.target[rows] / np.maximum(of_class, np.float32(1e-30))
        wide *= 1.0 / total - share[:, self.prototype_class]
        scale = np.float32(1.0 / len(rows))
        wide *= scale if self.weight is None else (scale * self.weight[rows])[:, None]
        return wide


def finish(
    parts: Parts,
    X: np.ndarray,
    target: np.ndarray,
    prototype_class: np.ndarray,
    settings: FinishSettings,
    rounding: Rounding | None = None,
    weight: np.ndarray | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> Parts:
    """Train existing prototypes with the smooth loss; the rounded numbers come back.

    Parameters
    ----------
    parts : Parts
        Where to begin.
    X : ndarray of shape (n, d)
    target : ndarray of shape (n,) of class numbers, or (n, Q) of a teacher's probabilities
    prototype_class : ndarray of shape (R,), growing
    settings : FinishSettings
    rounding : Rounding or None
        The number format.
    weight : ndarray of shape (n,) or None
        Of the examples.
    is_over : callable
        Asked once per epoch; True ends the stage early.
    """
    rounding = Rounding() if rounding is None else rounding
    if float(np.abs(X).max(initial=0.0)) > _LARGEST:
        raise ValueError(
            f"X: finish works in single precision, where squares of values above {_LARGEST:g} "
            "overflow; scale the features of X down."
        )
    X = np.ascontiguousarray(X, dtype=np.float32)
    if target.ndim == 1:
        target = np.eye(int(prototype_class[-1]) + 1, dtype=np.float32)[target]
    if weight is not None:
        weight = weight / weight.max()  # means of huge weights overflow
    share = None if weight is None else (weight / weight.mean()).astype(np.float32)
    rng = np.random.default_rng(settings.seed)
    soft = target.astype(np.float32)
    noise, alike = settings.jitter, None
    if settings.along == "classes":
        alike = _Alike(soft.argmax(axis=1))
    else:
        noise *= float(np.sqrt(X.var(axis=0).mean()))
    stage = _Stage(X, soft, prototype_class, settings.sharpness, noise, rounding, rng, share, alike)
    now = parts.astype(np.float32)
    moves = stage.moves(now)
    steps = max(1, -(-len(X) // _BATCH))
    for epoch in range(settings.epochs):
        if is_over():
            break
        order = rng.permutation(len(X))
        for k in range(steps):
            slope = stage.gradient(now, order[k * _BATCH : (k + 1) * _BATCH])
            progress = (epoch + k / steps) / settings.epochs
            rate = settings.rate * 0.5 * (1.0 + np.cos(np.pi * progress))
            for value, g, move in zip(now.arrays(), slope.arrays(), moves, strict=True):
                move.apply(value, g, rate)
    return rounding(now).astype(np.float64)


def smooth_loss(
    parts: Parts, X: np.ndarray, label: np.ndarray, prototype_class: np.ndarray, sharpness: float
) -> float:
    """Mean smooth loss in float64, divided by beta, without jitter: the slow voice."""
    total = 0.0
    W = parts.on_features()
    for start in range(0, len(X), _BLOCK):
        scores = sharpness * (X[start : start + _BLOCK] @ W.T + parts.intercepts)
        mine = prototype_class[None, :] == label[start : start + _BLOCK, None]
        own = np.logaddexp.reduce(np.where(mine, scores, -np.inf), axis=1)
        total += float((np.logaddexp.reduce(scores, axis=1) - own).sum())
    return total / (sharpness * len(X))
