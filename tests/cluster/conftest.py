"""Clusters of processes for these tests, and an end for each of them."""

import contextlib
import signal

import pytest

pytest.importorskip("distributed")
from distributed import Client, LocalCluster

LONGEST = 420  # seconds of one test; busy machines take a minute to start two processes


@contextlib.contextmanager
def two_workers(**options):
    """A cluster of two processes; one that is slow to go does not fail the test before it."""
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, **options
    )
    try:
        yield cluster
    finally:
        with contextlib.suppress(TimeoutError):
            cluster.close(timeout=60)


@pytest.fixture
def cluster(request):
    """Two workers that a test may kill; ``parametrize(indirect=True)`` gives their options."""
    with two_workers(**getattr(request, "param", {})) as one:
        yield one


@pytest.fixture(scope="module")
def client():
    """Two workers that the tests of a file share."""
    with two_workers() as one, Client(one) as found:
        yield found


@pytest.fixture(autouse=True)
def end():
    """A test that hangs fails."""

    def give_up(*_):
        raise TimeoutError(f"no end within {LONGEST} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LONGEST)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
