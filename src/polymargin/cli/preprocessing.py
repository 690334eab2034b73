"""Scaling of matrices in place, encoding of tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from polymargin.cli.application import ToolError
from polymargin.cli.machine_setup import MachineSetup
from polymargin.cli.messages import say_once

__all__ = ["blocks", "fit_scaler", "new_scaler", "scale_in_place"]


_BLOCK = 1 << 16  # rows scaled or predicted together
_SIZE_RATIO = 100.0  # between large and small features; tf-idf weights span about a factor of ten


def new_scaler(setup: MachineSetup, X: Any) -> Any:
    """The scaler asked for, or the encoder of a table, or None."""
    if setup.plan is not None:
        scaler = _scaler(setup.scale, None)
        if scaler is not None:
            scaler.copy = True
        return setup.plan.encoder(scaler)
    return _scaler(setup.scale, X)


def _scaler(kind: str, X: Any) -> Any:
    """A scaler or None; sparse data are never centred."""
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler

    is_sparse = hasattr(X, "nnz")
    if kind == "auto":
        kind = "standard"
        if is_sparse:
            kind = "maxabs" if _sizes_differ(X) else "none"
            say_once(
                "sparse data: features of very different size, scaled by their largest absolute "
                "value (--scale maxabs)"
                if kind == "maxabs"
                else "sparse data are taken as they are (--scale maxabs makes features alike)"
            )
    if kind == "none":
        return None
    if kind == "maxabs":
        return MaxAbsScaler(copy=False)
    if kind == "unit":
        return Normalizer(copy=False)
    if kind == "standard":
        if is_sparse:
            say_once("sparse data: --scale standard divides by the deviation but does not centre")
        return StandardScaler(copy=False, with_mean=not is_sparse)
    if is_sparse:
        raise ToolError("--scale minmax would fill a sparse matrix; use maxabs or none")
    return MinMaxScaler(copy=False)


def _sizes_differ(X: Any) -> bool:
    """Whether features of a sparse matrix differ so much in size that some would count for nothing.

    Weights such as tf-idf differ by less, and scaling would undo their meaning.
    """
    import numpy as np

    largest = abs(X).max(axis=0).toarray().ravel()
    largest = largest[largest > 0]
    if not len(largest):
        return False
    low, high = np.quantile(largest, [0.05, 0.95])
    return bool(high > _SIZE_RATIO * low)


def fit_scaler(scaler: Any, X: Any) -> None:
    """Learn the scaling in blocks: no copy of X."""
    from polymargin.problem.constant_features import settle_constants

    if not hasattr(scaler, "partial_fit"):
        scaler.fit(X)
        settle_constants(scaler)
        _make_vocabularies_plain(scaler)
        return
    for rows in blocks(X.shape[0]):
        scaler.partial_fit(X[rows])
    settle_constants(scaler)


def _make_vocabularies_plain(encoder: Any) -> None:
    """Make indices of words plain integers: a model file stores each NumPy scalar as a file."""
    for _, part, _ in getattr(encoder, "transformers_", ()):
        if hasattr(part, "vocabulary_"):
            part.vocabulary_ = {word: int(k) for word, k in part.vocabulary_.items()}


def scale_in_place(scaler: Any, X: Any) -> Any:
    """The scaled rows: dense X is overwritten, sparse X and tables become a new matrix."""
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
