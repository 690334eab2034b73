"""Fuzz targets of the data readers: a data set that holds together, or one clear line."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fuzz.choices import Choices
from polymargin.datasets import FORMATS, Wanted, duckdb_session, read_data
from polymargin.exceptions import DataFileError
from polymargin.problem.validation import why_not_compressed

__all__ = ["READERS", "check_dataset", "check_line", "share_database"]

_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
_OPTIONS: list[dict[str, Any]] = [
    {},
    {"label": 0},
    {"label": -1, "ignore": [0]},
    {"header": False},
    {"header": True, "delimiter": ";"},
    {"need_label": False, "dtype": "float32"},
    {"need_label": False, "wanted": Wanted(3, ["a", "b", "c"], "y", False)},
    {"part": "train"},
    {"delimiter": "space"},
    {"label": "y"},
]


def check_line(error: BaseException) -> None:
    """A refusal is one line of printable length."""
    text = str(error)
    assert text.strip(), "the refusal says nothing"
    assert not {"\n", "\r"} & set(text), f"the refusal has several lines: {text!r}"
    assert len(text) < 2000, f"the refusal has {len(text)} characters"


def check_dataset(data: Any) -> None:
    """Shapes, labels and CSR parts fit together; a table that is no matrix has equal columns."""
    n, d = _size(data)
    assert min(n, d) > 0, (n, d)
    if sp.issparse(data.X):
        reason = why_not_compressed(data.X.data, data.X.indices, data.X.indptr, data.X.shape)
        assert reason is None, reason
    if data.codes is not None:
        assert data.codes.shape == (n,), data.codes.shape
        assert 0 <= data.codes.min() <= data.codes.max() < len(data.labels)
        assert len(data.y) == n
    if data.feature_names is not None:
        assert len(data.feature_names) == d


def _size(data: Any) -> tuple[int, int]:
    if data.X is not None:
        assert data.X.dtype.kind == "f", data.X.dtype
        return int(data.X.shape[0]), int(data.X.shape[1])
    lengths = {len(column.values) for column in data.columns}
    assert len(lengths) == 1, lengths
    return lengths.pop(), len(data.columns)


def _read(kind: str | None, data: bytes, read: Callable[..., Any] = read_data) -> None:
    """The first byte chooses options, the rest is the file."""
    choices = Choices(data)
    options = choices.one_of(_OPTIONS)
    handle, name = tempfile.mkstemp(".data", "fuzz-", _MEMORY)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(choices.rest())
        with np.errstate(all="ignore"):
            check_dataset(read(name, format=kind, **options))
    except DataFileError as error:
        check_line(error)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


_KEYS = (
    *("X", "y", "data", "indices", "indptr", "shape", "format"),
    *("feature_names", "train_idx", "test_idx", "val_idx"),
)
_DTYPES = (
    *("<f8", "<f4", "<f2", ">f8", "<i8", "<i4", "<u8", "<i2", "|i1", "|b1", "<U3", "|S2", "<c16"),
    *("<M8[D]", "<m8[s]", "|V4", "<U0", "|S0", "<f8,<i4", "(2,)<f8"),
)
_LENGTHS = (0, 1, 2, 3, 4, 5, 10**9, 2**31, 2**40, 2**62, 2**63, -1)


def _read_arrays(data: bytes) -> None:
    """An NPZ file whose arrays are changed one by one, its checksums right."""
    choices = Choices(data)
    options = choices.number(256)
    members = {"X": np.eye(4, 3), "y": np.array([0, 1, 0, 1])}
    if choices.number(2):
        rows = sp.csr_matrix(np.eye(4, 3))
        del members["X"]
        members |= {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
        members["shape"] = np.array(rows.shape)
    files = {f"{key}.npy": _npy(array) for key, array in members.items()}
    for _ in range(1 + choices.number(4)):
        key = choices.one_of(_KEYS)
        what = choices.number(8)
        if what == 0:
            files.pop(f"{key}.npy", None)
        elif what == 1:
            files[f"{key}.npy"] = _header(choices)
        elif what == 2:
            files[f"{key}.npy"] = choices.bytes(60)
        else:
            files[f"{key}.npy"] = _npy(_array(choices, members.get(key)))
    out = io.BytesIO()
    method = choices.one_of((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    _read("npz", bytes([options]) + out.getvalue())


def _array(choices: Choices, known: np.ndarray | None) -> np.ndarray:
    if known is not None and choices.number(2):
        known = known.copy()
        for _ in range(1 + choices.number(3)):
            value = choices.one_of((0, 1, -1, 3, 4, 5, 10**9, 2**31, 2**53 + 1, -(2**62)))
            known.flat[choices.number(known.size)] = np.array(value).astype(known.dtype)
        return known
    shape = tuple(choices.number(5) for _ in range(choices.number(4)))
    kind = np.dtype(choices.one_of(_DTYPES))
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    raw = choices.bytes(255)
    raw = (raw * (size // len(raw) + 1) if raw else bytes(size))[:size]
    if not kind.itemsize or kind.shape:
        return np.zeros(shape, kind)
    return np.ndarray(shape, kind, raw or bytes(1))


def _header(choices: Choices) -> bytes:
    """The front of an NPY file that promises any shape, with few bytes behind it."""
    shape = tuple(choices.one_of(_LENGTHS) for _ in range(choices.number(4)))
    text = repr({"descr": choices.one_of((*_DTYPES[:18], "|O", "<f3", "x")),
                 "fortran_order": bool(choices.number(2)), "shape": shape})  # fmt: skip
    version = choices.one_of((b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    size = len(text).to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + version + size + text.encode() + choices.bytes(64)


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _read_packed(data: bytes) -> None:
    """The second byte chooses a packer for the rest, whose format is found by its content."""
    choices = Choices(data)
    options, packer = choices.number(256), choices.one_of(_PACKERS)
    packed = packer(choices.rest())
    _read(None, bytes([options]) + packed)


def _zstd(data: bytes) -> bytes:
    import pyarrow as pa

    return bytes(pa.compress(data, codec="zstd", asbytes=True))


_PACKERS: tuple[Callable[[bytes], bytes], ...] = (
    partial(gzip.compress, compresslevel=1),
    bz2.compress,
    partial(lzma.compress, preset=0),
    _zstd,
    lambda data: gzip.compress(data[: len(data) // 2]) + gzip.compress(data[len(data) // 2 :]),
    lambda data: gzip.compress(data)[:-9],
)


@contextlib.contextmanager
def share_database(inputs: int = 100) -> Iterator[None]:
    """Sessions are connections, with tables of their own, to one database for ``inputs`` of them.

    Opening a database takes as long as reading three small files.
    """
    known: list[Any] = []
    whole, count = duckdb_session.open_database, 0

    def connect(spill: str) -> Any:
        nonlocal count
        if count % inputs == 0:
            known[:] = [whole(spill)]
        count += 1
        return known[0].cursor()

    duckdb_session.open_database = connect
    try:
        yield
    finally:
        duckdb_session.open_database = whole


READERS: dict[str, Callable[..., None]] = {
    **{f"read_{kind}": partial(_read, kind) for kind in FORMATS},
    "read_any": partial(_read, None),
    "read_packed": _read_packed,
    "npz_arrays": _read_arrays,
}
