"""Points under a kernel in float64: blocks of kernel values as exact as the digits allow.

Distances do not see where the origin lies, so it is put where least is lost: linear and RBF kernels
get centred data, and RBF values come without their constant, exp(-gamma d^2) - 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.problem.kernels import Kernel, scaled, squared_norms

__all__ = ["KernelPoints"]


class KernelPoints:
    """Rows of X (or of a precomputed matrix) with their kernel.

    Attributes
    ----------
    kernel : Kernel
    X : the data in float64, centred where distances allow it; the matrix for "precomputed".
    norms : (n,) squared norms of these rows, or None.
    level : float
        What ``block`` leaves away from every kernel value: distances stay what they are.
    """

    def __init__(self, kernel: Kernel, X: Any) -> None:
        self.kernel = kernel
        self.level = 1.0 if kernel.name == "rbf" else 0.0
        self.norms: np.ndarray | None = None
        self.X = X
        if kernel.name == "precomputed" or kernel.function is not None:
            return
        per_feature = isinstance(kernel.gamma, np.ndarray)
        if kernel.name in ("linear", "rbf") and not sp.issparse(X):
            X = X - X.mean(axis=0, dtype=np.float64)
        self.X = scaled(X, np.sqrt(kernel.gamma) if per_feature else 1.0)
        self.scale = 1.0 if per_feature else float(kernel.gamma)
        self.norms = squared_norms(self.X)

    @property
    def n_points(self) -> int:
        return int(self.X.shape[0])

    def diagonal(self) -> np.ndarray:
        """kappa(x_i, x_i) less the level."""
        if self.kernel.name == "rbf":
            return np.zeros(self.n_points)
        return self.kernel.diagonal(self.X, self.norms)

    def squared_distances(self, rows: Any, columns: Any) -> np.ndarray:
        """Of RBF kernels: gamma ||x_i - x_j||^2 (ARD: the widths are in the data)."""
        assert self.norms is not None
        D = self.products(rows, columns)
        D *= -2.0
        D += self.norms[rows][:, None]
        D += self.norms[columns][None, :]
        np.maximum(D, 0.0, out=D)
        D *= self.scale
        return D

    def products(self, rows: Any, columns: Any) -> np.ndarray:
        """Inner products."""
        found = self.X[rows] @ self.X[columns].T
        return np.asarray(found.toarray() if sp.issparse(found) else found)

    def block(self, rows: Any, columns: Any) -> np.ndarray:
        """Kernel values less the level, between two sets of points."""
        if self.kernel.name == "rbf":
            D = self.squared_distances(rows, columns)
            return np.expm1(np.negative(D, out=D), out=D)
        if self.kernel.name == "precomputed":
            return np.asarray(self.X[rows][:, columns], dtype=np.float64)
        a = b = None
        if self.norms is not None:
            a, b = self.norms[rows], self.norms[columns]
        return np.asarray(self.kernel.block(self.X[rows], self.X[columns], a, b), dtype=np.float64)
