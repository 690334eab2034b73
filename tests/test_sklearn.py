"""Every estimator check of scikit-learn, none exempted."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from polymargin import MulticlassSVC


@parametrize_with_checks(
    [
        MulticlassSVC(tol=1e-8),
        MulticlassSVC(kernel="rbf", tol=1e-8),
        MulticlassSVC(machine="ww", tol=1e-8),
        MulticlassSVC(machine="llw", kernel="rbf", tol=1e-8),
        MulticlassSVC(machine="msvm2", tol=1e-8),
    ]
)
def test_estimator_check(estimator, check):
    check(estimator)
