"""Fixtures: small problems, real data sets where they are present."""

import os
import signal
import time

# Before anything imports scipy: without it scikit-learn silently skips its array API checks.
os.environ["SCIPY_ARRAY_API"] = "1"

from pathlib import Path
from types import SimpleNamespace

import hypothesis
import numba
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, make_classification

# Properties are tried on the same examples in every run, and slow ones are no failures: the suite
# must give the same answer twice.  New examples are the job of make fuzz.
hypothesis.settings.register_profile(
    "same",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("same")

# A shell that starts pytest in the background has it ignore Ctrl-C; tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def miniature():
    """The worked miniature of the theory: seven points of the plane, three classes."""
    X = np.array([[2, 0], [3, 1], [0, 2], [1, 3], [-2, -2], [-3, -1], [0.5, 0.5]], dtype=float)
    return X, np.array([0, 0, 1, 1, 2, 2, 0])


@pytest.fixture
def overlapping():
    """Sixty points, five features, four classes that overlap."""
    return make_overlapping()


@pytest.fixture(scope="module")
def data():
    """Two hundred points, three classes of two clusters each."""
    return make_classification(
        200, 6, n_informative=4, n_classes=3, n_clusters_per_class=2, random_state=0
    )


@pytest.fixture(scope="module")
def iris():
    """Iris as a data frame, with the names of its classes."""
    data = load_iris(as_frame=True)
    return data.data, data.target_names[data.target]


@pytest.fixture(scope="module")
def digits():
    """Every fourth image of the digits, ten classes."""
    X, y = load_digits(return_X_y=True)
    return X[::4] / 16, y[::4]


@pytest.fixture
def separable():
    """Sixty points, five features, three classes that a linear map through 0 separates."""
    return make_separable()


@pytest.fixture
def hard_work():
    """A problem that keeps a solver busy for minutes: noise, large C, a hopeless tolerance."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20000, 30))
    y = rng.integers(5, size=20000)
    return SimpleNamespace(
        X=X, y=y, parameters={"C": 1000.0, "tol": 1e-13, "max_iter": 10**9, "random_state": 0}
    )


class MadeUpClock:
    """The process's clock, made up: a look takes ``look_seconds``, and one look ends the work.

    At the look number ``last`` (from 1) time jumps past every limit, or Ctrl-C is pressed.  What
    happens then does not depend on the speed of the machine.
    """

    def __init__(self):
        self.restart()

    def restart(self, last=np.inf, end="max_time", look_seconds=1e-3):
        self.now, self.looks, self.last, self.end = 0.0, 0, last, end
        self.look_seconds = look_seconds

    def pass_by(self, seconds):
        """So many seconds pass."""
        self.now += seconds

    def __call__(self):
        self.looks += 1
        self.now += self.look_seconds
        if self.looks == self.last:
            if self.end == "interrupted":
                signal.raise_signal(signal.SIGINT)
            else:
                self.now += 1e12
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """A made-up clock in the place of ``time.perf_counter``."""
    clock = MadeUpClock()
    monkeypatch.setattr(time, "perf_counter", clock)
    return clock


@pytest.fixture
def still(clock):
    """A made-up clock that stands still until it is told that time has passed."""
    clock.restart(look_seconds=0.0)
    return clock


@pytest.fixture
def put_method():
    """``put_method(name, kind)`` registers a class as a method of the table, for one test."""
    from polymargin.solvers import METHODS, register_method

    before = dict(METHODS)

    def put(name, kind):
        def make(problem, run, start, options):
            return kind(problem, run, start, *([options] if options is not None else []))

        register_method(METHODS[name]._replace(make=make))

    yield put
    METHODS.update(before)


def from_python(function):
    """A compiled helper that only compiled code can call, as a function that Python can call."""

    @numba.njit
    def call(*arguments):
        return function(*arguments)

    return call


def make_overlapping(n=60, d=5, n_classes=4, seed=1):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    centres = rng.normal(size=(n_classes, d))
    X = centres[y] + rng.normal(size=(n, d))
    return X, y


def make_separable(n=60, d=5, n_classes=3, seed=2, margin=0.7):
    rng = np.random.default_rng(seed)
    W = np.eye(n_classes, d)
    X = rng.normal(size=(40 * n, d))
    scores = np.sort(X @ W.T, axis=1)
    X = X[scores[:, -1] - scores[:, -2] > margin][:n]
    y = (X @ W.T).argmax(axis=1)
    assert len(X) == n
    assert len(np.unique(y)) == n_classes
    return X, y


def moved(A, offset):
    """The same numbers, so many numbers behind the start of another array."""
    room = np.empty(A.size + 8)
    out = room[offset : offset + A.size].reshape(A.shape)
    out[:] = A
    return out


@pytest.fixture
def even_blas():
    """Skips where the BLAS itself rounds a dot product by the addresses of its vectors.

    Its kernels for processors before SSE4.2 do; no caller can make such results repeatable.
    """
    rows = np.random.default_rng(0).normal(size=(20, 37))
    if any(len({float(moved(v, k) @ moved(v, k)) for k in range(8)}) > 1 for v in rows):
        pytest.skip("dot products of this BLAS depend on where vectors lie in memory")


def data_file(name):
    """``POLYMARGIN_DATA_DIR/<name>.npz``; the test is skipped where it is not there."""
    folder = os.environ.get("POLYMARGIN_DATA_DIR")
    if not folder:
        pytest.skip(f"data set {name}: POLYMARGIN_DATA_DIR is not set")
    path = Path(folder) / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"data set {name}: POLYMARGIN_DATA_DIR has no {path.name}")
    return path


@pytest.fixture
def real_data():
    """A reader of ``POLYMARGIN_DATA_DIR/<name>.npz``: the training part, features in [-1, 1]."""

    def read(name):
        with np.load(data_file(name)) as z:
            rows = z["train_idx"] if "train_idx" in z.files else np.arange(len(z["y"]))
            y = z["y"][rows]
            if "X" not in z.files:
                parts = (z["data"].astype(float), z["indices"], z["indptr"])
                return sparse.csr_array(parts, shape=tuple(z["shape"]))[rows], y
            X = z["X"][rows].astype(float)
        low, high = X.min(axis=0), X.max(axis=0)
        return 2 * (X - low) / np.where(high > low, high - low, 1) - 1, y

    return read
