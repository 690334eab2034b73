"""The verbs of every field against explicit prototypes, compiled and interpreted."""

import numba
import numpy as np
import pytest
import reference as ref
from conftest import make_overlapping
from scipy import sparse

from polymargin.compiled.fields import (
    KernelField,
    SparseField,
    dense_field,
    difference,
    is_ready,
    push,
    push_list,
    push_pair,
    read,
)
from polymargin.compiled.gathered_field import flush, gathered

N_CLASSES = 4
SCALE = 1.5  # of the constant feature
GAMMA = 0.2
WIDTHS = {"sparse": 4, "sparse-padded": 8, "sparse-wide": 24}  # length of a row of prototypes


@numba.njit
def compiled_read(field, i, active, count, out):
    read(field, i, active, count, out)


@numba.njit
def compiled_difference(field, i, r, s):
    return difference(field, i, r, s)


@numba.njit
def compiled_push(field, i, r, amount):
    push(field, i, r, amount)


@numba.njit
def compiled_push_pair(field, i, r, s, amount):
    push_pair(field, i, r, s, amount)


@numba.njit
def compiled_push_list(field, i, active, count, change):
    push_list(field, i, active, count, change)


@numba.njit
def compiled_is_ready(field, i):
    return is_ready(field, i)


COMPILED = (
    compiled_read,
    compiled_difference,
    compiled_push,
    compiled_push_pair,
    compiled_push_list,
    compiled_is_ready,
)
INTERPRETED = read, difference, push, push_pair, push_list, is_ready


def points():
    X, _ = make_overlapping(n=20)
    X = np.round(X * 8) / 8
    X[np.abs(X) < 0.5] = 0
    return X


def make_field(kind, dtype):
    """An empty field (all prototypes zero) and the kernel matrix that it stands for."""
    X = points()
    n, d = X.shape
    constant = np.zeros(N_CLASSES)
    if kind == "dense":
        field = dense_field(X.astype(dtype), np.zeros((N_CLASSES, d)), constant, SCALE)
        return field, ref.linear(X, X, SCALE)
    if kind == "packed":
        order, slot = np.random.default_rng(0).permutation(n), np.empty(n, dtype=np.int64)
        rows, slot[order] = X[order].astype(np.float32), np.arange(n)
        W = np.zeros((N_CLASSES, d), dtype=np.float32)
        field = dense_field(X.astype(dtype), np.zeros((N_CLASSES, d)), constant, SCALE)
        return field._replace(packed=rows, slot=slot, packed_W=W), ref.linear(X, X, SCALE)
    if kind in WIDTHS:
        csr = sparse.csr_array(X.astype(dtype))
        V = np.zeros((d, WIDTHS[kind]))
        parts = (csr.data, csr.indices, csr.indptr)
        return SparseField(*parts, V, constant, SCALE, np.empty(len(V.T))), ref.linear(X, X, SCALE)
    K = ref.rbf(X, X, GAMMA).astype(dtype)
    places = np.random.default_rng(0).permutation(n)
    rows = np.empty_like(K)
    rows[places] = K
    field = KernelField(
        rows=rows,
        slot=places,
        F=np.zeros((N_CLASSES, n), dtype=dtype),
        width=n,
        used=np.zeros(n, dtype=np.int64),
        tick=np.zeros(1, dtype=np.int64),
        constant=constant,
        scale=0.0,
    )
    return field, K.astype(float)


@pytest.mark.parametrize("verbs", [COMPILED, INTERPRETED], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["dense", "packed", *WIDTHS, "kernel"])
def test_verbs(kind, dtype, verbs):
    """Scores read after any pushes are K tau; a pair pushes the two halves of one change."""
    read_, difference_, push_, push_pair_, push_list_, is_ready_ = verbs
    field, K = make_field(kind, dtype)
    n = len(K)
    rng = np.random.default_rng(1)
    tau = np.zeros((n, N_CLASSES))
    for step in range(60):
        i, amount = int(rng.integers(n)), np.float64(rng.normal())
        r, s = (int(c) for c in rng.permutation(N_CLASSES)[:2])
        assert is_ready_(field, i)
        if step % 3 == 0:
            push_(field, i, r, amount)
            tau[i, r] += amount
        elif step % 3 == 1:
            listed = np.tile(rng.permutation(N_CLASSES).astype(np.int16), (i + 1, 1))
            count = int(rng.integers(1, N_CLASSES + 1))
            change = np.append(rng.normal(size=count), np.nan)
            change[0] = 0.0
            push_list_(field, i, listed, count, change)
            tau[i, listed[i, :count]] += change[:count]
        else:
            push_pair_(field, i, r, s, amount)
            tau[i, r] += amount
            tau[i, s] -= amount
    single = kind == "packed" or (kind == "kernel" and dtype == np.float32)
    atol = 1e-4 if single else 1e-10
    expected = K @ tau
    classes = np.array([2, 0, 3, 1], dtype=np.int16)
    for i in range(n):
        for count in [1, 3, N_CLASSES]:
            out = np.full(N_CLASSES, np.nan)
            read_(field, i, np.tile(classes, (i + 1, 1)), count, out)
            np.testing.assert_allclose(out[:count], expected[i, classes[:count]], atol=atol)
            assert np.isnan(out[count:]).all()
        for r, s in [(0, 1), (3, 2)]:
            f = difference_(field, i, r, s)
            assert f == pytest.approx(expected[i, r] - expected[i, s], abs=2 * atol)


