"""Planes on which models are drawn: two input features, or two directions of the model's space."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.estimators.base import LargeMarginClassifier
from polymargin.estimators.inspection import (
    Parts,
    class_scores,
    model_space,
    nameless,
    prototypes_of,
    rows_of,
)
from polymargin.exceptions import shown
from polymargin.problem.scoring import class_maxima, two_columns

__all__ = ["Plane", "find_plane", "holds_numbers"]

_BLOCK_NUMBERS = 4_000_000
_PROJECTIONS = ("auto", "pca", "prototypes")
_STEP = 1e-3

Evaluation = tuple[np.ndarray, np.ndarray | None, np.ndarray | None]


class Plane:
    """A plane with a model on it.

    Attributes
    ----------
    names : (2,) what the axes mean.
    held : str
        What is held fixed; empty where nothing is.
    is_isometric : bool
        Whether both axes have the same unit.
    points : (n, 2) the examples on the plane.
    predicted : (n,) labels of the examples where they really are.
    """

    names: tuple[str, str]
    held: str = ""
    is_isometric = False
    points: np.ndarray
    predicted: np.ndarray

    def __init__(self, parts: Parts, X: Any) -> None:
        self.parts = parts
        self.X = X
        self.predicted = np.asarray(parts.whole.predict(X))
        Z = model_space(parts, X)
        self.Z = Z if Z.dtype.kind == "f" else Z.astype(np.float64)  # small integers overflow

    def rows(self, at: np.ndarray) -> Any:
        """Examples of the model's space at places of the plane."""
        raise NotImplementedError

    def place(self, Z: np.ndarray) -> np.ndarray | None:
        """Where vectors of the model's space lie on the plane; None where that is unknown."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        return int(self.Z.shape[1])

    def evaluate(self, at: np.ndarray) -> Evaluation:
        """Winning class, its lead and the winning prototype at places of the plane."""
        size = max(1, _BLOCK_NUMBERS // max(1, self.width))
        blocks = [self._evaluate(self.scores(at[k : k + size]), k) for k in range(0, len(at), size)]
        winner, lead, cell = zip(*blocks, strict=True)
        return (
            np.concatenate(winner),
            None if lead[0] is None else np.concatenate(lead),
            None if cell[0] is None else np.concatenate(cell),
        )

    def _evaluate(self, scores: tuple[np.ndarray, np.ndarray | None], k: int) -> Evaluation:
        by_class, by_prototype = scores
        if by_class.ndim == 1:
            return by_class, None, None  # a classifier without scores
        winner = by_class.argmax(axis=1)
        top = np.partition(by_class, -2, axis=1)[:, -2:]
        cell = None if by_prototype is None else by_prototype.argmax(axis=1)
        return winner, top[:, 1] - top[:, 0], cell

    def scores(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """(m, Q) class scores, and prototype scores where a class has several prototypes.

        Class numbers (m,) instead for a classifier that only predicts.
        """
        return _scores(self.parts.last, self.rows(at))

    def prototypes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places, gradients on the plane, and class numbers of the prototypes."""
        nothing = np.empty((0, 2)), np.empty((0, 2)), np.empty(0, dtype=np.intp)
        found = prototypes_of(self.parts.last)
        if found is None:
            return nothing
        if found.are_points:
            place = self.place(np.asarray(found.points))
            if place is None:
                return nothing
            return place, np.zeros_like(place), found.owner
        products = self.Z @ found.weights.T
        won = np.asarray(products + found.intercept).argmax(axis=1)
        which = np.flatnonzero(np.bincount(won, minlength=len(found.owner)) > 0)
        place = np.array([np.median(self.points[won == r], axis=0) for r in which])
        gradients = self.gradients(found.weights, place)[which]
        return place, gradients, found.owner[which]

    def gradients(self, weights: np.ndarray, place: np.ndarray) -> np.ndarray:
        """d f_r / d (plane coordinates), (R, 2)."""
        raise NotImplementedError

    def support(self) -> np.ndarray:
        """Support vectors of a kernel model on the plane, the strongest first."""
        last = self.parts.last
        found = getattr(last, "support_vectors_", None)
        nothing = np.empty((0, 2))
        if prototypes_of(last) is not None or found is None or not found.shape[0]:
            return nothing
        weight = np.abs(np.asarray(last.dual_coef_))
        if len(weight) == found.shape[0]:  # scikit-learn's SVC keeps the transpose
            found = found[np.argsort(-weight.max(axis=1), kind="stable")]
        place = self.place(found.toarray() if sp.issparse(found) else np.asarray(found))
        return nothing if place is None else place


