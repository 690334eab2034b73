"""The kernel table: blocks of kernel values, diagonals, and what is known of definiteness.

Every kernel is evaluated on blocks by BLAS and NumPy, in the dtype of its operands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.compiled.gaussian import gaussian_in_place
from polymargin.compiled.simd import HAS_VECTORS
from polymargin.compiled.tiles import gaussian_tiles, pack, panel_width
from polymargin.exceptions import NoScoresError, shown

__all__ = [
    "EACH",
    "IN_PLACE",
    "KERNELS",
    "Kernel",
    "dense_scores",
    "is_gaussian",
    "resolve_gamma",
    "scaled",
    "sparse_block",
    "squared_norms",
]

Block = np.ndarray

_LONG_ROW = 128
EACH = "each"
"""Name of a list of kernels, one per prototype of a class (see ``own_kernel_lists``)."""
_FEWEST = 16
"""Rows on both sides from which on tiles are worth their panels."""
IN_PLACE = 250_000
"""Multiplications that OpenBLAS does without packing its operands first (its limit: a million)."""


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
            with np.errstate(all="ignore"):  # who asks will see what overflowed
                norms[start : start + step] = np.bincount(owner, data * data, len(ends) - 1)
        return norms
    norms = np.empty(X.shape[0])
    step = 4096 if X.dtype != np.float64 else max(X.shape[0], 1)
    with np.errstate(all="ignore"):  # who asks will see what overflowed
        for start in range(0, X.shape[0], step):
            rows = X[start : start + step].astype(np.float64, copy=False)
            np.vecdot(rows, rows, out=norms[start : start + step])
    return norms


def dense_scores(W: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Inner products (R, k) of the rows of W and X.

    With long rows and few W a product waits for the memory of X, and packing X first costs a
    quarter of the time: small pieces spare it.
    """
    piece = IN_PLACE // max(W.size, 1)
    if X.shape[1] < _LONG_ROW or piece < 16 or len(X) < 2 * piece:
        return np.asarray(W @ X.T)
    whole = len(X) - len(X) % piece
    scores = np.empty((len(X), len(W)), dtype=np.result_type(W, X))
    pieces = scores[:whole].reshape(-1, piece, len(W))
    np.matmul(X[:whole].reshape(-1, piece, X.shape[1]), W.T, out=pieces)
    np.matmul(X[whole:], W.T, out=scores[whole:])
    return np.ascontiguousarray(scores.T)


