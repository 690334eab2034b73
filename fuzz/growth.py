"""Time and memory of every reader for files that double: ``python -m fuzz.growth``.

Ordinary files and files made to be slow, each read in a process of its own.  A reader passes if
neither its processor time nor its memory, per byte of the unpacked file, exceeds the constants that
SECURITY.md states, and if a file of four times the size takes at most ``STEEPEST`` times as long.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

__all__ = ["MEMORY", "SECONDS", "SHAPES", "STEEPEST", "WIDE_MEMORY", "measure"]

SECONDS = 1.5e-6
"""Processor seconds per byte of the unpacked file, at most."""
MEMORY, WIDE_MEMORY = 40.0, 250.0
"""Bytes of memory per byte of the unpacked file, at most; of a table with more columns than 1000
that are words or have gaps, each of which is an object."""
STEEPEST = 6.0
"""How much longer a file of four times the size may take: 4 is linear, 16 is square."""
SPARE_SECONDS, SPARE_BYTES = 0.3, 1.6e8  # whatever the size: DuckDB's start and its buffers


def _repeat(line: Callable[[int], str], head: str = "") -> Callable[[int], bytes]:
    """A text of lines until the size is reached."""

    def make(size: int) -> bytes:
        parts, length, k = [head], len(head), 0
        while length < size:
            parts.append(line(k))
            length += len(parts[-1])
            k += 1
        return "".join(parts).encode()

    return make


def _wide(cell: Callable[[int], str]) -> Callable[[int], bytes]:
    """A table of two rows, as wide as the size asks for."""

    def make(size: int) -> bytes:
        width = size // 24
        names = ",".join(f"c{k}" for k in range(width))
        row = ",".join(map(cell, range(width)))
        return f"{names},y\n{row},u\n{row},v\n".encode()

    return make


def _npz(size: int) -> bytes:
    buffer = io.BytesIO()
    rows = size // 800
    np.savez_compressed(buffer, X=np.zeros((rows, 100)), y=np.arange(rows) % 2)
    return buffer.getvalue()


def _parquet(size: int) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    rows = size // 80
    columns = {f"c{k}": np.zeros(rows) for k in range(9)}
    pq.write_table(pa.table({**columns, "y": np.arange(rows) % 2}), buffer)
    return buffer.getvalue()


_ARFF = "@relation r\n@attribute a numeric\n@attribute b {x,z}\n@attribute y {p,q}\n@data\n"
_numbers = _repeat(lambda k: f"{k}.25,{k % 97},{-k},{'uv'[k % 2]}\n", "a,b,c,y\n")

SHAPES: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "csv numbers": ("csv", _numbers),
    "csv words": ("csv", _repeat(lambda k: f"w{k},x{k % 9},{'uv'[k % 2]}\n", "a,b,y\n")),
    "csv dates": (
        "csv",
        _repeat(lambda k: f"{1 + k % 28}.{1 + k % 12}.2020,{'uv'[k % 2]}\n", "a,y\n"),
    ),
    "csv gaps": ("csv", _repeat(lambda k: f"{'' if k % 3 else k},?,{'uv'[k % 2]}\n", "a,b,y\n")),
    "csv quotes": ("csv", _repeat(lambda k: f'"a ""{k}""\n",{k},{"uv"[k % 2]}\n', "a,b,y\n")),
    "csv 300 columns": ("csv", _repeat(lambda k: f"{k}," * 300 + f"{'uv'[k % 2]}\n")),
    "csv wide numbers": ("csv", _wide(lambda k: f"{k}.5")),
    "csv wide words": ("csv", _wide(lambda k: f"w{k % 99}")),
    "csv wide gaps": ("csv", _wide(lambda k: "" if k % 3 else f"{k}")),
    "csv long fields": (
        "csv",
        _repeat(lambda k: f"{'x' * 100_000},{k},{'uv'[k % 2]}\n", "a,b,y\n"),
    ),
    "csv packed": ("csv", lambda size: gzip.compress(_numbers(size), 1)),
    "libsvm": ("libsvm", _repeat(lambda k: f"{k % 3} 1:{k}.5 7:2 {9 + k % 1000}:1e-3\n")),
    "libsvm odd": ("libsvm", _repeat(lambda k: f"{k % 3} 1:{k}.12345678901234567890123 # x\n")),
    "libsvm labels": ("libsvm", _repeat(lambda k: f"{k % 20000:0500d} 1:1\n")),
    "arff": ("arff", _repeat(lambda k: f"{k}.5,{'xz'[k % 2]},{'pq'[k % 2]}\n", _ARFF)),
    "arff sparse": ("arff", _repeat(lambda k: f"{{0 {k},2 {'pq'[k % 2]}}}\n", _ARFF)),
    "jsonl": ("jsonl", _repeat(lambda k: f'{{"a":{k}.5,"b":"w{k % 9}","y":"{"uv"[k % 2]}"}}\n')),
    "npz zeros": ("npz", _npz),
    "parquet zeros": ("parquet", _parquet),
}
"""Format and maker by name; makers take the size of the unpacked file."""


def measure(name: str, size: int) -> tuple[float, float]:
    """Processor seconds and bytes of memory that reading takes, in a forked process."""
    kind, make = SHAPES[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.data"
        path.write_bytes(make(size))
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(receive)
            answer: object
            try:
                answer = _read(str(path), kind)
            except BaseException as error:
                answer = repr(error)
            os.write(send, pickle.dumps(answer))
            os._exit(0)
        os.close(send)
        with os.fdopen(receive, "rb") as file:
            found = pickle.loads(file.read())
        os.waitpid(child, 0)
    assert isinstance(found, tuple), f"{name}: {found}"
    return found


def _read(path: str, kind: str) -> tuple[float, float]:
    from polymargin.datasets import read_data

    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
    before = _memory("VmRSS")
    begun = time.process_time()
    read_data(path, format=kind)
    return time.process_time() - begun, _memory("VmHWM") - before


def _memory(word: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith(word))


def main() -> int:
    """Measure; 1 if a reader exceeds what is stated."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.growth", description=__doc__.splitlines()[0]
    )
    parser.add_argument("shapes", nargs="*", help="names; all if none")
    parser.add_argument("--bytes", type=int, default=1 << 22, help="of the smaller file")
    arguments = parser.parse_args()
    import duckdb  # noqa: F401 - loaded before anything is measured

    small, large = arguments.bytes, 4 * arguments.bytes
    failed = False
    print(f"{'':18s} {'ns/byte':>8s} {'bytes/byte':>10s} {'time of 4x':>10s}")
    for name in arguments.shapes or SHAPES:
        measure(name, 1 << 12)  # compiled
        seconds = min(measure(name, small)[0] for _ in range(2))
        longer, memory = measure(name, large)
        ratio = longer / max(seconds, 1e-3)
        is_right = (
            longer < SECONDS * large + SPARE_SECONDS
            and memory < (WIDE_MEMORY if "wide" in name else MEMORY) * large + SPARE_BYTES
            and (ratio < STEEPEST or longer < SPARE_SECONDS)
        )
        failed |= not is_right
        figures = f"{1e9 * longer / large:8.0f} {memory / large:10.1f} {ratio:10.1f}"
        print(f"{name:18s} {figures}{'' if is_right else '  TOO MUCH'}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
