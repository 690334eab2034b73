"""Blocks of rows from ``.npy`` and LIBSVM files of any size, and what identifies a source."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.exceptions import DataFileError

__all__ = ["files_of", "fingerprint_of", "is_zero_based", "libsvm_blocks", "npy_blocks"]

Block = tuple[Any, np.ndarray, list[str]]
_MOST_FEATURES = 2**31 - 1  # a part of a LIBSVM file does not know the width of the others
_FOLDER_SUFFIXES = (".parquet", ".pq", ".csv", ".csv.gz")  # the first kind that a folder has counts
_FEATURE_ZERO = re.compile(rb"[ \t]0+:")
_SAMPLE = 1 << 20  # bytes at both ends of a file that its checksum covers


def fingerprint_of(files: Sequence[Path]) -> dict[str, Any]:
    """Names, sizes, times and a checksum of both ends of files."""
    digest = hashlib.sha256()
    for file in files:
        with open(file, "rb") as stream:
            digest.update(stream.read(_SAMPLE))
            stream.seek(max(0, file.stat().st_size - _SAMPLE))
            digest.update(stream.read(_SAMPLE))
    return {
        "files": [file.name for file in files],
        "bytes": [file.stat().st_size for file in files],
        "times": [file.stat().st_mtime_ns for file in files],
        "sha256": digest.hexdigest(),
    }


def files_of(path: Any) -> list[Path]:
    """The files of a path, a glob, a folder of tables, or of several of them, by name."""
    if isinstance(path, list | tuple):
        return [file for one in path for file in files_of(one)]
    text = os.fspath(path)
    if os.path.isdir(text):
        found: list[Path] = []
        for suffix in _FOLDER_SUFFIXES:
            found = found or sorted(Path(text).rglob(f"*{suffix}"))
    else:
        found = [Path(text)] if os.path.exists(text) else sorted(map(Path, glob.glob(text)))
    if not found:
        what = "a folder without Parquet or CSV files" if os.path.isdir(text) else "no such file"
        raise DataFileError(f"{text}: {what}; check the path.")
    return found


def npy_blocks(
    files: Sequence[Path], label: Any, block_bytes: int, dtype: np.dtype[Any]
) -> Iterator[Block]:
    """Blocks of dense rows of a matrix, with the labels of another file."""
    if len(files) > 1:
        raise DataFileError(f"{files[1]}: give one .npy file with a matrix of rows.")
    if label is None or not str(label).endswith(".npy"):
        raise DataFileError(f"{files[0]}: give the .npy file of the labels as label.")
    X, y = _NpyFile(files[0]), _NpyFile(Path(os.fspath(label)))
    if len(X.shape) != 2:
        raise DataFileError(f"{files[0]}: must hold a matrix of rows, its shape is {X.shape}.")
    if y.shape != X.shape[:1]:
        raise DataFileError(f"{label}: has shape {y.shape}, but there are {X.shape[0]} rows.")
    size = max(1, block_bytes // (dtype.itemsize * max(1, X.shape[1])))
    for start in range(0, X.shape[0], size):
        block = np.ascontiguousarray(X.rows(start, size), dtype=dtype)
        _check_finite(block, files[0], start)
        yield block, y.rows(start, size), []


class _NpyFile:
    """Rows of a ``.npy`` file, read rather than mapped.

    A map of the whole file would count against a limit on the address space.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                major, _ = np.lib.format.read_magic(file)
                read = np.lib.format
                header = read.read_array_header_1_0 if major == 1 else read.read_array_header_2_0
                self.shape, is_by_columns, self.dtype = header(file)
                self.offset = file.tell()
            if self.dtype.hasobject:
                raise ValueError("it holds Python objects")
        except (ValueError, OSError) as error:
            raise DataFileError(f"{path}: is no readable .npy file ({error}).") from error
        self.whole = np.load(path, mmap_mode="r") if is_by_columns and len(self.shape) > 1 else None

    def rows(self, start: int, count: int) -> np.ndarray:
        if self.whole is not None:  # columns one after another: rows are gathered by the map
            return np.array(self.whole[start : start + count])
        count = min(count, self.shape[0] - start)
        width = int(np.prod(self.shape[1:], dtype=np.int64))
        with open(self.path, "rb") as file:
            file.seek(self.offset + start * width * self.dtype.itemsize)
            found = np.fromfile(file, dtype=self.dtype, count=count * width)
        return found.reshape(count, *self.shape[1:])


def _check_finite(block: np.ndarray, file: Path, start: int) -> None:
    bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
    if len(bad):
        row = start + int(bad[0]) + 1
        raise DataFileError(
            f"{file}: row {row} has a missing or infinite number; fill or drop such rows."
        )


def libsvm_blocks(
    files: Sequence[Path], block_bytes: int, dtype: np.dtype[Any], zero_based: bool
) -> Iterator[Block]:
    """Blocks of CSR rows."""
    from sklearn.datasets import load_svmlight_file

    for file in files:
        end = file.stat().st_size
        for start in range(0, end, block_bytes):
            try:
                with open(file, "rb") as stream:
                    X, y = load_svmlight_file(
                        stream,
                        n_features=_MOST_FEATURES,
                        dtype=dtype.type,
                        offset=start,
                        length=block_bytes,
                        zero_based=zero_based,
                    )
            except ValueError as error:
                raise DataFileError(f"{file}: {error}") from error
            if not np.isfinite(X.data).all():
                raise DataFileError(f"{file}: has a missing or infinite number; fill or drop it.")
            if X.shape[0]:
                width = int(X.indices.max(initial=0)) + 1
                X = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))
                is_whole = bool((y == np.round(y)).all())
                yield X, y.astype(np.int64) if is_whole else y, []


def is_zero_based(files: Sequence[Path]) -> bool:
    """Whether some row of a LIBSVM file has a feature of number 0."""
    for file in files:
        with open(file, "rb") as stream:
            tail = b""
            while block := stream.read(1 << 22):
                if _FEATURE_ZERO.search(tail + block):
                    return True
                tail = block[-16:]
    return False
