"""Every estimator check of scikit-learn, none exempted."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from polymargin import ConvexHullSVC, MulticlassSVC


@parametrize_with_checks([MulticlassSVC(tol=1e-8), MulticlassSVC(kernel="rbf", tol=1e-8)])
def test_estimator_check(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [
        ConvexHullSVC(tol=1e-12),
        ConvexHullSVC(kernel="linear", eta=0.5, eta_scale="relative", tol=1e-12),
    ]
)
def test_estimator_check_of_hulls(estimator, check):
    check(estimator)