@pytest.mark.parametrize("is_ready_", [compiled_is_ready, is_ready], ids=["compiled", "plain"])
def test_absent_row_is_not_ready(is_ready_):
    field, _ = make_field("kernel", np.float64)
    field.slot[3] = -1
    assert [bool(is_ready_(field, i)) for i in [2, 3, 4]] == [True, False, True]


def test_kernel_push_stops_at_the_width():
    """Patterns beyond the width are out of play: their scores stay as they are."""
    field, K = make_field("kernel", np.float64)
    narrow = field._replace(width=7)
    compiled_push(narrow, 2, 1, 0.5)
    np.testing.assert_allclose(field.F[1, :7], 0.5 * K[2, :7])
    assert not field.F[1, 7:].any()
    assert not field.F[[0, 2, 3]].any()


def test_pushes_note_the_time_of_use():
    """The least recently used row makes room first, so every push must be noted."""
    field, _ = make_field("kernel", np.float64)
    compiled_push(field, 4, 0, 1.0)
    compiled_push_pair(field, 9, 1, 2, 1.0)
    assert field.used[field.slot[9]] > field.used[field.slot[4]] > 0
    assert np.count_nonzero(field.used) == 2


def test_data_are_not_written():
    for kind in ["dense", "sparse"]:
        field, _ = make_field(kind, np.float64)
        data = field.X if kind == "dense" else field.data
        before = data.copy()
        data.flags.writeable = False
        compiled_push(field, 0, 1, 2.0)
        compiled_push_pair(field, 5, 0, 3, -1.0)
        np.testing.assert_array_equal(data, before)


def biased_field(dtype):
    """A KernelField with a constant feature, and the kernel matrix that it stands for."""
    field, K = make_field("kernel", dtype)
    return field._replace(scale=SCALE), K + SCALE**2


@pytest.mark.parametrize("verbs", [COMPILED, INTERPRETED], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gathered_pushes_are_seen_before_and_after_they_are_made(dtype, verbs):
    read_, difference_, push_, push_pair_, push_list_, is_ready_ = verbs
    plain, K = biased_field(dtype)
    field = gathered(plain, notes=8)
    n = len(K)
    rng = np.random.default_rng(1)
    tau = np.zeros((n, N_CLASSES))
    every = np.tile(np.arange(N_CLASSES, dtype=np.int16), (n, 1))
    atol = 1e-4 if dtype == np.float32 else 1e-10
    most = 0
    for step in range(40):
        i, j = (int(k) for k in rng.integers(n, size=2))
        assert is_ready_(field, i)
        if step % 2:
            push_pair_(field, i, 0, 2, 0.5)
            tau[i, [0, 2]] += 0.5, -0.5
        else:
            change = rng.normal(size=N_CLASSES)
            push_list_(field, i, every, N_CLASSES, change)
            push_(field, i, 3, 0.25)
            tau[i] += change
            tau[i, 3] += 0.25
        most = max(most, int(field.waiting[0]))
        scores, found = K[j] @ tau, np.empty(N_CLASSES)
        read_(field, j, every, N_CLASSES, found)
        np.testing.assert_allclose(found, scores, atol=atol)
        np.testing.assert_allclose(
            difference_(field, j, 1, 2), scores[1] - scores[2], atol=2 * atol
        )
    assert most == 8  # the notes were full, and written, more than once
    flush(field)
    assert field.waiting[0] == 0
    assert (field.note == -1).all()
    scores = plain.F + (plain.constant * SCALE)[:, None]
    np.testing.assert_allclose(scores, (K @ tau).T, atol=atol)


def test_gathered_pushes_read_rows_of_patterns_that_have_none_themselves():
    plain, K = biased_field(np.float64)
    field = gathered(plain)
    every = np.tile(np.arange(N_CLASSES, dtype=np.int16), (len(K), 1))
    push(field, 0, 1, 2.0)
    plain.slot[3] = -1
    found = np.empty(N_CLASSES)
    read(field, 3, every, N_CLASSES, found)
    np.testing.assert_allclose(found, [0.0, 2.0 * K[3, 0], 0.0, 0.0])
    assert not is_ready(field, 3)
