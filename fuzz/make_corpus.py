"""Write the seeds of the data readers: small files of every format, ordinary and odd.

Run ``python -m fuzz.make_corpus`` after adding a format; the seeds are part of the repository.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from typing import Any

import numpy as np

from fuzz.targets import CORPUS

TEXTS = {
    "csv": [
        b"a,b,c,y\n1,2,3,red\n4,5,6,blue\n-1e3,.5,+7,red\n",
        b"1;2;x\n3;4;y\n",
        b'"a ""q""",b,y\n1,"2",\'z\'\n3,4,"multi\nline"\n',
        b"\xef\xbb\xbfa,y\r\n1,0\r\n2,1\r\n",
        b"a,b,y\n1,,0\n?,NA,1\nnan,inf,0\n",
        b"1 2  3\n 4 5 6\n",
        gzip.compress(b"a,b,y\n1,2,0\n3,4,1\n", mtime=0),
        b"",
        b"when,price,ok,who,y\n2024-01-31,1.5,true,ann,u\n2024-02-29,,false,bob,v\n"
        b"2023-12-01 10:30,-2,TRUE,,u\n2024-03-03,1e3,false,ann,v\n",
        b"when;price;y\n31.01.2024;1.234,5;u\n29.02.2024;-0,5;v\n01.12.2023;7,25;u\n",
        b",".join(b"%d" % k for k in range(1100)) + b",y\n" + 2 * (b"1," * 1100 + b"u\n"),
    ],
    "tsv": [b"a\tb\ty\n1\t2\tu\n3\t4\tv\n", b"1\t2\t\n\t\t\n"],
    "libsvm": [
        b"1 1:0.5 3:2\n-1 2:1e-3 # note\n",
        b"+1 qid:3 0:1 7:2\n0\n",
        b"red 1:1\nblue 2:2 10:3\n",
        b"1,2 1:1\n",
    ],
    "arff": [
        b"@relation r\n@attribute a numeric\n@attribute 'b c' {x,y,'z z'}\n@attribute y {0,1}\n"
        b"@data\n1,x,0\n% comment\n2,'z z',1\n",
        b"@RELATION r\n@ATTRIBUTE a REAL\n@ATTRIBUTE y {p,q}\n@DATA\n{0 3.5, 1 q}\n{1 p}\n",
        b"@relation r\n@attribute a string\n@attribute d date 'yyyy'\n@data\nx,2020\n?,?\n",
    ],
    "jsonl": [
        b'{"a": 1, "b": 2.5, "y": "red"}\n{"a": null, "b": -1e3, "y": "blue"}\n',
        b'{"a": [1, 2], "y": {"z": 1}}\n',
    ],
}


def _archives() -> Iterator[bytes]:
    rows = {"data": np.ones(3), "indices": np.array([0, 1, 2]), "indptr": np.array([0, 2, 3])}
    y = np.array([0, 1])
    cases: list[dict[str, Any]] = [
        {"X": np.eye(2, 3), "y": y},
        {**rows, "shape": np.array([2, 3]), "y": y},
        {"X": np.eye(4), "y": np.array(list("abab")), "train_idx": y, "test_idx": y + 2},
        {"X": np.float32(3.0), "y": y},
    ]
    for arrays in cases:
        for save in (np.savez, np.savez_compressed):
            buffer = io.BytesIO()
            save(buffer, **arrays)
            yield buffer.getvalue()


def _parquet() -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"a": [1.0, 2.0], "b": [3, None], "y": ["u", "v"]}
    for compression in ("none", "snappy"):
        buffer = io.BytesIO()
        pq.write_table(pa.table(columns), buffer, compression=compression)
        yield buffer.getvalue()


def main() -> None:
    """Write them, each behind the byte that chooses the default options."""
    files = {**TEXTS, "npz": list(_archives()), "parquet": list(_parquet())}
    files["any"] = [texts[0] for texts in files.values()]
    files["packed"] = [bytes([k % 6]) + texts[0] for k, texts in enumerate(files.values())]
    for kind, contents in files.items():
        folder = CORPUS / f"read_{kind}"
        folder.mkdir(parents=True, exist_ok=True)
        for k, content in enumerate(contents):
            (folder / f"{k:02d}").write_bytes(b"\0" + content)
    for name in ("options", "model_arrays", "npz_arrays"):
        (CORPUS / name).mkdir(exist_ok=True)
        rng = np.random.default_rng(0)
        for k in range(8):
            (CORPUS / name / f"{k:02d}").write_bytes(rng.bytes(8 + 4 * k))


if __name__ == "__main__":
    main()
