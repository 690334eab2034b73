"""LIBSVM and SVMlight: ``label index:value ...``, read into a CSR matrix by compiled code."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.datasets.dataset import Dataset, LabelTable, RowBuffer, Wanted
from polymargin.datasets.sources import Source
from polymargin.datasets.text_values import is_missing, is_number

__all__ = ["read_svmlight"]

_DENSE_SHARE = 0.4  # of the entries: from here on a dense matrix is smaller and faster
_WHOLE = re.compile(r"[0-9]{1,10}")
_ENTRIES, _ROWS = 1 << 19, 1 << 15


def read_svmlight(
    source: Source,
    *,
    wanted: Wanted | None = None,
    need_label: bool = True,
    dtype: Any = np.float64,
    zero_based: bool | None = None,
) -> Dataset:
    """Read sparse rows; see ``read_data``.

    Features are numbered from 1; where the number 0 occurs (or for a model whose training file had
    it) from 0.  Mostly full rows become a dense matrix.
    """
    table = LabelTable("the first column")
    entries = RowBuffer(1, True, dtype)  # values, with the feature numbers as codes
    rows = RowBuffer(1, True, np.int64)  # ends of rows, with the codes of the labels
    scratch = np.empty(_ENTRIES)
    bits = scratch.view(np.uint64)
    indices, codes = np.empty(_ENTRIES, dtype=np.int32), np.zeros(_ROWS, dtype=np.int32)
    ends = np.zeros(_ROWS, dtype=np.int64)
    line = 0
    from polymargin.compiled.parsing import parse_sparse_rows

    for block in source.lines():
        text = np.frombuffer(block, dtype=np.uint8)
        p, end = 0, len(block)
        while p < end:
            n, k, lines, q, plain = parse_sparse_rows(
                text,
                p,
                end,
                table.slots,
                table.starts,
                table.arena,
                scratch,
                bits,
                indices,
                ends,
                codes,
            )
            start = entries.n
            entries.extend(scratch[:k, None], indices[:k], source.share_done)
            rows.extend(start + ends[:n, None], codes[:n], source.share_done)
            line += lines
            stuck = plain and q == p
            p = q
            if not plain or stuck:
                q = block.index(b"\n", p)
                line += 1
                row = _by_hand(source, block[p:q], line, table)
                p = q + 1
                if row is not None:
                    values, numbers, code = row
                    entries.extend(values[:, None], numbers, source.share_done)
                    rows.extend(np.array([[entries.n]]), np.array([code]), source.share_done)
    if rows.n == 0:
        raise source.error("has no rows")
    return _assemble(source, entries, rows, table, wanted, need_label, zero_based)


def _assemble(
    source: Source,
    entries: RowBuffer,
    rows: RowBuffer,
    table: LabelTable,
    wanted: Wanted | None,
    need_label: bool,
    zero_based: bool | None,
) -> Dataset:
    columns, numbers = entries.finish()
    values = columns[:, 0]
    assert numbers is not None
    last, codes = rows.finish()
    ends = last[:, 0]
    if wanted is not None and wanted.zero_based is not None:
        zero_based = wanted.zero_based
    has_zero = bool(len(numbers) and numbers.min() == 0)
    if zero_based is None:
        zero_based = has_zero
    if has_zero and not zero_based:
        raise source.error("has a feature number 0, but those of the model start at 1")
    if not zero_based:
        numbers -= 1
    data = Dataset(None, codes if need_label else None, table.texts, kind="libsvm")
    data.zero_based = zero_based
    width = int(numbers.max(initial=-1)) + 1
    indptr = np.concatenate([[0], ends])
    if wanted is not None:
        beyond = numbers >= wanted.n_features
        if beyond.any():
            data.notes.append(
                f"{len(np.unique(numbers[beyond]))} features that the model does not know were "
                "ignored"
            )
            kept = np.concatenate([[0], np.cumsum(~beyond)])
            indptr = kept[indptr]
            values, numbers = values[~beyond], numbers[~beyond]
        width = wanted.n_features
    if width == 0:
        raise source.error("has no features, only labels")
    X = sp.csr_matrix((values, numbers, indptr), shape=(len(ends), width))
    if X.nnz >= _DENSE_SHARE * X.shape[0] * X.shape[1]:
        data.notes.append("mostly full rows: read as a dense matrix")
        X = X.toarray()
    data.X = X
    return data


def _by_hand(
    source: Source, raw: bytes, line: int, table: LabelTable
) -> tuple[np.ndarray, np.ndarray, int] | None:
    """A row with a new label, a comment, a query number or odd numbers; or a refusal."""
    try:
        text = raw.decode("utf-8").partition("#")[0].split()
    except UnicodeDecodeError:
        raise source.error("is not UTF-8 text", line) from None
    if not text:
        return None
    label, found = text[0], []
    if ":" in label:
        raise source.error(f"starts with {label[:40]!r}, not with a label", line)
    for place, part in enumerate(text[1:]):
        name, colon, value = part.partition(":")
        if name == "qid" and place == 0 and _WHOLE.fullmatch(value):
            continue
        if not colon or not _WHOLE.fullmatch(name) or int(name) > 2**31 - 1:
            raise source.error(f"{part[:40]!r} is not 'number:value'", line)
        if not is_number(value) and not is_missing(value):
            raise source.error(f"feature {name}: {value[:40]!r} is not a number", line)
        number = float(value) if is_number(value) else math.nan
        if not math.isfinite(number):
            missing = "missing value" if math.isnan(number) else "not finite"
            raise source.error(f"feature {name}: {missing} ({value[:40]!r})", line)
        found.append((int(name), number))
    found.sort()
    numbers = np.array([k for k, _ in found], dtype=np.int64)
    if len(np.unique(numbers)) < len(numbers):
        raise source.error("has the same feature twice", line)
    return np.array([v for _, v in found], dtype=np.float64), numbers, table.code(label)
