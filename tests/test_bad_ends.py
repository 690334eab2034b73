"""The last stage of ``fit_into`` where gradient steps end badly on all rows."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris

from polymargin import MultiPrototypeSVC
from polymargin.estimators.size_limit import FeatureScale, SizeSearch, Trial, split_rows
from polymargin.estimators.size_plans import SizeBudget, plans_for
from polymargin.solvers.smooth_finish import FinishSettings


class Search(SizeSearch):
    """A search whose stages on all rows go wrong as often as is said."""

    bad = 0

    def rounded(self, plan, base, rows, settings, attempt=0):
        model = super().rounded(plan, base, rows, settings, attempt)
        if len(rows) == len(self.label) and attempt < self.bad:
            return replace(model, intercepts=np.array([1e6, *model.intercepts[1:]]))
        return model


@pytest.fixture
def search():
    X, y = load_iris(return_X_y=True)
    scale = FeatureScale.of(X)
    budget = SizeBudget(400, 4, 3, scale.per_feature, 0, 50)
    Z, classes = scale.apply(X), np.arange(3)
    return Search(MultiPrototypeSVC(), Z, y, None, classes, scale, budget, 0, np.inf)


def trial(search):
    train, test = split_rows(search.label, 0)
    plan = plans_for(search.budget)[0]
    settings = FinishSettings(8.0, 0.2)
    base = search.base(search.counts(plan, np.ones(3)), train, 1.0)
    model = search.rounded(plan, base, train, settings)
    return Trial(search.error(model, test), 0, plan, settings, model, base)


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_another_order_of_visits_is_tried(search, bad):
    chosen = trial(search)
    search.bad = bad
    found = search.last(chosen, chosen.base)
    rows = np.arange(len(search.label))
    assert search.error(found, rows) < 0.05
    again = super(Search, search).rounded(chosen.plan, chosen.base, rows, chosen.settings, bad)
    np.testing.assert_array_equal(found.weights, again.weights)


def test_the_model_of_the_search_stays_where_all_attempts_end_badly(search):
    chosen = trial(search)
    search.bad = 10
    assert search.last(chosen, chosen.base) is chosen.model
