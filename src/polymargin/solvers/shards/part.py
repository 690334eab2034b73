"""From a block of rows to the problem of a shard: what every part of the data must agree on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.problem.kernels import Kernel
from polymargin.problem.machines import Machine
from polymargin.problem.problem import Problem
from polymargin.problem.validation import canonical, well_formed

__all__ = ["LinearSpec", "fingerprint"]


@dataclass(frozen=True)
class LinearSpec:
    """A linear training problem without its rows.

    Attributes
    ----------
    machine : Machine
    offset : float
        Square of the constant feature of a penalised intercept, 0 without one.
    C : float
    classes : (Q,) sorted labels of all parts.
    class_factor : (Q,) weight of the examples of each class.
    n_features : int
    """

    machine: Machine
    offset: float
    C: float
    classes: np.ndarray
    class_factor: np.ndarray
    n_features: int

    @property
    def shape(self) -> tuple[int, int]:
        """Of the prototypes."""
        return len(self.classes), self.n_features

    def problem(self, X: Any, y: Any, weight: Any = None) -> Problem:
        """The problem of some rows; rows without weight are left out."""
        X, y = _rows(X), np.asarray(y).reshape(-1)
        if X.shape != (len(y), self.n_features):
            raise ValueError(
                f"X: a part has shape {X.shape}, but its y has {len(y)} labels and the first part "
                f"{self.n_features} features; give every part the same columns."
            )
        label = self.labels(y)
        cap = self.C * self.class_factor[label]
        if weight is not None:
            cap = cap * np.asarray(weight, dtype=np.float64).reshape(-1)
        if len(cap) and not (cap >= 0.0).all():
            raise ValueError("sample_weight must not be negative; drop those examples instead.")
        kept = np.flatnonzero(cap > 0.0)
        if len(kept) < len(label):
            X, label, cap = X[kept], label[kept], cap[kept]
        kernel = Kernel("linear", 1.0, 3.0, 0.0, self.offset, None)
        classes = np.arange(len(self.classes))
        return Problem(self.machine, kernel, X, label, cap, label, classes, kernel_psd=True)

    def labels(self, y: np.ndarray) -> np.ndarray:
        """Class numbers of labels; an unknown one is refused."""
        place = np.minimum(np.searchsorted(self.classes, y), len(self.classes) - 1)
        unknown = np.flatnonzero(self.classes[place] != y)
        if len(unknown):
            raise ValueError(
                f"y has the label {y[unknown[0]]!r}, which is not among the classes; name all "
                "classes in `classes`."
            )
        return place.astype(np.int64)


def _rows(X: Any) -> Any:
    """Checked rows as the compiled loops take them: C-ordered float arrays or sorted CSR."""
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if sp.issparse(X):
        X = canonical(well_formed(X.tocsr()))
    else:
        X = np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"X: a part must have two dimensions, got shape {X.shape}.")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if not sp.issparse(X):
        X = np.ascontiguousarray(X)
    if not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise ValueError("X contains NaN or infinity; impute or drop those rows.")
    return X


def fingerprint(problem: Problem) -> str:
    """A digest of rows, labels and caps: dual variables belong to exactly these."""
    digest = hashlib.sha256()
    X = problem.X
    arrays = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
    for array in (*arrays, problem.label, problem.cap):
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