class FeaturePair(Plane):
    """Two columns of X; the others are held at their median, those of sparse data at 0."""

    def __init__(self, parts: Parts, X: Any, names: list[str], pair: tuple[int, int]) -> None:
        super().__init__(parts, X)
        self.pair = pair
        self.names = names[pair[0]], names[pair[1]]
        self.points = _columns(X, pair)
        self.typical = _typical_row(X)
        d = X.shape[1]
        if d > 2:
            level = "at 0" if sp.issparse(X) else "at their median"
            self.held = f"the other {d - 2} features {level}"

    def inputs(self, at: np.ndarray) -> Any:
        """Rows like X at places of the plane."""
        if hasattr(self.X, "iloc"):
            rows = self.typical.iloc[np.zeros(len(at), dtype=np.intp)].reset_index(drop=True)
            rows = rows.copy()
            for axis, column in enumerate(self.pair):
                rows[rows.columns[column]] = at[:, axis]
            return rows
        if sp.issparse(self.X):
            where = np.tile(np.arange(len(at)), 2), np.repeat(self.pair, len(at))
            return sp.csr_array((at.T.ravel(), where), shape=(len(at), self.X.shape[1]))
        rows = np.repeat(np.asarray(self.typical, dtype=np.float64), len(at), axis=0)
        rows[:, list(self.pair)] = at
        if hasattr(self.X, "columns"):
            return type(self.X)(rows, schema=list(self.X.columns))
        return rows

    def rows(self, at: np.ndarray) -> Any:
        return model_space(self.parts, self.inputs(at))

    def scores(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        if isinstance(self.parts.last, LargeMarginClassifier):
            return super().scores(at)
        return _scores(self.parts.whole, self.inputs(at))

    def place(self, Z: np.ndarray) -> np.ndarray | None:
        try:
            for step in reversed(self.parts.steps):
                Z = step.inverse_transform(Z)
        except (AttributeError, ValueError):
            return None
        return np.asarray(Z, dtype=np.float64)[:, list(self.pair)]

    def gradients(self, weights: np.ndarray, place: np.ndarray) -> np.ndarray:
        middle = np.median(self.points, axis=0)
        step = _STEP * np.maximum(np.ptp(self.points, axis=0), 1e-12)
        around = middle + np.array([[0.0, 0.0], [step[0], 0.0], [0.0, step[1]]])
        products = np.asarray(self.rows(around) @ weights.T)
        return np.asarray(((products[1:] - products[0]) / step[:, None]).T)


class Projection(Plane):
    """A plane through the mean of the examples, in the space of the classifier at the end."""

    is_isometric = True

    def __init__(self, parts: Parts, X: Any, kind: str) -> None:
        super().__init__(parts, X)
        if getattr(getattr(parts.last, "_kernel", None), "name", "") == "precomputed":
            raise ValueError(
                "estimator: kernel='precomputed' has no space of features to draw a plane in."
            )
        Z = self.Z
        self.centre = np.asarray(Z.mean(axis=0), dtype=np.float64).ravel()
        if kind == "prototypes":
            self.directions = _prototype_directions(parts, Z)
            shares = _variance_shares(Z, self.directions)
            self.names = tuple(
                f"{which} direction of the prototypes ({100 * share:.2g} % of variance)"
                for which, share in zip(("first", "second"), shares, strict=True)
            )  # type: ignore[assignment]
        else:
            self.directions = _main_directions(Z, 2)
            shares = _variance_shares(Z, self.directions)
            self.names = tuple(
                f"{which} principal component ({100 * share:.2g} % of variance)"
                for which, share in zip(("first", "second"), shares, strict=True)
            )  # type: ignore[assignment]
        self.points = np.asarray(Z @ self.directions.T) - self.centre @ self.directions.T
        behind = " behind the pipeline's steps" if parts.steps else ""
        self.held = f"plane through the mean{behind}, all else at that mean"

    def rows(self, at: np.ndarray) -> Any:
        return self.centre + at @ self.directions

    def place(self, Z: np.ndarray) -> np.ndarray | None:
        return np.asarray((Z - self.centre) @ self.directions.T)

    def gradients(self, weights: np.ndarray, place: np.ndarray) -> np.ndarray:
        return np.asarray(weights @ self.directions.T)

    def scores(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        found = prototypes_of(self.parts.last)
        if found is None:
            return super().scores(at)
        # linear scores are affine on the plane: exact, however many features there are
        W = found.weights
        scores = at @ (W @ self.directions.T).T + (W @ self.centre + found.intercept)
        if len(W) == len(self.parts.last.classes_):
            return scores, None
        return class_maxima(scores, found.owner), scores


def find_plane(parts: Parts, X: Any, names: list[str], features: Any, projection: str) -> Plane:
    """The plane that was asked for; a refusal names the argument."""
    if projection not in _PROJECTIONS:
        raise ValueError(f"projection must be one of {_PROJECTIONS}, got {shown(projection)}.")
    d = X.shape[1]
    if features is not None:
        return FeaturePair(parts, X, names, _pair(features, names))
    if d == 2 and projection == "auto" and holds_numbers(X):
        return FeaturePair(parts, X, names, (0, 1))
    if d < 2:
        raise ValueError("X has a single feature; a picture of regions needs two.")
    if projection == "prototypes" and prototypes_of(parts.last) is None:
        raise ValueError("projection='prototypes' needs a linear kernel; use 'pca'.")
    return Projection(parts, X, "prototypes" if projection == "prototypes" else "pca")


def _pair(features: Any, names: list[str]) -> tuple[int, int]:
    wanted = list(features) if not isinstance(features, str) else [features]
    if len(wanted) != 2:
        raise ValueError(f"features must be two names or numbers, got {shown(features)}.")
    found = []
    for one in wanted:
        if isinstance(one, str):
            if one not in names:
                raise ValueError(f"features: there is no feature {one!r}; there are {names[:10]}.")
            found.append(names.index(one))
        elif 0 <= int(one) < len(names):
            found.append(int(one))
        else:
            raise ValueError(f"features: {one!r} is not a number from 0 to {len(names) - 1}.")
    if found[0] == found[1]:
        raise ValueError(f"features must be two different ones, got {shown(features)}.")
    return found[0], found[1]


def _scores(model: Any, rows: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Class scores and prototype scores of rows; class numbers where there are no scores."""
    with nameless():
        if hasattr(model, "_prototype_scores") and len(model.intercept_) > len(model.classes_):
            by_prototype = model._prototype_scores(model._check_input(rows))
            return class_maxima(by_prototype, model._prototype_class), by_prototype
        if isinstance(model, LargeMarginClassifier):
            return two_columns(model._class_scores(model._check_input(rows))), None
        if hasattr(model, "decision_function"):
            return class_scores(model, rows), None
        return np.searchsorted(model.classes_, model.predict(rows)), None


def _columns(X: Any, pair: tuple[int, int]) -> np.ndarray:
    if sp.issparse(X):
        return np.asarray(sp.csc_array(X)[:, list(pair)].toarray(), dtype=np.float64)
    if hasattr(X, "iloc"):
        return np.asarray(X.iloc[:, list(pair)].to_numpy(), dtype=np.float64)
    array = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
    return np.asarray(array[:, list(pair)], dtype=np.float64)


def holds_numbers(X: Any) -> bool:
    """Whether no column holds words."""
    try:
        _columns(X, (0, 1))
    except ValueError:
        return False
    return True


def _typical_row(X: Any) -> Any:
    """One row: medians of numbers, the most frequent of anything else."""
    if hasattr(X, "iloc"):
        row = X.iloc[:1].reset_index(drop=True).copy()
        for name in X.columns:
            is_number = X[name].dtype.kind in "iufb"
            value = float(X[name].median()) if is_number else X[name].mode().iloc[0]
            row[name] = [value]
        return row
    if sp.issparse(X):
        return None  # nothing is stored: all zero
    return np.median(rows_of(X, np.arange(X.shape[0])), axis=0, keepdims=True)


def _main_directions(Z: Any, count: int) -> np.ndarray:
    """Orthonormal main directions of the rows around their mean, signs fixed."""
    n, d = Z.shape
    mean = np.asarray(Z.mean(axis=0), dtype=np.float64).ravel()
    if d <= 1500:
        G = Z.T @ Z
        G = np.asarray(G.toarray() if sp.issparse(G) else G, dtype=np.float64)
        vectors = np.linalg.eigh(G - n * np.outer(mean, mean))[1]
        found = vectors[:, ::-1][:, :count].T
    else:
        from scipy.sparse.linalg import LinearOperator, svds

        centred = LinearOperator(
            (n, d),
            matvec=lambda v: Z @ v.ravel() - mean @ v.ravel(),
            rmatvec=lambda u: Z.T @ u.ravel() - mean * u.sum(),
            dtype=np.float64,
        )
        start = np.random.default_rng(0).normal(size=min(n, d))
        found = svds(centred, k=count, v0=start)[2][::-1]
    largest = np.abs(found).argmax(axis=1)
    return np.asarray(found * np.sign(found[np.arange(count), largest])[:, None])


def _prototype_directions(parts: Parts, Z: Any) -> np.ndarray:
    """Main directions of the prototypes around their mean; one of the data where they have one."""
    found = prototypes_of(parts.last)
    assert found is not None
    W = np.asarray(found.points, dtype=np.float64)[found.alive]
    W = W - W.mean(axis=0)
    _, size, vectors = np.linalg.svd(W, full_matrices=False)
    rank = int((size > 1e-9 * size.max(initial=0.0)).sum())
    if rank >= 2:
        return vectors[:2]
    if rank == 0:
        return _main_directions(Z, 2)
    first = vectors[0]
    candidates = _main_directions(Z, 2)
    rest = candidates - np.outer(candidates @ first, first)
    longest = np.linalg.norm(rest, axis=1).argmax()
    return np.stack([first, rest[longest] / np.linalg.norm(rest[longest])])


def _variance_shares(Z: Any, directions: np.ndarray) -> np.ndarray:
    """Share of the variance of the rows along each direction."""
    mean = np.asarray(Z.mean(axis=0), dtype=np.float64).ravel()
    squares = Z.multiply(Z) if sp.issparse(Z) else np.square(Z, dtype=np.float64)
    total = float(np.sum(np.asarray(squares.mean(axis=0)).ravel() - mean**2))
    along = np.asarray(Z @ directions.T).var(axis=0)
    return np.asarray(along / total if total > 0.0 else 0.0 * along)
