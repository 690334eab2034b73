"""Files with tables for tests: one that has columns of every kind, and how files are written."""

import numpy as np


def write(tmp_path, text, name="data.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return str(path)


def kinds(data):
    return {column.name: column.kind for column in data.columns}


def messy(n=200):
    rng = np.random.default_rng(0)
    rows = ["id,n,gap,when,sure,city,note,same,late,l"]
    for i in range(n):
        k = i % 2
        note = " ".join(rng.choice(["box", "ship", "late", "good", "poor"], 6))
        gap = "" if i % 10 == 0 else f"{k + rng.normal():.3f}"
        city = f"town{i % 3}" if i % 50 else f"rare{i}"
        rows.append(
            f"{i},{k + rng.normal():.3f},{gap},{1 + i % 28:02d}/0{1 + k}/2024,{k == 1},{city},"
            f"{note},x,{i % 7} {i % 5},{'ab'[k]}"
        )
    return "\n".join(rows) + "\n"
