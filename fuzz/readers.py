"""Fuzz targets of the data readers: a data set that holds together, or one clear line."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fuzz.choices import Choices
from polymargin.datasets import FORMATS, Wanted, read_data
from polymargin.exceptions import DataFileError
from polymargin.problem.validation import why_not_compressed

__all__ = ["READERS", "check_dataset", "check_line"]

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


def _read(kind: str | None, data: bytes) -> None:
    """The first byte chooses options, the rest is the file."""
    choices = Choices(data)
    options = choices.one_of(_OPTIONS)
    handle, name = tempfile.mkstemp(".data", "fuzz-", _MEMORY)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(choices.rest())
        with np.errstate(all="ignore"):
            check_dataset(read_data(name, format=kind, **options))
    except DataFileError as error:
        check_line(error)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


READERS: dict[str, Callable[[bytes], None]] = {
    **{f"read_{kind}": partial(_read, kind) for kind in FORMATS},
    "read_any": partial(_read, None),
}
