"""Support vectors as integers, and coefficients that make up for their rounding."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from polymargin.export.model_record import ExportModel
from polymargin.problem.kernels import Kernel, squared_norms

__all__ = ["KernelSums", "changed_classes", "corrected_coefficients", "quantise_columns"]

_RIDGE = 1e-7  # times the mean of kappa(v, v)
_MOST_WORK = 3e11  # floating point operations, half a minute or less
_LARGEST_BLOCK = 6000  # support vectors of one prototype
_SAMPLE = 300


def quantise_columns(values: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Integers and one step per column: values are about integer * step."""
    step = np.abs(values).max(axis=0, initial=0.0) / np.iinfo(dtype).max
    step[step == 0.0] = 1.0
    return np.rint(values / step).astype(dtype), step


def corrected_coefficients(
    record: ExportModel, vectors: np.ndarray, rounded: np.ndarray, tau: np.ndarray
) -> tuple[np.ndarray, list[str]]:
    """Coefficients with which the rounded support vectors come closest to the model.

    Rounding moves every support vector, and the kernel functions of the moved ones no longer
    cancel as those of the others did.  The best coefficients in the norm of the kernel's space
    solve K' t' = K'' t, with kernel values K' among rounded vectors and K'' between rounded and
    original ones; each prototype keeps the support vectors it has.

    Parameters
    ----------
    record : ExportModel
    vectors, rounded : ndarray of shape (n_support, n_features)
        With sqrt(gamma) folded in.
    tau : ndarray of shape (n_support, R)

    Returns
    -------
    coefficients : ndarray of shape (n_support, R)
    remarks : list of str
    """
    if record.kernel == "sigmoid":
        return tau, []  # no norm to be close in
    members = [np.flatnonzero(column) for column in tau.T]
    sizes = np.array([len(one) for one in members], dtype=np.float64)
    work = (sizes**3 / 3.0).sum() + 4.0 * (sizes**2).sum() * vectors.shape[1]
    if work > _MOST_WORK or sizes.max() > _LARGEST_BLOCK:
        return tau, ["The model is too large for coefficients fitted to the rounded vectors."]
    kernel = _folded_kernel(record)
    found = tau.copy()
    for r, mine in enumerate(members):
        if len(mine):
            found[mine, r] += _change(kernel, vectors[mine], rounded[mine], tau[mine, r])
    return found, ["Coefficients are fitted to the rounded support vectors."]


def _change(kernel: Kernel, V: np.ndarray, rounded: np.ndarray, t: np.ndarray) -> np.ndarray:
    """What to add to the coefficients t of one prototype."""
    z = squared_norms(rounded)
    K = kernel.block(rounded, rounded, z, z)
    lack = kernel.block(rounded, V, z, squared_norms(V)) @ t - K @ t
    ridge = _RIDGE * float(np.abs(np.diag(K)).mean())
    try:
        change = scipy.linalg.solve(K + ridge * np.eye(len(t)), lack, assume_a="pos")
    except np.linalg.LinAlgError:
        return np.zeros_like(t)
    return change if np.isfinite(change).all() else np.zeros_like(t)


def _folded_kernel(record: ExportModel) -> Kernel:
    return Kernel(record.kernel, 1.0, record.degree, record.coef0)


class KernelSums:
    """Sums over support vectors at some of these, to see what rounding does to them."""

    def __init__(self, record: ExportModel, vectors: np.ndarray, tau: np.ndarray) -> None:
        rows = np.linspace(0, len(vectors) - 1, min(_SAMPLE, len(vectors))).astype(np.intp)
        self.kernel = _folded_kernel(record)
        self.points = vectors[rows]
        self.K = self._values(vectors)
        self.tau = tau
        self.sums = self.K @ tau
        self.spread = np.maximum(self.sums.std(axis=0), 1e-300)

    def _values(self, vectors: np.ndarray) -> np.ndarray:
        norms = squared_norms(self.points), squared_norms(vectors)
        return self.kernel.block(self.points, vectors, *norms)

    @np.errstate(over="ignore", invalid="ignore")
    def cancellation(self) -> float:
        """How much larger the terms of a sum are than what is left of them."""
        return float(((np.abs(self.K) @ np.abs(self.tau)).mean(axis=0) / self.spread).max())

    @np.errstate(over="ignore", invalid="ignore")
    def error(self, tau: np.ndarray, vectors: np.ndarray | None = None) -> float:
        """Error with other coefficients (and vectors), as a share of the spread of the sums."""
        K = self.K if vectors is None else self._values(vectors)
        error = K @ tau - self.sums
        return float((np.sqrt((error**2).mean(axis=0)) / self.spread).max())


def changed_classes(
    record: ExportModel, vectors: np.ndarray, written: tuple[np.ndarray, np.ndarray]
) -> float:
    """Share of points whose class changes with the rounded numbers.

    The points are support vectors and middles of two of them: no training rows are needed, and
    where sums of large terms cancel, what rounding leaves of them shows there.

    Parameters
    ----------
    record : ExportModel
    vectors : ndarray of shape (n_support, n_features)
        With sqrt(gamma) folded in, before rounding.
    written : (vectors, coefficients)
        As the tables have them.
    """
    assert record.coefficients is not None
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, len(vectors), (2, _SAMPLE))
    middles = 0.5 * (vectors[first] + vectors[second])
    rows = np.linspace(0, len(vectors) - 1, min(_SAMPLE, len(vectors))).astype(np.intp)
    points = np.vstack([vectors[rows], middles])
    exact = _classes(record, points, vectors, record.coefficients)
    return float((_classes(record, points, *written) != exact).mean())


def _classes(
    record: ExportModel, points: np.ndarray, vectors: np.ndarray, tau: np.ndarray
) -> np.ndarray:
    """Class numbers of points."""
    norms = squared_norms(points), squared_norms(vectors)
    scores = _folded_kernel(record).block(points, vectors, *norms) @ tau + record.intercepts
    if record.is_difference:
        return (scores[:, 0] > 0.0).astype(np.int64)
    return np.asarray(record.prototype_class[scores.argmax(axis=1)])
