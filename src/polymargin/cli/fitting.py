"""Scaling in place, one fit, parts of the data: the work behind the commands."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.cli.common import ToolError, progress, say_once
from polymargin.cli.machine_options import MOST_ROWS, Recipe

__all__ = ["Fitted", "blocks", "fit", "folds", "holdout", "sample", "scaled_fit", "slim"]

_BLOCK = 1 << 16  # rows scaled or predicted together
_VALIDATION = 0.25
SHORTEST_FIT = 0.05  # seconds that a fit gets where the clock has run out: max_time must be above 0
_SUPPORT_BYTES = 16_000_000  # from here on linear models are kept without support vectors


# -- scaling -----------------------------------------------------------------------------------


def new_scaler(recipe: Recipe, X: Any) -> Any:
    """The scaler asked for, or the encoder of a table, or None."""
    if recipe.plan is not None:
        scaler = _scaler(recipe.scale, None)
        if scaler is not None:
            scaler.copy = True
        return recipe.plan.encoder(scaler)
    return _scaler(recipe.scale, X)


def _scaler(kind: str, X: Any) -> Any:
    """A scaler or None; sparse data are never centred."""
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

    is_sparse = hasattr(X, "nnz")
    if kind == "auto":
        kind = "maxabs" if is_sparse else "standard"
        if is_sparse:
            say_once(
                "sparse data: features scaled by their largest absolute value (--scale maxabs)"
            )
    if kind == "none":
        return None
    if kind == "maxabs":
        return MaxAbsScaler(copy=False)
    if kind == "standard":
        if is_sparse:
            say_once("sparse data: --scale standard divides by the deviation but does not centre")
        return StandardScaler(copy=False, with_mean=not is_sparse)
    if is_sparse:
        raise ToolError("--scale minmax would fill a sparse matrix; use maxabs or none")
    return MinMaxScaler(copy=False)


def fit_scaler(scaler: Any, X: Any) -> None:
    """Learn the scaling in blocks: no copy of X."""
    if not hasattr(scaler, "partial_fit"):
        scaler.fit(X)
        return
    for rows in blocks(X.shape[0]):
        scaler.partial_fit(X[rows])


def scale_in_place(scaler: Any, X: Any) -> Any:
    """X is overwritten by its scaled self, or replaced where it was a table."""
    if not hasattr(scaler, "partial_fit"):
        encoded = scaler.transform(X)
        return encoded.tocsr() if hasattr(encoded, "tocsr") else encoded
    if hasattr(X, "nnz"):
        return scaler.transform(X)
    for rows in blocks(X.shape[0]):
        X[rows] = scaler.transform(X[rows])
    return X


def blocks(n: int, size: int = _BLOCK) -> Iterator[slice]:
    """Slices that cover n rows."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


# -- one fit -----------------------------------------------------------------------------------


@dataclass
class Fitted:
    """A trained estimator behind its scaler."""

    estimator: Any
    scaler: Any
    seconds: float
    interrupted: bool = False
    error: float = float("nan")  # on validation rows, where there were some
    plan: Any = None  # of the columns of a table
    X: Any = None  # all rows, as scaled for the fit

    @property
    def model(self) -> Any:
        """What is saved."""
        if self.scaler is None:
            return self.estimator
        if self.plan is not None:
            from sklearn.pipeline import Pipeline

            columns = self.plan.table_columns()
            return Pipeline(
                [("columns", columns), ("encode", self.scaler), ("model", self.estimator)]
            )
        self.scaler.copy = True  # whoever loads the model keeps their data
        from sklearn.pipeline import Pipeline

        return Pipeline([("scale", self.scaler), ("model", self.estimator)])


def fit(estimator: Any, X: Any, y: np.ndarray, line: Any) -> bool:
    """Train; whether it was interrupted (the model so far is then in the estimator)."""
    from polymargin.estimators.callbacks import watched

    try:
        with watched(line.watch):
            estimator.fit(X, y)
    except KeyboardInterrupt:
        if not hasattr(estimator, "classes_"):
            raise
        return True
    return False


