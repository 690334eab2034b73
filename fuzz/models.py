"""Fuzz targets of model files: bytes as they come, and archives changed inside with a new checksum.

Whatever the bytes are: a ``ModelFileError`` of one line, or a model that predicts finite scores.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fuzz.choices import Choices
from fuzz.readers import _MEMORY, check_line
from polymargin import ConvexHullSVC, ModelFileError, MulticlassSVC, MultiPrototypeSVC
from polymargin.storage import model_file

__all__ = ["MODELS", "base_files"]

_LIMIT = 1 << 24  # bytes that a fuzzed file may unpack to: the fuzzer's own memory is limited
_DTYPES = ("<f8", "<f4", "<i8", "<i4", "<u8", "|b1", "<U3", "<c16", "|S2", "<f2", ">f8")
_NUMBERS = (0, 1, -1, 2, 4, 10**9, 2**62, -(2**62), np.nan, np.inf, -np.inf, 1e300, 5e-324)


def _fitted() -> list[Any]:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 6)
    X = rng.normal(size=(18, 3)) + 2.0 * np.eye(3)[y]
    rows = sparse.csr_matrix(np.where(np.abs(X) > 0.7, X, 0.0))
    models = [
        (MulticlassSVC(random_state=0), X),
        (MulticlassSVC("ww", kernel="rbf", random_state=0), rows),
        (MulticlassSVC(kernel="precomputed", random_state=0), X @ X.T),
        (MultiPrototypeSVC(2, random_state=0), X),
        (MultiPrototypeSVC(2, kernel="rbf", random_state=0), rows),
        (ConvexHullSVC(eta=0.5), X),
        (make_pipeline(StandardScaler(), MulticlassSVC(kernel="poly", random_state=0)), X),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [model.fit(data, y) for model, data in models]


@cache
def base_files() -> list[bytes]:
    """Small model files of every kind, made on the spot so that they are of this version."""
    found = []
    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        path = os.path.join(folder, "model.pm")
        for model in _fitted():
            model_file.save(model, path)
            with open(path, "rb") as file:
                found.append(file.read())
    return found


@cache
def _bases() -> list[tuple[bytes, dict[str, bytes]]]:
    """Front with header, and the files of the archive, of every base file."""
    found = []
    for data in base_files():
        _, _, length = model_file._FRONT.unpack_from(data)
        body = model_file._FRONT.size + length
        with zipfile.ZipFile(io.BytesIO(data[body : -model_file._DIGEST])) as archive:
            found.append((data[:body], {n: archive.read(n) for n in archive.namelist()}))
    return found


def load_bytes(data: bytes) -> None:
    """Load and use; every refusal must be a ModelFileError of one line."""
    handle, name = tempfile.mkstemp(".pm", "fuzz-", _MEMORY)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        try:
            model = model_file.load(name, max_bytes=_LIMIT)
        except ModelFileError as error:
            check_line(error)
            return
        _use(model)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


def _use(model: Any) -> None:
    if not hasattr(model, "predict"):
        return  # transformers can be saved, too
    width = int(model.n_features_in_)
    rows = np.linspace(-2.0, 2.0, 3 * width).reshape(3, width)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            labels, scores = model.predict(rows), model.decision_function(rows)
        except ValueError as error:  # scores that overflow are refused, too
            check_line(error)
            return
    assert labels.shape == (3,), labels.shape
    assert np.isfinite(scores).all(), scores


def raw(data: bytes) -> None:
    """The bytes of a file; where they are long enough, also with the checksum redone."""
    load_bytes(data)
    if len(data) > model_file._DIGEST:
        body = data[: -model_file._DIGEST]
        load_bytes(body + hashlib.sha256(body).digest())


def tampered(data: bytes) -> None:
    """A base file with a few changes inside its archive or header, and the checksum redone."""
    choices = Choices(data)
    front, files = choices.one_of(_bases())
    files = dict(files)
    for _ in range(1 + choices.number(4)):
        name = choices.one_of(sorted(files))
        if name == "schema.json":
            files[name] = _changed_schema(choices, files[name])
        elif choices.number(8) == 0:
            files[choices.one_of(sorted(files))] = files[name]
        else:
            files[name] = _changed_file(choices, name, files[name])
        if choices.is_over:
            break
    if choices.number(16) == 1:
        front = _changed_header(choices, front)
    buffer = io.BytesIO()
    with zipfile.ZipFile(
        buffer, "w", choices.one_of([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    ) as out:
        for name, content in files.items():
            out.writestr(name, content)
    whole = front + buffer.getvalue()
    load_bytes(whole + hashlib.sha256(whole).digest())


def _changed_header(choices: Choices, front: bytes) -> bytes:
    magic, version, _ = model_file._FRONT.unpack_from(front)
    header = json.loads(front[model_file._FRONT.size :])
    header[choices.one_of(sorted(header))] = choices.json_value()
    text = json.dumps(header).encode()
    return bytes(model_file._FRONT.pack(magic, version, len(text)) + text)


def _changed_schema(choices: Choices, text: bytes) -> bytes:
    """One key of one node set to another value, taken from elsewhere, renamed or removed."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return text
    places = [
        (node, key)
        for node in _nodes(schema)
        for key in (node if isinstance(node, dict) else range(len(node)))
    ]
    if not places:
        return text
    node, key = choices.one_of(places)
    what = choices.number(5)
    if what == 0:
        del node[key]
    elif what == 1:
        other, place = choices.one_of(places)
        if (isinstance(other, dict) and place in other) or (
            isinstance(other, list) and place < len(other)
        ):
            node[key] = json.loads(json.dumps(other[place]))
    elif what == 2 and isinstance(node, dict):
        node[choices.bytes(8).decode("latin-1")] = node[key]
    else:
        node[key] = choices.json_value()
    return json.dumps(schema).encode()


