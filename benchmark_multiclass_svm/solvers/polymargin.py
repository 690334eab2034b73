"""polymargin: block descent, stopped by its duality gap."""

import warnings
from typing import ClassVar

from benchopt import BaseSolver

from polymargin import MulticlassSVC


class Solver(BaseSolver):
    """``MulticlassSVC(machine="cs", intercept="none")``."""

    name = "polymargin"
    sampling_strategy = "tolerance"
    install_cmd = "conda"
    requirements: ClassVar = ["pip::polymargin"]

    def set_objective(self, X, y, C, X_test):
        self.X, self.y, self.C = X, y, C

    def warm_up(self):
        self.run(1.0)  # compiles

    def run(self, tolerance):
        model = MulticlassSVC(
            C=self.C, intercept="none", tol=max(tolerance, 1e-12), max_iter=10**6, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.W = model.fit(self.X, self.y).coef_

    def get_result(self):
        return {"W": self.W}
