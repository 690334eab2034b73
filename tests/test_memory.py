"""Large arrays taken in long stretches are arrays like all others."""

import mmap

import numpy as np
import pytest
import scipy.sparse as sp

from polymargin.compiled.memory import Pages, fresh, rows_of

LONG = 1_000_001
"""Numbers in a row, so that a few rows are large: from 32 MB on memory is taken by pages."""


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_pages_are_zeros_and_can_be_taken_anywhere(dtype):
    pages = Pages((37, LONG), dtype)
    assert pages.array.shape == (37, LONG)
    assert pages.array.dtype == dtype
    pages.array[5] = 3
    for begin, end in ((0, 37), (5, 6), (36, 37), (4, 4)):
        pages.take(begin, end)
    assert (pages.array[5] == 3).all()
    assert not np.delete(pages.array, 5, axis=0).any()


def test_the_array_outlives_the_pages():
    array = fresh((10, LONG))
    array += 1.0
    assert array.flags.writeable
    assert array.flags.c_contiguous
    assert array.sum() == 10 * LONG


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_copied(dtype):
    X = np.zeros((50, 2 * LONG), dtype)
    X[:, :7] = np.random.default_rng(0).normal(size=(50, 7))
    rows = np.array([3, 3, 49, 0])
    found = rows_of(X, rows)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, X[rows])
    found[0] = 0.0
    assert X[3].any()


def test_nothing_and_sparse_rows():
    X = sp.random(20, 6, 0.4, format="csr", random_state=0)
    rows = np.array([1, 19])
    np.testing.assert_array_equal(rows_of(X, rows).toarray(), X.toarray()[rows])
    assert rows_of(np.ones((4, 3)), np.empty(0, dtype=int)).shape == (0, 3)


def test_a_system_that_refuses_gives_plain_arrays(monkeypatch):
    def refuse(*arguments, **options):
        raise OSError

    monkeypatch.setattr(mmap, "mmap", refuse)
    assert not fresh((10, LONG)).any()
