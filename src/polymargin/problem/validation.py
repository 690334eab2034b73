"""Checks of what users pass in; every refusal names the argument and what would be right."""

from __future__ import annotations

import numbers
import sys
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from polymargin.exceptions import IndefiniteKernelWarning, shown, warn_user
from polymargin.problem.plain_labels import plain_labels, refuse_masked
from polymargin.problem.problem import Problem

__all__ = [
    "canonical",
    "check_kernel",
    "check_number",
    "is_psd",
    "is_symmetric",
    "validate_named",
    "well_formed",
    "why_not_compressed",
]

_PSD_CHECK_LIMIT = 2000


def check_number(
    name: str, value: Any, above: float | None = None, at_least: float | None = None
) -> None:
    """Refuse what is not a finite number in the given range."""
    wanted = "a finite number"
    good = isinstance(value, numbers.Real) and not isinstance(value, bool)
    good = good and abs(value) <= sys.float_info.max  # whole numbers may be longer than floats
    if above is not None:
        wanted += f" > {above:g}"
        good = good and value > above
    if at_least is not None:
        wanted += f" >= {at_least:g}"
        good = good and value >= at_least
    if not good:
        raise ValueError(f"{name} must be {wanted}, got {shown(value)}.")


def validate_named(estimator: BaseEstimator, X: Any, *args: Any, **options: Any) -> Any:
    """scikit-learn's validation; a NaN or infinity is reported with its column.

    The parts of a sparse X are checked first: scikit-learn and SciPy trust them.  So are masks, and
    labels that would become others.
    """
    refuse_masked("X", X)
    X = well_formed(X)
    if args and args[0] is not None and not isinstance(args[0], str):
        args = (plain_labels(args[0]), *args[1:])
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # it sums X to see whether it is finite
            return validate_data(estimator, X, *args, **options)
    except OverflowError as error:
        raise ValueError("X: a whole number is too large for double precision.") from error
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


def why_not_compressed(
    data: Any, indices: Any, indptr: Any, shape: tuple[int, ...], is_csc: bool = False
) -> str | None:
    """Why three arrays are no CSR (or CSC) matrix of that shape; None if they are one.

    Compiled loops read ``data[k]`` and ``V[indices[k]]`` for ``indptr[i] <= k < indptr[i + 1]``
    without looking at bounds, so every index is checked here, in a few vectorised passes.
    Unsorted and repeated indices are allowed (see ``canonical``).
    """
    if len(shape) != 2 or min(shape) < 0:
        return f"shape must be two numbers >= 0, got {shape}"
    rows, columns = reversed(shape) if is_csc else shape
    for name, part in (("indices", indices), ("indptr", indptr), ("data", data)):
        if part.ndim != 1:
            return f"{name} must have one dimension, got shape {part.shape}"
        if name != "data" and part.dtype.kind not in "iu":
            return f"{name} must hold integers, got {part.dtype}"
    if len(indptr) != rows + 1:
        return f"indptr must have {rows + 1} entries for shape {shape}, got {len(indptr)}"
    if len(data) != len(indices):
        return f"data has {len(data)} entries but indices has {len(indices)}"
    if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        return "indptr must begin with 0 and never decrease"
    if indptr[-1] != len(indices):
        return f"indptr must end with the number of entries, {len(indices)}, got {indptr[-1]}"
    if len(indices) and (indices.min() < 0 or indices.max() >= columns):
        bad = indices[(indices < 0) | (indices >= columns)][0]
        return f"indices must lie between 0 and {columns - 1}, got {bad}"
    return None


def well_formed(X: Any) -> Any:
    """X as it is if not sparse; else with all indices checked, without entries past its end."""
    if not sp.issparse(X) or X.ndim != 2:
        return X
    if X.format in ("lil", "dok"):
        X = X.tocsr()
    reason = _SPARSE_CHECKS[X.format](X)
    if reason is not None:
        raise ValueError(f"X: a damaged {X.format.upper()} matrix: {reason}; build it again.")
    if X.format in ("csr", "csc") and len(X.data) > X.indptr[-1]:
        used = slice(0, X.indptr[-1])
        X = type(X)((X.data[used], X.indices[used], X.indptr), shape=X.shape)
    return X


def _why_not_csr(X: Any) -> str | None:
    data, indices = X.data, X.indices
    if X.indptr.ndim == 1 and len(X.indptr) and X.indptr.dtype.kind in "iu":
        end = max(int(X.indptr[-1]), 0)  # SciPy allows room behind the last entry
        data, indices = data[:end], indices[:end]
    return why_not_compressed(data, indices, X.indptr, X.shape, X.format == "csc")


def _why_not_bsr(X: Any) -> str | None:
    if X.data.ndim != 3:
        return f"data must have three dimensions, got shape {X.data.shape}"
    height, width = X.data.shape[1:]
    shape = (X.shape[0] // height, X.shape[1] // width)
    return why_not_compressed(X.data[:, 0, 0], X.indices, X.indptr, shape)


def _why_not_coo(X: Any) -> str | None:
    for name, part, size in (("row", X.row, X.shape[0]), ("col", X.col, X.shape[1])):
        if part.shape != X.data.shape or part.ndim != 1 or part.dtype.kind not in "iu":
            return f"{name} must be an integer for every entry of data"
        if len(part) and (part.min() < 0 or part.max() >= size):
            return f"{name} must lie between 0 and {size - 1}"
    return None


def _why_not_dia(X: Any) -> str | None:
    if X.data.ndim != 2 or X.offsets.shape != X.data.shape[:1] or X.offsets.dtype.kind not in "iu":
        return "data must have one row for every offset"
    return None


_SPARSE_CHECKS = {
    "csr": _why_not_csr,
    "csc": _why_not_csr,
    "bsr": _why_not_bsr,
    "coo": _why_not_coo,
    "dia": _why_not_dia,
}


def canonical(X: Any) -> Any:
    """CSR with sorted, unique columns (a copy only if it was not); dense as a plain array.

    SciPy remembers whether it once found the columns sorted; who changed ``X.indices`` since then
    knows better, so it is asked anew.
    """
    if not sp.issparse(X):
        return np.asarray(X)
    fresh = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
    if fresh.has_canonical_format:
        return fresh
    fresh = fresh.copy()
    fresh.sum_duplicates()
    if not np.isfinite(fresh.data).all():
        raise ValueError("X: the sum of entries of the same row and column overflows.")
    return fresh


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
        gram = problem.gram(everyone, everyone)
        if not np.isfinite(gram).all():
            raise ValueError("kernel: its values overflow on these data; scale the features of X.")
        psd = is_psd(gram)
    if psd is False:
        warn_user(
            "kernel: the kernel matrix is not positive semi-definite, so the duality gap "
            "proves nothing and the result depends on random_state; use another kernel, or "
            "shift the spectrum by adding a multiple of the identity to a precomputed one.",
            IndefiniteKernelWarning,
        )
    return psd
