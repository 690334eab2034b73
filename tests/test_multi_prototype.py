"""MultiPrototypeSVC: the model, its energy, its ways of assigning."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

from polymargin import MulticlassSVC, MultiPrototypeSVC


@pytest.fixture(scope="module")
def data():
    return make_classification(
        200, 6, n_informative=4, n_classes=3, n_clusters_per_class=2, random_state=0
    )


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("assignment", ["static", "greedy", "annealed"])
def test_one_prototype_per_class_is_crammer_singer(data, kernel, assignment):
    """T1."""
    X, y = data
    one = MultiPrototypeSVC(1, kernel=kernel, assignment=assignment, tol=1e-8, random_state=0).fit(
        X, y
    )
    cs = MulticlassSVC(kernel=kernel, tol=1e-8, random_state=0).fit(X, y)
    assert one.energy_ == pytest.approx(cs.certificate_.primal, rel=1e-7)
    np.testing.assert_allclose(one.decision_function(X), cs.decision_function(X), atol=1e-4)
