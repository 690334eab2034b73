"""Sums of short rows in registers, compressed copies of dense rows, and machines that use them."""

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from polymargin import MulticlassSVC, MultiPrototypeSVC
from polymargin.compiled import csr as room
from polymargin.compiled.simd import add_to_rows, sum_rows


@numba.njit
def compiled_sum(values, indices, begin, end, V, out):
    sum_rows(values, indices, begin, end, V, out)


@numba.njit
def compiled_addition(values, indices, begin, end, change, V):
    add_to_rows(values, indices, begin, end, change, V)


@pytest.mark.parametrize("width", [1, 7, 8, 16, 24, 27, 40])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("value_kind", [np.float32, np.float64])
@pytest.mark.parametrize("index_kind", [np.int32, np.int64])
def test_lanes(width, kind, value_kind, index_kind):
    """Any width, any rest of a division by four, and nothing beside the rows is touched."""
    rng = np.random.default_rng(width)
    atol = 1e-5 if kind == np.float32 else 1e-13
    values = rng.normal(size=23).astype(value_kind)
    indices = rng.integers(0, 9, 23).astype(index_kind)  # some of them more than once
    whole = rng.normal(size=(12, width)).astype(kind)
    V = whole[1:11]
    change = rng.normal(size=width).astype(kind)
    for begin, end in [(0, 23), (2, 21), (3, 10), (5, 5), (4, 5)]:
        numbers = values[begin:end, None].astype(float)
        room_for_sums = np.full(width + 2, np.nan, dtype=kind)
        compiled_sum(values, indices, begin, end, V, room_for_sums[1:-1])
        expected = (numbers * V[indices[begin:end]]).sum(axis=0)
        assert_allclose(room_for_sums[1:-1], expected, atol=atol)
        assert np.isnan(room_for_sums[[0, -1]]).all()
        after = whole.astype(float)
        np.add.at(after[1:11], indices[begin:end], numbers * change)
        compiled_addition(values, indices, begin, end, change, V)
        assert_allclose(whole, after, atol=atol)
        whole[:] = after


def mostly_zeros(n=400, d=75, share=0.15, seed=0):
    """Rows with stretches of zeros, some rows empty, and labels that a linear machine can learn."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < share, rng.normal(size=(n, d)), 0.0)
    X[:, 10:30] = 0.0
    X[::50] = 0.0
    y = (X @ rng.normal(size=(d, 5)) + rng.normal(size=(n, 5))).argmax(axis=1)
    return X, y


MANY = 16_000
"""Rows of 64 numbers or more: from a million numbers on rows are compressed."""


class TestCompress:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("d", [64, 75])
    def test_same_numbers(self, dtype, d):
        X = mostly_zeros(MANY, d)[0].astype(dtype)
        X[3, 40] = np.finfo(dtype).smallest_subnormal  # small, but not nothing
        rows = room.compress(X)
        assert rows.dtype == dtype
        assert_array_equal(rows.toarray(), X)
        assert rows.nnz == np.count_nonzero(X)
        assert rows.has_canonical_format

    def test_read_only(self):
        X = mostly_zeros(MANY)[0]
        X.flags.writeable = False
        assert_array_equal(room.compress(X).toarray(), X)

    def test_only_where_it_pays(self):
        X = mostly_zeros(2 * MANY)[0]
        assert room.compress(X) is not None
        assert room.compress(X[:5000]) is None
        assert room.compress(np.ones_like(X)) is None
        assert room.compress(np.ascontiguousarray(X[:, :50])) is None
        assert room.compress(np.asfortranarray(X)) is None

    def test_size_of_the_copy_is_limited(self):
        assert room.compress(mostly_zeros(MANY)[0], most_bytes=1000) is None

    def test_unlucky_sample(self):
        """The sample says that there is next to nothing; the rest does not fit then."""
        X = np.ones((MANY, 75))
        X[:: MANY // 512] = 0.0
        assert room.compress(X) is None

    @pytest.mark.parametrize("R", [2, 8, 19])
    def test_products(self, R):
        X = mostly_zeros(MANY)[0]
        rng = np.random.default_rng(1)
        rows, W = room.compress(X), rng.normal(size=(R, X.shape[1]))
        found = room.row_scores(rows, slice(30, 200), room.by_feature(W), R)
        assert_allclose(found, W @ X[30:200].T, atol=1e-12)
        support, tau = np.array([3, 7, 7, 50]), rng.normal(size=(4, R))
        assert_allclose(room.weighted_sum(rows, support, tau), tau.T @ X[support], atol=1e-12)

    @pytest.mark.parametrize("machine", ["cs", "ww", "llw", "msvm2"])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_machines(self, machine, dtype):
        """Rows often enough to be compressed, with a share of C, have the optimum of dense rows."""
        X, y = mostly_zeros()
        X, times = X.astype(dtype), MANY // len(y)
        model = MulticlassSVC(machine=machine, C=0.5, tol=1e-7, max_iter=100_000)
        dense = clone(model).fit(X, y)
        model.set_params(C=0.5 / times)
        compressed = model.fit(np.tile(X, (times, 1)), np.tile(y, times))
        assert compressed.status_ == "converged"
        primal = dense.certificate_.primal
        assert compressed.certificate_.primal == pytest.approx(primal, rel=2e-7)
        assert_allclose(compressed.coef_, dense.coef_, atol=2e-3 * np.abs(dense.coef_).max())
        assert type(compressed.support_vectors_) is type(dense.support_vectors_)

    def test_loose_tolerance_is_certified(self):
        """Single precision in the passes, float64 in the certificate."""
        X, y = mostly_zeros(MANY)
        model = MulticlassSVC(C=0.01, tol=1e-3).fit(X, y)
        scores = X @ model.coef_.T + model.intercept_
        own = scores[np.arange(len(y)), y]
        scores[np.arange(len(y)), y] = -np.inf
        loss = np.maximum(0.0, 1.0 - own + scores.max(axis=1)).sum()
        norm2 = (model.coef_**2).sum() + (model.intercept_**2).sum()
        assert model.certificate_.primal == pytest.approx(0.5 * norm2 + 0.01 * loss, rel=1e-12)
        assert model.certificate_.relative_gap <= 1e-3

    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
    def test_absolute_margins_do_not_stall(self, make):
        """Prototypes with a large common part need float64: float32 took six times the passes."""
        rng = np.random.default_rng(0)
        n = 6700  # a million numbers
        X = np.where(rng.random((n, 150)) < 0.1, rng.random((n, 150)), 0.0)
        y = (X @ rng.normal(size=(150, 7)) + 0.3 * rng.normal(size=(n, 7))).argmax(axis=1)
        model = MulticlassSVC(machine="llw", C=1.0, intercept="penalized", max_iter=1500)
        assert model.fit(make(X), y).status_ == "converged"

    def test_several_prototypes(self):
        X, y = mostly_zeros(MANY)
        model = MultiPrototypeSVC(n_prototypes=2, C=0.01, random_state=0).fit(X, y)
        assert model.certificate_.relative_gap <= 1e-3
        assert model.score(X, y) > 0.7
