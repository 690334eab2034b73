"""Large arrays taken in long stretches are arrays like all others."""

import numpy as np
import pytest
import scipy.sparse as sp

from polymargin.compiled import memory as _memory
from polymargin.compiled.memory import Pages, fresh, rows_of


@pytest.fixture
def small_is_large(monkeypatch):
    monkeypatch.setattr(_memory, "_LARGE", 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_pages_are_zeros_and_can_be_taken_anywhere(small_is_large, dtype):
    pages = Pages((37, 1001), dtype)
    assert pages.array.shape == (37, 1001)
    assert pages.array.dtype == dtype
    pages.array[5] = 3
    for begin, end in ((0, 37), (5, 6), (36, 37), (4, 4)):
        pages.take(begin, end)
    assert (pages.array[5] == 3).all()
    assert not np.delete(pages.array, 5, axis=0).any()


def test_the_array_outlives_the_pages(small_is_large):
    array = fresh((100, 100))
    array += 1.0
    assert array.flags.writeable
    assert array.flags.c_contiguous
    assert array.sum() == 1e4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_copied(small_is_large, dtype):
    X = np.random.default_rng(0).normal(size=(50, 7)).astype(dtype)
    rows = np.array([3, 3, 49, 0])
    found = rows_of(X, rows)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, X[rows])
    found[0] = 0.0
    assert X[3].any()


def test_nothing_and_sparse_rows(small_is_large):
    X = sp.random(20, 6, 0.4, format="csr", random_state=0)
    rows = np.array([1, 19])
    np.testing.assert_array_equal(rows_of(X, rows).toarray(), X.toarray()[rows])
    assert rows_of(np.ones((4, 3)), np.empty(0, dtype=int)).shape == (0, 3)


def test_a_system_that_refuses_gives_plain_arrays(small_is_large, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError

    monkeypatch.setattr(_memory.mmap, "mmap", refuse)
    assert not fresh((10, 10)).any()
