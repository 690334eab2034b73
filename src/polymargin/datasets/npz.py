"""NPZ archives: arrays ``X`` and ``y``, or the parts of a CSR matrix; nothing is unpickled."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.datasets.dataset import ColumnRequest, Dataset, Wanted
from polymargin.datasets.sources import Source
from polymargin.datasets.table import distinct_names
from polymargin.exceptions import DataFileError
from polymargin.problem.validation import why_not_compressed

__all__ = ["read_npz"]

_PARTS = {"train": "train_idx", "test": "test_idx", "validation": "val_idx"}
_NAMES = frozenset(
    ["X", "y", "data", "indices", "indptr", "shape", "format", "feature_names", *_PARTS.values()]
)
_CHECKED = 1 << 16  # rows looked at together
_DEFLATE_RATIO = 1100  # one packed byte of deflate gives at most 1032


def read_npz(
    source: Source,
    *,
    part: str | None = None,
    wanted: Wanted | None = None,
    need_label: bool = True,
    dtype: Any = np.float64,
) -> Dataset:
    """Read ``X`` (or the parts ``data, indices, indptr, shape`` of a CSR matrix) and ``y``.

    ``part`` takes the rows ``train_idx``, ``test_idx`` or ``val_idx``; ``feature_names`` is read if
    it is there.  Nothing is unpickled.
    """
    try:
        archive = np.load(source.whole(), allow_pickle=False)
        names = set(getattr(archive, "files", ()))
        _check_sizes(source, archive)
        arrays = _Arrays(source, archive)
        X = _matrix(source, arrays, names)
        y = arrays["y"].ravel() if "y" in names else None
        titles = arrays["feature_names"] if "feature_names" in names else None
        rows = _part(source, arrays, names, part, X.shape[0])
    except DataFileError:
        raise
    except Exception as error:  # damaged archives make NumPy and zlib raise errors of many kinds
        reason = " ".join(str(error).split()) or type(error).__name__
        raise source.error(f"is no readable NPZ archive: {reason}") from error
    if y is None and need_label:
        raise source.error("has no labels: no array 'y'")
    if y is not None and y.dtype.kind not in "biufSU":
        raise source.error(f"y must hold numbers or text, got {y.dtype}")
    if y is not None and len(y) != X.shape[0]:
        raise source.error(f"has {X.shape[0]} rows in X but {len(y)} labels in y")
    if titles is not None and titles.shape != (X.shape[1],):
        raise source.error(
            f"feature_names must be {X.shape[1]} names, one for each column of X, got an array of "
            f"shape {titles.shape}"
        )
    if rows is not None:
        X, y = X[rows], None if y is None else y[rows]
    if X.shape[0] == 0:
        raise source.error("has no rows")
    data = _with_labels(source, X, y if need_label else None, dtype)
    if titles is not None:
        given = [str(title) for title in titles.tolist()]
        data.feature_names = distinct_names(source, given, ColumnRequest(), data.notes)
    return _match(source, data, wanted)


class _Arrays:
    """Members of an archive by name; a member that is no array is refused."""

    def __init__(self, source: Source, archive: Any) -> None:
        self.source, self.archive = source, archive

    def __getitem__(self, name: str) -> np.ndarray:
        found = self.archive[name]
        if not isinstance(found, np.ndarray):  # NumPy hands other members out as they are
            raise self.source.error(f"{name!r} is no NumPy array")
        return found


def _check_sizes(source: Source, archive: Any) -> None:
    """Refuse members that claim more than their packed bytes can hold, or than the limit."""
    members = archive.zip.infolist() if hasattr(archive, "zip") else ()
    for member in members:
        if member.file_size > _DEFLATE_RATIO * member.compress_size + _DEFLATE_RATIO:
            raise source.error(
                f"array {member.filename.removesuffix('.npy')!r} claims {member.file_size} bytes "
                f"in {member.compress_size} packed ones, which cannot be: the file is damaged"
            )
    total = sum(m.file_size for m in members if m.filename.removesuffix(".npy") in _NAMES)
    if total > source.packed_limit:
        raise source.error(
            f"holds {total} bytes once it is unpacked, more than {source.packed_limit}; if that is "
            "right, raise the limit with --max-bytes"
        )


def _matrix(source: Source, archive: _Arrays, names: set[str]) -> Any:
    if "X" in names:
        X = archive["X"]
        if X.ndim < 2:
            raise source.error(
                f"X must have two dimensions, rows and features, got shape {X.shape}"
            )
        return X.reshape(len(X), -1) if X.ndim > 2 else X
    if {"data", "indices", "indptr", "shape"} <= names:
        return _csr(source, archive, names)
    raise source.error(
        f"has no array 'X' (nor 'data', 'indices', 'indptr', 'shape'), only {sorted(names)}"
    )


def _csr(source: Source, archive: _Arrays, names: set[str]) -> sp.csr_matrix:
    """The CSR matrix of the parts, all of them checked."""
    kind = archive["format"].item() if "format" in names else b"csr"
    if kind not in (b"csr", "csr"):
        raise source.error(f"holds a sparse matrix of format {kind!r}; save it as CSR (X.tocsr())")
    lengths = archive["shape"]
    if lengths.dtype.kind not in "iu":
        raise source.error(f"shape must hold integers, got {lengths.dtype}")
    shape = tuple(lengths.ravel().tolist())
    data, indices, indptr = archive["data"], archive["indices"], archive["indptr"]
    reason = why_not_compressed(data, indices, indptr, shape)
    if reason is not None:
        raise source.error(f"holds no CSR matrix: {reason}")
    if data.dtype.kind not in "biuf":
        raise source.error(f"data must hold numbers, got {data.dtype}")
    if data.dtype != np.float32:
        data = data.astype(np.float64, copy=False)
    X = sp.csr_matrix((data, indices, indptr), shape=shape)
    X.sum_duplicates()
    return X


def _part(
    source: Source, archive: _Arrays, names: set[str], part: str | None, n: int
) -> np.ndarray | None:
    if part is None:
        return None
    key = _PARTS[part]
    if key not in names:
        raise source.error(f"has no array {key!r}, so there is no --part {part}")
    rows = archive[key]
    if rows.dtype.kind == "b" and rows.shape == (n,):
        return rows
    if rows.ndim != 1 or (rows.dtype.kind not in "iu" and len(rows)):
        raise source.error(f"{key} must be a list of row numbers, got {rows.dtype} {rows.shape}")
    if len(rows) and (rows.min() < 0 or rows.max() >= n):
        bad = rows[(rows < 0) | (rows >= n)][0]
        raise source.error(f"{key} must lie between 0 and {n - 1}, got {bad}")
    return rows.astype(np.intp)


def _with_labels(source: Source, X: Any, y: np.ndarray | None, dtype: Any) -> Dataset:
    if X.ndim != 2 or X.shape[1] == 0:
        raise source.error(f"X must have two dimensions, rows and features, got shape {X.shape}")
    if X.dtype.kind not in "biuf":
        raise source.error(f"X must hold numbers, got {X.dtype}")
    X = X.astype(dtype, copy=False)
    values = X.data if sp.issparse(X) else X
    if not all(
        np.isfinite(values[k : k + _CHECKED]).all() for k in range(0, len(values), _CHECKED)
    ):
        if sp.issparse(X):
            raise source.error("X has missing or infinite values")
        row, column = (int(k[0]) for k in np.nonzero(~np.isfinite(X)))
        raise source.error(f"row {row}, column {column}: missing or infinite value")
    if not sp.issparse(X):
        X = np.ascontiguousarray(X)
    if y is None:
        return Dataset(X, None, [], kind="npz")
    values, codes = np.unique(y, return_inverse=True)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise source.error("y has missing labels (nan)")
    if values.dtype.kind in "S":
        texts = [value.decode("utf-8", "replace") for value in values.tolist()]
    else:
        texts = [str(value) for value in values.tolist()]
    return Dataset(X, codes.astype(np.int32), texts, kind="npz")


def _match(source: Source, data: Dataset, wanted: Wanted | None) -> Dataset:
    """The features as the model expects them."""
    if wanted is None:
        return data
    names = data.feature_names
    if wanted.names is not None and names is not None and list(wanted.names) != names:
        missing = [name for name in wanted.names if name not in names]
        if missing:
            raise source.error(
                f"lacks {len(missing)} of the {len(wanted.names)} features of the model: "
                + ", ".join(map(repr, missing[:8]))
            )
        data.X = data.X[:, [names.index(name) for name in wanted.names]]
        data.feature_names = list(wanted.names)
    if data.X.shape[1] != wanted.n_features:
        raise source.error(
            f"has {data.X.shape[1]} features, but the model was trained on {wanted.n_features}"
        )
    return data
