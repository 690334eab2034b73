"""The regularisation path: a record of certified models over a range of C."""

from polymargin.path.record import RegularizationPath, regularization_path

__all__ = ["RegularizationPath", "regularization_path"]