def _nodes(schema: Any) -> list[Any]:
    found, todo = [], [schema]
    while todo:
        node = todo.pop()
        if isinstance(node, dict | list):
            found.append(node)
            todo += node.values() if isinstance(node, dict) else node
    return found


def _changed_file(choices: Choices, name: str, content: bytes) -> bytes:
    what = choices.number(6)
    if what == 0:
        return content[: choices.number(len(content) + 1)]
    if what == 1:
        data = bytearray(content or b"x")
        for _ in range(1 + choices.number(4)):
            data[choices.number(len(data))] = choices.number(256)
        return bytes(data)
    try:
        if name.endswith(".npz"):
            return _changed_npz(choices, content)
        return _npy(_changed_array(choices, np.load(io.BytesIO(content))))
    except Exception:  # it was damaged before: NumPy, zipfile and tokenize have errors of their own
        return content


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _changed_npz(choices: Choices, content: bytes) -> bytes:
    with np.load(io.BytesIO(content)) as archive:
        parts = {name: archive[name] for name in archive.files}
    name = choices.one_of(sorted(parts))
    parts[name] = _changed_array(choices, parts[name])
    buffer = io.BytesIO()
    np.savez(buffer, **parts)
    return buffer.getvalue()


def _changed_array(choices: Choices, array: np.ndarray) -> np.ndarray:
    what = choices.number(6)
    if what == 0:
        return array.astype(choices.one_of(_DTYPES))
    if what == 1:
        return array[: choices.number(len(array) + 1)] if array.ndim else array[None]
    if what == 2:
        return np.concatenate([array, array])
    if what == 3:
        return array.T if choices.number(2) else array.ravel()
    array = array.copy()
    for _ in range(1 + choices.number(3) if array.size else 0):
        array.flat[choices.number(array.size)] = choices.one_of(_NUMBERS)
    return array


MODELS: dict[str, Callable[[bytes], None]] = {"model_file": raw, "model_arrays": tampered}
