"""Tables and settings for tests of AutoSVC."""

import numpy as np
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.preprocessing import normalize

from polymargin.estimators.auto_candidates import Table

HOURS = 1e4  # seconds of a budget that no busy machine reaches
LINEAR = {"machines": "linear", "n_candidates": 3, "cv": 3, "budget": HOURS, "random_state": 0}


def overlapping(n=200, seed=0):
    return make_classification(
        n,
        6,
        n_informative=4,
        n_redundant=0,
        n_classes=3,
        n_clusters_per_class=1,
        class_sep=0.8,
        random_state=seed,
    )


def make_table(**changes):
    facts = {
        "n_rows": 1000,
        "n_features": 10,
        "n_classes": 3,
        "median_class": 300.0,
        "row_norm": 11.0,
        "gamma": 0.1,
        "is_sparse": False,
    }
    return Table(**(facts | changes))


def documents(n=2600, n_words=5000, n_classes=6, seed=0):
    """Sparse rows of words, some of which tell the class, normalised like tf-idf."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    told = 4 * rng.integers(60, size=(n, 6)) + 240 * y[:, None]
    other = rng.integers(n_words, size=(n, 30))
    columns = np.hstack([np.where(rng.random(told.shape) < 0.35, told, other[:, :6]), other])
    rows = np.repeat(np.arange(n), columns.shape[1])
    X = sparse.csr_matrix((np.ones(columns.size), (rows, columns.ravel())), shape=(n, n_words))
    return normalize(X), y
