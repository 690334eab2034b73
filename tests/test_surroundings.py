"""Fits in threads, forks and other processes, other hash seeds and locales: the same bits."""

import hashlib
import locale
import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import make_overlapping
from joblib import Parallel, delayed

from polymargin import ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC

X, Y = make_overlapping()
MODELS = {
    "cs": MulticlassSVC(random_state=0),
    "ww rbf": MulticlassSVC("ww", kernel="rbf", random_state=0),
    "prototypes": MultiPrototypeSVC(2, random_state=0),
    "hull": ConvexHullSVC(eta=0.3),
}


def digest(model):
    """A checksum of all fitted arrays."""
    found = hashlib.sha256()
    for name, value in sorted(vars(model).items()):
        if isinstance(value, np.ndarray):
            found.update(name.encode() + np.ascontiguousarray(value).tobytes())
    return found.hexdigest()


def fit(name):
    return digest(MODELS[name].fit(X, Y))


@pytest.mark.parametrize("name", MODELS)
def test_threads(name):
    alone = fit(name)
    with ThreadPoolExecutor(4) as pool:
        models = [type(MODELS[name])(**MODELS[name].get_params(deep=False)) for _ in range(6)]
        assert {digest(m) for m in pool.map(lambda m: m.fit(X, Y), models)} == {alone}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_fork():
    """A child of a process that has already fitted fits, too, and finds the same bits."""
    alone = fit("cs")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(fit, ("cs",)).get(timeout=300) == alone


def test_loky():
    alone = fit("cs")
    found = Parallel(n_jobs=2)(
        delayed(lambda model: digest(model.fit(X, Y)))(MulticlassSVC(random_state=0))
        for _ in range(2)
    )
    assert set(found) == {alone}


@pytest.mark.parametrize("name", MODELS)
def test_pickle(name):
    model = MODELS[name].fit(X, Y)
    copy = pickle.loads(pickle.dumps(model))
    assert digest(copy) == digest(model)
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    assert copy.certificate_ == model.certificate_


_CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from test_surroundings import fit
print(fit("cs"), fit("prototypes"))
"""


def test_hash_seed():
    here = os.path.dirname(__file__)
    found = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, here], env=environment, capture_output=True, check=True
        )
        found.add(done.stdout)
    assert found == {f"{fit('cs')} {fit('prototypes')}\n".encode()}


def test_decimal_comma(tmp_path):
    """Numbers in files and messages do not follow LC_NUMERIC."""
    name = next((n for n in ("de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8") if _has_locale(n)), None)
    if name is None:
        pytest.skip("no locale with a decimal comma is installed")
    from polymargin.datasets import read_data

    (tmp_path / "a.csv").write_text("a,y\n1.5,0\n2.25,1\n")
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, name)
        assert read_data(str(tmp_path / "a.csv")).X.ravel().tolist() == [1.5, 2.25]
        inside = fit("cs")
    finally:
        locale.setlocale(locale.LC_ALL, before)
    assert inside == fit("cs")


def _has_locale(name):
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, name)
    except locale.Error:
        return False
    finally:
        locale.setlocale(locale.LC_ALL, before)
    return True


@pytest.mark.parametrize("name", MODELS)
def test_numpy_that_raises(name):
    """Overflow, invalid and division are errors for the caller: fits and predictions do without.

    Underflow is not: exp of a large negative number is 0, as it should be.
    """
    plain = fit(name)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        assert fit(name) == plain
        MODELS[name].predict(X)
