"""Digits of scikit-learn, 64 pixels in [0, 1], ten classes."""

from benchopt import BaseDataset
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


class Dataset(BaseDataset):
    """1347 rows for training, 450 for the test error."""

    name = "digits"

    def get_data(self):
        X, y = load_digits(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X / 16.0, y, random_state=0)
        return {"X": X, "y": y, "X_test": X_test, "y_test": y_test}
