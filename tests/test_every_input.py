"""Probabilities, sets, reasons and costs on every kind of rows, model and number of classes."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from polymargin import (
    ConvexHullSVC,
    MulticlassSVC,
    MultiPrototypeSVC,
    certified_radius,
    counterfactual,
    coverage_promise,
    explain,
    predict_set,
)

MODELS = {
    "cs": MulticlassSVC(C=0.5, random_state=0),
    "ww": MulticlassSVC("ww", C=0.5, random_state=0),
    "prototypes": MultiPrototypeSVC(2, C=0.5, random_state=0),
    "rbf": MulticlassSVC(kernel="rbf", C=0.5, random_state=0),
    "rbf prototypes": MultiPrototypeSVC(2, kernel="rbf", C=0.5, random_state=0),
    "hulls": ConvexHullSVC(eta=0.3, kernel="linear"),
}


def data(n_classes, n=48, d=5):
    rng = np.random.default_rng(n_classes)
    y = np.arange(n) % n_classes
    X = 1.5 * rng.standard_normal((n_classes, d))[y] + rng.standard_normal((n, d))
    X[np.abs(X) < 0.4] = 0.0
    return X, np.array(["a", "b", "c"])[y], rng.uniform(0.5, 2.0, n)


def given(kind, X):
    if kind == "sparse":
        return sp.csr_matrix(X)
    return pd.DataFrame(X, columns=list("vwxyz")) if kind in ("pandas", "Pipeline") else X


def fitted(name, kind, n_classes, **more):
    X, y, weight = data(n_classes)
    last = MODELS[name].__class__(**{**MODELS[name].get_params(), **more})
    if name == "hulls":  # has no weights
        weight = None
    rows = given(kind, X)
    if kind != "Pipeline":
        return last.fit(rows, y) if weight is None else last.fit(rows, y, weight), rows, y
    step = type(last).__name__.lower()
    options = {} if weight is None else {f"{step}__sample_weight": weight}
    return make_pipeline(MaxAbsScaler(), last).fit(rows, y, **options), rows, y


@pytest.mark.filterwarnings("ignore:eta. the convex hulls")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ["dense", "sparse", "pandas", "Pipeline"])
@pytest.mark.parametrize("name", MODELS)
def test_everything_is_answered(name, kind, n_classes):
    more = {"probabilities": "temperature", "calibration_folds": 3}
    model, rows, y = fitted(name, kind, n_classes, **more)
    labels = model.predict(rows)
    P = model.predict_proba(rows)
    assert P.shape == (len(y), n_classes)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], labels)
    sets = predict_set(model, rows, 0.9)
    assert sets.shape == P.shape
    assert coverage_promise(model, 0.9).kind == "out-of-fold"
    assert sets[np.arange(len(y)), np.searchsorted(model.classes_, y)].mean() > 0.7
    reasons = explain(model, rows)
    np.testing.assert_array_equal(reasons.label, labels)
    total = np.asarray(reasons.contributions.sum(axis=1)).ravel() + reasons.constant
    np.testing.assert_allclose(total, reasons.lead, atol=1e-9)
    radius = certified_radius(model, rows)
    assert (radius.radius >= 0.0).all()
    if "rbf" in name:
        with pytest.raises(ValueError, match="counterfactual needs a linear or prototype model"):
            counterfactual(model, rows)
        return
    some = rows.iloc[:3] if hasattr(rows, "iloc") else rows[:3]
    found = counterfactual(model, some)
    there = ~np.isnan(found.rows).any(axis=1)
    changed = given("pandas" if hasattr(rows, "iloc") else "dense", found.rows)
    np.testing.assert_array_equal(model.predict(changed)[there], found.target[there])
    assert (found.target != labels[:3]).all()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ["dense", "sparse", "pandas", "Pipeline"])
@pytest.mark.parametrize("name", [name for name in MODELS if name != "hulls"])
def test_costs_are_heard(name, kind, n_classes):
    costs = np.array([[0.0, 9.0, 9.0], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]])[:n_classes, :n_classes]
    plain, rows, y = fitted(name, kind, n_classes, C=0.05)
    careful, _, _ = fitted(name, kind, n_classes, C=0.05, cost_matrix=costs)
    is_dear = y == "a"  # to mistake one of these costs eighteen times as much

    def dear_mistakes(model):
        return int((model.predict(rows)[is_dear] != "a").sum())

    assert dear_mistakes(careful) <= dear_mistakes(plain)
    reasons = explain(careful, rows)
    np.testing.assert_array_equal(reasons.label, careful.predict(rows))
