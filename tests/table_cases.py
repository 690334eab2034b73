"""Files with tables for tests: columns of every kind, mistyped numbers, how files are written."""

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


def mistyped(n=600, n_categories=5, factor=1e4, share=0.01):
    """Three classes, six numbers with gaps and some that are far too large, and a category."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=n)
    X = rng.normal(size=(n, 6)) + 1.2 * rng.normal(size=(3, 6))[y]
    X[rng.random(X.shape) < share] *= factor
    is_gap = rng.random(X.shape) < 0.02
    town = np.where(rng.random(n) < 0.5, y, rng.integers(n_categories, size=n))
    rows = ["a,b,c,d,e,f,town,l"]
    for i in range(n):
        numbers = ["" if is_gap[i, j] else f"{X[i, j]:.4g}" for j in range(6)]
        rows.append(",".join([*numbers, f"t{town[i]}", "xyz"[y[i]]]))
    return "\n".join(rows) + "\n"
