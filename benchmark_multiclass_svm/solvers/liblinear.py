"""liblinear's Crammer-Singer solver (-s 4) through scikit-learn."""

import warnings
from typing import ClassVar

from benchopt import BaseSolver
from sklearn.svm import LinearSVC


class Solver(BaseSolver):
    """``LinearSVC(multi_class="crammer_singer")``: the same C, no intercept."""

    name = "liblinear"
    sampling_strategy = "tolerance"
    install_cmd = "conda"
    requirements: ClassVar = ["pip::scikit-learn"]

    def set_objective(self, X, y, C, X_test):
        self.X, self.y, self.C = X, y, C

    def run(self, tolerance):
        model = LinearSVC(
            multi_class="crammer_singer", C=self.C, fit_intercept=False,
            tol=max(tolerance, 1e-12), max_iter=10**6, random_state=0,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.W = model.fit(self.X, self.y).coef_

    def get_result(self):
        return {"W": self.W}
