"""Gaussian clouds, dense or sparse."""

from typing import ClassVar

import scipy.sparse as sp
from benchopt import BaseDataset
from sklearn.datasets import make_classification


class Dataset(BaseDataset):
    """``n_classes`` clouds in ``n_features`` dimensions."""

    name = "simulated"
    parameters: ClassVar = {
        "n_samples, n_features, n_classes": [(2000, 50, 5), (20000, 50, 20)],
        "sparse": [False, True],
    }

    def get_data(self):
        X, y = make_classification(
            self.n_samples, self.n_features, n_informative=self.n_features // 2,
            n_classes=self.n_classes, n_clusters_per_class=1, random_state=0,
        )  # fmt: skip
        if self.sparse:
            X = sp.csr_matrix(X * (abs(X) > 1.0))
        return {"X": X, "y": y}