def scaled(X: Any, factor: Any) -> Any:
    """X times a number, or every column of X times its own, in float64."""
    X = X.astype(np.float64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # callers look
        if sp.issparse(X) and np.ndim(factor):
            return sp.csr_matrix(X.multiply(np.asarray(factor)[None, :]))
        return X * factor


def is_gaussian(kernel: Kernel, X: Any) -> bool:
    """Whether kernel values of these rows can be made in tiles (``compiled.tiles``)."""
    return (
        kernel.name == "rbf"
        and isinstance(X, np.ndarray)
        and X.ndim == 2
        and X.dtype in (np.float32, np.float64)
        and not isinstance(kernel.gamma, np.ndarray)
        and HAS_VECTORS
    )


def _inner_products(A: Any, B: Any) -> Block:
    products = A @ B.T
    return products.toarray() if sp.issparse(products) else np.asarray(products)


def _linear(kernel: Kernel, A: Any, B: Any, a: np.ndarray, b: np.ndarray) -> Block:
    return _inner_products(A, B)


def _rbf(kernel: Kernel, A: Any, B: Any, a: np.ndarray, b: np.ndarray) -> Block:
    gamma = kernel.gamma
    if isinstance(gamma, np.ndarray):  # one width per feature: they go into the data
        factor, dtype = np.sqrt(gamma), A.dtype
        A, B = scaled(A, factor), scaled(B, factor)
        gamma, a, b = 1.0, squared_norms(A), squared_norms(B)
        A, B = A.astype(dtype, copy=False), B.astype(dtype, copy=False)
    has_tiles = min(A.shape[0], B.shape[0]) >= _FEWEST and A.dtype == B.dtype
    if has_tiles and is_gaussian(kernel, A) and is_gaussian(kernel, B):
        G = np.empty((len(A), len(B)), dtype=A.dtype)
        panels = pack(B, panel_width(B.dtype))
        A = np.ascontiguousarray(A)
        gaussian_tiles(A, panels, 2.0 * gamma, gamma * a, gamma * b, 0, len(B), G)
        return G
    G = np.ascontiguousarray(_inner_products(A, B))
    return gaussian_in_place(G, 2.0 * gamma, gamma * a, gamma * b)


def _poly(kernel: Kernel, A: Any, B: Any, a: np.ndarray, b: np.ndarray) -> Block:
    G = _inner_products(A, B)
    G *= G.dtype.type(kernel.gamma)
    G += G.dtype.type(kernel.coef0)
    if not float(kernel.degree).is_integer() and G.size and G.min() < 0.0:
        raise NoScoresError(
            f"degree: gamma <x, z> + coef0 is negative for some rows of X, so its power "
            f"{kernel.degree:g} is not a number; use a whole degree, or a larger coef0."
        )
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

    kappa(x, z) + offset, with kappa from the table, a callable, a precomputed matrix, or ("sum")
    the weighted sum of ``parts``, see ``kernel_sums``.  ``gamma`` may be an array for "rbf": one
    width per feature, exp(-sum_f gamma_f (x_f - z_f)^2).
    """

    name: str
    gamma: Any = 1.0
    degree: float = 3
    coef0: float = 0.0
    offset: float = 0.0
    function: Callable[[Any, Any], Any] | None = None
    parts: tuple[tuple[float, Kernel], ...] = ()

    @property
    def is_linear(self) -> bool:
        return self.name == "linear"

    @property
    def is_psd(self) -> bool | None:
        """True where theory guarantees it, None where the matrix itself must be looked at."""
        if self.parts:
            return True if all(part.is_psd for beta, part in self.parts if beta) else None
        return KERNELS[self.name].is_psd(self) if self.name in KERNELS else None

    def folded(self) -> tuple[Kernel, Any]:
        """The same kernel with gamma = 1 on data multiplied by a factor (see ``scaled``).

        sqrt(gamma) x stays in the range of float32 where x or gamma alone may not.
        """
        if self.name not in ("rbf", "poly", "sigmoid"):
            return self, 1.0
        factor = np.sqrt(self.gamma)
        return replace(self, gamma=1.0), factor if np.ndim(factor) else float(factor)

    def block(self, A: Any, B: Any, a: np.ndarray | None, b: np.ndarray | None) -> Block:
        """Kernel values (offset included) between the rows of A and B.

        For "precomputed", A is the block of rows and B the column numbers.
        """
        if self.name == EACH:
            raise _no_common_values()
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
        elif self.parts:
            G = sum(
                part.block(A, B, a, b) * A.dtype.type(beta) for beta, part in self.parts if beta
            )
        else:
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # callers look
                G = KERNELS[self.name].block(self, A, B, a, b)
        if self.offset:
            G += G.dtype.type(self.offset)
        return G

    def diagonal(self, X: Any, norms: np.ndarray | None) -> np.ndarray:
        """kappa(x_i, x_i) + offset for every row, in float64."""
        if self.name == EACH:
            raise _no_common_values()
        if self.name == "precomputed":
            values = np.asarray(X.diagonal(), dtype=np.float64)
        elif self.function is not None:
            values = np.concatenate(
                [self.block(X[i : i + 1], X[i : i + 1], None, None)[0] for i in range(X.shape[0])]
            )
            return values  # block() added the offset already
        elif self.parts:
            terms = [beta * part.diagonal(X, norms) for beta, part in self.parts if beta]
            values = np.sum(terms, axis=0)
        else:
            assert norms is not None
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                values = KERNELS[self.name].diagonal(self, norms)
        return values + self.offset


def _no_common_values() -> ValueError:
    return ValueError(
        "kernel: a list gives every prototype of a class a kernel of its own, which this function "
        "does not know; use one kernel for all prototypes."
    )


def resolve_gamma(gamma: Any, X: Any, weight: np.ndarray | None = None) -> Any:
    """The number behind "scale" (1 / (d var X), rows counted by weight) and "auto" (1 / d).

    An array of one width per feature comes back as a float64 copy, checked.
    """
    if isinstance(gamma, str):
        if gamma == "scale":
            return _inverse_variance(X, weight)
        if gamma == "auto":
            return 1.0 / X.shape[1]
        raise ValueError(f"gamma must be > 0, 'scale' or 'auto', got {shown(gamma)}.")
    try:
        widths = np.array(gamma, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"gamma must be > 0, 'scale' or 'auto', got {shown(gamma)}.") from None
    if not (np.isfinite(widths).all() and (widths > 0.0).all()):
        raise ValueError(f"gamma must be a finite number > 0 (each width too), got {shown(gamma)}.")
    if widths.ndim == 0:
        return float(widths)
    if widths.shape != (X.shape[1],):
        raise ValueError(
            f"gamma: one width per feature is an array of shape ({X.shape[1]},), "
            f"got shape {widths.shape}."
        )
    return widths


def _inverse_variance(X: Any, weight: np.ndarray | None) -> float:
    """1 / (d var X), or 1 where all entries are equal."""
    with np.errstate(all="ignore"):
        variance = _variance(X, weight)
        if variance == 0.0:
            return 1.0
        gamma = float(np.float64(1.0) / (X.shape[1] * np.float64(variance)))
    if not 0.0 < gamma < np.inf:
        raise ValueError(
            f"X: gamma='scale' is 1 / (n_features * variance of X), and no double holds that of a "
            f"variance of {variance:.3g}; scale the features of X, or give gamma as a number."
        )
    return gamma


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
