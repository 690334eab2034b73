"""Gaussian values in tiles: equal to NumPy's, with the same bits in every block."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from numba import config
from numpy.testing import assert_allclose, assert_array_equal

from polymargin.compiled.memory import Pages
from polymargin.problem.kernel_columns import Columns, in_units
from polymargin.problem.kernels import Kernel, squared_norms

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="tiles are compiled code")

SHAPES = ((1, 1, 1), (7, 65, 3), (8, 64, 16), (19, 700, 5), (300, 33, 40), (9, 1500, 130))


def rows(m, n, d, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, d)).astype(dtype), rng.normal(size=(n, d)).astype(dtype)


def expected(A, B, gamma, offset=0.0):
    A, B = A.astype(np.float64), B.astype(np.float64)
    return offset + np.exp(-gamma * ((A[:, None] - B[None]) ** 2).sum(axis=2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_sums_are_those_of_numpy(shape, dtype):
    m, n, d = shape
    A, B = rows(m, n, d, dtype)
    kernel = Kernel("rbf", gamma=0.3 / d, offset=0.5)
    columns = Columns(kernel, B, squared_norms(B))
    K = expected(A, B, kernel.gamma, 0.5)
    digits = {"rtol": 0.0, "atol": 3e-6 if dtype == np.float32 else 1e-14}
    out = np.full((m + 2, n + 3), -1.0, dtype=dtype)
    columns.write(A, squared_norms(A), slice(0, n), out, (1, 2))
    assert_allclose(out[1 : m + 1, 2 : n + 2], K, **digits)
    frame = out.copy()
    frame[1 : m + 1, 2 : n + 2] = -1.0
    assert (frame == -1.0).all()
    for share in (0.02, 1.0):
        tau = np.random.default_rng(1).normal(size=(n, 6)).astype(dtype)
        tau[np.random.default_rng(2).random((n, 6)) > share] = 0.0
        found = columns.sums(A, squared_norms(A), tau)
        assert_allclose(found, K @ tau.astype(np.float64), rtol=0.0, atol=n * digits["atol"])


def test_a_slice_of_the_columns_begins_where_it_says():
    A, B = rows(11, 400, 6, np.float32)
    columns = Columns(Kernel("rbf", gamma=0.1), B, squared_norms(B))
    out = np.empty((11, 136), dtype=np.float32)
    columns.write(A, squared_norms(A), slice(64, 200), out, (0, 0))
    assert_allclose(out, expected(A, B[64:200], 0.1), atol=3e-6)


def test_values_in_whole_numbers_are_rounded_once():
    A, B = rows(40, 90, 6, np.float32)
    kernel, unit = Kernel("rbf", gamma=0.05, offset=1.0), 2.0 / 65535
    out = np.zeros((40, 90), dtype=np.uint16)
    Columns(kernel, B, squared_norms(B)).write(A, squared_norms(A), slice(0, 90), out, (0, 0), unit)
    assert_allclose(out * unit, expected(A, B, 0.05, 1.0), rtol=0.0, atol=0.51 * unit + 1e-6)
    assert_array_equal(in_units(np.array([0.0, 2.0]), np.uint16, unit), [0, 65535])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_value_has_the_same_bits_in_every_block_and_both_ways(dtype):
    X, _ = rows(77, 1, 9, dtype)
    norms, kernel = squared_norms(X), Kernel("rbf", gamma=0.2)
    whole = np.empty((77, 77), dtype=dtype)
    Columns(kernel, X, norms).write(X, norms, slice(0, 77), whole, (0, 0))
    assert_array_equal(whole, whole.T)
    for begin, end in ((0, 5), (3, 20), (70, 77)):
        part = np.empty((end - begin, 77), dtype=dtype)
        Columns(kernel, X, norms).write(X[begin:end], norms[begin:end], slice(0, 77), part, (0, 0))
        assert_array_equal(part, whole[begin:end])


def test_what_is_no_number_stays_visible():
    A, B = rows(8, 70, 4, np.float64)
    A[2, 1] = np.nan
    out = np.empty((8, 70))
    Columns(Kernel("rbf", gamma=1.0), B, squared_norms(B)).write(
        A, squared_norms(A), slice(0, 70), out, (0, 0)
    )
    assert np.isnan(out[2]).all()
    assert np.isfinite(np.delete(out, 2, axis=0)).all()


def test_memory_of_an_array_that_is_gone_serves_the_next_and_only_then():
    shape = (1 << 20, 1)
    first = Pages(shape, np.float64)
    first.array[:] = 7.0
    view = first.array[10:]
    second = Pages(shape, np.float64)
    second.array[:] = 1.0
    del first
    gc.collect()
    third = Pages(shape, np.float64)
    third.array[:] = 2.0
    assert (view == 7.0).all()  # a view keeps its memory
    assert (second.array == 1.0).all()
    del view, third
    gc.collect()
    again = Pages(shape, np.float64)
    assert again.array.shape == shape
    assert not again.is_zero or not again.array.any()
