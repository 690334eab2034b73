"""The archive inside a model file: what it would unpack to, and the same bytes for the same model.

The archive is a ZIP of ``schema.json`` (a tree of nodes, arrays named by file) and of one NPY or
NPZ file for every array.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

__all__ = ["nodes", "repacked", "unpacked_bytes"]

_PER_SCHEMA_BYTE = 16
"""Bytes of memory that a byte of schema.json takes as Python objects (measured: 10 to 15)."""


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """All dictionaries of a schema, in the order in which they are written."""
    todo = [schema]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo += reversed(node)
        elif isinstance(node, dict):
            yield node
            todo += reversed(list(node.values()))


def unpacked_bytes(payload: bytes, most: float) -> int:
    """Memory that reading needs, every file counted as often as the schema names it.

    Counting ends where the sum exceeds ``most``.  An NPZ file counts with what is inside it.
    """
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        total = _PER_SCHEMA_BYTE * archive.getinfo("schema.json").file_size
        sizes: dict[str, int] = {}
        if total > most:
            return total
        for node in nodes(json.loads(archive.read("schema.json"))):
            name = node.get("file")
            if not isinstance(name, str):
                continue
            if name not in sizes:
                sizes[name] = archive.getinfo(name).file_size
                if name.endswith(".npz") and total + sizes[name] <= most:
                    with zipfile.ZipFile(io.BytesIO(archive.read(name))) as inner:
                        sizes[name] += sum(member.file_size for member in inner.infolist())
            total += sizes[name]
            if total > most:
                break
    return total


def repacked(payload: bytes, compression: int) -> bytes:
    """The archive without what depends on the moment: addresses as numbers, times, file order."""
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        schema = json.loads(archive.read("schema.json"))
        names = _rename(schema)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", compression, compresslevel=1) as target:
            for old, new in names.items():
                content = archive.read(old)
                if old.endswith(".npz"):
                    content = _stored(content)
                target.writestr(_entry(new, compression), content)
            text = json.dumps(schema, separators=(",", ":"))
            target.writestr(_entry("schema.json", compression), text)
    return out.getvalue()


def _rename(schema: Any) -> dict[str, str]:
    """Number the objects in the order of the schema; old and new names of their files."""
    numbers: dict[Any, int] = {}
    names: dict[str, str] = {}
    for node in nodes(schema):
        if "__id__" in node:
            node["__id__"] = numbers.setdefault(node["__id__"], len(numbers) + 1)
        if "__loader__" in node and isinstance(node.get("file"), str):
            old = node["file"]
            ending = old[old.rindex(".") :]
            node["file"] = names.setdefault(old, f"{len(names) + 1}{ending}")
    return names


def _stored(npz: bytes) -> bytes:
    """An NPZ file without packing and times: the archive around it is packed."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(npz)) as source,
        zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as target,
    ):
        for name in source.namelist():
            target.writestr(_entry(name, zipfile.ZIP_STORED), source.read(name))
    return out.getvalue()


def _entry(name: str, compression: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)  # dated 1980: the same bytes at any time
    entry.compress_type = compression
    return entry