def scaled_fit(
    recipe: Recipe,
    settings: dict[str, Any],
    X: Any,
    y: np.ndarray,
    rows: np.ndarray | None = None,
    seconds_left: Callable[[], float | None] = lambda: None,
) -> Fitted:
    """Scale X in place and train on all of it, or on some rows.

    ``seconds_left`` is asked once, when the data are ready; None leaves the limit of the recipe.
    """
    started = time.perf_counter()
    scaler = new_scaler(recipe, X)
    with progress("training") as line:
        if scaler is not None:
            fit_scaler(scaler, X)
            X = scale_in_place(scaler, X)
        scaled = X
        if rows is not None:
            X, y = X[rows], y[rows]
        left = seconds_left()
        if left is not None:
            settings = settings | {"max_time": max(left, SHORTEST_FIT)}
        estimator = recipe.estimator(**settings)
        line.begin_fit(estimator)
        say_once(f"training: {recipe.words()}")
        interrupted = fit(estimator, X, y, line)
    seconds = time.perf_counter() - started
    return Fitted(estimator, scaler, seconds, interrupted, plan=recipe.plan, X=scaled)


def slim(estimator: Any) -> None:
    """Leave out what a large linear model does not need for predictions."""
    vectors = getattr(estimator, "support_vectors_", None)
    if vectors is None or estimator.kernel != "linear":
        return
    size = vectors.data.nbytes if hasattr(vectors, "nnz") else vectors.nbytes
    if size + estimator.dual_coef_.nbytes < _SUPPORT_BYTES:
        return
    say_once(
        f"the {vectors.shape[0]} support vectors are left out of the model: a linear one predicts "
        "without them"
    )
    for name in ("support_", "support_vectors_", "dual_coef_", "assignment_", "weights_"):
        estimator.__dict__.pop(name, None)
    estimator.__dict__.pop("_training", None)


def predict_scaled(estimator: Any, X: Any) -> np.ndarray:
    """Labels of scaled rows, block by block."""
    return np.concatenate([estimator.predict(X[rows]) for rows in blocks(X.shape[0])])


# -- parts of the data -------------------------------------------------------------------------


def holdout(codes: np.ndarray, seed: int, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and rows to validate on: a quarter of each class, at least one stays."""
    rng = np.random.default_rng(seed)
    n = len(codes)
    rows = rng.permutation(n) if n <= limit else rng.choice(n, limit, replace=False)
    order = np.argsort(codes[rows], kind="stable")
    rows = rows[order]
    _, start, size = np.unique(codes[rows], return_index=True, return_counts=True)
    place = np.arange(len(rows)) - np.repeat(start, size)
    is_train = place < np.repeat(np.ceil((1.0 - _VALIDATION) * size), size)
    return np.sort(rows[is_train]), np.sort(rows[~is_train])


def sample(recipe: Recipe, codes: np.ndarray) -> np.ndarray | None:
    """Rows to train on where not all are wanted, every class among them; None for all."""
    n, most = len(codes), recipe.rows
    if most == "auto":
        most = MOST_ROWS if recipe.is_prototypes else "all"
    if most == "all" or n <= most:
        return None
    rng = np.random.default_rng(recipe.seed)
    rows = rng.choice(n, most, replace=False)
    first = np.unique(codes, return_index=True)[1]
    say_once(
        f"training on a random sample of {most} of {n} rows (--rows all takes all of them, which "
        "needs time and memory; -m CS takes all by default)"
    )
    return np.unique(np.concatenate([rows, first]))


def folds(codes: np.ndarray, n_folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Stratified folds in random order."""
    if len(codes) < n_folds:
        raise ToolError(f"{n_folds} folds need at least {n_folds} rows, there are {len(codes)}")
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    number = np.empty(len(codes), dtype=np.int64)
    number[order] = np.arange(len(codes)) % n_folds
    return [(np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in range(n_folds)]


def model_bytes(estimator: Any) -> int:
    """What prediction needs, in the precision it is kept in."""
    if hasattr(estimator, "best_estimator_"):
        estimator = estimator.best_estimator_
    linear = [getattr(estimator, n, None) for n in ("prototypes_", "coef_")]
    if getattr(estimator, "kernel", "linear") == "linear":
        used = next((a for a in (linear[1], linear[0]) if a is not None), None)
        if hasattr(estimator, "prototype_classes_"):
            used = estimator.prototypes_
        if used is not None:
            return int(used.nbytes + estimator.intercept_.nbytes)
    vectors = estimator.support_vectors_
    stored = vectors.data.nbytes + vectors.indices.nbytes if hasattr(vectors, "nnz") else 0
    stored = stored or vectors.nbytes
    return int(stored + estimator.dual_coef_.nbytes + estimator.intercept_.nbytes)
