"""The compiled Gaussian kernel against NumPy, and kept kernel rows of checks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polymargin import MulticlassSVC
from polymargin.certificate.training_scores import KnownRows
from polymargin.compiled.gaussian import gaussian_in_place
from polymargin.problem.kernels import Kernel


def exponentials(x, real):
    """exp(min(0, x)) by the compiled loop."""
    G = np.array([x], dtype=real) / 2
    return gaussian_in_place(G, 2.0, np.zeros(1), np.zeros(G.shape[1]))[0]


@given(st.lists(st.floats(-87.0, 5.0, width=32), min_size=1, max_size=70))
def test_the_exponential_is_rounded_almost_exactly(x):
    exact = np.exp(np.minimum(np.asarray(x, dtype=np.float64), 0.0))
    np.testing.assert_allclose(exponentials(x, np.float32), exact, rtol=1.3e-7)


@given(st.lists(st.floats(-707.0, 5.0), min_size=1, max_size=40))
def test_the_exponential_of_doubles_is_rounded_almost_exactly(x):
    exact = np.exp(np.minimum(np.asarray(x, dtype=np.longdouble), 0.0))
    np.testing.assert_allclose(exponentials(x, np.float64), exact.astype(np.float64), rtol=4e-16)


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_what_is_not_an_ordinary_number(real):
    found = exponentials([np.nan, np.inf, -np.inf, -709.0, -1e30, -0.0, 1e-30], real)
    np.testing.assert_array_equal(found, [np.nan, 1, 0, 0, 0, 1, 1])


@pytest.mark.parametrize("d", [1, 3, 16, 300])
def test_blocks_of_the_kernel_are_those_of_float64(d):
    rng = np.random.default_rng(d)
    A, B = rng.normal(size=(7, d)), rng.normal(size=(33, d))
    A /= np.sqrt(d)
    B /= np.sqrt(d)
    kernel = Kernel("rbf", gamma=1.0)
    a, b = (A * A).sum(axis=1), (B * B).sum(axis=1)
    single = kernel.block(A.astype(np.float32), B.astype(np.float32), a, b)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, kernel.block(A, B, a, b), atol=3e-6)


def test_known_rows_forget_and_learn_again():
    rng = np.random.default_rng(0)
    K, asked = rng.normal(size=(40, 40)), []

    def write(patterns, columns, out, first):
        asked.extend(patterns)
        out[first : first + len(patterns), columns] = K[patterns, columns]

    known = KnownRows(write, 40, capacity=20)
    tau = rng.normal(size=(12, 3))
    support = rng.permutation(40)[:12]
    np.testing.assert_allclose(known.scores(support, tau), tau.T @ K[support])
    known.forget(5)
    assert len(known.missing(support)) == 7
    np.testing.assert_allclose(known.scores(support, tau), tau.T @ K[support])
    assert len(asked) == 12 + 7


@pytest.mark.parametrize("cache_mb", [2.4, 12.0, 1000.0])
def test_rows_kept_between_checks_leave_the_solution_alone(cache_mb):
    """No room for them, room that the working set takes back, and room for all."""
    rng = np.random.default_rng(3)
    means = rng.normal(size=(6, 80))
    y = rng.integers(6, size=1500)
    X = means[y] * 0.25 + rng.normal(size=(1500, 80))
    options = {"C": 1.0, "kernel": "rbf", "gamma": 0.01, "tol": 1e-3, "random_state": 0}
    model = MulticlassSVC(cache_mb=cache_mb, **options).fit(X, y)
    exact = MulticlassSVC(**{**options, "tol": 1e-7}).fit(X, y)
    best = exact.certificate_.primal
    assert model.status_ == "converged"
    assert best * (1 - 1e-7) <= model.certificate_.primal <= best * (1 + 1e-3)
