"""Arrays as users have them: masks, pandas' types, mixed objects, numbers without end."""

from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from polymargin import AutoSVC, ConvexHullSVC, MulticlassSVC, MultiPrototypeSVC

rng = np.random.default_rng(0)
Y = np.arange(30) % 3
X = rng.normal(size=(30, 4)) + 2.0 * np.eye(3, 4)[Y]
HUGE = 10**400
NAMES = np.array(["a", "b", "c"], dtype=object)


def fitted(X=X, y=Y, weight=None, **parameters):
    return MulticlassSVC(random_state=0, **parameters).fit(X, y, weight)


@pytest.mark.parametrize("dtype", ["Int64", "UInt64"])
def test_whole_number_labels_of_pandas_are_told_apart(dtype):
    y = pd.Series(np.array([2**53, 2**53 + 1, 3])[Y], dtype=dtype)
    model = fitted(y=y)
    assert model.classes_.tolist() == [3, 2**53, 2**53 + 1]
    assert (model.predict(X) == y.to_numpy(dtype=np.int64)).mean() > 0.9


def test_truth_values_of_pandas_stay_truth_values():
    assert fitted(y=pd.Series(Y > 0, dtype="boolean")).classes_.tolist() == [False, True]


def test_unused_categories_are_no_classes():
    y = pd.Series(pd.Categorical(NAMES[Y], categories=list("abcdef")))
    assert fitted(y=y).classes_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    "y",
    [
        np.where(Y == 1, None, NAMES[Y]),
        pd.Series(np.where(Y == 1, pd.NA, NAMES[Y]), dtype="string"),
        pd.Series(pd.Categorical(np.where(Y == 1, None, NAMES[Y]))),
        [np.nan if k == 1 else "a" if k else "b" for k in Y],
        [None if k == 1 else int(k) for k in Y],
        np.ma.masked_array(Y, Y == 1),
    ],
    ids=["None", "pandas NA", "category", "nan in a list", "None in a list", "masked"],
)
def test_missing_labels_are_named(y):
    with pytest.raises(ValueError, match=r"row 1 is m[ia]s"):
        fitted(y=y)


def test_labels_of_several_types_are_named():
    with pytest.raises(ValueError, match=r"several types .int in row 0, str in row 1"):
        fitted(y=np.array([1, "a", "b"], dtype=object)[Y])
    y = np.array([np.str_("a"), "b", "c"], dtype=object)[Y]
    assert fitted(y=y).classes_.tolist() == ["a", "b", "c"]


def test_masked_rows_and_weights_are_refused():
    hidden = np.ma.masked_array(X, X > 2)
    model = fitted(np.ma.masked_array(X))  # a mask that hides nothing
    for use in (fitted, model.predict, model.decision_function):
        with pytest.raises(ValueError, match=r"X: a value of row . is masked"):
            use(hidden)
    with pytest.raises(ValueError, match=r"sample_weight: a value of row 0 is masked"):
        fitted(weight=np.ma.masked_array(np.ones(30), Y == 0))


@pytest.mark.parametrize(
    "parameters",
    [
        *({name: HUGE} for name in ("C", "gamma", "tol", "max_time", "cache_mb", "degree")),
        {"C": -HUGE},
        {"coef0": -HUGE},
        {"class_weight": {0: HUGE, 1: 1, 2: 1}},
        {"class_weight": {0: np.nan, 1: 1, 2: 1}},
    ],
    ids=lambda parameters: "-".join(parameters),
)
def test_parameters_longer_than_floats(parameters):
    (name,) = parameters
    with pytest.raises(ValueError, match=rf"^{name}"):
        fitted(kernel="poly", **parameters)


def test_numbers_longer_than_floats_in_arrays():
    rows = X.astype(object)
    rows[3, 1] = HUGE
    with pytest.raises(ValueError, match=r"X: a whole number is too large"):
        fitted(rows)
    with pytest.raises(ValueError, match=r"sample_weight: a weight is too large"):
        fitted(weight=np.full(30, HUGE, dtype=object))
    with pytest.raises(ValueError, match=r"^eta"):
        ConvexHullSVC(eta=HUGE).fit(X, Y)
    with pytest.raises(ValueError, match=r"^C "):
        MultiPrototypeSVC(2, C=HUGE).fit(X, Y)


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        ([1, 2, 3], np.int64),
        ([True, False, True], np.bool_),
        ([np.int8(1), 2, np.int64(3)], np.int64),
        ([1.0, 2.0, 3], np.float64),
    ],
)
@pytest.mark.parametrize("library", ["numpy", "pandas"])
def test_numbers_and_truth_values_among_objects_stay_what_they_are(labels, dtype, library):
    """As pandas keeps a column that once had a missing value."""
    y = np.array(labels, dtype=object)[Y]
    if library == "pandas":
        y = pd.Series(y, dtype=object)
    for model in (fitted(y=y), AutoSVC(random_state=0, n_candidates=1).fit(X, y)):
        assert model.classes_.dtype == dtype
        assert model.classes_.tolist() == sorted(set(labels))
        assert model.score(X, y) == np.mean(model.predict(X) == np.array(labels)[Y])


def test_texts_of_any_length_are_labels():
    y = NAMES.astype(np.dtypes.StringDType())[Y]
    model = fitted(y=y)
    assert model.predict(X).tolist() == fitted(y=NAMES[Y]).predict(X).tolist()
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize("container", [list, np.array, pd.Series])
@pytest.mark.parametrize("kind", [Decimal, date.fromordinal])
def test_labels_of_other_types_are_named(kind, container):
    y = [kind(int(k) + 1) for k in Y]
    name = type(y[0]).__name__
    with pytest.raises(ValueError, match=f"y: labels of type {name} are neither text"):
        fitted(y=container(y))
