"""The kernel table: blocks of kernel values, diagonals, and what is known of definiteness.

Every kernel is evaluated on blocks by BLAS and NumPy, in the dtype of its operands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["KERNELS", "Kernel", "resolve_gamma", "sparse_block", "squared_norms"]

Block = np.ndarray


def sparse_block(X: Any) -> int:
    """Rows of a CSR matrix that hold about 2 MB: slices and upcasts of them stay small."""
    per_row = X.nnz / max(1, X.shape[0])
    return max(64, int(170_000 / max(per_row, 1.0)))


def squared_norms(X: Any) -> np.ndarray:
    """Squared norms of the rows of X in float64, without a float64 copy of X."""
    if sp.issparse(X):
        norms = np.zeros(X.shape[0])
        step = sparse_block(X)
        for start in range(0, X.shape[0], step):
            ends = X.indptr[start : start + step + 1]
            data = X.data[ends[0] : ends[-1]].astype(np.float64)
            owner = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
            norms[start : start + step] = np.bincount(owner, data * data, len(ends) - 1)
        return norms
    if X.dtype == np.float64:
        return np.einsum("ij,ij->i", X, X)
    norms = np.empty(X.shape[0])
    for start in range(0, X.shape[0], 4096):
        rows = X[start : start + 4096].astype(np.float64)
        norms[start : start + 4096] = np.einsum("ij,ij->i", rows, rows)
    return norms


def _inner_products(A: Any, B: Any) -> Block:
    products = A @ B.T
    return products.toarray() if sp.issparse(products) else np.asarray(products)


def _linear(kernel: Kernel, A: Any, B: Any, a: np.ndarray, b: np.ndarray) -> Block:
    return _inner_products(A, B)


def _rbf(kernel: Kernel, A: Any, B: Any, a: np.ndarray, b: np.ndarray) -> Block:
    G = _inner_products(A, B)
    dtype = G.dtype
    G *= dtype.type(2.0 * kernel.gamma)
    G -= (kernel.gamma * a).astype(dtype)[:, None]
    G -= (kernel.gamma * b).astype(dtype)[None, :]
    np.minimum(G, 0.0, out=G)
    return np.exp(G, out=G)


def _poly(kernel: Kernel, A: Any, B: Any, a: np.ndarray, b: np.ndarray) -> Block:
    G = _inner_products(A, B)
    G *= G.dtype.type(kernel.gamma)
    G += G.dtype.type(kernel.coef0)
    return np.power(G, G.dtype.type(kernel.degree), out=G)


def _sigmoid(kernel: Kernel, A: Any, B: Any, a: np.ndarray, b: np.ndarray) -> Block:
    G = _inner_products(A, B)
    G *= G.dtype.type(kernel.gamma)
    G += G.dtype.type(kernel.coef0)
    return np.tanh(G, out=G)


@dataclass(frozen=True)
class KernelRow:
    """One row of the kernel table.

    Attributes
    ----------
    block : callable
        ``block(kernel, A, B, a, b)``: values between the rows of A and of B, whose squared norms
        are a and b.
    diagonal : callable
        ``diagonal(kernel, a)``: kappa(x, x) from the squared norms.
    is_psd : callable
        ``is_psd(kernel)``: True where theory says positive semi-definite, None where it is silent.
    """

    block: Callable[..., Block]
    diagonal: Callable[[Kernel, np.ndarray], np.ndarray]
    is_psd: Callable[[Kernel], bool | None]


def _poly_is_psd(kernel: Kernel) -> bool | None:
    whole = float(kernel.degree).is_integer() and kernel.degree >= 0
    return True if whole and kernel.coef0 >= 0 and kernel.gamma >= 0 else None


KERNELS: dict[str, KernelRow] = {
    "linear": KernelRow(_linear, lambda kernel, a: a.copy(), lambda kernel: True),
    "rbf": KernelRow(_rbf, lambda kernel, a: np.ones_like(a), lambda kernel: True),
    "poly": KernelRow(
        _poly, lambda kernel, a: (kernel.gamma * a + kernel.coef0) ** kernel.degree, _poly_is_psd
    ),
    "sigmoid": KernelRow(
        _sigmoid, lambda kernel, a: np.tanh(kernel.gamma * a + kernel.coef0), lambda kernel: None
    ),
}


@dataclass(frozen=True)
class Kernel:
    """A kernel with its parameters; ``offset`` is the constant of a penalised intercept.

    kappa(x, z) + offset, with kappa from the table, a callable, or a precomputed matrix.
    """

    name: str
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 0.0
    offset: float = 0.0
    function: Callable[[Any, Any], Any] | None = None

    @property
    def is_linear(self) -> bool:
        return self.name == "linear"

    @property
    def is_psd(self) -> bool | None:
        """True where theory guarantees it, None where the matrix itself must be looked at."""
        return KERNELS[self.name].is_psd(self) if self.name in KERNELS else None

    def folded(self) -> tuple[Kernel, float]:
        """The same kernel with gamma = 1 on data multiplied by a factor.

        sqrt(gamma) x stays in the range of float32 where x or gamma alone may not.
        """
        if self.name not in ("rbf", "poly", "sigmoid"):
            return self, 1.0
        return replace(self, gamma=1.0), float(np.sqrt(self.gamma))

    def block(self, A: Any, B: Any, a: np.ndarray | None, b: np.ndarray | None) -> Block:
        """Kernel values (offset included) between the rows of A and B.

        For "precomputed", A is the block of rows and B the column numbers.
        """
        if self.name == "precomputed":
            # in float64 (and a copy) where something is added: given numbers must not be rounded
            G = A[:, B].astype(np.float64) if self.offset else A[:, B]
        elif self.function is not None:
            try:
                G = np.array(self.function(A, B), dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"kernel: the callable failed or returned no matrix of numbers ({error})."
                ) from error
            if G.shape != (A.shape[0], B.shape[0]):
                raise ValueError(
                    f"kernel: the callable returned shape {G.shape} for {A.shape[0]} and "
                    f"{B.shape[0]} rows; it must return one value for every pair of rows."
                )
            if not np.isfinite(G).all():
                raise ValueError("kernel: the callable returned NaN or infinity.")
        else:
            G = KERNELS[self.name].block(self, A, B, a, b)
        if self.offset:
            G += G.dtype.type(self.offset)
        return G

    def diagonal(self, X: Any, norms: np.ndarray | None) -> np.ndarray:
        """kappa(x_i, x_i) + offset for every row, in float64."""
        if self.name == "precomputed":
            values = np.asarray(X.diagonal(), dtype=np.float64)
        elif self.function is not None:
            values = np.concatenate(
                [self.block(X[i : i + 1], X[i : i + 1], None, None)[0] for i in range(X.shape[0])]
            )
            return values  # block() added the offset already
        else:
            assert norms is not None
            values = KERNELS[self.name].diagonal(self, norms)
        return values + self.offset


def resolve_gamma(gamma: float | str, X: Any, weight: np.ndarray | None = None) -> float:
    """The number behind "scale" (1 / (d var X), rows counted by weight) and "auto" (1 / d)."""
    if gamma == "scale":
        variance = _variance(X, weight)
        return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
    if gamma == "auto":
        return 1.0 / X.shape[1]
    return float(gamma)


def _variance(X: Any, weight: np.ndarray | None) -> float:
    """Variance over all entries of X, a row of weight 2 counting twice."""
    w = np.ones(X.shape[0]) if weight is None else weight
    cells = w.sum() * X.shape[1]
    if sp.issparse(X):
        mean = float(w @ np.asarray(X.sum(axis=1)).ravel()) / cells
        # (x - mean)^2 over the stored entries, mean^2 over the zeros
        stored = np.repeat(w, np.diff(X.indptr))
        centred = X.data.astype(np.float64) - mean
        return float(stored @ (centred * centred) + (cells - stored.sum()) * mean**2) / cells
    if weight is None:
        return float(X.var(dtype=np.float64))
    mean = float(w @ X.sum(axis=1, dtype=np.float64)) / cells
    total = 0.0
    for start in range(0, X.shape[0], 4096):
        centred = X[start : start + 4096] - np.float64(mean)
        total += float(w[start : start + 4096] @ np.einsum("ij,ij->i", centred, centred))
    return total / cells
