"""Strings and graphs with a callable kernel: the same machine as with the kernel matrix."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

import polymargin
from polymargin import ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC
from polymargin.problem.object_rows import as_object_rows, holds_objects

PAGE = Path(__file__).parents[1] / "docs" / "kernels.md"
LETTERS = {"a": "abcd", "b": "cdef", "c": "efab"}


def pairs_of(text):
    return {text[i : i + 2] for i in range(len(text) - 1)}


def shared_pairs(A, B):
    """A string kernel: the share of pairs of letters that two strings have in common."""
    assert isinstance(A, list)
    assert isinstance(B[0], str)
    A, B = [pairs_of(a) for a in A], [pairs_of(b) for b in B]
    return [[len(a & b) / np.sqrt(len(a) * len(b)) for b in B] for a in A]


def shared_edges(A, B):
    """A graph kernel: common edges; a graph is a dict from node to a list of its neighbours."""

    def edges(graph):
        return {(node, other) for node, others in graph.items() for other in others}

    return [[len(edges(a) & edges(b)) for b in B] for a in A]


@pytest.fixture(scope="module")
def strings():
    rng = np.random.default_rng(0)
    y = np.array(list("abc") * 12)
    return ["".join(rng.choice(list(LETTERS[label]), 12)) for label in y], y


@pytest.fixture(scope="module")
def graphs():
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    found = []
    for label in y:
        nodes = rng.integers(0, 6, size=(8, 2)) + 3 * label
        graph = {}
        for a, b in nodes.tolist():
            graph.setdefault(a, []).append(b)
        found.append(graph)
    return found, y


@pytest.mark.parametrize("machine", ["cs", "ww", "llw", "msvm2"])
def test_same_machine_as_the_matrix(strings, machine):
    X, y = strings
    K = np.array(shared_pairs(X, X))
    model = MulticlassSVC(machine, kernel=shared_pairs, tol=1e-6, random_state=0).fit(X, y)
    given = MulticlassSVC(machine, kernel="precomputed", tol=1e-6, random_state=0).fit(K, y)
    assert model.certificate_.primal == pytest.approx(given.certificate_.primal, rel=2e-6)
    assert model.certificate_.kernel_psd is True
    np.testing.assert_allclose(model.decision_function(X), given.decision_function(K), atol=0.02)
    assert set(model.support_vectors_[:, 0]) <= set(X)


def test_graphs(graphs):
    X, y = graphs
    K = np.array(shared_edges(X, X), dtype=float)
    model = MulticlassSVC(kernel=shared_edges, tol=1e-6, random_state=0).fit(X, y)
    given = MulticlassSVC(kernel="precomputed", tol=1e-6, random_state=0).fit(K, y)
    assert model.certificate_.primal == pytest.approx(given.certificate_.primal, rel=2e-6)
    assert model.score(X, y) > 0.7


def test_scikit_learn(strings):
    X, y = strings
    model = MulticlassSVC(kernel=shared_pairs, random_state=0)
    assert clone(model).kernel is shared_pairs
    assert cross_val_score(model, X, y, cv=3).mean() > 0.8
    assert GridSearchCV(model, {"C": [0.1, 1.0]}, cv=3).fit(X, y).score(X, y) > 0.8


def test_all_forms_of_a_sequence(strings):
    X, y = strings
    model = MulticlassSVC(kernel=shared_pairs, random_state=0).fit(X, y)
    labels = model.predict(X)
    forms = [tuple(X), np.array(X), np.array(X, dtype=object), as_object_rows(X)]
    pandas = pytest.importorskip("pandas")
    for form in [*forms, pandas.Series(X)]:
        np.testing.assert_array_equal(model.predict(form), labels)
        again = clone(model).fit(form, y)
        assert again.certificate_ == model.certificate_


def test_other_ways(strings):
    X, y = strings
    weight = np.where(np.arange(len(y)) < 3, 0.0, 1.0)
    model = MulticlassSVC(kernel=shared_pairs, probabilities="temperature", random_state=0)
    model.fit(X, y, sample_weight=weight)
    assert model.support_.min() >= 3
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert ConvexHullSVC(kernel=shared_pairs, eta=0.3).fit(X, y).score(X, y) > 0.8
    few = MulticlassSVC(kernel=shared_pairs, landmarks=20, random_state=0).fit(X, y)
    assert few.score(X, y) > 0.8


def test_vectors_are_not_objects():
    for X in ([[1.0, 2.0]], [1.0, 2.0], np.ones(3), np.ones((3, 1)), np.ones((3, 1), object), []):
        assert not holds_objects(X)
    for X in (["a"], [{}], np.array(["a"]), np.array([["a"]], dtype=object)):
        assert holds_objects(X)


def test_refusals(strings, tmp_path):
    X, y = strings
    model = MulticlassSVC(kernel=shared_pairs, random_state=0).fit(X, y)
    refused = [
        (lambda: MultiPrototypeSVC(2, kernel=shared_pairs).fit(X, y), "use MulticlassSVC"),
        (lambda: MulticlassSVC(kernel=shared_pairs).fit(X, y[:5]), "inconsistent numbers"),
        (lambda: MulticlassSVC(kernel=shared_pairs).fit(X, None), "y: labels are needed"),
        (lambda: model.predict([[1.0]]), "trained on a sequence of objects"),
        (lambda: model.predict([]), "trained on a sequence of objects"),
        (lambda: MulticlassSVC(kernel=lambda A, B: [[1.0]]).fit(X, y), "returned shape"),
        (lambda: polymargin.save(model, tmp_path / "m.pm"), "carries no code"),
    ]
    for attempt, words in refused:
        with pytest.raises(ValueError, match=words) as caught:
            attempt()
        assert "\n" not in str(caught.value)


def test_the_page_runs(capsys):
    """Its blocks in order, as a reader would run them."""
    space = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), flags=re.M | re.S):
        exec(block, space)
    assert "['en' 'de' 'it']" in capsys.readouterr().out
    assert space["tuned"].kernel_weights_.sum() == pytest.approx(1.0)
