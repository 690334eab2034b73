"""Checks of what users pass in; every refusal names the argument and what would be right."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from polymargin.exceptions import IndefiniteKernelWarning, warn_user
from polymargin.problem import Problem

__all__ = ["canonical", "check_kernel", "check_number", "is_psd", "is_symmetric", "validate_named"]

_PSD_CHECK_LIMIT = 2000


def check_number(
    name: str, value: Any, above: float | None = None, at_least: float | None = None
) -> None:
    """Refuse what is not a finite number in the given range."""
    wanted = "a finite number"
    good = isinstance(value, numbers.Real) and not isinstance(value, bool)
    good = good and bool(np.isfinite(float(value)))
    if above is not None:
        wanted += f" > {above:g}"
        good = good and value > above
    if at_least is not None:
        wanted += f" >= {at_least:g}"
        good = good and value >= at_least
    if not good:
        raise ValueError(f"{name} must be {wanted}, got {value!r}.")


def validate_named(estimator: BaseEstimator, X: Any, *args: Any, **options: Any) -> Any:
    """scikit-learn's validation; a NaN or infinity is reported with its column."""
    try:
        return validate_data(estimator, X, *args, **options)
    except ValueError as error:
        if "NaN" not in str(error) and "infinity" not in str(error):
            raise
        column = _first_bad_column(X)
        if column is None:
            raise
        first, _, rest = str(error).partition("\n")
        raise ValueError(f"{first} The first is in column {column}.\n{rest}") from error


def _first_bad_column(X: Any) -> str | None:
    try:
        if sp.issparse(X):
            bad = np.unique(X.tocoo().col[~np.isfinite(X.tocoo().data)])
        else:
            bad = np.flatnonzero(~np.isfinite(np.asarray(X, dtype=np.float64)).all(axis=0))
    except (TypeError, ValueError):
        return None
    if not len(bad):
        return None
    names = getattr(X, "columns", None)
    return f"{bad[0]}" if names is None else f"{bad[0]} ({names[int(bad[0])]!r})"


def canonical(X: Any) -> Any:
    """CSR with sorted, unique columns (a copy only if it was not); dense as a plain array."""
    if not sp.issparse(X):
        return np.asarray(X)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


_TILE = 256


def is_symmetric(K: np.ndarray) -> bool:
    """K[i, j] == K[j, i] up to rounding of its dtype."""
    scale = max(float(K.max(initial=0.0)), -float(K.min(initial=0.0)))
    limit = 1e3 * float(np.finfo(K.dtype).eps) * scale
    # tiles that fit into the cache: rows against columns of a large matrix wait for memory
    starts = range(0, len(K), _TILE)
    return all(
        np.abs(K[i : i + _TILE, j : j + _TILE] - K[j : j + _TILE, i : i + _TILE].T).max() <= limit
        for i in starts
        for j in starts
        if j <= i
    )


def is_psd(K: np.ndarray) -> bool:
    """Cholesky with a jitter at rounding level; eigenvalues decide if it fails."""
    eps = float(np.finfo(K.dtype).eps)
    K = np.array(K, dtype=np.float64)
    K = 0.5 * (K + K.T)
    level = len(K) * eps * max(float(np.abs(K).max()), 1e-300)
    tolerance = max(level, 1e-8 * float(np.trace(K)) / len(K))
    try:
        np.linalg.cholesky(K + tolerance * np.eye(len(K)))
    except np.linalg.LinAlgError:
        return bool(np.linalg.eigvalsh(K)[0] >= -tolerance)
    return True


def check_kernel(problem: Problem) -> bool | None:
    """Definiteness (19.6): by theory, by Cholesky up to a size, else unknown (None).

    Refuses what no kernel can be, and warns of a matrix that is not positive semi-definite.
    """
    if problem.kernel.name == "precomputed" and not is_symmetric(problem.X):
        raise ValueError("X is not symmetric; kernel='precomputed' needs K[i, j] == K[j, i].")
    diagonal = problem.diagonal
    if (diagonal < 0).any():
        where = int(np.argmin(diagonal))
        raise ValueError(
            f"kernel: kappa(x, x) is negative ({diagonal[where]:.3g} at example {where}); "
            "such a kernel is not positive semi-definite: use another one."
        )
    if not np.isfinite(diagonal).all():
        raise ValueError("kernel: kappa(x, x) overflows; scale the features of X down.")
    psd = problem.kernel.is_psd
    if psd is None and problem.n_patterns <= _PSD_CHECK_LIMIT:
        everyone = np.arange(problem.n_patterns)
        psd = is_psd(problem.gram(everyone, everyone))
    if psd is False:
        warn_user(
            "kernel: the kernel matrix is not positive semi-definite, so the duality gap "
            "proves nothing and the result depends on random_state; use another kernel, or "
            "shift the spectrum by adding a multiple of the identity to a precomputed one.",
            IndefiniteKernelWarning,
        )
    return psd
