"""Rows that need not fit into memory: a folder of blocks, read one at a time.

Layout of the folder: ``rows.json`` (what is in it and where it came from), and for every block k
either ``k.rows.npy`` (rows, features) or ``k.data.npy``, ``k.indices.npy``, ``k.indptr.npy`` (CSR),
with ``k.labels.npy`` (numbers of labels in the order of their first appearance).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.exceptions import DataFileError

__all__ = ["RowStore", "bytes_of", "open_rows", "write_store"]

Block = tuple[Any, np.ndarray, list[str]]
"""Rows, labels, names of features."""
_VERSION = 1
_BLOCKS_PER_MEMORY = 8
"""A block takes an eighth of the memory allowed: the rows as read, their scores, the variables of
the block and copies on the way are about four times the block itself."""


def bytes_of(size: str | int) -> int:
    """Bytes from a number or from text such as "1GB", "512MiB" (kB = 1000, kiB = 1024 bytes)."""
    if isinstance(size, int):
        return size
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kMGT]?)(i?)B?\s*", size, flags=re.IGNORECASE)
    if match is None:
        raise ValueError(f"memory must be a size such as '1GB' or '512MiB', got {size!r}.")
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


class RowStore:
    """Rows in blocks on disk; ``fit``, ``predict`` and ``score`` of linear machines take it.

    Attributes
    ----------
    n_rows, n_features, n_blocks : int
    classes : sorted labels
    mean, scale : (d,) mean and standard deviation of every feature (dense rows), or None
    """

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
        self.is_standardized = False

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
        other = RowStore(self.folder, keep=True)
        other.is_standardized = True
        return other

    def load(self, k: int) -> tuple[Any, np.ndarray]:
        """Rows and labels of block k."""
        labels = np.load(self.folder / f"{k}.labels.npy")
        y = self.classes[self._place[labels]]
        if self._facts.is_sparse:
            parts = [np.load(self.folder / f"{k}.{name}.npy") for name in _CSR_PARTS]
            shape = (self._facts.block_rows[k], self.n_features)
            return sp.csr_matrix(tuple(parts), shape=shape), y
        X = np.load(self.folder / f"{k}.rows.npy")
        if self.is_standardized:
            X -= self.mean.astype(X.dtype)  # type: ignore[union-attr]
            X /= self.scale.astype(X.dtype)  # type: ignore[union-attr]
        return X, y

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


def open_rows(
    path: str | os.PathLike[str],
    label: str | int | os.PathLike[str] | None = None,
    memory: str | int = "1GB",
    scratch: str | os.PathLike[str] | None = None,
    dtype: Any = np.float32,
) -> RowStore:
    """Rows of a file that may be larger than memory, converted once to blocks on disk.

    Parameters
    ----------
    path : path or glob
        ``.npy`` (rows), Parquet, CSV (also compressed), or LIBSVM.
    label : str, int, path or None
        Name or number of the label column (the last one by default); for ``.npy`` the file of the
        labels; LIBSVM files have theirs in front.
    memory : str or int
        What training may take beside the imports, such as "1GB".
    scratch : path or None
        Folder for the blocks.  It is kept, and used again while size and time of the source have
        not changed; None: a temporary folder that ``close`` removes.
    dtype : float32 or float64

    Returns
    -------
    RowStore
    """
    from polymargin.datasets.row_sources import blocks_of, fingerprint_of

    limit = bytes_of(memory)
    source = {**fingerprint_of(path), "label": str(label), "dtype": np.dtype(dtype).name}
    keep = scratch is not None
    folder = Path(scratch) if scratch is not None else Path(tempfile.mkdtemp(prefix="polymargin-"))
    if (folder / "rows.json").exists():
        known = RowStore(folder)
        if known.source == source:
            return known
    folder.mkdir(parents=True, exist_ok=True)
    try:
        block_bytes = max(1 << 20, limit // _BLOCKS_PER_MEMORY)
        blocks = blocks_of(path, label, block_bytes, np.dtype(dtype), folder)
        write_store(folder, blocks, source)
    except BaseException:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return RowStore(folder, keep)


def write_store(folder: Path, blocks: Iterator[Block], source: dict[str, Any]) -> None:
    """Write blocks (rows, labels, names of features) and, last, ``rows.json``."""
    writer = _Writer(folder)
    for X, y, names in blocks:
        writer.add(X, y, names)
    writer.close(source)


class _Writer:
    """Writes blocks and counts what ``rows.json`` says of all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.labels: dict[Any, int] = {}
        self.label_dtype: np.dtype[Any] | None = None
        self.sizes: list[int] = []
        self.width = 0
        self.total: Any = 0.0
        self.square: Any = 0.0
        self.names: list[str] = []
        self.is_sparse, self.dtype = False, "float32"

    def add(self, X: Any, y: np.ndarray, names: list[str]) -> None:
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
        wide = X.astype(np.float64)
        self.total = self.total + wide.sum(axis=0)
        self.square = self.square + (wide * wide).sum(axis=0)

    def _numbers(self, y: np.ndarray) -> np.ndarray:
        """Numbers of labels in the order of their first appearance."""
        values, inverse = np.unique(y, return_inverse=True)
        known = self.label_dtype
        self.label_dtype = values.dtype if known is None else np.promote_types(known, values.dtype)
        numbers = [self.labels.setdefault(one, len(self.labels)) for one in values.tolist()]
        return np.array(numbers, dtype=np.int32)[inverse]

    def close(self, source: dict[str, Any]) -> None:
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
        facts = _Facts(
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
        )
        part = self.folder / "rows.json.part"
        part.write_text(json.dumps(asdict(facts)), encoding="utf-8")
        os.replace(part, self.folder / "rows.json")
