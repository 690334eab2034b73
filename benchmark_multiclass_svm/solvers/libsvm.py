"""LIBSVM's one-vs-one machine with a linear kernel: another problem, for its test error."""

from itertools import combinations
from typing import ClassVar

import numpy as np
from benchopt import BaseSolver
from sklearn.svm import SVC


class Solver(BaseSolver):
    """``SVC(kernel="linear")``; labels by votes, W by means of pair vectors."""

    name = "libsvm-one-vs-one"
    sampling_strategy = "tolerance"
    install_cmd = "conda"
    requirements: ClassVar = ["pip::scikit-learn"]

    def set_objective(self, X, y, C, X_test):
        self.X, self.y, self.C, self.X_test = X, y, C, X_test

    def run(self, tolerance):
        model = SVC(kernel="linear", C=2.0 * self.C, tol=max(tolerance, 1e-9)).fit(self.X, self.y)
        self.labels = None if self.X_test is None else model.predict(self.X_test)
        pairs = model.coef_.toarray() if hasattr(model.coef_, "toarray") else model.coef_
        n = len(model.classes_)
        self.W = np.zeros((n, self.X.shape[1]))
        for row, (a, b) in zip(pairs, combinations(range(n), 2), strict=True):
            self.W[a] += row / n
            self.W[b] -= row / n

    def get_result(self):
        return {"W": self.W, "labels": self.labels}
