"""Containers, dtypes, memory, determinism."""

import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import make_overlapping
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from polymargin import MulticlassSVC, MultiPrototypeSVC


def exact(X):
    """Points that every container and float32 hold without rounding."""
    return np.round(X * 8) / 8


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def wide(matrix, dtype):
    """CSR with the given dtype of indices, which scipy would narrow by itself."""
    matrix.indices = matrix.indices.astype(dtype)
    matrix.indptr = matrix.indptr.astype(dtype)
    assert matrix.indices.dtype == dtype
    return matrix


def frozen_csr(X):
    matrix = sparse.csr_array(X)
    for part in [matrix.data, matrix.indices, matrix.indptr]:
        part.flags.writeable = False
    return matrix


CONTAINERS = {
    "list": lambda X: X.tolist(),
    "fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X: X[::-1].copy()[::-1],
    "read-only": read_only,
    "read-only fortran": lambda X: read_only(np.asfortranarray(X)),
    "float16": lambda X: X.astype(np.float16),
    "integers": lambda X: (8 * X).astype(np.int64) / np.float64(8),
    "big-endian": lambda X: X.astype(">f8"),
    "csr_matrix": sparse.csr_matrix,
    "csr_array": sparse.csr_array,
    "csr int32": lambda X: wide(sparse.csr_array(X), np.int32),
    "csr int64": lambda X: wide(sparse.csr_array(X), np.int64),
    "csr_matrix int64": lambda X: wide(sparse.csr_matrix(X), np.int64),
    "csr read-only": frozen_csr,
    "csr float32": lambda X: sparse.csr_array(X.astype(np.float32)),
    "csc_array": sparse.csc_array,
    "coo_array": sparse.coo_array,
    "float32": lambda X: X.astype(np.float32),
    "float32 fortran": lambda X: np.asfortranarray(X.astype(np.float32)),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_container(overlapping, container, kernel):
    X, y = overlapping
    X = exact(X)
    model = MulticlassSVC(kernel=kernel, gamma=0.25, tol=1e-9, random_state=0)
    expected = clone(model).fit(X, y).decision_function(X)
    given = CONTAINERS[container](X)
    scores = clone(model).fit(given, y).decision_function(given)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, expected, atol=1e-3)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames(overlapping, library):
    module = pytest.importorskip(library)
    X, y = overlapping
    names = [f"x{j}" for j in range(5)]
    frame = module.DataFrame(dict(zip(names, X.T, strict=True)))
    labels = module.Series(np.array(list("abcd"))[y].tolist())
    model = MulticlassSVC(random_state=0).fit(frame, labels)
    assert list(model.feature_names_in_) == names
    plain = MulticlassSVC(random_state=0).fit(X, np.array(list("abcd"))[y])
    np.testing.assert_allclose(model.decision_function(frame), plain.decision_function(X))
    np.testing.assert_array_equal(model.predict(frame), plain.predict(X))


def test_pandas_sample_weight(overlapping):
    pandas = pytest.importorskip("pandas")
    X, y = overlapping
    weights = np.random.default_rng(0).uniform(size=60)
    index = np.random.default_rng(1).permutation(60)
    model = MulticlassSVC(random_state=0)
    a = clone(model).fit(X, y, sample_weight=pandas.Series(weights, index=index))
    b = clone(model).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_memmap(overlapping, tmp_path, dtype):
    X, y = overlapping
    X = exact(X)
    path = tmp_path / "points"
    X.astype(dtype).tofile(path)
    mapped = np.memmap(path, dtype=dtype, mode="r", shape=X.shape)
    for kernel in ["linear", "rbf"]:
        model = MulticlassSVC(kernel=kernel, random_state=0)
        expected = clone(model).fit(X.astype(dtype), y).decision_function(X)
        np.testing.assert_array_equal(clone(model).fit(mapped, y).decision_function(X), expected)


def test_input_is_not_changed(overlapping):
    X, y = overlapping
    for form in [np.array, np.asfortranarray, sparse.csr_array]:
        given, labels, weights = form(X), y.copy(), np.ones(60)
        before = given.copy()
        MulticlassSVC().fit(given, labels, sample_weight=weights).predict(given)
        assert not (given != before).sum()
        np.testing.assert_array_equal(labels, y)
        np.testing.assert_array_equal(weights, 1)


def peak_bytes(action):
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def sparse_points(n, d, per_row):
    """CSR of float32 with the same number of entries in every row."""
    rng = np.random.default_rng(0)
    start = rng.integers(d - per_row, size=n)
    indices = (start[:, None] + np.arange(per_row)).astype(np.int32).ravel()
    data = rng.normal(size=n * per_row).astype(np.float32)
    return sparse.csr_array((data, indices, per_row * np.arange(n + 1, dtype=np.int32)), (n, d))


