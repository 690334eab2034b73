"""Further tables for the automatic choice, made after its rules were fixed.

They stand for what the first list lacks: noise features, parity, spirals, ordinal labels, a hundred
classes, sixty classes of twelve rows, gene data, raw counts of words, categories of many values,
copied rows, new speakers, gaps that tell the class, rules of a tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import datasets
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

__all__ = ["FURTHER", "FURTHER_PUBLIC", "GROUPED"]

Made = tuple[Any, np.ndarray]

FURTHER_PUBLIC = (
    "connect4",
    "poker_train",
    "raetsch_breast_cancer",
    "raetsch_flare_solar",
    "raetsch_heart",
    "raetsch_titanic",
    "raetsch_twonorm",
    "shuttle",
    "soybean_small",
)

N_SPEAKERS, PER_SPEAKER = 20, 45


def _moons() -> Made:
    """Two moons that overlap, and eight features of noise."""
    X, y = datasets.make_moons(600, noise=0.3, random_state=20)
    noise = np.random.default_rng(20).normal(size=(600, 8))
    return np.column_stack([X, noise]), y


def _circles() -> Made:
    return datasets.make_circles(500, noise=0.15, factor=0.6, random_state=21)


def _hastie() -> Made:
    return datasets.make_hastie_10_2(1200, random_state=22)


def _quantiles() -> Made:
    """Four shells around each other in five dimensions."""
    return datasets.make_gaussian_quantiles(
        n_samples=1200, n_features=5, n_classes=4, random_state=23
    )


def _one_in_thirty() -> Made:
    return datasets.make_classification(
        1200, 20, n_informative=5, weights=[0.967], class_sep=0.8, flip_y=0.01, random_state=24
    )


def _hundred_classes() -> Made:
    rng = np.random.default_rng(25)
    y = np.repeat(np.arange(100), 20)
    return 1.1 * rng.normal(size=(100, 30))[y] + rng.standard_t(4, size=(2000, 30)), y


def _raw_counts() -> Made:
    """Words of 700 documents on eight topics, as they were counted."""
    rng = np.random.default_rng(26)
    y = rng.integers(8, size=700)
    common = rng.dirichlet(np.full(5000, 0.1))
    topics = rng.dirichlet(np.full(5000, 0.02), size=8)
    lengths = rng.lognormal(4.0, 0.8, size=700).astype(int) + 5
    rows = [
        rng.multinomial(n, 0.75 * common + 0.25 * topics[k])
        for n, k in zip(lengths, y, strict=True)
    ]
    return sp.csr_matrix(np.array(rows, dtype=np.float64)), y


def _many_values() -> Made:
    """Three columns of 200, 100 and 50 values, few of them frequent, and four of numbers."""
    rng = np.random.default_rng(27)
    score = np.zeros((1200, 3))
    columns = []
    for size in (200, 100, 50):
        share = 1.0 / np.arange(1, size + 1)
        values = rng.choice(size, size=1200, p=share / share.sum())
        score += rng.normal(size=(size, 3))[values]
        columns.append(values)
    numbers = rng.normal(size=(1200, 4))
    score += 0.7 * numbers @ rng.normal(size=(4, 3)) + 0.7 * rng.gumbel(size=(1200, 3))
    table = np.column_stack([*columns, numbers])
    encoder = make_column_transformer(
        (OneHotEncoder(), [0, 1, 2]), (StandardScaler(), [3, 4, 5, 6]), sparse_threshold=1.0
    )
    return sp.csr_matrix(encoder.fit_transform(table)), score.argmax(axis=1)


def _parity() -> Made:
    """Three bits decide, seven do not, one label in twenty is wrong."""
    rng = np.random.default_rng(28)
    bits = rng.integers(2, size=(1000, 10))
    y = bits[:, :3].sum(axis=1) % 2 ^ (rng.random(1000) < 0.05)
    return bits.astype(np.float64), y


def _ordinal() -> Made:
    """Five levels of a curved score."""
    rng = np.random.default_rng(29)
    X = rng.normal(size=(1000, 8))
    score = X @ rng.normal(size=8) + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2
    score += rng.normal(size=1000)
    return X, np.searchsorted(np.quantile(score, [0.1, 0.35, 0.7, 0.9]), score)


def _genes() -> Made:
    """Ninety rows of 4000 features in correlated blocks, four classes."""
    rng = np.random.default_rng(30)
    y = np.arange(90) % 4
    factors = (
        rng.normal(size=(90, 40))
        + np.where(np.arange(40) < 6, 1.0, 0.0) * rng.normal(size=(4, 40))[y]
    )
    X = np.repeat(factors, 100, axis=1) + 1.5 * rng.normal(size=(90, 4000))
    return np.exp(0.5 * X), y


def _cauchy_like() -> Made:
    """Four classes; features without a variance."""
    rng = np.random.default_rng(31)
    y = rng.integers(4, size=1000)
    return 1.5 * rng.normal(size=(4, 10))[y] + rng.standard_t(1.5, size=(1000, 10)), y


def _copies() -> Made:
    """Rows that occur about four times; one label in seven is wrong."""
    rng = np.random.default_rng(32)
    X, y = datasets.make_classification(
        250, 12, n_informative=5, n_classes=3, class_sep=1.0, random_state=32
    )
    rows = rng.integers(250, size=1000)
    y = np.where(rng.random(1000) < 0.15, rng.integers(3, size=1000), y[rows])
    return X[rows], y


def _new_speakers() -> Made:
    """Nine words of twenty speakers; those of the test part are not in the training part."""
    rng = np.random.default_rng(33)
    y = np.tile(np.arange(9), N_SPEAKERS * PER_SPEAKER // 9)
    speaker = np.repeat(np.arange(N_SPEAKERS), PER_SPEAKER)
    word, shift = 1.5 * rng.normal(size=(9, 12)), 1.1 * rng.normal(size=(N_SPEAKERS, 12))
    return word[y] + shift[speaker] + 0.6 * rng.normal(size=(len(y), 12)), y


def _sixty_of_twelve() -> Made:
    rng = np.random.default_rng(34)
    y = np.repeat(np.arange(60), 12)
    return 1.3 * rng.normal(size=(60, 15))[y] + rng.normal(size=(720, 15)), y


def _telling_gaps() -> Made:
    """A quarter of the values is missing, more often in one class; filled with the median."""
    rng = np.random.default_rng(35)
    X, y = datasets.make_classification(
        900, 10, n_informative=6, n_classes=3, class_sep=0.8, random_state=35
    )
    share = np.where(np.arange(10) < 3, np.array([0.1, 0.25, 0.5])[y][:, None], 0.2)
    X[rng.random(X.shape) < share] = np.nan
    return SimpleImputer(strategy="median", add_indicator=True).fit_transform(X), y


def _spirals() -> Made:
    """Three arms."""
    rng = np.random.default_rng(36)
    y = np.arange(900) % 3
    t = 0.3 + 3.0 * rng.random(900)
    angle = 2.0 * np.pi * (y / 3.0 + t / 2.0)
    X = np.column_stack([t * np.cos(angle), t * np.sin(angle)])
    return X + 0.12 * rng.normal(size=(900, 2)), y


def _progress() -> Made:
    """Diabetes in a year, as thirds."""
    X, y = datasets.load_diabetes(return_X_y=True)
    return X, np.searchsorted(np.quantile(y, [1 / 3, 2 / 3]), y)


def _display() -> Made:
    """Seven segments of a digit, each wrong in one of ten cases, and seventeen of noise."""
    rng = np.random.default_rng(37)
    lit = "1110111 0010010 1011101 1011011 0111010 1101011 1101111 1010010 1111111 1111011"
    segments = np.array([[int(one) for one in word] for word in lit.split()])
    y = rng.integers(10, size=1000)
    shown = segments[y] ^ (rng.random((1000, 7)) < 0.1)
    return np.column_stack([shown, rng.integers(2, size=(1000, 17))]).astype(np.float64), y


def _covariances() -> Made:
    """Three classes of one mean in twelve dimensions; their covariances differ."""
    rng = np.random.default_rng(38)
    y = rng.integers(3, size=1200)
    shapes = rng.normal(size=(3, 12, 12)) / np.sqrt(12)
    return np.einsum("nij,nj->ni", shapes[y], rng.normal(size=(1200, 12))), y


def _waves() -> Made:
    """Cylinder, bell, funnel: 128 samples of a noisy event of random place and length."""
    rng = np.random.default_rng(39)
    y = rng.integers(3, size=500)
    t = np.arange(128)
    start, length = rng.integers(16, 32, size=500), rng.integers(32, 96, size=500)
    inside = (t >= start[:, None]) & (t <= (start + length)[:, None])
    rise = (t - start[:, None]) / length[:, None]
    form = np.choose(y[:, None], [np.ones_like(rise), rise, 1.0 - rise])
    height = 6.0 + rng.normal(size=(500, 1))
    return np.where(inside, height * form, 0.0) + 2.0 * rng.normal(size=(500, 128)), y


def _tree_rules() -> Made:
    """A tree of depth six over ten features makes four classes, one label in twenty is wrong."""
    rng = np.random.default_rng(40)
    X = rng.random((1200, 10))
    node = np.zeros(1200, dtype=np.int64)
    for level in range(6):
        feature, border = rng.integers(10, size=2**level), 0.3 + 0.4 * rng.random(2**level)
        node = 2 * node + (X[np.arange(1200), feature[node]] > border[node])
    y = rng.integers(4, size=64)[node]
    return X, np.where(rng.random(1200) < 0.05, rng.integers(4, size=1200), y)


def _pixels_with_shift() -> Made:
    """Digits whose images are shifted by up to one pixel."""
    X, y = datasets.load_digits(return_X_y=True)
    rng = np.random.default_rng(41)
    images = X.reshape(-1, 8, 8)
    steps = rng.integers(-1, 2, size=(len(X), 2))
    moved = [np.roll(one, tuple(by), axis=(0, 1)) for one, by in zip(images, steps, strict=True)]
    return np.array(moved).reshape(len(X), 64), y


FURTHER: dict[str, Callable[[], Made]] = {
    "moons and noise": _moons,
    "circles": _circles,
    "hastie": _hastie,
    "quantiles": _quantiles,
    "one in thirty": _one_in_thirty,
    "hundred classes": _hundred_classes,
    "raw counts": _raw_counts,
    "many values": _many_values,
    "parity": _parity,
    "ordinal": _ordinal,
    "genes": _genes,
    "no variance": _cauchy_like,
    "copies": _copies,
    "new speakers": _new_speakers,
    "sixty of twelve": _sixty_of_twelve,
    "telling gaps": _telling_gaps,
    "spirals": _spirals,
    "progress": _progress,
    "display": _display,
    "covariances": _covariances,
    "waves": _waves,
    "tree rules": _tree_rules,
    "shifted digits": _pixels_with_shift,
}

GROUPED = {"new speakers": np.repeat(np.arange(N_SPEAKERS), PER_SPEAKER)}
"""Groups of sets whose test part is of other groups than the training part."""
