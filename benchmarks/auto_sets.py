"""Tables for the automatic choice: public sets where they are present, and generated ones.

Generated sets stand for tables that the public ones here are not: overlapping surveys, rare
classes, borders that only a kernel finds, one-hot codes, speakers, heavy tails, more features than
rows, fifty classes, a checkerboard, many columns of categories, outliers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import datasets
from sklearn.feature_extraction.text import TfidfTransformer

from benchmarks.data import find

__all__ = ["SETS", "TableSet", "load_set", "public"]

MOST_ROWS = 1_200
"""Of both parts together, unless a set says otherwise: trades the noise of the test part for the
time of five splits of all sets, a quarter of an hour."""


@dataclass(frozen=True)
class TableSet:
    """A name and where its rows come from: "public", "scikit-learn" or "generated"."""

    name: str
    source: str
    make: Callable[[], tuple[Any, np.ndarray]]
    most_rows: int = MOST_ROWS


def load_set(one: TableSet, most_rows: int | None = None) -> tuple[Any, np.ndarray]:
    """Rows and class numbers, at most ``most_rows`` of them, drawn once with seed 0."""
    X, y = one.make()
    most_rows = one.most_rows if most_rows is None else most_rows
    y = np.unique(y, return_inverse=True)[1]
    if len(y) > most_rows:
        rows = np.random.default_rng(0).permutation(len(y))[:most_rows]
        X, y = X[rows], y[rows]
    often = np.bincount(y) >= 2  # a class needs a row on either side of a split
    return X[often[y]], np.unique(y[often[y]], return_inverse=True)[1]


# -- public sets ---------------------------------------------------------------------------------


def public(name: str) -> Callable[[], tuple[Any, np.ndarray]]:
    """The rows of a file of the data folder, words of texts weighted by tf-idf."""

    def make() -> tuple[Any, np.ndarray]:
        with np.load(find(name)) as z:
            if "X" in z.files:
                return z["X"].astype(np.float64), z["y"]
            counts = (z["data"].astype(np.float64), z["indices"], z["indptr"])
            words = sp.csr_matrix(counts, shape=tuple(z["shape"]))
            return TfidfTransformer(sublinear_tf=True).fit_transform(words), z["y"]

    return make


def _bundled(name: str) -> Callable[[], tuple[Any, np.ndarray]]:
    def make() -> tuple[Any, np.ndarray]:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return X, y

    return make


# -- generated sets ------------------------------------------------------------------------------


def _survey() -> tuple[Any, np.ndarray]:
    """Nine classes that overlap heavily, answers on a scale of one to seven."""
    rng = np.random.default_rng(1)
    y = rng.choice(9, size=4800, p=np.arange(9, 0, -1) / 45.0)
    X = 0.25 * rng.normal(size=(9, 13))[y] + rng.normal(size=(4800, 13))
    return np.clip(np.round(4.0 + 1.5 * X), 1, 7), y


def _speakers() -> tuple[Any, np.ndarray]:
    """Eleven vowels of fifteen speakers, each of whom shifts and stretches all of them."""
    rng = np.random.default_rng(2)
    y = np.tile(np.repeat(np.arange(11), 6), 15)
    speaker = np.repeat(np.arange(15), 66)
    vowel = 1.6 * rng.normal(size=(11, 10))
    shift = 0.9 * rng.normal(size=(15, 10))
    stretch = np.exp(0.2 * rng.normal(size=(15, 10)))
    return vowel[y] * stretch[speaker] + shift[speaker] + 0.7 * rng.normal(size=(990, 10)), y


def _imbalanced() -> tuple[Any, np.ndarray]:
    return datasets.make_classification(
        2000,
        15,
        n_informative=6,
        n_classes=4,
        n_clusters_per_class=2,
        weights=[0.8, 0.12, 0.05, 0.03],
        class_sep=0.9,
        random_state=3,
    )


def _rings() -> tuple[Any, np.ndarray]:
    """Four rings around each other and six features of noise."""
    rng = np.random.default_rng(4)
    y = rng.integers(4, size=1200)
    angle = 2.0 * np.pi * rng.random(1200)
    radius = y + 1.0 + 0.25 * rng.normal(size=1200)
    ring = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return np.column_stack([ring, 0.5 * rng.normal(size=(1200, 3))]), y


def _xor() -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1500, 6))
    y = (X[:, 0] * X[:, 1] > 0).astype(np.int64) ^ (rng.random(1500) < 0.05)
    return X, y


def _checkerboard() -> tuple[Any, np.ndarray]:
    """Five by five fields of two classes."""
    rng = np.random.default_rng(11)
    X = rng.random((1200, 2))
    return X, np.floor(5.0 * X).sum(axis=1).astype(np.int64) % 2


def _categories() -> tuple[Any, np.ndarray]:
    """Twelve columns of three to nine categories, one-hot, and three of numbers."""
    rng = np.random.default_rng(12)
    sizes = rng.integers(3, 10, size=12)
    columns = [rng.integers(size, size=1200) for size in sizes]
    numbers = rng.normal(size=(1200, 3))
    score = numbers @ rng.normal(size=(3, 3)) + rng.gumbel(size=(1200, 3))
    for values, size in zip(columns, sizes, strict=True):
        score += 0.7 * rng.normal(size=(size, 3))[values]
    codes = [np.eye(size)[values] for values, size in zip(columns, sizes, strict=True)]
    return np.column_stack([*codes, numbers * [1.0, 1e3, 1e-3]]), score.argmax(axis=1)


def _outliers() -> tuple[Any, np.ndarray]:
    """Measurements of which one in a hundred is a hundred times too large."""
    rng = np.random.default_rng(13)
    X, y = datasets.make_classification(
        1200, 10, n_informative=6, n_classes=3, class_sep=1.2, random_state=13
    )
    return np.where(rng.random(X.shape) < 0.01, 100.0 * X, X), y


def _sequences() -> tuple[Any, np.ndarray]:
    """Sixty letters of an alphabet of four, one-hot; motifs at the middle make three classes."""
    rng = np.random.default_rng(6)
    y = rng.choice(3, size=2000, p=[0.25, 0.25, 0.5])
    letters = rng.integers(4, size=(2000, 60))
    motif = rng.integers(4, size=(2, 12))
    for k in range(2):
        rows = np.flatnonzero(y == k)
        kept = rng.random((len(rows), 12)) < 0.65
        block = letters[np.ix_(rows, np.arange(24, 36))]
        letters[np.ix_(rows, np.arange(24, 36))] = np.where(kept, motif[k], block)
    return np.eye(4)[letters].reshape(2000, 240)[:, np.arange(240) % 4 != 3], y


def _heavy_tails() -> tuple[Any, np.ndarray]:
    """Amounts of money: log-normal features on scales from 1 to 10,000."""
    rng = np.random.default_rng(7)
    y = rng.integers(3, size=1500)
    X = 0.6 * rng.normal(size=(3, 8))[y] + rng.normal(size=(1500, 8))
    return np.exp(X) * 10.0 ** rng.uniform(0, 4, size=8), y


def _wide() -> tuple[Any, np.ndarray]:
    """More features than rows, few of which matter."""
    rng = np.random.default_rng(8)
    y = rng.integers(4, size=240)
    X = rng.normal(size=(240, 600))
    X[:, :30] += 0.6 * rng.normal(size=(4, 30))[y]
    return X, y


def _fifty_classes() -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(9)
    y = rng.integers(50, size=1500)
    return 1.2 * rng.normal(size=(50, 20))[y] + rng.normal(size=(1500, 20)), y


def _clusters() -> tuple[Any, np.ndarray]:
    """Classes of several Gaussian clusters of different widths."""
    rng = np.random.default_rng(10)
    part = rng.integers(20, size=2500)
    width = 0.4 + rng.random(20)
    X = 1.7 * rng.normal(size=(20, 6))[part] + width[part, None] * rng.normal(size=(2500, 6))
    return X, part % 5


_PUBLIC = (
    "glass",
    "ecoli",
    "vehicle",
    "segment",
    "satimage",
    "pendigits",
    "letter",
    "waveform3",
    "reuters_r8",
    "raetsch_banana",
    "raetsch_diabetis",
    "raetsch_german",
    "raetsch_image",
    "raetsch_ringnorm",
    "raetsch_splice",
    "raetsch_thyroid",
)
_GENERATED: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {
    "survey": _survey,
    "speakers": _speakers,
    "imbalanced": _imbalanced,
    "rings": _rings,
    "xor": _xor,
    "checkerboard": _checkerboard,
    "categories": _categories,
    "outliers": _outliers,
    "sequences": _sequences,
    "heavy tails": _heavy_tails,
    "wide": _wide,
    "fifty classes": _fifty_classes,
    "clusters": _clusters,
}
_WHOLE = {"survey": 4_800}  # a large set on which an annealing once took minutes

SETS = (
    *(
        TableSet(name, "scikit-learn", _bundled(name))
        for name in ("iris", "wine", "breast_cancer", "digits")
    ),
    *(
        TableSet(name, "generated", make, _WHOLE.get(name, MOST_ROWS))
        for name, make in _GENERATED.items()
    ),
    *(TableSet(name, "public", public(name)) for name in _PUBLIC),
)