@pytest.mark.parametrize("intercept", ["none", "penalized"])
def test_float32_is_not_copied(intercept):
    """Neither to float64 nor to append a column; support_vectors_ may be as large as X."""
    X = np.random.default_rng(0).normal(size=(40000, 250)).astype(np.float32)
    y = X[:, :3].argmax(axis=1)
    model = MulticlassSVC(intercept=intercept, C=1e-4, tol=0.1)
    clone(model).fit(X[:50], y[:50])  # compile first
    assert peak_bytes(lambda: model.fit(X, y)) < 1.75 * X.nbytes


def test_sparse_float32_is_not_copied():
    X = sparse_points(20000, 1000, 150)
    y = np.arange(20000) % 3
    model = MulticlassSVC(C=1e-4, tol=0.1)
    clone(model).fit(X[:50], y[:50])
    # a float64 copy of the values would be as large as values and indices together
    assert peak_bytes(lambda: model.fit(X, y)) < 1.75 * (X.data.nbytes + X.indices.nbytes)


def test_float64_is_not_copied():
    X = np.random.default_rng(0).normal(size=(20000, 250))
    y = X[:, :3].argmax(axis=1)
    model = MulticlassSVC(C=1e-4, tol=0.1)
    clone(model).fit(X[:50], y[:50])
    assert peak_bytes(lambda: model.fit(X, y)) < 1.75 * X.nbytes


# -- determinism ---------------------------------------------------------------------------------


def bits(model, X):
    return (
        model.dual_coef_.tobytes(),
        model.support_.tobytes(),
        model.decision_function(X).tobytes(),
        model.n_iter_,
    )


@pytest.mark.parametrize(
    ("model", "classes"),
    [
        (MulticlassSVC(C=0.1, max_iter=12), 30),
        (MultiPrototypeSVC(2, C=0.1, max_iter=12), 70),  # with up to 64, threads share passes too
    ],
    ids=lambda value: type(value).__name__,
)
def test_checks_of_large_data_in_threads(model, classes):
    """Blocks that threads compute ahead are added up in their order."""
    X, y = make_overlapping(9000, 60, classes, seed=0)
    found = []
    for n_jobs in (None, 2, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = clone(model).set_params(n_jobs=n_jobs, random_state=0).fit(X, y)
        found.append((fitted.history_["dual"].tolist(), bits(fitted, X[:50])))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("n_jobs", [None, 1, 2, -1])
def test_same_seed_same_bits(overlapping, kernel, n_jobs):
    X, y = overlapping
    model = MulticlassSVC(kernel=kernel, C=10, tol=1e-6, random_state=42)
    expected = bits(clone(model).fit(X, y), X)
    assert bits(clone(model).set_params(n_jobs=n_jobs).fit(X, y), X) == expected


def test_default_seed_is_reproducible(overlapping):
    """No seed given: nothing promised but the optimum, to the tolerance."""
    X, y = overlapping
    a, b = (MulticlassSVC(tol=1e-9).fit(X, y).decision_function(X) for _ in range(2))
    np.testing.assert_allclose(a, b, atol=1e-3)


def test_global_random_state_is_left_alone(overlapping):
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    MulticlassSVC(random_state=0).fit(*overlapping)
    assert np.random.random() == expected  # noqa: NPY002


def test_random_state_instance(overlapping):
    X, y = overlapping
    a, b = (MulticlassSVC(random_state=np.random.RandomState(5)).fit(X, y) for _ in range(2))
    assert bits(a, X) == bits(b, X)


def test_threads(overlapping):
    """Fits in parallel threads do not disturb each other."""
    X, y = overlapping
    models = [
        MulticlassSVC(kernel=kernel, C=C, tol=1e-6, random_state=0)
        for kernel in ["linear", "rbf"]
        for C in [0.1, 1.0, 10.0, 100.0]
    ]
    serial = [bits(clone(model).fit(X, y), X) for model in models]
    with ThreadPoolExecutor(2) as pool:
        parallel = list(pool.map(lambda model: bits(clone(model).fit(X, y), X), models))
    assert parallel == serial


def test_fit_outside_the_main_thread(overlapping):
    """Signals belong to the main thread; fit must not need them."""
    X, y = overlapping
    with ThreadPoolExecutor(1) as pool:
        model = pool.submit(MulticlassSVC(random_state=0).fit, X, y).result()
    assert model.status_ == "converged"
