"""Objective of the suite: the primal value of the linear Crammer-Singer machine, in float64."""

from typing import ClassVar

import numpy as np
from benchopt import BaseObjective


class Objective(BaseObjective):
    """Half the squared norm plus C times the sum of the slacks, and errors on held-out rows."""

    name = "Linear Crammer-Singer SVM"
    url = "https://github.com/benchopt/benchmark_multiclass_svm"
    parameters: ClassVar = {"C": [0.01, 0.1, 1.0]}
    min_benchopt_version = "1.5"

    def set_data(self, X, y, X_test=None, y_test=None):
        self.X, self.y = X, y
        self.X_test, self.y_test = X_test, y_test
        self.n_classes = int(y.max()) + 1

    def get_objective(self):
        return {"X": self.X, "y": self.y, "C": self.C, "X_test": self.X_test}

    def evaluate_result(self, W, labels=None):
        """W has one row per class; ``labels`` of the test rows where they do not come from W."""
        W = np.asarray(W, dtype=np.float64)
        scores = np.asarray(self.X @ W.T)
        rows = np.arange(len(self.y))
        own = scores[rows, self.y].copy()
        scores += 1.0
        scores[rows, self.y] = own
        slack = scores.max(axis=1) - own
        result = {"value": 0.5 * float((W**2).sum()) + self.C * float(slack.sum())}
        if self.X_test is not None:
            if labels is None:
                labels = np.asarray(self.X_test @ W.T).argmax(axis=1)
            result["test_error"] = float(np.mean(labels != self.y_test))
        return result

    def get_one_result(self):
        return {"W": np.zeros((self.n_classes, self.X.shape[1]))}
