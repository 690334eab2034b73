"""Rows that need not fit into memory: a folder of blocks, read one at a time.

Layout of the folder: ``rows.json`` (what is in it and where it came from), and for every block k
either ``k.rows.npy`` (rows, features) or ``k.data.npy``, ``k.indices.npy``, ``k.indptr.npy`` (CSR),
with ``k.labels.npy`` (numbers of labels in the order of their first appearance).
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.exceptions import DataFileError, shown

__all__ = ["RowStore", "StoreWriter", "bytes_of"]

Block = tuple[Any, np.ndarray, list[str]]
"""Rows, labels, names of features."""
_VERSION = 1


def bytes_of(size: str | int) -> int:
    """Bytes from a number or from text such as "1GB", "512MiB" (kB = 1000, kiB = 1024 bytes)."""
    if isinstance(size, int):
        return size
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kMGT]?)(i?)B?\s*", size, flags=re.IGNORECASE)
    if match is None:
        raise ValueError(f"memory must be a size such as '1GB' or '512MiB', got {shown(size)}.")
    power = " kmgt".index(match[2].lower() or " ")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


@dataclass
class _Facts:
    """What ``rows.json`` says."""

    version: int
    source: dict[str, Any]
    n_features: int
    labels: list[Any]
    label_dtype: str
    block_rows: list[int]
    is_sparse: bool
    dtype: str
    mean: list[float] | None = None
    scale: list[float] | None = None
    feature_names: list[str] = field(default_factory=list)
    label_name: str | None = None
    zero_based: bool | None = None
    is_encoded: bool = False


class RowStore:
    r"""Rows in blocks on disk; ``fit``, ``predict`` and ``score`` of linear machines take it.

    Attributes
    ----------
    n_rows, n_features, n_blocks : int
    classes : sorted labels
    mean, scale : (d,) mean and standard deviation of every feature (dense rows), or None
    feature_names : list of str or None
    label_name : str or None
    zero_based : bool or None
        LIBSVM only: whether the first feature has the number 0.
    plan, encoder : ColumnPlan and ColumnTransformer, or None
        Of a table that is no matrix: what became of its columns, and the step that made the rows.

    See Also
    --------
    open_rows : Makes it from files.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from polymargin import open_rows
    >>> path = pathlib.Path(tempfile.mkdtemp(), "rows.csv")
    >>> _ = path.write_text("a,b,kind\n1,2,x\n3,4,y\n")
    >>> with open_rows(path) as rows:
    ...     print(rows.shape, rows.classes.tolist())
    (2, 2) ['x', 'y']
    """

    plan: Any = None
    encoder: Any = None

    def __init__(self, folder: str | os.PathLike[str], keep: bool = True) -> None:
        self.folder = Path(folder)
        self.keep = keep
        try:
            facts = json.loads((self.folder / "rows.json").read_text(encoding="utf-8"))
            self._facts = _Facts(**facts)
        except (OSError, ValueError, TypeError) as error:
            raise DataFileError(
                f"{self.folder}: is no folder of packed rows ({error}); make it with open_rows."
            ) from error
        if self._facts.version != _VERSION:
            raise DataFileError(f"{self.folder}: packed by another version; remove it.")
        labels = np.array(self._facts.labels, dtype=self._facts.label_dtype)
        self.classes, self._place = np.unique(labels, return_inverse=True)
        self.n_features = self._facts.n_features
        self.n_blocks = len(self._facts.block_rows)
        self.n_rows = sum(self._facts.block_rows)
        self.shape = (self.n_rows, self.n_features)
        self.source = self._facts.source
        self.is_encoded = self._facts.is_encoded
        self.feature_names = self._facts.feature_names or None
        self.label_name, self.zero_based = self._facts.label_name, self._facts.zero_based
        self._scaler: Any = None
        self._is_standardized = False

    @property
    def mean(self) -> np.ndarray | None:
        return None if self._facts.mean is None else np.array(self._facts.mean)

    @property
    def scale(self) -> np.ndarray | None:
        return None if self._facts.scale is None else np.array(self._facts.scale)

    def standardized(self) -> RowStore:
        """The same rows, every feature with mean 0 and standard deviation 1 (dense rows only)."""
        if self._facts.mean is None:
            raise ValueError("rows: sparse rows keep their zeros and are not standardised.")
        other = self._view()
        other._is_standardized = True
        return other

    def scaled(self, scaler: Any) -> RowStore:
        """The same rows behind a fitted scaler of scikit-learn, applied as they are read."""
        other = self._view()
        other._scaler = scaler
        return other

    def _view(self) -> RowStore:
        other = copy.copy(self)
        other.keep = True
        return other

    def labels(self, k: int) -> np.ndarray:
        """Labels of block k."""
        return np.asarray(self.classes[self._place[np.load(self.folder / f"{k}.labels.npy")]])

    def load(self, k: int) -> tuple[Any, np.ndarray]:
        """Rows and labels of block k."""
        y = self.labels(k)
        X: Any
        if self._facts.is_sparse:
            parts = [np.load(self.folder / f"{k}.{name}.npy") for name in _CSR_PARTS]
            X = sp.csr_matrix(tuple(parts), shape=(self._facts.block_rows[k], self.n_features))
        else:
            X = np.load(self.folder / f"{k}.rows.npy")
        if self._is_standardized:
            X -= self.mean.astype(X.dtype)  # type: ignore[union-attr]
            X /= self.scale.astype(X.dtype)  # type: ignore[union-attr]
        return (X if self._scaler is None else self._scaler.transform(X)), y

    def sample(self, count: int, seed: int = 0) -> tuple[Any, np.ndarray]:
        """At most ``count`` random rows of all blocks, in their order, and their labels."""
        random = np.random.default_rng(seed)
        wanted = np.sort(random.choice(self.n_rows, min(count, self.n_rows), replace=False))
        ends = np.cumsum(self._facts.block_rows)
        rows, labels = [], []
        for k, end in enumerate(ends):
            begin = end - self._facts.block_rows[k]
            inside = wanted[(wanted >= begin) & (wanted < end)] - begin
            if len(inside):
                X, y = self.load(k)
                rows.append(X[inside])
                labels.append(y[inside])
        found: Any = sp.vstack(rows, "csr") if self._facts.is_sparse else np.concatenate(rows)
        return found, np.concatenate(labels)

    def blocks(self) -> Iterator[tuple[Any, np.ndarray]]:
        """All blocks in order."""
        return (self.load(k) for k in range(self.n_blocks))

    @property
    def nbytes(self) -> int:
        """Size of the packed rows."""
        return sum(file.stat().st_size for file in self.folder.iterdir())

    def close(self) -> None:
        """Remove the folder, unless it was asked to stay."""
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> RowStore:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_CSR_PARTS = ("data", "indices", "indptr")


class StoreWriter:
    """Writes blocks and counts what ``rows.json`` says of all of them."""

    def __init__(self, folder: Path, block_bytes: int) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for old in [folder / "rows.json", *folder.glob("[0-9]*.npy")]:
            old.unlink(missing_ok=True)
        self.block_bytes = block_bytes
        self.labels: dict[Any, int] = {}
        self.label_dtype: np.dtype[Any] | None = None
        self.sizes: list[int] = []
        self.width = 0
        self.total: Any = 0.0
        self.square: Any = 0.0
        self.names: list[str] = []
        self.is_sparse, self.dtype = False, "float32"

    def add(self, X: Any, y: np.ndarray, names: list[str]) -> None:
        """Append rows, in several blocks where they are more than one should have."""
        size = X.data.nbytes + X.indices.nbytes if sp.issparse(X) else X.nbytes
        pieces = max(1, -(-size // self.block_bytes))
        rows = max(1, -(-X.shape[0] // pieces))
        for start in range(0, X.shape[0], rows):
            self._add(X[start : start + rows], y[start : start + rows], names)

    def _add(self, X: Any, y: np.ndarray, names: list[str]) -> None:
        k = len(self.sizes)
        self.sizes.append(X.shape[0])
        self.width = max(self.width, X.shape[1])
        self.names, self.is_sparse, self.dtype = names, sp.issparse(X), X.dtype.name
        np.save(self.folder / f"{k}.labels.npy", self._numbers(y))
        if self.is_sparse:
            for name in _CSR_PARTS:
                np.save(self.folder / f"{k}.{name}.npy", getattr(X, name))
            return
        np.save(self.folder / f"{k}.rows.npy", X)
        self.total = self.total + X.sum(axis=0, dtype=np.float64)
        self.square = self.square + np.einsum("ij,ij->j", X, X, dtype=np.float64)

    def _numbers(self, y: np.ndarray) -> np.ndarray:
        """Numbers of labels in the order of their first appearance."""
        values, inverse = np.unique(y, return_inverse=True)
        known = self.label_dtype
        self.label_dtype = values.dtype if known is None else np.promote_types(known, values.dtype)
        numbers = [self.labels.setdefault(one, len(self.labels)) for one in values.tolist()]
        return np.array(numbers, dtype=np.int32)[inverse]

    def close(self, source: dict[str, Any], **facts: Any) -> None:
        """Write ``rows.json``: from now on the folder is a store."""
        n = sum(self.sizes)
        if not n or self.label_dtype is None:
            raise DataFileError("the file has no rows.")
        mean = scale = None
        if not self.is_sparse:
            mean = self.total / n
            deviation = np.sqrt(np.maximum(self.square / n - mean**2, 0.0))
            scale = np.where(deviation > 1e-12 * np.abs(mean), deviation, 1.0).tolist()
            mean = mean.tolist()
        written = _Facts(
            _VERSION,
            source,
            self.width,
            list(self.labels),
            self.label_dtype.str,
            self.sizes,
            self.is_sparse,
            self.dtype,
            mean,
            scale,
            self.names,
            **facts,
        )
        part = self.folder / "rows.json.part"
        part.write_text(json.dumps(asdict(written)), encoding="utf-8")
        os.replace(part, self.folder / "rows.json")
