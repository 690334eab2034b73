"""Blocks of rows from files of any size: ``.npy``, Parquet, CSV and LIBSVM."""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.datasets.duckdb_session import quoted_name, quoted_text
from polymargin.exceptions import DataFileError

__all__ = ["blocks_of", "fingerprint_of"]

Block = tuple[Any, np.ndarray, list[str]]
_MOST_FEATURES = 2**31 - 1  # a part of a LIBSVM file does not know the width of the others
_SAMPLE = 1 << 20  # bytes at both ends of a file that its checksum covers


def fingerprint_of(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Names, sizes, times and a checksum of both ends of the files of a path or glob."""
    files = _files(path)
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


def _files(path: str | os.PathLike[str]) -> list[Path]:
    text = os.fspath(path)
    if os.path.isdir(text):
        found = sorted(Path(text).rglob("*.parquet"))
    else:
        found = [Path(text)] if os.path.exists(text) else sorted(map(Path, glob.glob(text)))
    if not found:
        raise DataFileError(f"{text}: no such file; check the path.")
    return found


def blocks_of(
    path: str | os.PathLike[str], label: Any, block_bytes: int, dtype: np.dtype[Any], folder: Path
) -> Iterator[Block]:
    """Blocks of at most ``block_bytes``, in the order of the files."""
    files = _files(path)
    suffix = files[0].suffix.lower()
    if suffix == ".npy":
        return _npy_blocks(files, label, block_bytes, dtype)
    if suffix in (".svm", ".libsvm", ".svmlight"):
        return _libsvm_blocks(files, block_bytes, dtype)
    return _table_blocks(files, label, block_bytes, dtype, folder)


def _npy_blocks(
    files: list[Path], label: Any, block_bytes: int, dtype: np.dtype[Any]
) -> Iterator[Block]:
    X = np.load(files[0], mmap_mode="r")
    if len(files) > 1 or X.ndim != 2:
        raise DataFileError(f"{files[0]}: give one .npy file with a matrix of rows.")
    if label is None or not str(label).endswith(".npy"):
        raise DataFileError(f"{files[0]}: give the .npy file of the labels as label.")
    y = np.load(Path(os.fspath(label)), mmap_mode="r")
    if y.shape != (len(X),):
        raise DataFileError(f"{label}: has shape {y.shape}, but there are {len(X)} rows.")
    size = max(1, block_bytes // (dtype.itemsize * max(1, X.shape[1])))
    for start in range(0, len(X), size):
        rows = slice(start, start + size)
        block = np.ascontiguousarray(X[rows], dtype=dtype)
        _check_finite(block, files[0], start)
        yield block, np.array(y[rows]), []


def _check_finite(block: np.ndarray, file: Path, start: int) -> None:
    bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
    if len(bad):
        row = start + int(bad[0]) + 1
        raise DataFileError(
            f"{file}: row {row} has a missing or infinite number; fill or drop such rows."
        )


def _libsvm_blocks(files: list[Path], block_bytes: int, dtype: np.dtype[Any]) -> Iterator[Block]:
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
                        zero_based=False,
                    )
            except ValueError as error:
                raise DataFileError(f"{file}: {error}") from error
            if X.shape[0]:
                width = int(X.indices.max(initial=0)) + 1
                X = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))
                is_whole = bool((y == np.round(y)).all())
                yield X, y.astype(np.int64) if is_whole else y, []


def _table_blocks(
    files: list[Path], label: Any, block_bytes: int, dtype: np.dtype[Any], folder: Path
) -> Iterator[Block]:
    """DuckDB splits the table into files of one block, which are read one by one."""
    import duckdb

    parts = folder / "parts"
    shutil.rmtree(parts, ignore_errors=True)
    names = ", ".join(quoted_text(str(file)) for file in files)
    kind = "read_parquet" if files[0].suffix.lower() in (".parquet", ".pq") else "read_csv"
    session = duckdb.connect(
        config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    )
    try:
        session.execute(f"SET memory_limit = '{max(64, 2 * block_bytes >> 20)}MiB'")
        session.execute(f"SET temp_directory = {quoted_text(str(folder))}")
        table = f"{kind}([{names}])"
        columns = [row[0] for row in session.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()]
        place = _label_place(files[0], columns, label)
        features = [name for k, name in enumerate(columns) if k != place]
        numbers = [f"CAST({quoted_name(one)} AS {_SQL[dtype.name]})" for one in features]
        wanted = ", ".join([*numbers, quoted_name(columns[place])])
        session.execute(
            f"COPY (SELECT {wanted} FROM {table}) TO {quoted_text(str(parts))} "
            f"(FORMAT parquet, FILE_SIZE_BYTES {block_bytes}, COMPRESSION uncompressed)"
        )
        row = 0
        for file in sorted(parts.glob("*.parquet")):
            found = session.execute(f"SELECT * FROM {quoted_text(str(file))}").fetchnumpy()
            arrays = list(found.values())
            X = np.stack([_numbers(one, dtype) for one in arrays[:-1]], axis=1)
            _check_finite(X, files[0], row)
            row += len(X)
            file.unlink()
            yield X, _labels(arrays[-1]), features
    except duckdb.Error as error:
        raise DataFileError(f"{files[0]}: {str(error).splitlines()[0]}") from error
    finally:
        session.close()
        shutil.rmtree(parts, ignore_errors=True)


_SQL = {"float32": "FLOAT", "float64": "DOUBLE"}


def _label_place(file: Path, columns: list[str], label: Any) -> int:
    if label is None:
        return len(columns) - 1
    if isinstance(label, int):
        return label if label >= 0 else len(columns) + label
    if label not in columns:
        raise DataFileError(f"{file}: there is no column {label!r}; it has {columns[:10]}.")
    return columns.index(label)


def _numbers(column: Any, dtype: np.dtype[Any]) -> np.ndarray:
    return np.ma.filled(np.ma.asarray(column).astype(dtype), np.nan)


def _labels(column: Any) -> np.ndarray:
    if np.ma.getmaskarray(column).any():
        raise DataFileError("the label column has missing values; drop those rows.")
    values = np.asarray(column)
    return values.astype(str) if values.dtype == object else values
