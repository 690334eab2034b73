"""Prototypes of tabular data as a table of weights against the runner-up."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polymargin import MulticlassSVC, MultiPrototypeSVC, prototype_table

X, Y = load_iris(return_X_y=True)
NAMES = list("abcd")


def test_rows_are_differences_to_the_runner_up():
    model = MultiPrototypeSVC(2, C=1.0, random_state=0).fit(X, Y)
    table = prototype_table(model, X, top=4, names=NAMES)
    W, owner = model.prototypes_, model._prototype_class
    assert (owner[table.rival] != owner).all()
    assert table.wins.sum() == len(X)
    for r in range(len(W)):
        difference = dict(zip(NAMES, W[r] - W[table.rival[r]], strict=True))
        assert table.weights[r].tolist() == [difference[name] for name in table.features[r]]
        size = [abs(difference[n]) * X[:, NAMES.index(n)].std() for n in table.features[r]]
        assert size == sorted(size, reverse=True)
    assert len(str(table).splitlines()) == len(W)


def test_pipelines_and_models_without_examples():
    model = make_pipeline(StandardScaler(), MulticlassSVC(C=1.0)).fit(X, Y)
    table = prototype_table(model, top=1)
    W = model[-1].coef_
    near = ((W[0] - W[1:]) ** 2).sum(axis=1).argmin() + 1
    assert table.rival[0] == near
    assert table.features[0] == [f"feature {int(np.abs(W[0] - W[near]).argmax())}"]
    assert table.wins is None


def test_refusals():
    with pytest.raises(ValueError, match="kernel machine has no prototypes"):
        prototype_table(MulticlassSVC(kernel="rbf").fit(X, Y))
    with pytest.raises(ValueError, match="top must be"):
        prototype_table(MulticlassSVC().fit(X, Y), top=0)
