"""The regularisation path: a record of certified models over a range of C."""

from polymargin.selection.path.path_record import RegularizationPath, regularization_path

__all__ = ["RegularizationPath", "regularization_path"]
